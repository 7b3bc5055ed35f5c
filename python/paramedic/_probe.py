"""The C library of `src/probe`, reached through ctypes. Signatures stand here and nowhere else;
`tests/python/test_probe.py` compares them with `probe.h`.

Nothing here raises into the job: `open_probe` answers None and a reason. A Probe belongs to the
thread that opened it; see `adapters/common/session.py`.
"""

import ctypes
import json
import os
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

VERSION = 8
MAX_DIMS = 8
NO_UNITS = 255
MAX_PENDING = 256  # numbers kept before they are written

MODE_TRAIN, MODE_EVAL, MODE_PREDICT, MODE_GLOBAL = range(4)
(
    KIND_WEIGHT,
    KIND_GRADIENT,
    KIND_ACTIVATION,
    KIND_INPUT,
    KIND_LOSS,
    KIND_OPTIMIZER_STATE,
    KIND_SCALAR,
    KIND_OTHER,
    KIND_GROUP,
    KIND_OPERATION,
    KIND_CALL_SITE,
) = range(11)
DUE_WEIGHT = 1 << KIND_WEIGHT
DUE_GRADIENT = 1 << KIND_GRADIENT
DUE_ACTIVATION = 1 << KIND_ACTIVATION

# stats::DType by the last part of the framework's name of the type.
DTYPES = {
    "float64": 0,
    "float32": 1,
    "float16": 2,
    "bfloat16": 3,
    "float8_e4m3fn": 4,
    "float8_e5m2": 5,
    "int8": 6,
    "int16": 7,
    "int32": 8,
    "int64": 9,
    "uint8": 10,
    "uint16": 11,
    "uint32": 12,
    "uint64": 13,
    "bool": 14,
}


class Options(ctypes.Structure):
    """paramedic_options."""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("ring_bytes", ctypes.c_uint32),
        ("ring_directory", ctypes.c_char_p),
        ("run_id", ctypes.c_char_p),
        ("plan", ctypes.c_char_p),
        ("overhead_budget", ctypes.c_double),
        ("rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
    ]


class Tensor(ctypes.Structure):
    """paramedic_tensor."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("id", ctypes.c_uint32),
        ("dtype", ctypes.c_uint8),
        ("ndim", ctypes.c_uint8),
        ("unit_dim", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
        ("sizes", ctypes.c_int64 * MAX_DIMS),
        ("strides", ctypes.c_int64 * MAX_DIMS),
        ("divisor", ctypes.c_double),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
    ]


class Collective(ctypes.Structure):
    """paramedic_collective."""

    _fields_ = [
        ("group", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
        ("where", ctypes.c_uint32),
        ("peer", ctypes.c_int32),
        ("bytes", ctypes.c_uint64),
        ("dtype", ctypes.c_uint8),
        ("ndim", ctypes.c_uint8),
        ("asynchronous", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 5),
        ("sizes", ctypes.c_int64 * MAX_DIMS),
    ]


class AuditWatch(ctypes.Structure):
    """paramedic_audit_watch; `follow` gets the event's name and its arguments."""

    # PYFUNCTYPE: the interpreter calls it with the GIL held.
    Follow = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.py_object)
    _fields_ = [
        ("follow", Follow),
        ("events", ctypes.POINTER(ctypes.c_char_p)),
        ("count", ctypes.c_int32),
        ("on", ctypes.c_int32),
    ]


_probe_p = ctypes.c_void_p
_tensors_p = ctypes.POINTER(Tensor)

