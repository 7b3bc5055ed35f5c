"""Our fused statistics against numpy and torch computing the same numbers, on one thread.

Results are compared before anything is timed. The probe is called as an adapter would call it.
"""

import ctypes
import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from paramedic import _probe  # noqa: E402

ELEMENTS = 16 << 20  # 64 MiB of float32: beyond any cache
REPEATS = 7


def with_numpy(x: "np.ndarray[Any, np.dtype[np.float32]]") -> Dict[str, float]:
    finite = np.isfinite(x)
    y = np.where(finite, x, np.float32(0))
    wide = y.astype(np.float64)
    return {
        "nan": float(np.isnan(x).sum()),
        "positive_inf": float(np.isposinf(x).sum()),
        "negative_inf": float(np.isneginf(x).sum()),
        "zero": float((x == 0).sum()),
        "negative": float((y < 0).sum()),
        "min": float(np.min(x, where=finite, initial=np.inf)),
        "max": float(np.max(x, where=finite, initial=-np.inf)),
        "sum": float(wide.sum()),
        "sum_abs": float(np.abs(wide).sum()),
        "sum_squares": float((wide * wide).sum()),
    }


def with_torch(x: torch.Tensor) -> Dict[str, float]:
    finite = torch.isfinite(x)
    y = torch.where(finite, x, 0.0)
    low = torch.where(finite, x, torch.inf).min()
    high = torch.where(finite, x, -torch.inf).max()
    return {
        "nan": torch.isnan(x).sum().item(),
        "positive_inf": torch.isposinf(x).sum().item(),
        "negative_inf": torch.isneginf(x).sum().item(),
        "zero": (x == 0).sum().item(),
        "negative": (y < 0).sum().item(),
        "min": low.item(),
        "max": high.item(),
        "sum": y.sum(dtype=torch.float64).item(),
        "sum_abs": y.abs().sum(dtype=torch.float64).item(),
        "sum_squares": (y * y).sum(dtype=torch.float64).item(),
    }


def median_ms(call: Callable[[], object]) -> float:
    times: List[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times)


def median_of_fused_pass(library: Path, folder: str, x: Any) -> float:
    os.environ.update(
        PARAMEDIC_PROBE=str(library),
        PARAMEDIC_RING_DIR=folder,
        PARAMEDIC_RUN_ID="bench",
        PARAMEDIC_PLAN="collection all kind=all interval=1 what=stats",
        PARAMEDIC_OVERHEAD_BUDGET="0",
    )
    probe, why = _probe.open_probe(rank=0, world_size=1)
    if probe is None:
        raise RuntimeError(why)
    float32 = _probe.DTYPES["float32"]
    ident = probe.define(_probe.KIND_GRADIENT, float32, (ELEMENTS,), "x")
    tensor = _probe.Tensor(x.ctypes.data, ident, float32, 1, _probe.NO_UNITS)
    tensor.sizes[0], tensor.strides[0] = ELEMENTS, 1
    steps = itertools.count()

    def capture() -> None:
        step = next(steps)
        probe.due(_probe.MODE_TRAIN, step)
        if probe.capture(step, ctypes.pointer(tensor), 1) != 1:
            raise RuntimeError("the probe recorded nothing")

    capture()
    median = median_ms(capture)
    probe.close()
    return median


def main(library: Path) -> None:
    torch.set_num_threads(1)
    chance = np.random.default_rng(0)
    x = chance.standard_normal(ELEMENTS, dtype=np.float32) * np.float32(0.02)
    x[5], x[77], x[1 << 20], x[9] = np.nan, np.inf, -np.inf, 0
    y = torch.from_numpy(x)
    check(with_numpy(x), with_torch(y))
    with tempfile.TemporaryDirectory() as folder:
        our_ms = median_of_fused_pass(library, folder, x)
    for name, other in (("numpy", lambda: with_numpy(x)), ("torch", lambda: with_torch(y))):
        other_ms = median_ms(other)
        print(
            f"{name} takes {other_ms / our_ms:.1f} times as long as the fused pass "
            f"({other_ms:.0f} ms and {our_ms:.1f} ms for 64 MiB; goal >= 10)"
        )


def check(a: Dict[str, float], b: Dict[str, float]) -> None:
    for name, value in a.items():
        if abs(value - b[name]) > 1e-6 * abs(value):
            raise RuntimeError(f"{name}: {value} and {b[name]} differ")
