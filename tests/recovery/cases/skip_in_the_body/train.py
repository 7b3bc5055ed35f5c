import json

events = []


class Timer:
    def __enter__(self):
        events.append("in")

    def __exit__(self, *error):
        events.append("out")


def run(values):
    roots = []
    for value in values:
        with Timer():
            try:
                events.append(value)
                root = 10 // value
                roots.append(root)
            finally:
                events.append("finally")
        events.append("next")
    return roots


roots = run([5, 0, 2])
print(events)
print("COUNTS", json.dumps({"events": len(events)}))
print("RESULT", json.dumps({"roots": roots}))
