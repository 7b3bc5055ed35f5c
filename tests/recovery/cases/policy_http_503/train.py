import email.message
import io
import itertools
import json
import urllib.error
import urllib.request
from unittest import mock

FAULTS = 3
busy = [urllib.error.HTTPError("http://data.example/labels", 503, "Service Unavailable",
                               email.message.Message(), None) for _ in range(2)]
faults = [*busy, ConnectionResetError(104, "Connection reset by peer")][:FAULTS]
plan = itertools.chain(faults, (io.BytesIO(b'{"labels": [3, 1, 2]}') for _ in range(9)))
urllib.request.urlopen = mock.Mock(side_effect=plan)
asked = []


def labels(epoch):
    asked.append(epoch)
    with urllib.request.urlopen(f"http://data.example/labels?epoch={epoch}", timeout=5) as reply:
        return json.load(reply)["labels"]


total = 0
for epoch in range(3):
    total += sum((epoch + 1) * label for label in labels(epoch))
    print("epoch", epoch, total)
print("COUNTS", json.dumps({"asked": len(asked)}))
print("RESULT", json.dumps({"total": total}))
