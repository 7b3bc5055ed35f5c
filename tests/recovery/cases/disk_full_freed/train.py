import json
from pathlib import Path

written = 0


def checkpoint(state, path):
    global written
    text = json.dumps(state)
    Path(path).write_text(text)
    written += 1


weights = [1.0, 2.0]
for step in range(5):
    weights = [w - 0.1 * (w - step) for w in weights]
    checkpoint({"step": step, "weights": weights}, f"ckpt{step % 2}.json")
    print("step", step)
print("COUNTS", json.dumps({"written": written}))
print("RESULT", json.dumps({"weights": weights, "kept": json.load(open("ckpt1.json"))["step"]}))
