"""Notices that every step is trained on the same batch, though there are others.

To train on all data in each step is no fault, nor is a batch that is made once, before the loop, to
see whether a model can learn it. So two things have to be seen: the model is given the same
numbers in step after step; and the loop around the step means to go from batch to batch. That is a
loop over a loader, a loop whose turns are as many as there are batches in the data, a new start of
a loader that has more than one batch in each turn, or random numbers that begin anew in each turn.
"""

import ast
import weakref
from typing import Any, Dict, List, Optional, Tuple

from paramedic._syntax import last_name
from paramedic.adapters.common.source import Source, where
from paramedic.adapters.torch.fingerprints import Fingerprints
from paramedic.adapters.torch.loader import Loaders
from paramedic.adapters.torch.looks import Judge, Look
from paramedic.adapters.torch.nan_region import regions, stored_at
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.tensors import Definitions

LOOKS = 6  # with the same input, in two groups
MAX_NUMBERS = 1 << 22  # of an input
MAX_FRAMES = 5  # of the user's, from the one that calls backward() outwards
MAX_LOADERS = 100


class Repeats(Judge):
    """Remembers what the model was given when it was last looked at."""

    def __init__(
        self, session: Session, source: Source, loaders: Loaders, definitions: Definitions
    ) -> None:
        self._session = session
        self._source = source
        self._loaders = loaders
        self._tap = session.tap("repeated batches")
        self._fingerprints = Fingerprints(session, definitions)
        self._batches = Fingerprints(session, definitions)
        self.begin()
        loaders.opened.append(self.begun)

    def begin(self) -> None:
        """Forgets all inputs."""
        # Of a loader: the step at which it was last begun, and what iterates it.
        self._begun: Dict[int, Tuple[int, "weakref.ref[Any]"]] = {}
        self._off = False
        self._before: List[int] = []
        self._batch_before: List[int] = []
        self._input: "Optional[weakref.ref[Any]]" = None
        self._count = 0
        self._reasons: Dict[str, int] = {}
        self._last_step = -1
        self._groups = 0

    def begun(self, loader: Any, iterator: Any) -> None:
        """A loader is read from its beginning."""
        if self._off or not self._tap.on or len(self._begun) > MAX_LOADERS:
            return
        try:
            if len(loader) > 1 and self._session.fit >= 0:
                self._begun[id(loader)] = (self._session.step, weakref.ref(iterator))
        except Exception:
            # One without a length says nothing.
            return

    def look(self, look: Look) -> None:
        """Compares the inputs with those of the look before."""
        if self._off:
            return
        if sum(x.numel() for x in look.inputs) > MAX_NUMBERS:
            self._off = True
            return
        numbers = self._fingerprints.of(look.inputs)
        batch = self._batches.of(_first_tensor(self._loaders.batch))
        if self._before and numbers != self._before or not all(numbers):
            self._off = True
            return
        if self._before:
            self._count += 1
            self._note_reasons(look, batch)
        if look.step != self._last_step + 1:
            self._groups += 1
        self._before, self._batch_before, self._last_step = numbers, batch, look.step
        self._input = weakref.ref(look.inputs[0])
        if self._count >= LOOKS and self._groups > 1:
            self._off = True
            self._judge(look)

    def _note_reasons(self, look: Look, batch: List[int]) -> None:
        again = [at for at in self._begun.values() if at[0] == look.step and at[1]() is None]
        is_new = self._input is None or self._input() is not look.inputs[0]
        if again and is_new:
            self._reasons["loader"] = self._reasons.get("loader", 0) + 1
        if batch and self._batch_before and batch != self._batch_before:
            self._reasons["unused"] = self._reasons.get("unused", 0) + 1
        if is_new:
            self._reasons["new"] = self._reasons.get("new", 0) + 1

    def _judge(self, look: Look) -> None:
        why = ""
        loop = self._loop(look)
        made = None if loop is None else stored_at(loop[0], look.inputs[0])
        if self._reasons.get("loader", 0) >= self._count:
            why = "a loader that has more batches is begun anew in each step"
        elif self._reasons.get("unused", 0) >= self._count - 1 and self._is_over_loader(look, loop):
            why = "the batches of the loader are not what the model is given"
        elif self._reasons.get("new", 0) >= self._count and loop is not None:
            why = _loop_says(look, *loop)
        if not why:
            return
        fields = {
            "rows": look.rows(),
            "steps": self._count + 1,
            "why": why,
            "where": where(made or look.line.place),
        }
        self._session.event("batch_repeated", fields)

    def _loop(self, look: Look) -> Optional[Tuple[Any, ast.AST, List[ast.stmt]]]:
        """The innermost loop that the step runs in: (its frame, the loop, what it repeats)."""
        frame = look.frame
        for _ in range(MAX_FRAMES):
            if frame is None or not self._source.is_user(frame.f_code):
                return None
            for owner, body in regions(frame):
                if isinstance(owner, (ast.For, ast.While)):
                    return frame, owner, body
            frame = self._source.frame(frame.f_back)
        return None

    def _is_over_loader(self, look: Look, loop: Any) -> bool:
        if loop is None or not isinstance(loop[1], ast.For):
            return False
        loader_class = self._session.torch.utils.data.DataLoader
        names = [n.id for n in ast.walk(loop[1].iter) if isinstance(n, ast.Name)]
        return any(isinstance(_variable(loop[0], name), loader_class) for name in names)


