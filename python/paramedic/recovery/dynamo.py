"""Functions that torch.compile traces get back the code as written.

It compiles bytecode, and must see the job's own: otherwise graphs would break at what the transform
adds. A function is left alone from the moment at which it is handed to the compiler, or met inside
another one that is. Attached when `torch._dynamo` is first imported.
"""

from __future__ import annotations

import types
from typing import Any

from paramedic.recovery import loader


def attach(module: Any) -> None:
    """Called with `torch._dynamo` once it is imported."""
    if loader.project() is None:
        return
    from torch._dynamo import eval_frame, utils
    from torch._dynamo.variables import functions

    from paramedic.recovery.runtime import Runtime

    _before(eval_frame._TorchDynamoContext, "__call__")
    _before(functions.UserFunctionVariable, "__init__")
    # Met where a graph has broken before: it breaks again rather than raises.
    utils.common_constant_types.add(Runtime)


def _before(kind: Any, name: str) -> None:
    genuine = getattr(kind, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        leave_alone(args[0] if args else kwargs.get("fn"))
        return genuine(self, *args, **kwargs)

    call.__name__, call.__qualname__ = genuine.__name__, genuine.__qualname__
    setattr(kind, name, call)


def leave_alone(function: Any) -> None:
    """Gives a function, or the methods of a module and its parts, the code as written."""
    try:
        if isinstance(function, types.MethodType):
            function = function.__func__
        if isinstance(function, types.FunctionType):
            _restore(function)
            return
        parts = getattr(function, "modules", None)
        for part in parts() if callable(parts) else ():
            for name in ("forward", "__call__"):
                method = getattr(type(part), name, None)
                if isinstance(method, types.FunctionType):
                    _restore(method)
    except Exception as error:
        from paramedic.recovery import runtime

        runtime.note("a compiled function", error)


def _restore(function: types.FunctionType) -> None:
    from paramedic.recovery import runtime as runtime_of

    runtime = runtime_of.of_code(function.__code__)
    found = runtime.source.of_code(function.__code__) if runtime is not None else None
    if found is None:
        return
    function.__code__ = found.code
    runtime_of.left_alone(found.qualname, "torch.compile")
