"""The crashed process's side of the dialogue with its agent: docs/formats/control.md.

A crash is told, the decision is waited for with the GIL released, and what came of it is told
back. Where there is no agent, or it dies meanwhile, the job fails as it would have; so it does
where anything in here fails.
"""

import json
import os
import socket
import struct
import sys
import threading
from typing import Any, Dict, List, Optional, Tuple

from paramedic import recovery
from paramedic._probe import rank_from_env
from paramedic.recovery import describe
from paramedic.recovery.crash import Crash, Repair

# src/record/control.h
MAGIC = 0x43444D50
VERSION = 1
MAX_PAYLOAD = 64 << 10
HELLO, ERROR = 1, 4
CRASH, REPAIR, RESUMED, REFUSED, GONE, LOOK, VIEW = range(5, 12)
_CHECKED = struct.Struct("<IHHI")
_CRC = struct.Struct("<I")

# An agent that lives takes a message at once.
CONNECT_S = 10.0
# Between Ctrl-C and the barrier that carries out what a person chose then.
INTERRUPT_S = 10.0
# Room for what is not text, and for what JSON escapes.
MAX_REPORT = MAX_PAYLOAD - 1024
MAX_EDITS = 1000

_dialogues: Dict[int, "Dialogue"] = {}


def connect() -> "Dialogue":
    """The one who decides about crashes of this process; the same for all threads."""
    pid = os.getpid()
    if pid not in _dialogues:
        _dialogues[pid] = Dialogue(os.environ.get("PARAMEDIC_RUN", ""))
    return _dialogues[pid]


def offers_interrupt() -> bool:
    """Whether a KeyboardInterrupt that is under way has a repair which waits for it."""
    dialogue = _dialogues.get(os.getpid())
    return dialogue is not None and dialogue.has_ready()


def earlier_edits() -> List[str]:
    """The edits of this run so far, as unified diffs: what a rank that starts again begins with."""
    try:
        folder = os.path.join(os.environ.get("PARAMEDIC_RUN", ""), "repairs")
        numbers = sorted(
            int(name[: -len(".patch")])
            for name in os.listdir(folder)
            if name.endswith(".patch") and name[: -len(".patch")].isdigit()
        )
        return [_read(os.path.join(folder, f"{number}.patch")) for number in numbers[:MAX_EDITS]]
    except Exception as error:
        if not isinstance(error, FileNotFoundError):
            _debug(error)
        return []


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(MAX_PAYLOAD)


class Dialogue:
    """A Decider that asks the agent. Threads that crash meanwhile wait for their turn."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._turn = _Turn()
        self._connection: Optional[_Connection] = None
        # What a person chose at Ctrl-C, for the barrier that will meet the KeyboardInterrupt.
        self._ready: Optional[Repair] = None

    def interrupted(self, crash: Crash) -> bool:
        """Asks what Ctrl-C shall do.

        Returns:
            Whether the job just goes on. Otherwise the KeyboardInterrupt has to be raised: it ends
            the job, or meets a barrier whose `ask` gets the repair that was chosen.
        """
        repair = self.ask(crash)
        if repair is None or repair.kind == "abort":
            return False
        if repair.kind == "retry" and repair.at is None:
            self.resumed(crash, repair, {})
            return True
        self._make_ready(crash, repair)
        return False

    def is_to_be_raised(self, crash: Crash) -> bool:
        """Asks about an exception that has not been raised yet; False: the job goes on without."""
        repair = self.ask(crash)
        if repair is None or repair.kind == "abort":
            return False
        self._make_ready(crash, repair)
        return True

    def _make_ready(self, crash: Crash, repair: Repair) -> None:
        self._ready = repair
        timer = threading.Timer(INTERRUPT_S, self._give_up, [crash, repair])
        timer.daemon = True
        timer.start()

    def has_ready(self) -> bool:
        """See `offers_interrupt`."""
        return self._ready is not None

    def _give_up(self, crash: Crash, repair: Repair) -> None:
        """The job has caught the KeyboardInterrupt itself: nobody will carry the repair out."""
        if self._ready is repair:
            self._ready = None
            self.refused(crash, repair, "the job handles the interruption itself")
            self._leave()

    def ask(self, crash: Crash) -> Optional[Repair]:
        """See `crash.Decider`."""
        try:
            if not self._run or not _may_ask():
                return None
            self._turn.take()
            if self._ready is not None:
                ready, self._ready = self._ready, None
                if isinstance(crash.exception, KeyboardInterrupt):
                    return ready
                self._hang_up()  # no barrier met the interruption
            if self._connection is None:
                self._connection = _Connection(self._run)
                self._connection.send(CRASH, _report(crash))
            repair = self._decision(self._connection, crash)
        except BaseException as error:
            # KeyboardInterrupt too: who presses Ctrl-C at a pause wants the job to end.
            _debug(error)
            repair = None
        if (repair is None or repair.kind == "abort") and self._turn.is_mine():
            self._leave()
        return repair

    def resumed(self, crash: Crash, repair: Repair, took_ms: Dict[str, float]) -> None:
        """See `crash.Decider`."""
        self._tell(RESUMED, {"took_ms": took_ms, "options": repair.options})
        self._leave()

    def refused(self, crash: Crash, repair: Repair, reason: str) -> None:
        """See `crash.Decider`."""
        self._tell(REFUSED, {"reason": reason[: describe.MAX_MESSAGE]})

    def _tell(self, message: int, fields: Dict[str, Any]) -> None:
        try:
            if self._connection is not None:
                self._connection.send(message, fields)
        except Exception as error:
            _debug(error)

    def _decision(self, connection: "_Connection", crash: Crash) -> Optional[Repair]:
        while True:
            message, fields = connection.receive()
            if message == REPAIR:
                return _repair(fields)
            if message == LOOK:
                connection.send(VIEW, {"text": _answer(crash, fields)})
            elif message in (GONE, ERROR):
                return None

    def _leave(self) -> None:
        self._hang_up()
        self._turn.give()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _may_ask() -> bool:
    """Not in a helper process, such as a worker of a DataLoader: its parent meets the failure."""
    is_child = os.getpid() != recovery.process
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        is_child = is_child or multiprocessing.parent_process() is not None
    if not is_child:
        return True
    # A rank that was started by multiprocessing is a process of its own right.
    torch: Any = sys.modules.get("torch")
    if torch is None or torch.utils.data.get_worker_info() is not None:
        return False
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())


class _Turn:
    """A lock that a dead thread does not keep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Optional[threading.Thread] = None

    def take(self) -> None:
        if self.is_mine():
            return
        while not self._lock.acquire(timeout=1.0):
            holder = self._holder
            if holder is not None and not holder.is_alive():
                break
        self._holder = threading.current_thread()

    def is_mine(self) -> bool:
        return self._holder is threading.current_thread()

    def give(self) -> None:
        self._holder = None
        if self._lock.locked():
            self._lock.release()


