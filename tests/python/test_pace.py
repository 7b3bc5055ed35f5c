"""What each rank of a job tells of its time; two ranks on gloo, as forks of one script."""

from statistics import median
from typing import Any, Callable, Dict, List

import pytest
from conftest import Job
from ring import Ring

SCRIPT = """
import gc, os, sysconfig, time
if os.environ["KIND"] == "without native functions":
    sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
rank = 0 if os.fork() else 1
os.environ.update(RANK=str(rank), LOCAL_WORLD_SIZE="2")
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meet", world_size=2, rank=rank)
torch.manual_seed(0)
ddp = os.environ["KIND"] == "ddp"
net = nn.Sequential(nn.Linear(20, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 1))
net = DDP(net) if ddp else net
opt = torch.optim.SGD(net.parameters(), 0.01)
torch.manual_seed(rank)
for i in range(16):
    x = torch.randn(8, 20)
    if rank == 1:
        time.sleep(0.1)  # SLEEP
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    if not ddp:
        for p in net.parameters():
            dist.all_reduce(p.grad)
    opt.step()
    if i == 3:
        gc.collect()
weights = sum(p.double().sum() for p in net.parameters()).item()
print("weights", rank, weights.hex(), loss._backward_hooks)
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    os.wait()
"""


def pace(ring: Ring) -> List[Dict[str, Any]]:
    return ring.of_kind("pace")


@pytest.mark.parametrize("kind", ["ddp", "by hand", "without native functions"])
def test_waiting_is_told_apart_from_work(train: Callable[..., Job], kind: str) -> None:
    env = {"WORLD_SIZE": "2", "KIND": kind}
    # GIVEN two ranks of which one sleeps in each step
    job = train(SCRIPT, plan="", env=env)
    assert job.code == 0, job.stderr
    rings = {ring.rank: ring for ring in job.rings}
    # WHEN both tell of the beats that they share
    told = {
        rank: {
            e["first"] + i: (own, wait)
            for e in pace(ring)
            for i, (own, wait) in enumerate(zip(e["self_us"], e["wait_us"]))
        }
        for rank, ring in rings.items()
    }
    both = sorted(told[0].keys() & told[1].keys())
    assert both, told
    # THEN the one has worked while the other has waited; single beats of a busy machine may differ
    own = {rank: median(told[rank][beat][0] for beat in both) for rank in told}
    wait = {rank: median(told[rank][beat][1] for beat in both) for rank in told}
    assert own[1] > 100_000
    assert wait[0] > wait[1] and own[0] < own[1], (own, wait)
    # AND the line of the sleep was seen, with the process standing still
    line = SCRIPT[: SCRIPT.index("# SLEEP")].count("\n") + 1
    seen = [one for e in pace(rings[1]) for one in e["lines"] if one["line"] == line]
    assert seen and all(one["still"] for one in seen), pace(rings[1])
    assert sum(e["waits"] for e in pace(rings[0])) > 0
    assert sum(e["gc_count"] for e in pace(rings[0])) > 0
    for ring in rings.values():
        assert ring.of_kind("not_captured") == []
        assert len(ring.of_kind("pace_begins")) == 1
    # AND the training is the same as without
    plain = train(SCRIPT, watched=False, env=env)
    assert sorted(job.stdout.splitlines()) == sorted(plain.stdout.splitlines())


def test_a_job_of_one_process_has_no_pace(train: Callable[..., Job]) -> None:
    job = train(
        """
        import gc, torch
        w = torch.nn.Parameter(torch.ones(3))
        opt = torch.optim.SGD([w], 0.1)
        for i in range(30):
            opt.zero_grad()
            w.pow(2).sum().backward()
            opt.step()
        print([c.__module__ for c in gc.callbacks])
        """,
        plan="",
    )
    assert job.ring.of_kind("pace_begins") == []
    assert "paramedic" not in job.stdout
