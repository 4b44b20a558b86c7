"""Fitting a scenario to one device: at rates and SLOs that suit the speed of the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from calibrate.library.reading import USUAL_RUNTIME
from calibrate.serving.served import SEGMENTS_BYTES, Scene
from planner.io.load import Loaded, workload
from planner.model.parts.models import ModelSpec
from planner.model.parts.pipelines import PipelineSpec
from planner.model.parts.rules import ValidateSpec
from planner.model.scenario import Scenario
from planner.placing.sizing import Profiles, context_of
from planner.questions.validation.pipelines import (
    CORE,
    HOST,
    CorePace,
    at_pace,
    core_stages,
    frame_s,
    model_slos,
    opened,
    refuse_unservable,
    scene_of,
)
from planner.questions.validation.speed import BySize, of_size
from simulator.clock.run import check
from simulator.errors import DeploymentError
from simulator.flow.rates import service_rates_rps, station_loads
from simulator.world.deployment import BatchingPolicy, Deployment, Replica, Service
from simulator.world.hardware import GPU, Device, Host
from simulator.world.pipelines import Pipeline
from simulator.world.profile import Profile
from simulator.world.workload import SLO, Workload, scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The deployment and the demand that are run for real and simulated."""

    deployment: Deployment
    """A GPU for each process; all of them are the one device."""
    workload: Workload
    warmup_s: float
    """Start of the run that is left out of the figures."""
    scene: Scene | None = None
    """What the camera of its pipeline sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Run times and load times now over those of the profiles, by model; 1 for models that are not named."""

    run: Mapping[str, BySize] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)
    core: CorePace = field(default_factory=CorePace)


AS_PROFILED = Pace()


def fit(loaded: Loaded, gpu: GPU, library: Profiles, pace: Pace = AS_PROFILED) -> Case:
    """The scenario with all its models on one device of kind `gpu`, at rates and SLOs that suit its pace.

    DeploymentError where that cannot be.
    """
    refuse_unservable(loaded.scenario)
    scenario, demand = loaded.scenario.with_stages, workload(loaded)
    scene = scene_of(scenario)
    services = [
        service(spec, profile_of(spec, gpu, library, scenario.validate), scenario, pace) for spec in scenario.models
    ]
    groups = dealt(tuple(services), scenario.validate.processes)
    devices = [device(number, group, gpu, scenario) for number, group in enumerate(groups, start=1)]
    processes = zip(devices, groups, strict=True)
    placed = {one.model: on(one, process.id) for process, group in processes for one in group}
    scale = scenario.validate.slo_scale
    pipelines = [opened_pipeline(spec, scene, placed, pace, scale) for spec in scenario.pipelines if scene]
    for pipeline in pipelines:
        placed |= {name: replace(placed[name], slo=slo) for name, slo in model_slos(pipeline).items()}
    deployment = Deployment(
        services=tuple(placed[spec.name] for spec in scenario.models),
        devices=tuple(devices),
        hosts=(Host(id=HOST, pcie_root_bytes_per_s=gpu.pcie_bytes_per_s),),
        scheduling=scenario.scheduling,
        swap=scenario.swap.policy,
        pipelines=tuple(pipelines),
        stations=(CORE,) if core_stages(pipelines) else (),
    )
    check(deployment, demand)
    if scenario.validate.load is not None:
        demand = scaled(demand, scenario.validate.load / busiest(deployment, demand.rates_rps(), pace))
    return Case(deployment=deployment, workload=demand, warmup_s=scenario.warmup or 0.0, scene=scene)


def opened_pipeline(
    spec: PipelineSpec, scene: Scene, services: Mapping[str, Service], pace: Pace, slo_scale: float | None
) -> Pipeline:
    """A pipeline on one core and the device; its SLO in work of one frame, where the scenario says so."""
    pipeline = opened(spec, scene, pace.core)
    if slo_scale is None:
        return pipeline
    run_s = {
        name: of_size(pace.run.get(name), 1) * one.replicas[0].profile.latency(1) for name, one in services.items()
    }
    latency_s = slo_scale * frame_s(pipeline, run_s, pace.core.slower)
    return replace(pipeline, slo=replace(pipeline.slo, latency_s=latency_s))


def busiest(deployment: Deployment, rates_rps: Mapping[str, float], pace: Pace) -> float:
    """Share of its time that the device works at full batches, or the core, whichever has more to do."""
    of_device = offered_work(deployment, service_rates_rps(deployment, rates_rps), pace)
    loads = station_loads(at_pace(deployment, pace.core.slower), rates_rps)
    return max(of_device, *loads.values(), 0.0)


def precision_of(spec: ModelSpec) -> str | None:
    """The one that it is served at; None: any. DeploymentError where there is a choice, or a runtime beside PyTorch."""
    (first, *others) = spec.variants
    if others or first.runtime not in (None, USUAL_RUNTIME):
        raise DeploymentError(
            f"{spec.name}: validate serves one precision in {USUAL_RUNTIME}, got a choice or another runtime. "
            f"Name one: --set models[{spec.name}].precision=fp32 --set models[{spec.name}].runtime={USUAL_RUNTIME}."
        )
    return first.precision


