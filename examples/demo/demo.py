"""Trains three small models under paramedic and shows the three reports.

healthy.py learns; deep_sigmoid.py has a vanishing gradient; nan_in_own_code.py makes a NaN in a
line of its own. Runs are kept in a fresh folder, named at the end.
"""

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PARAMEDIC = ROOT / ".venv" / "bin" / "paramedic"
SCRIPTS = ("healthy", "deep_sigmoid", "nan_in_own_code")


def title(text: str) -> None:
    print(f"\n\033[1m── {text} \033[0m" if sys.stdout.isatty() else f"\n── {text}", flush=True)


def main() -> int:
    runs = ROOT / "paramedic-runs" / time.strftime("demo-%Y%m%d-%H%M%S")
    for number, script in enumerate(SCRIPTS, 1):
        title(f"{number}/3  paramedic run -- python examples/demo/{script}.py")
        command = [str(PARAMEDIC), "run", "--dir", str(runs), "--name", script, "--"]
        command += [sys.executable, str(HERE / f"{script}.py")]
        code = subprocess.run(command, check=False).returncode
        if code != 0:
            print(f"demo: {script}.py ended with {code} under paramedic", file=sys.stderr)
            return 1
    for script in SCRIPTS:
        title(f"paramedic show {script}")
        subprocess.run([str(PARAMEDIC), "show", "--dir", str(runs), script], check=True)
    page = runs / "nan_in_own_code.html"
    show = [str(PARAMEDIC), "show", "--dir", str(runs), "--html", str(page), "nan_in_own_code"]
    subprocess.run(show, check=True)
    print(f"\nThe runs are in {runs}\nOpen next: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
