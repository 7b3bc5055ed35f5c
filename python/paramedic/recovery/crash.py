"""What the parts of recovery tell each other: a crash, a repair, and who decides.

`resume` meets the crash and carries the repair out; a `Decider` (the dialogue with the agent, or a
test) chooses it; a `Rewinder` keeps and puts back what an iteration changed outside its frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType
from typing import Any, Dict, List, Optional, Protocol, Tuple


@dataclass
class ProjectFrame:
    """A frame of the job's own files on the crashed stack."""

    frame: FrameType  # of the newest continuation, where the function has been resumed before
    file: str  # as in co_filename
    function: str  # its qualified name; "<module>" for a module's body
    line: int  # of the statement at which it stands, in the source as it is now (edits included)
    column: int  # in characters, 0-based
    is_loop_header: bool  # it stands in a loop's iterator, not in the body


@dataclass
class Crash:
    """An exception that nobody up the stack would handle, while all its frames can be read."""

    exception: BaseException
    frames: List[ProjectFrame]  # outermost first; the last is the crashed frame
    thread: str
    repeats: int  # how often the same exception came at the same place with no progress, 0 at first
    asks: Tuple[str, ...] = ()  # kinds of repairs that are wanted before anybody is asked


@dataclass(frozen=True)
class Repair:
    """One choice of contract.md's list; which fields count depends on `kind`."""

    kind: str  # retry edit action skip rewind rollback split_batch return abort
    by: str = "person"  # or "policy"
    patch: Optional[str] = None  # edit: a unified diff against the job's files
    code: Optional[str] = None  # action: runs in the frame before the retry
    value: Optional[str] = None  # return: an expression, evaluated in the frame
    frame: int = -1  # index into Crash.frames (-1: the crashed one), for action and return
    at: Optional[Tuple[str, int]] = None  # file and line of an earlier statement to go on at
    options: Optional[Dict[str, Any]] = None  # of a policy's remedy


class Refused(Exception):
    """A repair that cannot be carried out; the job stays paused. Its text says why."""


class Decider(Protocol):
    """Called in the crashed thread; may take as long as a person needs, and never raises."""

    def ask(self, crash: Crash) -> Optional[Repair]:
        """The next repair to try; None lets the job fail as it would have."""

    def resumed(self, crash: Crash, repair: Repair, took_ms: Dict[str, float]) -> None:
        """`repair` is in place, the job goes on at once; `took_ms` by part of the mechanism."""

    def refused(self, crash: Crash, repair: Repair, reason: str) -> None:
        """`repair` could not be carried out; `ask` is called again."""


class Rewinder(Protocol):
    """Random state, gradients, buffers and weights as they were at the start of the iteration."""

    def mark(self, loop: int = 0) -> None:
        """An iteration of the loop `loop` (a number of its own in the process) starts now, and it
        trains. Some microseconds; never raises."""

    def enter(self, loop: int) -> None:
        """`loop` is about to start its first iteration, as a rule in a new frame; never raises."""

    def put_back(self, crash: Crash, loop: int = 0) -> None:
        """Undoes what happened since the mark of `loop`; raises Refused where that cannot be
        exact: then nothing was changed."""

    def needs_rewind(self, crash: Crash, outer: Optional[FrameType] = None) -> bool:
        """Whether the statement at which `outer`, by default the crashed frame, stands is inside a
        backward pass or an optimizer's step: run again by itself it would repeat a part of the
        work. Never raises."""
