import json

from bar import bar


class Source:
    """Hands out numbers; reading one of them fails, and the next read is of the one after it."""

    def __init__(self, texts):
        self.texts, self.at = texts, 0

    def __iter__(self):
        return map(int, self.texts)


used = epochs = 0
total = 0
for epoch in range(3):
    epochs += 1
    source = Source(["1", "2", "x" if epoch == 1 else "3", "4", "5"])
    for number in bar(iter(source), f"epoch {epoch}"):
        used += 1
        total += number * (epoch + 1)
    print("epoch", epoch, "total", total)
print("COUNTS", json.dumps({"used": used, "epochs": epochs}))
print("RESULT", json.dumps({"total": total}))
