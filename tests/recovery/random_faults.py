#!/usr/bin/env python3
"""One exception, once, at a random place of a program; the answer is always: retry.

Programs are the fixed programs of cases/ that run in one process. Each gets a process of its own,
in which it is run many times: first whole, counting the lines that it executes, then with an
exception at one of them. At a line nothing of a statement has been done yet, so the retried run
must print what the whole one prints, to the byte. It may also stop, where the repair is refused
with a reason. It may not hang, end early without a word, or print something else.

    random_faults.py [--count N] [--seed S] [--light] [PATTERN]
"""

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import dis
import functools
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import Any, Callable, Counter, Dict, Iterator, List, Optional

import case as cases
from case import Case

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS_MAX = 60
PROCESS_SECONDS_MAX = 600
PROCESSES = 2
LOAD_CONST = dis.opmap["LOAD_CONST"]
DRIVERS = ("run", "run_generator", "run_coroutine", "run_module")
INSIDE_STATEMENTS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>")


class Fault(Exception):
    """The exception that is put into a program. No handler of a program asks for it by name."""


class TookTooLong(Exception):
    """A run has not ended in time."""


class Decider:
    """Answers a crash with `retry` once, and lets the job fail when that is refused."""

    def __init__(self) -> None:
        self.asked = 0
        self.reason: Optional[str] = None

    def ask(self, crash: Any) -> Any:
        from paramedic.recovery.crash import Repair

        self.asked += 1
        if self.reason is not None or self.asked > 2:
            return None
        return Repair(kind="retry")

    def resumed(self, crash: Any, repair: Any, took_ms: Dict[str, float]) -> None:
        pass

    def refused(self, crash: Any, repair: Any, reason: str) -> None:
        self.reason = reason


@functools.lru_cache(None)
def _runs_continuation(code: types.CodeType, at: int) -> bool:
    """Whether what begins there stands behind a body, where recovery runs its continuation."""
    if code.co_code[at] != LOAD_CONST:
        return False
    following = (one for one in dis.get_instructions(code) if one.offset > at)
    called = next((one for one in following if one.opname != "EXTENDED_ARG"), None)
    return called is not None and called.argval in DRIVERS


class Lines:
    """A trace function that counts the lines of the job's own files, and raises at one of them.

    Only lines count on which a statement begins that nothing has yet been done of. In the middle
    of a statement, in a comprehension, or where a `with` leaves its block a part of it is done,
    and doing that twice is what retrying a statement means. Nor does a function's first line.
    """

    def __init__(self, folder: str, fault_at: int) -> None:
        self.folder = folder
        self.fault_at = fault_at
        self.seen = 0
        self.place = ""
        self._begins: Dict[str, Dict[int, ast.stmt]] = {}
        self._before: Dict[types.FrameType, int] = {}

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        is_inside_statement = code.co_name in INSIDE_STATEMENTS
        if not code.co_filename.startswith(self.folder) or is_inside_statement:
            return None
        if event == "line" and self._begins_statement(frame):
            self.seen += 1
            if self.seen == self.fault_at:
                self.place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
                raise Fault(self.place)
        return self

    def _begins_statement(self, frame: types.FrameType) -> bool:
        code, line = frame.f_code, frame.f_lineno
        before, self._before[frame] = self._before.get(frame, 0), line
        if line == code.co_firstlineno and code.co_name != "<module>":
            return False
        if _runs_continuation(code, frame.f_lasti):
            return False
        statement = self._statements(code.co_filename).get(line)
        last = getattr(statement, "end_lineno", None) or line
        leaves = isinstance(statement, (ast.With, ast.AsyncWith)) and line <= before <= last
        # From its further lines a statement comes back to its first: a part of it is done.
        comes_back = not hasattr(statement, "body") and line < before <= last
        return statement is not None and not leaves and not comes_back

    def _statements(self, file: str) -> Dict[int, ast.stmt]:
        if file not in self._begins:
            tree = ast.parse(Path(file).read_text())
            self._begins[file] = {
                node.lineno: node
                for node in ast.walk(tree)
                if isinstance(node, ast.stmt) and can_fail(node)
            }
        return self._begins[file]


