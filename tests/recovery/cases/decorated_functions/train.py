import functools
import json

depth = {"outer": 0, "inner": 0, "calls": 0, "tries": 0}


def counted(key):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            depth[key] += 1
            result = function(*args, **kwargs)
            depth[key] += 100
            return result
        return inner
    return wrap


@functools.lru_cache(maxsize=None)
@counted("outer")
@counted("inner")
def rate(step, *, warm=4):
    """The rate of a step."""
    depth["calls"] += 1
    if step < warm:
        return step / warm
    return 1 / (step - 6)


rates = [rate(step % 12) for step in range(24)]
print(rate.__wrapped__.__name__, rate.__wrapped__.__doc__, rate.cache_info().hits)
print("COUNTS", json.dumps(depth))
print("RESULT", json.dumps({"rates": [round(abs(r), 5) for r in rates]}))
