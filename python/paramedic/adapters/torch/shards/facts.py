"""What is known of a loader before it is read: its sampler, its data set, and who shares the work.

Attributes are read, no code of the job is called but `len`.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from paramedic.adapters.common.ranks import rank_ranges
from paramedic.adapters.common.source import where
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.shards.print_of import fingerprint

MAX_WRAPPERS = 4  # of samplers around samplers, and of subsets of subsets
_REPLICAS = ("num_replicas", "num_processes", "world_size")
_RANK = ("rank", "process_index")
_SHARING = ("DistributedDataParallel", "FullyShardedDataParallel")


def length_of(thing: Any) -> Optional[int]:
    """Its length; None where it has none."""
    try:
        return len(thing)
    except Exception:
        return None


def sampler_facts(loader: Any, origins: Origins) -> Dict[str, Any]:
    """The sampler that decides, of those that wrap each other: the one that knows of ranks, else
    the innermost."""
    chosen = None
    for sampler in _samplers(loader):
        chosen = sampler
        if _number(sampler, _REPLICAS) is not None:
            break
    return {
        "class": type(chosen).__name__,
        "replicas": _number(chosen, _REPLICAS),
        "rank": _number(chosen, _RANK),
        "shuffle": _shuffles(chosen),
        "drop_last": bool(getattr(chosen, "drop_last", False)),
        "seed": _number(chosen, ("seed",)),
        "epoch": _number(chosen, ("epoch",)),
        "replacement": bool(getattr(chosen, "replacement", False)),
        "part": hasattr(chosen, "indices"),
        "own": not type(chosen).__module__.startswith("torch."),
        "where": where(origins.of(chosen)),
    }


def _samplers(loader: Any) -> List[Any]:
    """From the outermost inwards."""
    found: List[Any] = []
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    while sampler is not None and len(found) < MAX_WRAPPERS:
        found.append(sampler)
        inner = vars(sampler) if hasattr(sampler, "__dict__") else {}
        sampler = inner.get("batch_sampler", inner.get("sampler"))
    if loader.sampler is not None and all(one is not loader.sampler for one in found):
        found.append(loader.sampler)
    return found


def _number(thing: Any, names: Sequence[str]) -> Optional[int]:
    for name in names:
        value = getattr(thing, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _shuffles(sampler: Any) -> Optional[bool]:
    """Whether it is meant to give another order each time; None when unknown."""
    value = getattr(sampler, "shuffle", None)
    if isinstance(value, bool):
        return value
    kind = type(sampler).__name__
    if kind in ("RandomSampler", "SubsetRandomSampler"):
        return True
    return False if kind == "SequentialSampler" else None


def dataset_facts(dataset: Any, origins: Origins) -> Dict[str, Any]:
    """A data set, and what makes it known again in another process."""
    return {
        "class": type(dataset).__name__,
        "length": length_of(dataset),
        "print": fingerprint(dataset),
        "where": where(origins.of(dataset)),
    }


def root_of(dataset: Any) -> "Tuple[Any, Optional[Sequence[int]]]":
    """The data set under subsets of it, and the id there of each id; (dataset, None) of others."""
    subset: Any = sys.modules["torch.utils.data"].Subset
    roots: Optional[Sequence[int]] = None
    for _ in range(MAX_WRAPPERS):
        if type(dataset) is not subset:
            break
        indices = dataset.indices
        if roots is None:
            roots = indices
        else:
            roots = [int(indices[i]) for i in roots]
        dataset = dataset.dataset
    return dataset, roots


def sharing_facts(torch: Any, origins: Origins) -> Optional[Dict[str, Any]]:
    """The model whose gradients are averaged, and between which ranks; None without one."""
    distributed = torch.distributed
    newest = None
    for module in origins.alive(torch.nn.Module):
        if any(cls.__name__ in _SHARING for cls in type(module).__mro__):
            newest = module
    group = getattr(newest, "process_group", None)
    if newest is None or group is None:
        return None
    join = getattr(getattr(newest, "_join_config", None), "enable", False)
    return {
        "wrapper": type(newest).__name__,
        "ranks": rank_ranges(distributed.get_process_group_ranks(group)),
        "join": bool(join),
    }
