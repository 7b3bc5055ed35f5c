import json
from dataclasses import dataclass

asked = []


@dataclass
class Noise:
    kind: str
    level: float


def next_step(queue):
    asked.append(len(queue))
    return queue.pop(0)


def apply(queue, value):
    while queue:
        match next_step(queue):
            case {"scale": factor}:
                value = [v * factor for v in value]
            case ["crop", start, *rest]:
                value = value[start:rest[0]]
            case Noise(kind="white", level=level):
                value = [v + level for v in value]
            case Noise(level=level) if level > 1:
                value = value[::-1]
            case str() as name:
                value = [len(name)] + value
            case _:
                asked.append("unknown")
    return value


steps = [{"scale": 2}, ["crop", 1, 5], Noise("white", 0.5), "flip", Noise("pink", 2), 7,
         ["crop", 1], {"scale": 3}]
print(apply(steps, [1, 2, 3, 4, 5, 6]))
print("COUNTS", json.dumps({"asked": len(asked)}))
print("RESULT", json.dumps({"asked": asked}))
