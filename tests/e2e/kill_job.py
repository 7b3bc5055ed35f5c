"""A job that records a known number at every step, for the kill test. Usage: kill_job.py TRUTH.

After each step it appends (step, time) to TRUTH by one write(2), so that TRUTH says what may be
expected of the run folder. It needs no framework: it calls the probe as an adapter does.
"""

import os
import struct
import sys
import time


def known_value(step: int) -> float:
    """A number that only this step has, exact in a double."""
    return step * 3.0 + 0.25


def main() -> None:
    from paramedic._probe import open_probe

    probe, why = open_probe(rank=0, world_size=1)
    if probe is None:
        sys.exit(f"no probe: {why}")
    truth = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for step in range(10**9):
        probe.scalar(step, "loss/known", known_value(step))
        probe.flush()
        os.write(truth, struct.pack("<qd", step, time.time()))
        time.sleep(0.0005)


if __name__ == "__main__":
    main()
