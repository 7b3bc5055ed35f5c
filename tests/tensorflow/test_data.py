"""What workers read, and which of them had the first NaN."""

from pathlib import Path

import pytest
from workers import cluster, run


def test_the_worker_whose_own_loss_was_lost_first_is_named(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "loop.py", "nan")
    assert outcome.code == 0
    (source,) = outcome.of("nan_source_rank")
    assert source["rank"] == 1
    assert source["step"] == 4
    assert source["where"]["file"].endswith("loop.py")
    # The other worker has got it from there.
    assert [finding["rank"] for finding in outcome.of("nan_origin")] == [1]


@pytest.mark.parametrize("how", ["fit", "loop"])
def test_the_policy_off_with_the_same_data_on_all_workers_is_an_overlap(
    tmp_path: Path, how: str
) -> None:
    outcome = run(tmp_path, cluster(worker=2), "policy.py", how, "OFF")
    assert outcome.code == 0
    assert [finding["id"] for finding in outcome.loud] == ["shard_overlap"], outcome.loud
    (overlap,) = outcome.loud
    assert "auto_shard_policy is OFF" in overlap["message"]
    assert overlap["where"]["file"].endswith("policy.py")


def test_a_function_that_shares_nothing_out_is_seen_by_the_samples(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "policy.py", "loop", "forgotten")
    assert outcome.code == 0
    assert [finding["id"] for finding in outcome.loud] == ["shard_overlap"], outcome.loud
    assert "the content of 100 % is equal" in outcome.loud[0]["message"]


def test_one_file_for_two_workers_is_told_though_the_job_fails_for_it(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "policy.py", "loop", "FILE")
    found = outcome.of("shard_imbalance")
    assert found, (outcome.loud, outcome.lines[-30:])
    assert "1 file for 2 workers" in found[0]["message"]


def test_the_policy_data_is_quiet(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2), "policy.py", "loop", "DATA")
    assert outcome.code == 0
    assert outcome.loud == []
