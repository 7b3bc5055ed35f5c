"""An edit of a line above the failing statement, whose value has been computed already."""

import sys
from pathlib import Path
from typing import Any, List

import pytest
from crashing import run
from paramedic.recovery.crash import Repair
from test_recovery_repairs import diff, edited

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info < (3, 11), reason="Linux, and where jobs go on"
)


def test_a_value_from_before_the_loop_is_made_again_and_nothing_else(tmp_path: Path) -> None:
    source = """
    log = []
    def weights(n): return [1.0] * n
    def f(rows):
        w = weights(2)
        total = sum(w)
        log.append("begin")
        for row in rows:
            log.append(row)
            print("row", row)
            for i in row:
                log.append(w[i] / total)
        return log
    result = f([[0, 1], [2], [1]])
    """
    ended, decider = edited(tmp_path, source, source.replace("weights(2)", "weights(4)"))
    assert ended["result"] == ["begin", [0, 1], 0.5, 0.5, [2], 0.25, [1], 0.25]
    assert len(decider.crashes) == 1 and not decider.reasons


def test_a_line_above_counts_also_where_the_old_value_would_do(tmp_path: Path) -> None:
    source = """
    def f(row):
        scale = len(row) * 2
        width = scale + 1
        return {"x": width / scale}["y"]
    result = f("abc")
    """
    fixed = source.replace("* 2", "* 4").replace('["y"]', '["x"]')
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == 13 / 12 and not decider.reasons


def test_a_statement_with_a_side_effect_is_not_repeated_and_that_is_said(tmp_path: Path) -> None:
    source = """
    calls = []
    def weight(n):
        calls.append(n)
        return n
    def f(n):
        w = weight(n)
        return {"x": w}["y"]
    result = f(3)
    """
    fixed = source.replace("= weight(n)", "= weight(n + 1)").replace('["y"]', '["x"]')
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == 3 and ended["calls"] == [3]
    said = decider.resumes[0].options["note"]
    assert said.startswith("line 7, whose values the edit changes, was not run again (it changes")
    assert "--at LINE" in said


def test_what_works_on_its_own_result_begins_where_that_was_made(tmp_path: Path) -> None:
    source = """
    log = []
    def scaled(x): return [one * 0 for one in x]
    def f(rows):
        for row in rows:
            log.append(row)
            x = [float(one) for one in row]
            x = scaled(x)
            x += [1.0]
            y = 1 / x[0]
            log.append(y)
        return log
    result = f(["2", "4"])
    """
    ended, decider = edited(tmp_path, source, source.replace("one * 0", "one * 2"))
    assert ended["result"] == ["2", 0.25, "4", 0.125] and not decider.reasons
    assert len(decider.crashes) == 1


def test_what_works_on_what_is_gone_is_refused_with_the_reason(tmp_path: Path) -> None:
    source = """
    import itertools
    log = []
    def f(rows):
        found = []
        for x in rows:
            x = x - 1
            log.append(x)
            found.append(12 // x)
        return found
    result = f(itertools.chain([3, 1, 5]))
    """
    worse = source.replace("x - 1", "x - 2")
    good = worse.replace("12 // x)", "12 // (x or 4))")
    pairs = iter([(source, worse), (source, good)])

    def answer(crash: Any) -> Any:
        pair = next(pairs, None)
        return pair and Repair("edit", patch=diff(*pair, crash))

    ended, decider = run(tmp_path, source, answer)
    assert ended["result"] == [6, 3, 4], "the item that crashed has its old value"
    assert decider.reasons[0].startswith("line 7 works on x, which has been changed since")
    assert "--at LINE" in decider.reasons[0]
    assert "works on x" in decider.resumes[0].options["note"]


def test_a_block_that_only_computes_begins_anew(tmp_path: Path) -> None:
    source = """
    log = []
    def counted(rows):
        found = []
        for x in rows:
            x = x - 1
            found.append(12 // x)
        return found
    def f(rows):
        log.append("once")
        return counted(rows), len(log)
    result = f([3, 1, 5])
    """
    # What the iterations before have made is as if the edit had been there from the first on.
    ended, decider = edited(tmp_path, source, source.replace("x - 1", "x - 2"))
    assert ended["result"] == ([12, -12, 4], 1) and not decider.reasons


def test_what_an_edited_function_counts_is_counted_once(tmp_path: Path) -> None:
    source = """
    counts = {"calls": 0, "rows": 0}
    def size(row):
        counts["calls"] += 1
        return len(row) - 1
    def f(row):
        counts["rows"] += 1
        n = size(row)
        return 4 / n
    result = f("a")
    """
    ended, decider = edited(tmp_path, source, source.replace("len(row) - 1", "len(row)"))
    assert ended["result"] == 4 and ended["counts"] == {"calls": 1, "rows": 1}
    assert not decider.reasons


