"""Functional collectives (`torch.distributed._functional_collectives`), which DTensor uses.

They end in operators of torch, not in methods of a group. torch.compile traces into them: what is
put in their place sees that first and calls the genuine function, so that nothing of it is in the
compiled code.
"""

import functools
from typing import Any, Callable

from paramedic.adapters.torch.session import Session

# Function -> operation; each is called with the tensor (or tensors) first and has a `group`.
FUNCTIONS = {
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "all_gather_tensor": "all_gather_into_tensor",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "all_to_all_single": "all_to_all_single",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
}


def wrap_functional(
    module: Any,
    session: Session,
    enter: Callable[[str, str, Any], Any],
    leave: Callable[[Any], None],
) -> None:
    """Replaces the functions of the module; `enter` answers what `leave` gets."""
    tap = session.tap("functional collectives")
    is_compiling = session.torch.compiler.is_compiling

    def wrapped(genuine: Any, operation: str) -> Any:
        names = genuine.__code__.co_varnames[: genuine.__code__.co_argcount]
        at = names.index("group")

        @functools.wraps(genuine)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return genuine(*args, **kwargs)
            entry = None
            if tap.on and session.probe is not None:
                try:
                    group = args[at] if len(args) > at else kwargs["group"]
                    name = module._resolve_group_name(group, kwargs.get("tag", ""))
                    entry = enter(name, operation, args[0])
                except Exception as error:
                    tap.fail(error)
            if entry is None:
                return genuine(*args, **kwargs)
            try:
                return genuine(*args, **kwargs)
            finally:
                leave(entry)

        return call

    for name, operation in FUNCTIONS.items():
        genuine = getattr(module, name, None)
        if genuine is not None and "group" in genuine.__code__.co_varnames:
            setattr(module, name, wrapped(genuine, operation))
