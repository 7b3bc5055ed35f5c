"""The promise that matters most: a job's output, exit code, files and weights are the same."""

import shutil
from pathlib import Path
from typing import Dict

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def files_of(folder: Path) -> Dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_output_exit_code_and_files_are_identical(program, python, tmp_path, script):
    # GIVEN the same script in two fresh folders of the same name (paths may be printed)
    outcomes = []
    for kind in ("plain", "watched"):
        folder = tmp_path / "job"
        shutil.rmtree(folder)
        folder.mkdir()
        shutil.copy(script, folder)
        # WHEN it runs plainly, then under paramedic
        command = [python, script.name]
        done = program.plain(command) if kind == "plain" else program.run(script.stem, command)
        outcomes.append((done.returncode, done.stdout, files_of(folder)))
    # THEN nothing tells the two apart
    plain, watched = outcomes
    assert watched[0] == plain[0]
    assert watched[1] == plain[1]
    assert watched[2].keys() == plain[2].keys()
    for name, content in plain[2].items():
        assert watched[2][name] == content, f"{name} differs"
    # AND the job was really watched
    report = program.report(script.stem)
    assert report["run"]["framework"], report["not_captured"]
    assert report["run"]["steps"] > 0


def test_healthy_scripts_raise_no_alarm(program, python):
    for name in ("mlp_plain", "cnn_workers", "gan_two_optimizers", "accumulate_clip"):
        script = Path(__file__).parent / "scripts" / f"{name}.py"
        assert program.run(name, [python, str(script)]).returncode == 0
        loud = [f for f in program.report(name)["findings"] if f["severity"] != "info"]
        assert not loud, f"{name}: {loud}"
