"""Weights and optimizer state as they were when an iteration began.

Kept before the first backward pass or optimizer step of an iteration: until then nobody changes
them. Values are copied where that is worth its cost (pace.py). Otherwise the versions of all
tensors tell whether anything changed: they follow from the number of steps (versions.py), or are
kept; where even that costs too much, those of the weights alone. What the containers hold is kept
with the values: state that a first step made is taken away again, and learning rates, counters and
histories (LBFGS) are as they were.
"""

from __future__ import annotations

import sys
import weakref
from itertools import chain
from typing import Any, Callable, List, Optional, Tuple

from paramedic.recovery.crash import Refused
from paramedic.recovery.pace import Allowance, Pace
from paramedic.recovery.tensors import Copies
from paramedic.recovery.versions import Pattern

MAX_DEPTH = 5  # attributes → state → one weight's → history → tensor
FLAT_DEPTH = 1  # state → one weight's
# Code that is not torch's own is the likelier one to raise half-way: its copies may cost more.
FOREIGN_NS = 200_000
FOREIGN_SHARE = 0.1
# Versions only tell that a step had not begun its work: that is worth less than a copy.
NOTING_NS = 5_000
NOTING_SHARE = 0.01
# So often they are looked at, whatever that costs, to find the rule that they follow.
LEARNING_LOOKS = 8
_NUMBERS = frozenset((int, float, bool, str, type(None)))


class Kept:
    """The values inside objects: containers by shallow copies, tensors as a list."""

    def __init__(self) -> None:
        self.tensors: List[Any] = []
        self._containers: List[Tuple[Any, Any]] = []
        # Whether all containers are those of a state of torch's usual form.
        self.flat = True
        self._tensor: Any = sys.modules["torch"].Tensor

    def add(self, value: Any, depth: int = 0) -> None:
        """Notes a container or tensor, and what is in it; 0.2 µs each."""
        if isinstance(value, self._tensor):
            self.tensors.append(value)
            return
        if isinstance(value, dict):
            self._containers.append((value, dict(value)))
            value = value.values()
        elif isinstance(value, list):
            self._containers.append((value, list(value)))
        elif not isinstance(value, tuple):
            return
        if depth > FLAT_DEPTH and value:
            self.flat = False
        if depth < MAX_DEPTH:
            for item in value:
                if type(item) not in _NUMBERS:  # they are in the shallow copy
                    self.add(item, depth + 1)

    def put_back(self) -> None:
        """Gives the containers what they held; the tensors' values are somebody else's matter."""
        for container, held in self._containers:
            if isinstance(container, dict):
                if container.keys() != held.keys():
                    container.clear()
                container.update(held)
            else:
                container[:] = held


class Objects:
    """Schedulers and gradient scalers: always kept, they are small."""

    def __init__(self) -> None:
        self._references: List[Any] = []
        self._copies = Copies()
        self._kept: Optional[Kept] = None

    def watch(self, things: List[Any]) -> None:
        """Keeps these from now on as well."""
        self._references = [known for known in self._references if known() is not None]
        known = {id(reference()) for reference in self._references}
        self._references += [weakref.ref(thing) for thing in things if id(thing) not in known]

    def __bool__(self) -> bool:
        return any(reference() is not None for reference in self._references)

    def keep(self) -> None:
        """Keeps what there is now: 1-2 µs each."""
        self._kept = None
        if not self._references:
            return
        kept = Kept()
        for reference in self._references:
            thing = reference()
            if thing is not None:
                kept.add(vars(thing))
        self._copies.take(kept.tensors)
        self._kept = kept

    def put_back(self) -> None:
        """Gives them back what they held."""
        if self._kept is not None:
            self._kept.put_back()
            self._copies.put_back()