class _Connection:
    """Framed messages over the agent's socket; any error ends it."""

    def __init__(self, run: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The folder's path may be longer than a socket's address can be.
        folder = os.open(run, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.settimeout(CONNECT_S)
            self._socket.connect(f"/proc/self/fd/{folder}/control.sock")
        finally:
            os.close(folder)
        self.send(HELLO, {"version": VERSION, "pid": os.getpid()})

    def send(self, message: int, fields: Dict[str, Any]) -> None:
        payload = _payload(fields)
        head = _CHECKED.pack(MAGIC, VERSION, message, len(payload))
        crc = crc32c(payload, crc32c(head))
        self._socket.sendall(head + _CRC.pack(crc) + payload)

    def receive(self) -> Tuple[int, Dict[str, Any]]:
        """The next message; waits as long as the agent lives."""
        self._socket.settimeout(None)
        head = self._read(_CHECKED.size)
        crc = self._read(_CRC.size)
        magic, version, message, length = _CHECKED.unpack(head)
        if magic != MAGIC or version != VERSION or length > MAX_PAYLOAD:
            raise ValueError("the agent sent no message of this version")
        payload = self._read(length)
        if _CRC.pack(crc32c(payload, crc32c(head))) != crc:
            raise ValueError("the agent's message is damaged")
        fields = json.loads(payload)
        return message, fields if isinstance(fields, dict) else {}

    def close(self) -> None:
        try:
            self._socket.close()
        except OSError:
            pass

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self._socket.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the agent is gone")
            data += chunk
        return data


def _payload(fields: Dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _report(crash: Crash) -> Dict[str, Any]:
    """The crash message, without what would make it too long: outer frames first."""
    rank, _ = rank_from_env()
    fields = {
        "rank": rank,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "step": _step(),
        "asks": list(crash.asks),
        **describe.crash_fields(crash),
    }
    for frame in fields["frames"][:-1]:
        if len(_payload(fields)) <= MAX_REPORT:
            return fields
        frame["variables"] = []
    while len(_payload(fields)) > MAX_REPORT and fields["frames"]:
        frame = fields["frames"][-1]
        if frame["variables"]:
            frame["variables"] = frame["variables"][: len(frame["variables"]) // 2]
        elif len(fields["frames"]) > 1:
            del fields["frames"][0]
        else:
            frame["source"] = []
            fields["traceback"] = fields["traceback"][-describe.MAX_MESSAGE :]
            break
    return fields


def _step() -> Optional[int]:
    """The step in which the job stands, where an adapter counts them."""
    try:
        adapter: Any = sys.modules.get("paramedic.adapters.torch")
        attached: List[Any] = adapter._attached if adapter is not None else []
        if not attached or attached[0].session.probe is None:
            return None
        attached[0].quick.leave()
        attached[0].session.flush()
        return int(attached[0].session.step)
    except Exception as error:
        _debug(error)
        return None


def _repair(fields: Dict[str, Any]) -> Repair:
    at = fields.get("at")
    frame = fields.get("frame")
    return Repair(
        kind=str(fields["kind"]),
        by=str(fields.get("by", "person")),
        patch=fields.get("patch"),
        code=fields.get("code"),
        value=fields.get("value"),
        frame=frame if isinstance(frame, int) else -1,
        at=(str(at["file"]), int(at["line"])) if isinstance(at, dict) else None,
        options=fields.get("options") or None,
    )


def _answer(crash: Crash, fields: Dict[str, Any]) -> str:
    index = fields.get("frame")
    frames = crash.frames
    if not isinstance(index, int) or not -len(frames) <= index < len(frames):
        return "there is no such frame"
    return describe.evaluate(frames[index].frame, str(fields.get("question", "")))


def _make_table() -> Tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _make_table()


def crc32c(data: bytes, seed: int = 0) -> int:
    """CRC-32C, as base/crc32c.h has it. About 0.1 µs a byte: for messages only."""
    crc = seed ^ 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _debug(error: BaseException) -> None:
    if os.environ.get("PARAMEDIC_DEBUG"):
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__)
