import json

names = ["a", "b", "c", "d", "e", "f"]
values = ["0.5", "1.5", "two", "2.5", "-", "3.5"]


def total(names, values):
    out, turns = {}, 0
    for name, value in zip(names, map(float, values)):
        turns += 1
        out[name] = value
    return out, turns


out, turns = total(names, values)
print(out)
print("COUNTS", json.dumps({"turns": turns}))
print("RESULT", json.dumps(out))
