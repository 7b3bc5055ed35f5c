"""The ranks of a group as a text of ranges: every rank tells them, and a job may have thousands."""

from typing import List, Sequence


def rank_ranges(ranks: Sequence[int]) -> str:
    """ "0-7,16,32-62:2"; the last one means every second rank from 32 to 62."""
    ordered = sorted(ranks)
    parts: List[str] = []
    at = 0
    while at < len(ordered):
        first = ordered[at]
        end = at + 1
        if end < len(ordered):
            stride = ordered[end] - first
            while end < len(ordered) and ordered[end] - ordered[end - 1] == stride:
                end += 1
            # Two ranks that are no neighbours may well belong to different ranges.
            if end - at == 2 and stride != 1:
                end = at + 1
        last = ordered[end - 1]
        if end - at == 1:
            parts.append(str(first))
        else:
            parts.append(f"{first}-{last}" if stride == 1 else f"{first}-{last}:{stride}")
        at = end
    return ",".join(parts)
