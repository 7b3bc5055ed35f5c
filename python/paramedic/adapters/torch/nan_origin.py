"""Finds the line at which the first non-finite value was born.

Two cheap sentinels run at each step: the loss, which is read anyway, and the gradient of one small
parameter of the first layer, where every backward pass ends. At the first alarm, once in a run, the
iteration is repeated in a forked child under a recorder (`nan_replay`): parameters are still those
of the iteration, the user's frame is alive with all its variables, and the random state of the
iteration's start is kept. The job waits for the child, as a rule well under a second, at most
`LIMIT_S`; it cannot reach the job.
"""

import json
import math
import os
import select
import signal
import sys
import warnings
import weakref
from time import monotonic, perf_counter_ns
from typing import Any, Callable, Dict, List, Optional, Tuple

from paramedic.adapters.common.source import Source, where
from paramedic.adapters.torch.loader import Loaders
from paramedic.adapters.torch.memory import Memory
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.quick import VALUES
from paramedic.adapters.torch.session import Session
from paramedic.adapters.torch.steps import Stepper, Steps
from paramedic.adapters.torch.tensors import plain

LIMIT_S = 10
MAX_ANSWER_BYTES = 256 << 10
# Alarms looked into; the first that gives a line ends the search.
MAX_ALARMS = 3
# Weights that are lost by a gradient which was bad in few places, and no divergence.
FEW = 0.5
LARGE = 1e4

Place = Tuple[str, int, str]


class _Nothing:
    """In place of a parameter, where an optimizer has none that can be looked at."""

    grad = None


NOTHING = _Nothing()


