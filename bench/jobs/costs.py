"""What recovery costs a job that does not crash, part by part, all in this process.

Usage: costs.py PAIRS OUT.json. Measured: bytecode instructions that run with and without the
transform, counted; wall time of the same, in pairs that take turns; the calls into the rewinder;
the audit hook of snapshots.
"""

import json
import random
import statistics
import sys
import tempfile
import time
import timeit
import types
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from paramedic._probe import add_audit_hook
from paramedic.recovery import effects, loader, marks, rewind, runtime

REWOUND_STEPS, WARM = 400, 20
TRAIN = Path(__file__).with_name("train.py")
# No torch: each instruction of this loop is one of the job's own.
PURE = """
def predict(weights, row):
    total = 0.0
    for weight, value in zip(weights, row):
        total += weight * value
    return total

def main(steps):
    rows = [[(i * j) % 7 / 7 for j in range(16)] for i in range(32)]
    weights = [0.0] * 16
    for step in range(steps):
        for i, row in enumerate(rows):
            try:
                error = predict(weights, row) - i / 32
                if error * error > 1e6:
                    raise ValueError(error)
            except ValueError:
                continue
            for j, value in enumerate(row):
                weights[j] -= 0.01 * error * value
    return weights
"""


def load(file: Path, transform: bool) -> Dict[str, Any]:
    """The names of a program."""
    module = types.ModuleType(f"job_{transform}")
    data = file.read_bytes()
    code: Any = compile(data, str(file), "exec")
    if transform:
        code = loader.transformed(str(file), data)
        assert code is not None
    exec(code, module.__dict__)
    return module.__dict__


def count(function: Callable[[], Any]) -> "Counter[str]":
    """Bytecode instructions that run in `function`, by whose code they are."""
    counts: "Counter[str]" = Counter()
    owners: Dict[str, str] = {}

    def owner(file: str) -> str:
        if "/paramedic/recovery/" in file:
            return "paramedic"
        if file == __file__:
            return "benchmark"
        return "libraries" if "/lib/python" in file or file.startswith("<") else "job"

    def on_instruction(frame: Any, event: str, _: Any) -> Any:
        if event == "opcode":
            file = frame.f_code.co_filename
            if file not in owners:
                owners[file] = owner(file)
            counts[owners[file]] += 1
        return on_instruction

    def on_call(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return on_instruction

    sys.settrace(on_call)
    try:
        function()
    finally:
        sys.settrace(None)
    return counts


def per_step(run: Callable[[int], Any], short: int = 6, long: int = 16) -> Dict[str, float]:
    """(long run - short run) / steps, so that what comes before the loop cancels."""
    run(short)  # warm: imports and caches
    before, after = count(lambda: run(short)), count(lambda: run(long))
    return {who: (after[who] - before[who]) / (long - short) for who in after}


def train(names: Dict[str, Any], steps: int, folder: Path) -> List[float]:
    """Seconds of each step of the MLP."""
    sys.argv = ["train.py", "mlp", str(steps), str(folder / "steps.json")]
    names["main"]()
    step_s: List[float] = json.loads((folder / "steps.json").read_text())
    return step_s


def pairs(plain: Callable[[], float], ours: Callable[[], float], number: int) -> List[float]:
    """Percent by which `ours` takes longer, of each of `number` pairs that take turns."""
    percents = []
    for _ in range(number):
        if random.random() < 0.5:
            base, more = plain(), ours()
        else:
            more, base = ours(), plain()
        percents.append(100 * (more / base - 1))
    return percents


def timed_calls(names: Dict[str, Any], folder: Path) -> Dict[str, Dict[str, List[float]]]:
    """Microseconds of the calls into the rewinder, one list a kind: while it may copy for a quarter
    of a second, and afterwards. "nothing" is the same around a function that does nothing, "level"
    around what a backward pass asks for without us."""
    spent: Dict[str, List[float]] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.perf_counter_ns()
            try:
                return function(*args)
            finally:
                spent.setdefault(name, []).append((time.perf_counter_ns() - began) / 1e3)

        return call

    marks.connect(runtime.Runtime)
    train(names, WARM, folder)  # the first marks look through the frames and set the hooks
    import torch
    from torch.optim import optimizer

    own: Any = rewind.rewinder()
    hooks: Any = optimizer._global_optimizer_pre_hooks
    log: Any = torch.autograd.graph.log
    mark, nothing = timed("mark", own.mark), timed("nothing", lambda: None)
    level = timed("level", log._genuine.getEffectiveLevel)

    def iteration_started(loop: int) -> None:
        nothing()
        level()
        mark(loop)

    runtime.Runtime.iteration_started = staticmethod(iteration_started)
    genuine, step = log.getEffectiveLevel, hooks["paramedic.rewind"]
    log.getEffectiveLevel = timed("backward", genuine)
    hooks["paramedic.rewind"] = timed("step", step)
    found = {}
    for phase in ("early", "late"):
        spent.clear()
        train(names, REWOUND_STEPS, folder)
        found[phase] = {name: calls[WARM:] for name, calls in spent.items()}
        own._pace.credit_ns = 0.0
    runtime.Runtime.iteration_started = own.mark
    log.getEffectiveLevel, hooks["paramedic.rewind"] = genuine, step
    return found


def audit(names: Dict[str, Any], folder: Path) -> Dict[str, float]:
    """The audit hook: events of a step, and what it adds to one event that it passes over."""

    def id_ns() -> float:
        return min(timeit.repeat("id(one)", "one = object()", number=200_000, repeat=9)) / 200e-6

    without = id_ns()
    watched = effects.Effects()
    add_audit_hook(watched._follow, sorted(watched._handlers)).on = 1
    with_hook = id_ns()
    events = [0]

    def counter(event: str, args: Any) -> None:
        events[0] += 1

    sys.addaudithook(counter)
    counts = []
    for steps in (10, 110):
        before = events[0]
        train(names, steps, folder)
        counts.append(events[0] - before)
    return {"events": (counts[1] - counts[0]) / 100, "event_ns": with_hook - without}


def main() -> None:
    number, out = int(sys.argv[1]), Path(sys.argv[2])
    found: Dict[str, Any] = {"instructions": {}, "pairs": {}}
    # So far nobody listens to the marks: the transform alone.
    runtime.Runtime.iteration_started = staticmethod(marks.nothing)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "pure.py").write_text(PURE)
        pure = {kind: load(folder / "pure.py", kind) for kind in (False, True)}
        mlp = {kind: load(TRAIN, kind) for kind in (False, True)}
        instructions = found["instructions"]
        for kind in (False, True):
            instructions[f"pure {kind}"] = per_step(pure[kind]["main"])
            instructions[f"mlp {kind}"] = per_step(lambda n, k=kind: train(mlp[k], n, folder))

        def pure_s(kind: bool) -> float:
            return min(timeit.repeat(lambda: pure[kind]["main"](20), number=1, repeat=3))

        def mlp_s(kind: bool) -> float:
            return statistics.median(train(mlp[kind], 30, folder)[5:])

        found["instruction_ns"] = 1e9 * pure_s(False) / 20 / instructions["pure False"]["job"]
        found["mlp_ms"] = 1e3 * mlp_s(False)
        for name, run in (("pure", pure_s), ("mlp", mlp_s)):
            found["pairs"][name] = pairs(lambda r=run: r(False), lambda r=run: r(True), number)
        found["rewinder_us"] = timed_calls(mlp[True], folder)
        instructions["mlp rewinder"] = per_step(lambda n: train(mlp[True], n, folder), 100, 300)
        found["audit"] = audit(mlp[False], folder)
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
