"""The entry: a deployment is served, by one process for each of its devices."""

from collections.abc import Mapping

from calibrate.serving.serve import ServingJob, Source, check, serve_alone
from calibrate.serving.served import Scene, Served
from calibrate.serving.together import serve_together
from simulator.world.deployment import Deployment
from simulator.world.workload import Demand


def serve(
    deployment: Deployment,
    demand: Mapping[str, Demand],
    models: Mapping[str, Source],
    device: str,
    duration_s: float,
    *,
    seed: int = 0,
    scene: Scene | None = None,
) -> Served:
    """Serve `demand` for `duration_s` seconds on `device` (`cpu`, `cuda:0`); `models` by name of service.

    A deployment of several devices is served by a process for each, all of them on the one real device at the same
    time. `seed` is noted: the one that drew the demand; what follows from the frames of a pipeline is drawn by it, but
    for what its detector finds in the `scene`. What goes wrong while serving - out of memory, a model
    that raises, Ctrl-C - ends the run, and what was measured is kept. What goes wrong before raises ServeError.
    """
    job = ServingJob(deployment, demand, models, device, duration_s, seed)
    check(job)
    if deployment.pipelines:
        from calibrate.serving.pipelines import serve_pipeline

        return serve_pipeline(job, scene)
    return serve_alone(job) if len(deployment.devices) == 1 else serve_together(job)
