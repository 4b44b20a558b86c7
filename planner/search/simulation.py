"""Replays of a deployment one names oneself: so many GPUs of one kind, or the placement of a plan."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import partial
from math import nan
from typing import NamedTuple

from calibrate.published import names
from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer, offers, which_gpu
from planner.io.load import Loaded, workload
from planner.io.overrides import read_override, words_of
from planner.model.candidate import OnGpu
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.merging import Merging
from planner.model.parts.models import ModelSpec
from planner.model.plan import (
    Bottleneck,
    Instances,
    ModelAnswer,
    Plan,
    PlanWarning,
    Recommendation,
    Rejection,
    ReplicaAnswer,
    StageAnswer,
)
from planner.model.progress import Progress, Tell, counting, silent
from planner.model.scenario import MemoryPolicy, Scenario
from planner.model.simulation import Simulation
from planner.model.statement import Code, Statement
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Portion, Shortage
from planner.placing.fleets import Fleet, cost_usd_per_hour
from planner.placing.merging.options import Option, options
from planner.placing.packing.packed import Packing, Placed
from planner.placing.sizing import Kind, Profiles, Sized
from planner.placing.stations import Held, held_on
from planner.replay.answer import policies, recommend, replayed
from planner.replay.deploying import deploy, devices_of
from planner.replay.run import PLANNING, replay
from planner.replay.trial import Trial, candidate_of
from planner.replay.warnings import assumptions, warnings_of
from planner.search.budgets import check_load
from planner.search.even import evaluate
from planner.search.merged import assumptions_of, named
from planner.search.merged import warnings_of as weaknesses
from planner.search.names import with_known_names
from planner.search.question import NothingToPlanError, Question, ask, predictor_of
from planner.search.rejections import streams_refused
from planner.units.reading import did_you_mean
from planner.words.statements import rejection_line
from simulator.errors import wrong_argument
from simulator.world.deployment import Drop, Eviction, Routing, Scheduling, SwapPolicy
from simulator.world.workload import Workload


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule that `--policy` names."""

    key: str
    """Where the scenario keeps it."""
    names: type[StrEnum]


POLICIES = {
    "memory": Policy("memory", MemoryPolicy),
    "scheduling": Policy("scheduling", Scheduling),
    "routing": Policy("routing", Routing),
    "drop": Policy("drop", Drop),
    "eviction": Policy("swap.eviction", Eviction),
}


def policy_override(text: str) -> str:
    """`eviction=mru` as a change of the scenario: `swap.eviction=mru`."""
    kind, equals, name = (part.strip() for part in text.partition("="))
    if not equals or kind not in POLICIES:
        hint = did_you_mean(kind, list(POLICIES))
        raise NothingToPlanError(f"--policy {text}: unknown.{hint} Write KIND=NAME; kinds: {', '.join(POLICIES)}.")
    policy = POLICIES[kind]
    names = list(policy.names)
    if name not in names:
        hint = did_you_mean(name, names)
        raise NothingToPlanError(f"--policy {text}: must be one of {', '.join(names)}, got {name}.{hint}")
    return f"{policy.key}={name}"


def simulate_named(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    gpu: str,
    count: int,
    today: date,
    progress: Progress = silent,
) -> Simulation:
    """Replay a scenario on `count` GPUs of one kind: on offer, or without a price where none is."""
    loaded = with_known_names(loaded, catalog, library)
    gpu = gpu_named(gpu, catalog)
    named = partial(named_trial, loaded, catalog, library, gpu, count, progress)
    way, question, trial, priced = best_way(options(loaded, library), named)
    seed = question.scenario.seed
    run = simulation(loaded, catalog, question, trial, today, way, seed=seed, priced=priced)
    return replace(run, warnings=(*own_not_replayed(loaded.scenario, gpu), *run.warnings))


BEST = False, (0.0,)
"""A rank that nothing beats: every SLO met, and nothing trained."""


class NamedTrial(NamedTuple):
    """The models merged in one way, replayed on GPUs that somebody named."""

    way: Option
    question: Question
    trial: Trial
    priced: bool

    @property
    def rank(self) -> tuple[bool, tuple[float, ...]]:
        """Lower is better: what meets every SLO first, and what costs least in training; else what came nearest."""
        if self.trial.met:
            return False, (self.way.bill.usd_per_month,)
        return True, tuple(-part for part in self.trial.replay.nearest_by_margin)


