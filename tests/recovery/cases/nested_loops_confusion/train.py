import json
from collections import Counter

labels = ["cat", "dog", "owl", "cat", "owl", "dog", "dog", "cat"]
guesses = ["cat", "dog", "dog", "cat", "owl", "fox", "dog", "owl"]
table = {a: {b: 0 for b in ("cat", "dog", "owl")} for a in ("cat", "dog", "owl")}
tally = Counter()
for run in range(3):
    tally["runs"] += 1
    at = 0
    while at < len(labels):
        tally["whiles"] += 1
        for step in (1, 2):
            tally["fors"] += 1
            for truth, guess in zip(labels[at:at + step], guesses[at:at + step]):
                tally["inner"] += 1
                table[truth][guess] += run + 1
        at += 2
    else:
        tally["elses"] += 1
print("cells", {a: sum(row.values()) for a, row in table.items()})
print("COUNTS", json.dumps(tally))
print("RESULT", json.dumps(table))
