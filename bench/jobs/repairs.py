"""Many repairs in one process: what the mechanism takes, in parts.

Usage: repairs.py KINDS MODULES OUT.json. That many modules of the same text are transformed, and in
each of them each of KINDS crashes twice: at a place that is new to the process, and once more at
it. Who decides answers at once, so that what is measured is ours alone. OUT gets one object for
each repair: its kind, whether its place was new, the parts that recovery measures itself, and the
whole time from the `raise` to the start of the code that goes on.
"""

import difflib
import json
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from paramedic.recovery import loader, resume
from paramedic.recovery.crash import Crash, Repair

PROGRAM = """
def innermost(kind, count):
    total = 0
    for i in range(count):
        total += i
        flaky(kind)
    return total

def middle(kind):
    return innermost(kind, 2) + 1

def callee(kind):
    return [middle(kind)]

def blocks(kind):
    for i in range(2):
        with open(__file__) as file:
            while True:
                try:
                    line = file.readline()
                    flaky(kind)
                finally:
                    closed = i
                break
    return line, closed

def items(kind):
    for i in range(3):
        flaky(kind)
        yield i

def generator(kind):
    return [one for one in items(kind)]

class Base:
    def step(self, kind):
        flaky(kind)
        return 1

class Derived(Base):
    def step(self, kind):
        return super().step(kind) + 1

def method(kind):
    return Derived().step(kind)

def skip(kind):
    for i in range(3):
        flaky(kind)

def edit(kind):
    rate = 1
    flaky(kind)
    return rate * 2

def header(kind):
    for i in map(flaky, [kind, kind]):
        pass

def long(kind):
    value = 0
    for i in range(1):
        flaky(kind)
LINES
    return value
"""
LONG_LINES = 300


class Flaky:
    """Raises at the first call after it was armed; notes when, and when it is called again."""

    def __init__(self) -> None:
        self.armed = False
        self.raised = self.resumed = 0.0

    def __call__(self, kind: str) -> int:
        if self.armed:
            self.armed = False
            self.raised = time.perf_counter()
            raise OSError(kind)
        if not self.resumed:
            self.resumed = time.perf_counter()
        return 1


class Answers:
    """Who decides: at once, by the kind."""

    def __init__(self, file: Path) -> None:
        self.file, self.text = file, file.read_text()
        self.took: Dict[str, float] = {}

    def ask(self, crash: Crash) -> Repair:
        kind = str(crash.exception)
        if kind == "edit":
            return Repair("edit", patch=self.patch())
        return Repair("skip" if kind == "skip" else "retry")

    def patch(self) -> str:
        """Changes the line after the one that failed; the next patch changes it back."""
        one, other = "    return rate * 2\n", "    return rate * 3\n"
        old, new = (one, other) if one in self.text else (other, one)
        before, self.text = self.text, self.text.replace(old, new)
        lines = (before.splitlines(True), self.text.splitlines(True))
        return "".join(difflib.unified_diff(*lines, str(self.file), str(self.file)))

    def resumed(self, crash: Crash, repair: Repair, took_ms: Dict[str, float]) -> None:
        self.took = took_ms

    def refused(self, crash: Crash, repair: Repair, reason: str) -> None:
        raise SystemExit(f"{crash.exception} was refused: {reason}")


def load(file: Path, flaky: Flaky) -> types.ModuleType:
    """A module of its own, of the program's text."""
    lines = "\n".join(f"        value = value + {i} * i" for i in range(LONG_LINES))
    file.write_text(PROGRAM.replace("LINES", lines))
    code = loader.transformed(str(file), file.read_bytes())
    assert code is not None
    module = types.ModuleType(file.stem)
    module.__dict__.update(flaky=flaky, __file__=str(file))
    sys.modules[file.stem] = module
    exec(code, module.__dict__)
    return module


def main() -> None:
    kinds, count, out = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
    flaky = Flaky()
    results: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            file = Path(folder) / f"program_{number}.py"
            module = load(file, flaky)
            answers = Answers(file)
            resume.decided_by(lambda one=answers: one)
            for kind, is_new in [(kind, is_new) for is_new in (True, False) for kind in kinds]:
                flaky.armed, flaky.resumed = True, 0.0
                getattr(module, kind)(kind)
                whole_ms = 1e3 * (flaky.resumed - flaky.raised)
                one = {"kind": kind, "is_new": is_new, "whole": whole_ms, "parts": answers.took}
                results.append(one)
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
