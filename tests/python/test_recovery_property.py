"""Random programs: the same trace with and without the transform, and after any one crash.

A program is a list of nested statements. Each `point(n)` writes n into the trace. Then, for some of
its points, the program runs once more with that point failing once, and is retried: the trace must
be the same but for the mark of the failure.
"""

from pathlib import Path
from typing import Any, List

import pytest
from crashing import retry, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MAX_POINTS_TRIED = 6

PREAMBLE = """
import contextlib

class Manager:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        point(("in", self.name))
        return self
    def __exit__(self, kind, value, trace):
        point(("out", self.name, kind and kind.__name__))
        return kind is KeyError

@contextlib.contextmanager
def managed(name):
    point(("begin", name))
    try:
        yield name
    finally:
        point(("end", name))

def numbers(n, name):
    for i in range(n):
        point((name, i))
        got = yield i
        if got is not None:
            point((name, "got", got))
    return name
"""


class Writer:
    """Makes the text of one random program."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.count = 0
        self.functions: List[str] = []

    def number(self) -> int:
        self.count += 1
        return self.count

    def block(self, depth: int, loop: bool, kind: str) -> List[str]:
        lines: List[str] = []
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, loop, kind)
        return lines

    def statement(self, depth: int, loop: bool, kind: str) -> List[str]:
        simple = ["point", "assign", "comprehension", "return"]
        if loop:
            simple += ["break", "continue"]
        if kind == "generator":
            simple += ["yield", "yield from"]
        compound = ["for", "while", "if", "with", "try", "finally", "call", "raise", "closure"]
        choice = self.draw(st.sampled_from(simple + (compound if depth < 3 else [])))
        n = self.number()
        return getattr(self, "s_" + choice.replace(" ", "_"))(n, depth, loop, kind)

    def indented(self, depth: int, loop: bool, kind: str) -> List[str]:
        return ["    " + line for line in self.block(depth + 1, loop, kind)]

    def s_point(self, n: int, *_: Any) -> List[str]:
        return [f"point({n})"]

    def s_assign(self, n: int, *_: Any) -> List[str]:
        return [f"a = point({n}) + a % 100"]

    def s_comprehension(self, n: int, *_: Any) -> List[str]:
        return [f"a += sum([x for x in range(3)]) + point({n})"]

    def s_return(self, n: int, depth: int, *_: Any) -> List[str]:
        return [f"if a % 3 == 1: return point({n})"] if depth else [f"point({n})"]

    def s_break(self, n: int, *_: Any) -> List[str]:
        return [f"if point({n}) % 2: break"]

    def s_continue(self, n: int, *_: Any) -> List[str]:
        return [f"if point({n}) % 2: continue"]

    def s_yield(self, n: int, *_: Any) -> List[str]:
        return [f"point({n})", f"b = yield {n}", "point(('sent', b))"]

    def s_yield_from(self, n: int, *_: Any) -> List[str]:
        return [f"b = yield from numbers(2, 'n{n}')", f"point(('from', b, {n}))"]

    def s_for(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        over = self.draw(st.sampled_from(["range(2)", f"numbers(2, 'g{n}')", "enumerate('ab')"]))
        lines = [f"for i{n} in {over}:", *self.indented(depth, True, kind)]
        return lines + (["else:", f"    point(({n}, 'else'))"] if n % 2 else [])

    def s_while(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        head = [f"w{n} = 0", f"while w{n} < 2:", f"    w{n} += 1"]
        return head + self.indented(depth, True, kind)

    def s_if(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        lines = [f"if point({n}) % 2:", *self.indented(depth, loop, kind)]
        return lines + ["else:", *self.indented(depth, loop, kind)]

    def s_with(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        made = self.draw(st.sampled_from([f"Manager({n})", f"Manager({n}), managed({n})"]))
        return [f"with {made}:", *self.indented(depth, loop, kind)]

    def s_try(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        lines = ["try:", *self.indented(depth, loop, kind)]
        if n % 2:
            lines += ["    raise KeyError"]
        lines += ["except KeyError as e:", *self.indented(depth, loop, kind)]
        return lines + (["else:", f"    point(({n}, 'else'))"] if n % 3 == 0 else [])

    def s_finally(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        lines = ["try:", *self.indented(depth, loop, kind)]
        return lines + ["finally:", f"    point(({n}, 'finally'))", f"    a += {n}"]

    def s_raise(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        caught = ["try:", f"    point({n})", "    raise KeyError", "except LookupError:"]
        return caught + [f"    point(({n}, 'caught'))"]

    def s_call(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        if len(self.functions) > 4:
            return [f"point({n})"]
        inner = self.draw(st.sampled_from(["function", "generator"]))
        self.functions.append(self.function(f"f{n}", inner, depth + 1))
        if inner == "generator":
            return [f"for v in f{n}(a): point(('item', v))"]
        # One effect a statement: a retried statement runs again as a whole.
        return [f"v = f{n}(a)", f"a = (v or 0) + point({n})"]

    def s_closure(self, n: int, depth: int, loop: bool, kind: str) -> List[str]:
        return [
            f"c{n} = 1",
            f"def g{n}():",
            f"    nonlocal c{n}",
            f"    c{n} += point({n})",
            f"    return c{n}",
            f"a += g{n}() + c{n}",
        ]

    def function(self, name: str, kind: str, depth: int) -> str:
        body = self.block(depth, False, kind)
        tail = ["yield a", "return a"] if kind == "generator" else ["return a"]
        lines = [f"def {name}(a):", *("    " + line for line in [*body, *tail])]
        return "\n".join(lines)

    def program(self) -> str:
        main = self.function("main", "function", 0)
        return "\n".join([PREAMBLE, *self.functions, main, "result = main(1)"])


@st.composite
def programs(draw: Any) -> str:
    return Writer(draw).program()


class Trace:
    """What `point` does: writes a trace, and fails once where it is told to."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: List[Any] = []
        self.fails_at = fails_at

    def __call__(self, what: Any) -> int:
        if len(self.seen) == self.fails_at:
            self.fails_at = -1
            raise OSError("once")
        if len(self.seen) > 2000:
            raise RecursionError("too long")
        self.seen.append(what)
        return what if isinstance(what, int) else 1


def outcome(folder: Path, text: str, trace: Trace, transform: bool) -> Any:
    try:
        spaces, _ = run(folder, text, retry, transform=transform, point=trace)
        return spaces["result"], trace.seen
    except Exception as error:
        return repr(error), trace.seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(text=programs(), start=st.integers(0, 1000))
def test_a_random_program_does_the_same(folder: Path, text: str, start: int) -> None:
    plain = outcome(folder, text, Trace(), False)
    assert outcome(folder, text, Trace(), True) == plain
    points = len(plain[1])
    for at in {(start + i * 7) % points for i in range(MAX_POINTS_TRIED)} if points else ():
        assert outcome(folder, text, Trace(at), True) == plain, f"fails at {at} of\n{text}"
