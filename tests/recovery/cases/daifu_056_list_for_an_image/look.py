"""Shows what two trained filters make of one image."""
import json

import torch


class Viewer:
    shades = " .:-=+*#"

    def __init__(self, layer):
        self.layer = layer
        self.shown = 0

    def show(self, image):
        maps = torch.relu(self.layer(image))[0]
        for number, plane in enumerate(maps):
            self.shown += 1
            print("filter", number)
            for row in plane / plane.max():
                print("".join(self.shades[int(7 * v)] for v in row.tolist()).rstrip() + "|")
        return maps


torch.manual_seed(56)
layer = torch.nn.Conv2d(1, 2, 3, bias=False)
edges = torch.zeros(40, 1, 8, 8)
for k in range(40):
    edges[k, 0, :, k % 8:] = 1.0
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(30):
    out = layer(edges)
    loss = (out[:, 0] - (edges[:, 0, 1:7, 2:] - edges[:, 0, 1:7, :6])).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
cross = [[1.0 if r == c or r + c == 7 else 0.0 for c in range(8)] for r in range(8)]
viewer = Viewer(layer)
maps = viewer.show(cross)
print("COUNTS", json.dumps({"shown": viewer.shown}))
print("RESULT", json.dumps({"loss": round(loss.item(), 6), "sum": round(maps.sum().item(), 4)}))
