"""A process that dies of a signal goes on from its newest snapshot as if nothing had been."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from conftest import plain_env, probe_path
from paramedic.recovery import effects, pages
from restarts import ANSWER, PUBLISHED, Restarts

pytestmark = pytest.mark.skipif(sys.version_info < (3, 9), reason="pidfd_open came with 3.9")

# Dies at the steps of DEATHS, each once, in the way of SIGNAL.
PREFIX = """
import ctypes, os, random, signal
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3); random.seed(4); np.random.seed(5)
x = torch.randn(192, 16); y = (x.sum(1) > 0).long()
deaths = [int(word) for word in os.environ.get("DEATHS", "").split()]

def may_die(step):
    if step in deaths and not os.path.exists(f"died.{step}"):
        open(f"died.{step}", "w").close()
        number = int(os.environ["SIGNAL"])
        ctypes.string_at(0) if number == signal.SIGSEGV else os.kill(os.getpid(), number)

def digest(net):
    return [p.double().sum().item().hex() for p in net.parameters()]

def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))
"""

NESTED_IN_FUNCTION = """
def main():
    net = mlp()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    rate = torch.optim.lr_scheduler.StepLR(opt, 2)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    seen = 0
    with open("log.csv", "w") as log:
        for epoch in range(5):
            total = 0.0
            for a, b in loader:
                loss = F.cross_entropy(net(a), b)
                opt.zero_grad(); loss.backward(); opt.step()
                total += loss.item(); seen += 1
                log.write(f"{seen},{loss.item()}\\n")
                may_die(seen)
            rate.step()
            with open("epochs.txt", "a") as epochs:
                epochs.write(f"{epoch} {total}\\n")
            print("epoch", epoch, total, flush=epoch % 2 == 0)
    lines = [sum(1 for _ in open(name)) for name in ("log.csv", "epochs.txt")]
    print("RESULT", digest(net), seen, lines, rate.get_last_lr())

main()
"""

MODULE_LEVEL = """
one, two = mlp(), mlp()
opt1 = torch.optim.SGD(one.parameters(), 0.1, momentum=0.9)
opt2 = torch.optim.RMSprop(two.parameters(), 1e-3)
step = 0
history = {"one": [], "two": []}
for epoch in range(6):
    order = np.random.permutation(192)
    for start in range(0, 192, 16):
        rows = torch.from_numpy(order[start:start + 16])
        step += 1
        for name, net, opt in (("one", one, opt1), ("two", two, opt2)):
            loss = F.cross_entropy(net(x[rows]), y[rows]) * random.random()
            opt.zero_grad(); loss.backward(); opt.step()
            history[name].append(loss.item())
            may_die(step)
    print(epoch, history["one"][-1], history["two"][-1])
print("RESULT", digest(one), digest(two), sum(history["one"]).hex())
"""

GENERATOR_WITHOUT_OPTIMIZER = """
class Stream:
    def __init__(self):
        self.rng = random.Random(11)
        self.given = 0
    def __iter__(self):
        pool = list(range(192))
        self.rng.shuffle(pool)
        while pool:
            take, pool = pool[:12], pool[12:]
            self.given += 1
            yield torch.tensor(take)

class Experiment:
    def __init__(self):
        self.net, self.stream, self.steps = mlp(), Stream(), 0
    def fit(self):
        for epoch in range(5):
            for n, rows in enumerate(self.stream):
                self.update(rows)
            print("epoch", epoch, n, self.stream.given)
    def update(self, rows):
        self.steps += 1
        loss = F.cross_entropy(self.net(x[rows]), y[rows])
        loss.backward()
        with torch.no_grad():
            for p in self.net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        may_die(self.steps)

exp = Experiment()
exp.fit()
print("RESULT", digest(exp.net), exp.steps, exp.stream.given)
"""

WITH_WORKERS = """
if __name__ == "__main__":
    net = mlp()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=2)
    step = 0
    for epoch in range(3):
        for a, b in loader:
            step += 1
            loss = F.cross_entropy(net(a), b)
            opt.zero_grad(); loss.backward(); opt.step()
            may_die(step)
        print("epoch", epoch, loss.item())
    print("RESULT", digest(net), step)