class NanOrigin:
    """The sentinels, and the parent's side of the search."""

    def __init__(
        self,
        session: Session,
        source: Source,
        models: Models,
        steps: Steps,
        loaders: Loaders,
        memory: Memory,
    ) -> None:
        self._memory = memory
        self._session = session
        self._source = source
        self._models = models
        self._steps = steps
        self._loaders = loaders
        self._tap = session.tap("origin of a NaN")
        self._alarms = 0
        self._found = False
        self._rolls_back = "nan_origin" in os.environ.get("PARAMEDIC_ROLL_BACK_ON", "").split(",")
        self._told = False
        # The random state at the start of a step, and that step; as long as recovery marks
        # iterations it is kept there, and once is enough.
        self._random_state: Any = None
        self._random_step = -1
        self._marks = 0
        self._is_marked = False
        # Set to what answers the state that was kept natively at the start of the open step.
        self.kept_random_state: Callable[[], Any] = lambda: None
        self._get_random_state = session.torch.default_generator.get_state
        # By optimizer: how many groups it had, and the parameter to look at.
        self._watched: Dict[int, Tuple[int, "weakref.ref[Any]"]] = {}
        session.on_step_open.append(self.keep_random_state)
        session.on_fork.append(self._watched.clear)

    def keep_random_state(self) -> None:
        """The state at the start of an iteration: 5 KB, about 5 µs, unless recovery keeps it.
        Called where no native function keeps it (`kept_random_state`)."""
        if self._found or not self._tap.on:
            return
        recovery: Any = sys.modules.get("paramedic.recovery.rewind")
        marks = 0 if recovery is None else recovery.marks()
        self._is_marked, self._marks = marks > self._marks, marks
        if not self._is_marked:
            self._random_state = self._get_random_state()
            self._random_step = self._session.step

    def wants_random_state(self, costs_little: bool) -> bool:
        """Whether every step's is wanted, which costs little or more: an alarm was not explained,
        and the next one may be."""
        if self._is_marked or self._found or not self._tap.on:
            return False
        return costs_little or (0 < self._alarms < MAX_ALARMS and not self._found)

    def _random_state_now(self) -> Any:
        if self._is_marked:
            return sys.modules["paramedic.recovery.rewind"].rewinder().torch_random_state()
        if self._random_step == self._session.step:
            return self._random_state
        # Of another step it is no better than the one there is now.
        return self.kept_random_state()

    def loss_alarm(self, spot: Place, frame: Any, value: float) -> None:
        """A loss is not finite; its backward pass has not begun."""
        if not self._armed():
            return
        why = f"the loss is {value}"
        try:
            self._search("loss", spot, frame, why)
        except Exception as error:
            self._tap.fail(error)
        self._act(why)

    def before_update(self, stepper: Stepper, optimizer: Any) -> None:
        """Looks at some values of one small gradient."""
        if not self._armed():
            return
        why = ""
        try:
            parameter = self._sentinel(stepper, optimizer)()
            gradient = None if parameter is None else parameter.grad
            if gradient is None or self._looks_finite(gradient):
                return
            if getattr(optimizer, "grad_scale", None) is not None:
                # A fused optimizer skips the step itself when the scale was too large.
                return
            name = self._models.parameter(parameter)
            frame = self._source.frame(sys._getframe(1))
            why = f"the gradient of {name} is not finite"
            self._search("gradient", stepper.place, frame, why)
        except Exception as error:
            self._tap.fail(error)
        self._act(why)

    def _act(self, why: str) -> None:
        """`--on nan_origin=rollback`: leaves the iteration by an exception, where that is held."""
        if not self._rolls_back or not why:
            return
        try:
            reason = self._roll_back(why)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self._session.not_captured("rollback at a NaN", reason)

    def _roll_back(self, why: str) -> str:
        distributed = self._session.torch.distributed
        several = distributed.is_available() and distributed.is_initialized()
        if several and distributed.get_world_size() > 1:
            return "the other ranks would have to roll back as well"
        recovery: Any = sys.modules.get("paramedic.recovery.rewind")
        if recovery is None:
            return "recovery is not at work"
        from paramedic.recovery import rule_action

        return rule_action.roll_back(rule_action.NotFinite(why))

    def _looks_finite(self, gradient: Any) -> bool:
        """Reads the first values where they lie; a NaN of the pass is in most units of a layer."""
        if gradient.is_sparse or not gradient.is_cpu:
            return True
        # Of a sharded one this rank's part: a reduction of the whole would be a collective.
        gradient = plain(gradient, self._session.torch)
        if gradient is None:
            return True
        if not gradient.is_contiguous():
            return bool(gradient.requires_grad) or math.isfinite(gradient.sum().item())
        return self._memory.looks_finite(gradient, min(VALUES, gradient.numel())) is not False

    def _armed(self) -> bool:
        return self._tap.on and (self._rolls_back or self._is_searching())

    def _is_searching(self) -> bool:
        return not self._found and self._alarms < MAX_ALARMS

    def quick_sentinel(self, stepper: Stepper, optimizer: Any) -> "Optional[weakref.ref[Any]]":
        """The parameter whose gradient may be read without a closer look; None: there is none."""
        if not self._armed():
            return None
        reference = self._sentinel(stepper, optimizer)
        parameter = reference()
        if parameter is None or parameter is NOTHING:
            return None
        torch = self._session.torch
        readable = type(parameter) in (torch.Tensor, torch.nn.Parameter)
        is_float32 = readable and parameter.dtype is torch.float32
        return reference if is_float32 and parameter.numel() >= VALUES else None

    def _sentinel(self, stepper: Stepper, optimizer: Any) -> "weakref.ref[Any]":
        groups = optimizer.param_groups
        count = len(groups)
        known = self._watched.get(id(stepper))
        if known is not None and known[0] == count:
            return known[1]
        parameters = [
            parameter
            for group in groups
            for parameter in group["params"]
            if parameter.is_cpu and parameter.requires_grad and parameter.is_floating_point()
        ]
        # Backward ends there. Of weight and bias the smaller one: a bias as a rule.
        chosen = min(parameters[:2], key=lambda parameter: int(parameter.numel()), default=None)
        # Weak, or the watch would keep a model alive that the job has dropped.
        reference: weakref.ref[Any] = weakref.ref(NOTHING if chosen is None else chosen)
        self._watched[id(stepper)] = (count, reference)
        return reference

    def _search(self, alarm: str, spot: Place, frame: Any, why: str) -> None:
        if not self._is_searching():
            return
        start = perf_counter_ns()
        self._answer(alarm, spot, frame, why)
        # Paid once in a run: the budget is for what recurs.
        self._session.spent_ns -= perf_counter_ns() - start

    def _answer(self, alarm: str, spot: Place, frame: Any, why: str) -> None:
        self._alarms += 1
        answer: Dict[str, Any] = {}
        weights, gradients = self._not_finite()
        repeated = False
        if weights and alarm == "loss" and frame is not None and self._can_fork():
            answer = self._in_child("turns", frame) if self._few_are_lost() else {}
        why_not = "repeating the iteration did not show where it was born"
        if answer:
            answer["evidence"].append(f"{weights[0]} had lost some values when the loss showed it")
        elif weights and gradients and alarm == "loss":
            # The iteration that spoiled them is over, and nothing saw it.
            why_not = f"the gradient of {gradients[0]} was not finite at the update before"
        elif weights and self._alarms == 1:
            # The values of the iteration that spoiled them are gone.
            answer = self._born_in_update(weights)
        elif frame is not None and self._can_fork():
            answer = self._in_child(alarm, frame)
            repeated = self._alarms < MAX_ALARMS
        if not answer and repeated and self._session.world_size > 1 and alarm == "gradient":
            # Nor would a later alarm show it: the weights are lost by then.
            self._found = True
            answer = {
                "received": True,
                "evidence": ["repeated without the other ranks the iteration is finite"],
            }
        elif not answer:
            answer = {
                "where": where(spot),
                "certain": False,
                "evidence": [why_not],
            }
        else:
            self._found = True
        for key in ("module", "operation", "expression", "tensor"):
            answer.setdefault(key, None)
        answer["alarm"] = alarm
        answer["evidence"] = [why] + list(answer["evidence"])
        if self._found or not self._told:
            self._told = True
            self._session.event("nan_origin", answer)

    def _can_fork(self) -> bool:
        torch = self._session.torch
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._session.not_captured(self._tap.name, "a process that uses CUDA cannot be forked")
            return False
        return hasattr(os, "fork")

    def _few_are_lost(self) -> bool:
        """Whether most weights are as they should be: rows of a table may be lost unseen."""
        torch = self._session.torch
        lost = count = 0
        for parameter in self._parameters():
            finite = torch.isfinite(parameter.detach())
            lost += parameter.numel() - int(finite.sum())
            count += parameter.numel()
            if finite.any() and float(parameter.detach()[finite].abs().max()) > LARGE:
                return False
        return lost < FEW * count

    def _parameters(self) -> List[Any]:
        return [
            parameter
            for optimizer in self._steps.optimizers()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.is_cpu and parameter.is_floating_point() and not parameter.is_sparse
        ]

    def _replace_lost(self) -> None:
        """In the child only: other values of the same size where there are none."""
        torch = self._session.torch
        with torch.no_grad():
            for parameter in self._parameters():
                finite = torch.isfinite(parameter)
                if not finite.all() and finite.any():
                    others = torch.randn_like(parameter) * parameter[finite].std(unbiased=False)
                    parameter.copy_(torch.where(finite, parameter, others))

    def _not_finite(self) -> Tuple[List[str], List[str]]:
        """Parameters whose values, and those whose gradients, are not finite."""
        torch = self._session.torch
        weights: List[str] = []
        gradients: List[str] = []
        with torch.no_grad():
            for optimizer in self._steps.optimizers():
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        for tensor, names in ((parameter, weights), (parameter.grad, gradients)):
                            if tensor is None or not tensor.is_cpu or tensor.is_sparse:
                                continue
                            if not torch.isfinite(tensor).all().item():
                                names.append(self._models.parameter(parameter))
        return weights, gradients

    def _born_in_update(self, weights: List[str]) -> Dict[str, Any]:
        steppers = [s for s in self._steps.steppers() if s.steps]
        if not steppers:
            return {
                "where": where(("", 0, "")),
                "tensor": weights[0],
                "evidence": [f"{weights[0]} was not finite before the first step"],
            }
        last = max(steppers, key=lambda stepper: stepper.last_step)
        return {
            "where": where(last.place),
            "operation": "optimizer.step",
            "tensor": weights[0],
            "evidence": [
                f"{len(weights)} parameters are not finite after the update by {last.label}"
            ],
        }

    def _in_child(self, alarm: str, frame: Any) -> Dict[str, Any]:
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of other threads; the child never touches what they hold.
            warnings.simplefilter("ignore")
            self._session.forking = True
            try:
                pid = os.fork()
            finally:
                self._session.forking = False
        if pid == 0:
            self._child(alarm, frame, writer)
        os.close(writer)
        try:
            return _read_answer(reader, pid)
        except TimeoutError as error:
            # Once is enough to wait for.
            self._alarms = MAX_ALARMS
            self._session.not_captured(self._tap.name, str(error))
            return {}
        finally:
            os.close(reader)

    def _child(self, alarm: str, frame: Any, writer: int) -> None:
        """Never returns, whatever happens."""
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            _close_files(writer)
            from paramedic.adapters.torch import nan_ranks, nan_replay

            torch = self._session.torch
            # No tap is at work in here: the ring is the job's.
            self._session.thread = 0
            nan_ranks.stand_alone(torch)
            torch.set_num_threads(1)
            if hasattr(torch.compiler, "set_stance"):
                # Compiled code is one operation to the recorder; and compiling takes long.
                torch.compiler.set_stance("force_eager")
            batch = self._loaders.batch
            state = self._random_state_now()
            genuine = self._session.genuine_backward
            replay = nan_replay.Replay(torch, self._source, self._models, state, genuine)
            if alarm == "turns":
                self._replace_lost()
                answer = replay.search_turns(frame, self._steps.optimizers())
            else:
                replay.prepare = lambda: _give_batch_again(batch)
                answer = replay.search(alarm, frame, self._steps.optimizers())
            os.write(writer, json.dumps(answer, default=str).encode()[:MAX_ANSWER_BYTES])
        except BaseException:
            if os.environ.get("PARAMEDIC_DEBUG"):
                import traceback

                os.write(writer, json.dumps({"error": traceback.format_exc()}).encode())
        finally:
            os._exit(0)


