"""The engine of a Ray cluster that is there already: points are its tasks. Placing, retrying and growing are Ray's."""

import platform
from types import ModuleType
from typing import Any, Self

from calibrate.cluster.cluster import Cluster, ClusterError, in_one_line, reached
from planner.io.warm import versions
from planner.questions.studies.engine import Context, Inputs, Lost, Outcome, carried, run_point

WINDOW_MIN = 16
"""Tasks under way even on a small cluster, so that one that grows by itself sees that there is work."""
DEATHS = 10
"""Deaths of its worker after which a point is given up; more than on one machine, for a cluster's come and go."""
known: dict[str, Context] = {}
"""In a worker: the contexts that it has met, by study, so that one is unpacked once and not for each point."""


def work_out(study: str, context: list[Any], wanted: dict[str, str], inputs: Inputs) -> Outcome:
    """A task: one point. `context` holds a reference, which is followed once by each worker."""
    if (have := versions()) != wanted:
        other = ", ".join(
            f"{name} {have.get(name)} for {wanted[name]}" for name in wanted if have.get(name) != wanted[name]
        )
        raise ClusterError(f"{platform.node()} has {other}: results could differ. Install the same versions there.")
    if study not in known:
        import ray

        known[study] = ray.get(context[0])
    return run_point(known[study], inputs)


class RayEngine:
    """Workers of a cluster, wherever they are; the program and what it needs must be installed there."""

    def __init__(self, context: Context, address: str) -> None:
        """`auto` is the cluster of this machine; `ray://host:10001` one elsewhere. Reached on entry."""
        self.window = WINDOW_MIN
        self.cluster = Cluster(address, serve, carried(context))

    def __enter__(self) -> Self:
        """Reach the cluster. ClusterError where there is none."""
        self.cluster.__enter__()
        self.window = self.cluster.receive()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the cluster, which ends what this study has under way there."""
        self.cluster.__exit__(*error)

    def submit(self, key: str, inputs: Inputs) -> None:
        """Have a point worked out. ClusterError where the cluster is lost."""
        self.cluster.send((key, inputs))

    def take(self) -> tuple[str, Outcome | Lost]:
        """The next point that ends. ClusterError where a machine has not this program, or other versions, and where the
        cluster is lost."""
        self.cluster.send(None)
        key, outcome = self.cluster.receive()
        return key, outcome


def serve(parent: int) -> None:
    """In the process that is connected: points that come become tasks; None asks for the next that ends."""
    with reached(parent) as (ray, line, (context,)):
        tasks = Tasks(ray, context)
        line.send(max(WINDOW_MIN, 2 * int(ray.cluster_resources().get("CPU", 1))))
        while True:
            if message := line.recv():
                tasks.submit(*message)
                continue
            try:
                line.send(tasks.take())
            except ClusterError as error:
                line.send(error)


class Tasks:
    """Points under way."""

    def __init__(self, ray: ModuleType, context: Context) -> None:
        self.ray = ray
        self.context, self.versions = ray.put(context), versions()
        self.task = ray.remote(max_retries=DEATHS - 1, num_cpus=1)(work_out)
        self.running: dict[Any, str] = {}
        """Their keys, by the reference to what they will come to."""

    def submit(self, key: str, inputs: Inputs) -> None:
        """Have a point worked out."""
        self.running[self.task.remote(self.context.hex(), [self.context], self.versions, inputs)] = key

    def take(self) -> tuple[str, Outcome | Lost]:
        """The next point that ends."""
        (ended, *_), _ = self.ray.wait(list(self.running), num_returns=1)
        key = self.running.pop(ended)
        try:
            outcome: Outcome = self.ray.get(ended)
            return key, outcome
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ClusterError):
                raise error.cause from None
            if isinstance(error.cause, MemoryError):
                return key, Lost("memory ended in its worker")
            raise ClusterError(
                f"--engine ray: a machine of the cluster cannot run this program ({in_one_line(error)})."
                " Install gpu-capacity-planner there in the same version."
            ) from None
        except self.ray.exceptions.RayError as error:
            return key, Lost(f"its worker was lost {DEATHS} times, the last time with {in_one_line(error)}")
