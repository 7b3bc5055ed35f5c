"""A few of the faults of random_faults.py in every test run; the acceptance runs 5,000."""

from case import load_cases
from random_faults import eligible, run_faults


def test_a_program_that_fails_once_at_any_line_ends_right_or_says_why_not():
    said = []
    programs = [case for case in load_cases() if eligible(case, light=True)]
    totals = run_faults(count=200, seed=1, programs=programs, say=said.append)
    assert totals["WRONG"] == 0, said
    assert totals["right"] >= 190, said
