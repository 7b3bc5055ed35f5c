import json
import sys

raw = [3, "4", 5, "6", "7", 8, "9", 1, "2", "0"]


def depth():
    frame, n = sys._getframe(), 0
    while frame:
        frame, n = frame.f_back, n + 1
    return n


def total(values):
    depths, s, turns = [], 0, 0
    for value in values:
        turns += 1
        s = s + value
        depths.append(depth())
    return s, turns, depths


s, turns, depths = total(raw)
print("sum", s, "grew much:", depths[-1] > depths[0] + 12)
print("COUNTS", json.dumps({"turns": turns}))
print("RESULT", json.dumps({"sum": s}))
