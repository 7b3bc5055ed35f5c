"""Every case of cases/ recovers; those of not_yet.txt are known not to, with the reason."""

from pathlib import Path
from typing import Dict, List

import pytest
from case import Case, load_cases
from drive import PARAMEDIC, Drive

NOT_YET = Path(__file__).resolve().parent / "not_yet.txt"


def read_not_yet() -> Dict[str, str]:
    """Case name -> why it does not recover yet."""
    lines = [line.partition(":") for line in NOT_YET.read_text().splitlines() if line]
    return {name.strip(): reason.strip() for name, _, reason in lines if name[0] != "#"}


CASES: List[Case] = load_cases()
KNOWN = read_not_yet()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_crashed_job_ends_as_if_it_had_not_crashed(case: Case, tmp_path: Path):
    assert PARAMEDIC.exists(), f"{PARAMEDIC} is missing: run make build"
    problems = Drive(case, tmp_path).run()
    if case.name in KNOWN and problems:
        pytest.xfail(f"{KNOWN[case.name]} (now: {problems[0]})")
    assert case.name not in KNOWN, f"it recovers now: take {case.name} out of {NOT_YET.name}"
    assert problems == []


def test_what_is_not_yet_done_has_a_case_and_a_reason():
    names = {case.name for case in CASES}
    assert set(KNOWN) <= names
    assert all(KNOWN.values())


def test_every_pattern_of_daifu_has_a_case():
    stands_for = [case.fields.get("stands_for") for case in CASES]
    assert len({name for name in stands_for if name}) == 32
    assert len([name for name in stands_for if not name]) >= 40
