#!/usr/bin/env python3
"""Checks every case with plain Python, and writes what the fixed program gives.

For each case: the program as it is must end as `plain` says (type and place of the exception), and
the fixed one (script plus `reference_patches`) must give twice the same output. `--write` rewrites
`reference.{json,out,err}` and the fields `plain` and `max_repeats` of case.json where they differ;
without it a difference is an error. Two cases run at a time.

    make_references.py [--write] [PATTERN]
"""

import argparse
import concurrent.futures
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from case import Case, Ended, last_object, load_cases, run_plain

FRAME = re.compile(r'File "\{CWD\}/(?:[^"]*/)?([^"/]+)", line (\d+)(?:, in (.+))?')


def how_it_ended(ended: Ended) -> Dict[str, Any]:
    """The field `plain`: exit code, exception and its innermost frame in the job's own files."""
    found: Dict[str, Any] = {"exit": ended.exit_code, "exception": None, "where": None}
    lines = ended.stderr.rstrip().splitlines()
    ends = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
    if ends and "Traceback (most recent call last):" in ended.stderr:
        found["exception"] = ends[-1].split(":")[0].rsplit(".", 1)[-1]
        last = ended.stderr.rsplit("Traceback (most recent call last):", 1)[-1]
        # A folder called site-packages is not the job's own, wherever it stands.
        own = "\n".join(line for line in last.splitlines() if "site-packages" not in line)
        frames = FRAME.findall(own)
        if frames:
            file, line, function = frames[-1]
            found["where"] = f"{file}:{line} {function}".strip()
    return found


def reference_of(case: Case, folder: Path) -> Dict[str, str]:
    """The reference files' texts by name; raises where two runs differ or the fix fails."""
    first = run_plain(case, folder / "fixed1", case["reference_patches"])
    second = run_plain(case, folder / "fixed2", case["reference_patches"])
    if case["kind"] != "leave_alone" and first.exit_code != case["expect_exit"]:
        raise ValueError(f"the fixed program ends with {first.exit_code}: {first.stderr[-600:]}")
    if first != second and case["same_result_as"] is not None:
        raise ValueError("the fixed program gives something else when it runs again")
    texts = {"out": first.stdout}
    if case["same_traceback"]:
        texts["err"] = first.stderr
    texts["json"] = json.dumps(
        {
            "result": last_object("RESULT", first.stdout),
            "counts": last_object("COUNTS", first.stdout),
            "exit": first.exit_code,
        },
        indent=1,
    )
    return {f"reference.{name}": text for name, text in texts.items()}


def check_case(case: Case, write: bool) -> List[str]:
    """What is wrong with the case; with `write`, what was rewritten is no longer wrong."""
    with tempfile.TemporaryDirectory(prefix="case-") as work:
        try:
            plain = how_it_ended(run_plain(case, Path(work) / "plain", []))
            texts = reference_of(case, Path(work))
        except Exception as error:
            return [str(error)]
    problems = []
    counts = json.loads(texts["reference.json"])["counts"]
    fields = dict(case.fields, plain=plain)
    if counts and "max_repeats" not in fields:
        fields["max_repeats"] = counts
    if case["kind"] == "in_place" and plain["exception"] is None:
        problems.append("the program as it is does not crash")
    first = next((step["when"] for step in case["repairs"] if not step.get("optional")), None)
    if first not in (None, plain["exception"]):
        problems.append(f"it crashes with {plain['exception']}, the first repair is for {first}")
    for counter, most in (fields.get("max_repeats") or {}).items():
        if (counts or {}).get(counter, most + 1) > most:
            problems.append(f"counter {counter} of the reference is above {most}")
    texts["case.json"] = json.dumps(fields, indent=1)
    for name, text in texts.items():
        path = case.folder / name
        text = text if text.endswith("\n") or not text else text + "\n"
        if not path.is_file() or path.read_text() != text:
            if write:
                path.write_text(text)
            else:
                problems.append(f"{name} is not what the program gives: run with --write")
    return problems


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite what differs")
    parser.add_argument("pattern", nargs="?", default="*", help="a glob of case names")
    options = parser.parse_args(argv)
    cases = load_cases(options.pattern)
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, problems in zip(
            cases, pool.map(lambda one: check_case(one, options.write), cases)
        ):
            wrong += bool(problems)
            print(f"{'WRONG' if problems else 'ok   '} {case.name}", flush=True)
            for problem in problems:
                print(f"      {problem}")
    print(f"{len(cases) - wrong} of {len(cases)} cases are right")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