def test_an_edited_default_of_a_dataclass_counts_for_objects_that_have_it(tmp_path: Path) -> None:
    source = """
    from dataclasses import dataclass
    @dataclass
    class Config:
        size: int = 2
        name: str = "a"
    def f(config):
        table = [0] * config.size
        return table[2:][0], config.size
    asked = Config(size=5)
    result = f(Config()), asked.size, Config().size
    """
    ended, decider = edited(tmp_path, source, source.replace("size: int = 2", "size: int = 3"))
    assert ended["result"] == ((0, 3), 5, 3) and not decider.reasons


def test_random_numbers_are_not_drawn_again(tmp_path: Path) -> None:
    source = """
    import random
    random.seed(7)
    def f():
        x = random.random() * 2
        return {"x": x}["y"]
    result = f(), random.random()
    """
    fixed = source.replace("* 2", "* 3").replace('["y"]', '["x"]')
    ended, decider = edited(tmp_path, source, fixed)
    import random

    again = random.Random(7)
    assert ended["result"] == (again.random() * 2, again.random())
    assert "the random numbers" in decider.resumes[0].options["note"]


def test_what_has_changed_since_is_not_made_anew(tmp_path: Path) -> None:
    source = """
    class Average:
        def __init__(self, first): self.values = [first]
        def add(self, one): self.values.append(one)
    def f(rows):
        mean = Average(0)
        for row in rows:
            mean.add(row)
            log.append(row)
            last = 6 / (row - len(mean.values) + 2)
        return mean.values, last
    log = []
    result = f([4, 1])
    """
    fixed = source.replace("Average(0)", "Average(1)").replace("+ 2)", "+ 3)")
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == ([0, 4, 1], 6.0)
    assert "was not run again" in decider.resumes[0].options["note"]


def test_a_value_that_the_caller_made_is_followed_into_the_function(tmp_path: Path) -> None:
    source = """
    log = []
    def columns(row): return sorted(row) + ["none"]
    def table(rows, names, log):
        wanted = [name for name in names]
        log.append("table")
        return [[row[name] for name in wanted] for row in rows]
    def main():
        rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
        log.append("main")
        names = columns(rows[0])
        found = table(rows, names, log=log)
        return found, names
    result = main()
    """
    ended, decider = edited(tmp_path, source, source.replace(' + ["none"]', ""))
    assert ended["result"] == ([[1, 2], [3, 4]], ["a", "b"]) and not decider.reasons
    assert ended["log"] == ["main", "table"] and len(decider.crashes) == 1


def test_an_attribute_that_was_set_above_is_set_again(tmp_path: Path) -> None:
    source = """
    class Norm:
        def __init__(self): self.seen, self.scale = 0, None
        def __call__(self, rows):
            self.seen += 1
            self.scale = [max(row) - 2 for row in rows]
            return [sum(row) / one for row, one in zip(rows, self.scale)]
    norm = Norm()
    result = norm([[1, 2], [3, 5]]), norm.seen
    """
    ended, decider = edited(tmp_path, source, source.replace("max(row) - 2", "max(row) - 1"))
    assert ended["result"] == ([3.0, 2.0], 1) and not decider.reasons


def test_a_test_that_comes_out_otherwise_leads_into_the_other_branch(tmp_path: Path) -> None:
    source = """
    def check(x): return x > 2
    def f(x):
        limit = 1
        if x > limit:
            raise ValueError(f"{x} is too much")
        return x
    result = f(3)
    """
    ended, decider = edited(tmp_path, source, source.replace("limit = 1", "limit = 5"))
    assert ended["result"] == 3 and not decider.reasons and len(decider.crashes) == 1


def test_a_script_goes_on_with_what_depends_on_its_new_constant(tmp_path: Path) -> None:
    source = """
    log = []
    CONFIG = {"size": 3}
    half = CONFIG["size"] - 3
    log.append(half)
    result = 6 // half
    """
    ended, decider = edited(tmp_path, source, source.replace('"size": 3', '"size": 5'))
    assert ended["result"] == 3 and ended["log"] == [2] and not decider.reasons


@pytest.mark.parametrize("is_file", [True, False], ids=["a file", "standard output"])
def test_what_was_written_is_not_written_twice(tmp_path: Path, is_file: bool) -> None:
    source = """
    def told(x):
        print(x, file=file)
        return x - 2
    def f(x):
        y = told(x)
        return 4 // y
    result = f(2)
    """
    lines: List[str] = []

    class Into:
        def write(self, text: str) -> None:
            lines.append(text)

    with open(tmp_path / "out", "w") as file:
        worse = source.replace("x - 2", "x - 1")
        good = worse.replace("4 // y", "4 // (y or 1)")
        run_file = file if is_file else Into()
        ended, _ = edited(tmp_path, source, good, file=run_file)
    assert ended["result"] == 4
    assert (tmp_path / "out").read_text() == "2\n" if is_file else lines == ["2", "\n"]
