"""What this rank runs with: versions, and the code of the job's own modules, told once.

Ranks of one job that differ in these cannot be told apart from inside any of them; the agent
compares what all of them tell (`src/cluster/lint/difference.h`). Costs some 20 ms, once, and only
in a job of several ranks.
"""

import os
import sys
import zlib
from typing import Any, Callable, Dict

from paramedic.adapters.common.session import Session
from paramedic.adapters.common.source import Source

MAX_MODULES = 200
MAX_FILE_BYTES = 1 << 20
# Of all modules together: four characters each, in an event of at most 256 KiB.
MAX_LINES = 20_000
MAX_PACKAGES = 300

# Answers names and values: the version of the framework and of what it runs on.
FrameworkFacts = Callable[[], Dict[str, str]]


class Facts:
    """Tells the facts of a process once, when it is about to meet the others."""

    def __init__(self, session: Session, source: Source, of_framework: FrameworkFacts) -> None:
        self._session = session
        self._of_framework = of_framework
        self._source = source
        self._tap = session.tap("facts")
        self._pid = 0

    def tell(self) -> None:
        """Records a `facts` event, unless this process has told them already."""
        if not self._tap.on or self._pid == os.getpid():
            return
        self._pid = os.getpid()
        try:
            host = os.uname().nodename
            facts = {"host": host, "values": self._values(), "modules": self._modules()}
            self._session.tell("facts", facts)
        except Exception as error:
            self._tap.fail(error)

    def _values(self) -> Dict[str, str]:
        values = {
            "python": "{}.{}.{}".format(*sys.version_info[:3]),
            "kernel": os.uname().release,
            "glibc": os.confstr("CS_GNU_LIBC_VERSION") or "",
            "cpu": _after(_beginning("/proc/cpuinfo"), "model name"),
            "driver": _beginning("/proc/driver/nvidia/version").split("\n")[0],
            **self._of_framework(),
        }
        packages = 0
        for name, module in list(sys.modules.items()):
            # Not by getattr: a lazy module would be imported by it.
            version = getattr(module, "__dict__", {}).get("__version__")
            if "." in name or not isinstance(version, str) or name in values:
                continue
            packages += 1
            if packages <= MAX_PACKAGES:
                values["numpy" if name == "numpy" else f"package/{name}"] = version[:64]
        return values

    def _modules(self) -> Dict[str, Dict[str, str]]:
        found: Dict[str, Dict[str, str]] = {}
        lines_left = MAX_LINES
        for name, module in sorted(sys.modules.items(), key=_name):
            path = getattr(module, "__dict__", {}).get("__file__")
            if not isinstance(path, str) or not path.endswith(".py"):
                continue
            if self._source.rank(path) != self._source.USER or len(found) >= MAX_MODULES:
                continue
            text = _read(path)
            lines = text.splitlines()[:lines_left]
            lines_left -= len(lines)
            found[name] = {
                "file": os.path.abspath(path),
                "digest": f"{zlib.crc32(text):08x}",
                "lines": "".join(_four_digits(line) for line in lines),
            }
        return found


def _name(entry: Any) -> str:
    return str(entry[0])


def _four_digits(line: bytes) -> str:
    return f"{zlib.crc32(line) & 0xFFFF:04x}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return b""


def _beginning(path: str) -> str:
    return _read(path)[:4096].decode("utf-8", "replace")


def _after(text: str, key: str) -> str:
    for line in text.splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""
