"""The flight recorders of torch.distributed, read while the main thread hangs.

torch keeps the last collectives of each group in a ring of its own, those of C++ (DDP's buckets)
too. There are two: of gloo and of NCCL; a build has one, the other, or both. Reading one costs
about a millisecond, the GIL released where the library's own function is found. An entry's `state`
says nothing for gloo; whether it is `retired`, and the status of its group, do.
"""

import ctypes
import json
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from paramedic.adapters.torch.distributed.collectives import Collectives
from paramedic.adapters.torch.session import Session

ENTRIES = "256"  # of the recorder's ring: what a stall needs, and quick to read
MAX_GROUPS = 64
# std::string dump_…_trace_json(bool, bool), of C++ libraries with the newer strings.
SYMBOLS = (
    "_ZN4c10d18dump_fr_trace_jsonB5cxx11Ebb",
    "_ZN4c10d20dump_nccl_trace_jsonB5cxx11Ebb",
)
LIBRARIES = ("libtorch_cpu.so", "libtorch_cuda.so")


class _String(ctypes.Structure):
    """A std::string that is too long to lie in itself: all dumps are."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("rest", ctypes.c_size_t),
    ]


class Flight:
    """Reads what the recorders hold."""

    def __init__(self, session: Session, collectives: Collectives) -> None:
        self._session = session
        self._collectives = collectives
        self._readers: Optional[List[Callable[[], bytes]]] = None

    def prepare(self) -> None:
        """Before the first group: a small ring, unless the job has said how large."""
        names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
        if not any(name in os.environ for name in names):
            # For the library alone: what the job sees of its environment stays as it is.
            os.putenv(names[0], ENTRIES)
            if _version(self._session.torch) < (2, 9):
                os.putenv(names[1], ENTRIES)

    def read(self) -> Dict[str, Any]:
        """{group: {last_enqueued, last_completed, open}} of all recorders; empty when there is
        none."""
        if self._readers is None:
            self._readers = self._find()
        groups: Dict[str, Any] = {}
        for reader in self._readers:
            groups.update(summary(json.loads(reader())))
        if not groups and self._collectives.count > 0:
            self._session.not_captured(
                "flight recorder",
                "it is empty though collectives were called: those that C++ calls (DDP) are not "
                "seen; TORCH_FR_BUFFER_SIZE may be 0, or this torch has none for the backend",
            )
        return groups

    def _find(self) -> List[Callable[[], bytes]]:
        native = _native(os.path.join(os.path.dirname(self._session.torch.__file__), "lib"))
        if native:
            return native
        bindings = getattr(self._session.torch._C, "_distributed_c10d", None)
        dump = getattr(bindings, "_dump_fr_trace_json", None)
        return [] if dump is None else [lambda: bytes(dump(True, False))]


def _version(torch: Any) -> Tuple[int, ...]:
    return tuple(int(part) for part in str(torch.__version__).split(".")[:2] if part.isdigit())


def _native(folder: str) -> List[Callable[[], bytes]]:
    found = []
    for library_name in LIBRARIES:
        path = os.path.join(folder, library_name)
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            delete = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD | os.RTLD_NOW)._ZdlPv
        except (OSError, AttributeError):
            continue
        delete.argtypes, delete.restype = [ctypes.c_void_p], None
        for symbol in SYMBOLS:
            function = getattr(library, symbol, None)
            if function is not None:
                function.argtypes, function.restype = [ctypes.c_bool, ctypes.c_bool], _String
                found.append(_reader(function, delete))
    return found


def _reader(function: Any, delete: Any) -> Callable[[], bytes]:
    def read() -> bytes:
        text = function(True, False)
        if text.capacity <= 15:  # it lay in itself, and is gone
            return b"{}"
        try:
            return ctypes.string_at(text.data, text.size)
        finally:
            delete(text.data)

    return read


def summary(dump: Any) -> Dict[str, Any]:
    """How far each group has come, and its oldest call that is not over."""
    groups: Dict[str, Any] = {}
    names: Dict[str, str] = {}
    oldest: Dict[str, Any] = {}
    for entry in dump.get("entries") or ():
        if entry.get("is_p2p"):
            continue
        name = str((entry.get("process_group") or ["?"])[0])
        names[str(entry.get("pg_id"))] = name
        is_open = not entry.get("retired") and entry.get("state") != "completed"
        sequence = entry.get("collective_seq_id", -1)
        if is_open and (name not in oldest or sequence < oldest[name]["sequence"]):
            oldest[name] = {
                "sequence": sequence,
                "operation": str(entry.get("profiling_name", "")).rpartition(":")[2],
                "sizes": entry.get("input_sizes"),
            }
        if name not in groups and len(groups) < MAX_GROUPS:
            groups[name] = {"last_enqueued": -1, "last_completed": -1}
    for number, status in (dump.get("pg_status") or {}).items():
        group = groups.get(names.get(str(number), str(number)))
        if group is not None:
            group["last_enqueued"] = int(status.get("last_enqueued_collective", -1))
            group["last_completed"] = int(status.get("last_completed_collective", -1))
    for name, group in groups.items():
        group["open"] = oldest.get(name)
    return groups
