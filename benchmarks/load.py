"""What is simulated: GPUs that all serve all models, kept busy nine tenths of the time by random arrivals."""

from dataclasses import dataclass

from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Replica, Scheduling, Service, SwapPolicy
from simulator.world.hardware import GPU, Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile
from simulator.world.workload import SLO, Poisson, Stream, Workload

FLOOR_S, SLOPE_S = 0.004, 0.0005
"""A batch of n takes 4 ms + n x 0.5 ms."""
BUSY = 0.9
V100 = GPU(
    name="V100",
    memory_bytes=16 * 10**9,
    memory_bytes_per_s=900e9,
    fp32_flops=15.7e12,
    tdp_w=300,
    idle_w=30,
    pcie_bytes_per_s=16e9,
)


def run_s(batch_size: float) -> float:
    """Time of one batch."""
    return FLOOR_S + SLOPE_S * batch_size


@dataclass(frozen=True, slots=True)
class Load:
    """One configuration. `batch_size_max` 8 forms batches of about 6."""

    gpu_count: int
    model_count: int
    batch_size_max: int
    drop: Drop = Drop.NEVER
    resident: float = 1.0
    """Share of the weights that fits in memory at once; below 1 models take turns."""

    @property
    def rate_rps(self) -> float:
        """All requests together."""
        return BUSY * self.gpu_count * self.batch_size_max / run_s(self.batch_size_max)

    @property
    def slo_s(self) -> float:
        """Two rounds of batches of 8."""
        return 2 * self.model_count * run_s(8)

    def workload(self) -> Workload:
        """The same rate for every model."""
        return Workload(tuple(Stream(name, Poisson(self.rate_rps / self.model_count)) for name in self._models()))

    def deployment(self) -> Deployment:
        """Every model on every GPU."""
        memory_bytes = 10**9 + round(self.resident * self.model_count * 10**8)
        devices = tuple(
            Device(id=f"gpu-{i}", gpu=V100, host="host", memory_bytes=memory_bytes) for i in range(self.gpu_count)
        )
        return Deployment(
            services=tuple(self._service(name, devices) for name in self._models()),
            devices=devices,
            hosts=(Host(id="host", pcie_root_bytes_per_s=16e9),),
            scheduling=Scheduling.ROUND_ROBIN,
            swap=SwapPolicy(),
        )

    def _models(self) -> list[str]:
        return [f"model-{i}" for i in range(self.model_count)]

    def _service(self, name: str, devices: tuple[Device, ...]) -> Service:
        batching = BatchingPolicy(self.batch_size_max)
        replicas = tuple(Replica(profile=profile(name), devices=(d.id,), batching=batching) for d in devices)
        return Service(model=name, slo=SLO(self.slo_s), drop=self.drop, replicas=replicas)


def profile(name: str) -> Profile:
    return Profile(
        model=name,
        gpu=V100.name,
        precision="fp32",
        layers=(Layer(name, 10**8),),
        latency=Interpolated((1, 8), (run_s(1), run_s(8))),
        workspace=Interpolated((1,), (10**8,)),
        load=LoadTime(0.0, 12e9),
        latency_evidence=Evidence.ASSUMED,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="",
        as_of="",
    )
