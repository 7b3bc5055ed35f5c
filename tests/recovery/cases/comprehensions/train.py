import json

RUNS = {"a": [0.5, 0.25], "b": [0.75], "c": [], "d": [1.0, 0.5, 0.0]}
calls = []


def table(runs, scale):
    calls.append(scale)
    total = sum(len(v) for v in runs.values())
    rows = [{name: round(scale * sum(v) / len(v), 4) for name, v in runs.items() if name > first}
            for first in sorted(runs)]
    return rows, total


result = []
for scale in (1, 10):
    rows, total = table(RUNS, scale)
    result.append([len(row) for row in rows] + [total])
    print(scale, rows[0])
print("COUNTS", json.dumps({"calls": len(calls)}))
print("RESULT", json.dumps({"rows": result}))
