"""`@paramedic.protect` on one function, without `paramedic run`."""

import importlib.util
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import paramedic
import pytest
from crashing import Answers, Flaky, in_thread, retry
from paramedic.recovery import resume

SOURCE = """
import paramedic
log = []
def helper(x):
    log.append(("helper", x))
    return flaky() + x
def make(n):
    @paramedic.protect
    def train(epochs, *, scale=2):
        '''Trains.'''
        total = 0
        for i in range(epochs):
            with open(__file__) as file:
                total += helper(i) * scale * n
        return total
    return train
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that nobody transforms, as the cells of a notebook."""
    monkeypatch.setenv("PARAMEDIC_RUN", str(tmp_path))
    path = tmp_path / "cells.py"
    path.write_text(textwrap.dedent(SOURCE))
    spec = importlib.util.spec_from_file_location("cells", path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.skipif(sys.version_info < (3, 11), reason="recovery needs Python 3.11")
def test_a_protected_function_goes_on_where_it_stood(module: Any) -> None:
    module.flaky = Flaky()
    train = module.make(10)
    assert (train.__name__, train.__doc__, train.__kwdefaults__) == (
        "train",
        "Trains.",
        {"scale": 2},
    )
    decider = Answers(retry)
    box = []
    resume.decided_by(lambda: decider)
    try:
        in_thread(lambda: box.append(train(3)))
    finally:
        resume.decided_by(None)
    assert box == [sum((1 + i) * 20 for i in range(3))]
    # The statement of the protected function ran again, and with it what it calls.
    assert module.log == [("helper", i) for i in (0, 0, 1, 1, 2, 2)]
    assert {place.split(":")[0] for place in decider.where} == {"make.<locals>.train"}


def test_what_cannot_be_protected_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert paramedic.protect(len) is len
        scope: Any = {}
        exec("def f(): return 1", scope)
        assert paramedic.protect(scope["f"])() == 1
    assert len(caught) == 2
