"""Finds the models that a job trains, and names their parameters and modules, with no user code.

From attach until the models of all known optimizers are found a global pre-hook sees each module's
first call: it gives the roots (called modules that are part of no other), the order of the forward
pass, and the variable that holds a root. What no call showed (compiled code, an optimizer that
steps before any forward) is looked for among the modules that were constructed.
"""

import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from paramedic.adapters.common.source import Source, names_of, place
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.origins import Origins, Place
from paramedic.adapters.torch.session import Session

# First calls watched while no optimizer is there: then the job does not train.
MAX_CALLS_WITHOUT_OPTIMIZER = 1000
_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"}


def unwrap(module: Any) -> Any:
    """The user's module inside DDP, DataParallel, FSDP and torch.compile wrappers."""
    while True:
        kind = type(module).__name__
        if kind == "OptimizedModule":
            module = module._orig_mod
        elif kind in _WRAPPERS and isinstance(getattr(module, "module", None), object):
            module = module.module
        else:
            return module


def walk(module: Any, name: str = "", seen: Optional[Set[int]] = None) -> Iterator[Tuple[str, Any]]:
    """(name, module) of `module` and all inside it, each once, wrappers left out of the names."""
    seen = set() if seen is None else seen
    module = unwrap(module)
    if id(module) in seen:
        return
    seen.add(id(module))
    yield name, module
    for child_name, child in module._modules.items():
        if child is not None:
            yield from walk(child, f"{name}.{child_name}" if name else child_name, seen)


class Root:
    """A model: the outermost module that the job calls."""

    def __init__(self, module: Any, prefix: str, variable: str) -> None:
        self.reference = weakref.ref(module)
        self.prefix = prefix
        self.variable = variable

    def name(self, inner: str) -> str:
        """The name in the run of what is called `inner` inside the model."""
        if not self.prefix:
            return inner
        return f"{self.prefix}.{inner}" if inner else self.prefix


class Call:
    """The first call of a module."""

    __slots__ = ("order", "place", "reference", "variable")

    def __init__(self, module: Any, order: int, spot: Place, variable: str) -> None:
        self.reference = weakref.ref(module)
        self.order = order
        self.place = spot
        self.variable = variable


