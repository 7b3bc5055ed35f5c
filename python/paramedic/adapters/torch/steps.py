"""Steps: an optimizer step is a step of the run; with several optimizers one of each.

Global hooks before and after `Optimizer.step` are the main tap. Gradients and weights are taken
before the update: then gradients are accumulated and unscaled. A step that runs a closure (LBFGS)
makes its gradients inside, so there they are taken after it.
"""

import sys
import weakref
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from paramedic import _probe
from paramedic.adapters.common.source import Source, place
from paramedic.adapters.torch.device import DeviceReader
from paramedic.adapters.torch.hooks import GlobalHook
from paramedic.adapters.torch.model_facts import ModelFacts
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.quick import Member, Quick, Taking
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.tensors import Definitions, TensorBatch

# An optimizer that did not step for so many steps is not waited for at the end of one.
FORGET_AFTER_STEPS = 20
OVERHEAD_EVERY = 100


class Stepper:
    """What is kept of an optimizer. The optimizer itself is held weakly."""

    def __init__(self, session: Session, definitions: Definitions, optimizer: Any, label: str):
        self.reference = weakref.ref(optimizer)
        self.label = label
        self.made_at_step = session.step
        self.last_step = -1
        self.steps = 0
        self.told_fit = -1
        self.place: Tuple[str, int, str] = ("", 0, "")
        self.rates: List[Any] = []
        self.rate_numbers: List[int] = []
        self.parameter_ids: List[int] = []
        self.names: List[str] = []
        self.start_ns = 0
        self.backward_before_ns = 0
        self.gradients = TensorBatch(session, definitions, _probe.KIND_GRADIENT)
        self.weights = TensorBatch(session, definitions, _probe.KIND_WEIGHT)


