#!/usr/bin/env python3
"""Format, lint, types and layers in one command. `--fix` lets the formatters rewrite.

Runs clang-format, clang-tidy (in parallel, over the release build's compile commands), ruff,
mypy --strict and tools/tidy.py over what git tracks, and reports all that failed.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path
from typing import List

from verdicts import Verdicts, cache_folder, compile_commands, digest_of, digest_of_files

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
TIDY = [
    *(str(BIN / "clang-tidy"), "--quiet", "-p", "build/dev"),
    # Flags meant for g++, and what libstdc++'s own std::stable_sort uses.
    *("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-declarations"),
]


def tracked(*patterns: str) -> List[str]:
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    return [name for name in sorted(set(out.split())) if (ROOT / name).is_file()]


def run(name: str, command: List[str]) -> bool:
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    good = done.returncode == 0
    print(f"{'ok    ' if good else 'FAILED'} {name}", flush=True)
    if not good:
        print(done.stdout.decode("utf-8", "replace")[-8000:])
    return good


def headers_digest() -> bytes:
    """Of everything that any file's verdict may depend on besides the file itself."""
    return digest_of_files(ROOT, tracked("src/*.h", "*.inc", ".clang-tidy"))


def clang_tidy(files: List[str]) -> bool:
    """Each file once for each state of it and of what it depends on (verdicts.py)."""
    verdicts = Verdicts(cache_folder(os.environ))
    version = subprocess.run([TIDY[0], "--version"], stdout=subprocess.PIPE, check=True).stdout
    tool = version + " ".join(TIDY[1:]).encode()
    commands = compile_commands(ROOT, ROOT / "build" / "dev" / "compile_commands.json")

    def key_of(name: str, headers: bytes) -> str:
        text = (ROOT / name).read_bytes()
        return digest_of(tool, headers, commands.get(name, b""), name.encode(), text)

    def one(name: str) -> bool:
        key = key_of(name, headers)
        if verdicts.knows(key):
            return True
        done = subprocess.run(
            [*TIDY, name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            print(done.stdout.decode("utf-8", "replace")[-4000:])
        # What was edited in the meantime is not what was judged.
        elif key_of(name, headers_digest()) == key:
            verdicts.remember(key)
        return done.returncode == 0

    headers = headers_digest()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        good = all(list(pool.map(one, files)))
    verdicts.trim()
    print(f"{'ok    ' if good else 'FAILED'} clang-tidy, {len(files)} files", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite what the formatters can")
    fix = parser.parse_args().fix
    cpp = tracked("src/*.cc", "src/*.h", "bench/*.cc", "fuzz/*.cc")
    python = tracked("*.py")
    ruff, mypy = str(BIN / "ruff"), str(BIN / "mypy")
    format_cpp = [str(BIN / "clang-format")] + (["-i"] if fix else ["--dry-run", "-Werror"])
    good = [
        run("clang-format", format_cpp + cpp),
        run("ruff format", [ruff, "format", "-q"] + ([] if fix else ["--check"]) + python),
        run("ruff check", [ruff, "check", "-q"] + (["--fix"] if fix else []) + python),
    ]
    if not fix:
        good.append(run("mypy --strict", [mypy, "--strict", "python/paramedic", "tools"]))
        good.append(run("tools/tidy.py", [sys.executable, "tools/tidy.py"]))
        subprocess.run(
            ["cmake", "--preset", "dev"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True
        )
        good.append(
            clang_tidy([name for name in cpp if name.startswith("src/") and name.endswith(".cc")])
        )
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
