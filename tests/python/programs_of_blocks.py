"""Programs of recovery_programs.py: loops, branches, with, try, modules."""

from typing import Dict

PROGRAMS: Dict[str, str] = {}


def program(name: str, text: str) -> None:
    PROGRAMS[name] = text


program(
    "straight_line",
    """
    def f(a, *rest, key=3, **more):
        b = a + 1
        c = flaky()
        return a, b, c, rest, key, more
    result = f(1, 2, key=4, other=5)
    """,
)
program(
    "nested_loops",
    """
    def f():
        log = []
        for i in range(3):
            for j, (k, l) in enumerate(zip("ab", "cd")):
                log.append((i, j, k, l, flaky()))
            else:
                log.append("inner else")
        else:
            log.append("outer else")
        return log
    result = f()
    """,
)
program(
    "break_and_continue",
    """
    def f():
        log = []
        for i in range(10):
            if i == 1:
                continue
            flaky()
            if i == 3:
                break
            log.append(i)
        else:
            log.append("never")
        return log
    result = f()
    """,
)
program(
    "while_loops",
    """
    def f():
        log, i = [], 0
        while i < 5:
            i += 1
            if i == 2:
                continue
            flaky()
            j = 3
            while True:
                j -= flaky()
                if not j:
                    break
            log.append((i, j))
        else:
            log.append("else")
        return log
    result = f()
    """,
)
program(
    "branches_are_not_chosen_again",
    """
    asked = []
    def ask(value):
        asked.append(value)
        return value
    def f(x):
        if ask(x == 0):
            v = "no"
        elif ask(x == 1):
            v = flaky()
        else:
            v = "no"
        match x:
            case 0:
                v = "no"
            case int() if ask(True):
                v += flaky()
        return v
    result = f(1), asked
    """,
)
program(
    "guards_are_asked_again_alone",
    """
    asked = []
    class Fits:
        __match_args__ = ("value",)
        def __init__(self, value):
            self.value = value
    def subject(value):
        asked.append(("subject", value))
        return Fits(value) if value else None
    def f(value):
        match subject(value):
            case Fits(0) | Fits(1) if asked.append("first"):
                return "never"
            case Fits(0) | Fits(1) if flaky() > value and not asked.append("second"):
                return "small"
            case Fits(x) if (
                flaky() == x
            ):
                for i in range(2):
                    x += flaky()
                return x
            case None if flaky() and asked.append("none") is None:
                return "none"
            case _:
                pass
        return "other"
    async def g(value):
        match value, *[flaky()]:
            case [x, _, *_] if flaky() and x:
                return x
        return "no"
    def run(coroutine):
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
    result = [f(value) for value in (0, 1, 5)], run(g(3)), run(g(0)), asked
    match f(1):
        case str() as text if flaky() and text:
            result = *result, text
    """,
)
program(
    "with_stays_open",
    """
    log = []
    class Open:
        def __init__(self, name):
            self.name = name
        def __enter__(self):
            log.append(("in", self.name))
            return self
        def __exit__(self, *error):
            log.append(("out", self.name, error[0]))
    def f():
        with Open("a") as a, Open("b"):
            flaky()
            for i in range(2):
                with Open("c") as c:
                    flaky()
                    log.append((a.name, c.name, flaky()))
        log.append("after")
        with Open("d"):
            return flaky()
    result = f(), log
    """,
)
program(
    "a_manager_swallows_after_the_crash",
    """
    import contextlib
    log = []
    @contextlib.contextmanager
    def quiet():
        try:
            yield 3
        except KeyError as error:
            log.append(repr(error))
    def f():
        with quiet() as x:
            flaky()
            log.append(x)
            raise KeyError(x)
        with contextlib.suppress(OSError):
            flaky()
            flaky()
            log.append("not reached or once")
        flaky() if False else None
        return log
    result = len(f()) >= 2 and log[:2]
    """,
)
program(
    "finally_runs_once",
    """
    log = []
    def f(way):
        try:
            try:
                log.append(("try", way))
                flaky()
                log.append("body")
                if way == "return":
                    return way
                if way == "raise":
                    raise KeyError(way)
            finally:
                log.append("inner")
                flaky()
                log.append("inner end")
        except KeyError as error:
            log.append(str(error))
            flaky()
            log.append("handled")
        else:
            log.append("else")
            flaky()
            log.append("else end")
        finally:
            log.append("outer")
            flaky()
            log.append("outer end")
        return "end"
    result = [f(way) for way in ("on", "return", "raise")], log
    """,
)
program(
    "handlers_keep_what_they_handle",
    """
    import sys
    log = []
    def helper():
        flaky()
        return repr(sys.exc_info()[1])
    def f():
        try:
            raise KeyError("first")
        except KeyError as error:
            log.append(helper())
            flaky()
            log.append(repr(sys.exc_info()[1]))
            log.append(repr(error))
            try:
                flaky()
                raise
            except KeyError as again:
                log.append(again is error)
                flaky()
                log.append(repr(again.__context__))
        log.append(sys.exc_info())
        try:
            try:
                {}["second"]
            except KeyError:
                flaky()
                raise ValueError("third")
        except ValueError as error:
            log.append((repr(error), repr(error.__context__), repr(error.__cause__)))
    f()
    result = log
    """,
)
program(
    "own_exceptions_after_a_crash_have_no_strange_context",
    """
    def f():
        flaky()
        try:
            raise ValueError("own")
        except ValueError as error:
            return repr(error.__context__)
    def g():
        flaky()
        raise LookupError("out")
    try:
        got = "x"
        g()
    except LookupError as error:
        got = repr(error.__context__)
    result = f(), got
    """,
)
program(
    "module_level",
    """
    log = []
    class Open:
        def __enter__(self):
            log.append("in")
        def __exit__(self, *error):
            log.append(("out", error[0]))
    with Open():
        for epoch in range(2):
            log.append(flaky())
            for batch in "ab":
                try:
                    log.append((epoch, batch, flaky()))
                finally:
                    log.append("finally")
            else:
                log.append("else")
    i = 0
    while i < 3:
        i += flaky()
    try:
        raise KeyError(1)
    except KeyError as error:
        flaky()
        log.append(repr(error))
    class Body:
        value = [k for k in range(3)]
        other = flaky() if not log[0] == "x" else 0
    result = log, i, Body.value, Body.other, [n for n in dir() if not n.isidentifier()]
    """,
)
program(
    "walrus_star_and_delete",
    """
    def f(*args, **kwargs):
        a, *b = args
        if (n := len(b)) > 1:
            flaky()
            del a
        try:
            a
        except NameError as error:
            kind = type(error).__name__
        first, (second, *third) = b[0], (1, 2, 3)
        flaky()
        return b, n, kind, kwargs, first, second, third
    result = f(1, 2, 3, k=4)
    """,
)
program(
    "exception_groups",
    """
    log = []
    def f():
        try:
            flaky()
            raise ExceptionGroup("g", [KeyError(1), ValueError(2)])
        except* KeyError as group:
            log.append(len(group.exceptions))
        except* ValueError:
            log.append("value")
        return flaky()
    result = f(), log
    """,
)
