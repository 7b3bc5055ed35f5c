"""Reads the folder of a recorded run, live or finished.

    run = paramedic.open("paramedic-runs/NAME")
    run.info["status"], run.tensors("weight$"), run.scalars("step_ms")
    run.tensor("net.0.weight").stats(10)["mean"]
    run.table("stats").to_pandas()

Tables are Arrow IPC segments with an index beside each; only what an index entry covers counts, so
a run can be read while it is written. `pyarrow` (and `numpy`, for raw values) is needed here only.
"""

import json
import os
import re
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

TABLES = (
    "stats",
    "histograms",
    "scalars",
    "events",
    "model",
    "tensors",
    "metrics",
    "findings",
    "repairs",
    "collectives",
)

# src/store/segment_format.h.
_INDEX_HEADER = struct.Struct("<QIIIiII")
_INDEX_ENTRY = struct.Struct("<QQQQQqqqIIII")
_INDEX_MAGIC = 0x3158444E49444D50
_INDEX_VERSION = 1
_SEGMENT = re.compile(r"rank-(\d+)-(\d+)\.idx$")
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Step(NamedTuple):
    """A recorded number."""

    step: int
    value: float


class RunError(Exception):
    """A run that cannot be read: what, where, and what to do."""


def _pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.ipc  # type: ignore[import-untyped]
    except ImportError as error:
        raise RunError("reading tables needs pyarrow: pip install pyarrow") from error
    return pyarrow


def open_run(run: str) -> "Run":
    """The run in a folder, or of a name under PARAMEDIC_DIR or `paramedic-runs`.

    Raises:
        RunError: there is no such run, or its run.json is damaged.
    """
    folders = [run, os.path.join(os.environ.get("PARAMEDIC_DIR") or "paramedic-runs", run)]
    for folder in folders:
        if os.path.isfile(os.path.join(folder, "run.json")):
            return Run(folder)
    raise RunError(f"there is no run at {folders[0]} or {folders[1]}: `paramedic show` lists them")