def best_way(ways: Sequence[Option], named: Callable[[Option], NamedTrial]) -> NamedTrial:
    """The best of all ways of merging, the simplest where several are; NothingToPlanError where none can run."""
    tried: list[NamedTrial] = []
    failed: list[NothingToPlanError] = []
    for way in ways:
        if len(ways) > 1 and way.merging is not way.way:
            continue  # merges nothing: the same as each model on its own
        try:
            tried.append(named(way))
        except NothingToPlanError as error:
            failed.append(error)
        if tried and tried[-1].rank == BEST:
            break
    if not tried:
        raise failed[0]
    return min(tried, key=lambda one: one.rank)


def named_trial(
    loaded: Loaded, catalog: Catalog, library: Profiles, gpu: str, count: int, progress: Progress, way: Option
) -> NamedTrial:
    """One way of merging on so many GPUs of a kind."""
    scenario, demand = way.of(loaded).scenario, workload(loaded)
    question, rejections = ask(of_kind(scenario, gpu), demand, catalog, library, way.merged)
    offer = offered(question, gpu, count)
    if offer is None and (too_small := owned(scenario, rejections, gpu)):
        raise NothingToPlanError(too_small)
    priced = offer is not None
    if not priced:
        # Machines of one GPU where that holds each model; else one machine, over whose GPUs a model is cut.
        for each in sorted({1, count}):
            question, rejections = ask(unpriced(scenario, gpu, count, each), demand, catalog, library, way.merged)
            if offer := offered(question, gpu, count):
                break
    demand_every_profile(question, rejections, offer, gpu)
    assert offer is not None
    check_load(loaded, question, count)
    return NamedTrial(way, question, evaluate(question, offer, count // offer.gpu_count, progress), priced)


def gpu_named(gpu: str, catalog: Catalog) -> str:
    """A kind of GPU as the catalog spells it."""
    if (name := names.gpu_named(gpu, catalog.gpus)) in catalog.gpus:
        return name
    remedy = which_gpu(gpu, catalog.gpus).strip()
    raise wrong_argument("gpu", gpu, "is not in the catalog", remedy, NothingToPlanError)


def simulation(
    loaded: Loaded,
    catalog: Catalog,
    question: Question,
    trial: Trial,
    today: date,
    way: Option,
    *,
    seed: int,
    priced: bool,
) -> Simulation:
    """What a person reads about a deployment one named oneself."""
    scenario, demand = question.scenario, question.workload
    answer = named(recommend(trial, 0.0), way)
    merged = assumptions_of([way])
    return Simulation(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=seed,
        feasible=answer.feasible,
        requests=trial.replay.requests,
        wall_s=trial.replay.wall_s,
        cost_usd_per_hour=answer.cost_usd_per_hour if priced else None,
        demand_factor_max=trial.demand_factor_max,
        replications=answer.replications,
        replayed=replayed(trial),
        policies=policies(scenario, demand, trial),
        merging=way.way,
        models=answer.models,
        gpus=answer.gpus,
        resources=answer.resources,
        assumptions=(*assumptions(scenario, trial, catalog.assumptions), *merged),
        warnings=(*warnings_of(scenario, demand, trial, today), *weaknesses(way)),
    )


class PlanMisfitError(NothingToPlanError):
    """A plan that is none of its scenario: the text names the plan, what is wrong, and what to do."""

    def __init__(self, wrong: str, place: object = "plan") -> None:
        super().__init__(f"{place}: {wrong}")
        self.wrong = wrong


@dataclass(frozen=True)
class AsPlanned:
    """The machines of a plan and the replicas on them, as they stand."""

    loaded: Loaded
    question: Question
    way: Option
    """Which layers are stored once."""
    offers: tuple[Offer, ...]
    fleet: Fleet
    spares: Fleet
    """Machines of each offer that stand ready."""
    devices: tuple[FleetGpu, ...]
    placed: tuple[Placed, ...]
    swap: SwapPolicy
    seed: int
    """Start of all random numbers of its replays."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The machines that serve, by name."""
        return tuple(dict.fromkeys(device.host for device in self.devices))

    def place_of(self, host: str) -> int:
        """Place of a machine's type in `offers`."""
        return next(device.machines for device in self.devices if device.host == host)

    def of_models(self, models: Collection[str]) -> "AsPlanned":
        """The same asked of some of the models alone."""
        if set(models) >= set(self.question.needs):
            return self
        needs = {model: need for model, need in self.question.needs.items() if model in models}
        asked = tuple(stream for stream in self.question.workload.streams if stream.model in models)
        scenario = self.question.scenario
        left = replace(scenario, models=tuple(spec for spec in scenario.models if spec.name in models))
        question = replace(self.question, scenario=left, needs=needs, workload=Workload(asked))
        return replace(self, question=question)

    @property
    def refusal(self) -> Rejection | None:
        """Why streams of video cannot come to it, beside its models; None where they can."""
        q, swapped = self.question, any(one.swapped for one in self.placed)
        candidate = candidate_of(self.offers, self.fleet, swapped, q.offers)
        cost = cost_usd_per_hour(self.offers, self.fleet)
        return streams_refused(candidate, q.scenario, q.needs, self.devices, cost, self.placed)

    def in_batches_allowed(self) -> "AsPlanned":
        """The same where no batch is larger than its SLO and memory allow; another SLO may allow less than the plan's.

        Raises PlanMisfitError where they allow none.
        """
        placed = [replace(one, batch_size_max=min(one.batch_size_max, largest_batch(one))) for one in self.placed]
        for one in placed:
            check_batch(one)
        return replace(self, placed=tuple(placed))

    def replayed(self, tell: Tell, *, ranked: bool = False, averaged: bool = True) -> Trial:
        """A replay of it, SLOs met or not; `ranked`: by the first look at draws of speeds; `averaged`: outages count by
        their mean over time, else as the clock brings them."""
        q = self.question
        placed = tuple(self._beside_streams())
        packing = Packing(placed, strain=nan, worst="", work=nan, busiest="")
        deployment = deploy(q.scenario, q.needs, self.devices, placed, self.swap)
        seen = replay(
            q.scenario,
            q.workload,
            q.needs,
            deployment,
            screen=False,
            seed=self.seed,
            tell=tell,
            ranked=ranked,
            averaged=averaged,
        )
        return Trial(self.offers, self.fleet, self.devices, packing, deployment, seen, q.offers)

    def _beside_streams(self) -> Iterator[Placed]:
        """Its replicas, with what streams of video hold of their GPUs' memory."""
        held_by_gpu = held_on(self.question.needs, self.devices)
        for one in self.placed:
            held_bytes = max(held_by_gpu.get(device.id, Held()).size_bytes for device in one.devices)
            beside = one.portion.sized.beside_streams(held_bytes)
            yield replace(one, portion=replace(one.portion, sized=beside))


def simulate_plan(
    loaded: Loaded, catalog: Catalog, library: Profiles, kept: Plan, today: date, progress: Progress = silent
) -> Simulation:
    """Replay exactly the placement of a plan: its machines, replicas, batch sizes and shares, SLOs met or not."""
    planned = as_planned(loaded, catalog, library, kept, typed=loaded.overrides)
    for one in planned.placed:
        check_batch(one)
    if no := planned.refusal:
        raise NothingToPlanError(rejection_line(no))
    trial = planned.replayed(counting(progress, "replaying the plan"), averaged=False)
    question, way = planned.question, planned.way
    return simulation(planned.loaded, catalog, question, trial, today, way, seed=planned.seed, priced=True)


def as_planned(loaded: Loaded, catalog: Catalog, library: Profiles, kept: Plan, typed: Sequence[str] = ()) -> AsPlanned:
    """A plan's placement for a scenario; NothingToPlanError where the two do not fit each other. `typed`: those of the
    scenario's overrides that ask for this replay alone."""
    loaded = with_known_names(loaded, catalog, library)
    way = planned_way(loaded, library, kept)
    loaded = way.of(loaded)
    scenario, best = in_planned_variants(loaded.scenario, kept.recommendation), kept.recommendation
    predictor = predictor_of(scenario, catalog, library) if best.uncertain else None
    question, rejections = ask(scenario, workload(loaded), catalog, predictor or library, way.merged)
    check_models(question, best)
    offered, _ = offers(catalog, scenario.buy)
    bought = tuple(offer_of(offered, instances) for instances in best.instances)
    priced = {offer.name: offer for offer in bought}
    question = replace(question, offers=tuple(priced.get(offer.name, offer) for offer in question.offers))
    fleet = tuple(instances.count for instances in best.instances)
    devices = planned_devices(best, bought, fleet)
    by_name = sorted(served(best), key=lambda model: model.model)
    placed = [one for model in by_name for one in replicas_of(model, devices, question, rejections)]
    return AsPlanned(
        loaded=loaded,
        question=question,
        way=way,
        offers=bought,
        fleet=fleet,
        spares=tuple(instances.spares for instances in best.instances),
        devices=tuple(devices.values()),
        placed=tuple(placed),
        swap=scenario.swap.over(kept.policies.eviction, prefetch=kept.policies.prefetch),
        seed=seed_of_replay(scenario, kept, typed),
    )


def seed_of_replay(scenario: Scenario, kept: Plan, typed: Sequence[str]) -> int:
    """The scenario's where it is typed, or another than when the plan was made; else the plan's own."""
    as_made = kept.seed if kept.scenario_seed is None else kept.scenario_seed
    is_another = scenario.seed != as_made and not _names_seed(kept.scenario_overrides)
    return scenario.seed if is_another or _names_seed(typed) else PLANNING


def _names_seed(overrides: Sequence[str]) -> bool:
    return any(words_of(name) == ["seed"] for name, _ in map(read_override, overrides))


def planned_devices(planned: Recommendation, bought: tuple[Offer, ...], fleet: Fleet) -> dict[str, FleetGpu]:
    """The GPUs of a plan's machines, by name."""
    devices = {device.id: device for device in devices_of(bought, fleet)}
    if set(devices) != {gpu.id for gpu in planned.gpus}:
        raise PlanMisfitError("its GPUs are not those of its instances. Plan the scenario anew.")
    return devices


def check_batch(placed: Placed) -> None:
    """NothingToPlanError where a replica's batches are larger than its SLO and its GPUs allow."""
    most = largest_batch(placed)
    if not 1 <= placed.batch_size_max <= most:
        raise PlanMisfitError(
            f"{placed.portion.sized.model}: batch size must be from 1 to {most}, the largest that its SLO and memory "
            f"allow, got {placed.batch_size_max}. Plan the scenario anew."
        )


def largest_batch(placed: Placed) -> int:
    """The largest that a replica's SLO and its GPUs allow; 0 where they allow none."""
    batches, stages = placed.portion.sized.batches, len(placed.devices)
    return batches[stages - 1] if stages <= len(batches) else 0


def in_planned_variants(scenario: Scenario, planned: Recommendation) -> Scenario:
    """The scenario with models that list several precisions or runtimes in those that the plan chose."""
    chosen: dict[str, ModelAnswer | StageAnswer] = {model.name: model for model in planned.models}
    for model in planned.models:
        chosen |= {f"{model.name}.{stage.name}": stage for stage in model.stages}

    def settled(model: ModelSpec) -> ModelSpec:
        answer = chosen.get(model.name)
        if answer is None or len(model.variants) == 1:
            return model
        return replace(model, precision=answer.precision or model.precision, runtime=answer.runtime or model.runtime)

    return replace(scenario, models=tuple(map(settled, scenario.models)))


def check_models(question: Question, planned: Recommendation) -> None:
    """NothingToPlanError where a plan places other models than the scenario has."""
    odd = set(question.needs) ^ {one.model for one in served(planned)}
    if odd:
        names = ", ".join(sorted(odd))
        raise PlanMisfitError(f"places other models than the scenario has: {names}. Plan the scenario anew.")


def planned_way(loaded: Loaded, library: Profiles, kept: Plan) -> Option:
    """The way of merging that the plan chose; PlanMisfitError where the scenario asks for another."""
    way = kept.recommendation.merging
    for option in options(loaded, library):
        if option.way is way:
            return option
    does = "stores no layers once" if way is Merging.NONE else f"merges {way}"
    asks = loaded.scenario.merging
    raise PlanMisfitError(f"{does}, where the scenario says `merging: {asks}`. Plan the scenario anew.")


def offer_of(offered: Sequence[Offer], wanted: Instances) -> Offer:
    """The offer that a plan took, at the price that it had there; machines of one's own cost what the scenario says."""
    for offer in offered:
        if offer.name == (wanted.provider, wanted.region, wanted.instance, wanted.gpu, wanted.gpu_count):
            if offer.price_kind is None:
                return offer
            price, kind = wanted.usd_per_hour, wanted.price_kind
            return replace(offer, usd_per_hour=price, price_kind=kind, as_of=wanted.price_as_of)
    raise PlanMisfitError(f"the scenario no longer offers {wanted.instance}. Plan the scenario anew.")


class PlannedModel(NamedTuple):
    """A model as a plan serves it, on its own or as a stage."""

    model: str
    replicas: tuple[ReplicaAnswer, ...]
    mode: str
    bottleneck: Bottleneck


def served(planned: Recommendation) -> Iterator[PlannedModel]:
    """The models of a plan, of pipelines those of their stages."""
    for model in planned.models:
        if not model.stages:
            yield PlannedModel(model.name, model.replicas, model.mode, model.bottleneck)
        for stage in model.stages:
            if stage.replicas:
                yield PlannedModel(f"{model.name}.{stage.name}", stage.replicas, stage.mode, model.bottleneck)


def replicas_of(
    model: PlannedModel, devices: Mapping[str, FleetGpu], question: Question, rejections: Sequence[Rejection]
) -> Iterator[Placed]:
    """The replicas of one model as a plan placed them."""
    for replica in model.replicas:
        if not replica.gpus or not devices.keys() >= set(replica.gpus):
            raise PlanMisfitError(f"{model.model}: a replica is on no GPU of it. Plan the scenario anew.")
        mine = tuple(devices[gpu] for gpu in replica.gpus)
        sized = sized_on(question, model.model, mine[0], rejections)
        size = replica.batch_size
        swapped = model.mode == "swapped"
        short = partial(Shortage, model.bottleneck, nan)
        yield Placed(Portion(sized, replica.share), mine, size, size, nan, swapped, short)


def sized_on(question: Question, model: str, gpu: FleetGpu, rejections: Sequence[Rejection]) -> Sized:
    """A model on the kind of a GPU; NothingToPlanError, in the words of sizing, where it cannot run there."""
    sized = question.sized.get((model, gpu.kind))
    if sized is not None:
        return sized
    pair = OnGpu(gpu=gpu.kind.gpu.name, models=(model,))
    reasons = [rejection_line(no) for no in rejections if no.subject == pair]
    if reasons:
        raise NothingToPlanError("\n".join(reasons))
    raise PlanMisfitError(f"{model} cannot run on {gpu.id}. Plan the scenario anew.")


def offered(question: Question, gpu: str, count: int) -> Offer | None:
    """The cheapest offer of which whole machines make up so many GPUs and hold each model; one's own come first."""
    fitting = [o for o in question.offers if o.gpu.name == gpu and count % o.gpu_count == 0 and holds_all(question, o)]
    return min(fitting, key=lambda o: (bool(o.as_of), o.usd_per_hour / o.gpu_count), default=None)


def holds_all(question: Question, offer: Offer) -> bool:
    """Whether one machine has the GPUs for a replica of each model, cut in stages where it must be."""
    sizes = [question.sized.get((model, Kind.of(offer))) for model in question.needs]
    return all(sized is not None and sized.stages <= offer.gpu_count for sized in sizes)


def own_not_replayed(scenario: Scenario, gpu: str) -> list[PlanWarning]:
    """Machines of one's own that have other GPUs than the kind that is named, all in one warning."""
    others = tuple(f"{machine.name} ({machine.gpu})" for machine in scenario.buy.own if machine.gpu != gpu)
    return [PlanWarning(what=Statement(code=Code.OWN_NOT_REPLAYED, subjects=others))] if others else []


def owned(scenario: Scenario, rejections: Sequence[Rejection], gpu: str) -> str:
    """Why machines of one's own with such GPUs will not do, for lack of memory or speed; empty where none are owned."""
    if all(machine.gpu != gpu for machine in scenario.buy.own):
        return ""
    return "\n".join(reasons_on(gpu, rejections))


def of_kind(scenario: Scenario, gpu: str) -> Scenario:
    """The same question, with one kind of GPU of those on offer; as it is where that kind is not."""
    buy = scenario.buy
    return scenario if buy.gpus and gpu not in buy.gpus else replace(scenario, buy=replace(buy, gpus=(gpu,)))


def unpriced(scenario: Scenario, gpu: str, count: int, each: int) -> Scenario:
    """The same question, with so many such GPUs at hand, some in each machine. Their price is never shown."""
    machine = OwnMachine(name=gpu, gpu=gpu, gpu_count=each, price=1.0, count=count // each)
    return replace(scenario, buy=BuySpec(own=(machine,), host_speed=scenario.buy.host_speed))


def demand_every_profile(question: Question, rejections: Sequence[Rejection], offer: Offer | None, gpu: str) -> None:
    """Refuse, in the words of sizing, where some model cannot run on the GPU."""
    if offer is not None and all((model, Kind.of(offer)) in question.sized for model in question.needs):
        return
    if reasons := "\n".join(reasons_on(gpu, rejections)):
        raise NothingToPlanError(reasons)
    raise wrong_argument("gpu", gpu, "no model can run on it", kind=NothingToPlanError)


def reasons_on(gpu: str, rejections: Sequence[Rejection]) -> Iterator[str]:
    """Why models cannot run on a kind of GPU, a line each."""
    for no in rejections:
        match no.subject:
            case OnGpu(gpu=kind, models=models) if kind == gpu and models:
                yield rejection_line(no)
