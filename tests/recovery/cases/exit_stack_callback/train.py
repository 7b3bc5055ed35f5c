import contextlib
import json

events = []
sizes = {"a": 1, "c": 3}


@contextlib.contextmanager
def resource(name):
    events.append(f"take {name}")
    try:
        yield name
    finally:
        events.append(f"give {name}")
        events.append(sizes[name])


with contextlib.ExitStack() as stack:
    stack.callback(events.append, "last")
    for name in ("a", "b", "c"):
        stack.enter_context(resource(name))
    events.append("body")
print(events)
print("COUNTS", json.dumps({"events": len(events)}))
print("RESULT", json.dumps({"events": events}))
