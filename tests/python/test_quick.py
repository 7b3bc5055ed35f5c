"""Steps at which nothing is due go a short way; nothing of it may be missing or wrong."""

import random
from typing import Callable

import pytest
from conftest import Job
from ring import Ring
from test_nan_origin import born
from test_steps import script

NOTHING = "collection none kind=all interval=0 steps=1000000000 what=stats\n"

LOOP = """
    import os
    from paramedic.adapters.torch import quick
    quick.TICK_NS = int(os.environ["TICK_NS"])
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    x = torch.randn(4, 8)
    for i in range(60):
        rate = opt.param_groups[0]["lr"]
        if i == 40: net, x = net.double(), x.double()
        loss = net(x).pow(2).mean()
        print(i, rate, loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
"""

NAN = """
w = nn.Parameter(torch.ones(8))
opt = torch.optim.SGD([w], 1e-4)
for i in range(60):
    x = torch.ones(4, 8)
    if i == 44:
        x = x * -1
    hidden = torch.sqrt(x * w)  # BORN sqrt
    opt.zero_grad()
    hidden.sum().backward()
    opt.step()
"""

NAN_DRAWN = """
drawn = [torch.rand(1).item() for _ in range(60)]
torch.manual_seed(0)
w = nn.Parameter(torch.ones(8))
opt = torch.optim.SGD([w], 1e-4)
for i in range(60):
    x = torch.ones(4, 8)
    if torch.rand(1).item() == drawn[44]:
        x = x * -1
    hidden = torch.sqrt(x * w)  # BORN sqrt
    opt.zero_grad()
    hidden.sum().backward()
    opt.step()
"""

NAN_BACKWARD = """
w = nn.Parameter(torch.ones(8))
opt = torch.optim.SGD([w], 0.01)
for i in range(60):
    hidden = w * (0 if i == 44 else 1)
    loss = torch.sqrt(hidden).sum()  # BORN sqrt
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


EACH_STEP = "collection all kind=gradient,weight interval=1 what=stats\n"


@pytest.mark.parametrize(
    ("plan", "tick_ns"), [(NOTHING, 10**8), ("", 10**8), (NOTHING, 1), (EACH_STEP, 1)]
)
def test_each_loss_and_rate_is_recorded(train: Callable[..., Job], plan: str, tick_ns: int) -> None:
    # GIVEN a loop whose rate changes at each step, and the type of its numbers at step 40
    job = train(script(LOOP), plan=plan, env={"TICK_NS": str(tick_ns)})
    # WHEN nothing, or something at every tenth step, is due
    told = [line.split() for line in job.stdout.splitlines()]
    # THEN each step has its loss and its rate, in order
    (loss,) = [name for name in job.ring.scalar_names() if name.startswith("loss/")]
    assert [(s.step, s.value) for s in job.ring.scalar(loss)] == [
        (int(step), float(value)) for step, _, value in told
    ]
    assert [(s.step, s.value) for s in job.ring.scalar("learning_rate/SGD/0")] == [
        (int(step), float(rate)) for step, rate, _ in told
    ]
    assert job.ring.last_step == 59
    assert job.ring.of_kind("not_captured") == []


@pytest.mark.parametrize("body", [NAN, NAN_BACKWARD])
def test_a_nan_at_such_a_step_is_found(train: Callable[..., Job], body: str) -> None:
    source = script(body)
    job = train(source, plan=NOTHING)
    (event,) = job.ring.of_kind("nan_origin")
    assert event["where"]["line"] == born(source)["line"], event
    assert [e.step for e in job.ring.events if e.kind == "nan_origin"] == [44]


def test_a_nan_of_a_number_that_was_drawn_is_found(run: Callable[..., Job]) -> None:
    # GIVEN a process of its own: of a fork the whole script is repeated, with its seed
    source = script(NAN_DRAWN)
    # WHEN the iteration is repeated
    job = run(source, plan=NOTHING)
    # THEN it draws the same number, whose state no Python has kept
    (event,) = job.ring.of_kind("nan_origin")
    assert event["where"]["line"] == born(source)["line"], event


def test_another_optimizer_and_line_are_seen(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        net = nn.Linear(8, 1)
        first = torch.optim.SGD(net.parameters(), 0.01)
        for i in range(30):
            first.zero_grad()
            net(torch.randn(4, 8)).mean().backward()
            first.step()
        second = torch.optim.Adam(net.parameters(), 0.01)
        for i in range(30):
            second.zero_grad()
            net(torch.randn(4, 8)).mean().backward()
            second.step()
        """),
        plan=NOTHING,
    )
    assert len(job.losses()) == 60
    assert job.ring.scalar("learning_rate/Adam/0")[0].step == 30
    assert len([n for n in job.ring.scalar_names() if n.startswith("loss/")]) == 2


