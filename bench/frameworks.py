"""Our fused statistics against numpy and torch computing the same numbers, on one thread.

Results are compared before anything is timed. The probe is called as an adapter would call it.
"""

import ctypes
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import torch

ELEMENTS = 16 << 20  # 64 MiB of float32: beyond any cache
REPEATS = 7


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("id", ctypes.c_uint32),
        ("dtype", ctypes.c_uint8),
        ("ndim", ctypes.c_uint8),
        ("unit_dim", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("divisor", ctypes.c_double),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
    ]


class Options(ctypes.Structure):
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


def main(library: Path) -> None:
    torch.set_num_threads(1)
    chance = np.random.default_rng(0)
    x = chance.standard_normal(ELEMENTS, dtype=np.float32) * np.float32(0.02)
    x[5], x[77], x[1 << 20], x[9] = np.nan, np.inf, -np.inf, 0
    y = torch.from_numpy(x)
    check(with_numpy(x), with_torch(y))
    with tempfile.TemporaryDirectory() as folder:
        lib = ctypes.CDLL(str(library))
        lib.paramedic_probe_open.restype = ctypes.c_void_p
        lib.paramedic_capture.argtypes = (
            ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32,
        )  # fmt: skip
        plan = b"collection all kind=all interval=1 what=stats"
        options = Options(ctypes.sizeof(Options), 0, folder.encode(), b"bench", plan, 0.0, 0, 1)
        probe = ctypes.c_void_p(lib.paramedic_probe_open(ctypes.byref(options), None, 0))
        shape = (ctypes.c_int64 * 8)(ELEMENTS)
        ident = lib.paramedic_define(probe, 1, 1, 1, shape, b"x")
        tensor = Tensor(x.ctypes.data, ident, 1, 1, 255, 0, shape, (ctypes.c_int64 * 8)(1))

        def capture() -> None:
            if lib.paramedic_capture(probe, 0, 0, ctypes.addressof(tensor), 1) != 1:
                raise RuntimeError("the probe recorded nothing")

        capture()
        our_ms = median_ms(capture)
        lib.paramedic_probe_close(probe)
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