def can_fail(statement: ast.stmt) -> bool:
    """Whether the statement does something itself; one with decorators does it line by line."""
    if isinstance(statement, (ast.Return, ast.Expr)):  # the latter: a docstring
        return not isinstance(statement.value, (ast.Constant, type(None)))
    idle = (ast.Try, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)
    return not isinstance(statement, idle) and not getattr(statement, "decorator_list", None)


class Program:
    """The fixed program of a case, in the current folder, run again and again in this process."""

    def __init__(self, case: Case, files: Path) -> None:
        self.case = case
        self.files = files
        self.folder = os.path.join(os.getcwd(), "")
        self.script = str(Path(case["cmd"][1]).resolve())

    def run(self, lines: Optional[Lines]) -> "tuple[str, Optional[BaseException]]":
        """What it prints and what ends it.

        It runs in a thread, directly: a caller of ours that could handle an exception would make
        it one that is handled.
        """
        for entry in os.listdir("."):
            shutil.rmtree(entry) if os.path.isdir(entry) else os.unlink(entry)
        shutil.copytree(self.files, ".", dirs_exist_ok=True)
        from paramedic.recovery import loader

        code = loader.transformed(self.script, Path(self.script).read_bytes(), main=True)
        assert code is not None, f"{self.script} was not transformed"
        main = types.ModuleType("__main__")
        main.__file__ = self.script
        out = io.StringIO()
        ended: List[BaseException] = []
        threading.excepthook = lambda end: ended.append(end.exc_value or Fault("without a value"))
        thread = threading.Thread(target=exec, args=(code, main.__dict__), daemon=True)
        with _as_started_with(main, self.case["cmd"][1:]), contextlib.redirect_stdout(out):
            threading.settrace(lines)
            thread.start()
            threading.settrace(None)
            thread.join(RUN_SECONDS_MAX)
        if thread.is_alive():
            raise TookTooLong(f"no end after {RUN_SECONDS_MAX} s")
        return out.getvalue(), ended[0] if ended else None


@contextlib.contextmanager
def _as_started_with(main: types.ModuleType, argv: List[str]) -> Iterator[None]:
    """The state of the interpreter as a fresh process has it."""
    kept = sys.modules["__main__"], sys.argv, set(sys.modules), sys.path[:]
    sys.modules["__main__"], sys.argv = main, argv
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv = kept[:2]
        for name in set(sys.modules) - kept[2]:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(os.getcwd()):
                del sys.modules[name]
        sys.path[:] = kept[3]


def verdict_of(program: Program, fault_at: int, whole: str) -> "tuple[str, str]":
    """(right, handled, stopped or WRONG; what happened) for one fault."""
    from paramedic.recovery import resume

    decider = Decider()
    resume.decided_by(lambda: decider)
    lines = Lines(program.folder, fault_at)
    printed, error = program.run(lines)
    if error is not None:
        if decider.reason is not None and isinstance(error, Fault):
            return "stopped", f"{lines.place}: {decider.reason}"
        return (
            "WRONG",
            f"{lines.place}: {type(error).__name__}: {error}, asked {decider.asked} times",
        )
    if printed == whole:
        return "right", lines.place
    if decider.asked == 0:
        return "handled", lines.place  # by the program itself, in its own way
    parted = next((a for a, b in zip(printed.split("\n"), whole.split("\n")) if a != b), "its end")
    return "WRONG", f"{lines.place}: printed something else: {parted!r}"


