import json

from pathlib import Path

class Row:
    def __init__(self, v):
        self.v = v

def save(path, history):
    with open(path, "w") as fh:
        json.dump(history, fh, indent=1)
        fh.write("\n")

history = {"epochs": [{"n": k, "loss": 1 / (k + 1)} for k in range(5)], "best": Row(3)}
save("history.json", history)
text = Path("history.json").read_text()
print(len(text))
print("RESULT", json.dumps(json.loads(text)))
