import json

trace = []


def close(name):
    trace.append(f"close {name}")


def inner(value):
    try:
        trace.append(f"open inner {value}")
        return 12 / value
    finally:
        close("inner")


def middle(values):
    out = []
    for value in values:
        try:
            out.append(inner(value))
            if value == 3:
                break
            trace.append("kept")
        finally:
            close(f"middle {value}")
    return out


def outer():
    try:
        return middle([1, 0, 2, 3, 4])
    finally:
        close("outer")


result = outer()
print("\n".join(trace))
print("COUNTS", json.dumps({"trace": len(trace)}))
print("RESULT", json.dumps({"result": result}))
