"""What studies cost beside their points: seconds of one worker against two, and of each point beside its own work."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from planner.catalog.knowledge import knowledge
from planner.questions.studies.engine import Context, Engine, run_point
from planner.questions.studies.local_engine import LocalEngine
from planner.questions.studies.reading import load_study
from planner.questions.studies.run import run_study
from planner.questions.studies.scenario import Study

BASE = """
models: [{name: watch, profile: resnet50_v2, slo: {latency: 100 ms, attainment: 95 %}}]
streams: [{model: watch, count: 4, rate: 10 fps}]
buy: {own: [{name: box, gpu: V100, price: $1/h, count: 1}]}
horizon: HORIZON s
replications: 2
"""
AXES = "base: base.yaml\non: {gpu: V100, count: 1}\naxes: {load: {from: 1, to: 4, steps: STEPS}}\n"


@dataclass(frozen=True)
class Costs:
    """Of one study, measured in this process beside the same points without a study."""

    points: int
    point_s: float
    """One point alone, called directly."""
    one_s: float
    """The study with one worker, from its first point to its last."""
    two_s: float
    """The same with two."""
    ray_s: float | None
    """The same on a Ray cluster with one worker; None where Ray is not installed."""

    @property
    def speed_up(self) -> float:
        """Of two workers over one."""
        return self.one_s / self.two_s

    @property
    def overhead_s(self) -> float:
        """Of each point: what the study with one worker takes beside the points themselves."""
        return self.one_s / self.points - self.point_s

    @property
    def ray_overhead_s(self) -> float | None:
        """The same on Ray."""
        return None if self.ray_s is None else self.ray_s / self.points - self.point_s


def costs(points: int, horizon_s: float) -> Costs:
    """Measure a study of so many simulations. Starting processes is left out: it is paid once."""
    context = Context(*knowledge(None, None))
    with TemporaryDirectory() as folder:
        study = written(Path(folder), points, horizon_s)
        inputs = [study.base.resolve(study.changes_at(at), study.on) for at in study.combinations()]
        run_point(context, inputs[0])
        began_s = perf_counter()
        for one in inputs:
            run_point(context, one)
        alone_s = (perf_counter() - began_s) / points
        one_s, two_s = (
            timed(study, context, LocalEngine(context, workers), Path(folder, str(workers))) for workers in (1, 2)
        )
        ray_s = timed_on_ray(study, context, Path(folder, "ray"))
    return Costs(points, alone_s, one_s, two_s, ray_s)


def timed_on_ray(study: Study, context: Context, folder: Path) -> float | None:
    """A whole study on a cluster with one worker; None where Ray is not installed."""
    if find_spec("ray") is None:
        return None
    from planner.questions.studies.ray_engine import RayEngine

    with one_core_cluster() as address:
        return timed(study, context, RayEngine(context, address), folder)


def machine_speed_up(work: int = 30_000_000) -> float:
    """What two processes bring on this machine where they share nothing: a bare loop, in one and in two."""
    command = [sys.executable, "-c", f"for i in range({work}): pass"]

    def took_s(processes: int, rounds: int) -> float:
        began_s = perf_counter()
        for _ in range(rounds):
            running = [subprocess.Popen(command) for _ in range(processes)]
            for process in running:
                process.wait()
        return perf_counter() - began_s

    return took_s(1, 4) / took_s(2, 2)


def written(folder: Path, points: int, horizon_s: float) -> Study:
    """The study on disk and read."""
    (folder / "base.yaml").write_text(BASE.replace("HORIZON", str(horizon_s)))
    (folder / "study.yaml").write_text(AXES.replace("STEPS", str(points)))
    return load_study(folder / "study.yaml")


def timed(study: Study, context: Context, engine: Engine, folder: Path) -> float:
    """A whole study with workers that are awake."""
    with awake(engine) as ready:
        began_s = perf_counter()
        run_study(study, context, ready, folder)
        return perf_counter() - began_s


class Awake:
    """An engine that a study enters and leaves while its workers stay."""

    def __init__(self, engine: Engine) -> None:
        self.window, self.submit, self.take = engine.window, engine.submit, engine.take

    def __enter__(self) -> "Awake":
        return self

    def __exit__(self, *_: object) -> None:
        return None


@contextmanager
def awake(engine: Engine) -> Iterator[Awake]:
    """Workers that have imported all they need."""
    with engine as running, TemporaryDirectory() as folder:
        study = written(Path(folder), running.window, 5.0)
        for at in study.combinations():
            running.submit(str(at), study.base.resolve(study.changes_at(at), study.on))
        for _ in study.combinations():
            running.take()
        yield Awake(running)


@contextmanager
def one_core_cluster() -> Iterator[str]:
    """A Ray cluster of this machine with one worker; its address."""
    port = 16379
    head = ["--head", "--num-cpus=1", "--include-dashboard=false", f"--port={port}", "--ray-client-server-port=16380"]
    head += ["--min-worker-port=0", "--max-worker-port=0"]  # any, for the usual ones would take these ports
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *head]
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [*command, f"--temp-dir={folder}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def wait_for(port: int, limit_s: float = 60.0) -> None:
    """Until somebody listens; TimeoutError where nobody does."""
    give_up_s = perf_counter() + limit_s
    while perf_counter() < give_up_s:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        sleep(0.2)
    raise TimeoutError(f"No Ray cluster started within {limit_s:g} s.")
