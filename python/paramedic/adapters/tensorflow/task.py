"""Which task of its cluster a process is, as TF_CONFIG says it.

The numbers are those of `src/cluster/lint/tf_config.cc`: a chief comes first, then the workers,
then the parameter servers, and an evaluator, which belongs to nobody's cluster, after all of them.
"""

import json
import os
from typing import Any, List, NamedTuple, Optional

_ORDER = ("chief", "worker", "ps")
_TRAIN = ("chief", "worker")


class Task(NamedTuple):
    """One process of a cluster."""

    type: str
    number: int  # "index" of TF_CONFIG
    rank: int
    world_size: int
    workers: List[int]  # ranks that train, ascending


def task_here() -> Optional[Task]:
    """The task of this process; None where TF_CONFIG is missing or cannot be read."""
    return task_of(os.environ.get("TF_CONFIG", ""))


def task_of(text: str) -> Optional[Task]:
    """The task that a TF_CONFIG names; None where it names none."""
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        kind, index = str(task["type"]), int(task["index"])
        sizes = {name: len(addresses) for name, addresses in cluster.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    first, total = 0, 0
    for name in _ORDER:
        if name == kind:
            first = total
        total += sizes.get(name, 0)
    if kind not in _ORDER:
        first = total
    workers = list(range(sum(sizes.get(name, 0) for name in _TRAIN)))
    return Task(kind, index, first + index, max(total, 1), workers) if index >= 0 else None


def text_of(resolver: Any) -> str:
    """What a cluster resolver says, in the form of TF_CONFIG; the environment's without one."""
    if resolver is None:
        return os.environ.get("TF_CONFIG", "")
    cluster = resolver.cluster_spec().as_dict()
    if not cluster or resolver.task_type is None or resolver.task_id is None:
        return ""
    task = {"type": resolver.task_type, "index": int(resolver.task_id)}
    return json.dumps({"cluster": cluster, "task": task})