class Run:
    """One recorded run."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)
        path = os.path.join(folder, "run.json")
        try:
            with open(path, encoding="utf-8") as file:
                self.info: Dict[str, Any] = json.load(file)
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error
        self._tables: Dict[str, Tuple[int, Any]] = {}

    def table(self, name: str) -> Any:
        """A table of the run (see TABLES) as a pyarrow.Table, all ranks after each other.

        Raises:
            RunError: no such table, a damaged segment, or pyarrow is missing.
        """
        if name not in TABLES:
            raise RunError(f"no table {name}: there are {', '.join(TABLES)}")
        segments = list(self._segments(name))
        covered = sum(entry[0] + entry[1] for _, entries in segments for entry in entries[-1:])
        known = self._tables.get(name)
        if known is not None and known[0] == covered:
            return known[1]
        arrow = _pyarrow()
        tables = [_read_segment(arrow, path, entries) for path, entries in segments if entries]
        table = arrow.concat_tables(tables) if tables else arrow.table({})
        self._tables[name] = (covered, table)
        return table

    def tensors(self, regex: Optional[str] = None, kind: Optional[str] = None) -> List[str]:
        """Names of the tensors with statistics whose name matches, in order of appearance."""
        found: Dict[str, None] = {}
        for row in self._rows("stats", ("name", "kind")):
            if (kind is None or row["kind"] == kind) and (
                regex is None or re.search(regex, row["name"])
            ):
                found[row["name"]] = None
        return list(found)

    def tensor(self, name: str, kind: Optional[str] = None, rank: int = 0) -> "Tensor":
        """One tensor; `kind` ("weight", "gradient", "activation") where a name has several.

        Raises:
            RunError: nothing was recorded under this name.
        """
        kinds = {r["kind"] for r in self._rows("stats", ("name", "kind")) if r["name"] == name}
        kinds |= {r["kind"] for r in self._rows("tensors", ("name", "kind")) if r["name"] == name}
        chosen = [k for k in ("weight", "activation", "gradient") if k in kinds] + sorted(kinds)
        if (kind is None and not chosen) or (kind is not None and kind not in kinds):
            raise RunError(f"nothing was recorded of {name}: Run.tensors() lists what was")
        return Tensor(self, name, kind or chosen[0], rank)

    def scalars(self, name: str, rank: int = 0) -> List[Step]:
        """The values of a scalar, such as `step_ms`, in the order of their recording."""
        return [
            Step(row["step"], row["value"])
            for row in self._rows("scalars", ("name", "rank", "step", "value"))
            if row["name"] == name and row["rank"] == rank
        ]

    def scalar_names(self) -> List[str]:
        """Names of all scalars."""
        return list(dict.fromkeys(row["name"] for row in self._rows("scalars", ("name",))))

    def findings(self) -> List[Dict[str, Any]]:
        """The findings as they stand, in order of their first appearance."""
        newest: Dict[str, Any] = {}
        for row in self._rows("findings", ("key", "json")):
            newest[row["key"]] = json.loads(row["json"])
        return list(newest.values())

    def _rows(self, table: str, columns: Tuple[str, ...]) -> List[Dict[str, Any]]:
        data = self.table(table)
        if not data.num_rows:
            return []
        rows: List[Dict[str, Any]] = data.select(list(columns)).to_pylist()
        return rows

    def _segments(self, table: str) -> Iterator[Tuple[str, List[Tuple[int, ...]]]]:
        folder = os.path.join(self.folder, table)
        names = os.listdir(folder) if os.path.isdir(folder) else []
        matches = [match for match in map(_SEGMENT.match, names) if match]
        for match in sorted(matches, key=lambda m: (int(m.group(1)), int(m.group(2)))):
            path = os.path.join(folder, match.group(0))
            yield path[: -len(".idx")] + ".arrows", _read_index(path)


class Tensor:
    """What was recorded of one tensor."""

    def __init__(self, run: Run, name: str, kind: str, rank: int) -> None:
        self.name = name
        self.kind = kind
        self.rank = rank
        self._run = run

    def steps(self) -> List[int]:
        """Steps with statistics or values."""
        return sorted({r["step"] for r in self._rows("stats")} | set(self._value_rows()))

    def stats(self, step: int) -> Dict[str, Any]:
        """The statistics of a step: counts, extremes and sums as stored, and what follows.

        Raises:
            KeyError: there are none of this step.
        """
        for row in reversed(self._rows("stats")):
            if row["step"] == step:
                return _derived(row)
        raise KeyError(step)

    def value(self, step: int) -> Any:
        """All values of a step as a numpy array, where the capture plan asked for them.

        Raises:
            KeyError: there are none of this step, or not all of them.
        """
        pieces = self._value_rows()[step]
        return _assemble(pieces)

    def _rows(self, table: str) -> List[Dict[str, Any]]:
        data = self._run.table(table)
        if not data.num_rows:
            return []
        arrow = _pyarrow()
        import pyarrow.compute as compute  # type: ignore[import-untyped]

        mask = compute.and_(
            compute.equal(data["name"], self.name), compute.equal(data["kind"], self.kind)
        )
        mask = compute.and_(mask, compute.equal(data["rank"], arrow.scalar(self.rank, "int32")))
        rows: List[Dict[str, Any]] = data.filter(mask).to_pylist()
        return rows

    def _value_rows(self) -> Dict[int, List[Dict[str, Any]]]:
        found: Dict[int, List[Dict[str, Any]]] = {}
        for row in self._rows("tensors"):
            found.setdefault(row["step"], []).append(row)
        return found


def _derived(row: Dict[str, Any]) -> Dict[str, Any]:
    """Adds mean, std (of the population), rms and l2 of the finite values."""
    finite = row["count"] - row["nan"] - row["positive_inf"] - row["negative_inf"]
    nothing = float("nan")
    mean = row["sum"] / finite if finite else nothing
    square = row["sum_squares"] / finite if finite else nothing
    row["mean"] = mean
    row["mean_abs"] = row["sum_abs"] / finite if finite else nothing
    row["rms"] = square**0.5 if finite else nothing
    row["std"] = max(0.0, square - mean * mean) ** 0.5 if finite else nothing
    row["l2"] = row["sum_squares"] ** 0.5 if finite else nothing
    return row


def _assemble(pieces: List[Dict[str, Any]]) -> Any:
    import numpy

    total = pieces[0]["total_bytes"]
    # The newest pieces count: a step may have been recorded twice.
    buffer = bytearray(total)
    missing = total
    for piece in pieces:
        data, offset = piece["bytes"], piece["offset_bytes"]
        buffer[offset : offset + len(data)] = data
        missing -= len(data)
    if missing > 0:
        raise KeyError(f"{missing} of {total} bytes were not stored")
    dtype, shape = pieces[0]["dtype"], pieces[0]["shape"]
    if dtype == "bfloat16":
        # numpy has none: the same numbers as float32.
        wide = numpy.frombuffer(bytes(buffer), "<u2").astype("<u4") << 16
        array = wide.view("<f4")
    else:
        array = numpy.frombuffer(bytes(buffer), "u1" if dtype.startswith("float8") else dtype)
    return array.reshape([-1, *shape[1:]]) if shape else array.reshape(())


def _read_index(path: str) -> List[Tuple[int, ...]]:
    """(offset, bytes, rows, crc) of the messages of a segment."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < _INDEX_HEADER.size:
        return []
    magic, version, entry_bytes = _INDEX_HEADER.unpack_from(data)[:3]
    if magic != _INDEX_MAGIC:
        raise RunError(f"{path} is no index of a segment")
    if version > _INDEX_VERSION:
        raise RunError(f"{path} is of version {version}, this program reads {_INDEX_VERSION}")
    entries: List[Tuple[int, ...]] = []
    for at in range(_INDEX_HEADER.size, len(data) - entry_bytes + 1, entry_bytes):
        fields = _INDEX_ENTRY.unpack_from(data, at)
        entries.append((fields[0], fields[1], fields[8], fields[9]))
    return entries


def _read_segment(arrow: Any, path: str, entries: List[Tuple[int, ...]]) -> Any:
    """The rows that the index covers, as a table."""
    with open(path, "rb") as file:
        data = file.read()
    end = max(entry[0] + entry[1] for entry in entries)
    if len(data) < end:
        raise RunError(f"{path} has {len(data)} bytes, its index covers {end}")
    try:
        stream = arrow.py_buffer(data[:end] + _END_OF_STREAM)
        return arrow.ipc.open_stream(stream).read_all()
    except arrow.ArrowInvalid as error:
        raise RunError(f"{path} is damaged: {error}") from error
