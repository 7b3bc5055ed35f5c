"""Two `paramedic run` as two nodes of one job, and a collector that compares all of its ranks."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).parent / "jobs" / "two_nodes.py"
# The program under test, as in tests/e2e.
PARAMEDIC = os.environ.get("PARAMEDIC_TEST_PROGRAM", str(ROOT / "build/release/bin/paramedic"))
TOKEN = "a-secret-of-the-tests"
SECONDS_MAX = 180.0
LINE = 1 + next(
    n for n, line in enumerate(JOB.read_text().splitlines()) if line.endswith("# SLEEPS")
)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


class Cluster:
    """The processes of one test, each in a session of its own; none outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        self.port = free_port()
        self.master = free_port()
        left_out = ("PARAMEDIC_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        self.env.update(OMP_NUM_THREADS="1", PARAMEDIC_COLLECTOR_TOKEN=TOKEN)
        self.processes: List["subprocess.Popen[bytes]"] = []
        self.nodes: List["subprocess.Popen[bytes]"] = []

    def start(
        self, name: str, command: List[str], env: Optional[Dict[str, str]] = None
    ) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open(
            "ab"
        ) as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env={**self.env, **(env or {})},
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def collector(self, *options: str) -> "subprocess.Popen[bytes]":
        return self.start("collector", [PARAMEDIC, "collector", "--dir", str(self.jobs), *options])

    def listening_collector(self) -> "subprocess.Popen[bytes]":
        return self.collector("--listen", f"grpc://127.0.0.1:{self.port}")

    def node(
        self, number: int, *job_options: str, to: str = "", options: Optional[List[str]] = None
    ) -> "subprocess.Popen[bytes]":
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        torchrun += ["--node-rank", str(number), "--nproc-per-node", "2"]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(self.master)]
        run = [PARAMEDIC, "run", "--dir", str(self.folder / f"runs-{number}"), "--name", "pair"]
        run += ["--collector", to or f"grpc://127.0.0.1:{self.port}", *(options or [])]
        node = self.start(f"node-{number}", [*run, "--", *torchrun, str(JOB), *job_options])
        self.nodes.append(node)
        return node

    def text(self, name: str, stream: str = "err") -> str:
        path = self.folder / f"{name}.{stream}"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for(self, name: str, pattern: str, stream: str = "err") -> "re.Match[str]":
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            is_over = all(process.poll() is not None for process in self.nodes)
            found = re.search(pattern, self.text(name, stream))
            if found:
                return found
            if is_over and self.nodes:
                break
            time.sleep(0.05)
        everything = {p.name: p.read_text(errors="replace")[-2000:] for p in self.outputs()}
        raise AssertionError(f"{pattern!r} never came: {everything}")

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + SECONDS_MAX
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.1)

    def outputs(self) -> Iterator[Path]:
        return (path for path in sorted(self.folder.iterdir()) if path.suffix in (".out", ".err"))

    def report(self, folder: Path, name: str) -> Dict[str, Any]:
        shown = subprocess.run(
            [PARAMEDIC, "show", "--json", "--dir", str(folder), name],
            env=self.env,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=True,
        )
        report: Dict[str, Any] = json.loads(shown.stdout)
        return report

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    its = Cluster(tmp_path)
    yield its
    its.end()


HANG = rf"error hang_missing_rank.*rank 3.*two_nodes\.py:{LINE}"


def test_a_hang_on_the_other_node_is_named_on_both(cluster: Cluster) -> None:
    cluster.listening_collector()
    nodes = [cluster.node(k, "--sleeper", "3") for k in (0, 1)]
    stopped = float(cluster.wait_for("node-1", r"rank 3 stops at ([0-9.]+)", "out").group(1))
    # The collector names the rank of node 1, with its line, and who looks at node 0 reads it too.
    cluster.wait_for("collector", r"pair: " + HANG, "out")
    cluster.wait_for("node-0", HANG)
    cluster.wait_for("node-1", HANG)
    findings = cluster.report(cluster.jobs, "pair")["findings"]
    hang = next(found for found in findings if found["id"] == "hang_missing_rank")
    assert hang["rank"] == 3
    assert hang["where"]["line"] == LINE
    print(f"named {hang['time'] - stopped:.1f} s after the stop")
    for node in nodes:
        node.terminate()
    for node in nodes:
        node.wait(60)


