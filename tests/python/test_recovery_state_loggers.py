"""A logger that broke is silent and the training goes on; an emergency checkpoint can be loaded."""

import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Iterator, List

import crashing
import pytest
import torch
from paramedic.recovery import emergency, loggers
from paramedic.recovery.crash import Crash, ProjectFrame, Refused, Repair

SOURCE = '''
import contextlib

class CommError(Exception):
    """Raised by all of it."""

class Run:
    def log(self, values):
        raise CommError("the server did not answer")
    def finish(self):
        raise CommError("the server did not answer")

def _guarded(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

run = Run()

def log(values):
    run.log(values)

@_guarded
def alert(text):
    raise CommError("the server did not answer")

@contextlib.contextmanager
def start_run():
    raise CommError("the server did not answer")
    yield

def init():
    return Run()
'''


@pytest.fixture
def tracker() -> Iterator[Any]:
    """A package of a tracking service that cannot be reached."""
    module = ModuleType("somelogger")
    exec(compile(SOURCE, "site-packages/somelogger/__init__.py", "exec"), vars(module))
    sys.modules["somelogger"] = module
    yield module
    del sys.modules["somelogger"]


def crash_of(error: BaseException, frames: "List[FrameType] | None" = None) -> Crash:
    known = [
        ProjectFrame(frame, __file__, frame.f_code.co_name, frame.f_lineno, 0, False)
        for frame in frames or []
    ]
    return Crash(error, known, "MainThread", 0)


def test_everything_of_the_logger_does_nothing_from_then_on(tracker: Any) -> None:
    log, bound, run, alert = tracker.log, tracker.run.finish, tracker.run, tracker.alert
    with pytest.raises(tracker.CommError) as caught:
        log({"loss": 1.0})
    assert loggers.silence(crash_of(caught.value), "somelogger") == "somelogger"
    # THEN also what the job had taken out of it before.
    log({"loss": 0.5})
    bound()
    run.log({})
    tracker.alert("text")
    alert("text")
    with tracker.start_run() as started:
        started.log_metric("a", 1)
    tracker.init().config.update(lr=1)
    assert issubclass(tracker.CommError, Exception)
    assert str(tracker.CommError("as ever")) == "as ever"


def test_a_package_that_was_not_called_is_refused(tracker: Any) -> None:
    with pytest.raises(Refused, match="no call of wandb"):
        loggers.silence(crash_of(ValueError()), "wandb")


def test_an_emergency_checkpoint_holds_what_the_frames_hold(tmp_path: Path) -> None:
    model, teacher = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    path = emergency.save(crash_of(ValueError("lost"), [sys._getframe()]), str(tmp_path))
    assert path == str(tmp_path / "emergency" / "rank-0.pt")
    assert [entry.name for entry in (tmp_path / "emergency").iterdir()] == ["rank-0.pt"]
    content = torch.load(path, weights_only=True)
    assert torch.equal(content["models"]["model"]["weight"], model.weight)
    assert torch.equal(content["models"]["teacher"]["weight"], teacher.weight)
    assert content["optimizers"]["optimizer"]["state"][0]["step"] == 1
    assert content["crash"]["exception"] == "ValueError: lost"


def test_an_abort_by_choice_saves_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARAMEDIC_RUN", str(tmp_path))
    source = """
    import torch
    model = torch.nn.Linear(3, 2)
    for step in range(3):
        model(torch.ones(1, 4))
    """
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        crashing.run(tmp_path, source, [Repair("abort")])
    path = tmp_path / "emergency" / "rank-0.pt"
    assert f"emergency checkpoint: {path}\n" in capfd.readouterr().err
    assert list(torch.load(path, weights_only=True)["models"]) == ["model"]


def test_an_emergency_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    (tmp_path / "emergency").write_text("in the way")
    with pytest.raises(Refused, match="cannot be written"):
        emergency.save(crash_of(ValueError(), [sys._getframe()]), str(tmp_path))
    del model
    with pytest.raises(Refused, match="no model to save"):
        emergency.save(crash_of(ValueError()), str(tmp_path))