class Weights:
    """The weights and state of one optimizer. The optimizer itself is held weakly."""

    def __init__(self, pace: Pace, optimizer: Any, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self.reference = weakref.ref(optimizer, self._died)
        self.name = type(optimizer).__name__
        # Set when its step began in this iteration.
        self.stepped = False
        self._copying = Allowance(pace)
        self._noting = Allowance(pace)
        self._copies = Copies()
        self._kept: Optional[Kept] = None
        self._copied = False
        # Of all tensors kept, or of the weights alone; empty where values are copied.
        self._versions: List[int] = []
        self._had_state = False
        self._step: Any = None
        self._stock = False
        self._pattern = Pattern()
        # The number of steps before this iteration, where nothing was kept but the pattern.
        self._steps_before: Optional[int] = None
        # Whether the next iteration may do without a look.
        self.is_regular = False
        # What `_kept` was made of; empty where it has to be made each time.
        self._signature: List[int] = []

    def parameters(self) -> List[Any]:
        """Those of the optimizer, in its order; none when it has died."""
        optimizer = self.reference()
        groups = [] if optimizer is None else optimizer.param_groups
        return [parameter for group in groups for parameter in group["params"]]

    def keep(self, parameters: List[Any], steps: int) -> None:
        """Keeps what there is now; `parameters` as `parameters()` gives them, after so many steps
        (-1: not counted)."""
        optimizer = self.reference()
        if optimizer is None:
            return
        self.stepped = self._copied = self.is_regular = False
        self._steps_before = None
        self._versions = []
        self._had_state = bool(optimizer.state)
        step = vars(optimizer).get("step") or type(optimizer).step
        if step is not self._step:
            self._step, self._stock = step, _is_stock(optimizer, step)
        stock = self._stock and not _has_hooks(optimizer)
        tiny = (0, 0) if stock else (FOREIGN_NS, FOREIGN_SHARE)
        if self._copying.grants(*tiny) and self._copying.paid(self._copy, optimizer):
            return
        learns = stock and steps >= 0 and self._pattern.looks < LEARNING_LOOKS
        if learns or self._noting.grants(NOTING_NS, NOTING_SHARE):
            self._noting.paid(self._note, optimizer)
            if stock and steps >= 0 and self._kept is not None:
                self._pattern.look(self._kept.tensors, steps)
                self.is_regular = self._pattern.is_known and self._kept.flat
            return
        self._kept = kept = Kept()
        self._signature = []
        for group in optimizer.param_groups:
            kept.add(group, MAX_DEPTH)  # the numbers in it alone
        self._versions = [parameter._version for parameter in parameters]

    def follow(self, steps: int) -> None:
        """Keeps nothing: so many steps were taken, and `is_regular` says what that means."""
        self.stepped = self._copied = False
        self._steps_before = steps

    def _copy(self, optimizer: Any) -> bool:
        self._copied = self._copies.take(self._describe(optimizer).tensors)
        return self._copied

    def _note(self, optimizer: Any) -> bool:
        self._versions = [tensor._version for tensor in self._describe(optimizer).tensors]
        return True

    def _describe(self, optimizer: Any) -> Kept:
        """What there is to keep: as a rule the same objects as in the iteration before."""
        signature: List[int] = []
        if self._stock:
            for group in optimizer.param_groups:
                signature.extend(map(id, group.values()))
                signature.extend(map(id, group["params"]))
            states = optimizer.state.values()
            signature.extend(map(id, states))
            signature.extend(map(id, chain.from_iterable(map(dict.values, states))))
            if signature == self._signature and self._kept is not None:
                return self._kept
        self._kept = kept = Kept()
        if self._stock:
            for group in optimizer.param_groups:
                kept.add(group, FLAT_DEPTH - 2)
            kept.add(optimizer.state)
        else:
            kept.add(vars(optimizer))
        self._signature = signature if kept.flat else []
        return kept

    def check(self) -> None:
        """Raises Refused where `put_back` could not be exact."""
        optimizer = self.reference()
        if self._kept is None or self._copied or optimizer is None:
            return
        if self._steps_before is not None:
            tensors = self._describe(optimizer).tensors
            changed = self._pattern.changed(tensors, self._steps_before)
        else:
            tensors = self._kept.tensors or self.parameters()
            versions = zip(self._versions, tensors)
            changed = sum(before != tensor._version for before, tensor in versions)
        if changed:
            raise Refused(
                f"{changed} of {len(tensors)} weights and states of {self.name} were changed in "
                "this iteration, and copies of them would have cost more than the snapshot budget"
            )
        if self.stepped and self._had_state and not self._kept.tensors:
            raise Refused(
                f"the step of {self.name} had begun, and to keep track of its state would have "
                "cost more than the snapshot budget"
            )

    def put_back(self) -> None:
        """Gives weights and state the values they had; state that was made since is gone."""
        optimizer = self.reference()
        if self._kept is None or optimizer is None or self._steps_before is not None:
            return
        self._pattern.forget()
        self.is_regular = False
        self._kept.put_back()
        if self._copied:
            self._copies.put_back()
        elif not self._had_state:
            optimizer.state.clear()

    def _died(self, reference: Any) -> None:
        self._kept = None
        self._copies.drop()
        self._pattern.forget()
        self._on_death()


def _has_hooks(optimizer: Any) -> bool:
    """Whether the job's own code runs before or after the step."""
    before = getattr(optimizer, "_optimizer_step_pre_hooks", None)
    return bool(before or getattr(optimizer, "_optimizer_step_post_hooks", None))


def _is_stock(optimizer: Any, step: Any) -> bool:
    """Whether class and `step` are torch's own, the step neither replaced nor wrapped by the job:
    then nothing hides in attributes, and nothing raises half-way."""
    step = getattr(step, "__func__", step)
    while hasattr(step, "__wrapped__"):
        step = step.__wrapped__
    modules = (type(optimizer).__module__, str(getattr(step, "__module__", "")))
    return all(module.startswith("torch.") for module in modules)
