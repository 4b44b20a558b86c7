"""Deploying: the GPUs of a fleet, and the deployment that a packing describes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from planner.catalog.offers import Offer
from planner.model.scenario import Scenario
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Portion, context_bytes
from planner.placing.fleets import Fleet
from planner.placing.packing.packed import Placed
from planner.placing.sizing import Kind, Need, context_without_models
from planner.placing.stations import Held, held_on, pipelines_on, placed_stations
from simulator.world.deployment import BatchingPolicy, Deployment, Failures, Replica, Service, SwapPolicy
from simulator.world.hardware import Device, Host
from simulator.world.sharing import turn_order


def devices_of(offers: Sequence[Offer], fleet: Fleet) -> list[FleetGpu]:
    """The GPUs of a fleet, host by host: `g4dn.xlarge-1:0`."""
    bought = [(offer, count) for offer, count in zip(offers, fleet, strict=True) if count]
    built: Counter[str] = Counter()
    devices: list[FleetGpu] = []
    for place, (offer, count) in enumerate(bought):
        for _ in range(count):
            built[offer.instance] += 1
            host = f"{offer.instance}-{built[offer.instance]}"
            devices += [
                FleetGpu(f"{host}:{i}", host, Kind.of(offer), offer.host_memory_bytes, offer.cores, place, i)
                for i in range(offer.gpu_count)
            ]
    return devices


def deploy(
    scenario: Scenario,
    needs: Mapping[str, Need],
    devices: Sequence[FleetGpu],
    placed: Sequence[Placed],
    swap: SwapPolicy | None = None,
) -> Deployment:
    """The deployment that a packing describes; a host's GPUs share one link as wide as one GPU's.

    Models that share layers take their turns one after the other. `swap`: the scenario's, where not given.
    """

    by_model: dict[str, list[Placed]] = {model: [] for model in needs}
    here: dict[str, list[Portion]] = {device.id: [] for device in devices}
    for p in placed:
        by_model[p.portion.sized.model].append(p)
        for device in p.devices:
            here[device.id].append(p.portion)

    def service(need: Need) -> Service:
        replicas = tuple(
            Replica(
                profile=p.portion.sized.profile,
                devices=tuple(device.id for device in p.devices),
                batching=BatchingPolicy(p.batch_size_max, need.max_queue_delay_s, scenario.padded),
                share=p.portion.share,
            )
            for p in by_model[need.model]
        )
        return Service(
            model=need.model, slo=need.judged.slo, replicas=replicas, drop=scenario.drop, routing=scenario.routing
        )

    streams = held_on(needs, devices)
    held = dict.fromkeys(needs, ()) | {p.portion.sized.model: p.portion.sized.profile.layers for p in placed}
    return Deployment(
        services=tuple(service(needs[model]) for model in turn_order(held)),
        devices=tuple(
            Device(
                id=c.id,
                gpu=c.kind.gpu,
                host=c.host,
                memory_bytes=c.kind.memory_bytes,
                context_bytes=context_bytes(here[c.id]) or of_streams(scenario, streams.get(c.id, Held()).size_bytes),
            )
            for c in devices
        ),
        hosts=hosts_of(devices),
        scheduling=scenario.scheduling,
        swap=swap or scenario.swap.policy,
        failures=failures(scenario),
        pipelines=pipelines_on(scenario.pipelines, devices),
        stations=tuple(station for _, station in placed_stations(scenario.pipelines, devices)),
    )


def hosts_of(devices: Sequence[FleetGpu]) -> tuple[Host, ...]:
    """The machines that the GPUs are in."""
    hosts = {
        c.host: Host(id=c.host, pcie_root_bytes_per_s=c.kind.gpu.pcie_bytes_per_s, memory_bytes=c.host_memory_bytes)
        for c in devices
    }
    return tuple(hosts.values())


def of_streams(scenario: Scenario, held_bytes: int) -> int:
    """Memory of a GPU that runs no model: of its context and of streams of video; 0 where there are none."""
    return context_without_models(scenario) + held_bytes if held_bytes else 0


def failures(scenario: Scenario) -> Failures | None:
    """Disturbances of a scenario's deployments."""
    spec = scenario.failures
    return Failures(mean_time_between_s=spec.mean_time_between, recovery_s=spec.recovery) if spec else None
