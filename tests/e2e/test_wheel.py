"""The wheel, built and installed as a user does it, on each Python that this machine has."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from conftest import ROOT, SECONDS_MAX

# What a wheel may take from the system (the policy of manylinux).
SYSTEM_LIBRARIES = (
    *("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so"),
    *("libstdc++", "libgcc_s", "libz.so"),
)
VERSIONS = Path(os.environ.get("PYENV_ROOT", "/root/.pyenv")) / "versions"
OTHERS = [
    str(path)
    for version in ("3.8", "3.9", "3.10", "3.12", "3.13")
    for path in sorted(VERSIONS.glob(f"{version}.*/bin/python"))
]
JOB = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print("trained")
"""


def said(command: List[str], env: Dict[str, str], cwd: Path) -> str:
    done = subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel() -> Path:
    tool = [sys.executable, str(ROOT / "tools" / "wheel.py")]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (ROOT / "build" / "dist").glob("paramedic-*.whl")
    return path


class Installed:
    """An environment of its own that holds the wheel and nothing else."""

    def __init__(self, python: str, wheel: Path, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": f"{folder / 'venv/bin'}:/usr/bin:/bin", "HOME": str(folder)}
        self.python = str(folder / "venv/bin/python")
        self.paramedic = str(folder / "venv/bin/paramedic")
        said([python, "-m", "venv", str(folder / "venv")], self.env, folder)
        pip = [self.python, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        said([*pip, "--disable-pip-version-check", str(wheel)], self.env, folder)

    def site_packages(self) -> Path:
        (found,) = (self.folder / "venv/lib").glob("python*/site-packages")
        return found

    def say(self, *words: str) -> str:
        return said(list(words), self.env, self.folder)


@pytest.mark.parametrize("python", [sys.executable, *OTHERS])
def test_an_installed_wheel_runs_a_job_and_says_how_it_went(
    python: str, wheel: Path, tmp_path: Path
) -> None:
    installed = Installed(python, wheel, tmp_path)
    assert installed.say(installed.paramedic, "--version").startswith("paramedic ")
    run = [installed.paramedic, "run", "--name", "r", "--", installed.python, "-c"]
    assert installed.say(*run, "import paramedic; print(paramedic.__name__)") == "paramedic\n"
    report = json.loads(installed.say(installed.paramedic, "show", "--json", "r"))
    assert report["run"]["status"] == "finished"


def test_an_installed_wheel_watches_torch(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(sys.executable, wheel, tmp_path)
    # The frameworks of the development environment, after what the wheel has installed.
    import torch

    frameworks = Path(torch.__file__).parents[1]
    (installed.site_packages() / "frameworks.pth").write_text(f"{frameworks}\n")
    (tmp_path / "job.py").write_text(JOB)
    run = [installed.paramedic, "run", "--name", "r", "--", installed.python, "job.py"]
    assert installed.say(*run) == "trained\n"
    report = json.loads(installed.say(installed.paramedic, "show", "--json", "r"))
    assert report["run"]["steps"] == 30


def test_an_installed_wheel_needs_no_library_of_the_machine(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(sys.executable, wheel, tmp_path)
    for part in ("bin/paramedic", "lib/libparamedic_probe.so"):
        needed = installed.say("ldd", str(installed.site_packages() / "paramedic" / part))
        assert "not found" not in needed
        for line in needed.splitlines():
            is_own = str(installed.folder) in line
            assert is_own or any(name in line for name in SYSTEM_LIBRARIES), line
