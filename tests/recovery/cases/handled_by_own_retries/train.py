import errno
import json
import os

import torch

tries = []


def flaky(n):
    tries.append(n)
    if len(tries) % 3:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return n


def patiently(function, *args):
    for attempt in range(5):
        try:
            return function(*args)
        except OSError as error:
            last = error.errno
    return -last


def save(path):
    try:
        torch.save({}, path)
    except RuntimeError:
        os.makedirs(os.path.dirname(path))
        torch.save({}, path)
        return "made"
    return "saved"


def forward(size):
    try:
        if size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.ones(size).sum().item()
    except torch.OutOfMemoryError:
        return forward(size // 2) + forward(size - size // 2)


values = [patiently(flaky, n) for n in range(4)]
kinds = [save("out/a.pt"), save("out/b.pt")]
print(values, kinds, forward(7), len(tries))
print("RESULT", json.dumps({"tries": len(tries), "values": values}))
