"""Attributes that an edited `__init__` adds, for the objects that exist already.

Objects that were made by the old `__init__` lack what the new one sets; a method that the same edit
changes would look for it in vain. What is plain is set on all of them before the job goes on:
`self.x = …` of constants, names of the module, other attributes, and calls that only compute. What
is more (a layer with weights, random numbers, a file) cannot be done behind the back of the
optimizer or the order of random numbers: then the edit is refused, where a frame holds such an
object and an edited function asks it for the attribute.
"""

from __future__ import annotations

import ast
import gc
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from paramedic.recovery import live, plain
from paramedic.recovery.crash import Refused
from paramedic.recovery.runtime import note
from paramedic.recovery.source import Function, own_nodes
from paramedic.recovery.stack import Standing

if TYPE_CHECKING:
    from paramedic.recovery.edit import Edit, FileEdit

MAX_OBJECTS = 1_000_000


class Given(NamedTuple):
    """One attribute of one object."""

    owner: Any
    name: str
    value: Any


class _Addition(NamedTuple):
    name: str
    value: Optional[ast.expr]  # over `self` and names of the module; None where it is not plain


class _Search(NamedTuple):
    """Where objects are, and what is wanted of them."""

    scope: Dict[str, Any]  # the names of the module
    standings: List[Standing]
    asked: Set[str]  # attributes that edited functions read


def given(made: Edit, standings: List[Standing]) -> List[Given]:
    """What is to be set when the edit takes effect.

    Raises:
        Refused: an object on the stack would lack what an edited function asks it for.
    """
    found: List[Given] = []
    for one in made.files:
        scope = live.globals_of(one.before)
        for function in [*one.changed, *one.added] if scope is not None else ():
            additions = _additions(one, function, scope or {})
            if additions:
                search = _Search(scope or {}, standings, _asked(made))
                for kind in _classes(function, search):
                    found += _for_class(kind, function, additions, search)
    return found


def give(attributes: List[Given]) -> None:
    """Sets them."""
    for one in attributes:
        try:
            if isinstance(one.value, _module_type()):
                one.value.train(one.owner.training)
            setattr(one.owner, one.name, one.value)
        except Exception as error:
            note(f"the attribute {one.name}", error)


# ---------------------------------------------------------------------- what an edit adds


def _additions(one: FileEdit, function: Function, scope: Dict[str, Any]) -> List[_Addition]:
    owner = plain.self_of(function)
    if function.name != "__init__" or owner is None:
        return []
    before = one.before.source.find(function.qualname)
    known = {name for name, _ in plain.stores(before)} if before is not None else set()
    top = {id(statement) for statement in function.body}
    expressions = plain.Plain(one.before.source, function, scope)
    found: Dict[str, Optional[ast.expr]] = {}
    for name, statement in plain.stores(function):
        if name not in known:
            value = getattr(statement, "value", None) if id(statement) in top else None
            is_simple = isinstance(statement, (ast.Assign, ast.AnnAssign)) and name not in found
            found[name] = expressions.of(value) if is_simple and value is not None else None
    return [_Addition(name, value) for name, value in found.items()]


# ---------------------------------------------------------------------- for whom


def _asked(made: Edit) -> Set[str]:
    """The attributes that the functions which the edit changes or adds read."""
    return {
        node.attr
        for one in made.files
        for function in [*one.changed, *one.added]
        if function.name != "__init__"
        for node in own_nodes(function.body)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def _classes(function: Function, search: _Search) -> Iterator[type]:
    """The live class of an `__init__`: found by its name, or by an object on the stack."""
    qualname = function.qualname.rpartition(".")[0]
    found: Any = search.scope.get(qualname.split(".")[0])
    for name in qualname.split(".")[1:]:
        found = vars(found).get(name) if isinstance(found, type) else None
    if isinstance(found, type):
        yield found
        return
    seen: List[type] = []
    for value in _held(search.standings):
        for kind in type(value).__mro__:
            is_it = kind.__qualname__ == qualname and kind.__module__ == search.scope.get(
                "__name__"
            )
            if is_it and kind not in seen:
                seen.append(kind)
                yield kind


def _held(standings: List[Standing]) -> Iterator[Any]:
    for standing in standings:
        yield from list(standing.frame.f_locals.values())


def _objects(kind: type) -> Iterator[Any]:
    """All objects of a class and of those derived from it. They refer to their class."""
    kinds: List[type] = [kind]
    for one in kinds:
        below: List[type] = type.__subclasses__(one)
        kinds += [sub for sub in below if sub not in kinds]
    for number, value in enumerate(gc.get_referrers(*kinds)):
        if number >= MAX_OBJECTS:
            return
        if type(value) in kinds:
            yield value


def _for_class(
    kind: type, function: Function, additions: List[_Addition], search: _Search
) -> List[Given]:
    being_made = [
        next(iter(one.frame.f_locals.values()), None)
        for one in search.standings
        if one.frame.f_code.co_name == "__init__"
    ]
    held = [value for value in _held(search.standings) if isinstance(value, kind)]
    held = [value for value in held if not _is_one_of(value, being_made)]
    found: List[Given] = []
    owner = str(plain.self_of(function))
    for value in _objects(kind):
        seen: Dict[str, Any] = {}
        for addition in additions:
            if _has(value, addition.name):
                continue
            made, reason = _value(addition, owner, _View(value, seen), search.scope)
            if not reason:
                seen[addition.name] = made
                found.append(Given(value, addition.name, made))
            elif addition.name in search.asked and _is_one_of(value, held):
                raise Refused(_refusal(kind, addition.name, reason))
    return found


def _is_one_of(value: Any, others: List[Any]) -> bool:
    return any(value is one for one in others)


def _refusal(kind: type, name: str, reason: str) -> str:
    return (
        f"{kind.__name__}.__init__ would set {name}, which objects made before the edit lack, and "
        f"it cannot be set on them now: {reason}. Make it where it is used (if not hasattr(self, "
        f'"{name}"): …), or set it by code run in the frame before the edit'
    )


class _View:
    """An object, with the attributes that it is about to be given."""

    def __init__(self, owner: Any, seen: Dict[str, Any]) -> None:
        self._owner, self._seen = owner, seen

    def __getattr__(self, name: str) -> Any:
        return self._seen[name] if name in self._seen else getattr(self._owner, name)


def _value(addition: _Addition, owner: str, view: _View, scope: Dict[str, Any]) -> Tuple[Any, str]:
    if addition.value is None:
        return None, "it takes more than constants and other attributes"
    try:
        code = compile(ast.Expression(addition.value), "<attribute>", "eval")
        return eval(code, {**scope, owner: view}), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _has(value: Any, name: str) -> bool:
    """Whether it has the attribute, without running code of its class."""
    if any(name in vars(kind) for kind in type(value).__mro__):
        return True
    own = getattr(value, "__dict__", {})
    tables = [own, *(own.get(table) or {} for table in ("_parameters", "_buffers", "_modules"))]
    return any(name in table for table in tables)


def _module_type() -> Any:
    nn: Any = sys.modules.get("torch.nn")
    return nn.Module if nn is not None else ()
