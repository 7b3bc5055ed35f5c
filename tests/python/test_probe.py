"""The binding is what the header says."""

import ctypes
import re
from typing import Any, Dict, List, Tuple

import pytest
from conftest import ROOT, probe_path
from paramedic import _probe
from paramedic.adapters.common import clocks, session
from paramedic.adapters.torch import stretch, tensor_layout
from paramedic.adapters.torch.distributed import known_calls
from paramedic.recovery import gate

HEADER = (ROOT / "src" / "probe" / "probe.h").read_text()
FORMAT = (ROOT / "src" / "record" / "format.h").read_text()
VIEW = (ROOT / "src" / "stats" / "tensor_view.h").read_text()

C_TYPES: Dict[str, Any] = {
    "void": None,
    "void*": ctypes.c_void_p,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "uint8_t": ctypes.c_uint8,
    "double": ctypes.c_double,
    "char*": ctypes.c_char_p,
    "paramedic_probe*": ctypes.c_void_p,
    "paramedic_options*": ctypes.POINTER(_probe.Options),
    "paramedic_tensor*": ctypes.POINTER(_probe.Tensor),
    "paramedic_gate*": ctypes.c_void_p,
    "void**": ctypes.c_void_p,
    "paramedic_collective*": ctypes.POINTER(_probe.Collective),
    "int64_t*": ctypes.POINTER(ctypes.c_int64),
    "uint64_t*": ctypes.POINTER(ctypes.c_uint64),
    "int32_t*": ctypes.POINTER(ctypes.c_int32),
    "double*": ctypes.POINTER(ctypes.c_double),
}


def c_type(text: str) -> Any:
    return C_TYPES[text.replace("const", "").replace(" ", "")]


def prototypes() -> Dict[str, Tuple[Any, List[Any]]]:
    found = {}
    text = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    pattern = r"^(\w[\w \*]*?)\s*\b(paramedic_\w+)\(([^)]*)\);"
    for result, name, arguments in re.findall(pattern, text, flags=re.M):
        types = []
        for argument in arguments.split(","):
            declared = re.match(r"\s*(.*?)\s*\w+\s*$", argument, flags=re.S)
            if declared and declared.group(1):
                types.append(c_type(declared.group(1)))
        found[name] = (c_type(result), types)
    return found


def struct_fields(name: str) -> List[str]:
    body = re.search(r"typedef struct \{([^}]*)\} " + name + ";", HEADER)
    assert body
    text = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.S)
    return re.findall(r"(\w+)(?:\[\w+\])?;", text)


def test_signatures_are_those_of_the_header() -> None:
    assert prototypes() == _probe.SIGNATURES


@pytest.mark.parametrize(
    ("struct", "name"),
    [
        (_probe.Options, "paramedic_options"),
        (_probe.Tensor, "paramedic_tensor"),
        (_probe.Collective, "paramedic_collective"),
        (_probe.AuditWatch, "paramedic_audit_watch"),
        (gate.Piece, "paramedic_gate_piece"),
        (gate.Value, "paramedic_gate_value"),
        (gate.Owner, "paramedic_gate_owner"),
        (gate.Clearer, "paramedic_gate_clearer"),
        (gate.State, "paramedic_gate"),
        (clocks.State, "paramedic_pace"),
        (session.Session, "paramedic_progress"),
        (stretch.Line, "paramedic_stretch_line"),
        (stretch.Rate, "paramedic_stretch_rate"),
        (stretch.State, "paramedic_stretch"),
        (tensor_layout.Layout, "paramedic_tensor_layout"),
        (known_calls.MethodState, "paramedic_tap_method"),
        (known_calls.CallState, "paramedic_tap_call"),
        (known_calls.State, "paramedic_tap"),
    ],
)
def test_fields_are_those_of_the_header(struct: Any, name: str) -> None:
    assert [field[0] for field in struct._fields_] == struct_fields(name)


def test_numbers_are_those_of_the_headers() -> None:
    assert f"#define PARAMEDIC_PROBE_VERSION {_probe.VERSION}" in HEADER
    assert f"#define PARAMEDIC_MAX_DIMS {_probe.MAX_DIMS}" in HEADER
    for name in ("PIECES", "VALUES", "OWNERS", "CLEARERS"):
        assert f"#define PARAMEDIC_GATE_{name} {getattr(gate, f'MAX_{name}')}\n" in HEADER
    for name in ("CALLS", "METHODS", "PASSED"):
        assert f"#define PARAMEDIC_TAP_{name} {getattr(known_calls, f'MAX_{name}')}\n" in HEADER
    assert f"#define PARAMEDIC_PACE_BEATS {clocks.MAX_BEATS}\n" in HEADER
    for name in ("LONG_PASS_NS", "SHORT_PASSES"):
        assert f"#define PARAMEDIC_PACE_{name} {getattr(clocks, name)}\n" in HEADER
    for name, number in _probe.DTYPES.items():
        camel = "".join(part.capitalize() for part in name.split("_"))
        assert re.search(rf"k{camel} = {number},", VIEW, flags=re.I), name
    words = {"Weight": 0, "Gradient": 1, "Activation": 2, "Scalar": 6, "Group": 8, "Operation": 9}
    for word, number in words.items():
        assert f"k{word} = {number}," in FORMAT


def test_library_loads() -> None:
    assert _probe.load(probe_path()).paramedic_probe_version() == _probe.VERSION


def test_a_missing_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARAMEDIC_PROBE", "/nonexistent.so")
    probe, why = _probe.open_probe(0, 1)
    assert probe is None
    assert "nonexistent" in why
