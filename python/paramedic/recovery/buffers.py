"""Tensors that a forward pass changes: running statistics, counters, power iterations, queues.

Which of a model's buffers these are is seen in the first iterations: what ever changes between
marks is copied at each mark from then on, before the forward pass; the others are only watched.
Weights that no optimizer owns (the moving average of a model, or all, where the job updates them by
hand) are treated alike.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Set, Tuple

from paramedic.recovery.crash import Refused
from paramedic.recovery.pace import Allowance, Pace
from paramedic.recovery.tensors import Copies, differs, sample

MAX_MODULES = 20_000
# BatchNorm's kernels change these without a trace in their versions.
_ALWAYS = ("running_mean", "running_var", "num_batches_tracked")


class _Slot:
    """A place in a module that holds a tensor; module and tensor are held weakly."""

    __slots__ = ("changes", "module", "name", "sample", "table", "tensor", "version")
    tensor: "weakref.ref[Any]"
    version: int

    def __init__(self, module: "weakref.ref[Any]", table: str, name: str) -> None:
        self.module = module
        self.table = table  # "_buffers" or "_parameters"
        self.name = name
        self.changes = name in _ALWAYS
        self.see(self.values()[name])

    def values(self) -> Dict[str, Any]:
        """The module's dict that holds the tensor; empty when the module has died."""
        module = self.module()
        values: Dict[str, Any] = {} if module is None else getattr(module, self.table)
        return values

    def see(self, tensor: Any) -> None:
        """What is there now counts as seen."""
        self.tensor = weakref.ref(tensor)
        self.version = tensor._version
        self.sample = sample(tensor)

    def is_as_seen(self) -> bool:
        """Whether the same tensor is there with the same values, as far as the sample tells."""
        tensor: Any = self.values().get(self.name)
        if tensor is None:
            return True
        same = tensor._version == self.version and self.tensor() is tensor
        return same and not differs(sample(tensor), self.sample)


class Buffers:
    """The buffers of all models found, at the start of the iteration."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._allowance = Allowance(pace)
        self._copies = Copies()
        self._changing: List[_Slot] = []
        self._still: List[_Slot] = []
        self._modules: Dict[int, "weakref.ref[Any]"] = {}
        # Where the changing ones lie, and what lay there at the mark.
        self._places: List[Tuple[Dict[str, Any], str]] = []
        self._placed: List[_Slot] = []
        self._kept: List[Any] = []
        self._busy = self._buried = False
        self._statistics = False
        self._copied = True
        # The mark at which it is next to be seen what changes, by `sort`.
        self.sort_at = 0
        # Called when a module has died.
        self.on_death: Callable[[], None] = lambda: None

    def watch(self, models: List[Any], owned: Set[int]) -> None:
        """Takes in new modules; `owned` are the ids of the weights that optimizers own."""
        self._busy = True
        self._still = [slot for slot in self._still if id(slot.tensor()) not in owned]
        self._changing = [slot for slot in self._changing if id(slot.tensor()) not in owned]
        for model in models:
            for module in model.modules():
                known = self._modules.get(id(module))
                if known is not None and known() is module or len(self._modules) >= MAX_MODULES:
                    continue
                reference = weakref.ref(module, self._died)
                self._modules[id(module)] = reference
                for table in ("_buffers", "_parameters"):
                    for name, tensor in getattr(module, table).items():
                        if tensor is not None and id(tensor) not in owned:
                            self._changing.append(_Slot(reference, table, name))
        self._place()
        # Everything is copied for two marks; then it is known what changes.
        self.sort_at = self._pace.marks + 2
        self._busy = False

    def sort(self) -> None:
        """Looks which have changed since they were last looked at; rarer and rarer."""
        self._busy = True
        self._sort()
        self._busy = False
        if self._buried:
            self._bury()

    def keep(self) -> None:
        """Keeps what changes, as it is now: 0.5 µs a tensor."""
        # A module may die at any allocation: not while lists are made that belong together.
        self._busy = True
        if self._places:
            self._take()
        self._busy = False
        if self._buried:
            self._bury()

    def _take(self) -> None:
        self._kept = kept = [values[name] for values, name in self._places]
        # Running statistics are always copied: without them no iteration could be repeated.
        if self._statistics:
            self._copied = self._copies.take(kept)
        else:
            self._copied = self._allowance.grants() and self._allowance.paid(
                self._copies.take, kept
            )

    def _place(self) -> None:
        alive = [slot for slot in self._changing if slot.values().get(slot.name) is not None]
        self._placed = alive
        self._places = [(slot.values(), slot.name) for slot in alive]
        self._statistics = all(slot.name in _ALWAYS for slot in alive)
        self._kept = []
        self._copied = True

    def _sort(self) -> None:
        self.sort_at = 2 * self._pace.marks
        shadows = {id(tensor): shadow for tensor, shadow in self._copies.values()}
        slots = [slot for slot in self._changing + self._still if slot.module() is not None]
        for slot in slots:
            tensor: Any = slot.values().get(slot.name)
            if tensor is None:
                continue
            shadow = shadows.get(id(tensor))
            changed = not slot.is_as_seen() or (shadow is not None and differs(tensor, shadow))
            slot.changes = slot.changes or changed
            slot.see(tensor)
        self._changing = [slot for slot in slots if slot.changes]
        self._still = [slot for slot in slots if not slot.changes]
        self._place()

    def changing(self) -> List[Any]:
        """The tensors that forward passes change."""
        return [values[name] for values, name in self._places]

    def check(self) -> None:
        """Raises Refused where `put_back` could not be exact."""
        for slot in self._still:
            if not slot.is_as_seen():
                module = type(slot.module()).__name__
                raise Refused(
                    f"{slot.name} of {module} was changed for the first time in a long while, "
                    "and no copy of it was kept"
                )
        if not self._copied:
            names = sorted({name for _, name in self._places})
            raise Refused(
                f"each iteration changes {', '.join(names[:3])}, and to copy that would have cost "
                "more than the snapshot budget"
            )

    def put_back(self) -> None:
        """Gives every place the tensor and the values it had."""
        for (values, name), tensor in zip(self._places, self._kept):
            values[name] = tensor
        self._copies.put_back()

    def knows(self, module: Any) -> bool:
        """Whether `on_death` will be called when it dies."""
        known = self._modules.get(id(module))
        return known is not None and known() is module

    def _died(self, reference: Any) -> None:
        self._buried = True
        self.on_death()
        if not self._busy:
            self._bury()

    def _bury(self) -> None:
        """Lets go of modules that have died; what is kept of the others stays."""
        self._buried = False
        self._modules = {key: known for key, known in self._modules.items() if known() is not None}
        self._changing = [slot for slot in self._changing if slot.module() is not None]
        self._still = [slot for slot in self._still if slot.module() is not None]
        left = [index for index, slot in enumerate(self._placed) if slot.module() is not None]
        if len(left) < len(self._placed):
            self._placed = [self._placed[index] for index in left]
            self._places = [self._places[index] for index in left]
            if self._kept:
                self._kept = [self._kept[index] for index in left]
                self._copies.select(left)
