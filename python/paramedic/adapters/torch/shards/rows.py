"""The content of samples: a hash of each row of a batch, read where it lies in memory.

Only tensors on the CPU can be read so; for others nothing is known of the content.
"""

from __future__ import annotations

import zlib
from typing import Any, Iterator, List

from paramedic.adapters.torch.memory import window_of_bytes

WHOLE_BYTES = 4096  # a longer row is read at its beginning, in its middle and at its end
PIECE_BYTES = 1024
MAX_LEAVES = 8
MAX_DEPTH = 3


class Rows:
    """Hashes rows of batches."""

    def __init__(self, torch: Any) -> None:
        self._tensor = torch.Tensor
        self._memory = window_of_bytes()

    def of(self, batch: Any) -> List[int]:
        """A hash of each sample; empty when they cannot be seen. 0.2 µs a sample and 100 bytes."""
        widest, widest_bytes = None, 0
        for leaf in self._leaves(batch, MAX_DEPTH):
            size = leaf.numel() * leaf.element_size()
            if size > widest_bytes:
                widest, widest_bytes = leaf, size
        memory = self._memory
        if widest is None or memory is None or not widest.dim():
            return []
        count = widest.shape[0]
        row_bytes = widest_bytes // count
        start = widest.data_ptr()
        crc32 = zlib.crc32
        if row_bytes <= WHOLE_BYTES:
            return [
                crc32(memory[at : at + row_bytes])
                for at in range(start, start + widest_bytes, row_bytes)
            ]
        middle, last = (row_bytes - PIECE_BYTES) // 2, row_bytes - PIECE_BYTES
        return [
            crc32(
                memory[at + last : at + last + PIECE_BYTES],
                crc32(
                    memory[at + middle : at + middle + PIECE_BYTES],
                    crc32(memory[at : at + PIECE_BYTES]),
                ),
            )
            for at in range(start, start + widest_bytes, row_bytes)
        ]

    def _leaves(self, batch: Any, depth: int) -> Iterator[Any]:
        kind = type(batch)
        if kind is self._tensor:
            if batch.is_cpu and batch.is_contiguous() and batch.data_ptr():
                yield batch
        elif depth and isinstance(batch, (tuple, list)):
            for part in batch[:MAX_LEAVES]:
                yield from self._leaves(part, depth - 1)
        elif depth and isinstance(batch, dict):
            for part in list(batch.values())[:MAX_LEAVES]:
                yield from self._leaves(part, depth - 1)
