#!/usr/bin/env python3
"""Runs every fuzzer of build/fuzz for some seconds each; fails when one finds something."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    fuzzers = sorted(p for p in (ROOT / "build" / "fuzz" / "fuzz").glob("fuzz_*") if p.is_file())
    if not fuzzers:
        parser.error("no fuzzers in build/fuzz/fuzz: run make fuzz")
    bad = []
    for fuzzer in fuzzers:
        with tempfile.TemporaryDirectory() as corpus:
            seeds = ROOT / "fuzz" / "corpus" / fuzzer.name
            command = [str(fuzzer), f"-max_total_time={options.seconds}", "-timeout=10"]
            command += ["-rss_limit_mb=4096", f"-artifact_prefix={ROOT}/build/fuzz/", corpus]
            if seeds.is_dir():
                command.append(str(seeds))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = [line for line in done.stderr.splitlines() if line.startswith("#")][-1:]
        print(f"{fuzzer.name}: {'clean' if done.returncode == 0 else 'FAILED'}  {''.join(last)}")
        if done.returncode != 0:
            print(done.stderr[-4000:])
            bad.append(fuzzer.name)
    print(f"{len(fuzzers) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
