"""Gives the live objects of an edited file their new code and the module its new names."""

from __future__ import annotations

import ast
import gc
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Set

from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.crash import Refused
from paramedic.recovery.residual import INNER
from paramedic.recovery.runtime import Runtime, note
from paramedic.recovery.source import FUNCTIONS, LAMBDA, Function
from paramedic.recovery.transform import Transform, compiled, without_lines


def globals_of(runtime: Runtime) -> Optional[Dict[str, Any]]:
    """The namespace of the module made from the file."""
    for version in runtime_of.versions(runtime.file):
        for function in version.functions():
            return function.__globals__
    for module in list(sys.modules.values()):
        scope = getattr(module, "__dict__", None)
        if isinstance(scope, dict) and scope.get("__file__") == runtime.file:
            return scope
    return None


def all_names(code: types.CodeType) -> Set[str]:
    """The names of globals and attributes in a function and in those inside it."""
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= all_names(const)
    return found


def global_names(code: types.CodeType) -> Set[str]:
    """The names that a function looks up among the globals, functions inside it included."""
    from paramedic.recovery import bytecode

    found: Set[str] = set()
    for one in bytecode.Reader(code).instructions:
        if one.name == "LOAD_GLOBAL":
            found.add(code.co_names[one.argument >> 1])
        elif one.name == "LOAD_NAME":
            found.add(code.co_names[one.argument])
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= global_names(const)
    return found


# ---------------------------------------------------------------------- functions


def swap(one: Any) -> None:
    """Live functions whose own text has changed get the new code.

    Args:
        one: an edit.FileEdit.
    """
    wanted: Dict[str, Function] = {}
    for function in one.changed:
        wanted[function.qualname] = function
    for inner in [*one.changed, *one.added]:
        # Whoever defines it again defines it as it is now.
        outer = inner.outer
        while outer is not None:
            wanted.setdefault(outer.qualname, outer)
            outer = outer.outer
    if not wanted:
        return
    found: Set[str] = set()
    for live in _functions(one.before.file, wanted):
        function = wanted[live.__code__.co_qualname]
        same = [f for f in one.after.source.functions if f.qualname == function.qualname]
        if len(same) > 1:
            function = _of_several(one, live.__code__, same)
        try:
            live.__code__ = code_of(one.after, function, live.__code__.co_freevars)
            if function.name != LAMBDA:
                _defaults(live, one, function)
            found.add(function.qualname)
        except Exception as error:
            note(f"the edit of {function.qualname}", error)
    _decorate_anew(one)


def _decorate_anew(one: Any) -> None:
    """A function of the module whose decorators are edited is defined again under its name."""
    scope = globals_of(one.before)
    if scope is None:
        return
    before = {f.qualname: f.node.decorator_list for f in one.before.source.functions[1:]}
    transform = Transform(one.after.source)
    for function in one.changed:
        node: Any = function.node
        if "." in function.qualname or function.qualname not in before:
            continue
        old = before[function.qualname]
        if [ast.dump(d) for d in old] != [ast.dump(d) for d in node.decorator_list]:
            _execute(transform.statement(node), one, scope)


def _of_several(one: Any, code: types.CodeType, same: List[Function]) -> Function:
    """A property's getter and setter have one name: told apart by their order."""
    runtime = runtime_of.of_code(code) or one.before
    before = [f for f in runtime.source.functions if f.qualname == code.co_qualname]
    if code.co_name == LAMBDA:
        at = before.index(runtime.source.of_code(code))
        return same[min(at, len(same) - 1)]
    for at, function in enumerate(before):
        node: Any = function.node
        if code.co_firstlineno in (function.code.co_firstlineno, node.lineno):
            return same[min(at, len(same) - 1)]
    return same[-1]


