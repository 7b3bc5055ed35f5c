"""What a process did to files since its newest snapshot, so that it can be done once more.

A process that goes on from a snapshot repeats what had been done since. Most of it comes out the
same the second time; what would not is kept here as it happens, seen by an audit hook: a file that
was appended to is cut back, one that was created exclusively is removed again. What cannot be taken
back (a file removed, a file read and then overwritten, a command run) makes the snapshot
unrepeatable until the next one.
"""

import atexit
import os
import stat
from typing import Any, Callable, Dict, NamedTuple, Optional, Set, Tuple

from paramedic._probe import AuditWatch, add_audit_hook
from paramedic.recovery.pages import SnapshotPage

APPENDED, CREATED, FOLDER = 1, 2, 3
MAX_PATHS = 20_000
_NO_FILES = ("/dev/", "/proc/", "/sys/")
# Python's own files, which it reads and replaces when it imports a module.
_BYTECODE = f"{os.sep}__pycache__{os.sep}"
_COMMANDS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
    "subprocess.Popen",
    "sqlite3.connect",
)


class Effects:
    """Watches one process; never raises into it."""

    def __init__(self) -> None:
        self._page: Optional[SnapshotPage] = None
        self._area = 0
        self._read: Set[str] = set()
        self._written: Set[str] = set()
        self._watch: Optional[AuditWatch] = None
        self._handlers: Dict[str, Callable[[Tuple[Any, ...]], None]] = {
            "open": self._on_open,
            "os.rename": self._on_rename,
            "os.remove": self._on_remove,
            "os.mkdir": self._on_mkdir,
            "socket.connect": self._on_connect,
        }
        for event in ("os.rmdir", "shutil.rmtree", "os.truncate", "os.link", "os.symlink"):
            self._handlers[event] = self._on_lost
        for event in _COMMANDS:
            self._handlers[event] = self._on_command

    def begin(self, page: SnapshotPage, area: int) -> None:
        """From here on effects count for the next snapshot, that of `area`.

        Raises:
            OSError: they cannot be watched.
        """
        page.clear_effects(area)
        self._page, self._area = page, area
        self._read.clear()
        self._written.clear()
        if self._watch is None:
            self._watch = add_audit_hook(self._follow, sorted(self._handlers))
            atexit.register(self.end)
        self._watch.on = 1

    def end(self) -> None:
        """Watches nothing any more."""
        self._page = None
        if self._watch is not None:
            self._watch.on = 0

    @property
    def unrepeatable(self) -> bool:
        """Whether the newest snapshot has become useless."""
        return self._page is not None and not self._page.is_repeatable(self._area)

    def _follow(self, event: bytes, args: Tuple[Any, ...]) -> int:
        if self._page is None:
            return 0
        try:
            self._handlers[event.decode()](args)
        except Exception as error:
            self._lose(f"{event!r} could not be followed: {error}")
        return 0

    def _lose(self, reason: str) -> None:
        if self._page is not None and self._page.is_repeatable(self._area):
            self._page.set_unrepeatable(self._area, reason)

    def _keep(self, kind: int, size: int, path: str) -> None:
        page = self._page
        if page is not None and not page.add_effect(self._area, kind, size, os.fsencode(path)):
            self._lose("too many files were changed")

    def _on_open(self, args: Tuple[Any, ...]) -> None:
        path, flags = _path(args[0]), args[2]
        if path is None or not isinstance(flags, int):
            return
        if len(self._read) + len(self._written) > MAX_PATHS:
            self._lose("too many files were opened")
        elif flags & os.O_ACCMODE == os.O_RDONLY:
            self._read.add(path)
        else:
            self._on_write(path, flags)

    def _on_write(self, path: str, flags: int) -> None:
        if path in self._written:
            return
        try:
            status = os.stat(path)
        except OSError:
            if flags & os.O_EXCL or not flags & os.O_TRUNC:
                self._keep(CREATED, 0, path)
            self._written.add(path)
            return
        if not stat.S_ISREG(status.st_mode):
            return
        if flags & os.O_APPEND:
            self._keep(APPENDED, status.st_size, path)
        elif path in self._read:
            self._lose(f"{path} was read and then written")
        elif not flags & (os.O_TRUNC | os.O_EXCL):
            self._lose(f"{path} was changed in place")
        self._written.add(path)

    def _on_rename(self, args: Tuple[Any, ...]) -> None:
        source, target = _path(args[0]), _path(args[1])
        if source is None and target is None:
            return
        if source is None or source not in self._written:
            self._lose(f"{source} was renamed")
        if target is not None:
            if target in self._read and target not in self._written:
                self._lose(f"{target} was read and then replaced")
            self._written.add(target)

    def _on_remove(self, args: Tuple[Any, ...]) -> None:
        path = _path(args[0])
        if path is None or path not in self._written:
            self._lose(f"{path} was removed")

    def _on_mkdir(self, args: Tuple[Any, ...]) -> None:
        path = _path(args[0])
        if path is not None and not os.path.exists(path):
            self._keep(FOLDER, 0, path)

    def _on_connect(self, args: Tuple[Any, ...]) -> None:
        # A local socket leads to a process of the job, such as a worker of a loader; but who spoke
        # to the agent was repaired, and a copy from before knows nothing of that.
        address = args[1]
        if not isinstance(address, (str, bytes)):
            self._lose(f"a connection was made to {str(address)[:80]}")
        elif os.fsdecode(address).endswith("/control.sock"):
            self._lose("a crash was repaired")

    def _on_lost(self, args: Tuple[Any, ...]) -> None:
        self._lose(f"{args[0] if args else 'a file'} was removed, cut or linked")

    def _on_command(self, args: Tuple[Any, ...]) -> None:
        self._lose(f"another program was started ({str(args[:1])[:80]})")


