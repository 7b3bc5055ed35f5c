import errno
import json
import os
from unittest import mock

FAULTS = 2
full = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) for _ in range(FAULTS)]
sync = mock.Mock(side_effect=[mock.DEFAULT, *full, *[mock.DEFAULT] * 9], wraps=os.fsync)


def append(file, step):
    file.write(f"{step} {step ** 2}\n")
    file.flush()
    sync(file.fileno())


with open("history.txt", "w") as file:
    for step in range(4):
        append(file, step)
        print("step", step, flush=True)
print("RESULT", json.dumps({"lines": open("history.txt").read().split()}))
