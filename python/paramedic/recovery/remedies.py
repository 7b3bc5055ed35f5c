"""What a repair does outside the frames, before one of them goes on.

One door for `repairs`: batches that do not fit, data loaders, broken loggers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict

from paramedic.recovery import loggers, micro_batch, samples
from paramedic.recovery.crash import Crash, Refused, Repair


def prepare(crash: Crash, repair: Repair, at_header: bool) -> Repair:
    """Carries out the repair's part outside the frames.

    Args:
        crash: all its frames can still be read.
        repair: as it was decided; its `options` get what was done under `done`.
        at_header: whether the crashed frame stands in a loop's header.

    Returns:
        The repair of the frames: a `split_batch` is a rewind or a retry from here on.

    Raises:
        Refused: the job stays as it was.
    """
    options: Dict[str, Any] = repair.options if repair.options is not None else {}
    if repair.kind == "split_batch":
        repair = dataclasses.replace(repair, kind=micro_batch.split(crash, options))
        options["done"] = f"models run over their batches in {options['parts']} parts"
    elif options.get("silence"):
        silent = loggers.silence(crash, str(options["silence"]))
        options["done"] = f"{silent} does nothing from now on"
    if at_header and repair.kind in ("retry", "edit", "action", "skip", "rewind"):
        done = samples.prepare(crash, repair.kind, options)
        if done is not None:
            options["done"] = done
    elif options.get("sample"):
        raise Refused("the crash is not one of a sample that is loaded")
    return repair
