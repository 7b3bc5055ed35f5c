import json

log = {"seen": 0, "kept": 0, "measured": 0, "elses": 0}


def measure(item):
    log["measured"] += 1
    width, height = item.split("x")
    return int(width) * int(height)


def survey(groups):
    areas = []
    for group in groups:
        for item in group:
            log["seen"] += 1
            areas.append(measure(item))
            log["kept"] += 1
        else:
            log["elses"] += 1
    return areas


areas = survey([["2x3", "4x"], ["5x5", "x"], ["1x9"]])
print(areas)
print("COUNTS", json.dumps(log))
print("RESULT", json.dumps({"areas": areas}))
