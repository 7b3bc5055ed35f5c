"""What clang-tidy found clean, remembered for all checkouts of one user.

A verdict stands for what clang-tidy read: its version, its options, the command that compiles the
file, the file, and all headers of the project. The checkout's own path is taken out of the command,
so that a fresh clone gains by what another one has done. Only that a file is clean is remembered.
Not seen: that a library of the system has changed under the same version of everything else.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Dict, Iterable, List, Mapping

MAX_VERDICTS = 5000


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where caches of this user belong."""
    home = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "paramedic" / "clang-tidy"


def digest_of(*parts: bytes) -> str:
    """One name for all parts in their order; how they are cut matters."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d\n" % len(part) + part)
    return digest.hexdigest()


def digest_of_files(root: Path, names: Iterable[str]) -> bytes:
    """Of names and contents."""
    parts = [part for name in names for part in (name.encode(), (root / name).read_bytes())]
    return digest_of(*parts).encode()


def compile_commands(root: Path, database: Path) -> Dict[str, bytes]:
    """By file, how it is compiled, in words that are the same in every checkout."""
    # A worktree may share the environment of another checkout.
    environment = str((root / ".venv").resolve())
    found: Dict[str, List[str]] = {}
    for entry in json.loads(database.read_text()):
        name = os.path.relpath(entry["file"], root)
        command = entry["command"].replace(environment, "@/.venv").replace(str(root), "@")
        found.setdefault(name, []).append(command)
    return {name: "\n".join(sorted(commands)).encode() for name, commands in found.items()}


class Verdicts:
    """An empty file for each; those not met for longest go first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def knows(self, key: str) -> bool:
        """Whether that was found clean; it counts as met now."""
        try:
            os.utime(self._folder / key)
        except FileNotFoundError:
            return False
        return True

    def remember(self, key: str) -> None:
        """It was found clean."""
        (self._folder / key).touch()

    def trim(self, most: int = MAX_VERDICTS) -> None:
        """Forgets the oldest beyond `most`; another checkout may do the same at the same time."""
        met = sorted((entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(self._folder))
        for _, path in met[: max(0, len(met) - most)]:
            Path(path).unlink(missing_ok=True)
