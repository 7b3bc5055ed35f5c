import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--in", dest="source")
parser.add_argument("--power", type=int)
args = parser.parse_args()
print(os.environ["GREETING"])
lines = written = 0
with open(args.source) as source, open("out.txt", "w") as out:
    for line in source:
        lines += 1
        value = 8 / int(line) ** args.power
        out.write(f"{value}\n")
        written += 1
print("COUNTS", json.dumps({"lines": lines, "written": written}))
print("RESULT", json.dumps({"values": open("out.txt").read().split()}))