"""

TWO_THREADS = """
torch.set_num_threads(2)
net = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 2))
opt = torch.optim.Adam(net.parameters(), 1e-3)
big = x.repeat(8, 1)
labels = y.repeat(8)
for step in range(12):
    loss = F.cross_entropy(net(big), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    may_die(step)
    print(step, loss.item())
print("RESULT", digest(net))
"""

SCRIPTS = {
    "nested in a function": (NESTED_IN_FUNCTION, 120),
    "at module level": (MODULE_LEVEL, 72),
    "generator, no optimizer": (GENERATOR_WITHOUT_OPTIMIZER, 80),
    "loader with workers": (WITH_WORKERS, 36),
    "two threads": (TWO_THREADS, 12),
}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    jobs: List[Restarts] = []

    def start(source: str, **env: str) -> Restarts:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Restarts(folder, PREFIX + source, env))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def plain_result(folder: Path, source: str) -> str:
    """What the script prints when nothing happens to it and nobody watches."""
    folder.mkdir()
    (folder / "train.py").write_text(PREFIX + source)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=plain_env(), capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("nested in a function", signal.SIGKILL),
        ("at module level", signal.SIGSEGV),
        ("generator, no optimizer", signal.SIGABRT),
        ("loader with workers", signal.SIGBUS),
        ("two threads", signal.SIGKILL),
    ],
)
def test_result_and_output_are_those_of_a_run_that_never_died(
    name: str, number: int, started: Any, tmp_path: Path
) -> None:
    source, steps = SCRIPTS[name]
    draw = random.Random(f"{name} {number}")
    deaths = sorted(draw.sample(range(3, steps), 2))
    job = started(source, DEATHS=" ".join(map(str, deaths)), SIGNAL=str(int(number)))
    for _ in deaths:
        assert os.WTERMSIG(job.wait()) == number
        page = job.go_on()
        job.wait_until(lambda page=page: page.word(ANSWER) != 0)
        assert page.word(ANSWER) == page.word(PUBLISHED), page.reason
    assert job.wait() == 0, (job.folder / "err").read_text()
    assert job.out.read_text() == plain_result(tmp_path / "plain", source)
    assert (job.folder / "err").read_text() == ""


LOOP = """
net = mlp()
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(400):
    loss = F.cross_entropy(net(x[:8]), y[:8])
    opt.zero_grad(); loss.backward(); opt.step()
    {body}
print("RESULT", digest(net))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_death_while_a_snapshot_is_published_leaves_a_whole_one(
    moment: str, started: Any, tmp_path: Path
) -> None:
    source = LOOP.format(body="pass")
    trap = f"""
from paramedic.recovery import pages
publish = pages.SnapshotPage.publish
def trapped(page, slot):
    if slot.generation == 3 and not os.path.exists("died"):
        if "{moment}" == "after":
            publish(page, slot)
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    publish(page, slot)
pages.SnapshotPage.publish = trapped
"""
    job = started(trap + source)
    assert os.WTERMSIG(job.wait()) == signal.SIGKILL
    page = job.go_on()
    assert page.word(PUBLISHED) == (3 if moment == "after" else 2)
    assert job.wait() == 0, (job.folder / "err").read_text()
    assert job.out.read_text() == plain_result(tmp_path / "plain", source)


def test_snapshot_does_not_go_on_when_a_file_was_removed_since(started: Any) -> None:
    body = "step == 9 and (os.remove('kept'), os.kill(os.getpid(), 9))"
    job = started("open('kept', 'w').close()\n" + LOOP.format(body=body))
    assert os.WTERMSIG(job.wait()) == signal.SIGKILL
    page = job.go_on()
    assert job.wait() != 0
    assert page.word(ANSWER) == pages.UNKNOWN
    assert "kept was removed" in page.reason


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "the thread"),
        ("child = subprocess.Popen(['sleep', '60'])", "child process"),
        ("shared = np.memmap('m', dtype='u1', mode='w+', shape=9)", "shares memory"),
        ("ends = os.pipe()", "open pipe"),
    ],
)
def test_there_is_no_snapshot_of_what_a_copy_would_lack(
    obstacle: str, reason: str, started: Any
) -> None:
    job = started("import threading, subprocess\n" + obstacle + LOOP.format(body="may_die(step)"),
                  DEATHS="300", SIGNAL="9")  # fmt: skip
    job.wait()
    page = job.page()
    assert page.word(PUBLISHED) == 0
    assert reason in page.reason


