class Summary:
    def __init__(self):
        self.values, self.added = {}, 0

    def add(self, name, value):
        self.added += 1
        self.values[name] = round(value, 4)

    def mean(self):
        return sum(self.values.values()) / len(self.values)

    def text(self):
        width = max(map(len, self.values))
        return "\n".join(f"{k:{width}} {v}" for k, v in self.values.items())
