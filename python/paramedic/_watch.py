"""`paramedic.watch()`: the same as under `paramedic run`, beside a script that runs already.

Starts the agent as a child that leaves with this process, waits until it is ready, and attaches the
adapters. Where the agent cannot be started there is one warning, and training goes on.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import warnings
from typing import Any, Dict, List, Optional

READY_S = 10.0  # the agent is ready in some milliseconds, unless the machine is very busy


def watch(model: Any, optimizer: Any, name: str, directory: str) -> bool:
    """See `paramedic.watch`."""
    if not os.environ.get("PARAMEDIC_RUN") and not _start(name, directory):
        return False
    from paramedic import _import_hook

    _import_hook.install()
    if "torch" in sys.modules:
        from paramedic.adapters import torch as adapter

        given = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
        adapter.watch_model(model, [one for one in given if one is not None])
    return True


def _start(name: str, directory: str) -> bool:
    program = _program()
    if program is None:
        return _warn("the program `paramedic` was not found; PARAMEDIC_BIN may name it")
    reader, writer = os.pipe()
    command = [program, "agent", "--pid", str(os.getpid()), "--ready-fd", str(writer)]
    if name:
        command += ["--name", name]
    if directory:
        command += ["--dir", directory]
    command += ["--", sys.executable, *sys.argv]
    try:
        # A session of its own: Ctrl-C in the terminal is the script's.
        subprocess.Popen(
            command, pass_fds=[writer], stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return _warn(f"{program} could not be started: {error}")
    os.close(writer)
    ready = _read_line(reader)
    os.close(reader)
    if ready is None:
        return _warn("the agent did not start")
    os.environ.update(
        PARAMEDIC_RUN=ready["run_dir"],
        PARAMEDIC_RUN_ID=ready["run_id"],
        PARAMEDIC_RING_DIR=ready["ring_dir"],
    )
    os.environ.setdefault("PARAMEDIC_PROBE", _library(program))
    return True


def _read_line(reader: int) -> Optional[Dict[str, str]]:
    data = b""
    while not data.endswith(b"\n"):
        if not select.select([reader], [], [], READY_S)[0]:
            return None
        chunk = os.read(reader, 4096)
        if not chunk:
            return None
        data += chunk
    try:
        ready: Dict[str, str] = json.loads(data)
        return {key: ready[key] for key in ("run_dir", "run_id", "ring_dir")}
    except (ValueError, KeyError, TypeError):
        return None


def _folders() -> List[str]:
    """Where an installation may lie around this package: a wheel, a build folder."""
    package = os.path.dirname(os.path.abspath(__file__))
    return [package, os.path.dirname(os.path.dirname(package))]


def _program() -> Optional[str]:
    named = os.environ.get("PARAMEDIC_BIN")
    if named:
        return named if os.access(named, os.X_OK) else None
    for folder in _folders():
        path = os.path.join(folder, "bin", "paramedic")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("paramedic")


def _library(program: str) -> str:
    """The probe: in the `lib` beside the program's `bin`, or beside this package."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    folders = [os.path.join(home, "lib"), *(os.path.join(f, "lib") for f in _folders())]
    paths = [os.path.join(folder, "libparamedic_probe.so") for folder in folders]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def _warn(why: str) -> bool:
    warnings.warn(f"paramedic does not watch: {why}", RuntimeWarning, stacklevel=5)
    return False
