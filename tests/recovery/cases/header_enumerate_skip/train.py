import json

LINES = [json.dumps({"x": i, "y": i * i}) for i in range(12)]
LINES[4] = '{"x": 4, "y": '
LINES[9] = "null,"
bodies = xs = 0
for epoch in range(2):
    for n, row in enumerate(map(json.loads, LINES if epoch else LINES[:4])):
        bodies += 1
        xs += row["x"]
        last = n
    print("epoch", epoch, "last x", row["x"])
print("COUNTS", json.dumps({"bodies": bodies}))
print("RESULT", json.dumps({"xs": xs, "last": row}))
