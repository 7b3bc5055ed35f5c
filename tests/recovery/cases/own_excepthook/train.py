import json
import sys
import traceback


def hook(kind, value, tb):
    frames = traceback.extract_tb(tb)
    print("hook:", kind.__name__, value, [(f.name, f.lineno) for f in frames])


sys.excepthook = hook


def divide(a, b):
    return a % b


def main():
    for b in (3, 2, 1, 0):
        print(divide(7, b))


print("RESULT", json.dumps({"hook": "set"}))
main()
