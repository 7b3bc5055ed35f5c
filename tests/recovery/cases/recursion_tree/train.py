"""A small decision tree on integers."""
import json
import math


class Tree:
    def __init__(self, depth):
        self.depth, self.nodes, self.gains = depth, 0, 0

    def entropy(self, rows):
        ones = sum(y for _, y in rows)
        parts = [ones / len(rows), 1 - ones / len(rows)]
        return -sum(p * math.log2(p) for p in parts if p)

    def gain(self, rows, cut):
        self.gains += 1
        low = [r for r in rows if r[0] < cut]
        high = [r for r in rows if r[0] >= cut]
        share = len(low) / len(rows)
        after = share * self.entropy(low) + (1 - share) * self.entropy(high)
        return self.entropy(rows) - after

    def grow(self, rows, depth=0):
        self.nodes += 1
        best = (0.0, -1)
        if depth < self.depth and len(rows) > 1:
            for cut in sorted({x for x, _ in rows})[1:] or [rows[0][0]]:
                best = max(best, (self.gain(rows, cut), cut))
        if best[1] < 0:
            return round(sum(y for _, y in rows) / max(len(rows), 1), 3)
        parts = []
        for side in (lambda x: x < best[1], lambda x: x >= best[1]):
            parts.append(self.grow([r for r in rows if side(r[0])], depth + 1))
        return {"cut": best[1], "parts": parts}


tree = Tree(4)
rows = [(x * x % 13, int(x % 3 == 0)) for x in range(30)]
grown = tree.grow(rows)
print("nodes", tree.nodes)
print("COUNTS", json.dumps({"nodes": tree.nodes, "gains": tree.gains}))
print("RESULT", json.dumps({"tree": grown}))
