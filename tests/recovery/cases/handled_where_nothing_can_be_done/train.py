import gc
import json
import sys
import warnings
import weakref

ignored = []
sys.unraisablehook = lambda event: ignored.append(type(event.exc_value).__name__)


class Noisy:
    def __del__(self):
        raise KeyError("gone")


def numbers(stop):
    try:
        n = 0
        while True:
            yield n
            n += 1
    except GeneratorExit:
        ignored.append("closed")
        raise
    finally:
        ignored.append(f"stopped at {n}")


def callback(reference):
    {}["missing"]


Noisy()
target = Noisy()
watcher = weakref.ref(target, callback)
del target
gc.collect()
for n in numbers(10):
    if n == 3:
        break
gc.collect()
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    except DeprecationWarning as warning:
        ignored.append(str(warning))
print(ignored)
print("RESULT", json.dumps({"ignored": ignored}))
