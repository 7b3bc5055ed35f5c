#!/usr/bin/env python3
"""The figures of docs/benchmarks.md, each as a ratio of two things measured in this run.

Sections (`--only a,b`): kernels (fused statistics against the plain read bandwidth), frameworks
(against numpy and torch doing the same), steps (cost of capture in a training step, by interleaved
pairs), budget (does the controller hold 1 % and 5 %), peer (all statistics each step against one
torch reduction for each), show (a report of a million rows against a bare start), mechanism (of a
repair, in parts), transform (what recovery costs a job that does not crash), on_crash (the same by
pairs of whole processes), snapshots (do they keep within their budget), recovery (a crash repaired
in place against three ways of starting again; some minutes), collectives (one that is seen against
one that is not), ranks (what a job of four ranks with DistributedDataParallel takes with and
without; some minutes), turns (what a step takes more while the taps are in place, by pairs within
one process; some minutes), instructions (callgrind; slow, only when named).
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))
import collectives
import frameworks
import ranks
import turns
from common import JOBS, NOTHING, PARAMEDIC, PROBE, RELEASE, environment, interval

import recovery

MODELS = {"mlp": 900, "cnn": 160, "transformer": 400}  # steps of one run, about 3 s
WARM_UP_SHARE = 0.2
CALLGRIND_SLOWDOWN = 60  # measured: the MLP's step of 3.5 ms takes 0.2 s

WEIGHTS = "collection parameters kind=gradient,weight interval=1 what=stats"
EVERYTHING = "collection everything kind=all interval=1 what=stats,units"


class Config(NamedTuple):
    """How a job is run: its script, and the options of `paramedic run`; None = without it."""

    script: str
    options: Optional[Sequence[str]]


PLAIN = Config("train.py", None)
CONFIGS = {
    "idle": Config("train.py", ["--capture", NOTHING]),
    "defaults": Config("train.py", []),
    "everything": Config("train.py", ["--capture", EVERYTHING, "--overhead-budget", "0"]),
    "crash fail": Config("train.py", ["--capture", NOTHING, "--on-crash", "fail"]),
    "crash auto": Config("train.py", ["--capture", NOTHING, "--on-crash", "auto"]),
    "budget 1%": Config("train.py", ["--capture", EVERYTHING, "--overhead-budget", "1%"]),
    "budget 5%": Config("train.py", ["--capture", EVERYTHING, "--overhead-budget", "5%"]),
    "parameters": Config("train.py", ["--capture", WEIGHTS, "--overhead-budget", "0"]),
    "peer": Config("peer.py", None),
}


def run_job(
    config: Config, model: str, steps: int, prefix: Sequence[str] = (), slowdown: int = 1
) -> "tuple[List[float], Optional[float]]":
    """(seconds of each step, overhead that Paramedic measured itself in percent)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "steps.json"
        job = [*prefix, sys.executable, str(JOBS / config.script), model, str(steps), str(out)]
        command, runs = job, Path(folder) / "runs"
        if config.options is not None:
            command = [str(PARAMEDIC), "run", "--dir", str(runs), "--name", "r", *config.options]
            command += ["--", *job]
        env = {**environment(), "BENCH_SLOWDOWN": str(slowdown)}
        subprocess.run(command, env=env, check=True, capture_output=True)
        own = None
        if config.options is not None:
            info = json.loads((runs / "r" / "run.json").read_text())
            own = info["overhead_percent"]
        return json.loads(out.read_text()), own


def step_ms(seconds: List[float]) -> float:
    """Mean step after the warm-up; the mean, since the cost sits in a few sampled steps. The
    slowest 0.5 % are left out: on a shared machine they are other people's work."""
    warm = sorted(seconds[int(len(seconds) * WARM_UP_SHARE) :])
    return 1e3 * statistics.fmean(warm[: max(1, int(len(warm) * 0.995))])


def compare(configs: Sequence[str], models: Sequence[str], pairs: int) -> None:
    for model in models:
        percents: Dict[str, List[float]] = {name: [] for name in configs}
        own: Dict[str, List[float]] = {name: [] for name in configs}
        plain_ms: List[float] = []
        for _ in range(pairs):
            for name in random.sample(list(configs), len(configs)):
                first = random.random() < 0.5
                results: Dict[str, float] = {}
                for kind in ("plain", "with") if first else ("with", "plain"):
                    config = PLAIN if kind == "plain" else CONFIGS[name]
                    seconds, measured = run_job(config, model, MODELS[model])
                    results[kind] = step_ms(seconds)
                    if measured is not None:
                        own[name].append(measured)
                plain_ms.append(results["plain"])
                percents[name].append(100 * (results["with"] / results["plain"] - 1))
        print(f"{model}: plain step {statistics.median(plain_ms):.3f} ms, {pairs} pairs each")
        for name in configs:
            middle, low, high = interval(percents[name])
            said = f", it says {statistics.median(own[name]):.2f} %" if own[name] else ""
            print(f"  {name:11s} {middle:+7.2f} %  (95 %: {low:+.2f} to {high:+.2f}){said}")