def _path(value: Any) -> Optional[str]:
    """The absolute path that an event speaks of; None for a descriptor or what is no file."""
    if isinstance(value, int):
        return None
    path = os.path.abspath(os.fsdecode(value))
    return None if path.startswith(_NO_FILES) or _BYTECODE in path else path


def take_back(page: SnapshotPage, area: int) -> None:
    """Undoes what was kept, newest first.

    Raises:
        OSError: a file could not be put back.
    """
    for kind, size, name in reversed(list(page.effects(area))):
        if kind == APPENDED:
            if os.path.exists(name) and os.stat(name).st_size > size:
                os.truncate(name, size)
        elif kind == CREATED:
            if os.path.exists(name):
                os.unlink(name)
        elif kind == FOLDER and os.path.isdir(name) and not os.listdir(name):
            os.rmdir(name)


class OpenFile(NamedTuple):
    """An open regular file at a snapshot: its offset is shared with what goes on without us."""

    fd: int
    device: int
    inode: int
    writable: bool
    at_end: bool
    offset: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, fd: int, flags: int) -> Optional["OpenFile"]:
        """None for what is no regular file."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        writable = flags & os.O_ACCMODE != os.O_RDONLY
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        at_end = bool(flags & os.O_APPEND) or offset == status.st_size
        ids = (status.st_dev, status.st_ino)
        return cls(fd, *ids, writable, at_end, offset, status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Raises OSError where the file was changed in a way that cannot be undone."""
        status = os.fstat(self.fd)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            raise OSError(f"descriptor {self.fd} is another file now")
        if not self.writable or (status.st_size, status.st_mtime_ns) == (
            self.size,
            self.changed_ns,
        ):
            return
        if status.st_size <= self.size or not self.at_end:
            raise OSError(f"the file at descriptor {self.fd} was changed before its end")

    def put_back(self) -> None:
        """Cuts off what was added since, and goes back to where it stood; after `check`."""
        if self.writable and os.fstat(self.fd).st_size > self.size:
            os.ftruncate(self.fd, self.size)
        os.lseek(self.fd, self.offset, os.SEEK_SET)