def test_end_in_good_order_leaves_no_copy_and_no_page(started: Any) -> None:
    tell = "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)"
    job = started(LOOP.format(body="pass") + tell)
    assert job.wait() == 0
    copies = job.out.read_text().splitlines()[-1].split()
    assert copies
    assert not list(job.rings.glob("*.snapshot"))
    assert not [pid for pid in copies if os.path.exists(f"/proc/{pid}") and not _is_zombie(pid)]


def _is_zombie(pid: str) -> bool:
    return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pages.SnapshotPage:
    monkeypatch.setenv("PARAMEDIC_PROBE", probe_path())
    return pages.SnapshotPage.create(str(tmp_path), "t", 0)


def test_what_was_appended_or_created_is_taken_back(
    page: pages.SnapshotPage, tmp_path: Path
) -> None:
    log, lock, new = (tmp_path / name for name in ("log", "lock", "new"))
    log.write_text("before\n")
    watch = effects.Effects()
    watch.begin(page, 1)
    for path, mode in ((log, "a"), (lock, "x"), (new, "a")):
        with open(path, mode) as file:
            file.write("since\n")
    (tmp_path / "folder").mkdir()
    assert not watch.unrepeatable
    watch.end()
    effects.take_back(page, 1)
    assert log.read_text() == "before\n"
    assert not lock.exists() and not new.exists() and not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    "act",
    [
        lambda path: (path.read_text(), path.write_text("2")),
        lambda path: path.open("r+").close(),
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("other")),
        lambda path: subprocess.run(["true"], check=True),
    ],
)
def test_what_would_come_out_otherwise_makes_a_snapshot_unrepeatable(
    act: Any, page: pages.SnapshotPage, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("1")
    watch = effects.Effects()
    watch.begin(page, 0)
    act(tmp_path / "file")
    assert watch.unrepeatable
    watch.end()


def test_checkpoint_written_beside_and_renamed_can_be_repeated(
    page: pages.SnapshotPage, tmp_path: Path
) -> None:
    (tmp_path / "last.pt").write_text("old")
    watch = effects.Effects()
    watch.begin(page, 0)
    (tmp_path / "last.tmp").write_text("new")
    (tmp_path / "last.tmp").replace(tmp_path / "last.pt")
    assert not watch.unrepeatable
    watch.end()


def test_torn_slot_is_no_snapshot(page: pages.SnapshotPage) -> None:
    slot = pages.Slot(1, 5, 0, 0, 1, 1, os.getpid())
    page.publish(slot)
    assert page.slot(1) == slot
    page._memory[130] ^= 1
    assert page.slot(1) is None


def example_of_the_document() -> Dict[int, bytes]:
    """The bytes in docs/formats/snapshot.md, by their offset."""
    text = (Path(__file__).parents[2] / "docs" / "formats" / "snapshot.md").read_text()
    block = text.split("```hexdump\n")[1].split("```")[0]
    rows = (line.split(None, 1) for line in block.splitlines())
    return {int(at, 16): bytes.fromhex(data) for at, data in rows}


def test_example_of_the_document_is_what_is_written(page: pages.SnapshotPage) -> None:
    page._memory[12:16] = (4711).to_bytes(4, "little")
    page.publish(pages.Slot(3, 812, 4096, 0, 1_796_000_000_000_000_000, 9_000_000, 4712))
    for at, data in example_of_the_document().items():
        assert page._memory[at : at + len(data)] == data
