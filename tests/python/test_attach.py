"""Ways to start Python: attached where there is training, invisible everywhere else."""

import subprocess
import sys
from pathlib import Path
from typing import Callable

from conftest import INJECT, Job, watched_env

TRAIN = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
print(net.weight.sum().item())
"""


def test_a_script_is_watched(run: Callable[..., Job]) -> None:
    job = run(TRAIN)
    assert job.code == 0
    assert job.ring.closed
    assert job.ring.last_step == 2
    assert len(job.losses()) == 3
    assert job.ring.of_kind("attached")[0]["framework"] == "torch"
    assert job.ring.named("gradient") == ["weight", "bias"]


def test_a_module_is_watched(run: Callable[..., Job]) -> None:
    assert len(run(TRAIN, ["-m", "train"]).losses()) == 3


def test_code_on_the_command_line_is_watched(run: Callable[..., Job]) -> None:
    assert len(run("", ["-c", TRAIN]).losses()) == 3


def test_isolated_python_keeps_us_out(run: Callable[..., Job]) -> None:
    job = run(TRAIN, ["-I", "train.py"])
    assert job.code == 0
    assert job.rings == []


def test_no_framework_opens_no_ring(run: Callable[..., Job]) -> None:
    job = run("import sys; print('torch' in sys.modules, 'ctypes' in sys.modules)")
    assert job.stdout == "False False\n"
    assert job.rings == []


def test_importing_the_framework_opens_no_ring(run: Callable[..., Job]) -> None:
    assert run("import torch").rings == []


def test_the_job_sees_its_own_path_and_arguments(run: Callable[..., Job]) -> None:
    script = """
        import sys
        print(sys.path, sys.argv, __name__, sys.modules.get("sitecustomize"))
    """
    watched = run(script, ["train.py", "--a", "b"])
    plain = run(script, ["train.py", "--a", "b"], watched=False)
    assert watched.stdout.replace("/work'", "/work_plain'") == plain.stdout


def test_the_hidden_sitecustomize_runs(run: Callable[..., Job], tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import builtins\nbuiltins.seen = __file__\n")
    job = run(
        "import sitecustomize; print(seen, sitecustomize.__file__)",
        env={"PYTHONPATH": f"{INJECT}:{hidden}"},
    )
    path = str(hidden / "sitecustomize.py")
    assert job.stdout == f"{path} {path}\n"
    assert job.stderr == ""


def test_nothing_is_attached_without_a_run(run: Callable[..., Job]) -> None:
    script = (
        "import sys; print([type(f).__name__ for f in sys.meta_path], 'paramedic' in sys.modules)"
    )
    job = run(script, env={"PARAMEDIC_RUN": ""})
    assert "FrameworkFinder" not in job.stdout
    assert job.stdout.endswith("False\n")


def test_importing_again_attaches_once(run: Callable[..., Job]) -> None:
    script = """
        import importlib, importlib.util, sys, threading
        threads = [threading.Thread(target=importlib.import_module, args=("torch",)) for _ in "abc"]
        [t.start() for t in threads]
        [t.join() for t in threads]
        import torch
        print(type(torch.__spec__.loader).__name__, vars(torch.__loader__).keys())
    """
    watched, plain = run(script), run(script, watched=False)
    assert watched.stdout == plain.stdout


def test_a_lazily_loaded_framework_is_watched(run: Callable[..., Job]) -> None:
    script = """
        import importlib.util, sys
        spec = importlib.util.find_spec("torch")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules["torch"] = module
        spec.loader.exec_module(module)
    """
    import textwrap

    assert len(run(textwrap.dedent(script) + TRAIN).losses()) == 3


def test_a_job_without_a_probe_runs_as_before(run: Callable[..., Job]) -> None:
    job = run(TRAIN, env={"PARAMEDIC_PROBE": "/nonexistent.so"})
    assert job.code == 0
    assert job.stderr == ""
    assert job.rings == []
    assert job.stdout == run(TRAIN, watched=False).stdout


def test_an_own_excepthook_and_exit_code_stay(run: Callable[..., Job]) -> None:
    script = (
        TRAIN
        + """
import sys
def hook(kind, error, trace):
    print("own hook", kind.__name__)
sys.excepthook = hook
raise KeyError("x")
"""
    )
    job = run(script)
    assert job.code == 1
    assert "own hook KeyError" in job.stdout
    assert job.stderr == ""


def test_a_ring_is_readable_after_os_exit(run: Callable[..., Job]) -> None:
    job = run(TRAIN + "import os, sys; sys.stdout.flush(); os._exit(7)\n")
    assert job.code == 7
    assert not job.ring.closed
    assert len(job.losses()) == 3


def test_a_forked_child_that_trains_has_a_ring_of_its_own(run: Callable[..., Job]) -> None:
    script = (
        TRAIN
        + """
import os
pid = os.fork()
if pid == 0:
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
    os._exit(0)
os.waitpid(pid, 0)
net(torch.randn(8, 4)).pow(2).mean().backward()
opt.step()
"""
    )
    job = run(script)
    parent, child = job.rings
    assert len([s for s in parent.scalars if s.name.startswith("loss/")]) == 4
    assert len([s for s in child.scalars if s.name.startswith("loss/")]) == 1
    assert child.named("gradient") == ["weight", "bias"]
    assert child.pid != parent.pid


def test_a_forked_child_that_does_not_train_opens_nothing(run: Callable[..., Job]) -> None:
    script = TRAIN + "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\n"
    assert len(run(script).rings) == 1


def test_another_thread_is_left_alone(run: Callable[..., Job]) -> None:
    script = (
        TRAIN
        + """
import threading
def other():
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
thread = threading.Thread(target=other)
thread.start()
thread.join()
"""
    )
    job = run(script)
    assert job.code == 0
    assert len(job.losses()) == 3


def test_the_rank_is_that_of_the_launcher(run: Callable[..., Job]) -> None:
    ring = run(TRAIN, env={"RANK": "3", "WORLD_SIZE": "8"}).ring
    assert (ring.rank, ring.world_size) == (3, 8)


def test_the_start_imports_no_heavy_module(tmp_path: Path) -> None:
    script = "import sys; print(sorted(sys.modules))"
    command = [sys.executable, "-c", script]
    env = watched_env(tmp_path)
    watched = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    del env["PYTHONPATH"]
    plain = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    added = set(eval(watched.stdout)) - set(eval(plain.stdout))
    assert added == {"paramedic", "paramedic._import_hook", "paramedic.adapters"} or added == {
        "__future__",
        "paramedic",
        "paramedic._import_hook",
        "paramedic.adapters",
    }
