"""Functions of the probe's library that the interpreter itself calls.

Their code is native and in no cache less than it has to be: between two operations of a framework a
call through ctypes costs 4 to 6 µs and an instruction of Python some 50 ns. They work on a
structure whose numbers are set here; objects stand in it as addresses, and are held here. Needs an
interpreter with a GIL.
"""

import ctypes
import inspect
import os
import sys
import sysconfig
from typing import Any, Callable, Dict, List, Optional

from paramedic._probe import load

METH_NOARGS, METH_O, METH_FASTCALL = 4, 8, 0x80
METH_VARARGS_KEYWORDS = 1 | 2
METH_FASTCALL_KEYWORDS = 0x80 | 2


class _MethodDef(ctypes.Structure):
    """PyMethodDef, of the stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("body", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _ModuleDef(ctypes.Structure):
    """PyModuleDef, of the stable ABI."""

    _fields_ = [
        ("base", ctypes.c_void_p * 5),
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("size", ctypes.c_ssize_t),
        ("rest", ctypes.c_void_p * 5),
    ]


_ADDRESS_BYTES = 8

# The interpreter's functions hold their addresses.
_made: List["Native"] = []


def _new_function(definition: _MethodDef, self: Any, module: Any) -> Callable[..., Any]:
    make: Any = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    make.restype = ctypes.py_object
    function: Callable[..., Any] = make(ctypes.addressof(definition), self, module)
    return function


class Native:
    """A structure and the native functions that work on it; both stay for good."""

    def __init__(self, state: ctypes.Structure) -> None:
        """Raises OSError where there can be none."""
        self.library = load(os.environ.get("PARAMEDIC_PROBE", ""))
        if sysconfig.get_config_var("Py_GIL_DISABLED") or not self.library.paramedic_native_works():
            raise OSError("this interpreter does not offer what is needed")
        self._state = state
        self._held: Dict[str, Any] = {}
        self._definitions: List[Any] = []
        _made.append(self)

    def function(
        self, name: str, body: str, flags: int, part: Optional[ctypes.Structure] = None
    ) -> Callable[..., Any]:
        """What Python calls `name` and the library `body`; it works on `part` of the structure, or
        on all of it."""
        new_capsule: Any = ctypes.pythonapi.PyCapsule_New
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        new_capsule.restype = ctypes.py_object
        capsule = new_capsule(ctypes.addressof(part or self._state), None, None)
        definition = self._define(name, body, flags, None)
        return _new_function(definition, capsule, None)

    def stand_in(self, genuine: Callable[..., Any], body: str) -> Callable[..., Any]:
        """What stands for a function of a module, under its name: the `self` of one that can be
        pickled is a module. METH_FASTCALL | METH_KEYWORDS."""
        signature = inspect.signature(genuine)
        parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
        signature = inspect.Signature(parameters)
        doc = f"{genuine.__name__}{signature}\n--\n\n{genuine.__doc__ or ''}"
        definition = self._define(genuine.__name__, body, METH_FASTCALL_KEYWORDS, doc.encode())
        module_name = genuine.__module__
        module_definition = _ModuleDef(name=module_name.encode(), size=_ADDRESS_BYTES)
        self._definitions.append(module_definition)
        new_module: Any = ctypes.pythonapi.PyModule_Create2
        new_module.argtypes, new_module.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.py_object
        module = new_module(ctypes.addressof(module_definition), sys.api_version)
        state_of: Any = ctypes.pythonapi.PyModule_GetState
        state_of.argtypes, state_of.restype = [ctypes.py_object], ctypes.c_void_p
        kept = ctypes.c_uint64.from_address(state_of(module))
        kept.value = ctypes.addressof(self._state)
        return _new_function(definition, module, module_name)

    def _define(self, name: str, body: str, flags: int, doc: Optional[bytes]) -> _MethodDef:
        address = ctypes.cast(getattr(self.library, body), ctypes.c_void_p)
        definition = _MethodDef(name.encode(), address.value, flags, doc)
        self._definitions.append(definition)
        return definition

    def hold(self, name: str, thing: Any) -> None:
        """Sets an address of the structure to that of `thing`, and holds it."""
        self._held[name] = thing
        setattr(self._state, name, id(thing))

    def let_go(self, name: str) -> None:
        """Sets an address to nothing."""
        setattr(self._state, name, 0)
        self._held.pop(name, None)
