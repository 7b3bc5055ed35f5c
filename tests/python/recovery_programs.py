"""Programs that fail once at various places, are retried, and end as if they never had.

`flaky()` raises at every odd call. Each program leaves what it did in `result`, which must be what
the same program leaves when it runs untouched and `flaky()` never raises. Run as a script, this
file checks all of them with the interpreter that runs it, which needs nothing but itself.
"""

import sys
import tempfile
from pathlib import Path
from typing import Dict, List

import programs_of_blocks
import programs_of_calls
from crashing import Flaky, run

PROGRAMS: Dict[str, str] = {**programs_of_blocks.PROGRAMS, **programs_of_calls.PROGRAMS}


def wrong(folder: Path, name: str) -> List[str]:
    """What is not as it should be with one program."""
    found: List[str] = []
    plain, _ = run(folder, PROGRAMS[name], transform=False, flaky=lambda: 1)
    steady, none = run(folder, PROGRAMS[name], flaky=lambda: 1)
    repaired, decider = run(folder, PROGRAMS[name], flaky=Flaky())
    for kind, ended in (("untroubled", steady), ("retried", repaired)):
        if ended["result"] != plain["result"]:
            found.append(f"{kind}: {ended['result']!r} instead of {plain['result']!r}")
    if none.crashes:
        found.append(f"asked without a crash at {none.where}")
    if not decider.crashes or decider.reasons:
        found.append(f"crashes {decider.where}, refused {decider.reasons}")
    return found


def main() -> int:
    """Checks all programs; the number of wrong ones."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            try:
                found = wrong(Path(folder), name)
            except BaseException as error:
                found = [f"{type(error).__name__}: {error}"]
            failed += bool(found)
            for text in found:
                print(f"{name}: {text}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
