"""Names, facts and activations of models of different make."""

from typing import Callable

import pytest
from conftest import Job
from test_steps import script

LOOP = """
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 3)).sum().backward()
    opt.step()
"""


def test_modules_come_in_forward_order_with_their_lines(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.last = nn.Linear(5, 1)
                self.first = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
            def forward(self, x):
                return self.last(self.first(x))
        def build():
            return Net()
        net = build()
        loss_fn = nn.MSELoss()
        opt = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.5)
        for _ in range(2):
            opt.zero_grad()
            loss_fn(net(torch.randn(4, 3)), torch.zeros(4, 1)).backward()
            opt.step()
        """)
    )
    ring = job.ring
    modules = ring.facts("module")
    assert [m["name"] for m in modules] == ["", "first", "first.0", "first.1", "last"]
    lines = {m["name"]: (m["line"], m["function"]) for m in modules}
    assert lines[""] == (15, "build")
    assert lines["last"] == (10, "__init__")
    assert lines["first.1"] == (11, "__init__")
    assert modules[2]["detail"]["called"]["line"] == 13
    (optimizer,) = ring.facts("optimizer")
    assert optimizer["line"] == 18
    assert optimizer["detail"]["step"]["line"] == 22
    assert optimizer["detail"]["groups"][0]["weight_decay"] == 0.5
    (loss,) = ring.facts("loss")
    assert (loss["class"], loss["line"]) == ("MSELoss", 21)
    assert ring.named("activation") == ["first.0", "first.1", "last"]


def test_models_that_go_on_from_saved_weights_are_told_so(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        net[2].load_state_dict(nn.Linear(4, 1).state_dict())
        """)
        + LOOP
    )
    loaded = {m["name"]: m["detail"]["loaded"] for m in job.ring.facts("module")}
    assert loaded == {"": False, "0": False, "1": False, "2": True}


def test_dead_units_are_counted(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        nn.init.constant_(net[0].bias, -100.0)
        """)
        + LOOP
    )
    relu = [s for s in job.ring.stats if s.name == "1" and s.kind == "activation"]
    assert [(s.units, s.units_dead) for s in relu] == [(4, 4)] * 3


def test_activations_are_seen_before_operations_in_place(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
        nn.init.constant_(net[0].bias, -100.0)
        """)
        + LOOP
    )
    first = [s for s in job.ring.stats if s.name == "0" and s.kind == "activation"]
    assert all(s.max < -50 for s in first)
    assert len(first) == 3


def test_evaluation_gives_no_activations(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(3, 1)
        """)
        + LOOP
        + """
    net.eval()
    with torch.no_grad():
        net(torch.randn(4, 3))
    net(torch.randn(4, 3))
    net.train()
"""
    )
    assert len([s for s in job.ring.stats if s.kind == "activation"]) == 3
    assert job.ring.scalar("phase/validation_ms")


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations_are_counted_once(
    train: Callable[..., Job], reentrant: bool
) -> None:
    job = train(
        script(f"""
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 1)
            def forward(self, x):
                x = x.clone().requires_grad_()
                return self.b(checkpoint(self.a, x, use_reentrant={reentrant}))
        net = Net()
        """)
        + LOOP
    )
    assert len(job.losses()) == 3
    # Reentrant checkpoints run their first forward without gradients.
    expected = 0 if reentrant else 3
    seen = [s for s in job.ring.stats if s.kind == "activation" and s.name == "a"]
    assert len(seen) == expected


def test_compiled_models_are_not_compiled_again(train: Callable[..., Job]) -> None:
    body = (
        script("""
        import torch._dynamo
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        raw, net = net, torch.compile(net, backend="eager")
        """)
        + LOOP
        + """
    net.eval()
    with torch.no_grad():
        net(torch.randn(4, 3))
    net.train()
import torch._dynamo.utils as u
print(dict(u.counters["stats"]), dict(u.counters["graph_break"]))
print(len(u.compile_times(repr="csv")[0]))
"""
    )
    job, plain = train(body), train(body, watched=False)
    assert job.code == 0, job.stderr
    assert job.stdout == plain.stdout
    assert job.ring.named("gradient") == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [n["what"] for n in job.ring.of_kind("not_captured")] == ["activations"]


def test_wrappers_leave_no_trace_in_names(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        import os
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        import torch.distributed as dist
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(3, 1)
            def forward(self, x):
                return self.body(x)
        net = nn.parallel.DistributedDataParallel(Net())
        """)
        + LOOP
        + "dist.barrier()\ndist.destroy_process_group()\n"
    )
    assert job.code == 0, job.stderr
    assert job.ring.named("gradient") == ["body.weight", "body.bias"]
    assert job.ring.named("activation") == ["body"]


def test_data_parallel_leaves_no_trace_in_names(train: Callable[..., Job]) -> None:
    job = train(script("net = nn.DataParallel(nn.Sequential(nn.Linear(3, 1)))\n") + LOOP)
    assert job.ring.named("gradient") == ["0.weight", "0.bias"]


def test_loaders_are_told_and_their_workers_left_alone(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        from torch.utils.data import DataLoader, TensorDataset
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        data = TensorDataset(torch.randn(20, 3))
        loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)
        for (x,) in loader:
            opt.zero_grad()
            net(x).sum().backward()
            opt.step()
        """)
    )
    ring = job.ring
    (loader,) = ring.facts("loader")
    assert loader["line"] == 11
    detail = loader["detail"]
    expected = {"batch_size": 4, "workers": 2, "shuffle": True, "length": 5, "dataset_length": 20}
    assert {key: detail[key] for key in expected} == expected
    assert detail["iterated"]["line"] == 12
    assert ring.scalar("phase/data_ms")[0].value > 0


def test_nothing_of_ours_is_saved_or_copied(train: Callable[..., Job]) -> None:
    body = script("""
        import copy, hashlib, io, pickle
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
            def forward(self, x):
                return self.net(x)
        net = Net()
        opt = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(3):
            opt.zero_grad()
            loss = net(torch.randn(4, 3)).sum()
            copied = copy.deepcopy(net)
            loss.backward()
            opt.step()
            handle = net.register_forward_hook(print)
            buffer = io.BytesIO()
            handle.remove()
            torch.save([net, copied, opt, opt.state_dict()], buffer)
            print(hashlib.sha1(buffer.getvalue()).hexdigest())
            print(len(pickle.dumps([net, opt])), handle.id, sorted(vars(net)), sorted(vars(opt)))
        print(pickle.dumps([torch.save, torch.autograd.backward, torch.compile]))
        print(torch.initial_seed(), torch.randn(1))
        """)
    job, plain = train(body), train(body, watched=False)
    assert job.code == 0, job.stderr
    assert job.stdout == plain.stdout
    assert len(job.losses()) == 3


def test_a_failing_tap_says_so_once_and_training_goes_on(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        import sys
        from paramedic.adapters.torch import tensors
        def fail(*args):
            raise RuntimeError("injected")
        if "paramedic.adapters.torch" in sys.modules:
            tensors.TensorBatch.capture = fail
        net = nn.Linear(3, 1)
        """)
        + LOOP
        + "print('done')\n"
    )
    assert (job.code, job.stdout, job.stderr) == (0, "done\n", "")
    told = job.ring.of_kind("not_captured")
    assert told == [{"what": "optimizer steps", "why": "RuntimeError: injected"}]
