"""Each error of TF_CONFIG, in jobs that are really started."""

from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional

import pytest
from workers import Config, cluster, run


class Case(NamedTuple):
    """An error, as a function of what would be right."""

    name: str
    break_it: Callable[[List[Config]], List[Any]]
    rank: Optional[int]
    says: str


def _quoted(configs: List[Config]) -> List[Any]:
    return [configs[0], str(configs[1])]


def _unknown_type(configs: List[Config]) -> List[Any]:
    configs[1]["task"] = {"type": "master", "index": 0}
    return configs


def _from_one(configs: List[Config]) -> List[Any]:
    configs[1]["task"] = {"type": "worker", "index": 2}
    return configs


def _twice(configs: List[Config]) -> List[Any]:
    configs[1]["task"]["index"] = 0
    return configs


def _same_address(configs: List[Config]) -> List[Any]:
    addresses = configs[0]["cluster"]["worker"]
    addresses[1] = addresses[0]
    return configs


def _no_port(configs: List[Config]) -> List[Any]:
    configs[0]["cluster"]["worker"][1] = "127.0.0.1:0"
    return configs


def _two_chiefs(configs: List[Config]) -> List[Any]:
    addresses = configs[0]["cluster"]["worker"]
    for index, config in enumerate(configs):
        config["cluster"] = {"chief": addresses}
        config["task"] = {"type": "chief", "index": index}
    return configs


def _evaluator(configs: List[Config]) -> List[Any]:
    configs[0]["cluster"]["evaluator"] = ["127.0.0.1:9"]
    return configs


def _other_cluster(configs: List[Config]) -> List[Any]:
    other = dict(configs[2], cluster={"worker": ["127.0.0.1:9", "127.0.0.1:10", "127.0.0.1:11"]})
    return [configs[0], configs[1], other]


def _loopback(configs: List[Config]) -> List[Any]:
    configs[0]["cluster"]["worker"][1] = "192.0.2.7:29999"
    return configs[:1]


CASES = [
    Case("no JSON", _quoted, None, "cannot be read"),
    Case("unknown type", _unknown_type, None, "the task is a master"),
    Case("index from one", _from_one, 2, "has index 2"),
    Case("a task twice", _twice, 0, "two processes are worker:0"),
    Case("an address twice", _same_address, None, "have the same address"),
    Case("no port", _no_port, None, "has no port"),
    Case("two chiefs", _two_chiefs, None, "2 chiefs"),
    Case("evaluator in the cluster", _evaluator, None, "the evaluator is listed"),
    Case("another cluster on one", _other_cluster, 2, "lists another cluster"),
    Case("loopback between hosts", _loopback, None, "the loopback address"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_error_of_tf_config_is_named_as_the_job_starts(case: Case, tmp_path: Path) -> None:
    workers = 3 if case.break_it is _other_cluster else 2
    configs = case.break_it(cluster(worker=workers))
    outcome = run(tmp_path, configs, "meet.py", until="error cluster_config")
    found = [f for f in outcome.of("cluster_config") if case.says in f["message"]]
    assert found, outcome.loud
    if case.rank is not None:
        assert {finding["rank"] for finding in found} == {case.rank}


def test_a_task_that_was_never_started_is_named(tmp_path: Path) -> None:
    outcome = run(tmp_path, cluster(worker=2)[:1], "meet.py", until="rendezvous_stuck")
    (finding,) = outcome.of("rendezvous_stuck")
    assert "worker:1" in finding["message"]
    assert finding["rank"] == 1
    assert finding["where"]["file"].endswith("meet.py")
