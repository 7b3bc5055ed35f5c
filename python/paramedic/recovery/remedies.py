"""What a repair does outside the frames, before one of them goes on.

One door for `repairs`: batches that do not fit, data loaders, broken loggers.
"""

from __future__ import annotations

import dataclasses
from types import FrameType
from typing import Any, Dict, Optional

from paramedic.recovery import loggers, micro_batch, samples
from paramedic.recovery.crash import Crash, Repair


def prepare(crash: Crash, repair: Repair, header: Optional[FrameType]) -> Repair:
    """Carries out the repair's part outside the frames.

    Args:
        crash: all its frames can still be read.
        repair: as it was decided; its `options` get what was done under `done`.
        header: the crashed frame, where it stands in a loop's header.

    Returns:
        The repair of the frames: a `split_batch` is a rewind or a retry from here on.

    Raises:
        Refused: the job stays as it was.
    """
    options: Dict[str, Any] = repair.options if repair.options is not None else {}
    if repair.kind == "split_batch":
        kind, frame = micro_batch.split(crash, options)
        repair = dataclasses.replace(repair, kind=kind, frame=frame)
        options["done"] = f"models run over their batches in {options['parts']} parts"
    elif options.get("silence"):
        silent = loggers.silence(crash, str(options["silence"]))
        options["done"] = f"{silent} does nothing from now on"
    if header is not None and repair.kind != "skip":
        done = samples.prepare(crash, "retry", options, header)
        options["done"] = done or options.get("done")
    return repair


def leave_out(crash: Crash, repair: Repair, header: FrameType) -> bool:
    """Prepares a data loader for the skip of what the loop's header had asked for.

    Returns:
        False where a sample is to be left out, and it is none that this header loads.
    """
    options: Dict[str, Any] = repair.options if repair.options is not None else {}
    options["done"] = samples.prepare(crash, "skip", options, header)
    return options["done"] is not None or not options.get("sample")
