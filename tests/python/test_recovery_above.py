"""Blocks above the failing statement, what has begun already, and what an edit made is held by."""

import sys
from pathlib import Path
from typing import List

import pytest
from crashing import run
from paramedic.recovery import owners
from paramedic.recovery.crash import Crash, Repair
from test_recovery_repairs import diff, edited

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info < (3, 11), reason="Linux, and where jobs go on"
)


def refused(folder: Path, source: str, fixed: str) -> str:
    """Why an edit is refused; the crashed function returns instead."""
    asked: List[Crash] = []

    def answer(crash: Crash) -> Repair:
        asked.append(crash)
        is_first = len(asked) == 1
        edit = Repair("edit", patch=diff(source, fixed, crash))
        return edit if is_first else Repair("return", value="None")

    _, decider = run(folder, source, answer)
    (reason,) = decider.reasons
    return str(reason)


def test_a_value_may_be_a_part_of_another_that_is_made_again_too(tmp_path: Path) -> None:
    source = """
    log = []
    class Loss:
        def __init__(self, weights): self.parts = {"weights": [weights]}
        def __call__(self, i): return self.parts["weights"][0][i]
    def weights(n): return [[1]] * n
    def f(rows):
        w = weights(2)
        loss = Loss(w)
        for row in rows:
            log.append(row)
            log.append(loss(row))
        return log
    result = f([0, 1, 2])
    """
    ended, decider = edited(tmp_path, source, source.replace("weights(2)", "weights(3)"))
    assert ended["result"] == [0, [1], 1, [1], 2, [1]]
    assert len(decider.crashes) == 1 and not decider.reasons
    assert not decider.resumes[0].options, "nothing is left to be said"


def test_what_paramedic_keeps_to_put_it_back_is_nobody_elses() -> None:
    class Keeps:
        def __init__(self, rows: List[int]) -> None:
            self.kept = [rows]

    scope = {"rows": [1]}
    keeper = Keeps(scope["rows"])

    def is_held() -> bool:
        return owners.held_elsewhere([scope["rows"]], [scope]) is not None

    assert is_held()
    Keeps.__module__ = "paramedic.recovery.keeps"
    assert not is_held()
    assert keeper.kept == [[1]]


def test_what_somebody_else_has_got_is_not_made_again(tmp_path: Path) -> None:
    source = """
    class Table:
        def __init__(self): self.rows = {"known": []}
    table = Table()
    def remember(w):
        table.rows["known"].append(w)
        return w
    def weights(n): return remember([[1]] * n)
    def f(row):
        w = weights(2)
        return {"x": w[row]}["y"]
    result = f(1)
    """
    fixed = source.replace("weights(2)", "weights(3)").replace('["y"]', '["x"]')
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == [1] and len(ended["table"].rows["known"]) == 1
    assert "something else has w as well" in decider.resumes[0].options["note"]


def test_a_loop_above_is_gone_through_again_in_async_code_too(tmp_path: Path) -> None:
    source = """
    import asyncio
    log = []
    def width(one): return one - 2
    async def f(rows):
        widths = []
        for row in rows:
            one = width(row)
            if one > 100: break
            widths.append(one)
        await asyncio.sleep(0)
        log.append("once")
        for row in rows[::2]:
            log.append(row)
            widths.append(12 // widths[1])
        return widths, row
    result = asyncio.run(f([3, 2, 5]))
    """
    ended, decider = edited(tmp_path, source, source.replace("one - 2", "one - 1"))
    assert ended["result"] == ([2, 1, 4, 12, 12], 5)
    assert ended["log"] == ["once", 3, 5] and not decider.reasons


def test_a_loop_above_that_waits_is_refused_with_its_line(tmp_path: Path) -> None:
    source = """
    import asyncio
    async def width(one):
        await asyncio.sleep(0)
        return one - 2
    async def f(rows):
        widths = []
        for row in rows:
            widths.append(await width(row))
        return [12 // one for one in widths]
    result = asyncio.run(f([3, 2, 5]))
    """
    reason = refused(tmp_path, source, source.replace("one - 2", "one - 1"))
    assert "line 8, whose" in reason and "line 8 cannot be run by itself" in reason


def test_a_variable_that_has_got_another_value_since_keeps_it(tmp_path: Path) -> None:
    source = """
    log = []
    def f(rows):
        for one in rows: scale = one * BAD
        for one in (7, 8):
            log.append(one)
            log.append(6 / scale)
        return one, scale
    BAD = 0
    result = f([1, 2])
    """
    ended, decider = edited(tmp_path, source, source.replace("one * BAD", "one + BAD"))
    assert ended["result"] == (8, 2) and ended["log"] == [7, 3.0, 8, 3.0]
    assert not decider.reasons


def test_what_is_printed_above_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    source = """
    def scored(rows):
        print("scored", len(rows))
        return {"top1": sum(rows)}
    def evaluate(rows):
        found = scored(rows)
        return found["top5"]
    result = evaluate([1, 2])
    """
    fixed = source.replace('{"top1": sum(rows)}', '{"top1": sum(rows), "top5": 4}')
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == 4 and not decider.reasons
    assert capsys.readouterr().out == "scored 2\n"


def test_a_loop_that_has_begun_with_another_value_is_no_half_edit(tmp_path: Path) -> None:
    source = """
    log = []
    def f():
        n = 2
        found = {0: 1}
        for i in range(n):
            log.append(i)
            found[n - 1]
            found[i + 1] = 1
        return found
    result = f()
    """
    fixed = source.replace("n = 2", "n = 3").replace("found[n - 1]", "found.get(n - 1)")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == {0: 1, 1: 1, 2: 1} and ended["log"] == [0, 1]
    assert "line 6 has begun with n as it was" in decider.resumes[0].options["note"]


def test_a_setting_that_stays_as_it_was_is_no_reason_to_refuse(tmp_path: Path) -> None:
    source = """
    log = []
    class Config:
        def __init__(self, epochs, width): self.epochs, self.width = epochs, width
    def f():
        config = Config(2, 0)
        for i in range(config.epochs):
            log.append(i)
            log.append(12 // config.width)
        return log
    result = f()
    """
    ended, decider = edited(tmp_path, source, source.replace("Config(2, 0)", "Config(2, 3)"))
    assert ended["result"] == [0, 4, 1, 4] and not decider.reasons


def test_a_header_that_is_edited_while_its_loop_runs_is_told(tmp_path: Path) -> None:
    source = """
    log = []
    def f():
        for i in range(2):
            log.append(i)
            log.append(6 // BAD)
        return log
    BAD = 0
    result = f()
    """
    fixed = source.replace("range(2)", "range(3)").replace("6 // BAD", "6 // (BAD or 2)")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == [0, 3, 1, 3]
    assert decider.resumes[0].options["note"].startswith("line 4 has begun as it was")


def test_an_edit_of_a_generator_that_has_begun_is_refused_with_its_line(tmp_path: Path) -> None:
    source = """
    log = []
    def sizes(rows):
        for row in rows:
            log.append(row)
            yield len(row) - 1
    def f(rows):
        found = []
        for size in sizes(rows):
            found.append(12 // size)
        return found
    result = f(["abc", "a", "abcd"])
    """
    reason = refused(tmp_path, source, source.replace("len(row) - 1", "len(row)"))
    assert reason.startswith("sizes, which the edit changes, has begun and stands at line 6")
    assert "--at LINE" in reason
