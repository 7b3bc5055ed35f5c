"""Texts of durations to seconds."""
FACTORS = {"s": 1.0, "ms": 1e-3}
calls = 0


def normalise(text):
    global calls
    calls += 1
    number, unit = text.split()
    if unit not in FACTORS:
        return text
    return str(float(number) * FACTORS[unit])
