"""Where a frame goes on that would only fail again: after edits of what has run, after `raise`."""

from pathlib import Path
from typing import Any

import pytest
from crashing import Flaky, run
from paramedic.recovery.crash import Repair
from test_recovery_repairs import edited

LOOP = """
log = []
def f(rows):
    total = 0
    for row in rows:
        log.append(row)
        width = len(row)
        if width < 3:
            step = width - 2
            total += 10 // step
    return total
result = f(["abc", "a", "ab", "abcd"])
"""


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        ("step = width - 2", "step = width - 2 or 5", -8),
        ("width = len(row)", "width = len(row) + 2 * (row == 'ab')", -10),
        ("if width < 3:", "if width < 2:", -10),
    ],
    ids=["above it", "outside of its block", "the branch around it"],
)
def test_an_edit_above_the_failing_statement_goes_on_there(
    tmp_path: Path, before: str, after: str, result: int
) -> None:
    ended, decider = edited(tmp_path, LOOP, LOOP.replace(before, after))
    assert ended["result"] == result and not decider.reasons
    assert ended["log"] == ["abc", "a", "ab", "abcd"] and len(decider.crashes) == 1


def test_a_variable_that_the_edit_adds_further_up_has_its_value(tmp_path: Path) -> None:
    fixed = LOOP.replace("width = len", "least = 4\n        width = len")
    fixed = fixed.replace("// step", "// (step or least)")
    ended, decider = edited(tmp_path, LOOP, fixed)
    assert ended["result"] == -8 and not decider.reasons and len(ended["log"]) == 4


def test_a_local_constant_that_is_edited_counts_where_it_has_not_been_changed(
    tmp_path: Path,
) -> None:
    source = """
    log = []
    def f(values):
        weights, names = {"a": 1}, ["x"]
        factors = {"a": 1}
        seen = [0]
        for value in values:
            seen.append(value)
            log.append(factors[value])
        return seen, sum(log)
    result = f("ab")
    """
    fixed = source.replace('factors = {"a": 1}', 'factors = {"a": 1, "b": 5}')
    fixed = fixed.replace("seen = [0]", "seen = [7]")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == ([0, "a", "b"], 6) and not decider.reasons
    assert len(decider.crashes) == 1


def test_what_replaces_the_branch_that_raised_runs(tmp_path: Path) -> None:
    source = """
    log = []
    def f(value):
        log.append(value)
        if value > 2:
            if not log[0]:
                raise ValueError(value)
        log.append("checked")
        return value
    result = [f(0), f(3)]
    """
    old = "if value > 2:\n            if not log[0]:\n                raise ValueError(value)\n"
    fixed = source.replace(old, "value = min(value, 2)\n")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == [0, 2] and not decider.reasons
    assert ended["log"] == [0, "checked", 3, "checked"] and len(decider.crashes) == 1


@pytest.mark.parametrize("guard", [" if x and 10 // x > 1", ""], ids=["another", "none"])
def test_an_edited_guard_is_asked_without_evaluating_its_subject_again(
    tmp_path: Path, guard: str
) -> None:
    source = """
    asked = []
    def subject(value):
        asked.append(value)
        return value
    def f(value):
        match subject(value):
            case str() if asked.append("guard"):
                return "never"
            case int(x) if 10 // x > 1:
                return "large"
            case _:
                return "small"
    result = [f(0), f(2)]
    """
    ended, decider = edited(tmp_path, source, source.replace(" if 10 // x > 1", guard))
    assert ended["result"] == ["small" if guard else "large", "large"] and not decider.reasons
    assert ended["asked"] == [0, 2] and len(decider.crashes) == 1


def test_an_edited_callee_that_has_returned_is_called_again(tmp_path: Path) -> None:
    source = """
    calls = []
    def size(row):
        calls.append(row)
        return len(row) - 1
    def f(row):
        n = size(row)
        half = n * 2
        return 4 / half
    result = f("a")
    """
    ended, decider = edited(tmp_path, source, source.replace("len(row) - 1", "len(row)"))
    assert ended["result"] == 2 and ended["calls"] == ["a"] and not decider.reasons


def test_what_has_trained_is_not_run_again(tmp_path: Path) -> None:
    source = """
    steps = []
    def train(n): steps.append(n)
    def main():
        scale = len("")
        train(3)
        for n in range(2): steps.append(n)
        return 1 / scale
    result = main()
    """
    worse = source.replace('len("")', 'len("ab")')
    good = worse.replace("1 / scale", "1 / (scale or 4)")
    for fixed in (worse, good):
        # Only the line above that is edited is run again.
        ended, _ = edited(tmp_path, source, fixed)
        assert ended["result"] == 0.5 and ended["steps"] == [3, 0, 1]


def test_a_lambda_goes_on_in_place(tmp_path: Path) -> None:
    source = """
    log, table = [], {1: 10}
    def apply(call, values):
        log.append("applied")
        return [call(value) for value in values]
    class Owner:
        __scale = 2
        pick = lambda self, key: table[key] * self.__scale
        def bound(self, more):
            return lambda key, *, add=(lambda: 1): table[key] + more + add() + self.__scale
    owner = Owner()
    result = [apply(owner.bound(100), [1, 2]), owner.pick(3)]
    names = owner.bound(1).__name__, owner.bound(1).__qualname__
    """

    def answer(crash: Any) -> Repair:
        return Repair("action", code=f"table[{crash.exception}] = 20")

    ended, decider = run(tmp_path, source, answer)
    assert ended["result"] == [[113, 123], 40] and ended["log"] == ["applied"]
    assert decider.where == ["Owner.bound.<locals>.<lambda>:10", "Owner.<lambda>:8"]
    assert ended["names"] == ("<lambda>", "Owner.bound.<locals>.<lambda>")


