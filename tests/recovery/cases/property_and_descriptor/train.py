import functools
import json

counts = {"mean": 0, "spread": 0, "cached": 0, "set": 0}


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return getattr(obj, self.name)

    def __set__(self, obj, value):
        counts["set"] += 1
        setattr(obj, self.name, abs(value))


class Meter:
    scale = Positive()

    def __init__(self, values, scale):
        self.values = values
        self.scale = scale

    @property
    def mean(self):
        counts["mean"] += 1
        total = sum(self.values)
        return total / len(self.values)

    @property
    def spread(self):
        counts["spread"] += 1
        middle = self.mean
        return sum(abs(v - middle) for v in self.values)

    @functools.cached_property
    def summary(self):
        counts["cached"] += 1
        return {"spread": self.spread * self.scale, "n": len(self.values)}


meters = [Meter([1, 2, 6], 2), Meter([], -3), Meter([4], 1)]
out = [meter.summary for meter in meters] + [meters[0].summary]
print(out)
print("COUNTS", json.dumps(counts))
print("RESULT", json.dumps({"out": out}))