def test_a_healthy_job_of_two_nodes_is_one_run_without_findings(cluster: Cluster) -> None:
    # Started by the node that has rank 0, and gone by itself.
    address = ["--start-collector"]
    nodes = [cluster.node(k, options=address) for k in (0, 1)]
    assert [node.wait(SECONDS_MAX) for node in nodes] == [0, 0]
    jobs = cluster.folder / "runs-0"
    cluster.wait_until(lambda: cluster.report(jobs, "pair")["run"]["status"] != "running")
    report = cluster.report(jobs, "pair")
    loud = {f["id"] for f in report["findings"] if f["severity"] != "info"}
    # Both "nodes" are this machine, and meet at 127.0.0.1.
    assert loud <= {"cpu_oversubscription", "cluster_config"}, report["findings"]
    assert report["run"]["world_size"] == 4
    assert [rank["rank"] for rank in report["run"]["ranks"]] == [0, 1, 2, 3]
    assert report["run"]["status"] == "finished"


def test_a_collector_that_is_killed_misses_nothing(cluster: Cluster) -> None:
    collector = cluster.listening_collector()
    nodes = [cluster.node(k, "--sleeper", "3", "--at", "60", "--steps", "99") for k in (0, 1)]
    # When the collector has calls of all ranks, it is in the middle of the job.
    cluster.wait_until(lambda: len(list(cluster.jobs.glob("pair/nodes/*/collectives/*.idx"))) == 4)
    collector.kill()
    collector.wait()
    cluster.wait_for("node-1", r"rank 3 stops at", "out")
    cluster.listening_collector()
    cluster.wait_for("collector", r"pair: " + HANG, "out")
    for node in nodes:
        node.terminate()
    for node in nodes:
        node.wait(60)
    # What the collector has of each node is what the node has, byte for byte.
    cluster.wait_until(lambda: cluster.report(cluster.jobs, "pair")["run"]["status"] != "running")
    compared = 0
    for number in (0, 1):
        (run,) = (path for path in (cluster.folder / f"runs-{number}").iterdir())
        parts = list((cluster.jobs / "pair" / "nodes").iterdir())
        for table in ("collectives", "events"):
            for segment in sorted((run / table).iterdir()):
                copies = [part / table / segment.name for part in parts]
                assert segment.read_bytes() in [c.read_bytes() for c in copies if c.exists()]
                compared += 1
    assert compared >= 8


def test_nodes_that_share_a_folder_need_no_network(cluster: Cluster) -> None:
    shared = str(cluster.jobs)
    cluster.collector()
    nodes = [cluster.node(k, "--sleeper", "3", to=shared) for k in (0, 1)]
    cluster.wait_for("node-0", HANG)
    for node in nodes:
        node.terminate()
    for node in nodes:
        node.wait(60)


def test_a_wrong_token_is_refused_and_the_job_goes_on(cluster: Cluster) -> None:
    cluster.listening_collector()
    job = [sys.executable, "-c", "import time; time.sleep(3)"]
    run = [PARAMEDIC, "run", "--dir", "runs", "--name", "pair"]
    run += ["--collector", f"grpc://127.0.0.1:{cluster.port}", "--", *job]
    node = cluster.start("node", run, {"PARAMEDIC_COLLECTOR_TOKEN": "another-secret"})
    assert node.wait(60) == 0
    assert "does not accept this token" in cluster.text("node")
    assert not (cluster.jobs / "pair").exists()