def test_an_edited_lambda_counts_for_whoever_holds_it(tmp_path: Path) -> None:
    source = """
    calls = []
    def factors(table):
        return [lambda step: calls.append(step) or table[step], lambda step: -step]
    held = factors([5, 6])
    result = [(held[0](step), held[1](step)) for step in range(4)]
    """
    fixed = source.replace("table[step]", "table[min(step, 1)]")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == [(5, 0), (6, -1), (6, -2), (6, -3)] and not decider.reasons
    assert len(decider.crashes) == 1 and ended["calls"] == [0, 1, 2, 2, 3]


RAISES = """
log = []
state = {"tries": 0}
def limit(value):
    log.append(value)
    if value == 0:
        return 0
    elif value < MOST:
        return value
    else:
        raise ValueError(f"{value} is too large")
def fetch():
    state["tries"] += 1
    if state["tries"] < 3:
        raise OSError("not yet")
    return state["tries"]
MOST = 5
def f():
    log.append("f")
    return limit(7), fetch()
result = f()
"""


def test_the_test_of_a_raise_is_made_again_or_the_function_begins_anew(tmp_path: Path) -> None:
    def answer(crash: Any) -> Repair:
        if isinstance(crash.exception, ValueError):
            return Repair("action", code="value = 3")
        return Repair("retry")

    ended, decider = run(tmp_path, RAISES, answer)
    # GIVEN a changed local THEN its own test sees it; fetch() begins anew and no caller notices.
    assert ended["result"] == (3, 3) and ended["state"] == {"tries": 3}
    assert decider.where == ["limit:11", "fetch:15", "fetch:15"]


def test_what_a_raise_evaluates_is_evaluated_again_and_nothing_before_it(tmp_path: Path) -> None:
    source = """
    log = []
    class BadShard(Exception): pass
    def read(shards, number):
        try:
            return shards[number]
        except KeyError as error:
            log.append(number)
            raise BadShard(f"shard {number} of {flaky()}") from error
    try:
        read({}, 7)
    except BadShard as error:
        log.append(str(error))
        log.append(type(error.__cause__).__name__)
    """
    # GIVEN what fails is not the `raise`, but what it is to raise
    ended, decider = run(tmp_path, source, lambda crash: Repair("retry"), flaky=Flaky())
    # THEN the handler has done nothing twice
    assert decider.where == ["read:9"]
    assert ended["log"] == [7, "shard 7 of 1", "KeyError"]


def test_a_parameter_that_the_edit_adds_has_its_default_or_is_given_by_the_caller(
    tmp_path: Path,
) -> None:
    source = """
    log = []
    def share(row, *, scale=1):
        log.append(row)
        return scale / sum(row)
    def f():
        return [1] + list(map(str, [share([2]), share([0])]))
    result = f()
    """
    with_default = source.replace("scale=1", "scale=1, least=4").replace(
        "sum(row)", "(sum(row) or least)"
    )
    ended, decider = edited(tmp_path, source, with_default)
    assert ended["result"] == [1, "0.5", "0.25"] and ended["log"] == [[2], [0]]
    given = source.replace("scale=1", "scale=1, least").replace("sum(row)", "(sum(row) or least)")
    given = given.replace("share([2]), share([0])", "share([2], least=1), share([0], least=1)")
    ended, decider = edited(tmp_path, source, given)
    assert ended["result"] == [1, "0.5", "1.0"] and not decider.reasons


def test_a_crash_inside_an_async_generator_s_context_is_held_where_it_happens(
    tmp_path: Path,
) -> None:
    source = """
    import asyncio, contextlib
    log = []
    @contextlib.asynccontextmanager
    async def opened():
        log.append("in")
        try:
            yield 2
        finally:
            log.append("out")
    async def work(table):
        async with opened() as key:
            return table[key]
    table = {}
    result = asyncio.run(work(table))
    """
    ended, decider = run(tmp_path, source, [Repair("action", code="table[2] = 5")])
    assert ended["result"] == 5 and ended["log"] == ["in", "out"]
    assert decider.where[0].startswith("work:")


@pytest.mark.parametrize("mode", ["w", "a", "wb"])
def test_what_a_failed_statement_has_written_is_taken_back(tmp_path: Path, mode: str) -> None:
    source = """
    import json, pickle
    record = {"numbers": list(range(30_000 if "b" in MODE else 300)), "name": "ü" * 3, "bad": BAD}
    def save(path, mode):
        with open(path, mode) as file:
            file.write("first\\n".encode() if "b" in mode else "first\\n")
            if "b" in mode:
                pickle.dump(record, file)
            else:
                json.dump(record, file, ensure_ascii=False)
    save(PATH, MODE)
    """
    names = {"MODE": mode, "PATH": str(tmp_path / "whole")}
    run(tmp_path, source, [], BAD=None, **names)
    names["PATH"] = str(tmp_path / "repaired")
    repairs = [Repair("action", code="record['bad'] = None")]
    _, decider = run(tmp_path, source, repairs, BAD=lambda: 1, **names)
    assert len(decider.crashes) == 1
    assert (tmp_path / "repaired").read_bytes() == (tmp_path / "whole").read_bytes()
