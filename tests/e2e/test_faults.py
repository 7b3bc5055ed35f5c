"""Faults of training that are named on a real job, and not where the same job is healthy."""

from pathlib import Path

import pytest

JOBS = Path(__file__).with_name("jobs")


@pytest.mark.parametrize(
    ("job", "rule", "line"),
    [
        ("one_row_in_another_unit.py", "loss_spike", "loss.backward()"),
        ("detached_embedding.py", "dead_embedding", "self.embed = "),
    ],
)
def test_a_fault_is_named_with_its_line_and_only_where_it_is(program, python, job, rule, line):
    lines = (JOBS / job).read_text().splitlines()
    # WHEN the job runs with the fault, and without
    for name in ("faulty", "healthy"):
        assert program.run(name, [python, str(JOBS / job), name]).returncode == 0
    # THEN that is the only thing said of it
    (finding,) = program.report("faulty")["findings"]
    assert (finding["id"], finding["severity"]) == (rule, "warning")
    where = finding["where"]
    assert Path(where["file"]).name == job
    assert line in lines[where["line"] - 1]
    # AND nothing is said of the other
    assert program.report("healthy")["findings"] == []
