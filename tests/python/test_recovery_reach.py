"""How far an edit reaches besides the crashed frame: other methods, other functions, arguments."""

import sys
from pathlib import Path

import pytest
from test_recovery_repairs import edited

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info < (3, 11), reason="Linux, and where jobs go on"
)


def test_a_call_whose_method_the_edit_overrides_is_made_again(tmp_path: Path) -> None:
    source = """
    log = []
    class Task:
        def run(self):
            for i in range(3):
                log.append(i)
                log.append(self.score(i))
        def score(self, i):
            raise NotImplementedError("score")
    class Mine(Task):
        name = "mine"
    Mine().run()
    """
    fixed = source.replace(
        'name = "mine"', 'name = "mine"\n        def score(self, i): return i * 10'
    )
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["log"] == [0, 0, 1, 10, 2, 20]
    assert len(decider.crashes) == 1 and not decider.reasons


def test_a_method_that_the_edit_adds_to_a_base_class_overrides_nothing(tmp_path: Path) -> None:
    source = """
    log = []
    class Task:
        name = "task"
    class Mine(Task):
        def score(self, i):
            log.append(i)
            return 10 // i
    result = [Mine().score(2), Mine().score(0)]
    """
    fixed = source.replace("10 // i", "10 // (i or 5)").replace(
        'name = "task"', 'name = "task"\n        def score(self, i): return i'
    )
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == [5, 2] and ended["log"] == [2, 0]
    assert len(decider.crashes) == 1 and not decider.reasons


def test_a_constant_around_a_closure_counts_in_the_call_that_crashed(tmp_path: Path) -> None:
    source = """
    def make(options):
        share = 3
        def step(i):
            part = share if i else 1
            if i:
                part = part * options["scale"]
            return part, share
        return step
    def f():
        step = make({})
        return [step(i) for i in range(3)]
    result = f()
    """
    fixed = source.replace("share = 3", "share = 5").replace(
        'options["scale"]', 'options.get("scale", 2)'
    )
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"][1:] == [(10, 5), (10, 5)]
    assert len(decider.crashes) == 1 and not decider.reasons


def test_what_a_call_was_given_otherwise_than_as_it_is_is_said_to_stay(tmp_path: Path) -> None:
    source = """
    log = []
    def show(i, **values):
        log.append(i)
        return ["%.1f" % one for one in values.values()]
    def f():
        found = []
        for i in range(2):
            extra = {"scale": 1.0}
            extra["tag"] = "late"
            found.append(show(i, **extra))
        return found
    result = f()
    """
    fixed = source.replace('"%.1f" % one', "str(one)").replace('= "late"', '= "later"')
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["log"] == [0, 1]
    # The caller keeps the version with which it runs.
    assert ended["result"] == [["1.0", "late"], ["1.0", "late"]]
    note = decider.resumes[0].options["note"]
    assert "has called with extra as it was" in note and "was not run again" in note
