"""Small deployments for tests: one line makes a profile, a GPU or a service; every figure is made up and round."""

from collections.abc import Sequence

from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Replica, Routing, Service
from simulator.world.hardware import GPU, Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile
from simulator.world.workload import SLO

CARD = GPU(
    name="round",
    memory_bytes=10**10,
    memory_bytes_per_s=1e12,
    fp32_flops=1e13,
    tdp_w=300,
    idle_w=50,
    pcie_bytes_per_s=1e10,
)
"""10 GB and a 10 GB/s link."""
LOAD = LoadTime(0.0, 1e10)
SINGLE = BatchingPolicy()


def profile(
    model: str,
    latency_s: float | Sequence[float] = 0.01,
    *,
    cv: float = 0.0,
    layers: Sequence[Layer] = (),
    workspace_bytes: int = 10**7,
    load: LoadTime = LOAD,
    pageable_bytes_per_s: float | None = None,
    busy_w: float | None = None,
    output_bytes_per_sample: int = 0,
) -> Profile:
    """A profile whose batch of n takes `latency_s[n - 1]`, or always `latency_s`; 0.1 GB of weights by default."""
    series = [latency_s] if isinstance(latency_s, float | int) else latency_s
    return Profile(
        model=model,
        gpu=CARD.name,
        precision="fp32",
        layers=tuple(layers) or (Layer(model, 10**8),),
        latency=Interpolated(tuple(range(1, len(series) + 1)), tuple(series)),
        latency_cv=cv,
        workspace=Interpolated((1,), (workspace_bytes,)),
        load=load,
        pageable_bytes_per_s=pageable_bytes_per_s,
        busy_w=busy_w,
        output_bytes_per_sample=output_bytes_per_sample,
        latency_evidence=Evidence.ASSUMED,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="made up",
        as_of="2026-01-01",
    )


def service(
    given: Profile,
    *,
    devices: Sequence[str | tuple[str, ...]] = ("g0",),
    batch: BatchingPolicy = SINGLE,
    slo_s: float = 1e6,
    drop: Drop = Drop.NEVER,
    routing: Routing = Routing.ROUND_ROBIN,
) -> Service:
    """One replica for each entry of `devices`; a tuple is a pipeline."""
    places = [(d,) if isinstance(d, str) else d for d in devices]
    replicas = tuple(Replica(profile=given, devices=place, batching=batch) for place in places)
    return Service(model=given.model, slo=SLO(slo_s), replicas=replicas, drop=drop, routing=routing)


def deployment(
    *services: Service,
    devices: int = 1,
    hosts: int = 1,
    memory_bytes: int = CARD.memory_bytes,
    context_bytes: int = 0,
    root_bytes_per_s: float = 1e10,
    **options: object,
) -> Deployment:
    """GPUs g0, g1, ... spread over hosts h0, h1, ...; `options` go to the deployment."""
    return Deployment(
        services=services,
        devices=tuple(
            Device(id=f"g{i}", gpu=CARD, host=f"h{i % hosts}", memory_bytes=memory_bytes, context_bytes=context_bytes)
            for i in range(devices)
        ),
        hosts=tuple(Host(id=f"h{i}", pcie_root_bytes_per_s=root_bytes_per_s) for i in range(hosts)),
        **options,  # type: ignore[arg-type]
    )
