"""Studies and calibrations on a real Ray cluster of this machine: the same bytes as here, and nothing is lost whatever
dies - the study, workers, a machine with all it holds."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.commands import planner
from support.forks import Forked

from calibrate.cluster.cluster import REMEDY, Cluster, ClusterError
from calibrate.cluster.everywhere import NodeKind, kinds
from planner.questions.studies.ray_engine import serve

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'gpu-capacity-planner[cluster]'"
)

PLANNER = [sys.executable, "-m", "planner"]
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
RAY += ["--min-worker-port=0", "--max-worker-port=0", "--include-log-monitor=false"]
STARTED = b"This command will now block forever"
"""Ray's last line once a machine has started."""
TOKENS = {"RAY_AUTH_MODE": "token"}
"""Of the cluster; its commands find that out."""
SOON_S = 180.0
"""For what takes a second or three on an idle machine."""
BASE = """
models:
  - {name: watch, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
  - {name: look, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
streams: [{model: watch, count: 4, rate: 10 fps}, {model: look, rate: 10 fps}]
buy: {own: [{name: box, gpu: V100, price: $1/h, count: 1}]}
horizon: 3 s
replications: 2
confidence: 50 %
merging: layers
sharing: {table: costs.csv}
"""
STUDY = """
base: base.yaml
on: {gpu: V100, count: 1}
axes:
  load: {from: 1, to: 4, steps: 3}
  streams[0].count: [4, 6, 8, 10, 12, 14]
outputs: [cost_usd_per_hour, accuracy]
"""
POINTS = 18
FILES = ["points.jsonl", "results.csv", "results.parquet", "study.json"]


