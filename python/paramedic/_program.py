"""The console script of the wheel: becomes the program, which lies beside this package's code."""

import os
import sys


def main() -> None:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "paramedic")
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"paramedic: cannot start {path}: {error.strerror}\n  hint: reinstall the wheel")