def _first_tensor(batch: Any) -> List[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        batch = batch[0] if batch else None
    return [batch] if hasattr(batch, "untyped_storage") else []


def _variable(frame: Any, name: str) -> Any:
    found = frame.f_locals.get(name)
    return frame.f_globals.get(name) if found is None else found


def _loop_says(look: Look, frame: Any, loop: Any, body: List[ast.stmt]) -> str:
    """Why the loop means to go from batch to batch; "" where it does not."""
    calls = [node for s in body for node in ast.walk(s) if isinstance(node, ast.Call)]
    if any(last_name(call.func) in ("manual_seed", "seed") for call in calls):
        return "the random numbers begin anew in each step"
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return ""
    if last_name(loop.iter.func) != "range":
        return ""
    ends = [_number(node, frame) for node in loop.iter.args]
    rows, counts = look.rows(), _counts(look, frame)
    if len(ends) == 3 and ends[1] is not None and ends[2] == rows:
        end = ends[1]
        # The last batch may be left out.
        goes_over = any(rows < end <= count < end + 2 * rows for count in counts)
        return f"the loop goes over {end} samples in steps of {rows}" if goes_over else ""
    turns = ends[0] if len(ends) == 1 and ends[0] is not None else 0
    is_epoch = turns > 1 and any(abs(turns * rows - count) < rows for count in counts)
    return f"the loop has as many turns as there are batches of {rows}" if is_epoch else ""


def _counts(look: Look, frame: Any) -> List[int]:
    """Of variables that hold such samples as the input: how many. None whose samples are alike."""
    wanted, rows = tuple(look.inputs[0].shape[1:]), look.rows()
    counts = []
    for values in (frame.f_locals, frame.f_globals):
        for thing in list(values.values()):
            shape = _shape(thing)
            if len(shape) != len(wanted) + 1:
                continue
            if tuple(shape[1:]) == wanted and shape[0] > rows and not _is_alike(thing, rows):
                counts.append(int(shape[0]))
    return counts


def _is_alike(thing: Any, rows: int) -> bool:
    return bool((thing[0] == thing[rows]).all())


def _number(node: ast.AST, frame: Any) -> Optional[int]:
    """A whole number that an expression of names, lengths and arithmetic gives; runs no code."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.Name):
        value = _variable(frame, node.id)
        return value if isinstance(value, int) else None
    if isinstance(node, ast.Call) and last_name(node.func) == "len" and len(node.args) == 1:
        return _length(node.args[0], frame)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return _length(node.value.value, frame) if node.value.attr == "shape" else None
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left, frame), _number(node.right, frame)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        return left - right if isinstance(node.op, ast.Sub) else None
    return None


def _length(node: ast.AST, frame: Any) -> Optional[int]:
    thing = _variable(frame, node.id) if isinstance(node, ast.Name) else None
    shape = _shape(thing)
    return int(shape[0]) if shape else None


def _shape(thing: Any) -> Tuple[int, ...]:
    """Of a tensor or an array of numpy's; nothing of what may be of the job's own making."""
    known = hasattr(thing, "untyped_storage") or type(thing).__module__ == "numpy"
    shape = getattr(thing, "shape", None) if known else None
    return tuple(shape) if isinstance(shape, tuple) else ()
