"""Compares targets with the inputs that they come with, and with what the model says.

A sample that comes again in a later epoch has the target it had before, unless targets are put in
another order than inputs. A sample is known again by the fingerprint of all its inputs, so that
noise and augmentation leave nothing to compare. Where the target says no more than the sample's
place in the batch (contrast within it), or one batch has the same input with several targets, there
is nothing to compare either.
"""

import math
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

from paramedic.adapters.common.source import where
from paramedic.adapters.torch.fingerprints import Fingerprints
from paramedic.adapters.torch.looks import Judge, Look
from paramedic.adapters.torch.loss_graph import saved
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.tensors import Definitions

ROWS = 32  # of a batch
MAX_ROW_BYTES = 1 << 18
MAX_ROWS = 4096  # remembered
# Targets in another order differ as often as chance says; those with noise less often.
SHARE = 0.75
EXPECTED_MIN = 12  # differences that chance alone would make
MAX_CLASSES = 50
MAX_SAMPLE = 1 << 20  # numbers of an input


class Labels(Judge):
    """What is remembered of the samples of a fit."""

    def __init__(self, session: Session, definitions: Definitions) -> None:
        self._session = session
        self._fingerprints = Fingerprints(session, definitions)
        self.begin()

    def begin(self) -> None:
        """Forgets all samples."""
        self._off = False
        self._seen: Dict[int, float] = {}
        self._values: Counter[float] = Counter()
        self._again = self._differ = self._looks = 0

    def look(self, look: Look) -> None:
        """Compares the targets of a step with those of earlier ones."""
        target = None if self._off else look.target()
        if target is None:
            return
        values = [float(value) for value in target[:ROWS].tolist()]
        if look.kind() == "classes" and _is_place(look.nodes[0], values):
            self._off = True
            return
        rows = self._rows(look, len(values))
        pairs = {(row, value) for row, value in zip(rows, values) if row}
        if len(values) < 2 or len(pairs) > len({row for row, _ in pairs}):
            # Inputs that do not tell samples apart: of few kinds, or all alike.
            self._off = True
            return
        differ = self._compare(rows, values)
        self._looks += differ > 0
        self._values.update(values)
        for row, value in zip(rows, values):
            if row and len(self._seen) < MAX_ROWS:
                self._seen.setdefault(row, value)
        expected = self._again * _differing(self._values)
        if expected >= EXPECTED_MIN and self._differ >= SHARE * expected and self._looks > 1:
            self._off = True
            fields = {
                "seen": self._again,
                "differ": self._differ,
                "kind": look.kind(),
                "level": _level(look.kind(), self._values),
                "where": where(look.line.place),
            }
            self._session.event("labels_differ", fields)

    def _compare(self, rows: List[int], values: List[float]) -> int:
        differ = 0
        for row, value in zip(rows, values):
            before = self._seen.get(row) if row else None
            if before is None:
                continue
            self._again += 1
            # A target that no other sample has is noise; one of another sample is out of place.
            if value != before and value in self._values:
                differ += 1
        self._differ += differ
        return differ

    def _rows(self, look: Look, count: int) -> List[int]:
        """A number for each of the first samples; 0 for one that cannot be told from others."""
        whole = look.rows()
        inputs = [x for x in look.inputs if x.dim() and x.shape[0] == whole and x.is_cpu]
        size = sum(x.element_size() * x.numel() for x in inputs)
        if len(inputs) != len(look.inputs) or size > MAX_ROW_BYTES * whole:
            return [0] * count
        numbers = [self._fingerprints.of([x[at : at + 1] for at in range(count)]) for x in inputs]
        return [hash(row) if all(row) else 0 for row in zip(*numbers)]


def _is_place(node: Any, values: List[float]) -> bool:
    """Whether targets are places in the batch, as in contrast within one."""
    scores = saved(node, "self")
    if scores is None or scores.dim() != 2:
        return True
    return bool(scores.shape[0] == scores.shape[1] or values == list(range(len(values))))


