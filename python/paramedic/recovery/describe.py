"""A crash as data for people: where it stands, what the names hold.

The crashed job may hold anything, so nothing here runs its code: values are looked at only where
their type is exactly one that is known to be harmless, and everything is bounded. Whatever still
goes wrong costs one value its text.
"""

import hashlib
import itertools
import linecache
import os
import re
import sys
import traceback
from types import FrameType, FunctionType, ModuleType
from typing import Any, Dict, List, Optional

from paramedic.recovery.crash import Crash, ProjectFrame

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MAX_FRAMES = 30
MAX_VARIABLES = 60
MAX_VALUE = 120
MAX_NAME = 200
MAX_ITEMS = 6
MAX_DEPTH = 3
MAX_MESSAGE = 4000
MAX_TRACEBACK = 12000
SOURCE_AROUND = 6
# Asking a larger tensor for NaN would take longer than a person notices.
MAX_ELEMENTS = 1 << 20
# A longer integer takes long to write out.
MAX_INT_BITS = 256

_NAMES = re.compile(r"[^\W\d]\w*")
# Of modules, and what the transform keeps in frames.
_HIDDEN = ("__", ".")
_PLAIN = (bool, float, complex, type(None), type(Ellipsis))


def crash_fields(crash: Crash) -> Dict[str, Any]:
    """The fields of a crash message but those of the process (docs/formats/control.md)."""
    error = crash.exception
    frames = [_frame(frame) for frame in crash.frames[-MAX_FRAMES:]]
    return {
        "thread": crash.thread[:MAX_NAME],
        "repeats": crash.repeats,
        "exception": type_name(type(error)),
        "bases": [type_name(base) for base in type(error).__mro__[:-1]][:20],
        "message": _text_of(error)[:MAX_MESSAGE],
        "errno": error.errno if isinstance(error, OSError) and _is_int(error.errno) else None,
        "http_status": _http_status(error),
        "traceback": _traceback(error),
        "source_hash": source_hash(crash.frames[-1]) if crash.frames else "",
        "frames": frames,
    }


def type_name(cls: type) -> str:
    """As a traceback has it: the module is left out for built-in types and the script's own."""
    module = getattr(cls, "__module__", None)
    name = str(getattr(cls, "__qualname__", "?"))[:MAX_NAME]
    if not isinstance(module, str) or module in ("builtins", "__main__"):
        return name
    return f"{module}.{name}"[:MAX_NAME]


def source_hash(frame: ProjectFrame) -> str:
    """Tells whether two processes run the same text of a file."""
    lines = linecache.getlines(frame.file, frame.frame.f_globals)
    return hashlib.sha256("".join(lines).encode("utf-8", "replace")).hexdigest()[:16]


def _is_int(value: object) -> bool:
    return type(value) is int


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<its text cannot be made: {type(failure).__name__}>"


def _traceback(error: BaseException) -> str:
    """As it would be printed at the end of the job: the frames that still run around the crash
    included, libraries among them; our own left out."""
    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        start = error.__traceback__
        if start is not None:
            running = traceback.StackSummary.extract(traceback.walk_stack(start.tb_frame.f_back))
            frames = [*reversed(running), *told.stack]
            theirs = [frame for frame in frames if not frame.filename.startswith(_OWN)]
            told.stack = traceback.StackSummary.from_list(theirs)
        text = "".join(told.format())
    except Exception as failure:
        return f"<the traceback cannot be made: {type(failure).__name__}>"
    # The end of a traceback is what matters.
    return text[-MAX_TRACEBACK:]


def _http_status(error: BaseException) -> Optional[int]:
    """What a server answered, of the exceptions of urllib, requests, httpx and their users."""
    try:
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "code", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and 100 <= status < 600:
                    return int(status)
    except Exception:
        pass
    return None


def _frame(frame: ProjectFrame) -> Dict[str, Any]:
    return {
        "file": frame.file,
        "function": frame.function[:MAX_NAME],
        "line": frame.line,
        "is_loop_header": frame.is_loop_header,
        "source": _source(frame),
        "variables": _variables(frame),
    }


def _source(frame: ProjectFrame) -> List[Dict[str, Any]]:
    lines = linecache.getlines(frame.file, frame.frame.f_globals)
    first = max(1, frame.line - SOURCE_AROUND)
    shown = lines[first - 1 : frame.line + SOURCE_AROUND]
    return [
        {"line": first + offset, "text": text.rstrip("\r\n")[:MAX_NAME]}
        for offset, text in enumerate(shown)
    ]


def _variables(frame: ProjectFrame) -> List[Dict[str, str]]:
    """What the frame's names hold; those of the crashed line first."""
    try:
        names = _names(frame)
        values = frame.frame.f_locals
        return [
            {
                "name": name[:MAX_NAME],
                "type": type_name(type(values[name])),
                "value": value_text(values[name]),
            }
            for name in names
        ]
    except Exception:
        return []