def test_a_new_model_is_told_with_its_loss(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        for fold in range(2):
            net = nn.Linear(8, 1)
            opt = torch.optim.SGD(net.parameters(), 0.01)
            for i in range(30):
                opt.zero_grad()
                net(torch.randn(4, 8)).mean().backward()
                opt.step()
        """),
        plan=NOTHING,
    )
    assert [f["fit"] for f in job.ring.facts("loss")] == [0, 1]
    assert len(job.losses()) == 60


# Which optimizers step in which order: a letter is `backward()` at a line of its own and an update,
# a small one an update alone, and a digit `backward()` alone, at one of two lines.
ORDERS = {
    "in turn": "AB" * 30,
    "the first five times as often": "AAAAAB" * 10,
    "one line for all": "<AB>" * 20,
    "one that ends": "ABC" * 4 + "AB" * 50,
    "gradients that add up": "112A12B" * 15,
    "updates of one gradient": "1ab2ba" * 15,
}

SEVERAL = """
    import os
    if os.environ["QUICK"] == "no":
        from paramedic.adapters.torch import quick
        quick.MAX_OPTIMIZERS = 0  # no stretch can begin
    nets = [nn.Linear(4, 1) for _ in range(3)]
    optimizers = [torch.optim.SGD(net.parameters(), 0.01) for net in nets]
    x = torch.randn(4, 4)
    def loss(at):
        return nets[at](x).pow(2).mean()
    def update(at):
        optimizers[at].param_groups[0]["lr"] *= 0.99
        optimizers[at].step()
    is_one_line = False
    for sign in os.environ["ORDER"]:
        if sign in "<>":
            is_one_line = sign == "<"
            continue
        at = "ABC".find(sign.upper())
        if is_one_line:
            loss(at).backward()
        elif sign == "1": sum(map(loss, range(3))).backward()
        elif sign == "2": sum(map(loss, range(3))).backward()
        elif sign == "A": loss(0).backward()
        elif sign == "B": loss(1).backward()
        elif sign == "C": loss(2).backward()
        if at >= 0:
            update(at)
    if os.environ["QUICK"] == "yes":
        import gc
        from paramedic.adapters.torch.stretch import Stretch
        (stretch,) = [one for one in gc.get_objects() if type(one) is Stretch]
        print(sum(one.steps for one in stretch.state.optimizers))
"""


def _numbers(ring: Ring) -> "dict[str, list[tuple[int, float]]]":
    """What was recorded at each step, of losses and rates."""
    assert ring.of_kind("not_captured") == []
    return {
        name: [(one.step, one.value) for one in ring.scalar(name)]
        for name in ring.scalar_names()
        if name.startswith(("loss/", "learning_rate/"))
    }


@pytest.mark.parametrize("name", [*ORDERS, *map(str, range(4))])
def test_several_optimizers_make_the_same_steps_on_both_ways(
    train: Callable[..., Job], name: str
) -> None:
    # GIVEN optimizers that step in some order, or in one that was drawn
    order = ORDERS.get(name) or "".join(random.Random(name).choices("AABBC12ab<>", k=300))
    # WHEN steps go the short way, and when there can be none
    env = {"ORDER": order, "QUICK": "yes"}
    job = train(script(SEVERAL), plan=NOTHING, env=env)
    quick = job.ring
    _, usual = train(script(SEVERAL), plan=NOTHING, env={**env, "QUICK": "no"}).rings
    # THEN the same is recorded of each
    assert _numbers(quick) == _numbers(usual)
    assert quick.last_step == usual.last_step
    assert len(_numbers(quick)) >= 3
    # AND the last stretch has taken updates
    assert job.code == 0, job.stderr
    assert int(job.stdout) > 0


def test_where_tensors_lie_unknown_every_step_goes_the_usual_way(run: Callable[..., Job]) -> None:
    # GIVEN a torch in whose tensors nothing is found
    source = """
from paramedic.adapters.torch import tensor_layout
tensor_layout._TENSOR_BYTES = 8
"""
    # WHEN a job trains
    job = run(source + script(LOOP), plan=NOTHING, env={"TICK_NS": str(10**8)})
    # THEN each step has its loss and rate, and nothing is said to be missing
    assert job.code == 0, job.stderr
    told = [line.split() for line in job.stdout.splitlines()]
    assert [s.value for s in job.ring.scalars if s.name.startswith("loss/")] == [
        float(value) for *_, value in told
    ]
    assert job.ring.last_step == 59
    assert job.ring.of_kind("not_captured") == []


def test_where_tensors_lie_is_found_whatever_lay_there_before(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        import random
        from paramedic.adapters.torch import tensor_layout
        drawn = random.Random(1)
        kept, found = [], set()
        for i in range(2000):
            if drawn.random() < 0.7:
                kept.append(bytearray(drawn.randrange(400)))
                kept.append(torch.empty(drawn.randrange(9)))
            else:
                kept = [one for one in kept if drawn.random() < 0.7]
            found.add(bytes(tensor_layout.find(torch)))
        print(len(found))
        """),
        plan=NOTHING,
    )
    assert job.stdout == "1\n", job.stderr


