"""Sizes of the models, by name."""
SPEC = "tiny=2x4, small=4x8, base=8x, large=16x32"

SIZES = {}
made = 0
for entry in SPEC.split(", "):
    made += 1
    name, _, size = entry.partition("=")
    layers, width = map(int, size.split("x"))
    SIZES[name] = layers * width


def size(name):
    return SIZES[name]