# Name -> (result, arguments).
SIGNATURES: Dict[str, Tuple[Any, List[Any]]] = {
    "paramedic_probe_version": (ctypes.c_int32, []),
    "paramedic_probe_open": (
        _probe_p,
        [ctypes.POINTER(Options), ctypes.c_char_p, ctypes.c_uint32],
    ),
    "paramedic_probe_close": (None, [_probe_p]),
    "paramedic_probe_finish": (None, [_probe_p]),
    "paramedic_define": (
        ctypes.c_int32,
        [
            _probe_p,
            ctypes.c_uint8,
            ctypes.c_uint8,
            ctypes.c_uint8,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_char_p,
        ],
    ),
    "paramedic_due": (ctypes.c_uint32, [_probe_p, ctypes.c_uint8, ctypes.c_int64]),
    "paramedic_next_due": (ctypes.c_int64, [_probe_p, ctypes.c_uint8, ctypes.c_int64]),
    "paramedic_capture": (
        ctypes.c_int32,
        [_probe_p, ctypes.c_uint8, ctypes.c_int64, _tensors_p, ctypes.c_int32],
    ),
    "paramedic_scalars_of_steps": (
        ctypes.c_int32,
        [
            _probe_p,
            ctypes.c_uint8,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.POINTER(ctypes.c_int32),
            ctypes.POINTER(ctypes.c_double),
            ctypes.c_int32,
        ],
    ),
    "paramedic_scalar_at": (
        ctypes.c_double,
        [
            _probe_p,
            ctypes.c_uint8,
            ctypes.c_int64,
            ctypes.c_int32,
            ctypes.c_uint64,
            ctypes.c_uint8,
            ctypes.c_double,
        ],
    ),
    "paramedic_fingerprint": (
        None,
        [_tensors_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64)],
    ),
    "paramedic_event": (
        ctypes.c_int32,
        [_probe_p, ctypes.c_uint8, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p],
    ),
    "paramedic_collective_enter": (
        ctypes.c_int32,
        [_probe_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(Collective)],
    ),
    "paramedic_collective_leave": (
        ctypes.c_int32,
        [_probe_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32],
    ),
    "paramedic_step_done": (
        None,
        [_probe_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32],
    ),
    "paramedic_overhead_percent": (ctypes.c_double, [_probe_p]),
    "paramedic_dropped": (ctypes.c_uint64, [_probe_p]),
    "paramedic_probe_error": (ctypes.c_char_p, [_probe_p]),
    "paramedic_audit": (
        ctypes.c_int32,
        [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p],
    ),
    # What follows but for the first two are bodies of Python functions, never called through
    # ctypes: _native.py.
    "paramedic_native_works": (ctypes.c_int32, []),
    "paramedic_gate_keep": (None, [ctypes.c_void_p]),
    "paramedic_gate_mark": (ctypes.c_void_p, [ctypes.c_void_p] * 2),
    "paramedic_gate_cleared": (ctypes.c_void_p, [ctypes.c_void_p] * 2),
    "paramedic_gate_backward": (ctypes.c_void_p, [ctypes.c_void_p] * 2),
    "paramedic_gate_step": (ctypes.c_void_p, [ctypes.c_void_p] * 2 + [ctypes.c_int64]),
    "paramedic_stretch_backward": (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p],
    ),
    "paramedic_stretch_step": (ctypes.c_void_p, [ctypes.c_void_p] * 2 + [ctypes.c_int64]),
    "paramedic_pace_beat": (ctypes.c_void_p, [ctypes.c_void_p] * 2 + [ctypes.c_int64]),
    "paramedic_pace_backward": (ctypes.c_void_p, [ctypes.c_void_p] * 3),
    "paramedic_pace_wait": (ctypes.c_void_p, [ctypes.c_void_p] * 3),
    "paramedic_tap_call_method": (ctypes.c_void_p, [ctypes.c_void_p] * 3),
    "paramedic_tap_wait": (ctypes.c_void_p, [ctypes.c_void_p] * 3),
}


def pointer_to(record: ctypes.Structure) -> Any:
    """What a call takes in place of the record, without looking at its type each time."""
    return ctypes.byref(record)


def load(path: str) -> Any:
    """The library at `path` with its signatures set.

    Raises:
        OSError: it cannot be loaded, or is of another version.
    """
    library = ctypes.CDLL(path)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise OSError(f"{path} has no {name}")
        function.restype = result
        function.argtypes = arguments
    version = library.paramedic_probe_version()
    if version != VERSION:
        raise OSError(f"{path} is version {version}, expected {VERSION}")
    return library


