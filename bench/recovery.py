"""The sections of run.py about recovery: its mechanism, what it costs, and how it compares.

`recovery` crashes the same four jobs in the same place and measures, each time, from the fault to
the end of the step that it had interrupted: in place, from scratch, from the epoch's checkpoint,
and by CheckFreq's policy. Nobody has to notice the crash of a job that is started again, and it is
started at once: that is in favour of those three.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from common import JOBS, NOTHING, PARAMEDIC, PROBE, ROOT, environment, interval

MODULES = 40
PROCESSES = 5
SHAPES = ("callee", "blocks", "generator", "method", "skip", "header")
LONG = "long"
PAIRS = 40
# Long enough for some snapshots each.
SNAPSHOT_SECONDS = {"0.3%": 75, "3%": 20}

MODELS = {"resnet18": "ResNet-18", "vit": "ViT", "chargpt": "char-GPT", "lstm": "LSTM"}
# Each way to recover, and what its job keeps (keepers.py).
KEEPERS = {"in place": "nothing", "scratch": "nothing", "epoch": "epoch", "checkfreq": "checkfreq"}
EPOCH, CRASH, STEPS = 24, 36, 39
MEASURED = range(CRASH - EPOCH, CRASH)  # of the first process: an epoch, whose time is compared


def measured(job: str, *arguments: str, under: Sequence[str] = ()) -> Any:
    """What a job writes into the file that is its last argument."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, str(JOBS / job), *arguments, str(out)]
        if under:
            command = [str(PARAMEDIC), "run", "--dir", f"{folder}/runs", *under, "--", *command]
        env = {**environment(), "PARAMEDIC_PROBE": str(PROBE)}
        subprocess.run(command, env=env, check=True, capture_output=True)
        return json.loads(out.read_text())


