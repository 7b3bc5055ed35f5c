"""ParameterServerStrategy: a coordinator, two workers and a parameter server."""

from pathlib import Path

from workers import cluster, run


def test_a_healthy_job_is_quiet_and_its_servers_are_ended_without_a_word(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(chief=1, worker=2, ps=1), "parameter_server.py", "healthy")
    assert outcome.code == 0
    assert outcome.loud == []
    assert outcome.report["run"]["steps"] == 80
    assert len(outcome.report["run"]["ranks"]) == 4


def test_a_worker_that_is_killed_is_named(tmp_path: Path) -> None:
    configs = cluster(chief=1, worker=2, ps=1)
    outcome = run(tmp_path, configs, "parameter_server.py", "kill", until="rank_died")
    assert [finding["id"] for finding in outcome.loud] == ["rank_died"], outcome.loud
    assert outcome.loud[0]["rank"] == 2


def test_a_worker_that_is_stopped_while_the_coordinator_waits_for_it_is_named(
    tmp_path: Path,
) -> None:
    configs = cluster(chief=1, worker=2, ps=1)
    outcome = run(tmp_path, configs, "parameter_server.py", "stop", until="hang_missing_rank")
    assert [finding["id"] for finding in outcome.loud] == ["hang_missing_rank"], outcome.loud
    assert outcome.loud[0]["rank"] == 2
    assert "is stopped" in outcome.loud[0]["message"]
