"""`run --retries`: a job is started once more only where that can help."""

import json
import time
from pathlib import Path

from conftest import Program

# Fails as often as the file named by its argument says, counted down there.
JOB = """
left=$(cat "$1"); echo $((left - 1)) > "$1"
echo "attempt $PARAMEDIC_ATTEMPT"
echo "step $((30 - left)) loss 0.5"
[ "$left" -gt 0 ] && { echo "$2" >&2; exit 7; }
exit 0
"""
TRANSIENT = "OSError: [Errno 98] Address already in use"
FAULTY = "NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus."


def run(program: Program, failures: int, message: str, options: "list[str]"):
    counter = program.folder / "left"
    counter.write_text(str(failures))
    command = ["sh", "-c", JOB, "job", counter, message]
    return program.run("r", command, options=["--retry-delay", "0", *options])


def test_what_passes_by_itself_is_started_again(program: Program):
    done = run(program, 2, TRANSIENT, ["--retries", "3"])
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if b"attempt" in line] == [
        b"attempt 1",
        b"attempt 2",
        b"attempt 3",
    ]
    assert b"paramedic: retry 1 of 3 in 0 s: port_in_use" in done.stderr
    assert program.report("r")["run"]["status"] == "failed"
    assert program.report("r-attempt-3")["run"]["status"] == "finished"


def test_what_would_happen_again_is_not(program: Program):
    done = run(program, 9, "KeyError: 'beam'", ["--retries", "3"])
    assert done.returncode == 7
    assert b"paramedic: no retry: key_not_found" in done.stderr
    assert done.stdout.count(b"attempt") == 1


def test_there_are_never_more_than_was_said(program: Program):
    done = run(program, 9, TRANSIENT, ["--retries", "2"])
    assert done.returncode == 7
    assert done.stdout.count(b"attempt") == 3


def test_nothing_is_started_again_unasked(program: Program):
    done = run(program, 1, TRANSIENT, [])
    assert done.returncode == 7
    assert b"retry 1" not in done.stderr


def test_another_node_is_asked_for_by_an_exit_code(program: Program):
    done = run(program, 9, FAULTY, ["--retries", "3", "--other-node", "85"])
    assert done.returncode == 85
    assert b"paramedic: retry elsewhere: gpu_hardware" in done.stderr


def test_another_node_is_asked_for_by_a_command(program: Program):
    asked: Path = program.folder / "asked"
    hook = f"cat > {asked}.part && mv {asked}.part {asked}"
    done = run(program, 9, FAULTY, ["--retries", "3", "--other-node", hook])
    assert done.returncode == 7
    while not asked.exists():
        time.sleep(0.01)
    told = json.loads(asked.read_text())
    assert told["event"] == "other_node"
    assert told["failure"]["category"] == "gpu_hardware"


def test_fleet_counts_the_retries_that_only_met_the_same_failure(program: Program):
    run(program, 9, "KeyError: 'beam'", ["--retries", "1", "--retry-on", "any"])
    done = program.paramedic("fleet", "--json", "--cache", "none", str(program.runs))
    assert done.returncode == 0, done.stderr.decode()
    tables = json.loads(done.stdout)
    assert tables["jobs"] == tables["failed"] == 2
    assert tables["categories"][0]["name"] == "key_not_found"
    assert tables["useless_retries"]["count"] == 1
    assert tables["useless_retries"]["commands"][0]["verdict"] == "never"


def test_a_word_that_means_nothing_is_a_usage_error(program: Program):
    done = run(program, 0, "", ["--retries", "1", "--retry-on", "sometimes"])
    assert done.returncode == 2
    assert done.stdout == b""
