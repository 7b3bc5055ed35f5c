"""A job that records a known number at every step, for the kill test. Usage: kill_job.py TRUTH.

After each step it appends (step, time) to TRUTH by one write(2), so that TRUTH says what may be
expected of the run folder. It needs no framework: it calls the probe as an adapter would.
"""

import array
import ctypes
import os
import struct
import sys
import time


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


def main() -> None:
    lib = ctypes.CDLL(os.environ["PARAMEDIC_PROBE"])
    lib.paramedic_probe_open.restype = ctypes.c_void_p
    probe_at = (ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64)
    lib.paramedic_scalars.argtypes = (*probe_at, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
    lib.paramedic_define.argtypes = (
        ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint8, ctypes.c_uint8, ctypes.c_void_p,
        ctypes.c_char_p,
    )  # fmt: skip
    options = Options(
        ctypes.sizeof(Options), 0, os.environ["PARAMEDIC_RING_DIR"].encode(),
        os.environ["PARAMEDIC_RUN_ID"].encode(), b"", 0.0, 0, 1,
    )  # fmt: skip
    error = ctypes.create_string_buffer(256)
    probe = lib.paramedic_probe_open(ctypes.byref(options), error, 256)
    if not probe:
        sys.exit(f"no probe: {error.value.decode()}")
    ids = array.array("i", [lib.paramedic_define(probe, 6, 0, 0, None, b"loss/known")])
    value = array.array("d", [0.0])
    truth = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    id_address, value_address = ids.buffer_info()[0], value.buffer_info()[0]
    for step in range(10**9):
        value[0] = known_value(step)
        lib.paramedic_scalars(probe, 0, step, id_address, value_address, 1)
        os.write(truth, struct.pack("<qd", step, time.time()))
        time.sleep(0.0005)


def known_value(step: int) -> float:
    """A number that only this step has, exact in a double."""
    return step * 3.0 + 0.25


if __name__ == "__main__":
    main()
