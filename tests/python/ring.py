"""Reads ring files (src/record/format.h) in plain Python, for tests only."""

import json
import struct
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

_HEADER = struct.Struct("<QIIIIQiiiI")
_ATOMICS = struct.Struct("<QQQQQqqII")
_RECORD = struct.Struct("<IIQqqHBBI")
_DEFINITION = struct.Struct("<BBBBI8q")
_STATS = struct.Struct("<II6Q5dIIIIQ")
_SCALAR = struct.Struct("<IId")
_EVENT = struct.Struct("<II")
_ENTERED = struct.Struct("<IIIiqQBBHI")
_LEFT = struct.Struct("<IIq")
_MAGIC = 0x31474E4952444D50
_PADDING, _STATS_TYPE, _SCALARS_TYPE, _EVENT_TYPE, _ENTERED_TYPE, _LEFT_TYPE = 0, 1, 2, 3, 6, 7
_NOWHERE = 0xFFFFFFFF

KINDS = (
    "weight",
    "gradient",
    "activation",
    "input",
    "loss",
    "optimizer_state",
    "scalar",
    "other",
    "group",
    "operation",
    "call_site",
)


class Scalar(NamedTuple):
    step: int
    name: str
    value: float


class Stats(NamedTuple):
    step: int
    name: str
    kind: str
    count: int
    nan: int
    inf: int
    zero: int
    min: float
    max: float
    sum: float
    sum_abs: float
    sum_squares: float
    units: int
    units_dead: int


class Event(NamedTuple):
    step: int
    kind: str
    fields: Dict[str, Any]


class Collective(NamedTuple):
    step: int
    group: str
    number: int
    operation: str
    dtype: int
    shape: Tuple[int, ...]
    bytes: int
    peer: int
    asynchronous: bool
    where: str  # "FILE:LINE FUNCTION"; "" where it is not known


class Ring:
    """All that a process has written."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        magic, version, header_bytes, directory_bytes, ring_bytes, _, pid, rank, world, _ = (
            _HEADER.unpack_from(data)
        )
        assert magic == _MAGIC and version == 2
        used, head, tail, _, dropped, last_step, _, closed, _ = _ATOMICS.unpack_from(
            data, _HEADER.size
        )
        self.pid, self.rank, self.world_size = pid, rank, world
        self.closed, self.dropped, self.last_step = bool(closed), dropped, last_step
        self.definitions: Dict[int, Any] = {}
        self.scalars: List[Scalar] = []
        self.stats: List[Stats] = []
        self.events: List[Event] = []
        self.collectives: List[Collective] = []
        self.left: List[Tuple[str, int]] = []  # group and number, in the order of leaving
        self._read_directory(data[header_bytes : header_bytes + used])
        body = data[header_bytes + directory_bytes :]
        at = tail
        while at < head:
            at += self._read_record(body, at % ring_bytes)

    def _read_directory(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size, _, number, *_ = _RECORD.unpack_from(data, at)
            kind, dtype, ndim, _, name_bytes, *sizes = _DEFINITION.unpack_from(
                data, at + _RECORD.size
            )
            start = at + _RECORD.size + _DEFINITION.size
            name = data[start : start + name_bytes].decode()
            self.definitions[number] = (name, KINDS[kind], dtype, tuple(sizes[:ndim]))
            at += size

    def _read_record(self, body: bytes, at: int) -> int:
        size = struct.unpack_from("<I", body, at)[0]
        if len(body) - at < _RECORD.size:
            return size
        _, _, _, _, step, record_type, _, _, count = _RECORD.unpack_from(body, at)
        start = at + _RECORD.size
        if record_type == _STATS_TYPE:
            for i in range(count):
                self._add_stats(step, _STATS.unpack_from(body, start + i * _STATS.size))
        elif record_type == _SCALARS_TYPE:
            for i in range(count):
                number, _, value = _SCALAR.unpack_from(body, start + i * _SCALAR.size)
                self.scalars.append(Scalar(step, self.definitions[number][0], value))
        elif record_type == _EVENT_TYPE:
            kind_bytes, json_bytes = _EVENT.unpack_from(body, start)
            start += _EVENT.size
            kind = body[start : start + kind_bytes].decode()
            text = body[start + kind_bytes : start + kind_bytes + json_bytes]
            self.events.append(Event(step, kind, json.loads(text)))
        elif record_type == _ENTERED_TYPE:
            sizes = struct.unpack_from(f"<{count}q", body, start + _ENTERED.size)
            self._add_collective(step, _ENTERED.unpack_from(body, start), sizes)
        elif record_type == _LEFT_TYPE:
            group, _, number = _LEFT.unpack_from(body, start)
            self.left.append((self.definitions[group][0], number))
        return size

    def _add_collective(self, step: int, item: Any, sizes: Tuple[int, ...]) -> None:
        group, operation, where, peer, number, size, dtype, asynchronous, _, _ = item
        site = ""
        if where != _NOWHERE:
            name, _, _, line = self.definitions[where]
            function, _, file = name.partition("\n")
            site = f"{file}:{line[0]} {function}"
        names = self.definitions[group][0], number, self.definitions[operation][0]
        self.collectives.append(
            Collective(step, *names, dtype, sizes, size, peer, bool(asynchronous), site)
        )

    def _add_stats(self, step: int, item: Any) -> None:
        name, kind = self.definitions[item[0]][:2]
        count, nan, plus, minus, zero, _, low, high, total, total_abs, squares = item[2:13]
        self.stats.append(
            Stats(step, name, kind, count, nan, plus + minus, zero, low, high, total, total_abs,
                  squares, item[13], item[14])
        )  # fmt: skip

    def named(self, kind: str) -> List[str]:
        """Names of tensors of a kind that have statistics, each once, in order."""
        return list(dict.fromkeys(s.name for s in self.stats if s.kind == kind))

    def scalar(self, name: str) -> List[Scalar]:
        return [s for s in self.scalars if s.name == name]

    def scalar_names(self) -> List[str]:
        return list(dict.fromkeys(s.name for s in self.scalars))

    def of_kind(self, kind: str) -> List[Dict[str, Any]]:
        """Fields of the events of a kind."""
        return [e.fields for e in self.events if e.kind == kind]

    def facts(self, kind: str) -> List[Dict[str, Any]]:
        """Fields of the `model` events of a kind."""
        return [f for f in self.of_kind("model") if f["kind"] == kind]


def rings(folder: Path) -> List[Ring]:
    """All rings of a folder, in the order in which they were made."""
    paths = [p for p in folder.iterdir() if p.is_file() and "ring" in p.name]
    return [Ring(p) for p in sorted(paths, key=lambda p: p.stat().st_ctime_ns)]