def code_of(runtime: Runtime, function: Function, free: Any) -> types.CodeType:
    """The transformed code of one function, whose shared names are exactly `free`."""
    missing = set(function.code.co_freevars) - set(free)
    if missing:
        raise Refused(f"{function.qualname} would share {', '.join(sorted(missing))} anew")
    source = runtime.source
    transform = Transform(source)
    node: Any = function.node
    body = transform.function_body(function)
    if free:
        names = ast.Tuple([ast.Name(name, ast.Load()) for name in sorted(free)], ast.Load())
        # Never runs: every name stays shared, as the live closure needs it.
        body = [*body, ast.Return(None), ast.Expr(names)]
    made = type(node)(**{**dict(ast.iter_fields(node)), "name": INNER, "body": body})
    made.decorator_list = []
    made.args = _without_defaults(node.args)
    made.returns = None
    ast.copy_location(made, node)
    factory = ast.FunctionDef(
        name=".factory",
        args=ast.arguments([], [ast.arg(n) for n in sorted(free)], None, [], [], None, []),
        body=[made],
        decorator_list=[],
    )
    outermost: Any = factory
    if function.class_name:
        outermost = ast.ClassDef(function.class_name, [], [], [factory], [])
    new: Any
    for new in (factory, outermost):
        new.type_params = []
    tree = without_lines(ast.Module([outermost], []))
    code = _named(compiled(tree, source.file, source.code.co_flags), ".factory")
    code = runtime_of.place(_named(code, INNER), runtime)
    return code.replace(co_name=function.name, co_qualname=function.qualname)


def of_lambda(runtime: Runtime, code: types.CodeType) -> Optional[types.CodeType]:
    """The transformed code of a lambda; None where it is to stay as it is."""
    function = runtime.source.of_code(code)
    outer = function
    while outer is not None:
        if outer.left_alone:
            return None
        outer = outer.outer
    if function is None:
        return None  # not one of the file, but of a barrier
    made = code_of(runtime, function, code.co_freevars)
    runtime.lambdas.append(made)
    return made


def _without_defaults(arguments: ast.arguments) -> ast.arguments:
    """The defaults live on in the function object."""
    plain = ast.arguments(**dict(ast.iter_fields(arguments)))
    plain.defaults = [ast.Constant(None) for _ in arguments.defaults]
    plain.kw_defaults = [one and ast.Constant(None) for one in arguments.kw_defaults]
    return plain


def _named(code: types.CodeType, name: str) -> types.CodeType:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_name == name:
                return const
            if name == ".factory" or const.co_name.startswith("<generic"):
                return _named(const, name)
    raise LookupError(name)


def _defaults(live: types.FunctionType, one: Any, function: Function) -> None:
    """Takes over changed default values."""
    before = one.before.source.find(function.qualname)
    new: Any = function.node
    if before is None or ast.dump(before.node.args) == ast.dump(new.args):
        return
    scope = live.__globals__
    values = [_value(node, scope) for node in new.args.defaults]
    live.__defaults__ = tuple(values) or None
    names = [arg.arg for arg in new.args.kwonlyargs]
    live.__kwdefaults__ = {
        name: _value(node, scope)
        for name, node in zip(names, new.args.kw_defaults)
        if node is not None
    } or None