@dataclass
class OwnCluster:
    """A cluster of this test's own."""

    folder: Path
    environment: dict[str, str]
    machines: ExitStack
    head: int = 0
    """The process that started the first machine."""
    address: str = ""

    def add(self, *options: str) -> subprocess.Popen[bytes]:
        """One machine more."""
        path = self.folder / f"machine-{time.monotonic_ns()}.log"
        with path.open("wb") as log:
            machine = subprocess.Popen(
                [*RAY, *options], stdout=log, stderr=log, env=self.environment | TOKENS, start_new_session=True
            )
        self.machines.enter_context(ended(machine))
        until(lambda: STARTED in path.read_bytes() or machine.poll() is not None, "Ray did not start")
        assert machine.poll() is None, path.read_text()
        if not self.head:
            self.head = machine.pid
            (self.address,) = re.findall(r"ray start --address='([0-9.]+:[0-9]+)'", path.read_text())
        return machine

    def raylet(self, machine: int) -> int:
        """Ray's own process there. Nothing follows from its number: numbers begin anew where they end."""
        (raylet,) = (pid for pid, command in processes() if b"/raylet\0" in command and parent(pid) == machine)
        return raylet

    def workers(self, machine: int) -> list[int]:
        """Processes there that are working a point out."""
        raylet = self.raylet(machine)
        return [pid for pid, command in processes() if b"ray::work_out" in command and parent(pid) == raylet]

    def start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """A command on its way, in a folder that is not the workers'."""
        running = Forked(
            [*PLANNER, *words, "--engine", "ray", "--address", self.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=cwd or self.folder,
        )
        self.machines.callback(running.kill)
        return running


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the test, nor what it started."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait(SOON_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as name,
        ExitStack() as machines,
    ):
        folder = Path(name)  # short, because the names of sockets are
        (folder / "token").write_text("0123456789abcdef" * 4, encoding="ascii")
        # A machine that is gone refuses to answer and is missed at once; one that is busy has as long as it needs.
        quick = {"RAY_health_check_period_ms": "300", "RAY_health_check_timeout_ms": "60000"}
        quick |= {"RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}
        environment = os.environ | quick | {"RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        for setting in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            environment.pop(setting, None)
        cluster = OwnCluster(folder, environment, machines)
        cluster.add(
            *("--head", "--port=0", "--num-cpus=1", "--include-dashboard=false", f"--temp-dir={folder}"),
            "--no-monitor",  # nothing here grows by itself
            f"--ray-client-server-port={free_port()}",
        )
        yield cluster


@pytest.fixture(scope="module")
def machine(cluster: OwnCluster) -> subprocess.Popen[bytes]:
    """A second one that says it had two kinds of GPU."""
    types = '--resources={"accelerator_type:T4": 1, "accelerator_type:L4": 1}'
    return cluster.add(f"--address={cluster.address}", "--num-cpus=1", "--num-gpus=2", types)


def free_port() -> int:
    """For what cannot take one by itself: below those that systems give out, so that it stays free until then."""
    with socket.socket() as found:
        for port in random.Random().sample(range(20_000, 32_000), 100):
            with suppress(OSError):
                found.bind(("", port))
                return port
    raise OSError("no port is free")


def processes() -> Iterator[tuple[int, bytes]]:
    """All of this machine, with their command lines."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                yield int(path.name), (path / "cmdline").read_bytes()


def parent(pid: int) -> int:
    """Number of the process that started it; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process, where it still lives."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def until(holds: object, what: str) -> None:
    """Wait for it."""
    assert callable(holds)
    give_up_s = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)


def lines(out: Path) -> int:
    """Points that a study has kept."""
    path = out / "points.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def whole_lines(out: Path) -> list[bytes]:
    """The same, without one that was not finished."""
    return [line for line in (out / "points.jsonl").read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def finished(running: subprocess.Popen[str]) -> tuple[str, str]:
    """Output of a command that goes well."""
    out, err = running.communicate(timeout=3 * SOON_S)
    assert running.returncode == 0, err
    return out, err


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "base.yaml").write_text(BASE, encoding="utf-8")
    (folder / "costs.csv").write_text("model,shared_fraction,accuracy\n*,0,1\n*,1,0.5\n", encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    return folder / "study.yaml"


@pytest.fixture(scope="module")
def local(study: Path) -> dict[str, bytes]:
    """What the same study leaves without a cluster."""
    out = study.parent / "local"
    assert planner("study", study, "-o", out, "-q")[0] == 0
    assert sorted(content(out)) == FILES
    points = json.loads((out / "study.json").read_text(encoding="utf-8"))["points"]
    assert all(0.9 < point["values"]["accuracy"] < 1 for point in points)  # so the table was read
    return content(out)


STUDIES_KILLED, WORKERS_KILLED = 2, 1


def test_nothing_is_lost_with_studies_and_workers_killed(
    cluster: OwnCluster, study: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    """The study's files are named from the folder of the command, which is not the workers'."""
    moments, wanted = random.Random(8), 0
    command = ["study", study.name, "-o", str(tmp_path), "--resume"]
    for life in range(STUDIES_KILLED):
        running = cluster.start(*command, cwd=study.parent)
        if life % 3 == 0:  # the others end before they reach the cluster, or just then
            wanted = lines(tmp_path) + moments.randint(1, 4)
            until(lambda: lines(tmp_path) >= wanted, "no point came")  # noqa: B023 - called here alone
        else:
            time.sleep(moments.uniform(0, 1))
        running.kill()
        running.communicate()
        assert running.returncode == -signal.SIGKILL
    keys = [json.loads(line)["key"] for line in whole_lines(tmp_path)]
    assert wanted <= len(set(keys)) == len(keys)
    if (
        len(keys) > POINTS // 2
    ):  # where all went faster than it could be stopped: enough must be left for the deaths to come
        keys = keys[: POINTS // 2]
        (tmp_path / "points.jsonl").write_bytes(b"".join(whole_lines(tmp_path)[: len(keys)]))
    running = cluster.start(*command, cwd=study.parent)
    deaths = [lines(tmp_path)]

    def killed_one() -> bool:
        workers = cluster.workers(cluster.head)
        if not workers or lines(tmp_path) <= deaths[-1]:
            return False
        send(moments.choice(workers), signal.SIGKILL)
        deaths.append(lines(tmp_path))
        return len(deaths) > WORKERS_KILLED

    until(killed_one, "no worker came")
    _, err = finished(running)
    assert f"{POINTS - len(keys)} points worked out, {len(keys)} taken from before" in err
    assert content(tmp_path) == local


def test_a_cluster_that_is_not_there_or_wants_another_token_is_one_line(
    cluster: OwnCluster, study: Path, tmp_path: Path
) -> None:
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(
            ClusterError, match=f"^--address {address}: no Ray cluster answers there: Connection refused"
        ):
            Cluster(address, serve).__enter__()
    cluster.environment["RAY_AUTH_TOKEN"] = "f" * 64
    running = cluster.start("study", str(study), "-o", str(tmp_path))
    out, err = running.communicate(timeout=SOON_S)
    del cluster.environment["RAY_AUTH_TOKEN"]
    assert (running.returncode, out, err.count("\n")) == (2, "", 1)
    assert "it wants another token" in err


# Calibration


def test_what_a_machine_has_measured_outlives_the_command(cluster: OwnCluster, tmp_path: Path) -> None:
    asked = ["calibrate", "--device", "cpu", "--models", "lenet", "--mode", "inference", "--seconds", "0.05"]
    asked += ["--batches", "1,2", "--out", str(tmp_path), "--resume"]
    running = cluster.start(*asked)
    until(lambda: any(path.read_bytes().count(b"\n") > 1 for path in tmp_path.glob("*/journal.jsonl")), "no point came")
    running.kill()
    running.communicate()
    (journal,) = tmp_path.glob("cpu-*/journal.jsonl")
    before = journal.read_bytes()
    out, err = finished(cluster.start(*asked))
    assert journal.read_bytes().startswith(before)
    assert list(json.loads((journal.parent / "lenet.json").read_text())["latency_s"]) == ["1", "2"]
    assert f"Wrote {journal.parent}/lenet.json\n" in out
    assert re.search(r"^cpu: measured on \S+\.$", err, re.MULTILINE)


def test_each_kind_of_gpu_is_asked_once_and_one_that_fails_stops_no_other(
    cluster: OwnCluster, machine: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    running = cluster.start("calibrate", "--models", "lenet", "--batches", "1", "--out", str(tmp_path))
    _, err = running.communicate(timeout=3 * SOON_S)
    assert running.returncode == 2
    assert "To measure, each as soon as one is free: L4, T4." in err
    for kind in ("L4", "T4"):
        (why,) = re.findall(rf"^{kind}: (.*CUDA.*)$", err, re.MULTILINE)
        assert "Traceback" not in why
    assert len(err.splitlines()) == 5, err


def test_kinds_are_what_ray_says_of_machines_that_live() -> None:
    def node(name: str, alive: bool = True, **has: float) -> dict[str, object]:
        resources = {key.replace("_type_", "_type:"): amount for key, amount in has.items()}
        return {"NodeID": name, "NodeManagerHostname": name, "Alive": alive, "Resources": resources}

    nodes = [
        node("head", CPU=4),
        node("a", CPU=4, GPU=8, accelerator_type_T4=1),
        node("b", CPU=4, GPU=8, accelerator_type_T4=1),
        node("c", CPU=4, GPU=1),
        node("d", False, CPU=4, GPU=1, accelerator_type_H100=1),
    ]
    assert kinds(nodes, "cuda:0") == [
        NodeKind("GPU of c", 1, node="c"),
        NodeKind("T4", 1, {"accelerator_type:T4": 0.001}),
    ]
    assert kinds(nodes, "cpu") == [NodeKind("cpu", 0, node="head")]


# The last ones, for they take machines away


def test_a_machine_that_is_lost_takes_no_point_with_it(
    cluster: OwnCluster, machine: subprocess.Popen[bytes], study: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    running = cluster.start("study", str(study), "-o", str(tmp_path))

    def works_there() -> bool:
        for worker in cluster.workers(cluster.head):  # which would be done before the other machine begins
            send(worker, signal.SIGSTOP)
        return bool(cluster.workers(machine.pid))

    until(works_there, "no point was worked out there")
    os.kill(cluster.raylet(machine.pid), signal.SIGKILL)
    for worker in cluster.workers(cluster.head):
        send(worker, signal.SIGCONT)
    _, err = finished(running)
    assert f"{POINTS} points worked out" in err
    assert content(tmp_path) == local
    machine.wait(SOON_S)


def test_a_cluster_that_is_lost_takes_no_point_with_it(cluster: OwnCluster, study: Path, tmp_path: Path) -> None:
    """Ray ends the process that is connected, which is not the one that keeps points."""
    (study.parent / "long.yaml").write_text(STUDY.replace("steps: 3", "steps: 60"), encoding="utf-8")
    cluster.environment["RAY_gcs_rpc_server_reconnect_timeout_s"] = "5"
    running = cluster.start("study", str(study.parent / "long.yaml"), "-o", str(tmp_path))
    until(lambda: lines(tmp_path) > 0, "no point came")
    os.kill(cluster.raylet(cluster.head), signal.SIGKILL)
    _, err = running.communicate(timeout=SOON_S)
    assert running.returncode == 2, err
    lost = rf"--address {cluster.address}: the cluster was lost: .+\. {REMEDY}\.\n"
    assert re.fullmatch(rf"(\d+ s: .* worked out, \d+ % done\n)*{lost}", err), err
    assert len({json.loads(line)["key"] for line in whole_lines(tmp_path)}) == lines(tmp_path)
