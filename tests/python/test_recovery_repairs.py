"""What each repair does, as contract.md has it."""

import textwrap
from pathlib import Path
from typing import Any, List

import pytest
from crashing import Flaky, run
from paramedic.recovery.crash import Crash, Repair


def always(repair: Repair) -> Any:
    return lambda crash: repair


def diff(old: str, new: str, crash: Crash) -> str:
    """The edit that makes `new` of `old`, both indented as in the test."""
    import difflib

    name = Path(crash.frames[-1].file).name
    lines = [textwrap.dedent(text).splitlines(keepends=True) for text in (old, new)]
    return "".join(difflib.unified_diff(lines[0], lines[1], f"a/{name}", f"b/{name}"))


def edits(*texts: str) -> Any:
    """A Decider that makes the first text into the second, that into the third, and so on."""
    pairs = iter(zip(texts, texts[1:]))

    def answer(crash: Crash) -> Any:
        pair = next(pairs, None)
        return pair and Repair("edit", patch=diff(*pair, crash))

    return answer


def edited(folder: Path, *texts: str, **names: Any) -> Any:
    return run(folder, texts[0], edits(*texts), **names)


def test_an_abort_is_asked_for_once_whatever_is_raised_on_the_way_out(tmp_path: Path) -> None:
    asked: List[str] = []

    def answer(crash: Crash) -> Repair:
        asked.append(repr(crash.exception))
        return Repair("abort")

    source = """
    class Closing:
        def __enter__(self): return self
        def __exit__(self, *error): raise OSError("while closing")
    def f(): return {}["x"]
    def g():
        try: f()
        except KeyError as error: raise ValueError("translated") from error
    def h():
        try:
            with Closing(): g()
        finally:
            raise TypeError("cleaning up") from None
    h()
    """
    with pytest.raises(TypeError, match="cleaning up"):
        run(tmp_path, source, answer)
    assert asked == ["KeyError('x')"]


# ---------------------------------------------------------------------- skip, return, action


def test_skip_takes_the_next_iteration_of_the_innermost_loop(tmp_path: Path) -> None:
    source = """
    log = []
    class Open:
        def __enter__(self): log.append("in")
        def __exit__(self, *error): log.append(("out", error[0]))
    def f():
        for i in range(3):
            for j in range(3):
                with Open():
                    try:
                        if (i, j) == (1, 1):
                            raise ValueError
                        log.append((i, j))
                    finally:
                        log.append("finally")
    f()
    """
    spaces, decider = run(tmp_path, source, always(Repair("skip")))
    plain = []
    for i in range(3):
        for j in range(3):
            plain += ["in", *([] if (i, j) == (1, 1) else [(i, j)]), "finally", ("out", None)]
    assert spaces["log"] == plain
    assert [one.kind for one in decider.resumes] == ["skip"]


def test_skip_walks_up_to_a_caller_with_a_loop(tmp_path: Path) -> None:
    source = """
    log = []
    def inner(x):
        try:
            if x == 1:
                raise ValueError(x)
            return x
        finally:
            log.append(("left", x))
    def outer(x):
        return inner(x) + 1
    def f():
        for x in range(3):
            log.append(outer(x))
        return "end"
    result = f()
    """
    spaces, _ = run(tmp_path, source, always(Repair("skip")))
    assert spaces["log"] == [("left", 0), 1, ("left", 1), ("left", 2), 3]
    assert spaces["result"] == "end"


def test_skip_in_a_while_loop_and_at_module_level(tmp_path: Path) -> None:
    source = """
    log, i = [], 0
    while i < 4:
        i += 1
        log.append(1 / (i - 2))
    else:
        log.append("else")
    """
    spaces, _ = run(tmp_path, source, always(Repair("skip")))
    assert spaces["log"] == [-1.0, 1.0, 0.5, "else"]


def test_skip_drops_the_item_that_a_header_failed_to_get(tmp_path: Path) -> None:
    source = """
    class Items:
        n = 0
        def __iter__(self): return self
        def __next__(self):
            self.n += 1
            if self.n > 4: raise StopIteration
            return self.n
    def check(x):
        if x == 2:
            raise OSError(x)
        return x
    def f():
        return [x for x in []] or list_of(map(check, Items()))
    def list_of(items):
        out = []
        for x in items:
            out.append(x)
        else:
            out.append("else")
        return out
    result = f()
    """

    def answer(crash: Crash) -> Repair:
        return Repair("skip")

    spaces, decider = run(tmp_path, source, answer)
    assert spaces["result"] == [1, 3, 4, "else"]
    assert len(decider.crashes) == 1


