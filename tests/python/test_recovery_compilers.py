"""Functions that somebody else compiles see the code as written."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from conftest import INJECT
from crashing import run

COMPILED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def helper(self, x):
        for _ in range(2):
            x = torch.relu(x)
        return x

    def forward(self, x):
        for layer in self.layers:
            x = self.helper(layer(x))
        with torch.no_grad():
            y = x.sum()
        return outer(x) + y

def outer(x):
    try:
        with torch.enable_grad():
            return x.sin() + 1
    finally:
        x = 0

@torch.compile(backend="eager", fullgraph=True)
def decorated(x):
    with torch.no_grad():
        return outer(x) * 2

def train(x):
    net = Net()
    whole = torch.compile(net, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(whole(x), Net.forward(net, x))
    return decorated(x)

print(torch._dynamo.explain(Net())(torch.ones(2, 4)).graph_break_count)
print(train(torch.ones(2, 4)).sum().item())

def plain(x):
    for _ in range(2):
        x = x + 1
    return x

scripted = torch.jit.script(plain)
print(scripted(torch.ones(2)).sum().item())
"""


def test_torch_compile_finds_no_more_graph_breaks(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(COMPILED)
    outputs = []
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    for more in (
        {},
        {"PARAMEDIC_RUN": "x", "PARAMEDIC_ON_CRASH": "auto", "PYTHONPATH": str(INJECT)},
    ):
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**env, **more},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]


def test_what_numba_compiles_is_not_transformed(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text(
        "def njit(*given, **more):\n    return given[0] if given else lambda f: f\njit = njit\n"
    )
    source = """
    import sys
    sys.path.insert(0, place)
    import numba
    from numba import njit as fast
    del sys.path[0], sys.modules["numba"]
    @numba.jit
    def a(x): return x
    @fast(parallel=True)
    def b(x): return x
    def c(x): return x
    d = numba.njit(c)
    def e(x): return x
    """
    spaces, _ = run(tmp_path, textwrap.dedent(source), place=str(tmp_path))

    def is_transformed(name: str) -> bool:
        consts = spaces[name].__code__.co_consts
        return any(type(one).__name__ == "Runtime" for one in consts)

    assert [name for name in "abce" if is_transformed(name)] == ["e"]
