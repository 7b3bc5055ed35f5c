"""What a rank tells of its passes over loaders; the job itself is the same with and without."""

from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from conftest import Job
from paramedic.adapters.torch.shards.loop import shape_of
from paramedic.adapters.torch.shards.print_of import fingerprint
from paramedic.adapters.torch.shards.reading import Reading

RANK_1_OF_4 = {"RANK": "1", "WORLD_SIZE": "4"}

HEAD = """
import torch
import torch.nn as nn
from torch.utils.data import *
torch.manual_seed(0)
x = torch.randn(200, 6)
data = TensorDataset(x, x[:, :2].argmax(1))
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def learn(batch):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
"""


def told(job: Job, kind: str) -> List[Dict[str, Any]]:
    return list(job.ring.of_kind(kind))


def ids_of(set_fields: Dict[str, Any]) -> List[int]:
    from base64 import b64decode

    bits = "".join(f"{byte:08b}" for byte in b64decode(set_fields["bits"]))
    return [at * set_fields["modulus"] for at, bit in enumerate(bits) if bit == "1"]


def test_a_pass_is_told_with_its_sampler_and_its_samples(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
sampler = DistributedSampler(data, num_replicas=4, rank=1, shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch in loader:
        learn(batch)
""",
        env=RANK_1_OF_4,
    )
    begun, read = told(job, "epoch_begun"), told(job, "epoch_read")
    assert [fields["epoch"] for fields in begun] == [0, 1]
    assert {fields["loader"] for fields in begun + read} == {"train.py:16"}
    sampler = begun[1]["sampler"]
    assert (sampler["replicas"], sampler["rank"], sampler["epoch"]) == (4, 1, 1)
    assert (sampler["where"]["line"], begun[0]["iterated"]["line"]) == (15, 19)
    assert (begun[0]["loop"], begun[0]["batches"], begun[1]["batches_a_step"]) == ("plain", 7, 1)
    assert begun[0]["dataset"]["where"]["line"] == 7
    assert [(fields["batches"], fields["samples"]) for fields in read] == [(7, 50)] * 2
    assert all(fields["exhausted"] and fields["over"] for fields in read)
    assert ids_of(read[0]["ids"]) == list(range(1, 200, 4))
    assert read[0]["order"] == read[1]["order"]
    assert read[0]["contents"]["whole"] and read[0]["contents"]["read"] == 50


@pytest.mark.parametrize("workers", ["0", "2, persistent_workers=True", "2, prefetch_factor=4"])
def test_the_samples_and_results_are_the_same_with_and_without(
    train: Callable[..., Job], workers: str
) -> None:
    script = (
        HEAD
        + f"""
class Noisy(Dataset):
    def __len__(self): return len(data)
    def __getitem__(self, i): return data[i][0] + torch.randn(6), data[i][1], i
loader = DataLoader(Noisy(), 16, shuffle=True, num_workers={workers})
for epoch in range(3):
    for batch in loader:
        learn(batch)
        print(batch[2].tolist())
print(model.weight.tolist(), torch.rand(1).item())
"""
    )
    watched = train(script, env=RANK_1_OF_4)
    plain = train(script, env=RANK_1_OF_4, watched=False)
    assert watched.stdout == plain.stdout and watched.stderr == plain.stderr == ""
    read = told(watched, "epoch_read")
    assert [fields["epoch"] for fields in read] == [0, 1, 2]
    assert [ids_of(fields["ids"]) for fields in read] == [list(range(200))] * 3
    assert len({fields["order"] for fields in read}) == 3


def test_a_loader_that_nothing_learns_from_is_not_told(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
def loader_of(size): return DataLoader(Subset(data, range(size)), batch_size=10)
training, validation, frozen = loader_of(100), loader_of(50), loader_of(30)
for epoch in range(2):
    for batch in training:
        learn(batch)
    for batch in validation:
        model(batch[0])
    with torch.no_grad():
        for batch in frozen:
            model(batch[0])
""",
        env=RANK_1_OF_4,
    )
    assert [fields["samples"] for fields in told(job, "epoch_read")] == [100, 100]
    assert [fields["loader"] for fields in told(job, "epoch_begun")] == ["train.py:15"] * 2


def test_a_loop_that_is_left_is_told_at_once(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
loader = DataLoader(data, batch_size=10)
for number, batch in enumerate(loader):
    if number == 5:
        break
    learn(batch)
learn(batch)
""",
        env=RANK_1_OF_4,
    )
    (read,) = [event for event in job.ring.events if event.kind == "epoch_read"]
    assert (read.fields["over"], read.fields["exhausted"]) == (True, False)
    assert (read.fields["batches"], ids_of(read.fields["ids"])) == (6, list(range(60)))
    assert told(job, "epoch_begun")[0]["loop"] == "may_leave"
    assert read.step == 5


def test_a_stream_is_told_by_its_content(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
class Stream(IterableDataset):
    def __iter__(self): return iter(data)
for batch in DataLoader(Stream(), batch_size=16, num_workers=1):
    learn(batch)
""",
        env=RANK_1_OF_4,
    )
    (read,) = told(job, "epoch_read")
    assert (read["ids"], read["order"], read["samples"], read["batches"]) == (None, None, 200, 13)
    assert read["contents"]["whole"] and len(read["contents"]["hashes"]) == -(-800 // 3) * 4
    assert told(job, "epoch_begun")[0]["batches"] is None


def test_a_subset_is_told_by_the_ids_underneath_too(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
part = Subset(Subset(data, range(50, 150)), range(0, 100, 2))
for batch in DataLoader(part, batch_size=10, shuffle=True):
    learn(batch)
""",
        env=RANK_1_OF_4,
    )
    (read,) = told(job, "epoch_read")
    assert ids_of(read["root_ids"]) == list(range(50, 150, 2))
    assert told(job, "epoch_begun")[0]["root"]["length"] == 200


def test_loaders_that_follow_each_other_are_one_and_those_side_by_side_are_not(
    train: Callable[..., Job],
) -> None:
    job = train(
        HEAD
        + """
def loader_of(size): return DataLoader(Subset(data, range(size)), batch_size=10)
for epoch in range(2):
    loader = loader_of(60)
    for batch in loader:
        learn(batch)
del loader
for batch, other in zip(loader_of(80), loader_of(90)):
    learn(batch)
    learn(other)
""",
        env=RANK_1_OF_4,
    )
    names = [(fields["loader"], fields["epoch"]) for fields in told(job, "epoch_begun")]
    assert names == [
        ("train.py:15", 0),
        ("train.py:15", 1),
        ("train.py:15", 2),
        ("train.py:15#2", 0),
    ]


def test_names_for_ids_keep_an_order_and_no_set(train: Callable[..., Job]) -> None:
    job = train(
        HEAD
        + """
class ByName(Dataset):
    def __len__(self): return 40
    def __getitem__(self, name): return data[int(name)]
for batch in DataLoader(ByName(), batch_size=10, sampler=[str(i) for i in range(40)]):
    learn(batch)
""",
        env=RANK_1_OF_4,
    )
    (read,) = told(job, "epoch_read")
    assert (read["ids"], read["samples"]) == (None, 40)
    assert read["order"]


def test_a_job_of_one_rank_tells_nothing(train: Callable[..., Job]) -> None:
    job = train(HEAD + "for batch in DataLoader(data, batch_size=10):\n    learn(batch)\n")
    assert told(job, "epoch_begun") == told(job, "epoch_read") == []


def test_a_data_set_that_resists_changes_nothing(train: Callable[..., Job]) -> None:
    script = (
        HEAD
        + """
class Hostile(TensorDataset):
    def __getattribute__(self, name):
        if name == "__dict__": raise RuntimeError("no")
        return super().__getattribute__(name)
for batch in DataLoader(Hostile(*data.tensors), batch_size=10):
    learn(batch)
print(model.weight.sum().item())
"""
    )
    watched, plain = train(script, env=RANK_1_OF_4), train(script, watched=False)
    assert (watched.stdout, watched.stderr) == (plain.stdout, "")
    assert [fields["what"] for fields in told(watched, "not_captured")] == ["shards"]


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ("for b in loader:\n    if b:\n        for c in b:\n            break\n", "plain"),
        ("for i, b in enumerate(tqdm(loader)):\n    step(b)\n", "plain"),
        ("for b in loader:\n    if b:\n        break\n", "may_leave"),
        ("for b in loader:\n    while b:\n        return\n", "may_leave"),
        ("for i, b in zip(range(9), loader):\n    step(b)\n", "may_leave"),
        ("for b in itertools.islice(loader, 9):\n    step(b)\n", "may_leave"),
        ("it = iter(loader)\n", "unknown"),
        ("for b in (loader\n", "unknown"),
    ],
)
def test_a_loop_that_may_be_left_is_known_by_its_source(
    tmp_path: Path, source: str, shape: str
) -> None:
    file = tmp_path / "loop.py"
    file.write_text(source)
    assert shape_of(str(file), 1) == shape


def test_a_data_set_is_known_again_and_its_parts_are_told_apart() -> None:
    import torch
    from torch.utils.data import Subset, TensorDataset

    x = torch.arange(4000).reshape(1000, 4)
    whole = TensorDataset(x)
    assert fingerprint(whole) == fingerprint(TensorDataset(x.clone()))
    parts = [TensorDataset(x[at::4]) for at in range(4)] + [Subset(whole, range(500)), whole]
    assert len({fingerprint(part) for part in parts}) == len(parts)
    assert fingerprint([["a"], {"b": 1}]) != fingerprint([["a"], {"b": 2}])


def test_of_a_large_data_set_the_ids_that_a_prime_divides_are_told() -> None:
    import torch
    from paramedic.adapters.torch.shards.rows import Rows

    reading = Reading(1_000_000, None, 0, Rows(torch))
    for first in range(0, 1_000_000, 1000):
        reading.asked.append(list(range(first, first + 1000, 4)))
        reading.took(None)
    ids = reading.facts(True)["ids"]
    assert ids["modulus"] == 11
    assert ids["read"] == ids["distinct"] == len(range(0, 1_000_000, 44))
    assert ids_of(ids) == list(range(0, 1_000_000, 44))