def run_child(name: str, files: str, count: int, seed: int) -> None:
    """In the program's own process and folder: prints one JSON line with all verdicts."""
    from paramedic.recovery import loader

    loader.install()
    program = Program(Case(cases.CASES / name), Path(files))
    program.run(None)  # imports what takes long
    lines = Lines(program.folder, 0)
    whole, error = program.run(lines)
    assert error is None, repr(error)
    chosen = random.Random(seed)
    verdicts: List[List[Any]] = []
    for _ in range(count):
        fault_at = chosen.randint(1, lines.seen)
        try:
            verdicts.append([fault_at, *verdict_of(program, fault_at, whole)])
        except TookTooLong as error:
            verdicts.append([fault_at, "WRONG", str(error)])
            break  # its thread is still there
    print(json.dumps(verdicts), flush=True)
    os._exit(0)  # not waiting for such a thread


def eligible(case: Case, light: bool) -> bool:
    """Whether the fixed program runs in one process, ends with 0 and prints the same each time;
    a light one starts at once, without PyTorch."""
    texts = "".join(path.read_text() for path in case.folder.rglob("*.py"))
    alone = case["cmd"][0] == "python" and case["cmd"][1].endswith(".py") and not case["setup"]
    kept_out = ["num_workers", "os.kill(", "os.abort(", "init_process_group", "atexit", "Thread("]
    # It catches what its clean-ups raise, and raises it after the last: case exit_stack_callback.
    kept_out.append("ExitStack(")
    kept_out += ["import torch"] if light else []
    return (
        alone
        and not case["env"]
        and not case["signal"]
        and case["expect_exit"] == 0
        and case["kind"] == "in_place"
        and not any(word in texts for word in kept_out)
    )


def run_program(case: Case, count: int, seed: int) -> List[List[Any]]:
    """The verdicts of `count` faults in one program."""
    with tempfile.TemporaryDirectory(prefix="faults-") as work:
        files, folder = Path(work) / "files", Path(work) / "job"
        folder.mkdir()
        cases.copy_job(case, files)
        for patch in case["reference_patches"]:
            command = ["patch", "-p1", "-s", "--no-backup-if-mismatch", "-i"]
            subprocess.run([*command, str(case.folder / patch)], cwd=files, check=True)
        env = cases.job_environment(case)
        env["PYTHONPATH"] = f"{ROOT / 'python'}{os.pathsep}{Path(__file__).parent}"
        call = (
            f"import random_faults; random_faults.run_child{(case.name, str(files), count, seed)}"
        )
        done = subprocess.run(
            [sys.executable, "-c", call],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS_MAX,
            check=False,
        )
    if done.returncode != 0:
        return [[0, "WRONG", f"the process ended with {done.returncode}: {done.stderr[-2000:]}"]]
    verdicts: List[List[Any]] = json.loads(done.stdout.splitlines()[-1])
    return verdicts


def run_faults(
    count: int, seed: int, programs: List[Case], say: Callable[[str], None] = print
) -> Counter[str]:
    """Spreads `count` faults over the programs; how many ended in which way."""
    chosen = random.Random(seed)
    shares = collections.Counter(chosen.randrange(len(programs)) for _ in range(count))
    totals: Counter[str] = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        jobs = {
            pool.submit(run_program, programs[at], share, seed + at): programs[at].name
            for at, share in sorted(shares.items())
        }
        for job in concurrent.futures.as_completed(jobs):
            for fault_at, verdict, text in job.result():
                totals[verdict] += 1
                if verdict in ("WRONG", "stopped"):
                    say(f"{verdict} {jobs[job]} at line event {fault_at}: {text}")
    return totals


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--light", action="store_true", help="only programs without PyTorch")
    parser.add_argument("pattern", nargs="?", default="*", help="a glob of case names")
    options = parser.parse_args(argv)
    chosen = [case for case in cases.load_cases(options.pattern) if eligible(case, options.light)]
    totals = run_faults(options.count, options.seed, chosen)
    print(", ".join(f"{number} {verdict}" for verdict, number in sorted(totals.items())))
    return 1 if totals["WRONG"] or not totals["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
