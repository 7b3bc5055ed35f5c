"""Numbers that lie on an accelerator, brought over without waiting for it.

A number is copied to pinned memory behind the work that makes it, with an event after the copy; a
later step records it when the event has passed. The training stream is never synchronised. This was
not run on a device: `tests/python/test_device.py` checks the logic with fakes on the CPU.
"""

from collections import deque
from typing import Any, Deque, Dict, List, Optional, Tuple

from paramedic.adapters.torch.session import Session

MAX_PENDING = 256  # numbers under way; then the newest are left out


class DeviceReader:
    """Reads device numbers late and in order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pending: Deque[Tuple[List[str], int, Any, Any]] = deque()
        session.on_fork.append(self._pending.clear)

    def scalar(self, name: str, step: int, value: Any, divisor: Optional[Any]) -> None:
        """Records the only number of `value`, divided by that of `divisor`, once it is here."""
        with self._session.torch.no_grad():
            number = value.detach().reshape(1).float()
            if divisor is not None:
                number = number / divisor.detach().reshape(1).float()
            self._enqueue([name], step, number)

    def rms(self, named: List[Tuple[str, Any]], step: int, divisor: Optional[Any]) -> None:
        """Records the root mean square of device gradients as `gradient_rms/NAME`.

        One fused norm over all tensors of a device and type, and one copy for all of them.
        """
        torch = self._session.torch
        by_device: Dict[Any, List[Tuple[str, Any]]] = {}
        for name, tensor in named:
            if tensor.numel() and tensor.is_floating_point():
                by_device.setdefault((tensor.device, tensor.dtype), []).append((name, tensor))
        with torch.no_grad():
            for group in by_device.values():
                norms = torch._foreach_norm([tensor.detach() for _, tensor in group])
                values = torch.stack([norm.float() for norm in norms])
                roots = [tensor.numel() ** -0.5 for _, tensor in group]
                scale = torch.tensor(roots, dtype=torch.float32)
                values = values * self._to_device(scale, values)
                if divisor is not None:
                    values = values / divisor.detach().reshape(1).float().to(values.device)
                self._enqueue([f"gradient_rms/{name}" for name, _ in group], step, values)

    def collect(self) -> None:
        """Records what has arrived; call once a step. Costs one query when something is pending."""
        while self._pending:
            names, step, values, event = self._pending[0]
            if event is not None and not event.query():
                return
            self._pending.popleft()
            if self._session.probe is not None:
                for name, value in zip(names, values.tolist()):
                    self._session.probe.scalar(step, name, value)

    def _to_device(self, host: Any, like: Any) -> Any:
        if like.device.type == "cuda":
            host = host.pin_memory()
        return host.to(like.device, non_blocking=True)

    def _enqueue(self, names: List[str], step: int, values: Any) -> None:
        if len(self._pending) >= MAX_PENDING:
            self._session.not_captured("device numbers", "the device is too far behind")
            return
        torch = self._session.torch
        if values.device.type != "cuda":
            # Other devices have no pinned copy that is known to be asynchronous: only CUDA's is
            # taken; the rest are told as missing rather than waited for.
            if values.device.type != "cpu":
                self._session.not_captured(f"numbers on {values.device.type}", "not supported")
                return
            self._pending.append((names, step, values, None))
            return
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        host.copy_(values, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(values.device))
        self._pending.append((names, step, host, event))
