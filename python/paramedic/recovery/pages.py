"""The two pages in shared memory that a restart needs; docs/formats/snapshot.md has their bytes.

A process that can be snapshot owns a `SnapshotPage`: it says which frozen copies of it stand by.
The supervisor's copiers own the `OutputPage`: it says how much of the job's output they have read.
A page is written so that a reader finds a whole snapshot whatever instruction its owner died at:
the slot is filled and sealed by a checksum first, then one aligned store publishes it.
"""

import fcntl
import mmap
import os
import stat
import struct
import termios
from typing import Iterator, List, NamedTuple, Optional, Tuple

MAGIC = b"PMSNAP1\0"
VERSION = 1
PAGE_BYTES = 64 * 1024
SLOT_OFFSETS = (64, 128)
SLOT = struct.Struct("<QqQQQQI")  # generation, step, stdout, stderr, wall ns, cost ns, pid
REASON_OFFSET, REASON_BYTES = 512, 512
EFFECTS_OFFSET = 1024
EFFECTS_BYTES = (PAGE_BYTES - EFFECTS_OFFSET) // 2
ENTRY = struct.Struct("<BxHxxxxQ")  # kind, bytes of the path, size of the file
# Indexes of the 64-bit words.
_PUBLISHED, _ORDER, _ANSWER, _CLOSED, _EFFECTS_USED, _UNREPEATABLE = 3, 4, 5, 6, 24, 26

UNKNOWN = 2**64 - 1  # a position that nobody knows; an order to end; an answer that it cannot

OUTPUT_MAGIC = b"PMOUTP1\0"
OUTPUT_BYTES = 4096
CHANNEL = struct.Struct("<QQQQQ")  # device, inode, kind, sequence, position
CHANNEL_OFFSETS = (64, 128)
CHANNEL_PIPE, CHANNEL_TERMINAL = 1, 2
_READ_TRIES = 1000


def _table() -> List[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli); for some tens of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Slot(NamedTuple):
    """One snapshot: the process that stands by, and where the job was."""

    generation: int
    step: int
    stdout: int  # bytes that had been written to the job's channels; UNKNOWN: writes to none
    stderr: int
    wall_ns: int
    cost_ns: int
    pid: int


