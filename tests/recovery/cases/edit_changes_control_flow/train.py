import json

turns = 0


def pick(scores, wanted):
    """The names whose scores come nearest to those wanted."""
    global turns
    names = []
    for want in wanted:
        turns += 1
        best = min((abs(s - want), n) for n, s in scores.items() if n not in names)
        names.append(best[1])
    return names


scores = {"a": 0.1, "b": 0.5, "c": 0.9}
picked = [pick(scores, wanted) for wanted in ([0.2], [0.6, 0.4, 0.9, 0.1, 0.7], [1.0])]
print(picked)
print("COUNTS", json.dumps({"turns": turns}))
print("RESULT", json.dumps({"picked": picked}))
