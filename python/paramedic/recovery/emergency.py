"""The emergency checkpoint: what a job that is given up had learned until then.

Models, optimizers, schedulers and gradient scalers are those that the crashed frames hold; each is
kept as its `state_dict` under the name of its variable. The file is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path
from typing import Any, Dict, List

from paramedic._probe import rank_from_env
from paramedic.recovery.crash import Crash, Refused
from paramedic.recovery.found import Found, search


def on_abort(crash: Crash) -> None:
    """Saves what there is when somebody chose to let the job end, and says where; never raises."""
    folder = os.environ.get("PARAMEDIC_RUN", "")
    if not folder:
        return
    try:
        sys.stderr.write(f"paramedic: emergency checkpoint: {save(crash, folder)}\n")
    except Refused as refused:
        if os.environ.get("PARAMEDIC_DEBUG"):
            sys.stderr.write(f"paramedic: no emergency checkpoint: {refused}\n")
    except Exception as error:
        sys.stderr.write(f"paramedic: no emergency checkpoint: {type(error).__name__}: {error}\n")


def save(crash: Crash, run_folder: str) -> str:
    """Writes `emergency/rank-N.pt` into the run's folder and answers its path.

    Raises:
        Refused: nothing was being trained, or the file cannot be written.
    """
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "save") or not crash.frames:
        raise Refused("there is no model to save")
    found = search(crash.frames[-1].frame)
    if not found.models:
        raise Refused("there is no model to save: the crashed frames hold none")
    content = {
        "models": _states(found, found.models),
        "optimizers": _states(found, found.optimizers),
        "schedulers": _states(found, found.schedulers),
        "scalers": _states(found, found.scalers),
        "random": _random_states(torch),
        "crash": {
            "exception": f"{type(crash.exception).__name__}: {crash.exception}",
            "file": crash.frames[-1].file,
            "line": crash.frames[-1].line,
            "function": crash.frames[-1].function,
        },
    }
    folder = Path(run_folder) / "emergency"
    path = folder / f"rank-{rank_from_env()[0]}.pt"
    part = path.with_suffix(".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except Exception as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise Refused(
            f"the emergency checkpoint cannot be written to {path}: {type(error).__name__}: {error}"
        ) from error
    return str(path)


def _states(found: Found, things: List[Any]) -> Dict[str, Any]:
    states: Dict[str, Any] = {}
    for thing in things:
        name = base = found.names.get(id(thing), "") or type(thing).__name__
        number = 2
        while name in states:
            name = f"{base}#{number}"
            number += 1
        states[name] = thing.state_dict()
    return states


def _random_states(torch: Any) -> Dict[str, Any]:
    states = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy_random: Any = sys.modules.get("numpy.random")
    if hasattr(numpy_random, "get_state"):
        kind, words, *rest = numpy_random.get_state()
        states["numpy"] = (kind, torch.tensor(words.astype("int64")), *rest)
    if torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states
