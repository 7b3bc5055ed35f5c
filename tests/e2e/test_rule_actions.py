"""`--on RULE=ACTION`: what is done when a rule finds something."""

from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"


def test_a_nan_is_rolled_back_as_if_its_batches_had_never_been(program, python):
    job = [python, JOBS / "nan_twice.py"]
    expected = program.plain([*job, "skip"])
    done = program.run("r", job, ["--on", "nan_origin=rollback"])
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr.decode()
    repairs = program.report("r")["repairs"]
    assert [(one["kind"], one["by"]) for one in repairs] == [("rollback", "policy")] * 2
    assert [one["where"]["line"] for one in repairs] == [34, 35]
    assert repairs[0]["exception"]["message"] == "the loss is nan"


def test_without_the_action_nothing_is_altered(program, python):
    job = [python, JOBS / "nan_twice.py"]
    done = program.run("r", job)
    assert (done.returncode, done.stdout) == (0, program.plain(job).stdout)
    assert program.report("r")["repairs"] == []


def test_a_job_that_handles_interruptions_goes_on_as_it_would_have(program, python):
    source = (JOBS / "nan_twice.py").read_text().replace("\nmain()\n", "\n")
    (program.folder / "job.py").write_text(
        source + "try:\n    main()\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    job = [python, "job.py"]
    done = program.run("r", job, ["--on", "nan_origin=rollback"])
    assert (done.returncode, done.stdout) == (0, program.plain(job).stdout)
    report = program.report("r")
    assert report["repairs"] == []
    why = [one["why"] for one in report["not_captured"] if one["what"] == "rollback at a NaN"]
    assert why == ["the job handles an interruption itself"]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("nan_origin=explode", b"names no action"),
        ("dead_relu=rollback", b"dead_relu cannot roll back"),
        ("nan_orign=stop", b"did you mean nan_origin?"),
    ],
)
def test_an_action_that_is_none_is_a_usage_error(program, action, said):
    done = program.run("r", ["true"], ["--on", action])
    assert done.returncode == 2
    assert said in done.stderr
