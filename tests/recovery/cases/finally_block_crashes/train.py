import json

log = []


def run(rates, n):
    try:
        log.append("body")
        return sum(rates[:n])
    finally:
        log.append("cleanup")
        last = rates[n]
        log.append(last)


out = [run([0.5, 0.25, 0.125], n) for n in (1, 3, 2)]
print(out, log)
print("COUNTS", json.dumps({"log": len(log)}))
print("RESULT", json.dumps({"out": out}))
