#!/usr/bin/env python3
"""Builds the wheel that a user installs, into build/dist.

The program's libraries (Arrow, fmt, RE2, …) are copied into the wheel under names of their own, so
that it needs nothing but glibc, and whatever pyarrow the user has stays as it is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "build" / "dist"


def main() -> int:
    import pyarrow  # type: ignore[import-untyped]

    tools = Path(sys.executable).parent
    # As in the presets, so that ccache knows every file of the release build.
    env = {**os.environ, "CXX": os.environ.get("CXX", "c++")}
    env["PATH"] = f"{tools}:{env['PATH']}"
    env["LD_LIBRARY_PATH"] = pyarrow.get_library_dirs()[0]
    with tempfile.TemporaryDirectory() as plain:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q"]
        pip += ["--no-deps", "--no-build-isolation", "-Cbuild-dir=build/wheel"]
        pip += [f"-Ccmake.define.PARAMEDIC_PYTHON={sys.executable}"]
        subprocess.run([*pip, "-w", plain, str(ROOT)], cwd=ROOT, env=env, check=True)
        (wheel,) = Path(plain).glob("*.whl")
        shutil.rmtree(DIST, ignore_errors=True)
        repair = [str(tools / "auditwheel"), "repair", "-w", str(DIST), str(wheel)]
        done = subprocess.run(repair, env=env, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return 1
    (wheel,) = DIST.glob("*.whl")
    print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
