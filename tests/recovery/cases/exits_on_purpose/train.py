import json
import sys


def stop(loss):
    try:
        if loss > 2:
            print("diverged, leaving on purpose")
            sys.exit(3)
    except Exception:
        print("not reached")
    finally:
        print("cleaned up")


print("RESULT", json.dumps({"losses": 3}))
for loss in (0.5, 1.5, 2.5, 3.5):
    stop(loss)
    print("loss", loss)
