"""The adapter for PyTorch (2.0 and newer): attached right after `torch` was first imported.

Each file here is one way to look: `steps` (optimizers), `loss` (backward passes), `names` (models),
`activations`, `functions`, `loader`, `shards`, `phases`, `zero_grad`, `unstepped`, `modes`,
`orphans`, `loss_graph`, `broadcasts`, `looks` (with `labels`, `repeats`, `tables`), `evaluations`,
`nan_origin`, `replicas`. They share a `Session`, and meet here only.
"""

import functools
import os
import sys
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional

from paramedic.adapters.common.facts import Facts
from paramedic.adapters.common.source import Source
from paramedic.adapters.torch.activations import Activations
from paramedic.adapters.torch.broadcasts import Broadcasts
from paramedic.adapters.torch.device import DeviceReader
from paramedic.adapters.torch.distributed import Distributed
from paramedic.adapters.torch.evaluations import Evaluations
from paramedic.adapters.torch.functions import Functions
from paramedic.adapters.torch.labels import Answers, Labels, Scale
from paramedic.adapters.torch.loader import Loaders
from paramedic.adapters.torch.looks import Looks
from paramedic.adapters.torch.loss import Losses
from paramedic.adapters.torch.loss_graph import LossGraph
from paramedic.adapters.torch.memory import Memory
from paramedic.adapters.torch.model_facts import ModelFacts
from paramedic.adapters.torch.modes import Modes
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.nan_origin import NanOrigin
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.orphans import Orphans
from paramedic.adapters.torch.pace import Pace
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.quick import Quick
from paramedic.adapters.torch.repeats import Repeats
from paramedic.adapters.torch.replicas import Replicas
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.shards import Shards
from paramedic.adapters.torch.steps import Steps
from paramedic.adapters.torch.tables import Tables
from paramedic.adapters.torch.tensors import Definitions
from paramedic.adapters.torch.unstepped import Unstepped
from paramedic.adapters.torch.zero_grad import ZeroGrad
from paramedic.recovery import snapshot

_attached: List["Adapter"] = []


def attach(torch: Any) -> "Adapter":
    """Puts the taps in place, once a process; reloading torch changes nothing."""
    if not _attached:
        adapter = Adapter(torch)
        _attached.append(adapter)
        adapter.watch()
        if os.environ.get("PARAMEDIC_ON_CRASH", "fail") != "fail":
            from paramedic.recovery import runtime, samples

            samples.install()
            runtime.tell()
    return _attached[0]


class Adapter:
    """All taps of a process."""

    def __init__(self, torch: Any) -> None:
        self.session = session = Session(torch)
        self.source = source = Source(torch)
        self.origins = Origins(session, source)
        definitions = Definitions(session)
        reader = DeviceReader(session)
        self.models = models = Models(session, source, self.origins)
        self.phases = phases = Phases(session)
        facts = ModelFacts(session, models, self.origins)
        memory = Memory(torch)
        self.quick = quick = Quick(session, phases)
        self.steps = Steps(session, source, definitions, models, facts, phases, reader, quick)
        self.losses = Losses(
            session, source, definitions, phases, facts, models, reader, memory, quick
        )
        self.loaders = Loaders(session, source, phases, facts, quick)
        self.shards = Shards(session, source, self.origins, self.loaders)
        self.pace = Pace(session, source, self.losses, phases)
        self.steps.on_step_end.append(self.loaders.end_step)
        nan_origin = NanOrigin(session, source, models, self.steps, self.loaders, memory)
        self.losses.on_alarm = nan_origin.loss_alarm
        self.steps.before_update.append(nan_origin.before_update)
        self.steps.sentinel = nan_origin.quick_sentinel
        quick.keep_random_state = nan_origin.keep_random_state
        quick.wants_random_state = nan_origin.wants_random_state
        nan_origin.kept_random_state = quick.random_state
        self.replicas = replicas = Replicas(session, source, models, self.origins, definitions)
        self.activations = Activations(session, models, definitions)
        functions = Functions(session, models, self.origins, facts, self.activations)
        self.losses.looks.extend([LossGraph(session, models, self.origins).look, functions.look])
        looks = Looks(session, source, models)
        looks.judges.extend(
            [
                Repeats(session, source, self.loaders, definitions),
                Labels(session, definitions),
                Answers(session),
                Scale(session),
                Tables(session, models),
            ]
        )
        self.losses.looks.extend([looks.look, Broadcasts(session, source).look])
        self.losses.is_looking = looks.is_looking
        quick.next_wanted = lambda step: min(replicas.next_wanted(step), looks.next_wanted(step))
        self.evaluations = Evaluations(session, source, models)
        self.modes = Modes(session, source, models, self.origins)
        orphans = Orphans(session, models, self.origins, self.steps)
        self.steps.before_update.extend(
            [functions.before_update, self.modes.before_update, orphans.before_update]
        )
        self.steps.before_update.extend([looks.before_update, self.evaluations.before_update])
        self.steps.backward_ns = lambda: self.losses.backward_ns
        zero_grad = ZeroGrad(session, models)
        self.losses.before.extend([self.steps.before_backward, zero_grad.before_backward])
        unstepped = Unstepped(session, models, self.origins, self.steps)
        self.losses.after.extend([zero_grad.after_backward, unstepped.after_backward])
        self.steps.after_update.append(unstepped.after_update)
        self.steps.is_looking = lambda: zero_grad.is_looking() or looks.is_looking()
        self.steps.before_update.extend([zero_grad.before_update, replicas.before_update])
        self.steps.after_update.extend([replicas.after_update, zero_grad.after_update])
        self.steps.on_step_end.extend([self.losses.end_step, reader.collect])
        session.on_step_open.append(self.activations.follow_step)
        self.distributed = Distributed(session, source, self.origins, phases)
        self.distributed.groups.on_begin.append(Facts(session, source, lambda: _facts(torch)).tell)

    def watch(self) -> None:
        """Replaces what the taps replace; each part by itself, so that one may fail."""
        torch = self.session.torch
        parts: Dict[str, Callable[[], Any]] = {
            "modules": lambda: self.origins.watch(torch.nn.Module),
            "optimizers": lambda: self.origins.watch(
                torch.optim.Optimizer, self.steps.new_optimizer
            ),
            "loaders": lambda: self.origins.watch(torch.utils.data.DataLoader),
            "quick steps": self.quick.watch,
            "optimizer steps": self.steps.watch,
            "loss": self.losses.watch,
            "data loaders": self.loaders.watch,
            "shards": self.shards.watch,
            "validation": lambda: _wrap_train(self),
            "loaded weights": lambda: _wrap_load(self),
            "checkpoints": lambda: _wrap_save(self),
            "compiled code": lambda: _wrap_compile(self),
            "models": self.models.arm,
            "pace": self.pace.watch,
            "snapshots": lambda: _take_snapshots(self),
            "distributed": self.distributed.watch,
        }
        self.session.put_in_place(parts)

    def compile_used(self) -> None:
        """Code is compiled from here on: hooks on modules would be traced into it, or break it."""
        if not self.session.compiled:
            self.session.compiled = True
            self.models.disarm()
            self.evaluations.stop()
            self.activations.stop("the model is compiled")