def quantile(values: List[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def mechanism() -> None:
    """The parts of a repair, over many in one process; the first of a process apart."""
    repairs = measured("repairs.py", ",".join([*SHAPES, LONG]), str(MODULES))[1:]
    edits = measured("repairs.py", "edit", str(MODULES))[1:]
    firsts = [measured("repairs.py", SHAPES[0], "1")[0] for _ in range(PROCESSES)]
    new = [one for one in repairs if one["is_new"]]
    usual = [one for one in new if one["kind"] != LONG]
    heads = ("find", "plan", "build", "in all", "raise to go on")
    print(f"{'ms, p50 / p95':26s} " + " ".join(f"{head:>15s}" for head in heads))
    _parts("at a new place", usual)
    for kind in SHAPES:
        _parts(f"  {kind}", [one for one in usual if one["kind"] == kind])
    _parts("in a function of 300 lines", [one for one in new if one["kind"] == LONG])
    _parts("again at the same place", [one for one in repairs if not one["is_new"]])
    _parts("an edit", edits)
    _parts("the first of a process", firsts)
    for title, some in (("", usual), (" with the long function", new)):
        worst = quantile([sum(one["parts"].values()) for one in some], 0.95)
        print(f"p95 at a new place{title}: {worst:.1f} ms (goal <= 5 ms), {len(some)} repairs")


def _parts(title: str, repairs: List[Dict[str, Any]]) -> None:
    parts = ("find", "plan", "build")
    columns = [[one["parts"].get(part, 0.0) for one in repairs] for part in parts]
    columns.append([sum(one["parts"].values()) for one in repairs])
    columns.append([one["whole"] for one in repairs])
    cells = [f"{quantile(c, 0.5):.2f} / {quantile(c, 0.95):.2f}" for c in columns]
    print(f"{title:26s} " + " ".join(f"{cell:>15s}" for cell in cells))


def costs() -> None:
    """Of the transform, the rewinder and the audit hook, in one process."""
    found = measured("costs.py", str(PAIRS))
    counts, step_us = found["instructions"], 1e3 * found["mlp_ms"]
    for name, title in (("pure", "loop without torch"), ("mlp", "step of the MLP")):
        plain, ours = counts[f"{name} False"], counts[f"{name} True"]
        whole = sum(plain.values())
        more = ours["job"] + ours.get("paramedic", 0.0) - plain["job"]
        print(f"{title}: {more:.0f} bytecode instructions more, of {whole:.0f}: ", end="")
        print(f"{100 * more / whole:+.2f} %")
        middle, low, high = interval(found["pairs"][name])
        print(f"  wall time, {PAIRS} pairs: {middle:+.2f} %  (95 %: {low:+.2f} to {high:+.2f})")
    # The loop without torch tells what an instruction takes; `more` is that of the MLP.
    share = 100 * more * found["instruction_ns"] / 1e3 / step_us
    print(f"  {more:.0f} instructions x {found['instruction_ns']:.0f} ns = ", end="")
    print(f"{share:.4f} % of a step of {step_us / 1e3:.2f} ms (goal 0.05 %)")
    print(f"rewinder: {counts['mlp rewinder']['paramedic']:.0f} instructions a step")
    for phase, title in (("early", "while it may copy freely, 0.25 s in all"), ("late", "then")):
        calls = {name: statistics.median(us) for name, us in found["rewinder_us"][phase].items()}
        nothing, level = calls.pop("nothing"), calls.pop("level")
        calls = {
            n: max(0.0, us - (level if n == "backward" else nothing)) for n, us in calls.items()
        }
        each = ", ".join(f"{name} {us:.1f}" for name, us in calls.items())
        share = 100 * sum(calls.values()) / step_us
        print(f"  {title}: {sum(calls.values()):.1f} µs a step = {share:.2f} % (medians: {each})")
    events, event_ns = found["audit"]["events"], found["audit"]["event_ns"]
    print(f"audit hook of snapshots: {events:.0f} events a step x {event_ns:.0f} ns = ", end="")
    print(f"{events * event_ns / 1e3:.1f} µs ({events * event_ns / step_us / 10:.3f} %)")


def snapshots() -> None:
    """Do snapshots keep within their budget?"""
    for budget, seconds in SNAPSHOT_SECONDS.items():
        under = ["--on-crash", "auto", "--capture", NOTHING, "--snapshot-budget", budget]
        found = measured("forks.py", str(seconds), under=under)
        print(f"budget {budget}: {found['snapshots']} snapshots in {seconds} s, ", end="")
        print(f"fork {found['fork_ms']:.1f} ms, each {found['each_ms']:.1f} ms of the thread and")
        print(
            f"  {found['copy_ms']:.1f} ms of the copy: {100 * found['share']:.2f} % of the time; ",
            end="",
        )
        print(f"by the clock {100 * found['wall_share']:.2f} % ", end="")
        print(f"(MLP, step {found['step_ms']:.2f} ms)")


class Crash(NamedTuple):
    """One job that met its fault and went on."""

    recovery_s: float  # from the fault to the end of the interrupted step
    replay_s: float  # of it: steps that had been done already
    mechanism_ms: float
    step_s: float  # mean step of the first process, before the fault
    stall_percent: float  # of these steps, measured by whoever keeps or watches
    loss: str


def crash(model: str, way: str) -> Crash:
    """Runs one job through its fault."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as place:
        folder = Path(place)
        command = [sys.executable, str(JOBS / "recover.py"), model, str(folder), KEEPERS[way]]
        command += [str(number) for number in (STEPS, EPOCH, CRASH)]
        own: Dict[str, Any] = {}
        if way == "in place":
            own = _in_place(folder, command)
        else:
            first = subprocess.run(command, env=environment(), capture_output=True, check=False)
            assert b"FileNotFoundError" in first.stderr, first.stderr.decode()
            (folder / "samples").mkdir()
            subprocess.run(command, env=environment(), capture_output=True, check=True)
        return _read(folder, own)


def _in_place(folder: Path, command: List[str]) -> Dict[str, Any]:
    options = ["--dir", str(folder / "runs"), "--name", "r", "--capture", NOTHING]
    run = [str(PARAMEDIC), "run", *options, "--", *command]
    subprocess.run(run, env=environment(), capture_output=True, check=True)
    show = [str(PARAMEDIC), "show", "--json", "--dir", str(folder / "runs"), "r"]
    shown = subprocess.run(show, env=environment(), capture_output=True, check=True)
    report: Dict[str, Any] = json.loads(shown.stdout)
    (repair,) = report["repairs"]
    overhead = json.loads((folder / "runs" / "r" / "run.json").read_text())["overhead_percent"]
    return {"took_ms": repair["took_ms"], "overhead_percent": overhead}


def _read(folder: Path, own: Dict[str, Any]) -> Crash:
    """What the events of a job say."""
    fault, processes, steps = 0.0, 0, []
    for line in (folder / "events.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "begin":
            processes += 1
        elif words[0] == "fault" and not fault:
            fault = float(words[1])
        elif words[0] == "step":
            steps.append((processes, int(words[1]), float(words[2]), float(words[3]), words[4:]))
    after = [one for one in steps if one[3] > fault]
    end = next(one[3] for one in after if one[1] == CRASH)
    replayed = [one for one in after if one[1] < CRASH]
    before = [one for one in steps if one[0] == 1 and one[1] in MEASURED]
    wall_s = before[-1][3] - before[0][2]
    stall_s = float(before[-1][4][1]) - float(before[0][4][1])
    return Crash(
        end - fault,
        replayed[-1][3] - replayed[0][2] if replayed else 0.0,
        own.get("took_ms", 0.0),
        wall_s / len(before),
        own.get("overhead_percent", 100 * stall_s / wall_s),
        steps[-1][4][0],
    )


def compared(rounds: int) -> None:
    """One table of a row for each model, medians of `rounds` crashes for each way."""
    print(f"fault at step {CRASH}, epochs of {EPOCH} steps, {rounds} rounds; seconds from the")
    print(
        "fault to the end of its step (of it steps done again), overhead by own measure, by pairs"
    )
    heads = "".join(f"{way:>35s}" for way in list(KEEPERS)[2:])
    print(f"{'':10s} {'step':>8s} {'in place':>35s} {'scratch':>15s}{heads}")
    for model, title in MODELS.items():
        found: Dict[str, List[Crash]] = defaultdict(list)
        began = time.monotonic()
        for number in range(rounds):
            ways = list(KEEPERS)
            for way in ways[number % 4 :] + ways[: number % 4]:
                found[way].append(crash(model, way))
        losses = {one.loss for several in found.values() for one in several}
        step_s = statistics.median(one.step_s for one in found["scratch"])
        cells = [_cell(way, found) for way in KEEPERS]
        print(f"{title:10s} {1e3 * step_s:6.0f}ms " + " | ".join(cells), flush=True)
        same = "all end with the same loss, to the bit" if len(losses) == 1 else f"losses {losses}"
        mechanism_ms = statistics.median(one.mechanism_ms for one in found["in place"])
        print(f"{'':10s} mechanism {mechanism_ms:.1f} ms; {same}; {time.monotonic() - began:.0f} s")


def _cell(way: str, found: Dict[str, List[Crash]]) -> str:
    crashes, plain = found[way], found["scratch"]
    recovery_s = statistics.median(one.recovery_s for one in crashes)
    replay_s = statistics.median(one.replay_s for one in crashes)
    cell = f"{recovery_s:.3f} ({replay_s:.2f})"
    if way == "scratch":
        return cell
    stall = statistics.median(one.stall_percent for one in crashes)
    percents = [100 * (one.step_s / base.step_s - 1) for one, base in zip(crashes, plain)]
    middle, low, high = interval(percents)
    return f"{cell} {stall:.2f} % {middle:+.1f} % ({low:+.1f} to {high:+.1f})"
