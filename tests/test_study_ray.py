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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from calibrate.cluster import Kind, kinds

pytest.importorskip("ray", reason="Ray is not installed: pip install 'gpu-capacity-planner[cluster]'")

PLANNER = [sys.executable, "-m", "planner"]
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
SOON_S = 60.0
"""For what takes a second or three on an idle machine."""
BASE = """
models: [{name: watch, profile: resnet50_v2, slo: {latency: 100 ms, attainment: 95 %}}]
streams: [{model: watch, count: 4, rate: 10 fps}]
buy: {own: [{name: box, gpu: V100, price: $1/h, count: 1}]}
horizon: 3 s
replications: 2
"""
STUDY = """
base: base.yaml
on: {gpu: V100, count: 1}
axes:
  load: {from: 1, to: 4, steps: 12}
  streams[0].count: [4, 6, 8, 10, 12, 14]
"""
POINTS = 72
FILES = ["points.jsonl", "results.csv", "results.parquet", "study.json"]


@dataclass
class Cluster:
    """A cluster of this test's own."""

    folder: Path
    port: int
    environment: dict[str, str]
    machines: ExitStack

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add(self, *options: str) -> subprocess.Popen[bytes]:
        """One machine more."""
        log = self.folder / f"machine-{time.monotonic_ns()}.log"
        machine = self.machines.enter_context(
            ended(
                subprocess.Popen(
                    [*RAY, *options],
                    stdout=log.open("wb"),
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    start_new_session=True,
                )
            )
        )
        until(lambda: b"Ray runtime started" in log.read_bytes(), f"{log.read_text()}")
        return machine

    def raylets(self) -> list[int]:
        """Ray's own process on each machine, the first machine's first."""
        return [pid for pid, command in processes() if b"/raylet\0" in command and str(self.folder).encode() in command]

    def workers(self, raylet: int) -> list[int]:
        """Processes there that are working a point out."""
        return [pid for pid, command in processes() if b"ray::work_out" in command and parent(pid) == raylet]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command on its way."""
        return subprocess.Popen(
            [*PLANNER, *words, "--engine", "ray", "--address", self.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the test, nor what it started."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait(SOON_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as name,
        ExitStack() as machines,
    ):
        folder = Path(name)  # short, because the names of sockets are
        (folder / "token").write_text("0123456789abcdef" * 4, encoding="ascii")
        quick = {"RAY_health_check_period_ms": "300", "RAY_health_check_timeout_ms": "2000"}
        environment = os.environ | quick | {"RAY_AUTH_TOKEN_PATH": str(folder / "token"), "RAY_AUTH_MODE": "token"}
        environment.pop("RAY_ADDRESS", None)
        cluster = Cluster(folder, free_port(), environment, machines)
        cluster.add(
            *("--head", f"--port={cluster.port}", "--num-cpus=2", "--include-dashboard=false", f"--temp-dir={folder}"),
            *(f"--ray-client-server-port={free_port()}", "--min-worker-port=0", "--max-worker-port=0"),
        )
        environment.pop("RAY_AUTH_MODE")  # which the commands find out
        yield cluster


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def processes() -> Iterator[tuple[int, bytes]]:
    """All of this machine, the oldest first, with their command lines."""
    for pid in sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue


def parent(pid: int) -> int:
    """Number of the process that started it; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def until(holds: object, what: str) -> None:
    """Wait for it."""
    assert callable(holds)
    give_up_s = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.02)


def lines(out: Path) -> int:
    """Points that a study has kept."""
    path = out / "points.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


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
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    return folder / "study.yaml"


@pytest.fixture(scope="module")
def local(study: Path) -> dict[str, bytes]:
    """What the same study leaves without a cluster."""
    out = study.parent / "local"
    subprocess.run([*PLANNER, "study", str(study), "-o", str(out), "-q"], check=True, stdout=subprocess.DEVNULL)
    assert sorted(content(out)) == FILES
    return content(out)


