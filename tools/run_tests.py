#!/usr/bin/env python3
"""Runs every test suite and ends with one line: N passed, N failed.

C++: each binary of build/dev/tests (GTest), two at a time. Python: pytest over tests/, which uses
the release build; jobs of tests/tensorflow run in an environment of their own (make tensorflow).
`--only NAME` runs the suites whose name contains NAME.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import List, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SUITE_SECONDS_MAX = 1500
# Halves run side by side, and neither may take too long: the cases of recovery wait most of theirs.
PYTHON_SUITES = {
    "tests/recovery daifu": ["-k", "daifu", "tests/recovery"],
    "tests/recovery": ["-k", "not daifu", "tests/recovery"],
    "tests/python recovery": ["-k", "recovery", "tests/python"],
    "tests/python": ["-k", "not recovery", "tests/python"],
    "tests/e2e": ["tests/e2e"],
    "tests/diagnose": ["tests/diagnose"],
    "tests/cluster": ["tests/cluster"],
    "tests/tensorflow": ["tests/tensorflow"],
}


class Outcome(NamedTuple):
    name: str
    passed: int
    failed: int
    skipped: int
    output: str
    seconds: float


def read_report(path: Path) -> "tuple[int, int, int]":
    """(passed, failed, skipped) of a JUnit-like XML report, as GTest and pytest write it."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def run_suite(name: str, command: List[str], report: Path) -> Outcome:
    started = time.monotonic()
    env = {k: v for k, v in os.environ.items() if not k.startswith("PARAMEDIC_")}
    env.setdefault("OMP_NUM_THREADS", "1")
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SUITE_SECONDS_MAX,
            check=False,
        )
        code, output = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as error:
        code, output = 1, f"no end after {SUITE_SECONDS_MAX} s\n" + str(error.stdout or "")
    seconds = time.monotonic() - started
    try:
        passed, failed, skipped = read_report(report)
    except (OSError, ElementTree.ParseError):
        passed, failed, skipped = 0, 1, 0  # it died before it could report
    if code != 0 and failed == 0:
        failed = 1
    return Outcome(name, passed, failed, skipped, output, seconds)


def suites(work: Path) -> "List[tuple[str, List[str], Path]]":
    found = []
    for binary in sorted((ROOT / "build" / "dev" / "tests").glob("*_test")):
        report = work / f"{binary.name}.xml"
        command = [str(binary), "--gtest_brief=1", f"--gtest_output=xml:{report}"]
        found.append((binary.name, command, report))
    for name, arguments in PYTHON_SUITES.items():
        report = work / f"{re.sub('[ /]', '-', name)}.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--maxfail=20", *arguments]
        found.append((name, command + [f"--junitxml={report}"], report))
    return found


def take_default_signals() -> None:
    """A shell starts what it puts into the background with some signals ignored, and the jobs of
    the tests would inherit that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def main() -> int:
    take_default_signals()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work:
        chosen = [suite for suite in suites(Path(work)) if options.only in suite[0]]
        if not chosen:
            parser.error(f"no suite is called {options.only}")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in concurrent.futures.as_completed(
                [pool.submit(run_suite, *suite) for suite in chosen]
            ):
                outcome = done.result()
                passed += outcome.passed
                failed += outcome.failed
                if outcome.failed:
                    print(outcome.output)
                print(
                    f"{outcome.name:16s} {outcome.passed:4d} passed, {outcome.failed} failed, "
                    f"{outcome.skipped} skipped, {outcome.seconds:.1f} s",
                    flush=True,
                )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