class SnapshotPage:
    """The page of this process; `create` replaces one that a dead process left."""

    def __init__(self, path: str, memory: mmap.mmap) -> None:
        self.path = path
        self._memory = memory
        self._words = memoryview(memory).cast("Q")

    @classmethod
    def create(cls, folder: str, run_id: str, rank: int) -> "SnapshotPage":
        """Raises OSError where there is no room."""
        path = os.path.join(folder, f"paramedic-{run_id}-{os.getpid()}.snapshot")
        new = path + ".new"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # A sparse file on a full tmpfs would kill its writer by SIGBUS.
            os.posix_fallocate(fd, 0, PAGE_BYTES)
            memory = mmap.mmap(fd, PAGE_BYTES)
        finally:
            os.close(fd)
        struct.pack_into("<8sIIiI", memory, 0, MAGIC, VERSION, os.getpid(), rank, PAGE_BYTES)
        os.rename(new, path)
        return cls(path, memory)

    @property
    def published(self) -> int:
        """The generation of the newest snapshot, 0 before the first."""
        return self._words[_PUBLISHED]

    def publish(self, slot: Slot) -> None:
        """Makes `slot` the newest snapshot."""
        at = SLOT_OFFSETS[slot.generation % 2]
        data = SLOT.pack(*slot)
        self._memory[at : at + len(data) + 4] = data + struct.pack("<I", crc32c(data))
        self._words[_PUBLISHED] = slot.generation

    def slot(self, generation: int) -> Optional[Slot]:
        """The snapshot of that generation, if it is whole."""
        at = SLOT_OFFSETS[generation % 2]
        data = self._memory[at : at + SLOT.size]
        (crc,) = struct.unpack_from("<I", self._memory, at + SLOT.size)
        slot = Slot(*SLOT.unpack(data))
        return slot if crc == crc32c(data) and slot.generation == generation else None

    @property
    def order(self) -> int:
        """The generation that the supervisor wants to go on; 0: none yet."""
        return self._words[_ORDER]

    def answer(self, generation: int, reason: str = "") -> None:
        """Tells the supervisor which generation goes on, or why none does (UNKNOWN)."""
        self.tell(reason)
        self._words[_ANSWER] = generation

    def tell(self, reason: str) -> None:
        """Why there are no snapshots, or why one cannot go on: a sentence for a person."""
        text = reason.encode("utf-8", "replace")[: REASON_BYTES - 1]
        self._memory[REASON_OFFSET : REASON_OFFSET + REASON_BYTES] = text.ljust(REASON_BYTES, b"\0")

    @property
    def reason(self) -> str:
        """What `tell` said last."""
        text = self._memory[REASON_OFFSET : REASON_OFFSET + REASON_BYTES]
        return text.rstrip(b"\0").decode("utf-8", "replace")

    @property
    def closed(self) -> bool:
        """Whether the owner ended in good order."""
        return self._words[_CLOSED] != 0

    def close(self) -> None:
        """The owner ends in good order: nothing of it is to go on."""
        self._words[_CLOSED] = 1

    def clear_effects(self, area: int) -> None:
        """Forgets what was kept in `area`, that of the generations with this remainder by 2."""
        self._words[_EFFECTS_USED + area] = 0
        self._words[_UNREPEATABLE + area] = 0

    def add_effect(self, area: int, kind: int, size: int, path: bytes) -> bool:
        """Keeps one entry; False when there is no room."""
        used = self._words[_EFFECTS_USED + area]
        end = used + ENTRY.size + len(path)
        if end > EFFECTS_BYTES or len(path) > 0xFFFF:
            return False
        at = EFFECTS_OFFSET + area * EFFECTS_BYTES + used
        entry = ENTRY.pack(kind, len(path), size) + path
        self._memory[at : at + len(entry)] = entry
        self._words[_EFFECTS_USED + area] = end
        return True

    def effects(self, area: int) -> Iterator[Tuple[int, int, bytes]]:
        """Kind, size and path of what was kept, oldest first."""
        start = EFFECTS_OFFSET + area * EFFECTS_BYTES
        at, end = start, start + min(self._words[_EFFECTS_USED + area], EFFECTS_BYTES)
        while at + ENTRY.size <= end:
            kind, path_bytes, size = ENTRY.unpack_from(self._memory, at)
            at += ENTRY.size
            yield kind, size, self._memory[at : at + path_bytes]
            at += path_bytes

    def set_unrepeatable(self, area: int, reason: str) -> None:
        """What happened since this snapshot cannot be repeated: it must not go on."""
        self.tell(reason)
        self._words[_UNREPEATABLE + area] = 1

    def is_repeatable(self, area: int) -> bool:
        """Whether everything that happened since this snapshot can be done once more."""
        return self._words[_UNREPEATABLE + area] == 0

    def remove(self) -> None:
        """Takes the name away; the memory goes with the last process that holds it."""
        try:
            os.unlink(self.path)
        except OSError:
            pass


class OutputPage:
    """How much of the job's output the copiers have read; read only."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @classmethod
    def open(cls, folder: str, run_id: str) -> "OutputPage":
        """Raises OSError or ValueError where there is none."""
        path = os.path.join(folder, f"paramedic-{run_id}.output")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(fd, OUTPUT_BYTES, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        if memory[: len(OUTPUT_MAGIC)] != OUTPUT_MAGIC:
            raise ValueError(f"{path} is no output page")
        return cls(memory)

    def position(self, fd: int) -> int:
        """Bytes that were written to the channel behind `fd`, those still in it included.

        UNKNOWN where `fd` is closed, a file, or a device: then there is no channel to count.

        Raises:
            ValueError: `fd` leads to somebody who keeps no count.
        """
        try:
            status = os.fstat(fd)
        except OSError:
            return UNKNOWN
        for at in CHANNEL_OFFSETS:
            device, inode, kind, _, _ = CHANNEL.unpack_from(self._memory, at)
            if kind and (device, inode) == (status.st_dev, status.st_ino):
                return self._count(at, fd, kind)
        if stat.S_ISREG(status.st_mode) or stat.S_ISCHR(status.st_mode):
            return UNKNOWN
        raise ValueError(f"what is written to {fd} goes to another program")

    def _count(self, at: int, fd: int, kind: int) -> int:
        for _ in range(_READ_TRIES):
            _, _, _, before, position = CHANNEL.unpack_from(self._memory, at)
            unread = 0
            if kind == CHANNEL_PIPE:
                answer = fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0")
                (unread,) = struct.unpack("i", answer)
            after = CHANNEL.unpack_from(self._memory, at)[3]
            if before == after and before % 2 == 0:
                if position == UNKNOWN:
                    raise ValueError("the job's output is not logged")
                return int(position + unread)
            os.sched_yield()
        raise ValueError("the copier of the job's output does not keep up")
