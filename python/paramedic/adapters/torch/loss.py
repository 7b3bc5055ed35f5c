"""The loss is the tensor that `backward()` is called on.

`torch.autograd.backward` is replaced (`Tensor.backward` calls it by attribute), and what gives the
loss its scale (`GradScaler.scale`) or reports on gradients (`clip_grad_norm_`). Reading a loss is
one look at its address: no `.item()`, and no wait where it lies on a device.
"""

import functools
import math
import sys
from time import perf_counter_ns
from typing import Any, Callable, Dict, List, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.source import Source, place
from paramedic.adapters.torch.device import DeviceReader
from paramedic.adapters.torch.loss_graph import is_weighted
from paramedic.adapters.torch.memory import Memory
from paramedic.adapters.torch.model_facts import ModelFacts
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.phases import Phases
from paramedic.adapters.torch.quick import Line, Quick
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.tensors import Definitions

MAX_LOSSES = 100  # names of losses; lines made at run time could be without end


class Losses:
    """Watches backward passes."""

    def __init__(
        self,
        session: Session,
        source: Source,
        definitions: Definitions,
        phases: Phases,
        facts: ModelFacts,
        models: Models,
        reader: DeviceReader,
        memory: Memory,
        quick: Quick,
    ) -> None:
        self._memory = memory
        self._quick = quick
        self._session = session
        self._source = source
        self._definitions = definitions
        self._phases = phases
        self._facts = facts
        self._models = models
        self._reader = reader
        self._tap = session.tap("loss")
        self._lines: Dict[Tuple[int, int], Line] = {}
        self._graph_task = session.torch._C._current_graph_task_id
        # Address of a loss that GradScaler scaled in this step -> (tensor of the scale, its value).
        self._scaled: Dict[int, Tuple[Any, float]] = {}
        # Called before each backward pass, with the line's name.
        self.before: List[Callable[[str], None]] = []
        self.after: List[Callable[[], None]] = []
        # Called before a backward pass whose graph may be of interest: of a line that is new to the
        # fit (the last argument), on a step for which activations are due, or that is looked at.
        self.looks: List[Callable[[Line, Any, bool], None]] = []
        self.is_looking: Callable[[], bool] = lambda: False
        # Called with (line's place, frame) when a loss is not finite, before its backward runs.
        self.on_alarm: Optional[Callable[[Tuple[str, int, str], Any, float], None]] = None
        self.backward_ns = 0
        # Runs a backward pass; see `run`.
        self._run: Callable[..., Any] = session.genuine_backward
        session.on_fork.append(self._lines.clear)

    def watch(self) -> None:
        """Replaces the functions of torch."""
        torch = self._session.torch
        self._wrap_backward(torch.autograd)
        self._wrap_scaler(torch)
        self._wrap_clip(torch.nn.utils)

    @property
    def run(self) -> Callable[..., Any]:
        """What runs a backward pass: who measures something else about it puts himself in place of
        torch's own."""
        return self._run

    @run.setter
    def run(self, function: Callable[..., Any]) -> None:
        self._run = function
        if self._quick.stretch is not None:
            self._quick.stretch.hold("run", function)

    def _wrap_backward(self, autograd: Any) -> None:
        tap, session, phases, quick = self._tap, self._session, self._phases, self._quick
        genuine = session.genuine_backward

        @functools.wraps(genuine)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            session.signs += 1
            # A backward inside a backward (reentrant checkpointing) is no loss.
            if not tap.on or self._graph_task() != -1 or not session.active():
                return self.run(tensors, *args, **kwargs)  # type: ignore[no-any-return]
            start = perf_counter_ns()
            try:
                quick.leave()
                phases.begin_backward(start)
                # Frame 1 is `Tensor.backward`.
                self._begin(tensors, sys._getframe(1))
            except Exception as error:
                tap.fail(error)
            begun = perf_counter_ns()
            session.spent_ns += begun - start
            try:
                self.run(tensors, *args, **kwargs)
            finally:
                now = perf_counter_ns()
                phases.end_backward(begun, now)
                self.backward_ns += now - begun
                for callback in self.after:
                    callback()
                session.spent_ns += perf_counter_ns() - now

        stretch = quick.stretch
        autograd.backward = backward if stretch is None else stretch.backward(self.run, backward)

    def end_step(self) -> None:
        """Addresses may be used again by other tensors."""
        if self._scaled:
            self._scaled = {}
        self.backward_ns = 0

    def _begin(self, tensors: Any, start: Any) -> None:
        frame = self._source.frame(start)
        line = self._line(frame)
        if line.told_fit == self._session.fit:
            self._quick.note_line(start.f_back, line)
        for callback in self.before:
            callback(line.name)
        first = line.told_fit < self._session.fit
        if first:
            line.told_fit = self._session.fit
            self._tell(line, tensors)
        if first or self._session.due & _probe.DUE_ACTIVATION or self.is_looking():
            for look in self.looks:
                look(line, tensors, first)
        if isinstance(tensors, self._session.torch.Tensor):
            self._read(line, tensors, frame)
        else:
            for tensor in tensors:
                self._read(line, tensor, frame)

    def _line(self, frame: Any) -> Line:
        code = None if frame is None else frame.f_code
        key = (id(code), 0 if frame is None else frame.f_lineno)
        line = self._lines.get(key)
        if line is None:
            spot = place(frame)
            if len(self._lines) >= MAX_LOSSES:
                return next(iter(self._lines.values()))
            filename = spot[0].replace("\\", "/").rpartition("/")[2] or "unknown"
            name = f"loss/{filename}:{spot[1]}"
            assert self._session.probe is not None
            line = Line(code, name, self._session.probe.scalar_id(name), spot)
            self._lines[key] = line
        return line

    def _read(self, line: Line, tensor: Any, frame: Any) -> None:
        probe = self._session.probe
        if probe is None or tensor.numel() != 1 or type(tensor) is not self._session.torch.Tensor:
            return
        pointer = tensor.data_ptr()
        scaler, divisor = self._scaled.get(pointer, (None, 1.0))
        if not tensor.is_cpu:
            self._reader.scalar(line.name, self._session.step, tensor, scaler)
            return
        value = self._value(line.number, tensor, divisor)
        if value is not None and not math.isfinite(value) and self.on_alarm is not None:
            self.on_alarm(line.place, frame, value)

    def _value(self, number: int, tensor: Any, divisor: float = 1.0) -> Optional[float]:
        """Records and answers the only number of a CPU tensor; None when it has none."""
        probe, step = self._session.probe, self._session.step
        dtype = self._definitions.dtype(tensor.dtype)
        if probe is None or dtype < 0 or not tensor.data_ptr():
            return None
        value = self._memory.number(tensor)
        if value is None:
            return probe.scalar_at(step, number, tensor.data_ptr(), dtype, divisor)
        value /= divisor
        probe.number(step, number, value)
        return value

    def _tell(self, line: Line, tensors: Any) -> None:
        tensor = tensors if isinstance(tensors, self._session.torch.Tensor) else tensors[0]
        node = tensor.grad_fn
        if tensor.data_ptr() in self._scaled and node is not None and node.next_functions:
            node = node.next_functions[0][0]
        maker = node.name() if node is not None else ""
        modules = [
            type(module).__name__
            for module in (call.reference() for call in self._models.calls.values())
            if module is not None and type(module).__module__ == "torch.nn.modules.loss"
        ]
        cls = modules[-1] if modules else maker.rstrip("0123456789")
        detail = {"grad_fn": maker, "modules": modules, "weighted": is_weighted(node)}
        self._facts.tell("loss", line.name, cls, line.place, detail)

    def _wrap_scaler(self, torch: Any) -> None:
        scaler_class = torch.amp.grad_scaler.GradScaler
        genuine, tap = scaler_class.scale, self._tap

        @functools.wraps(genuine)
        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = genuine(scaler, outputs)
            if tap.on and self._session.active():
                try:
                    self._note_scale(scaler, scaled)
                except Exception as error:
                    tap.fail(error)
            return scaled

        scaler_class.scale = scale

    def _note_scale(self, scaler: Any, scaled: Any) -> None:
        torch, probe = self._session.torch, self._session.probe
        tensor = scaler._scale
        if tensor is None or not isinstance(scaled, torch.Tensor) or probe is None:
            return
        value = None
        if tensor.is_cpu:
            value = self._value(probe.scalar_id("amp_scale"), tensor)
        # The loss is to be divided: not done on the short way.
        self._quick.leave()
        self._scaled[scaled.data_ptr()] = (tensor, value or 1.0)

    def _wrap_clip(self, utils: Any) -> None:
        genuine, tap = utils.clip_grad_norm_, self._tap

        @functools.wraps(genuine)
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            norm = genuine(*args, **kwargs)
            if tap.on and self._session.active():
                try:
                    self._note_norm(norm)
                except Exception as error:
                    tap.fail(error)
            return norm

        utils.clip_grad_norm_ = clip_grad_norm_
        sys.modules["torch.nn.utils.clip_grad"].clip_grad_norm_ = (  # type: ignore[attr-defined]
            clip_grad_norm_
        )

    def _note_norm(self, norm: Any) -> None:
        probe, step, name = self._session.probe, self._session.step, "gradient_norm_before_clip"
        if probe is None or type(norm) is not self._session.torch.Tensor:
            return
        if not norm.is_cpu:
            self._reader.scalar(name, step, norm, None)
            return
        self._value(probe.scalar_id(name), norm)
