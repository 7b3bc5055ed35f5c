"""The taps of distributed jobs: they change nothing, and see everything."""

from collections import Counter
from pathlib import Path
from typing import List

import pytest
from two_ranks import Ranks, run

TAPS = {
    "process groups",
    "collectives",
    "functional collectives",
    "models of several ranks",
    "stalls",
    "flight recorder",
}


def both_ways(tmp_path: Path, script: str, *arguments: str) -> Ranks:
    """Runs a job with the taps and without; its output must be the same to the last bit."""
    plain = run(tmp_path, script, *arguments, watched=False)
    watched = run(tmp_path, script, *arguments)
    assert plain.codes == [0, 0], plain.errors
    assert watched.codes == [0, 0], watched.errors
    assert watched.outputs == plain.outputs
    for rank in (0, 1):
        failed = [fields["what"] for fields in watched.events(rank, "not_captured")]
        assert not set(failed) & TAPS
    return watched


def operations(ranks: Ranks, rank: int) -> List[str]:
    return [call.operation for call in ranks.rings[rank].collectives]


def test_every_operation_gives_the_same_and_is_recorded_with_its_line(tmp_path: Path) -> None:
    ranks = both_ways(tmp_path, "operations.py")
    for rank in (0, 1):
        ring = ranks.rings[rank]
        assert ring.closed
        assert ring.dropped == 0
        seen = operations(ranks, rank)
        expected = (
            "all_reduce broadcast reduce all_gather all_gather_into_tensor gather scatter "
            "reduce_scatter reduce_scatter_tensor all_to_all_single send recv barrier "
            "monitored_barrier"
        )
        assert set(expected.split()) <= set(seen)
        calls = ring.collectives
        assert all("operations.py:" in call.where for call in calls)
        # Everything that was entered was left, numbered without a gap in each group.
        assert sorted(ring.left) == sorted((call.group, call.number) for call in calls)
        for group in {call.group for call in calls}:
            numbers = [call.number for call in calls if call.group == group]
            assert numbers == list(range(len(numbers)))
        assert [c.asynchronous for c in calls if c.operation == "all_reduce"][:3] == [0, 1, 0]
        assert [c.peer for c in calls if c.operation == "broadcast"][:2] == [1, 0]
    first, second = (ranks.rings[rank].collectives for rank in (0, 1))
    for own, other in zip(first, second):
        if own.operation not in ("send", "recv"):
            # A group of one rank alone has a name of its own.
            groups = {own.group, other.group}
            assert len(groups) == 1 or all(len(name) > 2 for name in groups)
            assert (own.operation, own.shape) == (other.operation, other.shape)


def test_calls_that_are_made_again_and_again_are_recorded_natively_and_none_is_lost(
    tmp_path: Path,
) -> None:
    ranks = both_ways(tmp_path, "repeats.py")
    for rank in (0, 1):
        ring = ranks.rings[rank]
        calls = ring.collectives
        seen = Counter((call.operation, call.shape, call.asynchronous, call.peer) for call in calls)
        assert seen == {
            **{("all_reduce", (size, 2), 0, -1): 61 for size in (1, 2, 3)},
            ("all_reduce", (4,), 1, -1): 31,
            ("all_reduce", (2,), 0, -1): 31,  # which the backend refuses
            **{("broadcast", (4,), 1, root): 16 - root for root in (0, 1)},
            ("all_gather_into_tensor", (4,), 0, -1): 31,
            ("all_gather", (1,), 0, -1): 31,
            **{("reduce", (8,), 0, root): 16 - root for root in (0, 1)},
        }
        lines = Counter(call.where.rpartition("/")[2] for call in calls)
        assert len(lines) == 6
        assert lines["repeats.py:17 reduced"] == 3 * 61
        assert sorted(ring.left) == sorted((call.group, call.number) for call in calls)
        for group in {call.group for call in calls}:
            numbers = [call.number for call in calls if call.group == group]
            assert numbers == list(range(len(numbers)))
        natively = int(ranks.errors[rank].rpartition("recorded natively: ")[2].split()[0])
        # All but the first ones, and those of groups that are made anew each time.
        assert natively > 0.6 * (len(calls) + len(ring.left))


def test_groups_and_the_rendezvous_are_told(tmp_path: Path) -> None:
    ranks = run(tmp_path, "operations.py")
    for rank in (0, 1):
        begun, done = ranks.events(rank, "rendezvous")
        assert (begun["state"], done["state"]) == ("begun", "done")
        assert begun["rank"] == rank
        assert begun["world_size"] == 2
        assert begun["where"]["function"] == "main"
        told = {group["description"]: group for group in ranks.events(rank, "process_group")}
        assert told["default_pg"]["ranks"] == "0-1"
        assert told["default_pg"]["backend"] == "gloo"
        assert told["default_pg"]["timeout_s"] == 60
        assert told["pair"]["ranks"] == "0-1"
        assert str(rank) in [group["ranks"] for group in ranks.events(rank, "process_group")]


@pytest.mark.parametrize("how", ["ddp", "fsdp", "pairs"])
def test_a_model_is_trained_to_the_same_bit(tmp_path: Path, how: str) -> None:
    ranks = both_ways(tmp_path, "models.py", how)
    for rank in (0, 1):
        wrapped = ranks.events(rank, "wrapped")
        assert {fields["kind"] for fields in wrapped} == ({how} if how != "pairs" else set())
        for fields in wrapped:
            assert fields["world"] == 2
            assert fields["where"]["file"].endswith("models.py")
        if how == "fsdp":
            assert "all_gather_into_tensor" in operations(ranks, rank)


def test_a_rank_that_waits_and_one_that_stays_away_are_told_apart(tmp_path: Path) -> None:
    ranks = run(tmp_path, "stall.py")
    assert ranks.codes == [1, 1]
    away, waiting = (ranks.events(rank, "stalled") for rank in (0, 1))
    last = waiting[-1]
    assert last["waiting"] == {"group": "0", "sequence": 1, "operation": "all_reduce"}
    assert last["flight"]["0"]["open"]["operation"] == "all_reduce"
    assert last["flight"]["0"]["open"]["sizes"] == [[3]]
    last = away[-1]
    assert last["waiting"] is None
    assert last["flight"]["0"]["open"] is None
    assert "stay_away" in [frame["function"] for frame in last["stack"]]
    assert last["stack"][-1]["function"] == "<module>"
    assert last["since_ns"] > 0
    for rank in (0, 1):
        (ending,) = ranks.events(rank, "exiting")
        assert ending["exception"]["type"] == "ValueError"
        assert ending["exception"]["message"] == "the end"
        assert ending["exception"]["where"]["function"] == "main"
        assert ranks.rings[rank].closed