class Certificate:
    """Signed by itself, for the address of the tests."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = str(folder / f"{name}.pem")
        self.key = str(folder / f"{name}.key")
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        make += ["-keyout", self.key, "-out", self.file, "-subj", f"/CN={name}"]
        make += ["-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(make, check=True, capture_output=True)


def test_a_node_comes_only_over_tls_that_it_trusts_and_with_the_token(cluster: Cluster) -> None:
    ours, strange = (Certificate(cluster.folder, name) for name in ("ours", "strange"))
    address = f"grpc+tls://127.0.0.1:{cluster.port}"
    listening = ["--listen", address, "--tls-certificate", ours.file, "--tls-key"]
    # A key of another certificate is told at the start.
    unfit = cluster.collector(*listening, strange.key)
    assert unfit.wait(60) != 0
    assert "does the key not belong to the certificate?" in cluster.text("collector")
    cluster.collector(*listening, ours.key)
    cluster.wait_for("collector", "listening|collecting", "out")

    def run(name: str, to: str, roots: str, token: str = TOKEN) -> "subprocess.Popen[bytes]":
        words = [PARAMEDIC, "run", "--dir", f"runs-{name}", "--name", name, "--collector", to]
        words += ["--collector-tls-roots", roots] if roots else []
        job = [sys.executable, "-c", "import time; time.sleep(2)"]
        return cluster.start(name, [*words, "--", *job], {"PARAMEDIC_COLLECTOR_TOKEN": token})

    runs = {
        "trusted": run("trusted", address, ours.file),
        "untrusted": run("untrusted", address, strange.file),
        "unknown": run("unknown", address, "", ""),
        "other-token": run("other-token", address, ours.file, "another-secret"),
    }
    # Whatever becomes of its courier, the job goes on and ends well.
    assert {name: node.wait(SECONDS_MAX) for name, node in runs.items()} == {
        "trusted": 0,
        "untrusted": 0,
        "unknown": 2,
        "other-token": 0,
    }
    assert "has a certificate that is not trusted here" in cluster.text("untrusted")
    assert "--collector-tls-roots FILE" in cluster.text("untrusted")
    assert "token is missing" in cluster.text("unknown")
    assert "does not accept this token" in cluster.text("other-token")
    assert cluster.report(cluster.jobs, "trusted")["run"]["status"] == "finished"
    assert [path.name for path in sorted(cluster.jobs.iterdir()) if path.is_dir()] == ["trusted"]


def test_a_job_comes_through_a_bucket(cluster: Cluster) -> None:
    pytest.importorskip("moto", reason="moto[s3,server] is no part of this environment")
    port = free_port()
    cluster.env.update(AWS_ACCESS_KEY_ID="tests", AWS_SECRET_ACCESS_KEY="tests")
    cluster.env.update(AWS_EC2_METADATA_DISABLED="true")
    cluster.start("moto", [sys.executable, "-m", "moto.server", "-p", str(port)])
    server = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            make = urllib.request.Request(f"{server}/runs", method="PUT")
            return bool(urllib.request.urlopen(make, timeout=10).status == 200)
        except OSError:
            return False

    cluster.wait_until(answers)
    query = f"region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"
    bucket = f"s3://runs/of/us?{query}"
    run = [PARAMEDIC, "run", "--dir", "runs", "--name", "pair", "--collector", bucket, "--"]
    job = [sys.executable, "-c", "import time; time.sleep(3)"]
    # No collector is there before the job is over.
    assert cluster.start("node", [*run, *job]).wait(SECONDS_MAX) == 0
    cluster.collector("--listen", bucket)
    finished = list(cluster.jobs.glob("pair/nodes/*/run.json"))

    def is_over() -> bool:
        finished[:] = cluster.jobs.glob("pair/nodes/*/run.json")
        return bool(finished) and json.loads(finished[0].read_text())["status"] == "finished"

    cluster.wait_until(is_over)
    # A bucket that is not there costs the job nothing but a note.
    run[run.index(bucket)] = f"s3://none/of/us?{query}"
    assert cluster.start("other", [*run, *job]).wait(SECONDS_MAX) == 0
    assert "no collector: there is no bucket none" in cluster.text("other")


def test_a_collector_that_is_away_costs_a_job_nothing_but_a_note(cluster: Cluster) -> None:
    job = [sys.executable, "-c", "import time; time.sleep(30); raise SystemExit(3)"]
    run = [PARAMEDIC, "run", "--dir", "runs", "--name", "pair"]
    run += ["--collector", f"grpc://127.0.0.1:{cluster.port}", "--", *job]
    assert cluster.start("node", run).wait(60) == 3
    assert "the collector cannot be reached" in cluster.text("node")
