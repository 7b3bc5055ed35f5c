"""`paramedic.watch()` in a script that nobody started for us."""

import sys
import textwrap
from pathlib import Path
from typing import Callable, Dict

from conftest import ROOT, Job, probe_path

SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import torch
import paramedic
torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
watched = paramedic.watch(net, opt)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
print(watched)
"""


def fake_agent(folder: Path) -> Dict[str, str]:
    """A program that says that it is ready, as the agent does."""
    program = folder / "paramedic"
    program.write_text(
        f"#!{sys.executable}\n"
        + textwrap.dedent(f"""
        import json, os, sys
        assert sys.argv[1:3] == ["agent", "--pid"], sys.argv
        fd = int(sys.argv[sys.argv.index("--ready-fd") + 1])
        ready = {{"run_dir": {str(folder)!r}, "run_id": "w", "ring_dir": {str(folder / "rings")!r}}}
        os.write(fd, (json.dumps(ready) + "\\n").encode())
        """)
    )
    program.chmod(0o755)
    return {"PARAMEDIC_BIN": str(program), "PARAMEDIC_PROBE": probe_path()}


def test_a_script_may_ask_to_be_watched(run: Callable[..., Job], tmp_path: Path) -> None:
    # GIVEN no environment of a run; the rings are looked for where the fixture has them
    (tmp_path / "rings").mkdir()
    job = run(SCRIPT, watched=False, env=fake_agent(tmp_path))
    # THEN the agent's answer is enough to attach, and the given model is named
    assert job.stdout == "True\n", job.stderr
    from ring import rings

    (ring,) = rings(tmp_path / "rings")
    assert ring.named("weight") == ["weight", "bias"]
    assert len([s for s in ring.scalars if s.name.startswith("loss/")]) == 3


def test_a_missing_program_is_one_warning(run: Callable[..., Job]) -> None:
    job = run(SCRIPT, watched=False, env={"PARAMEDIC_BIN": "/nonexistent"})
    assert (job.code, job.stdout) == (0, "False\n")
    assert job.stderr.count("paramedic does not watch") == 1
