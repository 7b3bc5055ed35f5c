import collections.abc
import contextlib
import json
import os
import queue
import unittest


class Config(collections.abc.Mapping):
    def __init__(self, values):
        self.values = values

    def __getitem__(self, key):
        return self.values[key]

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __getattr__(self, name):
        raise AttributeError(f"no option {name}")

    @property
    def broken(self):
        return self.values["x"].name


class Countdown:
    def __getitem__(self, i):
        if i > 3:
            raise IndexError(i)
        return 3 - i


class Steps:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 4:
            raise StopIteration
        return self.n


def deep(n, error):
    return deep(n - 1, error) if n else exec("raise error", {"error": error})


class Checks(unittest.TestCase):
    def test_it(self):
        with self.assertRaises(ZeroDivisionError):
            deep(3, ZeroDivisionError())


found = []
config = Config({"x": 1})
found.append(config.get("y", "default"))
found.append(("y" in config, "x" in config))
found.append((hasattr(config, "broken"), getattr(config, "lr", None), hasattr(config, "values")))
found.append((list(Countdown()), 2 in Countdown(), list(Steps()), sum(Steps())))
jobs = queue.Queue()
try:
    jobs.get_nowait()
except queue.Empty:
    found.append("empty")
with contextlib.suppress(OSError, ValueError):
    deep(5, ValueError("suppressed"))
for kind in (KeyError("k"), TypeError("t"), OSError(5, "io")):
    try:
        deep(4, kind)
    except (LookupError, TypeError) as error:
        found.append(type(error).__name__)
    except Exception as error:
        found.append(repr(error))
try:
    int("12a")
except ValueError:
    found.append(int("12a", 16))
found.append(next(iter([]), "nothing"))
found.append(os.environ.get("NOT_SET_AT_ALL"))
result = unittest.TextTestRunner(stream=open(os.devnull, "w")).run(Checks("test_it"))
found.append(result.wasSuccessful())
print(found)
print("RESULT", json.dumps({"found": len(found)}))