class Models:
    """The models of the process, and the names of everything in them."""

    def __init__(self, session: Session, source: Source, origins: Origins) -> None:
        self._session = session
        self._source = source
        self._origins = origins
        self._tap = session.tap("models")
        self.roots: List[Root] = []
        self.calls: Dict[int, Call] = {}
        # id -> (reference, name, root); of modules and of parameters.
        self._modules: Dict[int, Tuple["weakref.ref[Any]", str, Root]] = {}
        self._parameters: Dict[int, Tuple["weakref.ref[Any]", str]] = {}
        self._inside: Set[int] = set()
        self._nameless = 0
        # Set by the steps: the optimizers alive, and what to do once names are known.
        self.optimizers: Callable[[], List[Any]] = list
        self.on_found: List[Callable[[List[Root]], None]] = []
        table = session.torch.nn.modules.module._global_forward_pre_hooks
        self._hook = GlobalHook(table, self._on_call)
        session.on_fork.append(self._reset)

    def arm(self) -> None:
        """Looks at calls again, unless code was compiled: it would be compiled once more."""
        if not self._session.compiled and self._tap.on:
            self._hook.arm()

    def disarm(self) -> None:
        """Looks no more; forgets what was called."""
        self._hook.disarm()

    def module(self, module: Any) -> Optional[Tuple[str, Root]]:
        """(name, root) of a module; None if it is in no model."""
        found = self._modules.get(id(module))
        if found is None or found[0]() is not module:
            return None
        return found[1], found[2]

    def parameter(self, parameter: Any) -> str:
        """The name of a parameter; one is made up for what no module owns."""
        found = self._parameters.get(id(parameter))
        if found is not None and found[0]() is parameter:
            return found[1]
        name = f"param_{self._nameless}"
        self._nameless += 1
        self._parameters[id(parameter)] = (weakref.ref(parameter), name)
        return name

    def knows(self, parameter: Any) -> bool:
        """Whether the parameter has a name already."""
        found = self._parameters.get(id(parameter))
        return found is not None and found[0]() is parameter

    def forget(self) -> None:
        """A new fit begins: the names of the models before may be used again."""
        self.roots = []
        self._modules = {}
        self._parameters = {}
        self._nameless = 0

    def find(self, frame: Any = None) -> None:
        """Names the models that own the optimizers' parameters, as far as they are unknown."""
        wanted = {
            id(parameter)
            for optimizer in self.optimizers()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if not self.knows(parameter)
        }
        if not wanted:
            return
        found: List[Tuple[Any, str]] = []
        for module, variable in self._candidates(frame):
            owned = {id(parameter) for parameter in module.parameters()} & wanted
            if owned:
                wanted -= owned
                found.append((module, variable))
        if found:
            self._add(found)

    def _candidates(self, frame: Any) -> Iterator[Tuple[Any, str]]:
        """Outermost modules: those called first, then those only constructed."""
        called = [(call, call.reference()) for call in self.calls.values()]
        yield from _outermost(
            [(module, call.variable) for call, module in called if module is not None]
        )
        made = list(self._origins.alive(self._session.torch.nn.Module))
        for module, _ in _outermost([(module, "") for module in made]):
            yield module, _variable(unwrap(module), module, self._source.frame(frame))

    def _add(self, found: List[Tuple[Any, str]]) -> None:
        new = []
        modules = [unwrap(module) for module, _ in found]
        for callback in self.on_found:
            # May begin a new fit, which forgets the roots there were.
            callback(modules)
        alive = [root for root in self.roots if root.reference() is not None]
        several = len(alive) + len(found) > 1
        for module, (_, variable) in zip(modules, found):
            prefix = self._unique(variable or type(module).__name__) if several else ""
            root = Root(module, prefix, variable)
            self.roots.append(root)
            new.append(root)
            self._name(module, root)

    def _unique(self, prefix: str) -> str:
        taken = {root.prefix for root in self.roots}
        name, number = prefix, 2
        while name in taken:
            name = f"{prefix}#{number}"
            number += 1
        return name

    def _name(self, module: Any, root: Root) -> None:
        for inner, child in walk(module):
            name = root.name(inner)
            self._modules[id(child)] = (weakref.ref(child), name, root)
            for short, parameter in child._parameters.items():
                if parameter is not None and not self.knows(parameter):
                    full = f"{name}.{short}" if name else short
                    self._parameters[id(parameter)] = (weakref.ref(parameter), full)

    def rename_new(self) -> None:
        """Names modules and parameters that were added to known models since."""
        for root in self.roots:
            module = root.reference()
            if module is not None:
                self._name(module, root)

    def _on_call(self, module: Any, args: Any) -> None:
        if not self._tap.on:
            return
        try:
            self._first_call(module)
        except Exception as error:
            self._hook.disarm()
            self._tap.fail(error)

    def _first_call(self, module: Any) -> None:
        known = self.calls.get(id(module))
        if known is not None and known.reference() is module:
            return
        if type(module).__name__ == "OptimizedModule" or not self._session.active():
            if self._session.off or type(module).__name__ == "OptimizedModule":
                self._hook.disarm()
            return
        frame = self._source.frame(sys._getframe(2))
        variable = ""
        if id(module) not in self._inside:
            variable = _variable(unwrap(module), module, frame)
            self._inside.update(id(child) for child in module.modules())
        self.calls[id(module)] = Call(module, len(self.calls), place(frame), variable)
        optimizers = self.optimizers()
        if optimizers and self.module(module) is None:
            self.find(frame)
        elif not optimizers and len(self.calls) >= MAX_CALLS_WITHOUT_OPTIMIZER:
            self._hook.disarm()

    def _reset(self) -> None:
        self.forget()
        self.calls = {}
        self._inside = set()


def _outermost(modules: List[Tuple[Any, str]]) -> List[Tuple[Any, str]]:
    inside: Set[int] = set()
    for module, _ in modules:
        if id(module) not in inside:
            inside.update(id(child) for child in module.modules() if child is not module)
    return [entry for entry in modules if id(entry[0]) not in inside]


def _variable(module: Any, wrapped: Any, frame: Any) -> str:
    """The user's name for a model: a variable of the frame, or an attribute of its `self`."""
    for thing in (module, wrapped):
        names = names_of(thing, frame)
        if names:
            return names[0]
    owner = None if frame is None else frame.f_locals.get("self")
    for attributes in (getattr(owner, "__dict__", {}), getattr(owner, "_modules", None) or {}):
        for name, value in attributes.items():
            if value is module or value is wrapped:
                return str(name)
    return ""
