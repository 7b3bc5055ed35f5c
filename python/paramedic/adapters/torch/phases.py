"""How the time of a step divides: data, forward, backward, optimizer, validation, checkpoint.

Forward is what lies between the end of the phase before and `backward()`: with the user's own
preparation of the batch in it. Validation begins where a model is switched to eval mode or a loader
is read without gradients, and ends where training is taken up again.
"""

from time import perf_counter_ns
from typing import Any, Dict

from paramedic.adapters.torch.session import Session

NAMES = ("data", "forward", "backward", "optimizer", "validation", "checkpoint")


class Phases:
    """Sums of nanoseconds of the step that is open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.data = 0
        self.forward = 0
        self.backward = 0
        self.optimizer = 0
        self.validation = 0
        self.checkpoint = 0
        self.step_start = perf_counter_ns()
        # Where the phase before ended.
        self._cursor = self.step_start
        self._validating = False
        self._validation_start = 0
        session.on_open.append(lambda: self.begin_step(perf_counter_ns()))

    def begin_step(self, now: int) -> None:
        """A step begins, or is taken up, at `now`."""
        self.data = self.forward = self.backward = 0
        self.optimizer = self.validation = self.checkpoint = 0
        self.step_start = self._cursor = now

    def data_fetched(self, start: int, end: int, training: bool) -> None:
        """A loader gave a batch."""
        if not training:
            self.begin_validation(start)
            return
        self.end_validation(start)
        self.data += end - start
        self._cursor = end

    @property
    def validating(self) -> bool:
        """Whether a model is in eval mode, or a loader is read without gradients."""
        return self._validating

    def begin_validation(self, now: int) -> None:
        """A model is in eval mode, or gradients are off, from now on."""
        if not self._validating:
            self._validating = True
            self._validation_start = now

    def end_validation(self, now: int) -> None:
        """Training goes on."""
        if self._validating:
            self._validating = False
            self.validation += now - self._validation_start
            self._cursor = now

    def begin_backward(self, now: int) -> None:
        """`backward()` is called."""
        if self._validating:
            self.end_validation(now)
        self.forward += now - self._cursor

    def end_backward(self, start: int, now: int) -> None:
        """`backward()` has returned."""
        self.backward += now - start
        self._cursor = now

    def end_optimizer(self, start: int, now: int, nested_backward: int) -> None:
        """`step()` is over; backward passes of its closure are told apart."""
        self.optimizer += now - start - nested_backward
        self._cursor = now

    def saved(self, start: int, now: int) -> None:
        """Something was written to disk with `torch.save`."""
        self.checkpoint += now - start
        self._cursor = now

    def report(self, now: int) -> None:
        """Records the phases of a step that ends, when it is sampled or unlike others."""
        session, probe = self._session, self._session.probe
        seldom = self.validation or self.checkpoint
        if probe is not None and (session.due or seldom):
            values: Dict[str, Any] = {name: getattr(self, name) for name in NAMES}
            for name, value in values.items():
                if value or name in ("data", "forward", "backward", "optimizer"):
                    probe.scalar(session.step, f"phase/{name}_ms", value / 1e6)
            probe.scalar(session.step, "step_ms", (now - self.step_start) / 1e6)
        self.begin_step(now)