def _facts(torch: Any) -> Dict[str, str]:
    """What ranks of one job should have in common; see common/facts.py."""
    cuda = str(torch.version.cuda or "")
    values = {"torch": str(torch.__version__), "cuda": cuda, "seed": str(torch.initial_seed())}
    if cuda and torch.distributed.is_nccl_available():
        values["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return values


def _wrap_train(adapter: Adapter) -> None:
    """Follows `model.eval()` and `model.train()`: between them lies a validation."""
    module_class = adapter.session.torch.nn.Module
    genuine, tap = module_class.train, adapter.session.tap("validation")
    phases, models, session = adapter.phases, adapter.models, adapter.session
    quick, modes, recursion = adapter.quick, adapter.modes, genuine.__code__
    evaluations = adapter.evaluations

    @functools.wraps(genuine)
    def train(self: Any, mode: bool = True) -> Any:
        # For the modules inside of one it is called by itself.
        if sys._getframe(1).f_code is not recursion:
            if mode:
                evaluations.switched_on(self)
            else:
                modes.switched_off(self)
        if tap.on and session.thread:
            try:
                found = models.module(self)
                # A frozen part kept in eval mode is no validation: only whole models count.
                if found is not None and found[1].reference() is self and session.active():
                    quick.leave()
                    session.flush()
                    change = phases.end_validation if mode else phases.begin_validation
                    change(perf_counter_ns())
            except Exception as error:
                tap.fail(error)
        return genuine(self, mode)

    module_class.train = train


def _wrap_load(adapter: Adapter) -> None:
    """Notes which models go on from weights that were trained before."""
    module_class = adapter.session.torch.nn.Module
    genuine, tap = module_class.load_state_dict, adapter.session.tap("loaded weights")
    origins = adapter.origins

    @functools.wraps(genuine)
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tap.on:
            try:
                origins.note_loaded(self)
            except Exception as error:
                tap.fail(error)
        return genuine(self, *args, **kwargs)

    module_class.load_state_dict = load_state_dict


def _wrap_save(adapter: Adapter) -> None:
    """Measures how long `torch.save` takes."""
    torch = adapter.session.torch
    genuine, tap, phases = torch.save, adapter.session.tap("checkpoints"), adapter.phases
    quick, session = adapter.quick, adapter.session

    @functools.wraps(genuine)
    def save(*args: Any, **kwargs: Any) -> Any:
        if not tap.on or not session.active():
            return genuine(*args, **kwargs)
        quick.leave()
        session.flush()
        start = perf_counter_ns()
        try:
            return genuine(*args, **kwargs)
        finally:
            phases.saved(start, perf_counter_ns())

    # In both places, or `save` could not be pickled by its name.
    torch.save = torch.serialization.save = save


def _wrap_compile(adapter: Adapter) -> None:
    """Takes all hooks away before anything is compiled."""
    torch = adapter.session.torch
    genuine = torch.compile

    @functools.wraps(genuine)
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001
        try:
            adapter.compile_used()
        except Exception as error:
            adapter.session.not_captured("compiled code", repr(error))
        return genuine(*args, **kwargs)

    torch.compile = compile


def _take_snapshots(adapter: Adapter) -> None:
    """Lets the job go on after a death by a signal, where the run asks for it."""
    snapshots = snapshot.install(adapter.session)
    if snapshots is not None:
        adapter.losses.after.append(snapshots.after_backward)
        adapter.loaders.before_epoch.append(snapshots.before_epoch)


def watch_model(model: Optional[Any], optimizers: List[Any]) -> None:
    """Library use: what `paramedic.watch` was given is known from the start."""
    adapter = attach(sys.modules["torch"])
    if model is not None:
        adapter.origins.note(model)
    for optimizer in optimizers:
        adapter.origins.note(optimizer)
        adapter.steps.new_optimizer(optimizer)
