"""Jobs that fail, arguments that are wrong, folders that are damaged."""

import json

import pytest


@pytest.mark.parametrize(
    "text",
    [
        "def broken(:\n",
        "import nonexistent_module_of_nobody\n",
        "raise SystemExit('leaving at once')\n",
        "print('no framework here')\n",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n",
    ],
    ids=["syntax_error", "import_error", "exits_at_once", "no_framework", "killed"],
)
def test_a_script_that_fails_gives_just_what_it_gives_without_us(program, python, text):
    (program.folder / "job.py").write_text(text)
    plain = program.plain([python, "job.py"])
    watched = program.run("r", [python, "job.py"])
    expected = 128 - plain.returncode if plain.returncode < 0 else plain.returncode
    assert watched.returncode == expected
    assert watched.stdout == plain.stdout
    ours = [line for line in watched.stderr.splitlines() if line.startswith(b"paramedic:")]
    theirs = [line for line in watched.stderr.splitlines() if line not in ours]
    assert theirs == plain.stderr.splitlines()
    assert ours


def test_a_script_that_does_not_exist_fails_as_python_says(program, python):
    plain = program.plain([python, "none.py"])
    watched = program.run("r", [python, "none.py"])
    assert watched.returncode == plain.returncode == 2
    assert plain.stderr in watched.stderr


def test_a_command_that_does_not_exist_is_127_with_one_line(program):
    watched = program.run("r", ["no-such-command-anywhere"])
    assert watched.returncode == 127
    assert b"no-such-command-anywhere" in watched.stderr


@pytest.mark.parametrize(
    "flags", [["-m", "job"], ["-c", "import job"], ["-u", "job.py"], ["-X", "dev", "job.py"]]
)
def test_other_ways_to_start_python_are_watched_too(program, python, flags):
    (program.folder / "job.py").write_text(
        "import sys, torch\n"
        "w = torch.nn.Parameter(torch.ones(2)); o = torch.optim.SGD([w], lr=0.1)\n"
        "for _ in range(5):\n"
        "    o.zero_grad(); (w * w).sum().backward(); o.step()\n"
        "print(sys.argv, w.tolist())\n"
    )
    plain, watched = program.plain([python, *flags]), program.run("r", [python, *flags])
    assert (watched.returncode, watched.stdout) == (plain.returncode, plain.stdout)
    assert program.report("r")["run"]["steps"] == 5


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_where_python_keeps_us_out_the_report_says_so(program, python, flag):
    (program.folder / "job.py").write_text("print('hello')\n")
    watched = program.run("r", [python, flag, "job.py"])
    assert watched.stdout == b"hello\n"
    told = json.dumps(program.report("r")["not_captured"])
    assert flag in told


def test_usage_errors_are_2_with_a_hint(program, python):
    (program.folder / "job.py").write_text("pass\n")
    assert program.run("taken", [python, "job.py"]).returncode == 0
    for done in (
        program.run("taken", [python, "job.py"]),
        program.run("r", [python, "job.py"], options=["--no-such-option"]),
        program.paramedic("show", "--dir", str(program.runs), "nobody"),
        program.paramedic("no-such-command"),
    ):
        assert done.returncode == 2
        assert done.stdout == b""
        assert b"hint:" in done.stderr, done.stderr


def test_a_damaged_and_a_newer_run_folder_are_named(program, python):
    (program.folder / "job.py").write_text("pass\n")
    program.run("r", [python, "job.py"])
    info = program.runs / "r" / "run.json"
    good = info.read_text()
    info.write_text(good[: len(good) // 2])
    damaged = program.paramedic("show", "--dir", str(program.runs), "r")
    assert damaged.returncode == 2
    assert str(info).encode() in damaged.stderr
    newer = json.loads(good)
    newer["format"] = 999
    info.write_text(json.dumps(newer))
    refused = program.paramedic("show", "--dir", str(program.runs), "r")
    assert refused.returncode == 2
    assert b"999" in refused.stderr
    assert b"hint:" in refused.stderr


def test_stdin_reaches_the_job(program, python):
    (program.folder / "job.py").write_text("import sys; print(sys.stdin.read()[::-1])\n")
    assert program.run("r", [python, "job.py"], stdin=b"abc").stdout == b"cba\n"


def test_an_unwritable_folder_leaves_the_job_alone(program, python):
    (program.folder / "job.py").write_text("print('done')\n")
    done = program.paramedic("run", "--dir", "/proc/nowhere", "--", python, "job.py")
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert done.stderr.count(b"/proc/nowhere") >= 1
