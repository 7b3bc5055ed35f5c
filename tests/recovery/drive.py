#!/usr/bin/env python3
"""Runs cases under `paramedic run`, answers their pauses, and says what went wrong.

What contract.md promises is what is used: the status of `run.json` and of `show --json`, the
command `repair`, the job's exit code and output.

    drive.py [--keep FOLDER] [PATTERN]
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import case as cases
from case import Case

ROOT = Path(__file__).resolve().parents[2]
# The program under test, as in tests/e2e.
PARAMEDIC = Path(
    os.environ.get("PARAMEDIC_TEST_PROGRAM", ROOT / "build" / "release" / "bin" / "paramedic")
)
CASE_SECONDS_MAX = 90
COMMAND_SECONDS_MAX = 60
POLL_SECONDS = 0.03


class Drive:
    """One case: a copy of the program, its run, and the answers that are still to be given."""

    def __init__(self, case: Case, work: Path) -> None:
        self.case = case
        self.job = cases.copy_job(case, work / "job")
        self.work = work
        self.runs = work / "runs"
        self.env = cases.job_environment(case)
        self.to_do: List[Dict[str, Any]] = list(case["repairs"])
        self.answered = 0
        self.took_ms: List[float] = []
        self.problems: List[str] = []

    def run(self) -> List[str]:
        """What is wrong with the way in which the case went; nothing when all is well."""
        cases.set_up(self.case, self.job)
        command = [str(PARAMEDIC), "run", "--on-crash", self.case["mode"]]
        command += ["--dir", str(self.runs), "--name", "run", "--", *self.case["cmd"]]
        with open(self.work / "out", "wb") as out, open(self.work / "err", "wb") as err:
            running = subprocess.Popen(
                command,
                cwd=self.job,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=cases.default_signals,
            )
            try:
                self._attend(running)
            except subprocess.TimeoutExpired as error:
                self.problems.append(f"a command does not end: {error.cmd[1:]}")
            finally:
                self._end(running)
        if not self.problems:
            try:
                self._judge(running.returncode)
            except RuntimeError as error:
                self.problems.append(str(error))
        return self.problems

    def _paramedic(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(PARAMEDIC), *words, "--dir", str(self.runs), "--json", "run"],
            cwd=self.job,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    def _show(self) -> Dict[str, Any]:
        shown = self._paramedic("show")
        if shown.returncode != 0:
            raise RuntimeError(f"show: {shown.stderr}")
        report: Dict[str, Any] = json.loads(shown.stdout)
        return report

    def _is_paused(self) -> bool:
        try:
            run = json.loads((self.runs / "run" / "run.json").read_text())
        except (OSError, ValueError):
            return False  # it has not begun
        return bool(run.get("status") == "paused")

    def _attend(self, running: "subprocess.Popen[bytes]") -> None:
        """Until the run ends, or something is wrong."""
        last = time.monotonic() + CASE_SECONDS_MAX
        to_signal = self.case["signal"]
        while running.poll() is None and not self.problems:
            if time.monotonic() > last:
                self.problems.append(f"no end after {CASE_SECONDS_MAX} s: {self._tail('err')}")
            if to_signal and re.search(to_signal["after_stdout_regex"], self._text("out"), re.M):
                pid = int((self.job / to_signal["pid_file"]).read_text())
                os.kill(pid, getattr(signal, "SIG" + to_signal["signal"]))
                to_signal = None
            if self._is_paused():
                self._answer()
            time.sleep(POLL_SECONDS)
        left = [step["when"] for step in self.to_do if not step.get("optional")]
        if not self.problems and left:
            self.problems.append(f"it never paused for {', '.join(left)}: {self._tail('err')}")

    def _answer(self) -> None:
        report = self._show()
        if report["run"]["status"] != "paused" or len(report["repairs"]) < self.answered:
            return  # the pause that was answered last is just ending
        exception = report["failure"]["exception"]
        name = str(exception["type"]).rsplit(".", 1)[-1]
        while self.to_do and self.to_do[0].get("optional") and self.to_do[0]["when"] != name:
            self.to_do.pop(0)
        if not self.to_do or self.to_do[0]["when"] != name:
            self.problems.append(f"unexpected pause: {name}: {exception['message']}")
            return
        answer = self._repair(self.to_do.pop(0))
        self.answered += 1
        if answer["resumed"] is not True:
            self.problems.append(f"refused: {answer['reason']}")
        elif not isinstance(answer["took_ms"], (int, float)):
            self.problems.append(f"took_ms is {answer['took_ms']!r}")
        else:
            self.took_ms.append(answer["took_ms"])

    def _repair(self, step: Dict[str, Any]) -> Dict[str, Any]:
        words = ["--" + step["do"]]
        if step["do"] == "apply":
            words.append(str(self.case.folder / step["patch"]))
        elif step["do"] in ("exec", "return"):
            words.append(step["code"])
        if step.get("at"):
            words += ["--at", step["at"]]
        time.sleep(step.get("delay_s", 0))
        done = self._paramedic("repair", *words)
        if not done.stdout:
            return {"resumed": False, "reason": done.stderr}
        answer: Dict[str, Any] = json.loads(done.stdout)
        return answer

    def _end(self, running: "subprocess.Popen[bytes]") -> None:
        """Ends what this case started and has not ended by itself."""
        if running.poll() is None:
            for pid in self._job_pids():
                os.kill(pid, signal.SIGKILL)
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(COMMAND_SECONDS_MAX)

    def _job_pids(self) -> List[int]:
        """Processes that stand in the job's folder: they have a session of their own."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if entry.resolve() == self.job.resolve():
                    found.append(int(entry.parent.name))
            except OSError:
                continue  # it has ended meanwhile, or is another user's
        return found

    def _text(self, name: str) -> str:
        return (self.work / name).read_text(errors="replace")

    def _tail(self, name: str) -> str:
        return self._text(name)[-1500:]

    def _judge(self, exit_code: int) -> None:
        case, out = self.case, self._text("out")
        err = cases.without_folder(self._text("err"), self.job)
        if exit_code != case["expect_exit"]:
            self.problems.append(f"exit code {exit_code}: {err[-1500:]}")
        for pattern in case["expect_stdout_regex"]:
            if not re.search(pattern, out, re.M):
                self.problems.append(f"stdout lacks /{pattern}/: {out[-500:]}")
        for pattern in case["expect_stderr_regex"]:
            if not re.search(pattern, err, re.M):
                self.problems.append(f"stderr lacks /{pattern}/: {err[-500:]}")
        for pattern in case["stdout_once"]:
            if len(re.findall(pattern, out, re.M)) > 1:
                self.problems.append(f"stdout has /{pattern}/ more than once")
        self._judge_result(out)
        if case["same_traceback"]:
            want = cases.traceback_lines(case.stored("err"))
            lines = [line.rstrip() for line in err.splitlines()]
            spots = range(len(lines) - len(want) + 1)
            if not any(lines[at : at + len(want)] == want for at in spots):
                self.problems.append(f"not the traceback of a plain run: {err}")
        self._judge_effects(out)

    def _judge_result(self, out: str) -> None:
        case = self.case
        if case["same_result_as"] == "reference":
            want = json.loads(case.stored("json"))["result"]
            got = cases.last_object("RESULT", out)
            self.problems += cases.differences(got, want, case["tolerance"])
        if case["same_stdout"]:
            got_lines = cases.without_counts(out)
            want_lines = cases.without_counts(case.stored("out"))
            for got_line, want_line in zip(got_lines, want_lines):
                if got_line != want_line:
                    self.problems.append(f"printed {got_line!r}, not {want_line!r}")
                    break
            else:
                if len(got_lines) != len(want_lines):
                    self.problems.append(f"{len(got_lines)} lines, not {len(want_lines)}")

    def _judge_effects(self, out: str) -> None:
        """Counters, files and the repairs that `show` lists."""
        case = self.case
        counts = cases.last_object("COUNTS", out) or {}
        for name, most in case["max_repeats"].items():
            if counts.get(name, most + 1) > most:
                self.problems.append(f"side effect {name}: {counts.get(name)}, at most {most}")
        for name, least in case["min_counts"].items():
            if counts.get(name, 0) < least:
                self.problems.append(f"left out {name}: {counts.get(name)}, at least {least}")
        for name, want in case["expect_files"].items():
            path = self.job / name
            data = path.read_bytes() if path.is_file() else b""
            lines = data.count(b"\n")
            if lines != want.get("lines", lines) or len(data) < want.get("min_bytes", 0):
                self.problems.append(f"file {name} has {lines} lines, {len(data)} bytes")
        report = self._show()
        kinds = [repair["kind"] for repair in report["repairs"]]
        if case["kind"] == "leave_alone" and kinds:
            self.problems.append(f"repaired where nothing was to be done: {kinds}")
        for kind in case["expect_kinds"]:
            if kind not in kinds:
                self.problems.append(f"show lists the repairs {kinds}, not {kind}")


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", metavar="FOLDER", help="keep the jobs' folders below FOLDER")
    parser.add_argument("pattern", nargs="?", default="*", help="a glob of case names")
    options = parser.parse_args(argv)
    chosen = cases.load_cases(options.pattern)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="drive-") as temporary:
        for case in chosen:
            work = Path(options.keep or temporary) / case.name
            work.mkdir(parents=True)
            started = time.monotonic()
            drive = Drive(case, work)
            problems = drive.run()
            failed += bool(problems)
            verdict = "FAILED" if problems else "ok    "
            took = " ".join(f"{ms:.1f}" for ms in drive.took_ms)
            print(f"{verdict} {case.name} {time.monotonic() - started:.1f} s, took {took} ms")
            for problem in problems:
                print(f"       {problem}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} cases recovered")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
