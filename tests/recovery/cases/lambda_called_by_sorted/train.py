import json

ranked = []


def rank(rows, by):
    ranked.append(by)
    order = sorted(rows, key=lambda row: -row[by])
    ranked.append(len(order))
    return [row["name"] for row in order]


rows = [{"name": "a", "f1": 0.3, "auc": 0.9}, {"name": "b", "f1": None, "auc": 0.7},
        {"name": "c", "f1": 0.8, "auc": 0.8}]
out = [rank(rows, by) for by in ("auc", "f1")]
print(out)
print("COUNTS", json.dumps({"ranked": len(ranked)}))
print("RESULT", json.dumps({"out": out}))