def _differing(values: "Counter[float]") -> float:
    """How often two targets drawn by chance differ."""
    count = sum(values.values())
    return 1 - sum((n / count) ** 2 for n in values.values())


def _level(kind: str, values: "Counter[float]") -> Optional[float]:
    """The mean loss of the best constant answer; None where it is not known."""
    count = sum(values.values())
    if kind in ("classes", "binary"):
        return -sum(n / count * math.log(n / count) for n in values.values())
    if kind != "square":
        return None
    mean = sum(value * n for value, n in values.items()) / count
    return sum((value - mean) ** 2 * n for value, n in values.items()) / count


class Answers(Judge):
    """Counts what the model answers, and tells it for each group of looks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.begin()
        session.on_close.append(self._tell)

    def begin(self) -> None:
        """Forgets what was counted: it would be told of a fit that it is not of."""
        self._step = -2
        self._counts: Dict[str, List[int]] = {}

    def look(self, look: Look) -> None:
        """Counts the targets of a step, the answers, and those that are right."""
        if look.step != self._step + 1:
            self._tell()
        self._step = look.step
        target, kind = look.target(), look.kind()
        scores = None if target is None else saved(look.nodes[0], "self")
        if target is None or scores is None or not scores.is_cpu:
            return
        if kind == "classes" and scores.dim() == 2 and scores.shape[1] <= MAX_CLASSES:
            classes, answers = int(scores.shape[1]), scores.argmax(1)
        elif kind == "binary" and scores.numel() == target.numel():
            logits = "Logits" in type(look.nodes[0]).__name__
            classes, answers = 2, (scores.reshape(-1) > (0.0 if logits else 0.5)).long()
            if not bool(((target == 0) | (target == 1)).all()):
                return
        else:
            return
        self._add("labels", target.long(), classes)
        self._add("answers", answers, classes)
        self._add("right", answers[answers == target], classes)
        self._fields = {
            "weighted": _is_weighted(look.nodes[0]),
            "where": where(look.line.place),
            "at": look.at,
        }

    def _add(self, name: str, values: Any, classes: int) -> None:
        # Targets that are to be ignored are no class.
        values = values[(values >= 0) & (values < classes)]
        counts = self._session.torch.bincount(values, minlength=classes).tolist()
        before = self._counts.get(name, [0] * classes)
        self._counts[name] = [a + b for a, b in zip(before, counts)]

    def _tell(self) -> None:
        if self._counts:
            self._session.event("answers", {**self._counts, **self._fields})
        self._counts = {}


def _is_weighted(node: Any) -> bool:
    return saved(node, "weight") is not None or saved(node, "pos_weight") is not None


class Scale(Judge):
    """Tells once a fit how large the inputs are."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.begin()

    def begin(self) -> None:
        """Another fit may have other inputs."""
        self._told = False

    def look(self, look: Look) -> None:
        """Measures the first input, where it holds numbers that are no indices."""
        x = look.inputs[0]
        if self._told or not x.is_cpu or x.dim() < 2:
            return
        self._told = True
        if not x.is_floating_point() or x.requires_grad or not 1 < x.numel() <= MAX_SAMPLE:
            return
        rms = float(x.detach().float().square().mean().sqrt())
        # 1: the mean over the batch, for all losses of torch.
        is_mean = bool(look.kind()) and getattr(look.nodes[0], "_saved_reduction", 0) == 1
        fields: Dict[str, Any] = {"rms": rms, "level": None, "ends": _ends(x), "mean": is_mean}
        target = look.target() if look.kind() == "square" else None
        if target is not None:
            fields["level"] = float(target.float().square().mean())
        fields["where"] = where(look.line.place)
        self._session.event("input_scale", fields)


def _ends(x: Any) -> Tuple[float, float]:
    """Root mean squares of the smallest and the largest feature of a table."""
    if x.dim() != 2:
        return 0.0, 0.0
    features = x.detach().float().square().mean(0).sqrt()
    return float(features.min()), float(features.max())
