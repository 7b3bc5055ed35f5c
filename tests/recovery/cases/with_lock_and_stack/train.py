import contextlib
import json
import tempfile
import threading
from pathlib import Path

events = []
lock = threading.Lock()


@contextlib.contextmanager
def section(name):
    events.append(f"enter {name}")
    try:
        yield name.upper()
    finally:
        events.append(f"leave {name}")


def write(folder, names, sizes):
    with contextlib.ExitStack() as stack, lock:
        stack.callback(events.append, "callback")
        title = stack.enter_context(section("outer"))
        files = [stack.enter_context(open(Path(folder) / name, "w")) for name in names]
        with section("inner") as inner:
            for file, size in zip(files, sizes):
                file.write(f"{title} {inner}\n" * size)
                events.append(f"wrote {size} {lock.locked()}")
        events.append(str([f.closed for f in files]))


with tempfile.TemporaryDirectory() as folder:
    write(folder, ["a", "b", "c"], [2, "3", 1])
    lengths = [len(p.read_text().splitlines()) for p in sorted(Path(folder).iterdir())]
print("\n".join(events))
print("COUNTS", json.dumps({"events": len(events)}))
print("RESULT", json.dumps({"lengths": lengths, "free": not lock.locked()}))
