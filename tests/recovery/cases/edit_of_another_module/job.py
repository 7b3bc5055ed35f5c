import json

import units

read = []


def convert(texts):
    out = []
    for text in texts:
        read.append(text)
        out.append(float(units.normalise(text)))
    return out


values = convert(["1.5 s", "20 ms", "3 min", "7 us"])
print(values)
print("COUNTS", json.dumps({"read": len(read), "calls": units.calls}))
print("RESULT", json.dumps({"values": values}))