def _value(node: ast.expr, scope: Dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<default>", "eval"), scope)


def _functions(file: str, wanted: Dict[str, Function]) -> Iterator[types.FunctionType]:
    """The live functions made from these functions of `file`, whoever holds them."""
    for runtime in runtime_of.versions(file):
        for one in runtime.functions():
            code = one.__code__
            if code.co_filename == file and code.co_qualname in wanted:
                yield one
        # Nobody has told of lambdas: tens of milliseconds in a process with torch.
        codes = [one for one in runtime.lambdas if one.co_qualname in wanted]
        for one in gc.get_referrers(*codes) if codes else ():
            if isinstance(one, types.FunctionType):
                yield one


# ---------------------------------------------------------------------- new names


def define(one: Any) -> None:
    """Runs the new and changed definitions of the module: imports, functions, classes, constants.

    Args:
        one: an edit.FileEdit.
    """
    from paramedic.recovery.edit import is_definition, top_level

    scope = globals_of(one.before)
    if scope is None:
        return
    names = {node.name for node in one.before.source.tree.body if isinstance(node, FUNCTIONS)}
    new = [
        node
        for node in one.after.source.tree.body
        if isinstance(node, FUNCTIONS) and node.name not in names
    ]
    transform = Transform(one.after.source)
    for node in sorted([*top_level(one), *new], key=lambda node: node.lineno):
        if not is_definition(node):
            continue
        live = scope.get(getattr(node, "name", ""))
        if isinstance(node, ast.ClassDef) and isinstance(live, type):
            _update_class(live, node, transform, one, scope)
        else:
            old = {name: scope[name] for name in _bound([node]) if name in scope}
            _execute(transform.statement(node), one, scope)
            for name, value in old.items():
                if scope[name] is not value:
                    _hand_on(name, value, scope)


def _hand_on(name: str, old: Any, scope: Dict[str, Any]) -> None:
    """A constant has a new value: also for the job's modules that have imported it by name."""
    for file in runtime_of.files():
        runtime = runtime_of.newest(file)
        if runtime is None or b"import" not in runtime.source.text:
            continue
        names = [
            alias.asname or alias.name
            for node in runtime.source.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name == name
        ]
        other = globals_of(runtime) if names else None
        for one in names if other is not None and other is not scope else ():
            if other is not None and other.get(one) is old:
                other[one] = scope[name]


def _execute(stmts: List[ast.stmt], one: Any, scope: Dict[str, Any]) -> None:
    tree = without_lines(ast.Module(stmts, []))
    code = compiled(tree, one.after.file, one.after.source.code.co_flags)
    try:
        exec(runtime_of.place(code, one.after), scope)
    except Exception as error:
        note("a new definition", error)


def _update_class(
    live: type, node: ast.ClassDef, transform: Transform, one: Any, scope: Dict[str, Any]
) -> None:
    """A live class gets what its edited body has new or changed; its methods are swapped."""
    before = _class_body(one.before.source.tree, live.__name__)
    new = [item for item in node.body if ast.dump(item) not in before]
    names = {getattr(item, "name", None) for item in new if isinstance(item, FUNCTIONS)}
    fresh = [name for name in names if name and name not in vars(live)]
    others = [item for item in new if not isinstance(item, FUNCTIONS)]
    if not fresh and not others:
        return
    made: Dict[str, Any] = dict(scope)
    _execute(transform.statement(node), one, made)
    created = made.get(node.name)
    if not isinstance(created, type) or created is live:
        return
    defaults = {name: vars(live).get(name) for name in _bound(others)}
    generated = [name for name in _GENERATED if "__dataclass_fields__" in vars(created)]
    for name in [*fresh, *_bound(others), *generated]:
        if name in vars(created):
            setattr(live, name, _moved(vars(created)[name], created, live))
    if generated:
        _hand_to_objects(live, defaults)


# What a dataclass gets of its fields.
_GENERATED = ("__init__", "__repr__", "__eq__", "__dataclass_fields__", "__match_args__")


def _hand_to_objects(live: type, defaults: Dict[str, Any]) -> None:
    """The fields of a dataclass that have the default still: that is another one now."""
    plain = (int, float, str, bool, bytes, tuple, type(None))
    changed = {
        name: (old, vars(live)[name])
        for name, old in defaults.items()
        if name in vars(live) and isinstance(old, plain) and isinstance(vars(live)[name], plain)
    }
    if not changed:
        return
    for one in gc.get_referrers(live):
        if type(one) is live:
            for name, (old, new) in changed.items():
                value = getattr(one, name, None)
                if type(value) is type(old) and value == old:
                    object.__setattr__(one, name, new)


def _class_body(tree: ast.Module, name: str) -> Set[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {ast.dump(item) for item in node.body}
    return set()


def _bound(stmts: List[ast.stmt]) -> List[str]:
    found = []
    for node in stmts:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.append(part.id)
    return found


def _moved(value: Any, created: type, live: type) -> Any:
    """A method whose `super()` means the live class."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_moved(value.__func__, created, live))
    if not isinstance(value, types.FunctionType) or not value.__closure__:
        return value
    cells = [types.CellType(live) if _holds(cell, created) else cell for cell in value.__closure__]
    made = types.FunctionType(
        value.__code__,
        sys.modules[live.__module__].__dict__,
        value.__name__,
        value.__defaults__,
        tuple(cells),
    )
    made.__kwdefaults__ = value.__kwdefaults__
    made.__dict__.update(value.__dict__)
    made.__doc__, made.__qualname__ = value.__doc__, value.__qualname__
    return made


def _holds(cell: types.CellType, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:
        return False
