import json

log = {"turns": 0, "windows": 0}


def window(values, size):
    log["windows"] += 1
    picked = values[-size:]
    return sum(picked) / (len(picked) - size + size * bool(size))


def smooth(values):
    out = []
    for n in range(len(values)):
        log["turns"] += 1
        size = n % 4
        out.append(round(window(values[:n], size), 4))
    return out


out = smooth([1, 2, 4, 8, 16, 32, 64])
print(out)
print("COUNTS", json.dumps(log))
print("RESULT", json.dumps({"out": out}))
