import json

trace = []


def load(text):
    try:
        trace.append("try")
        value = json.loads(text)
        trace.append(len(value["name"]))
    except json.JSONDecodeError as error:
        trace.append(f"broken at {error.pos}")
        value = {"name": "?", "size": len(text) // error.colno}
        trace.append(value["shape"])
    else:
        trace.append("else")
        value["size"] = 10 // value["rows"]
    finally:
        trace.append("finally")
    return value["size"]


sizes = [load(text) for text in ('{"name": "a", "rows": 5}', '{"name": "b", "rows": 0}',
                                 '{"rows": 2}', "{broken")]
print(trace)
print("COUNTS", json.dumps({"trace": len(trace)}))
print("RESULT", json.dumps({"sizes": sizes}))