def _names(frame: ProjectFrame) -> List[str]:
    values = frame.frame.f_locals
    is_module = values is frame.frame.f_globals
    names = [
        name
        for name, value in list(values.items())
        if type(name) is str
        and not name.startswith(_HIDDEN)
        and not (is_module and type(value) in (ModuleType, FunctionType, type))
    ]
    used = _NAMES.findall(linecache.getline(frame.file, frame.line, frame.frame.f_globals))
    names.sort(key=lambda name: used.index(name) if name in used else len(used))
    return names[:MAX_VARIABLES]


def value_text(value: object, depth: int = 0) -> str:
    """A short text of a value, made without its own code."""
    try:
        return _value_text(value, depth)[: MAX_VALUE if depth == 0 else MAX_NAME]
    except Exception:
        return "<cannot be shown>"


def _value_text(value: object, depth: int) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is int:
        return _int_text(value)
    if kind is str or kind is bytes:
        return _string_text(value)
    if kind in (list, tuple, set, frozenset, dict):
        return _collection_text(value, depth)
    return _array_text(value) or f"<{type_name(kind)}>"


def _int_text(value: Any) -> str:
    bits = value.bit_length()
    return repr(value) if bits <= MAX_INT_BITS else f"<int of {bits} bits>"


def _string_text(value: Any) -> str:
    if len(value) <= MAX_VALUE:
        return repr(value)
    return f"{value[: MAX_VALUE // 2]!r}… ({len(value)} long)"


def _collection_text(value: Any, depth: int) -> str:
    kind = type(value).__name__
    if depth >= MAX_DEPTH:
        return f"<{kind} of {len(value)}>"
    if type(value) is dict:
        pairs = itertools.islice(value.items(), MAX_ITEMS)
        parts = [f"{value_text(k, depth + 1)}: {value_text(v, depth + 1)}" for k, v in pairs]
    else:
        parts = [value_text(item, depth + 1) for item in itertools.islice(value, MAX_ITEMS)]
    more = f", … {len(value)} in all" if len(value) > MAX_ITEMS else ""
    brackets = {"list": "[]", "tuple": "()"}.get(kind, "{}")
    return f"{brackets[0]}{', '.join(parts)}{more}{brackets[1]}"


def _array_text(value: object) -> str:
    """Of a tensor or an array: what decides most errors."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and type(value) in (
        getattr(torch, "Tensor", None),
        getattr(getattr(torch, "nn", None), "Parameter", None),
    ):
        return _tensor_text(torch, value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(value) is getattr(numpy, "ndarray", None):
        return _ndarray_text(numpy, value)
    if numpy is not None and type(value).__module__ == "numpy" and isinstance(value, numpy.number):
        return repr(value.item())
    return ""


def _tensor_text(torch: Any, tensor: Any) -> str:
    parts = [str(tensor.dtype).replace("torch.", ""), str(list(tensor.shape))]
    values = ""
    # Another device may be the very thing that is broken.
    readable = tensor.device.type == "cpu" and tensor.layout == torch.strided
    if readable and 0 < tensor.numel() <= MAX_ELEMENTS:
        with torch.no_grad():
            plain = tensor.detach()
            if plain.is_floating_point() or plain.is_complex():
                parts.extend(_flags(bool(plain.isnan().any()), bool(plain.isinf().any())))
            if plain.numel() <= MAX_ITEMS:
                values = value_text(plain.tolist(), 1)
    parts.append(str(tensor.device))
    if tensor.requires_grad:
        parts.append("grad")
    return " ".join([*parts, values] if values else parts)


def _ndarray_text(numpy: Any, array: Any) -> str:
    parts = [str(array.dtype), str(list(array.shape))]
    if array.dtype.kind in "fc" and 0 < array.size <= MAX_ELEMENTS:
        parts.extend(_flags(bool(numpy.isnan(array).any()), bool(numpy.isinf(array).any())))
    if array.dtype.kind in "biufc" and 0 < array.size <= MAX_ITEMS:
        parts.append(value_text(array.tolist(), 1))
    return " ".join(parts)


def _flags(has_nan: bool, has_inf: bool) -> List[str]:
    return ["NaN"] * has_nan + ["Inf"] * has_inf


def evaluate(frame: Optional[FrameType], expression: str) -> str:
    """The value of an expression that a person asks a frame for, as text; an error as its text."""
    if frame is None:
        return "there is no such frame"
    try:
        value = eval(expression, frame.f_globals, dict(frame.f_locals))  # noqa: S307
        return repr(value)[:MAX_TRACEBACK]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
