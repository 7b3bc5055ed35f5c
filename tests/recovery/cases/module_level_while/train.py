import io
import json

sink = io.StringIO()
names = iter(["adam", "sgd", None, "lion", "stop", "never"])
rounds = skipped = 0
found = []
while rounds < 50:
    rounds += 1
    name = next(names)
    if name == "sgd":
        skipped += 1
        continue
    with sink if rounds == 1 else open("log.txt", "a") as log:
        log.write("round %d\n" % rounds)
        found += [name.upper()]
    if name == "stop":
        break
    del name
else:
    found.append("not reached")
print(found, rounds, skipped, sink.closed)
print("COUNTS", json.dumps({"rounds": rounds, "skipped": skipped}))
print("RESULT", json.dumps({"lines": len(open("log.txt").readlines()), "found": found}))
