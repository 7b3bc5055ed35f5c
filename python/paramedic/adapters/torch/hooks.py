"""Global hooks of torch, put into its tables directly.

The public `register_…` functions take a number from the counter that the user's own hooks use; it
would change the keys of hooks in a saved model. Ours have keys of their own, and live in torch's
module tables only: no hook ever hangs on a user's module, where `copy.deepcopy` and `torch.save`
would find it.
"""

from typing import Any, Callable, Dict


class GlobalHook:
    """One entry of one of torch's tables of global hooks; on and off at any time."""

    def __init__(self, table: Dict[Any, Any], function: Callable[..., None]) -> None:
        self._table = table
        self._function = function
        self._key = f"paramedic.{function.__name__}"

    def arm(self) -> None:
        """Puts the hook in place."""
        self._table[self._key] = self._function

    def disarm(self) -> None:
        """Takes the hook away."""
        self._table.pop(self._key, None)

    def replace(self, function: Callable[..., None]) -> None:
        """Another function from now on, in the same place."""
        self._function = function
        if self.armed:
            self.arm()

    @property
    def armed(self) -> bool:
        """Whether it is in place."""
        return self._key in self._table