def add_audit_hook(follow: Any, events: Sequence[str]) -> AuditWatch:
    """Has `follow` called with each of `events` while `on` of the answer is not 0.

    The hook itself is native: all other events, which a job raises by the thousand, cost it some
    nanoseconds. It stays for the life of the process.

    Raises:
        OSError: the library cannot be loaded, or the interpreter refuses the hook.
    """
    library = load(os.environ.get("PARAMEDIC_PROBE", ""))
    names = (ctypes.c_char_p * len(events))(*(event.encode() for event in events))
    watch = AuditWatch(AuditWatch.Follow(follow), names, len(events), 0)
    add = ctypes.pythonapi.PySys_AddAuditHook
    add.argtypes, add.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int
    _audit_watches.append(watch)
    if add(ctypes.cast(library.paramedic_audit, ctypes.c_void_p), ctypes.addressof(watch)):
        raise OSError("the interpreter takes no audit hook")
    return watch


_audit_watches: List[AuditWatch] = []  # the interpreter holds their addresses


def _first_int(names: Sequence[str], default: int) -> int:
    for name in names:
        try:
            return int(os.environ[name])
        except (KeyError, ValueError):
            continue
    return default


def rank_from_env() -> Tuple[int, int]:
    """(rank, world size) as the launcher told this process; (0, 1) else."""
    for rank, size in (
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
        ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if rank in os.environ and size in os.environ:
            return _first_int([rank], 0), _first_int([size], 1)
    return 0, 1


def overhead_budget() -> float:
    """The share of step time that may be spent; 0 = no limit."""
    try:
        return float(os.environ.get("PARAMEDIC_OVERHEAD_BUDGET", "0.01"))
    except ValueError:
        return 0.01


def _options(rank: int, world_size: int) -> Options:
    environ = os.environ
    return Options(
        ctypes.sizeof(Options),
        _first_int(["PARAMEDIC_RING_BYTES"], 0),
        os.fsencode(environ.get("PARAMEDIC_RING_DIR", environ.get("PARAMEDIC_RUN", ""))),
        environ.get("PARAMEDIC_RUN_ID", "").encode(),
        environ.get("PARAMEDIC_PLAN", "").encode(),
        overhead_budget(),
        rank,
        world_size,
    )


def open_probe(rank: int, world_size: int) -> Tuple[Optional["Probe"], str]:
    """Makes this process's ring as the environment says; (None, why) where it cannot."""
    path = os.environ.get("PARAMEDIC_PROBE", "")
    try:
        library = load(path)
        error = ctypes.create_string_buffer(512)
        options = _options(rank, world_size)
        handle = library.paramedic_probe_open(ctypes.byref(options), error, len(error))
    except OSError as failure:
        return None, str(failure)
    if not handle:
        return None, error.value.decode("utf-8", "replace")
    return Probe(library, ctypes.c_void_p(handle)), ""


def _nothing(*arguments: Any) -> int:
    return 0


class Numbers(ctypes.Structure):
    """paramedic_numbers."""

    _fields_ = [
        ("steps", ctypes.c_int64 * MAX_PENDING),
        ("values", ctypes.c_double * MAX_PENDING),
        ("ids", ctypes.c_int32 * MAX_PENDING),
        ("count", ctypes.c_int64),
        ("probe", ctypes.c_void_p),
    ]


class Probe:
    """One ring, open for writing.

    A call costs about a microsecond in a loop, and 4 to 5 between operations of a framework, where
    its code is in no cache. Numbers are therefore kept and written together by `flush`.
    """

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle
        # For native functions, which call the library themselves.
        self.address = int(handle.value)
        self._scalar_ids: Dict[str, int] = {}
        # Numbers that wait to be written; views of its arrays, so that they are set without ctypes.
        self.numbers = numbers = Numbers(probe=handle)
        arrays = (numbers.steps, numbers.ids, numbers.values)
        views: List[Any] = [memoryview(array).cast("B") for array in arrays]
        self._steps, self._ids, self._values = (
            view.cast(code) for view, code in zip(views, ("q", "i", "d"))
        )
        self._due = library.paramedic_due
        self._next_due = library.paramedic_next_due
        self._capture = library.paramedic_capture
        self._scalar_at = library.paramedic_scalar_at
        self._step_done = library.paramedic_step_done
        # (step, number in its group, pointer to a Collective): a collective is entered; (step,
        # number, group): it has returned. Any thread may call them; no frame of ours is made.
        self.enter: Callable[..., int] = partial(library.paramedic_collective_enter, handle)
        self.leave: Callable[..., int] = partial(library.paramedic_collective_leave, handle)

    def define(self, kind: int, dtype: int, sizes: Sequence[int], name: str) -> int:
        """The number of a new name; -1 when the directory is full."""
        ndim = min(len(sizes), MAX_DIMS)
        array = (ctypes.c_int64 * MAX_DIMS)(*sizes[:ndim])
        encoded = name.encode("utf-8", "replace")
        return int(self._library.paramedic_define(self._handle, kind, dtype, ndim, array, encoded))

    def scalar_id(self, name: str) -> int:
        """The number of a scalar, defined at its first use."""
        number = self._scalar_ids.get(name)
        if number is None:
            number = self.define(KIND_SCALAR, 0, (), name)
            self._scalar_ids[name] = number
        return number

    def due(self, mode: int, step: int) -> int:
        """Bits DUE_* of what is to be captured; call once a step."""
        bits: int = self._due(self._handle, mode, step)
        return bits

    def next_due(self, step: int) -> int:
        """The first step after `step` for which `due` has to be asked."""
        return int(self._next_due(self._handle, MODE_TRAIN, step))

    def capture(self, step: int, tensors: Any, count: int) -> int:
        """Records statistics of the first `count` of an array of Tensor."""
        return int(self._capture(self._handle, MODE_TRAIN, step, tensors, count))

    def scalar(self, step: int, name: str, value: float) -> None:
        """Keeps one named number for the next flush."""
        self.number(step, self.scalar_id(name), value)

    def number(self, step: int, number: int, value: float) -> None:
        """Keeps the scalar `number` for the next flush: no call."""
        at = self.numbers.count
        self._steps[at] = step
        self._ids[at] = number
        self._values[at] = value
        self.numbers.count = at = at + 1
        if at == MAX_PENDING:
            self.flush()

    def flush(self) -> None:
        """Writes the numbers that were kept."""
        numbers = self.numbers
        count, numbers.count = numbers.count, 0
        if count:
            arrays = (numbers.steps, numbers.ids, numbers.values)
            self._library.paramedic_scalars_of_steps(self._handle, MODE_TRAIN, *arrays, count)

    def scalar_at(self, step: int, number: int, data: int, dtype: int, divisor: float) -> float:
        """Records and answers the number that lies at address `data`."""
        value: float = self._scalar_at(self._handle, MODE_TRAIN, step, number, data, dtype, divisor)
        return value

    def fingerprint(self, tensors: Any, count: int, into: Any) -> None:
        """Writes fingerprints of the first `count` of an array of Tensor to an array of c_uint64.

        They do not depend on the divisor or the number of a tensor.
        """
        self._library.paramedic_fingerprint(tensors, count, into)

    def event(self, step: int, kind: str, fields: Dict[str, Any], mode: int = MODE_TRAIN) -> None:
        """Records an event, after the numbers before it; `fields` becomes a JSON object."""
        self.flush()
        text = json.dumps(fields, default=str)
        self._library.paramedic_event(self._handle, mode, step, kind.encode(), text.encode())

    def tell(self, step: int, kind: str, fields: Dict[str, Any]) -> None:
        """As `event`, from any thread: the numbers before it stay where they are."""
        text = json.dumps(fields, default=str)
        self._library.paramedic_event(self._handle, MODE_TRAIN, step, kind.encode(), text.encode())

    def step_done(self, step: int, step_ns: int, spent_ns: int, kinds: int) -> None:
        """Tells the budget controller how long the step and our part of it took."""
        self._step_done(self._handle, step, step_ns, spent_ns, kinds)

    def overhead_percent(self) -> float:
        """The measured cost so far, in percent of step time."""
        return float(self._library.paramedic_overhead_percent(self._handle))

    def error(self) -> str:
        """Why the probe is off; empty while it works."""
        text = self._library.paramedic_probe_error(self._handle)
        return text.decode("utf-8", "replace") if text else ""

    def finish(self) -> None:
        """As `close`, where other threads may still call: what they record is dropped."""
        self._library.paramedic_probe_finish(self._handle)

    def close(self) -> None:
        """Marks the ring as ended in good order. The object must not be used afterwards."""
        self.flush()
        self.enter = self.leave = _nothing
        handle, self._handle = self._handle, ctypes.c_void_p(None)
        if handle:
            self._library.paramedic_probe_close(handle)
