"""Runs small programs in this process, transformed, with a Decider that a test writes."""

import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from paramedic.recovery import loader, resume
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.crash import Crash, Repair

Answer = Callable[[Crash], Optional[Repair]]


class Answers:
    """A Decider: a function, or a list of repairs, one for each question."""

    def __init__(self, answers: Any) -> None:
        self._answers = answers if callable(answers) else iter(answers)
        self.crashes: List[Crash] = []
        self.where: List[str] = []  # function:line of each crash
        self.resumes: List[Repair] = []
        self.reasons: List[str] = []
        self.took: List[Dict[str, float]] = []
        self._lock = threading.Lock()

    def ask(self, crash: Crash) -> Optional[Repair]:
        with self._lock:
            self.crashes.append(crash)
            last = crash.frames[-1]
            self.where.append(f"{last.function}:{last.line}")
            return self._answers(crash) if callable(self._answers) else next(self._answers, None)

    def resumed(self, crash: Crash, repair: Repair, took_ms: Dict[str, float]) -> None:
        self.resumes.append(repair)
        self.took.append(took_ms)

    def refused(self, crash: Crash, repair: Repair, reason: str) -> None:
        self.reasons.append(reason)


def retry(crash: Crash) -> Repair:
    return Repair("retry")


_count = [0]


def run(
    folder: Path, source: str, answers: Any = retry, transform: bool = True, **names: Any
) -> Any:
    """Runs a program as a module; (its namespace, the Decider)."""
    _count[0] += 1
    name = f"program_{_count[0]}"
    file = folder / f"{name}.py"
    file.write_text(textwrap.dedent(source))
    module = types.ModuleType(name)
    module.__dict__.update(names, __file__=str(file))
    decider = Answers(answers)
    code: Any = None
    if transform:
        code = loader.transformed(str(file), file.read_bytes())
    else:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    sys.modules[name] = module
    resume.decided_by(lambda: decider)
    try:
        in_thread(lambda: exec(code, module.__dict__))
    finally:
        resume.decided_by(None)
        del sys.modules[name]
    assert runtime_of.newest(str(file)) is not None or not transform
    return module.__dict__, decider


def in_thread(function: Callable[[], Any]) -> None:
    """Runs a function where nobody up the stack handles its exceptions, as pytest would."""
    failed: List[BaseException] = []
    before = threading.excepthook
    threading.excepthook = lambda args: failed.append(args.exc_value)
    try:
        thread = threading.Thread(target=function)
        thread.start()
        thread.join(60)
    finally:
        threading.excepthook = before
    if failed:
        raise failed[0]


class Flaky:
    """Raises at every odd call, answers 1 at every even one."""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            self.calls += 1
            call = self.calls
        if call % 2:
            raise OSError("transient")
        return 1
