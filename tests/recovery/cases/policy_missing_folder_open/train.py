import csv
import json
from pathlib import Path

ROOT = Path("reports")
calls = {"write": 0, "rows": 0}


def write(name, rows):
    calls["write"] += 1
    with open(ROOT / "2026" / f"{name}.csv", "w", newline="") as file:
        table = csv.writer(file)
        for row in rows:
            table.writerow(row)
            calls["rows"] += 1
    return name


names = [write(name, [(k, k * len(name)) for k in range(4)]) for name in ("loss", "accuracy")]
print(names)
print("COUNTS", json.dumps(calls))
print("RESULT", json.dumps({"size": sum(p.stat().st_size for p in ROOT.rglob("*.csv"))}))