def test_skip_without_a_loop_is_refused(tmp_path: Path) -> None:
    source = """
    def f():
        return flaky()
    result = f()
    """
    answers = [Repair("skip"), Repair("rewind"), Repair("retry")]
    spaces, decider = run(tmp_path, source, answers, flaky=Flaky())
    assert spaces["result"] == 1
    assert len(decider.reasons) == 2 and all("no loop" in one for one in decider.reasons)


def test_return_makes_the_frame_return_a_value(tmp_path: Path) -> None:
    source = """
    log = []
    def inner(x):
        try:
            return 1 / x
        finally:
            log.append("finally")
    def outer(x):
        y = 7
        return inner(x) + 1
    result = outer(0), outer(0), outer(1)
    """
    answers = [Repair("return", value="x + 5"), Repair("return", value="y", frame=-2)]
    spaces, _ = run(tmp_path, source, answers)
    assert spaces["result"] == (6, 7, 2.0)
    assert spaces["log"] == ["finally"] * 3


def test_action_sets_locals_shared_names_and_globals(tmp_path: Path) -> None:
    source = """
    limit = 0
    def f():
        a, b = 0, 0
        def read():
            return b
        total = 1 / a + 1 / b + 1 / limit
        return total, read(), [k for k in (a, b)]
    result = f()
    """
    code = "import math\na = int(math.sqrt(4))\nb = [a for _ in range(1)][0] + 2\nlimit = 1"
    spaces, _ = run(tmp_path, source, always(Repair("action", code=code)))
    assert spaces["result"] == (1 / 2 + 1 / 4 + 1, 4, [2, 4])
    assert spaces["limit"] == 1


def test_action_leaves_globals_alone_that_the_function_does_not_use(tmp_path: Path) -> None:
    source = """
    w, used, other = 1, 0, 2
    def f():
        return 1 / used
    result = f()
    """
    code = "import math as w\nused = 4\nglobal other\nother = 3"
    spaces, _ = run(tmp_path, source, always(Repair("action", code=code)))
    assert (spaces["result"], spaces["w"], spaces["other"]) == (0.25, 1, 3)


def test_an_edited_decorator_counts(tmp_path: Path) -> None:
    before = """
    def twice(f): return lambda x: 2 * f(x)
    @twice
    def g(x):
        return x
    def f():
        return g(1 / 0)
    result = f()
    """
    after = before.replace("    @twice\n", "").replace("1 / 0", "1 / 1")
    spaces, _ = edited(tmp_path, before, after)
    assert spaces["result"] == 1.0


def test_action_in_a_caller_s_frame(tmp_path: Path) -> None:
    source = """
    def inner(box):
        return 1 / box[0]
    def outer():
        box, more = [0], 1
        value = inner(box)
        return value, more
    result = outer()
    """
    answer = always(Repair("action", code="box[0] = 4; more = 9", frame=-2))
    spaces, _ = run(tmp_path, source, answer)
    assert spaces["result"] == (0.25, 9)


def test_a_bad_repair_returns_to_the_pause(tmp_path: Path) -> None:
    source = """
    def f():
        return flaky()
    result = f()
    """
    answers = [
        Repair("action", code="1 +"),
        Repair("action", code="1 / 0"),
        Repair("return", value="nobody"),
        Repair("edit", patch="no patch"),
        Repair("edit", patch="--- a/other.py\n+++ b/other.py\n@@ -1 +1 @@\n-a\n+b\n"),
        Repair("unheard of"),
        Repair("action", code="x = 1", frame=9),
        Repair("retry"),
    ]
    spaces, decider = run(tmp_path, source, answers, flaky=Flaky())
    assert spaces["result"] == 1
    assert len(decider.reasons) == 7, decider.reasons


def test_a_job_that_nobody_repairs_fails_as_it_would_have(tmp_path: Path) -> None:
    source = """
    log = []
    def f():
        try:
            flaky()
        finally:
            log.append("finally")
    f()
    """
    with pytest.raises(OSError, match="transient") as caught:
        run(tmp_path, source, [], flaky=Flaky())
    names = [one.name for one in caught.traceback]
    assert names[-3:] == ["<module>", "f", "__call__"]


# ---------------------------------------------------------------------- rewind


def test_rewind_runs_the_iteration_of_the_innermost_loop_again(tmp_path: Path) -> None:
    source = """
    log = []
    class Open:
        def __enter__(self): log.append("in")
        def __exit__(self, *error): log.append("out")
    def f():
        for i in range(3):
            log.append(i)
            with Open():
                flaky()
    f()
    """
    flaky = Flaky()
    spaces, _ = run(tmp_path, source, always(Repair("rewind")), flaky=flaky)
    assert spaces["log"] == [x for i in range(3) for x in (i, "in", "out", i, "in", "out")]


