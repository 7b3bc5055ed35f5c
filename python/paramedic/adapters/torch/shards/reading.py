"""What one pass over a DataLoader read: which samples by their ids, in which order, with which
content. Sums and sets of bounded size; a batch costs some microseconds.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from binascii import b2a_base64
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Sequence

from paramedic.adapters.torch.shards.rows import Rows

# Ids of a data set that are told one by one; of a larger one those that a prime divides. A prime,
# so that the part is the same for every rank, whether ranks take each n-th sample or blocks.
MAX_IDS = 1 << 17
_PRIMES = (1, 2, 3, 5, 7, 11, 17, 29, 53, 101, 211, 401, 809, 1601, 3203, 6421, 12007, 25013, 50021)
FOLD_AT = 8192  # ids kept before they are added to the sums
MAX_ROWS = 4096  # samples of a pass whose content is looked at
PAIRS = 64  # samples of which both id and content are told, about
MAX_ASKED = 4096  # batches asked for that have not come
_DIGITS = bytes([48]) + bytes([49]) * 255  # of a flag: "0", "1"


def prime_above(count: int) -> int:
    """The smallest number at hand that is at least `count`."""
    return next((prime for prime in _PRIMES if prime >= count), _PRIMES[-1])


class IdSet:
    """Ids from 0 to a known size: which of them were read, and how often all together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.modulus = prime_above(-(-size // MAX_IDS))
        self.read = 0
        self._flags = bytearray(-(-size // self.modulus))

    def add(self, ids: Sequence[int]) -> None:
        """Takes ids. Raises IndexError where one is outside of the data set."""
        flags, modulus = self._flags, self.modulus
        if modulus > 1:
            ids = [i // modulus for i in ids if not i % modulus]
        for i in ids:
            flags[i] = 1
        self.read += len(ids)

    def facts(self) -> Dict[str, Any]:
        """As the event tells it; `bits` has id 0 in the highest bit of its first byte."""
        flags = self._flags
        text = flags.translate(_DIGITS) + b"0" * (-len(flags) % 8)
        packed = int(text or b"0", 2).to_bytes(len(text) // 8, "big")
        return {
            "size": self.size,
            "modulus": self.modulus,
            "read": self.read,
            "distinct": flags.count(1),
            "bits": text_of(packed),
        }


def text_of(data: bytes) -> str:
    """Bytes as JSON carries them."""
    return b2a_base64(data, newline=False).decode()


class Reading:
    """One pass, from its beginning to its end."""

    def __init__(
        self,
        size: Optional[int],
        roots: Optional[Sequence[int]],
        root_size: int,
        rows: Optional[Rows],
    ) -> None:
        """Takes note of batches.

        Args:
            size: samples of the data set; None where samples have no ids.
            roots: the id in the data set underneath for each id, or None.
            root_size: samples of the data set underneath.
            rows: reads samples of batches; without it only the order is noted, no set.
        """
        self.batches = 0
        self.samples = 0
        self.first_step = 0
        self.asked: Deque[Any] = deque()
        self._size = size
        self._roots = roots
        self._rows = rows
        self._fresh = array("q")
        self._order = hashlib.blake2b(digest_size=8)
        self._ids = IdSet(size) if size and rows is not None else None
        self._root_ids = IdSet(root_size) if self._ids is not None and roots is not None else None
        self._pair_modulus = prime_above(min(size or 0, MAX_ROWS) // PAIRS)
        self._pairs: Dict[int, int] = {}
        self._contents: List[int] = []
        self._whole = rows is not None

    def took(self, batch: Any) -> None:
        """A batch was handed to the job."""
        self.batches += 1
        index = None
        if self._size is not None:
            if not self.asked or len(self.asked) > MAX_ASKED:
                self._lose_ids()
            else:
                index = self.asked.popleft()
                self._note(index)
        if self._whole:
            self._look(batch, index)

    def _note(self, index: Any) -> None:
        if type(index) is not list:
            index = [index]
        self.samples += len(index)
        try:
            self._fresh.fromlist(index)
        except (TypeError, OverflowError):
            # Names or tuples: no set of them is kept, but the order is.
            self._order.update(repr(index).encode())
            self._ids = self._root_ids = None
            return
        if len(self._fresh) >= FOLD_AT:
            self._fold()

    def _fold(self) -> None:
        fresh, self._fresh = self._fresh, array("q")
        self._order.update(fresh)
        if self._ids is None or not fresh:
            return
        try:
            if min(fresh) < 0:
                raise IndexError(min(fresh))
            self._ids.add(fresh)
            if self._root_ids is not None and self._roots is not None:
                roots = self._roots
                self._root_ids.add([int(roots[i]) for i in fresh])
        except IndexError:
            self._ids = self._root_ids = None

    def _lose_ids(self) -> None:
        """Batches came in another way than they were asked for: a repair, or a loader of one's
        own. Nothing is known of the samples from here on."""
        self._size = self._ids = self._root_ids = None

    def _look(self, batch: Any, index: Any) -> None:
        contents = self._rows.of(batch) if self._rows is not None else []
        count = len(contents)
        if index is None:
            self.samples += count
        room = MAX_ROWS - len(self._contents)
        self._contents += contents[:room]
        self._whole = count <= room
        if type(index) is list and count == len(index):
            modulus = self._pair_modulus
            for i, content in zip(index, contents):
                if i.__class__ is int and not i % modulus:
                    self._pairs[i] = content

    def facts(self, exhausted: bool) -> Dict[str, Any]:
        """What the event tells."""
        if self._size is not None and exhausted and self.asked:
            self._lose_ids()
        self._fold()
        contents = self._contents
        return {
            "batches": self.batches,
            "samples": self.samples,
            "order": self._order.hexdigest() if self._size is not None and self.samples else None,
            "ids": self._ids.facts() if self._ids is not None else None,
            "root_ids": self._root_ids.facts() if self._root_ids is not None else None,
            "pairs": sorted(self._pairs.items())[: 4 * PAIRS],
            "contents": {
                "read": len(contents),
                "whole": self._whole and len(contents) == self.samples,
                "order": zlib.crc32(array("I", contents)),
                "hashes": text_of(array("I", sorted(set(contents))).tobytes()),
            },
        }
