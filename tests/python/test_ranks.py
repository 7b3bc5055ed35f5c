"""How the ranks of a group are told."""

from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramedic.adapters.common.ranks import rank_ranges


@pytest.mark.parametrize(
    "text", ["", "0", "0-1", "3,7", "0-9999", "0-62:2", "0-7,16,32-62:2", "0,5,7-9"]
)
def test_ranks_are_told_as_ranges(text: str) -> None:
    assert rank_ranges(ranks_of(text)) == text


@given(st.sets(st.integers(0, 400), max_size=60))
def test_ranges_name_each_rank_once(ranks: List[int]) -> None:
    assert ranks_of(rank_ranges(list(ranks))) == sorted(ranks)


def ranks_of(text: str) -> List[int]:
    """What src/store/members.cc reads."""
    ranks: List[int] = []
    for part in filter(None, text.split(",")):
        ends, _, stride = part.partition(":")
        first, _, last = ends.partition("-")
        ranks.extend(range(int(first), int(last or first) + 1, int(stride or 1)))
    return ranks
