import json

from model import run
got = run([0, 1, 2, 1])
print(got)
print("RESULT", json.dumps({"got": got}))