def profile_of(spec: ModelSpec, gpu: GPU, library: Profiles, validate: ValidateSpec) -> Profile:
    """The model's profile on this device, measured up to the largest batch of the scenario."""
    name = spec.known_as
    profile = library.get(name, gpu.name, precision_of(spec))
    if profile is None:
        raise DeploymentError(
            f"{spec.name}: no profile of {name} on {gpu.name}. Measure it: planner calibrate --models MODEL."
        )
    if validate.batch_size > profile.largest_batch:
        raise DeploymentError(
            f"{spec.name}: validate.batch_size must be at most {profile.largest_batch}, the largest measured on "
            f"{gpu.name}, got {validate.batch_size}. Measure more with `planner calibrate --models MODEL --batches "
            "N,...`, or ask for less."
        )
    return profile


def service(spec: ModelSpec, profile: Profile, scenario: Scenario, pace: Pace) -> Service:
    """One replica of a model; its SLO and its longest wait in run times, where the scenario says so."""
    validate, slower = scenario.validate, pace.run.get(spec.name)
    slo_s, wait_s = spec.slo.latency, spec.max_queue_delay
    if validate.slo_scale is not None and spec.name not in scenario.stages:
        slo_s = validate.slo_scale * of_size(slower, validate.batch_size) * profile.latency(validate.batch_size)
    if validate.delay_scale is not None:
        wait_s = validate.delay_scale * of_size(slower, 1) * profile.latency(1)
    if wait_s >= slo_s:
        raise DeploymentError(
            f"{spec.name}: waits {wait_s * 1e3:.4g} ms for its batch to fill, and its SLO is {slo_s * 1e3:.4g} ms. "
            "Make delay_scale less or slo_scale more."
        )
    batching = BatchingPolicy(validate.batch_size, wait_s, scenario.padded)
    replica = Replica(profile=profile, devices=(), batching=batching)
    return Service(model=spec.name, slo=SLO(slo_s, spec.slo.attainment), replicas=(replica,), drop=scenario.drop)


def dealt(services: tuple[Service, ...], processes: int) -> list[tuple[Service, ...]]:
    """Services for each process, in turn: a, b, c and two processes give (a, c) and (b)."""
    if processes > len(services):
        raise DeploymentError(
            f"validate.processes: {processes} processes need as many models, got {len(services)}. Ask for fewer."
        )
    return [services[number::processes] for number in range(processes)]


def device(number: int, group: tuple[Service, ...], gpu: GPU, scenario: Scenario) -> Device:
    """One process's part of the device, or less of it: just enough for the scenario's share of weights."""
    validate = scenario.validate
    context_bytes = max(context_of(one.replicas[0].profile, scenario.context) for one in group)
    memory_bytes = gpu.memory_bytes // validate.processes - segments_bytes(group)
    if validate.memory_share is not None:
        memory_bytes = min(memory_bytes, tight_bytes(group, validate.memory_share, context_bytes))
    return Device(id=f"process-{number}", gpu=gpu, host=HOST, memory_bytes=memory_bytes, context_bytes=context_bytes)


def segments_bytes(services: Sequence[Service]) -> int:
    """What an allocator holds for weights that come in beside batches; nothing where nobody saw slack, as on a CPU."""
    return SEGMENTS_BYTES * sum(one.replicas[0].profile.slack is not None for one in services)


def tight_bytes(group: tuple[Service, ...], share: float, context_bytes: int) -> int:
    """Memory that holds `share` of all weights, or the largest model, beside context and largest workspace.

    Context 0, weights 4 and 2, workspaces 1: half of the weights are 3, the largest model needs 4: 5.
    """
    profiles = [one.replicas[0].profile for one in group]
    batch_max = group[0].replicas[0].batching.max_batch_size
    weights = {layer.key: layer.weight_bytes for profile in profiles for layer in profile.layers}
    largest_bytes = max(profile.weight_bytes for profile in profiles)
    workspace_bytes = max(profile.workspace(batch_max) for profile in profiles)
    return round(context_bytes + max(share * sum(weights.values()), largest_bytes) + workspace_bytes)


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
        profile, batch = replica.profile, replica.batching.max_batch_size
        batch_s = of_size(pace.run.get(one.model), batch) * profile.latency(batch)
        if swaps(deployment, replica.devices[0]):
            weight_load = profile.swap_from(deployment.swap.source)
            batch_s += pace.load.get(one.model, 1.0) * weight_load(profile.weight_bytes)
        work += rates_rps[one.model] / batch * batch_s
    return work


def swaps(deployment: Deployment, device: str) -> bool:
    """The models on a device take turns in its memory."""
    place = next(d for d in deployment.devices if d.id == device)
    mine = tuple(one for one in deployment.services if one.replicas[0].devices == (device,))
    return tight_bytes(mine, 1.0, place.context_bytes) > place.memory_bytes


def loading_paces(deployment: Deployment) -> dict[str, float]:
    """By model: how many times as long batches and loads take while both run."""
    return {one.model: one.replicas[0].profile.beside_load for one in deployment.services}
