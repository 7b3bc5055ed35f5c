"""Reading a run's folder."""

import json
import struct
from pathlib import Path
from typing import Any, Dict, List

import pytest

pa = pytest.importorskip("pyarrow")

import paramedic  # noqa: E402
from paramedic import trial  # noqa: E402

HEADER = struct.Struct("<QIIIiII")
ENTRY = struct.Struct("<QQQQQqqqIIII")


def write_segment(folder: Path, table: str, batches: List[Dict[str, Any]], schema: Any) -> Path:
    """A segment as the store writes it: Arrow messages, and an index entry for each."""
    (folder / table).mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, schema)
    ends = [sink.tell()]
    for batch in batches:
        writer.write_batch(pa.record_batch(batch, schema=schema))
        ends.append(sink.tell())
    data = sink.getvalue().to_pybytes()
    path = folder / table / "rank-0-000001.arrows"
    path.write_bytes(data)
    index = HEADER.pack(trial._INDEX_MAGIC, 1, ENTRY.size, 0, 0, 1, 0)
    starts = [0, *ends[:-1]]
    for rows, start, end in zip([0, *(len(b["step"]) for b in batches)], starts, ends):
        index += ENTRY.pack(start, end - start, 1, 0, 0, 0, 0, 0, rows, 0, 0, 0)
    path.with_suffix(".idx").write_bytes(index)
    return path


SCALARS = pa.schema(
    [("rank", pa.int32()), ("step", pa.int64()), ("name", pa.utf8()), ("value", pa.float64())]
)
COUNTS = ("count", "nan", "positive_inf", "negative_inf", "zero", "negative")
SUMS = ("min", "max", "sum", "sum_abs", "sum_squares")
STATS = pa.schema(
    [("rank", pa.int32()), ("step", pa.int64()), ("name", pa.utf8()), ("kind", pa.utf8())]
    + [(name, pa.uint64()) for name in COUNTS]
    + [(name, pa.float64()) for name in SUMS]
)
TENSORS = pa.schema(
    [
        ("rank", pa.int32()),
        ("step", pa.int64()),
        ("name", pa.utf8()),
        ("kind", pa.utf8()),
        ("dtype", pa.utf8()),
        ("shape", pa.list_(pa.int64())),
        ("total_bytes", pa.uint64()),
        ("offset_bytes", pa.uint64()),
        ("bytes", pa.binary()),
    ]
)


def scalars(*rows: Any) -> Dict[str, Any]:
    names, steps, values = zip(*rows)
    return {"rank": [0] * len(rows), "step": steps, "name": names, "value": values}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "demo"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": "demo", "status": "finished"}))
    batches = [scalars(("step_ms", 0, 1.5), ("x", 0, 2.0)), scalars(("step_ms", 1, 2.5))]
    write_segment(folder, "scalars", batches, SCALARS)
    stats = {
        "rank": [0, 0],
        "step": [0, 10],
        "name": ["net.weight", "net.weight"],
        "kind": ["gradient", "gradient"],
        **{name: [4 if name == "count" else 0] * 2 for name in COUNTS},
        **{name: [8.0] * 2 for name in SUMS},
        "sum_squares": [16.0, 20.0],
    }
    write_segment(folder, "stats", [stats], STATS)
    raw = struct.pack("<4f", 1, 2, 3, 4)
    pieces = {
        "rank": [0, 0],
        "step": [10, 10],
        "name": ["net.weight"] * 2,
        "kind": ["gradient"] * 2,
        "dtype": ["float32"] * 2,
        "shape": [[2, 2]] * 2,
        "total_bytes": [16, 16],
        "offset_bytes": [8, 0],
        "bytes": [raw[8:], raw[:8]],
    }
    write_segment(folder, "tensors", [pieces], TENSORS)
    return folder


def test_a_run_is_opened_by_folder_or_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paramedic.open(str(folder)).info["status"] == "finished"
    monkeypatch.setenv("PARAMEDIC_DIR", str(folder.parent))
    assert paramedic.open("demo").info["id"] == "demo"
    with pytest.raises(trial.RunError, match="no run at"):
        paramedic.open("other")


def test_scalars_and_statistics_are_read(folder: Path) -> None:
    run = paramedic.open(str(folder))
    assert run.scalars("step_ms") == [(0, 1.5), (1, 2.5)]
    assert run.scalar_names() == ["step_ms", "x"]
    assert run.tensors("weight$") == run.tensors(kind="gradient") == ["net.weight"]
    assert run.tensors("bias") == []
    tensor = run.tensor("net.weight")
    assert (tensor.kind, tensor.steps()) == ("gradient", [0, 10])
    stats = tensor.stats(10)
    assert (stats["mean"], stats["std"], stats["rms"]) == (2.0, 1.0, 5**0.5)
    with pytest.raises(KeyError):
        tensor.stats(5)


def test_values_are_put_together_of_their_pieces(folder: Path) -> None:
    value = paramedic.open(str(folder)).tensor("net.weight").value(10)
    assert value.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_only_what_the_index_covers_counts(folder: Path) -> None:
    # GIVEN a segment whose last batch has no entry yet, and garbage behind it
    path = folder / "scalars" / "rank-0-000001.arrows"
    index = path.with_suffix(".idx")
    index.write_bytes(index.read_bytes()[: -ENTRY.size])
    path.write_bytes(path.read_bytes() + b"torn")
    # THEN the batches before it are read
    assert paramedic.open(str(folder)).scalars("step_ms") == [(0, 1.5)]


def test_a_cut_segment_is_an_error_with_its_place(folder: Path) -> None:
    path = folder / "scalars" / "rank-0-000001.arrows"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(trial.RunError, match="rank-0-000001.arrows has 100 bytes"):
        paramedic.open(str(folder)).scalars("step_ms")


def test_a_newer_run_is_refused(folder: Path) -> None:
    index = folder / "scalars" / "rank-0-000001.idx"
    data = bytearray(index.read_bytes())
    data[8] = 9
    index.write_bytes(bytes(data))
    with pytest.raises(trial.RunError, match="version 9"):
        paramedic.open(str(folder)).scalars("step_ms")


def test_a_table_that_is_not_there_is_empty(folder: Path) -> None:
    run = paramedic.open(str(folder))
    assert run.table("metrics").num_rows == 0
    assert run.findings() == []
    with pytest.raises(trial.RunError, match="no table"):
        run.table("nothing")
