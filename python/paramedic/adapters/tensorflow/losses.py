"""The loss of each worker, as it was before the workers exchange anything.

What a step returns is mostly reduced over all workers, and what Keras logs is a mean over the
epoch: neither tells who had the first NaN. So where a gradient is taken while a function is traced,
the value that it is taken of is also assigned to a variable of ours, which is read when the step
has returned. The job's numbers are not touched. The function knows the variable by its name:
nothing is captured that could stand in the way when the function is saved. This is done on the CPU
only, in jobs of several workers, and not in what XLA compiles, which could not have it.
"""

import functools
import os
import sys
from typing import Any, List, NamedTuple, Tuple

from paramedic.adapters.common.source import Source, where
from paramedic.adapters.tensorflow.marks import MarkBook
from paramedic.adapters.tensorflow.origins import Origins
from paramedic.adapters.tensorflow.session import Session

MAX_LOSSES = 32  # followed in a process
MAX_FRAMES = 1000

_FUNCTIONS = os.path.join("polymorphic_function", "polymorphic_function.py")


class Loss(NamedTuple):
    """A place where a gradient is taken."""

    name: str
    spot: Tuple[str, int, str]
    handle: Any  # of the variable


class Losses:
    """Follows GradientTape.gradient while functions are traced."""

    def __init__(self, session: Session, source: Source, marks: MarkBook) -> None:
        self._session = session
        self._source = source
        self._marks = marks
        self._tap = session.tap("loss")
        self._origins = Origins(self._tap)
        # The public way to it takes three times as long.
        variables: Any = sys.modules["tensorflow.python.ops.gen_resource_variable_ops"]
        self._read = variables.read_variable_op
        self._float32 = session.tensorflow.float32
        self._told: List[str] = []
        self._count = 0

    def watch(self) -> None:
        """Replaces the method that takes gradients."""
        self._origins.watch()
        backprop: Any = sys.modules["tensorflow.python.eager.backprop"]
        owner = backprop.GradientTape
        genuine, tap = owner.gradient, self._tap

        @functools.wraps(genuine)
        def gradient(tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            result = genuine(tape, target, *args, **kwargs)
            if tap.on:
                try:
                    if self._is_wanted(target):
                        self._follow(target)
                except Exception as error:
                    tap.fail(error)
            return result

        owner.gradient = gradient

    def read(self, losses: Tuple[Loss, ...]) -> None:
        """A step has returned: records what its losses were."""
        session, probe = self._session, self._session.probe
        if probe is None or not self._tap.on:
            return
        try:
            for loss in losses:
                if loss.name not in self._told:
                    self._tell(loss)
                value = self._read(loss.handle, self._float32)
                probe.scalar(session.step, loss.name, float(value.numpy()))
        except Exception as error:
            self._tap.fail(error)

    def _is_wanted(self, target: Any) -> bool:
        if self._session.world_size < 2 or self._count >= MAX_LOSSES or self._marks.is_eager():
            return False
        dtype = getattr(target, "dtype", None)
        return bool(getattr(dtype, "is_floating", False)) and target.shape.rank == 0

    def _follow(self, target: Any) -> None:
        tensorflow = self._session.tensorflow
        context: Any = sys.modules["tensorflow.python.eager.context"].context()
        devices = {device.device_type for device in context.list_logical_devices()}
        if devices != {"CPU"}:
            self._tap.on = False
            self._session.not_captured("loss", "read on the CPU only")
            return
        if _is_compiled():
            self._session.not_captured("loss of compiled functions", "XLA")
            return
        record: Any = sys.modules["tensorflow.python.eager.record"]
        ops, shared = tensorflow.raw_ops, f"paramedic_loss_{self._count}"
        of_variable = {"dtype": "float32", "shape": [], "shared_name": shared}
        with tensorflow.init_scope(), tensorflow.device("CPU:0"):
            handle = ops.VarHandleOp(**of_variable)
            ops.AssignVariableOp(resource=handle, value=tensorflow.constant(0.0))
        with record.stop_recording(), tensorflow.device("CPU:0"):
            value = tensorflow.cast(target, tensorflow.float32)
            ops.AssignVariableOp(resource=ops.VarHandleOp(**of_variable), value=value)
        spot = self._spot()
        name = f"loss/{os.path.basename(spot[0])}:{spot[1]}"
        self._marks.note_loss(Loss(name, spot, handle))
        self._count += 1

    def _spot(self) -> Tuple[str, int, str]:
        """The user's line; autograph has put code of its own in its place."""
        frame = self._source.frame(sys._getframe(1))
        return ("", 0, "") if frame is None else self._origins.of(frame)

    def _tell(self, loss: Loss) -> None:
        self._told.append(loss.name)
        fact = {"fit": 0, "kind": "loss", "name": loss.name, "class": "", "detail": {}}
        self._session.event("model", dict(fact, **where(loss.spot)))


def _is_compiled() -> bool:
    """Whether a function around the caller is traced for XLA."""
    frame: Any = sys._getframe(1)
    for _ in range(MAX_FRAMES):
        if frame is None:
            return False
        is_function = frame.f_code.co_filename.endswith(_FUNCTIONS)
        if is_function and getattr(frame.f_locals.get("self"), "_jit_compile", None):
            return True
        frame = frame.f_back
    return True