def test_only_plain_floats_on_the_cpu_are_read_where_they_lie(train: Callable[..., Job]) -> None:
    job = train(
        script("""
        from paramedic.adapters.torch import tensor_layout
        layout = tensor_layout.find(torch)
        def lies_at(tensor):
            try:
                return tensor_layout._address_of(layout, tensor._cdata)
            except ValueError:
                return None
        base = torch.randn(50, 4)
        weight = nn.Parameter(base)
        plain = [base, base[3:], base.t(), base[7, 2], weight, weight.detach()[9:],
                 (weight * 2).sum(), torch.from_numpy(base.numpy())[4:],
                 base.as_strided((2,), (3,))]
        print([lies_at(one) == one.data_ptr() for one in plain].count(True), len(plain))
        with torch.inference_mode():
            inference = base + 1
        wrapped = []
        torch.func.vmap(lambda row: wrapped.append(lies_at(row)) or row)(base)
        others = [base.double(), base.half(), base.long(), base.to("meta"), base.to_sparse(),
                  inference, torch._neg_view(base), base.to_mkldnn()]
        print([lies_at(one) for one in others].count(None) + wrapped.count(None), len(others) + 1)
        """)
    )
    assert job.stdout.split() == ["9", "9", "9", "9"], job.stdout + job.stderr


LOOKS = """
    import inspect, pickle, traceback
    backward = torch.autograd.backward
    for one in inspect.signature(backward).parameters.values():
        print(one.replace(annotation=one.empty))
    print(backward.__name__, backward.__qualname__, backward.__module__, inspect.getdoc(backward))
    print(pickle.loads(pickle.dumps(backward)) is backward)
    net = nn.Linear(8, 1)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    for i in range(20):
        loss = net(torch.ones(4, 8)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i in (0, 9, 19):
            # By its name, as a keyword, and again.
            backward(net(torch.ones(8)))
            backward(tensors=[net(torch.ones(8)).sum()], retain_graph=False)
            try: loss.backward()
            except RuntimeError as error: print(error)
            try: backward()
            except TypeError as error: print("missing")
            print(net.weight.grad.sum().item())
"""


def test_backward_is_to_the_job_what_it_was(train: Callable[..., Job]) -> None:
    job = train(script(LOOKS), plan=NOTHING)
    plain = train(script(LOOKS), watched=False)
    assert job.code == 0, job.stderr
    assert job.stdout == plain.stdout
