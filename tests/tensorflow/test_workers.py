"""MultiWorkerMirroredStrategy with real workers: what goes wrong is named, what is well is not."""

from pathlib import Path

import pytest
from workers import Outcome, cluster, run


def named(outcome: Outcome, name: str, rank: int, file: str) -> None:
    """Exactly one problem was found: this one, on that worker, in that file of the job."""
    assert [finding["id"] for finding in outcome.loud] == [name], outcome.loud
    (finding,) = outcome.loud
    assert finding["rank"] == rank
    assert finding["where"]["file"].endswith(file)


def test_a_worker_that_sleeps_before_each_step_is_the_straggler(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "loop.py", "slow")
    assert outcome.code == 0
    named(outcome, "straggler", 1, "loop.py")
    assert outcome.report["run"]["steps"] == 60


def test_a_worker_that_does_not_come_to_a_step_is_named_with_its_line(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "loop.py", "hang", until="hang_missing_rank")
    named(outcome, "hang_missing_rank", 1, "loop.py")
    assert "sleeps" in outcome.loud[0]["message"]
    assert "train_step" in outcome.loud[0]["message"]


def test_of_three_workers_the_one_that_is_killed_is_named_and_not_the_two_that_fail_for_it(
    tmp_path: Path,
) -> None:
    outcome = run(tmp_path, cluster(worker=3), "loop.py", "kill")
    assert [finding["id"] for finding in outcome.loud] == ["rank_died"], outcome.loud
    (death,) = outcome.loud
    assert death["rank"] == 1
    assert any("UnavailableError" in line for line in outcome.lines)


def test_a_worker_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "loop.py", "raise")
    named(outcome, "rank_died", 1, "loop.py")
    assert "a sample that cannot be read" in outcome.loud[0]["message"]


@pytest.mark.parametrize("job", [["loop.py", "healthy"], ["fit.py"]], ids=["loop", "fit"])
def test_a_healthy_job_is_quiet_and_gives_the_same_to_the_last_bit(
    tmp_path: Path, job: "list[str]"
) -> None:
    plain = run(tmp_path / "plain", cluster(worker=2), *job, watched=False)
    watched = run(tmp_path / "watched", cluster(worker=2), *job)
    assert (plain.code, watched.code) == (0, 0)
    assert watched.loud == []
    assert len(watched.said("worker")) == len(plain.said("worker")) >= 6
    assert watched.said("worker") == plain.said("worker")
    assert len(watched.report["run"]["ranks"]) == 2


@pytest.mark.parametrize("keras", ["keras3", "legacy"])
def test_a_job_of_one_process_gives_the_same_to_the_last_byte(tmp_path: Path, keras: str) -> None:
    plain = run(tmp_path / "plain", [""], "fit.py", keras, watched=False)
    watched = run(tmp_path / "watched", [""], "fit.py", keras)
    assert (plain.code, watched.code) == (0, 0)
    assert watched.said("worker") == plain.said("worker") != []
    assert watched.loud == []
    assert watched.report["run"]["steps"] == 32
