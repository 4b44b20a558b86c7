"""Fitting: a scenario on one device of its own, at rates and promises that suit what the device can do."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planner.load import Loaded, workload
from planner.scenario import ModelSpec, Scenario, ValidateSpec
from planner.sizing import Profiles
from planner.validation.speed import BySize, of_size
from simulator.deployment import SLO, BatchingPolicy, Deployment, Replica, Service
from simulator.hardware import GPU, Device, Host
from simulator.profile import Profile
from simulator.run import DeploymentError, check
from simulator.workload import Workload, scaled

HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is run for real and simulated."""

    deployment: Deployment
    """A card for each process; all of them are the one device."""
    workload: Workload
    warmup_s: float
    """Start of the run that is left out of the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Costs now over what profiles say, by model; 1 for models that are not named."""

    run: Mapping[str, BySize] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)


AS_PROFILED = Pace()


def fit(loaded: Loaded, gpu: GPU, library: Profiles, pace: Pace = AS_PROFILED) -> Case:
    """The scenario with all its models on one device of kind `gpu`, at rates and promises that suit its pace.

    DeploymentError where that cannot be.
    """
    scenario, asked = loaded.scenario, workload(loaded)
    profiles = {spec.name: profile_of(spec, gpu, library, scenario.validate) for spec in scenario.models}
    services = tuple(service(spec, profiles[spec.name], scenario, pace) for spec in scenario.models)
    groups = dealt(services, scenario.validate.processes)
    cards = tuple(card(number, group, gpu, scenario) for number, group in enumerate(groups, start=1))
    placed = (on(one, device.id) for device, group in zip(cards, groups, strict=True) for one in group)
    order = {spec.name: place for place, spec in enumerate(scenario.models)}
    deployment = Deployment(
        services=tuple(sorted(placed, key=lambda one: order[one.model])),
        devices=cards,
        hosts=(Host(id=HOST, pcie_root_bytes_per_s=gpu.pcie_bytes_per_s),),
        scheduling=scenario.scheduling,
        swap=scenario.swap.policy,
    )
    check(deployment, asked)
    if scenario.validate.load is not None:
        asked = scaled(asked, scenario.validate.load / offered_work(deployment, asked.rates_rps(), pace))
    return Case(deployment=deployment, workload=asked, warmup_s=scenario.warmup or 0.0)


def profile_of(spec: ModelSpec, gpu: GPU, library: Profiles, asked: ValidateSpec) -> Profile:
    """The model's profile on this device, measured up to the batch that is asked for."""
    name = spec.known_as
    profile = library.get(name, gpu.name, spec.precision)
    if profile is None:
        raise DeploymentError(f"{spec.name}: no profile of {name} on {gpu.name}. Measure it: planner calibrate.")
    if asked.batch_size > profile.largest_batch:
        raise DeploymentError(
            f"{spec.name}: validate.batch_size must be at most {profile.largest_batch}, the largest measured on "
            f"{gpu.name}, got {asked.batch_size}. Measure more with `planner calibrate --batches`, or ask for less."
        )
    return profile


def service(spec: ModelSpec, profile: Profile, scenario: Scenario, pace: Pace) -> Service:
    """One replica of a model; its promise and its longest wait in run times, where the scenario says so."""
    asked, slower = scenario.validate, pace.run.get(spec.name)
    slo_s, wait_s = spec.slo.latency, spec.max_queue_delay
    if asked.slo_scale is not None:
        slo_s = asked.slo_scale * of_size(slower, asked.batch_size) * profile.latency(asked.batch_size)
    if asked.delay_scale is not None:
        wait_s = asked.delay_scale * of_size(slower, 1) * profile.latency(1)
    if wait_s >= slo_s:
        raise DeploymentError(
            f"{spec.name}: waits {wait_s * 1e3:.4g} ms for its batch to fill, and {slo_s * 1e3:.4g} ms are promised. "
            "Make delay_scale less or slo_scale more."
        )
    replica = Replica(profile=profile, devices=(), batching=BatchingPolicy(asked.batch_size, wait_s, scenario.padded))
    return Service(model=spec.name, slo=SLO(slo_s, spec.slo.attainment), replicas=(replica,), drop=scenario.drop)


def dealt(services: tuple[Service, ...], processes: int) -> list[tuple[Service, ...]]:
    """Services for each process, in turn: a, b, c and two processes give (a, c) and (b)."""
    if processes > len(services):
        raise DeploymentError(
            f"validate.processes: {processes} processes need as many models, got {len(services)}. Ask for fewer."
        )
    return [services[number::processes] for number in range(processes)]


def card(number: int, group: tuple[Service, ...], gpu: GPU, scenario: Scenario) -> Device:
    """What one process may use of the device: its part, or just enough for the share of weights asked for."""
    asked, memory_bytes = scenario.validate, gpu.memory_bytes // scenario.validate.processes
    if asked.memory_share is not None:
        memory_bytes = min(memory_bytes, tight_bytes(group, asked.memory_share, scenario.context))
    return Device(id=f"process-{number}", gpu=gpu, host=HOST, memory_bytes=memory_bytes, context_bytes=scenario.context)


def tight_bytes(group: tuple[Service, ...], share: float, context_bytes: int) -> int:
    """Memory that holds `share` of all weights, or the largest model, beside context and largest workspace.

    Context 0, weights 4 and 2, workspaces 1: half of the weights are 3, the largest model needs 4: 5.
    """
    profiles = [one.replicas[0].profile for one in group]
    most = group[0].replicas[0].batching.max_batch_size
    weights = {layer.key: layer.weight_bytes for profile in profiles for layer in profile.layers}
    held_bytes = max(share * sum(weights.values()), *(profile.weight_bytes for profile in profiles))
    return round(context_bytes + held_bytes + max(profile.workspace(most) for profile in profiles))


def on(one: Service, device: str) -> Service:
    """The service with its replica on a device."""
    return replace(one, replicas=(replace(one.replicas[0], devices=(device,)),))


def offered_work(deployment: Deployment, rates_rps: Mapping[str, float], pace: Pace = AS_PROFILED) -> float:
    """Share of its time that the device works at full batches, loading included where not all models fit.

    20 rps of batches of 4 that take 0.1 s: 20 / 4 x 0.1 = 0.5.
    """
    work = 0.0
    for one in deployment.services:
        replica = one.replicas[0]
        most = replica.batching.max_batch_size
        load = replica.profile.load_from(pinned=deployment.swap.pinned)
        moved_s = load(replica.profile.weight_bytes) if swaps(deployment, replica.devices[0]) else 0.0
        run_s = of_size(pace.run.get(one.model), most) * replica.profile.latency(most)
        work += rates_rps[one.model] / most * (run_s + pace.load.get(one.model, 1.0) * moved_s)
    return work


def swaps(deployment: Deployment, device: str) -> bool:
    """Whether the models on a device take turns in its memory."""
    place = next(d for d in deployment.devices if d.id == device)
    mine = tuple(one for one in deployment.services if one.replicas[0].devices == (device,))
    return tight_bytes(mine, 1.0, place.context_bytes) > place.memory_bytes
