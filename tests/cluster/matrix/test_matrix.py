"""The faults of the matrix are found, and its healthy jobs are left alone.

Only the cases of quick.txt, unless PARAMEDIC_MATRIX is `all` (make matrix).
"""

import os
from pathlib import Path
from typing import List

import pytest
from matrix import HERE, PARAMEDIC, Case, load_cases, read_list, run_case

NOT_YET = HERE / "not_yet.txt"
QUICK = HERE / "quick.txt"
# Tests share the machine with others: only a job that hangs needs its whole time.
SLOW = 1.5

KNOWN = read_list(NOT_YET)
CASES: List[Case] = load_cases()
CHOSEN = [
    case
    for case in CASES
    if os.environ.get("PARAMEDIC_MATRIX") == "all" or case.name in read_list(QUICK)
]


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_what_is_wrong_between_the_ranks_is_found_and_nothing_else(case: Case, tmp_path: Path):
    assert PARAMEDIC.exists(), f"{PARAMEDIC} is missing: run make build"
    why_not = case.why_not_here()
    if why_not is not None:
        pytest.skip(why_not)
    outcome = run_case(case, tmp_path, SLOW)
    if case.name in KNOWN and outcome.problems:
        pytest.xfail(f"{KNOWN[case.name]} (now: {outcome.problems[0]})")
    assert case.name not in KNOWN, f"it is right now: take {case.name} out of {NOT_YET.name}"
    assert outcome.problems == [], outcome.output[-4000:]


def test_the_lists_name_cases_that_exist_and_give_reasons():
    names = {case.name for case in CASES}
    for path in (NOT_YET, QUICK):
        listed = read_list(path)
        assert set(listed) <= names
        assert all(listed.values())
