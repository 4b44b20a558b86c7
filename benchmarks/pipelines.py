"""Frames of a crossing, simulated: decoded, given to a detector, three crops each to a classifier, one answer."""

from dataclasses import dataclass
from time import process_time

from benchmarks.load import V100, profile, run_s
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment, Replica, Service
from simulator.world.hardware import Device, Host
from simulator.world.pipelines import Edge, FanOut, FanOutKind, ModelWork, Pipeline, PipelineStage, Station, StationWork
from simulator.world.workload import SLO, FixedRate, Stream, Workload

FPS = 10.0
BATCH = 8
FRAMES_PER_GPU = 0.7 * BATCH / run_s(BATCH) / 4
"""A second: a frame asks four times, and GPUs are busy seven tenths of the time."""
VEHICLES = FanOut(3.0, FanOutKind.POISSON)
CROSSING = Pipeline(
    name="crossing",
    slo=SLO(0.3),
    stages=(
        PipelineStage(name="decode", work=StationWork("decode", 0.002)),
        PipelineStage(name="detect", work=ModelWork(), after=(Edge(source="decode"),)),
        PipelineStage(name="classify", work=ModelWork(), after=(Edge(source="detect", fan_out=VEHICLES),)),
        PipelineStage(
            name="answer", work=StationWork("host", 0.0002), after=(Edge(source="detect"), Edge(source="classify"))
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Crossings:
    """Some GPUs that run both models each, and as many cameras as they bear."""

    gpu_count: int

    def deployment(self) -> Deployment:
        """Two decoders and four cores for each GPU."""
        gpus = [Device(id=f"gpu-{i}", gpu=V100, host="host", memory_bytes=16 * 10**9) for i in range(self.gpu_count)]
        replicas = {
            name: tuple(
                Replica(profile=profile(name), devices=(gpu.id,), batching=BatchingPolicy(BATCH)) for gpu in gpus
            )
            for name in ("crossing.detect", "crossing.classify")
        }
        return Deployment(
            services=tuple(Service(model=name, slo=SLO(0.1), replicas=each) for name, each in replicas.items()),
            devices=tuple(gpus),
            hosts=(Host(id="host", pcie_root_bytes_per_s=16e9),),
            pipelines=(CROSSING,),
            stations=tuple(
                Station(id=f"{kind}-{i}", host="host", kind=kind, servers=servers)
                for kind, servers in (("decode", 2), ("host", 4))
                for i in range(self.gpu_count)
            ),
        )

    def workload(self) -> Workload:
        """Cameras."""
        return Workload((Stream("crossing", FixedRate(FPS), round(self.gpu_count * FRAMES_PER_GPU / FPS)),))


def frames_per_s(crossings: Crossings, frame_count: int) -> tuple[int, float]:
    """Frames, and how many of them a second of processor time simulates."""
    workload = crossings.workload()
    deployment, began_s = crossings.deployment(), process_time()
    result = simulate(deployment, workload, frame_count / workload.rates_rps()["crossing"])
    return result.request_count, result.request_count / (process_time() - began_s)
