"""An edit is tried in a copy of the process before it counts."""

import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from crashing import run
from paramedic.recovery import sandbox
from paramedic.recovery.crash import Repair
from test_recovery_repairs import diff, edited

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info < (3, 11), reason="Linux, and where jobs go on"
)


def test_an_edit_that_raises_is_refused_and_nothing_has_happened(tmp_path: Path) -> None:
    source = """
    log = []
    def f(numbers):
        log.append("in")
        return sum(numbers) / BAD
    def g():
        numbers = [1, 2, 3]
        return f(numbers)
    result = g()
    """
    worse = source.replace("/ BAD", "/ (len(numbers) - 3)")
    good = source.replace("/ BAD", "/ len([n for n in numbers if n in numbers])")
    pairs = iter([(source, worse), (source, good)])

    def answer(crash: Any) -> Any:
        pair = next(pairs, None)
        return pair and Repair("edit", patch=diff(*pair, crash))

    ended, decider = run(tmp_path, source, answer)
    assert ended["result"] == 2 and ended["log"] == ["in"]
    assert decider.crashes[0] is decider.crashes[1], "a refused edit is no new crash"
    assert decider.reasons == [
        "the edited statement was tried on a copy of the process and raises "
        "ZeroDivisionError: division by zero"
    ]


def test_what_does_more_than_compute_is_not_judged(tmp_path: Path) -> None:
    source = """
    import os
    def f(path):
        return BAD
    result = f(__file__)
    """
    ended, decider = edited(
        tmp_path, source, source.replace("BAD", "len(os.listdir(os.path.dirname(path)))")
    )
    assert ended["result"] >= 1 and not decider.reasons


def test_blocks_that_the_edit_puts_around_the_statement_are_entered_first(tmp_path: Path) -> None:
    source = """
    import contextlib
    shared = []
    @contextlib.contextmanager
    def sharing():
        shared.append(1)
        yield
        shared.clear()
    def f(n):
        for i in range(n):
            n = BAD
        return n
    result = f(2)
    """
    inside = "    with sharing():\n            for i in range(n):\n                n = shared[0]"
    fixed = source.replace("    for i in range(n):\n            n = BAD", inside)
    ended, decider = edited(tmp_path, source, fixed)
    assert ended["result"] == 1 and not decider.reasons


def test_what_the_edit_itself_handles_is_no_reason_to_refuse_it(tmp_path: Path) -> None:
    source = """
    def f(n):
        n = BAD
        return n
    result = f(2)
    """
    handled = (
        "    try:\n            n = n / 0\n        except ZeroDivisionError:\n            n = 7"
    )
    ended, decider = edited(tmp_path, source, source.replace("    n = BAD", handled))
    assert ended["result"] == 7 and not decider.reasons


def _after(work: Callable[[], Any]) -> Any:
    return sandbox.run(lambda: repr(work())).text


def test_a_copy_computes(tmp_path: Path) -> None:
    assert _after(lambda: sum(range(10))) == "45"
    assert _after(lambda: len(bytearray(64 << 20))) == str(64 << 20)


def test_a_copy_touches_nothing_outside(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    opened = file.open()
    reading, writing = os.pipe()
    os.write(writing, b"item")
    one, other = socket.socketpair()
    for touch in (
        lambda: file.unlink(),
        lambda: (tmp_path / "new").write_text("x"),
        lambda: opened.read(),
        lambda: os.read(reading, 4),
        lambda: one.send(b"x"),
        lambda: os.kill(os.getppid(), 0),
        lambda: os.system("true"),
        lambda: threading.Thread(target=print).start(),
        lambda: mmap.mmap(-1, 4096),
        lambda: time.sleep(10 * sandbox.LIMIT_S),
    ):
        assert _after(touch) is None
    assert opened.read() == "content" and os.read(reading, 4) == b"item"
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.recv(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_shared_memory_is_written_in_the_copy_alone() -> None:
    shared = mmap.mmap(-1, 8192)
    shared[:4] = b"good"

    def write() -> bytes:
        shared[:4] = b"evil"
        return shared[:4]

    assert _after(write) == repr(b"evil")
    assert shared[:4] == b"good"


def test_tensors_are_changed_in_the_copy_alone() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(512, 512, requires_grad=True)
    (weight @ weight).sum().backward()  # the pool of threads stands
    before = weight.grad.clone()

    def step() -> float:
        (weight @ weight).sum().backward()
        return float((weight @ weight).sum())

    assert _after(step) == repr(512.0**3)
    assert torch.equal(weight.grad, before)


def test_a_copy_that_waits_for_a_processor_is_waited_for() -> None:
    # GIVEN a machine that gives the copy a tenth of a second of processors in each ten
    patience = sandbox.Patience(2.0, 100.0)
    for i in range(1, 6):
        assert patience.look(100.0 + 10 * i, 0.1 * i, False)
    # WHEN it has worked, and slept, for two seconds altogether THEN that is enough
    assert patience.look(151.0, 0.5, True) and patience.took_s == 1.5
    assert not patience.look(151.5, 1.01, False)
    assert patience.over == "it takes more than 2 s"


def test_a_copy_that_never_gets_a_processor_is_given_up_in_the_end() -> None:
    patience = sandbox.Patience(2.0, 0.0)
    assert patience.look(sandbox.MAX_WAIT_S, 0.0, False)
    assert not patience.look(sandbox.MAX_WAIT_S + 1, 0.0, False)


def test_a_copy_that_works_for_too_long_is_ended_and_that_is_said() -> None:
    def work() -> str:
        while True:
            pass

    answer = sandbox.run(work, limit_s=0.05)
    assert answer.text is None and answer.why == "it takes more than 0.05 s"