def test_rewind_from_a_callee(tmp_path: Path) -> None:
    source = """
    log = []
    def step(x):
        log.append(("step", x))
        flaky()
    for x in "ab":
        log.append(x)
        step(x)
    """
    spaces, _ = run(tmp_path, source, always(Repair("rewind")), flaky=Flaky())
    assert spaces["log"] == [x for i in "ab" for x in (i, ("step", i)) * 2]


# ---------------------------------------------------------------------- edit

BEFORE = """
log = []
def helper(x):
    return x
def f():
    for i in range(3):
        log.append(("start", i))
        a = helper(i)
        b = 1 / (a - 1)
        log.append((a, b))
    log.append("old end")
    return "end"
result = f()
"""


def test_an_edit_goes_on_at_the_edited_statement(tmp_path: Path) -> None:
    after = BEFORE.replace("1 / (a - 1)", "2 / (a - 3)").replace("old end", "new end")
    spaces, decider = edited(tmp_path, BEFORE, after)
    starts = [("start", i) for i in range(3)]
    assert spaces["log"] == [
        starts[0],
        (0, -1.0),
        starts[1],
        (1, -1.0),
        starts[2],
        (2, -2.0),
        "new end",
    ]
    assert decider.where == ["f:9"]


def test_lines_inserted_before_the_failing_statement_run(tmp_path: Path) -> None:
    after = BEFORE.replace(
        "        b = 1", "        log.append('new')\n        a += 5\n        b = 1"
    )
    spaces, _ = edited(tmp_path, BEFORE, after)
    assert spaces["log"].count(("start", 1)) == 1
    assert spaces["log"][3:5] == ["new", (6, 1 / 5)]


def test_the_failing_statement_may_be_wrapped_or_removed(tmp_path: Path) -> None:
    wrapped = BEFORE.replace(
        "        b = 1 / (a - 1)\n",
        "        try:\n            b = 1 / (a - 1)\n"
        "        except ZeroDivisionError:\n            b = None\n",
    )
    spaces, _ = edited(tmp_path, BEFORE, wrapped)
    assert (1, None) in spaces["log"]
    removed = BEFORE.replace("        b = 1 / (a - 1)\n", "").replace("(a, b)", "(a,)")
    spaces, _ = edited(tmp_path, BEFORE, removed)
    assert (1,) in spaces["log"] and (2,) in spaces["log"]


def test_a_statement_before_the_failing_one_is_not_run_again(tmp_path: Path) -> None:
    after = BEFORE.replace("a = helper(i)", "a = helper(i) + 0").replace("(a - 1)", "(a - 1 or 7)")
    spaces, _ = edited(tmp_path, BEFORE, after)
    assert spaces["log"].count(("start", 1)) == 1
    assert (1, 1 / 7) in spaces["log"]


def test_new_functions_imports_and_constants_are_defined(tmp_path: Path) -> None:
    after = BEFORE.replace("log = []", "import math\nLIMIT = 4\nlog = []").replace(
        "def f():", "def safe(x):\n    return math.sqrt(LIMIT) if not x else x\n\n\ndef f():"
    )
    after = after.replace("1 / (a - 1)", "1 / safe(a - 1)")
    spaces, _ = edited(tmp_path, BEFORE, after)
    assert (1, 0.5) in spaces["log"] and spaces["LIMIT"] == 4


def test_a_caller_alone_edited_goes_on_at_its_own_statement(tmp_path: Path) -> None:
    before = """
    log = []
    def inner(x):
        try:
            return 1 / x
        finally:
            log.append("left")
    def outer(x):
        log.append("outer")
        y = inner(x)
        return y
    result = outer(0)
    """
    after = before.replace("inner(x)\n        return y", "inner(x + 2)\n        return y * 2")
    spaces, _ = edited(tmp_path, before, after)
    assert spaces["result"] == 1.0
    assert spaces["log"] == ["outer", "left", "left"]


def test_functions_that_others_hold_are_replaced(tmp_path: Path) -> None:
    before = """
    import functools
    class Model:
        scale = 1
        def helper(self, x): return x
        @property
        def shown(self): return self.helper(1)
        @staticmethod
        def plain(x): return x
    def wrap(f):
        @functools.wraps(f)
        def call(*args): return f(*args)
        return call
    @wrap
    def decorated(x): return x
    def make():
        n = 1
        def inner(x): return x + n
        return inner
    held = [decorated, make(), Model.plain, Model().helper]
    def f():
        1 / 0
        return [one(1) for one in held], Model().shown, Model.scale, hasattr(Model, "new")
    result = f()
    """
    after = (
        before.replace("def helper(self, x): return x", "def helper(self, x): return x + 100")
        .replace("def plain(x): return x", "def plain(x): return x + 200")
        .replace("def decorated(x): return x", "def decorated(x): return x + 300")
        .replace("return x + n", "return x + n + 400")
        .replace("1 / 0", "pass")
        .replace("scale = 1", "scale = 2\n        def new(self): return super().__repr__()")
    )
    spaces, decider = edited(tmp_path, before, after)
    assert not decider.reasons
    assert spaces["result"] == ([301, 402, 201, 101], 101, 2, True)


