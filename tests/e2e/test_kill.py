"""A few of the kills of kills.py in every test run; the acceptance runs 200."""

import kills


def test_records_older_than_a_second_survive_kill_9_of_job_agent_or_both():
    assert kills.run_kills(count=6, seed=1) == 0