def test_nothing_is_lost_with_ten_studies_and_ten_workers_killed(
    cluster: Cluster, study: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    moments, kept = random.Random(8), [0]
    (head,) = cluster.raylets()
    for _ in range(10):
        running = cluster.start("study", str(study), "-o", str(tmp_path), "--resume")
        until(lambda: lines(tmp_path) > kept[-1], "no point came")
        time.sleep(moments.uniform(0, 0.1))
        for worker in cluster.workers(head)[:1]:
            os.kill(worker, signal.SIGKILL)
        time.sleep(moments.uniform(0, 0.5))
        running.kill()
        assert running.wait() == -signal.SIGKILL
        kept.append(lines(tmp_path))
    keys = [json.loads(line)["key"] for line in (tmp_path / "points.jsonl").read_text().splitlines()]
    assert len(set(keys)) == len(keys) < POINTS
    _, err = finished(cluster.start("study", str(study), "-o", str(tmp_path), "--resume"))
    assert f"{POINTS - len(keys)} points worked out, {len(keys)} taken from before" in err
    assert content(tmp_path) == local


def test_a_machine_that_is_lost_takes_no_point_with_it(
    cluster: Cluster, study: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    machine = cluster.add(f"--address={cluster.address}", "--num-cpus=2")
    lost = cluster.raylets()[-1]
    running = cluster.start("study", str(study), "-o", str(tmp_path))
    until(lambda: lines(tmp_path) and cluster.workers(lost), "no point was worked out there")
    os.kill(lost, signal.SIGKILL)
    _, err = finished(running)
    assert f"{POINTS} points worked out" in err
    assert content(tmp_path) == local
    machine.wait(SOON_S)


@pytest.mark.parametrize(
    ("address", "token", "said"),
    [
        ("127.0.0.1:1", None, "no Ray cluster answers there: Connection refused"),
        ("ray://127.0.0.1:1", None, "no Ray cluster answers there: Connection refused"),
        (None, "f" * 64, "it wants another token"),
    ],
)
def test_a_cluster_that_does_not_answer_is_one_line(
    cluster: Cluster, study: Path, tmp_path: Path, address: str | None, token: str | None, said: str
) -> None:
    ran = subprocess.run(
        [
            *PLANNER,
            "study",
            str(study),
            "-o",
            str(tmp_path),
            "--engine",
            "ray",
            "--address",
            address or cluster.address,
        ],
        check=False,
        env=cluster.environment | ({"RAY_AUTH_TOKEN": token} if token else {}),
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


# Calibration


def test_a_machine_of_the_cluster_is_measured_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    asked = ["calibrate", "--device", "cpu", "--models", "lenet", "--mode", "inference", "--seconds", "0.05"]
    asked += ["--out", str(tmp_path)]
    out, err = finished(cluster.start(*asked, "--batches", "1"))
    (journal,) = tmp_path.glob("cpu-*/journal.jsonl")
    first = journal.read_bytes()
    assert re.search(rf"^Wrote {journal.parent}/lenet\.json$", out, re.MULTILINE)
    assert re.search(r"^cpu: measured on \S+\.$", err, re.MULTILINE)
    refused = cluster.start(*asked, "--batches", "1,2")
    assert f"{journal}: holds" in refused.communicate(timeout=SOON_S)[1]
    assert refused.returncode == 2
    finished(cluster.start(*asked, "--batches", "1,2", "--resume"))
    assert journal.read_bytes().startswith(first)
    profile = json.loads((journal.parent / "lenet.json").read_text())
    assert [point["batch"] for point in profile["latency"]] == [1, 2]


def test_each_kind_of_gpu_is_asked_once_and_one_that_fails_stops_no_other(cluster: Cluster, tmp_path: Path) -> None:
    types = '--resources={"accelerator_type:T4": 1, "accelerator_type:L4": 1}'
    cluster.add(f"--address={cluster.address}", "--num-cpus=2", "--num-gpus=2", types)
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
        Kind("GPU of c", 1, node="c"),
        Kind("T4", 1, {"accelerator_type:T4": 0.001}),
    ]
    assert kinds(nodes, "cpu") == [Kind("cpu", 0, node="head")]