def _give_batch_again(batch: Any) -> None:
    """Loaders give this step's batch once, then end: their workers do not exist in the child."""
    if batch is None:
        return
    left = [batch]

    def __next__(iterator: Any) -> Any:
        if not left:
            raise StopIteration
        return left.pop()

    dataloader: Any = sys.modules["torch.utils.data.dataloader"]
    dataloader._BaseDataLoaderIter.__next__ = __next__


def _close_files(keep: int) -> None:
    """Points every descriptor but one at /dev/null: nothing the child does is seen outside."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor not in (keep, null):
            try:
                os.dup2(null, descriptor)
            except OSError:
                continue  # The one of the listing itself, closed by now.


def _read_answer(reader: int, pid: int) -> Dict[str, Any]:
    """The child's answer, empty when it found nothing.

    Raises:
        TimeoutError: it took too long, and was ended.
    """
    end = monotonic() + LIMIT_S
    chunks: List[bytes] = []
    try:
        while True:
            left = end - monotonic()
            if left <= 0:
                raise TimeoutError(f"the repetition took more than {LIMIT_S} s")
            if not select.select([reader], [], [], left)[0]:
                continue
            chunk = os.read(reader, 65536)
            if not chunk or sum(map(len, chunks)) > MAX_ANSWER_BYTES:
                break
            chunks.append(chunk)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    try:
        answer = json.loads(b"".join(chunks))
    except ValueError:
        return {}
    if isinstance(answer, dict) and "error" in answer:
        sys.stderr.write("paramedic: {}\n".format(answer["error"]))
        return {}
    return answer if isinstance(answer, dict) else {}
