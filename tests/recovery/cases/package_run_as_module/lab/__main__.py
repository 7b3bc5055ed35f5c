import json

from .metrics import Summary
from .stages import stages

summary = Summary()
for name, stage in stages():
    summary.add(name, stage())
print(summary.text())
print("COUNTS", json.dumps({"added": summary.added}))
print("RESULT", json.dumps({"mean": summary.mean()}))
