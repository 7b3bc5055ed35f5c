"""tools/check.py: what clang-tidy found clean is not asked again, in no checkout of one user."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
# Notes each file that it is asked about, and finds fault with one that says so.
TIDY = """#!/bin/sh
if [ "$1" = --version ]; then echo version {version}; exit 0; fi
for name; do :; done
echo "$name" >> asked
! grep -q FAULT "$name"
"""


class Checkout:
    """A project of one file and one header, with a clang-tidy that only reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("src", "tools", "build/dev", ".venv/bin"):
            (root / folder).mkdir(parents=True)
        for name in ("check.py", "verdicts.py"):
            shutil.copy(TOOLS / name, root / "tools" / name)
        self.write("src/a.cc", "int a;")
        self.write("src/a.h", "int a();")
        self.write(".clang-tidy", "Checks: '*'")
        self.compile_with("-O1")
        self.install("1")
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def compile_with(self, flags: str) -> None:
        command = f"c++ -I{self.root}/src {flags} -c {self.root}/src/a.cc"
        entry = {"directory": str(self.root), "command": command, "file": f"{self.root}/src/a.cc"}
        self.write("build/dev/compile_commands.json", json.dumps([entry]))

    def install(self, version: str) -> None:
        self.write(".venv/bin/clang-tidy", TIDY.format(version=version))
        (self.root / ".venv/bin/clang-tidy").chmod(0o755)

    def check(self) -> bool:
        """Whether all is clean."""
        code = "import sys, check; sys.exit(not check.clang_tidy(['src/a.cc']))"
        environment = {**os.environ, "PYTHONPATH": str(self.root / "tools")}
        environment["XDG_CACHE_HOME"] = str(self.root.parent / "cache")
        return not subprocess.call([sys.executable, "-c", code], env=environment)

    def asked(self) -> List[str]:
        """The files that clang-tidy was asked about since the last call."""
        asked = self.root / "asked"
        names = asked.read_text().split() if asked.exists() else []
        asked.unlink(missing_ok=True)
        return names


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "first")


def test_a_clean_file_is_asked_about_once_in_all_checkouts(
    checkout: Checkout, tmp_path: Path
) -> None:
    second = Checkout(tmp_path / "elsewhere" / "second")
    (tmp_path / "elsewhere" / "cache").symlink_to(tmp_path / "cache")
    assert checkout.check() and checkout.asked() == ["src/a.cc"]
    assert checkout.check() and checkout.asked() == []
    assert second.check() and second.asked() == []


def test_a_change_of_anything_that_was_read_asks_again(checkout: Checkout) -> None:
    assert checkout.check() and checkout.asked() == ["src/a.cc"]
    changes = [
        lambda: checkout.write("src/a.cc", "int b;"),
        lambda: checkout.write("src/a.h", "int b();"),
        lambda: checkout.write("src/new.h", ""),
        lambda: checkout.write(".clang-tidy", "Checks: '-*'"),
        lambda: checkout.compile_with("-O2"),
        lambda: checkout.install("2"),
    ]
    for change in changes:
        change()
        assert checkout.check() and checkout.asked() == ["src/a.cc"]
        assert checkout.check() and checkout.asked() == []


def test_a_fault_is_told_each_time(checkout: Checkout) -> None:
    checkout.write("src/a.cc", "FAULT")
    for _ in range(2):
        assert not checkout.check() and checkout.asked() == ["src/a.cc"]
    checkout.write("src/a.cc", "int a;")
    assert checkout.check()


def test_the_verdicts_met_longest_ago_are_forgotten_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    from verdicts import Verdicts

    verdicts = Verdicts(tmp_path / "cache")
    for at, key in enumerate(["old", "met", "new"]):
        verdicts.remember(key)
        os.utime(tmp_path / "cache" / key, ns=(at, at))
    assert verdicts.knows("met")
    verdicts.trim(most=2)
    assert [verdicts.knows(key) for key in ("old", "met", "new")] == [False, True, True]
