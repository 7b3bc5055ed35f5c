"""Fingerprints of weights and gradients at the same steps on all ranks, to be compared outside.

Taken around the update by an optimizer: the weights and gradients that it begins with, and the
weights it leaves; buffers and the optimizer's state, folded into one number each, at powers of two.
Ranks that are replicas have the same ones. Nothing is sent to the other ranks, nor asked of them:
which steps are looked at follows from the step's number, and where that is too much for the budget
a rank keeps to a coarser part of the same grid, so that comparable steps remain.
"""

import sys
from time import perf_counter_ns
from typing import Any, Dict, List, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.ranks import rank_ranges
from paramedic.adapters.common.source import Source
from paramedic.adapters.torch.fingerprints import Fingerprints
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.rank_branches import RankBranches
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper
from paramedic.adapters.torch.tensors import Definitions

# Up to this step each one is looked at; after it this many in each doubling, until every
# MAX_INTERVALth is left.
DENSE_STEPS = 32
MAX_INTERVAL = 256
MAX_COARSE = 1 << 14
# The part of the overhead budget that fingerprints may use.
BUDGET_SHARE = 0.25
# Numbers in an event; of a model with more tensors neighbours share one.
MAX_NUMBERS = 256
MAX_OPTIMIZERS = 16

_MASK = (1 << 64) - 1