def kernels() -> None:
    subprocess.run([str(RELEASE / "bench" / "bench_stats")], check=True)


def steps(pairs: int) -> None:
    compare(["idle", "defaults", "everything"], list(MODELS), pairs)


def budget(pairs: int) -> None:
    compare(["budget 1%", "budget 5%"], list(MODELS), max(2, pairs // 2))


def peer(pairs: int) -> None:
    """Added time a step: all gradients and weights at every step, as a share of the peer's."""
    for model in ("mlp", "transformer"):
        ratios = []
        for _ in range(pairs):
            base = step_ms(run_job(PLAIN, model, MODELS[model])[0])
            ours = step_ms(run_job(CONFIGS["parameters"], model, MODELS[model])[0])
            theirs = step_ms(run_job(CONFIGS["peer"], model, MODELS[model])[0])
            ratios.append((ours - base) / (theirs - base))
        middle, low, high = interval(ratios)
        print(f"{model}: ours / one torch reduction for each statistic: {middle:.3f}", end="")
        print(f"  (95 %: {low:.3f} to {high:.3f}; goal 0.1)")


def on_crash(pairs: int) -> None:
    """Added time a step of --on-crash auto against fail: transform, rewinder and audit hook. The
    few steps with a snapshot are among those that `step_ms` leaves out."""
    added_us, percents = [], []
    for _ in range(pairs):
        taken = {
            name: step_ms(run_job(CONFIGS[name], "mlp", MODELS["mlp"])[0])
            for name in random.sample(["crash fail", "crash auto"], 2)
        }
        added_us.append(1e3 * (taken["crash auto"] - taken["crash fail"]))
        percents.append(100 * (taken["crash auto"] / taken["crash fail"] - 1))
    middle, low, high = interval(added_us)
    print(f"mlp: {middle:+.0f} µs a step  (95 %: {low:+.0f} to {high:+.0f}), ", end="")
    middle, low, high = interval(percents)
    print(f"{middle:+.2f} %  ({low:+.2f} to {high:+.2f}), {pairs} pairs")


def best_ms(command: List[str], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment())
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times)


def show(_: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "million"
        maker = RELEASE / "bench" / "make_run"
        subprocess.run([str(maker), str(run), "1000000"], check=True, capture_output=True)
        bare = best_ms([str(PARAMEDIC), "--version"])
        shown = best_ms([str(PARAMEDIC), "show", str(run)])
        print(f"show of 1,000,000 rows {shown:.0f} ms, a bare start {bare:.0f} ms (goal <= 200 ms)")


def instructions(_: int) -> None:
    """Instructions a step: (long run - short run) / steps, so that imports cancel."""

    def per_step(config: Config, short: int = 20, long: int = 60) -> float:
        counts = []
        for count in (short, long):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "callgrind.out"
                prefix = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
                run_job(config, "mlp", count, prefix, CALLGRIND_SLOWDOWN)
                line = next(x for x in out.read_text().splitlines() if x.startswith("totals:"))
                counts.append(int(line.split()[1]))
        return (counts[1] - counts[0]) / (long - short)

    base = per_step(PLAIN)
    print(f"mlp: {base / 1e6:.2f} million instructions a step without Paramedic")
    for name, goal in (("idle", "0.1"), ("defaults", "1")):
        print(f"  {name:9s} {100 * (per_step(CONFIGS[name]) / base - 1):+.3f} %  (goal {goal} %)")


class Section(NamedTuple):
    """What is measured together. `pairs`: when none are asked for; None: it knows itself."""

    run: Callable[[Any], None]
    pairs: Optional[int] = 6
    is_named_only: bool = False


SECTIONS = {
    "kernels": Section(lambda _: kernels()),
    "frameworks": Section(lambda _: frameworks.main(PROBE)),
    "steps": Section(steps),
    "budget": Section(budget),
    "peer": Section(peer),
    "show": Section(show),
    "mechanism": Section(lambda _: recovery.mechanism()),
    "transform": Section(lambda _: recovery.costs()),
    "on_crash": Section(on_crash),
    "snapshots": Section(lambda _: recovery.snapshots()),
    "recovery": Section(lambda pairs: recovery.compared(max(1, pairs // 3))),
    "collectives": Section(lambda _: collectives.main(PROBE)),
    "ranks": Section(ranks.main),
    "turns": Section(turns.main, pairs=None),
    "instructions": Section(instructions, is_named_only=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="sections, by commas")
    parser.add_argument(
        "--pairs", type=int, help="interleaved pairs (default 6; of turns: some tens of each job)"
    )
    options = parser.parse_args()
    chosen = (
        options.only.split(",")
        if options.only
        else [n for n, s in SECTIONS.items() if not s.is_named_only]
    )
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    for name in chosen:
        print(f"\n── {name}", flush=True)
        section = SECTIONS[name]
        section.run(options.pairs or section.pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
