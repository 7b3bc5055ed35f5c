import contextlib
import inspect
import io
import json
import pickle
import sys
import traceback
import warnings
from dataclasses import dataclass, field


@dataclass
class Point:
    x: int = 1
    tags: "list[str]" = field(default_factory=list)

    def moved(self, by: int = 2, *, twice: bool = False) -> "Point":
        """Moves it."""
        return Point(self.x + by * (1 + twice))


def outer(a, b=3):
    kept = a + b

    def inner(c):
        return kept + c
    names = sorted(locals())
    return inner, names


def here():
    frame = sys._getframe()
    return frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)


def loops(n):
    out = []
    for i in range(n):
        with contextlib.nullcontext(i) as same:
            try:
                out.append(12 // (i - 1))
            except ZeroDivisionError:
                out.append(traceback.format_exc().splitlines()[-2].strip())
    return out, sorted(locals()), same


print(inspect.getsource(Point.moved).strip())
print(inspect.signature(Point.moved), Point.moved.__qualname__, Point.moved.__doc__)
inner, names = outer(1)
print(inner(1), names, inner.__qualname__, inner.__code__.co_freevars, outer.__defaults__)
print(here(), loops(3))
print(pickle.loads(pickle.dumps(Point(5))).moved(twice=True), __name__, __file__.endswith(".py"))
print(outer.__code__.co_firstlineno, outer.__code__.co_argcount, outer.__code__.co_name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("look here")
print(caught[0].lineno, str(caught[0].message))
stream = io.StringIO()
try:
    outer(1)[0]("x")
except TypeError:
    traceback.print_exc(file=stream)
print([line.strip() for line in stream.getvalue().splitlines() if "line" in line][0][-24:])
print(sorted(n for n in globals() if not n.startswith("__")), sys.argv[1:])
print("RESULT", json.dumps({"line": inspect.currentframe().f_lineno}))