class Steps:
    """Counts steps, and captures at them what is due."""

    def __init__(
        self,
        session: Session,
        source: Source,
        definitions: Definitions,
        models: Models,
        facts: ModelFacts,
        phases: Phases,
        reader: DeviceReader,
        quick: Quick,
    ) -> None:
        self._quick = quick
        self._session = session
        self._source = source
        self._definitions = definitions
        self._models = models
        self._facts = facts
        self._phases = phases
        self._reader = reader
        self._tap = session.tap("optimizer steps")
        self._steppers: Dict[int, Stepper] = {}
        self._labels: Dict[str, int] = {}
        # Whether there may be an optimizer that has never stepped.
        self._waiting = False
        # Optimizers, and lines of backward, that this step has seen.
        self._stepped: Set[int] = set()
        self._lines: Set[str] = set()
        self._fit_seen = -1
        # When step_done was last called, and up to when our own time is accounted for.
        self._done_ns = 0
        self._charged_ns = 0
        self._overhead_step = OVERHEAD_EVERY - 1
        self.on_step_end: List[Callable[[], None]] = []
        self.before_update: List[Callable[[Stepper, Any], None]] = []
        self.after_update: List[Callable[[Stepper, Any], None]] = []
        self.backward_ns: Callable[[], int] = lambda: 0
        # The gradient to look at in a stretch; and whether somebody wants to see the next backward.
        self.sentinel: Callable[[Stepper, Any], Optional[Any]] = lambda stepper, optimizer: None
        self.is_looking: Callable[[], bool] = lambda: False
        optimizer_module: Any = sys.modules["torch.optim.optimizer"]
        self._pre = GlobalHook(optimizer_module._global_optimizer_pre_hooks, self._before)
        self._post = GlobalHook(optimizer_module._global_optimizer_post_hooks, self._after)
        quick.pre_hook, quick.post_hook = self._pre, self._post
        quick.usual_step = self._before
        quick.after_stretch = self._count_stretch
        quick.on_due = self._due_in_stretch
        # The optimizers of the stretch.
        self._stretched: List[Stepper] = []
        models.optimizers = self.optimizers
        models.on_found.append(self._models_found)
        session.on_fork.append(self._reset)

    def watch(self) -> None:
        """Puts the hooks in place."""
        self._pre.arm()
        self._post.arm()

    def optimizers(self) -> List[Any]:
        """Those alive, in the order of their construction."""
        references = [stepper.reference() for stepper in self._steppers.values()]
        return [optimizer for optimizer in references if optimizer is not None]

    def steppers(self) -> List[Stepper]:
        """What is kept of those alive."""
        return [s for s in self._steppers.values() if s.reference() is not None]

    def unstepped(self) -> List[Stepper]:
        """Those that have never stepped; answered at once when all have."""
        if not self._waiting:
            return []
        found = [s for s in self._steppers.values() if not s.steps and s.reference() is not None]
        self._waiting = bool(found)
        return found

    def new_optimizer(self, optimizer: Any) -> None:
        """An optimizer was constructed: its model may be one that is not known."""
        self._quick.leave()
        self._stepper(optimizer)
        self._models.arm()

    def before_backward(self, line: str) -> None:
        """A line that calls backward once more after an update begins a new step."""
        if self._stepped and line in self._lines:
            self._end_step(perf_counter_ns())
        self._lines.add(line)

    def _stepper(self, optimizer: Any) -> Stepper:
        stepper = self._steppers.get(id(optimizer))
        if stepper is None or stepper.reference() is not optimizer:
            self._drop_dead()
            name = type(optimizer).__name__
            count = self._labels[name] = self._labels.get(name, 0) + 1
            label = name if count == 1 else f"{name}#{count}"
            stepper = Stepper(self._session, self._definitions, optimizer, label)
            self._waiting = True
            self._steppers[id(optimizer)] = stepper
        return stepper

    def _drop_dead(self) -> None:
        dead = [key for key, stepper in self._steppers.items() if stepper.reference() is None]
        for key in dead:
            del self._steppers[key]
            self._stepped.discard(key)
        if not self._steppers:
            # The next model's optimizer is "Adam" again.
            self._labels.clear()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._tap.on:
            return
        self._charged_ns = start = perf_counter_ns()
        try:
            if not self._session.active():
                self._session.adopt_thread()
                return
            self._quick.leave()
            self._post.arm()
            self._begin_update(optimizer, args, kwargs, start)
        except Exception as error:
            self._tap.fail(error)
        self._charge()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._quick.on or not self._tap.on:
            return
        self._charged_ns = start = perf_counter_ns()
        try:
            if self._session.active():
                self._finish_update(optimizer, args, kwargs, start)
        except Exception as error:
            self._tap.fail(error)
        self._charge()

    def _charge(self) -> int:
        """Accounts for what we took since the hook began, or since the last call."""
        now = perf_counter_ns()
        self._session.spent_ns += now - self._charged_ns
        self._charged_ns = now
        return now

    def _begin_update(self, optimizer: Any, args: Any, kwargs: Any, now: int) -> None:
        stepper = self._stepper(optimizer)
        if id(optimizer) in self._stepped:
            self._end_step(now)
        session = self._session
        first = not stepper.steps
        if first or (session.due & (_probe.DUE_GRADIENT | _probe.DUE_WEIGHT)):
            if first:
                stepper.place = place(self._source.frame(sys._getframe(1)))
            self._learn(stepper, optimizer)
        self._note_rates(stepper, optimizer)
        for callback in self.before_update:
            callback(stepper, optimizer)
        if not _has_closure(args, kwargs):
            self._capture(stepper, optimizer)
        stepper.backward_before_ns = self.backward_ns()
        stepper.start_ns = perf_counter_ns()

    def _finish_update(self, optimizer: Any, args: Any, kwargs: Any, now: int) -> None:
        stepper, session = self._stepper(optimizer), self._session
        nested = self.backward_ns() - stepper.backward_before_ns
        self._phases.end_optimizer(stepper.start_ns, now, nested)
        if _has_closure(args, kwargs):
            self._capture(stepper, optimizer)
        stepper.steps += 1
        stepper.last_step = session.step
        self._stepped.add(id(optimizer))
        for callback in self.after_update:
            callback(stepper, optimizer)
        if self._all_have_stepped():
            self._end_step(now)
        self._begin_stretch(stepper)

    def _all_have_stepped(self) -> bool:
        """Whether no optimizer is left that is likely to step before one steps again."""
        if len(self._stepped) == len(self._steppers):
            return True
        oldest = self._session.step - FORGET_AFTER_STEPS
        for key, stepper in self._steppers.items():
            if key in self._stepped or stepper.reference() is None:
                continue
            if max(stepper.last_step, stepper.made_at_step) >= oldest:
                return False
        return True

    def _learn(self, stepper: Stepper, optimizer: Any) -> None:
        """Finds names for the optimizer's parameters, when they are not those of last time."""
        groups = optimizer.param_groups
        ids = [id(parameter) for group in groups for parameter in group["params"]]
        if ids == stepper.parameter_ids and stepper.told_fit == self._session.fit:
            return
        parameters = [parameter for group in groups for parameter in group["params"]]
        if not all(map(self._models.knows, parameters)):
            self._models.rename_new()
            self._models.find(sys._getframe(1))
            if not all(map(self._models.knows, parameters)):
                # Seen again at the next forward, unless it was one without modules.
                self._models.arm()
            else:
                self._models.disarm()
        else:
            self._models.disarm()
        if self._session.fit < 0:
            # Parameters that no module owns are a model too.
            self._facts.begin_fit([], self.optimizers())
        self._facts.tell_models()
        stepper.parameter_ids = ids
        stepper.names = [self._models.parameter(parameter) for parameter in parameters]
        stepper.told_fit = self._session.fit
        self._facts.tell_optimizer(stepper.label, optimizer, stepper.place)

    def _models_found(self, modules: List[Any]) -> None:
        """Begins a new fit when what was trained before is no longer trained."""
        if self._session.fit < 0 or self._replaced():
            self._models.forget()
            self._facts.begin_fit(modules, self.optimizers())

    def _replaced(self) -> bool:
        steppers = [s for s in self._steppers.values() if s.reference() is not None]
        newest = max((s.made_at_step for s in steppers if not s.steps), default=None)
        if newest is None:
            return False
        if all(root.reference() is None for root in self._models.roots):
            return True
        return all(s.last_step < newest for s in steppers if s.steps)

    def _note_rates(self, stepper: Stepper, optimizer: Any) -> None:
        groups, rates = optimizer.param_groups, stepper.rates
        if len(rates) != len(groups):
            rates[:] = [None] * len(groups)
            stepper.rate_numbers = []
        for index, group in enumerate(groups):
            rate = group.get("lr")
            if rate is rates[index] or rate == rates[index]:
                continue
            rates[index] = rate
            if not isinstance(rate, (int, float)):
                # A tensor: what it holds now is another number later.
                rates[index] = None
                if rate is None or not rate.is_cpu:
                    continue
            assert self._session.probe is not None
            self._session.probe.scalar(self._session.step, _rate_name(stepper, index), float(rate))

    def _capture(self, stepper: Stepper, optimizer: Any) -> None:
        due = self._session.due
        if not due & (_probe.DUE_GRADIENT | _probe.DUE_WEIGHT):
            return
        if _has_changed(stepper, optimizer):
            self._learn(stepper, optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if due & _probe.DUE_GRADIENT:
            scale = getattr(optimizer, "grad_scale", None)
            divisor = float(scale) if scale is not None and scale.is_cpu else 1.0
            gradients = [parameter.grad for parameter in parameters]
            elsewhere = stepper.gradients.capture(stepper.names, gradients, divisor)
            if elsewhere:
                self._reader.rms(elsewhere, self._session.step, scale)
        if due & _probe.DUE_WEIGHT:
            elsewhere = stepper.weights.capture(stepper.names, parameters, 1.0)
            if elsewhere:
                self._session.not_captured("weights on a device", "only gradients are")

    def _end_step(self, now: int) -> None:
        session, probe, phases = self._session, self._session.probe, self._phases
        if probe is None:
            return
        phases.report(now)
        if session.step >= self._overhead_step:
            self._overhead_step = session.step + OVERHEAD_EVERY
            probe.scalar(session.step, "overhead_percent", probe.overhead_percent())
        for callback in self.on_step_end:
            callback()
        self._stepped.clear()
        self._lines.clear()
        due = session.due
        charged = self._charge()
        if self._fit_seen != session.fit:
            # What finding and telling a model costs is paid once: the budget is for what recurs.
            self._fit_seen = session.fit
            self._quick.forget_lines()
            probe.scalar(session.step, "attach_ms", session.spent_ns / 1e6)
            session.spent_ns = 0
        if self._done_ns:
            probe.step_done(session.step, charged - self._done_ns, max(0, session.spent_ns), due)
        self._done_ns = charged
        session.spent_ns = 0
        session.step += 1
        session.open_step()

    def _begin_stretch(self, stepper: Stepper) -> None:
        """Goes the short way from here on, when nothing is due and all is known of the optimizer
        that has just stepped."""
        if self._session.due or self.is_looking() or not self._goes_short(stepper):
            return
        self._stretched = self.steppers()
        members = [self._member(stepper) for stepper in self._stretched]
        self._quick.begin(members, self._lines, FORGET_AFTER_STEPS, self._done_ns)

    def _goes_short(self, stepper: Stepper) -> bool:
        return stepper.told_fit == self._session.fit and all(
            type(rate) in (float, int) for rate in stepper.rates
        )

    def _member(self, stepper: Stepper) -> Member:
        last_step = max(stepper.last_step, stepper.made_at_step)
        optimizer = stepper.reference()
        is_stepped = id(optimizer) in self._stepped
        if optimizer is None or not self._goes_short(stepper):
            return Member(None, None, [], [], last_step, is_stepped)
        if not stepper.rate_numbers:
            assert self._session.probe is not None
            stepper.rate_numbers = [
                self._session.probe.scalar_id(_rate_name(stepper, index))
                for index in range(len(stepper.rates))
            ]
        parameter = self.sentinel(stepper, optimizer)
        rates, numbers = stepper.rates, stepper.rate_numbers
        return Member(stepper.reference, parameter, rates, numbers, last_step, is_stepped)

    def _count_stretch(self, taking: Taking) -> None:
        self._done_ns = taking.told_ns
        if taking.steps:
            self._lines.clear()
        self._lines.update(taking.lines)
        self._stepped.clear()
        for stepper, taken in zip(self._stretched, taking.members):
            stepper.steps += taken.steps
            if taken.steps:
                stepper.last_step = taken.last_step
            optimizer = stepper.reference()
            if taken.is_stepped and optimizer is not None:
                self._stepped.add(id(optimizer))

    def _due_in_stretch(self) -> None:
        self._charged_ns = perf_counter_ns()
        try:
            self._quick.leave()
            self._session.open_step()
        except Exception as error:
            self._tap.fail(error)
        self._charge()

    def _reset(self) -> None:
        self._stretched = []
        self._steppers.clear()
        self._labels.clear()
        self._stepped.clear()
        self._lines.clear()
        self._fit_seen = -1
        self._done_ns = 0
        self._overhead_step = OVERHEAD_EVERY - 1


def _rate_name(stepper: Stepper, group: int) -> str:
    return f"learning_rate/{stepper.label}/{group}"


def _has_closure(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Whether `step` was given one; args[0] is the optimizer."""
    closure: Optional[Any] = args[1] if len(args) > 1 else kwargs.get("closure")
    return closure is not None


def _has_changed(stepper: Stepper, optimizer: Any) -> bool:
    groups = optimizer.param_groups
    return sum(len(group["params"]) for group in groups) != len(stepper.names)
