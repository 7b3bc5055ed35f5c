"""A few of the faults of random_faults.py in every test run; the acceptance runs 5,000."""

from random_faults import run_faults


def test_a_program_that_fails_once_at_any_line_ends_right_or_says_why_not():
    said = []
    totals = run_faults(count=150, seed=1, pattern="[!d]*", say=said.append)
    assert totals["WRONG"] == 0, said
    assert totals["right"] > 100
