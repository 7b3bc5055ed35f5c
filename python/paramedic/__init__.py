"""Paramedic: the doctor of a deep-learning training job.

`paramedic run -- python train.py` needs nothing from here. For a notebook, `watch(model)` starts
the same beside the running script; `open(run)` reads a run that was recorded.

Imported at the start of every interpreter of a run: it imports nothing by itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paramedic.trial import Run

__version__ = "0.1.0"
__all__ = ["open", "protect", "watch"]


def watch(model: Any = None, optimizer: Any = None, name: str = "", directory: str = "") -> bool:
    """Watches the training in this process, as `paramedic run` would have.

    Args:
        model: a torch module, or None: models are found by themselves.
        optimizer: one optimizer or a list; not needed where the optimizer is made after this call.
        name: the name of the run; made from the time where empty.
        directory: the folder of runs, `paramedic-runs` where empty.

    Returns:
        Whether anything watches now. Training goes on in either case.
    """
    from paramedic import _watch

    return _watch.watch(model, optimizer, name, directory)


def protect(function: Any) -> Any:
    """Decorates a function whose crashes are to be repaired in place, in a notebook for example.

    `paramedic run` needs no decorator. Without it an agent is started beside this process, a crash
    inside the function pauses it, and `paramedic attach` repairs it. Python 3.11 and newer.

    Args:
        function: a plain function, decorated by nothing but this.

    Returns:
        The same function, which looks and behaves as before.
    """
    from paramedic.recovery import protect

    return protect.protect(function)


def open(run: str) -> Run:  # noqa: A001
    """The recorded run in folder `run`, or of that name under `paramedic-runs`."""
    from paramedic import trial

    return trial.open_run(run)
