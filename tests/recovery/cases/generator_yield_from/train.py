import json

LINES = [f"{i} {i * i % 7}" for i in range(20)]
LINES[11] = "11 n/a"
log = {"parsed": 0, "chunks": 0, "closed": 0, "sent": 0}


def parse(lines):
    try:
        for line in lines:
            log["parsed"] += 1
            left, right = line.split()
            yield int(left), int(right)
    finally:
        log["closed"] += 1


def labelled(lines):
    yield ("start", 0)
    count = yield from ((f"row {a}", b) for a, b in parse(lines))
    yield ("end", count)


def chunks(rows, size):
    kept = []
    for row in rows:
        kept.append(row)
        if len(kept) == size:
            log["chunks"] += 1
            wanted = yield kept
            log["sent"] += wanted or 0
            kept = []
    yield kept


stream = chunks(labelled(LINES), 4)
seen = []
part = next(stream)
while True:
    seen.append(part)
    try:
        part = stream.send(len(seen))
    except StopIteration:
        break
print(len(seen), "chunks", seen[-1])
print("COUNTS", json.dumps(log))
print("RESULT", json.dumps({"sum": sum(v or 0 for part in seen for _, v in part)}))
