import json

total = 10


class Box:
    __secret = 5

    def fill(self, first, /, *rest, key=2, **more):
        global total
        unset: int
        gone = 1
        del gone
        try:
            {}["x"]
        except KeyError as error:
            text = repr(error)
        kept = [n for n in rest if (last := n) > 1]
        adder = lambda n: n + shift  # noqa: E731
        a, (b, *c) = first, rest
        total += 1
        shift = self.__secret / more["by"]
        names = sorted(locals())
        try:
            unset += 1
        except UnboundLocalError:
            names.append("unset is unset")
        return names, kept, last, adder(key), text, a, b, c


out = Box().fill(1, 2, 3, 1, by=0)
print(out)
print("COUNTS", json.dumps({"total": total}))
print("RESULT", json.dumps({"out": out}))