def base_interval(step: int) -> int:
    """Every how many steps the grid has a point around `step`: a power of two."""
    # The smallest power of two of which DENSE_STEPS are more than half the steps so far.
    return min(MAX_INTERVAL, 1 << (step // 2 // DENSE_STEPS).bit_length())


def on_grid(step: int, coarse: int) -> bool:
    """Whether `step` is looked at; `coarse` is the smallest interval that the budget allows."""
    if step & (step - 1) == 0:
        return True
    return step % max(coarse, base_interval(step)) == 0


def next_on_grid(step: int, coarse: int) -> int:
    """The first step of the grid from `step` on."""
    while not on_grid(step, coarse):
        interval = max(coarse, base_interval(step))
        power = 1 << step.bit_length()
        step = min((step // interval + 1) * interval, power)
    return step


def fold(numbers: List[int]) -> int:
    """One number for several, by their order; 0 when all are 0."""
    folded = 0
    for number in numbers:
        folded = ((folded + number) * 0xFF51AFD7ED558CCD) & _MASK
        folded ^= folded >> 33
    return folded


class _Watched:
    """What is kept of an optimizer."""

    def __init__(self, session: Session, definitions: Definitions) -> None:
        self.names: Optional[List[str]] = None
        self.group_size = 1
        self.weights = Fingerprints(session, definitions)
        self.gradients = Fingerprints(session, definitions)
        self.state = Fingerprints(session, definitions)
        self.buffers = Fingerprints(session, definitions)
        self.pending: Dict[str, Any] = {}


class Replicas:
    """Takes the fingerprints of a rank."""

    def __init__(
        self,
        session: Session,
        source: Source,
        models: Models,
        origins: Origins,
        definitions: Definitions,
    ) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._definitions = definitions
        self._tap = session.tap("fingerprints")
        self._branches = RankBranches(session, source)
        self._watched: Dict[str, _Watched] = {}
        self._coarse = 1
        self._spent_ns = 0
        # When the grid was last met, and at which step.
        self._last: Tuple[int, int] = (0, -1)
        self._share = BUDGET_SHARE * _probe.overhead_budget()
        session.on_fork.append(self._reset)

    def next_wanted(self, step: int) -> int:
        """The first step from `step` on that this tap has to see."""
        return next_on_grid(step, self._coarse) if self._wanted() else sys.maxsize

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Takes what the update begins with."""
        if not self._wanted() or not on_grid(self._session.step, self._coarse):
            return
        start = perf_counter_ns()
        try:
            self._begin(stepper, optimizer)
        except Exception as error:
            self._tap.fail(error)
        self._spent_ns += perf_counter_ns() - start

    def after_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Takes the weights that the update leaves, and tells all of it."""
        watched = self._watched.get(stepper.label)
        if watched is None or not watched.pending:
            return
        start = perf_counter_ns()
        told, watched.pending = watched.pending, {}
        try:
            told["after"] = self._text(watched, watched.weights.of(_parameters(optimizer)))
            self._session.event("fingerprints", told)
        except Exception as error:
            self._tap.fail(error)
        self._spent_ns += perf_counter_ns() - start
        self._follow_cost(perf_counter_ns())

    def _wanted(self) -> bool:
        return self._tap.on and self._session.world_size > 1

    def _begin(self, stepper: Stepper, optimizer: Any) -> None:
        watched = self._watched.get(stepper.label)
        if watched is None:
            if len(self._watched) >= MAX_OPTIMIZERS:
                return
            watched = _Watched(self._session, self._definitions)
            self._watched[stepper.label] = watched
        parameters = _parameters(optimizer)
        if watched.names is not stepper.names or len(parameters) != len(stepper.names):
            watched.names = stepper.names
            self._tell_tensors(watched, stepper, parameters)
        if len(parameters) != len(stepper.names):
            return
        step = self._session.step
        gradients = [parameter.grad for parameter in parameters]
        told = {
            "optimizer": stepper.label,
            "count": stepper.steps,
            "before": self._text(watched, watched.weights.of(parameters)),
            "gradients": self._text(watched, watched.gradients.of(gradients)),
        }
        if step & (step - 1) == 0:
            told["state"] = _hex([fold(watched.state.of(_state(optimizer)))])
            told["buffers"] = _hex([fold(watched.buffers.of(self._buffers()))])
        watched.pending = told

    def _tell_tensors(self, watched: _Watched, stepper: Stepper, parameters: List[Any]) -> None:
        """Tells which tensor is which number, and what is known of how ranks belong together."""
        torch = self._session.torch
        if any(not parameter.is_cpu for parameter in parameters):
            self._session.not_captured(
                "fingerprints of tensors on a device", "they are taken in the memory of the host"
            )
        watched.group_size = size = -(-len(parameters) // MAX_NUMBERS) or 1
        wrapped, ranks, averaging = self._wrapped_parameters()
        names, elements, flags = [], [], []
        for at in range(0, len(parameters), size):
            part = parameters[at : at + size]
            last = "" if len(part) == 1 else f" … {stepper.names[at + len(part) - 1]}"
            names.append(stepper.names[at] + last)
            elements.append(sum(int(parameter.numel()) for parameter in part))
            kinds = {_flag(parameter, wrapped, torch) for parameter in part}
            flags.append(kinds.pop() if len(kinds) == 1 else "s" if "s" in kinds else ".")
        self._session.event(
            "replica_tensors",
            {
                "optimizer": stepper.label,
                "world_size": self._session.world_size,
                "names": names,
                "elements": elements,
                "flags": "".join(flags),
                "ranks": rank_ranges(ranks),
                "averaging": averaging or _averages_models(stepper),
            },
        )
        self._branches.tell(sys._getframe(1))

    def _wrapped_parameters(self) -> Tuple[Dict[int, str], List[int], bool]:
        """Flags of parameters by id: d inside DistributedDataParallel, s in a sharded module; the
        ranks of the former's group; and whether those need not be in step: with `join()` some take
        more steps, and a hook of local SGD reduces less than the whole group."""
        flags: Dict[int, str] = {}
        ranks: List[int] = []
        loose = False
        for module in self._origins.alive(self._session.torch.nn.Module):
            kind = type(module).__name__
            if kind == "FullyShardedDataParallel":
                flags.update((id(parameter), "s") for parameter in module.parameters())
            elif kind == "DistributedDataParallel":
                ignored = set(getattr(module, "parameters_to_ignore", ()))
                for name, parameter in module.module.named_parameters():
                    if name not in ignored and flags.get(id(parameter)) != "s":
                        flags[id(parameter)] = "d"
                distributed: Any = sys.modules["torch.distributed"]
                ranks = list(distributed.get_process_group_ranks(module.process_group))
                joins = getattr(getattr(module, "_join_config", None), "enable", False)
                hooks = str(getattr(module, "_comm_hooks", ""))
                loose = loose or bool(joins) or "SGD" in hooks.replace("PowerSGD", "")
        return flags, ranks, loose

    def _buffers(self) -> List[Any]:
        roots = [root.reference() for root in self._models.roots]
        return [buffer for root in roots if root is not None for buffer in root.buffers()]

    def _text(self, watched: _Watched, numbers: List[int]) -> str:
        size = watched.group_size
        if size > 1:
            numbers = [fold(numbers[at : at + size]) for at in range(0, len(numbers), size)]
        return _hex(numbers)

    def _follow_cost(self, now: int) -> None:
        """Sets the interval by what a look has cost and how long steps take."""
        last_ns, last_step = self._last
        step, spent = self._session.step, self._spent_ns
        if step == last_step:  # another optimizer of the same step
            return
        self._last, self._spent_ns = (now, step), 0
        if last_step < 0 or self._share <= 0:
            return
        step_ns = max(1.0, (now - last_ns - spent) / (step - last_step))
        coarse = 1
        while coarse < MAX_COARSE and spent > coarse * step_ns * self._share:
            coarse *= 2
        self._coarse = coarse

    def _reset(self) -> None:
        self._watched.clear()
        self._last = (0, -1)
        self._spent_ns = 0


def _parameters(optimizer: Any) -> List[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _state(optimizer: Any) -> List[Any]:
    """The tensors of an optimizer's state, in the order of its parameters."""
    found = []
    for parameter in _parameters(optimizer):
        # Not by its key: a look at what is not there would add it.
        state = optimizer.state.get(parameter, {})
        for name in sorted(state, key=str):
            value = state[name]
            if hasattr(value, "data_ptr") and hasattr(value, "stride"):
                found.append(value)
    return found


def _flag(parameter: Any, wrapped: Dict[int, str], torch: Any) -> str:
    """d: kept equal by DistributedDataParallel, s: a shard, r: by hand or not at all."""
    if type(parameter) not in (torch.Tensor, torch.nn.Parameter):
        placements = getattr(parameter, "placements", None)
        if placements is None or not all(p.is_replicate() for p in placements):
            return "s"
    return wrapped.get(id(parameter), ".")


def _averages_models(stepper: Stepper) -> bool:
    """Whether models are averaged now and then by torch's own means: they differ in between."""
    name = "torch.distributed.algorithms.model_averaging.averagers"
    return name in sys.modules or type(stepper.reference()).__name__ == "PostLocalSGDOptimizer"


def _hex(numbers: List[int]) -> str:
    return "".join([f"{number:016x}" for number in numbers])
