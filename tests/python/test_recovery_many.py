"""Many crashes, one after another."""

from pathlib import Path

from crashing import Flaky, retry, run


def test_a_thousand_crashes_are_as_deep_as_one(tmp_path: Path) -> None:
    source = """
    import sys
    depths = set()
    def depth():
        frame, n = sys._getframe(), 0
        while frame:
            frame, n = frame.f_back, n + 1
        return n
    def f():
        for i in range(1000):
            flaky()
            depths.add(depth())
        return i
    result = f()
    """
    spaces, decider = run(tmp_path, source, flaky=Flaky())
    assert spaces["result"] == 999
    assert len(decider.crashes) == 1000
    assert len(spaces["depths"]) == 1


def test_repeats_count_the_same_crash_without_progress(tmp_path: Path) -> None:
    source = """
    def f():
        for i in range(3):
            fail()
    f()
    """
    calls = [0]

    def fail() -> None:
        calls[0] += 1
        if calls[0] % 4:
            raise OSError("again")

    _, decider = run(tmp_path, source, retry, fail=fail)
    assert [crash.repeats for crash in decider.crashes] == [0, 1, 2] * 3
