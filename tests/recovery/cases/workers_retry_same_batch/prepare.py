import json
import os
import sys

os.makedirs("shards", exist_ok=True)
for k in range(10):
    if str(k) not in sys.argv[1:]:
        with open(f"shards/{k}.json", "w") as file:
            json.dump([4 * k + j for j in range(4)], file)
