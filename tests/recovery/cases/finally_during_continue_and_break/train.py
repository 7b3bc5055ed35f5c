import json

events = []


def sift(items, weights):
    kept = []
    for item in items:
        try:
            if item % 2:
                continue
            kept.append(item)
            if item > 6:
                break
        finally:
            events.append(item)
            events.append(weights[item])
        events.append("after")
    else:
        kept.append("else")
    return kept


weights = {n: n * n for n in (1, 2, 4, 5)}
kept = sift([1, 2, 3, 4, 5, 8, 6], weights)
print(kept, events)
print("COUNTS", json.dumps({"events": len(events)}))
print("RESULT", json.dumps({"kept": kept}))
