"""How a rendezvous ended, for the `rendezvous` events of all frameworks (store/rows.h)."""

from time import perf_counter_ns
from typing import Any, Dict

MAX_MESSAGE = 1000


def note_end(fields: Dict[str, Any], start_ns: int, error: Any) -> None:
    """Completes the fields of an event whose state was `begun`."""
    fields["state"] = "done" if error is None else "failed"
    fields["took_ms"] = (perf_counter_ns() - start_ns) / 1e6
    if error is not None:
        fields["error"] = f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