def test_a_later_crash_and_edit_work_on_the_edited_source(tmp_path: Path) -> None:
    second = BEFORE.replace("log = []", "log = []\n# a line more").replace(
        "1 / (a - 1)", "1 / (a - 1 or 2) + 1 / (a - 2)"
    )
    third = second.replace("1 / (a - 2)", "1 / (a - 2 or 4)")
    spaces, decider = edited(tmp_path, BEFORE, second, third)
    assert decider.where == ["f:9", "f:10"]
    assert spaces["log"][-2] == (2, 1.25)


def test_patches_against_the_original_file_still_apply(tmp_path: Path) -> None:
    """The second patch does not know of the first."""
    before = """
    def f(x):
        return 1 / x
    def g(x):
        return {}[x]
    result = f(0), g(1)
    """
    texts = iter(
        [
            before.replace("1 / x", "1 / (x or 1)").replace(
                "def f(x):", "def f(x):\n        y = 1"
            ),
            before.replace("{}[x]", "{}.get(x)"),
        ]
    )
    spaces, _ = run(tmp_path, before, lambda c: Repair("edit", patch=diff(before, next(texts), c)))
    assert spaces["result"] == (1.0, None)


def test_control_flow_may_change(tmp_path: Path) -> None:
    before = """
    log = []
    class Open:
        def __enter__(self): log.append("in")
        def __exit__(self, *error): log.append("out")
    def f():
        for i in range(3):
            log.append(i)
            1 / (i - 1)
        return log
    result = f()
    """
    after = """
    log = []
    class Open:
        def __enter__(self): log.append("in")
        def __exit__(self, *error): log.append("out")
    def f():
        with Open():
            for i in range(3):
                log.append(i)
                if i == 1:
                    break
                1 / (i - 1)
        return log
    result = f()
    """
    spaces, _ = edited(tmp_path, before, after)
    assert spaces["result"] == [0, 1, "in", "out"]


def test_going_on_at_an_earlier_statement(tmp_path: Path) -> None:
    source = """
    log = []
    def f():
        log.append("first")
        for i in range(2):
            log.append(("fwd", i))
            with open(__file__) as file:
                x = flaky()
            log.append(file.closed)
        return "end"
    result = f()
    """
    where = iter([6, 4, None])

    def answer(crash: Crash) -> Repair:
        line = next(where)
        at = (crash.frames[-1].file, line) if line else None
        return Repair("retry", at=at)

    spaces, decider = run(tmp_path, source, answer, flaky=Flaky())
    one = [("fwd", 0), ("fwd", 0), True, ("fwd", 1)]
    assert spaces["log"] == ["first", *one, "first", ("fwd", 0), True, ("fwd", 1), True]
    assert not decider.reasons


def test_a_place_that_cannot_be_reached_is_refused(tmp_path: Path) -> None:
    source = """
    def f():
        for i in range(2):
            x = i
        return flaky()
    result = f()
    """
    lines = iter([4, 99, None])

    def answer(crash: Crash) -> Repair:
        line = next(lines)
        return Repair("retry", at=(crash.frames[-1].file, line) if line else None)

    _, decider = run(tmp_path, source, answer, flaky=Flaky())
    assert "not in" in decider.reasons[0] and "no frame" in decider.reasons[1]


REFUSED = {
    "it does not apply": ("b = 1 / (a - 2)", "b = 2"),
    "it breaks the syntax": ("b = 1 / (a - 1)", "b = = 1"),
    "it uses a name that nobody defines": ("1 / (a - 1)", "1 / undefined_name"),
    "it changes nothing": ("b = 1 / (a - 1)", "b = 1 / (a - 1)"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_edit_is_refused_when(tmp_path: Path, why: str) -> None:
    old, new = REFUSED[why]
    seen: List[str] = []

    def answer(crash: Crash) -> Any:
        if seen:
            return Repair("action", code="a = 5")
        seen.append("")
        name = Path(crash.frames[-1].file).name
        hunk = f"@@ -9,1 +9,1 @@\n-        {old}\n+        {new}\n"
        return Repair("edit", patch=f"--- a/{name}\n+++ b/{name}\n{hunk}")

    spaces, decider = run(tmp_path, BEFORE, answer)
    assert len(decider.reasons) == 1, decider.reasons
    assert spaces["result"] == "end" and (5, 0.25) in spaces["log"]
