"""Which gradients there were when an iteration began, and their values where they count.

Looked at before the first backward pass of an iteration. With `zero_grad()` in each iteration there
is none then, and putting back means taking away. Where gradients accumulate over iterations they
are copied, if that is worth its cost (pace.py); else only their versions are kept.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, List, Optional

from paramedic.recovery.crash import Refused
from paramedic.recovery.pace import Allowance, Pace
from paramedic.recovery.tensors import Copies, quiet


class Gradients:
    """The gradients of a list of parameters at the start of an iteration."""

    def __init__(self, pace: Pace) -> None:
        self._allowance = Allowance(pace)
        self._copies = Copies()
        # By parameter: the version of its gradient, None where it had none; and which tensor.
        self._versions: List[Optional[int]] = []
        self._ids: List[int] = []
        self._zero = False
        self._copied = False

    def keep_none(self) -> None:
        """There are none now."""
        self._copied, self._zero, self._versions = False, False, []

    def follow(self) -> None:
        """They are thought to be as they were when `keep` was called; `check` will tell."""
        self._copied = self._zero = False

    def keep(self, parameters: List[Any], zeroed: bool) -> bool:
        """Keeps what there is now, and answers whether nothing has changed since the last time;
        `zeroed` says that whatever there is holds only zeros."""
        self._copied = False
        self._zero = zeroed
        before = (self._versions, self._ids)
        gradients = [parameter.grad for parameter in parameters]
        self._versions = [None if g is None else g._version for g in gradients]
        self._ids = [id(gradient) for gradient in gradients]
        present = [gradient for gradient in gradients if gradient is not None]
        if present and not zeroed and self._allowance.grants():
            self._copied = self._allowance.paid(self._copies.take, present)
            # Not held: the job may set them to None to have their memory.
            self._copies.release()
        return before == (self._versions, self._ids)

    def check(self, parameters: List[Any]) -> None:
        """Raises Refused where `put_back` could not be exact."""
        if self._zero or self._copied:
            return
        for parameter, version, before in zip(parameters, self._versions, self._ids):
            gradient = parameter.grad
            if version is not None and (
                gradient is None or id(gradient) != before or gradient._version != version
            ):
                raise Refused(
                    "gradients had accumulated over earlier iterations, this one has added to "
                    "them, and copies of them would have cost more than the snapshot budget"
                )

    def put_back(self, parameters: List[Any]) -> None:
        """Gives every parameter the gradient it had."""
        copies = iter(self._copies.shadows() if self._copied else ())
        with quiet():
            for parameter, version in zip(parameters, self._versions or repeat(None)):
                if version is None:
                    parameter.grad = None
                    continue
                values, gradient = next(copies, None), parameter.grad
                if values is not None and gradient is None:
                    parameter.grad = values.clone()
                elif values is not None:
                    # Into the tensor that is there: others may share it (the buckets of DDP).
                    gradient.copy_(values)
                elif self._zero and gradient is not None:
                    gradient.zero_()
