"""Replays of a deployment one names oneself: so many GPUs of one kind, or the placement of a plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from math import nan

from planner.answer import (
    PLANNING,
    Trial,
    assumptions,
    cards_of,
    cautions,
    deploy,
    policies,
    recommend,
    replay,
    replayed,
)
from planner.catalog import Catalog, Offer, offers
from planner.cutting import Card
from planner.duty import Portion
from planner.load import Loaded, workload
from planner.names import with_known_names
from planner.packing import Packing, Placed
from planner.plans import Instances, ModelAnswer, Plan, Rejection
from planner.prediction.question import Question, ask, predictor_of
from planner.scenario import BuySpec, Merging, OwnMachine, Scenario
from planner.search import NothingToPlanError, Progress, evaluate, silent
from planner.sizing import Kind, Profiles
from planner.terminal import Simulation
from planner.units import did_you_mean, perhaps
from simulator.deployment import SwapPolicy
from simulator.near import in_any_case
from simulator.sharing import NOTHING_SHARED, Merged

POLICIES = {
    "memory": "memory",
    "scheduling": "scheduling",
    "routing": "routing",
    "drop": "drop",
    "eviction": "swap.eviction",
}
"""Where the scenario keeps each policy."""


def policy_override(text: str) -> str:
    """`eviction=mru` as a change of the scenario: `swap.eviction=mru`."""
    name, equals, value = text.partition("=")
    if not equals or name not in POLICIES:
        hint = did_you_mean(name, list(POLICIES))
        raise NothingToPlanError(f"--policy {text}: unknown.{hint} Write KIND=NAME; kinds: {', '.join(POLICIES)}.")
    return f"{POLICIES[name]}={value}"


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
    demand = workload(loaded)
    scenario = loaded.scenario
    question, refused = ask(of_kind(scenario, gpu), demand, catalog, library)
    offer = offered(question, gpu, count)
    if offer is None and (too_small := owned(scenario, refused, gpu)):
        raise NothingToPlanError(too_small)
    priced = offer is not None
    if not priced:
        # Machines of one GPU where that holds each model; else one machine, over whose GPUs a model is cut.
        for each in sorted({1, count}):
            question, refused = ask(unpriced(scenario, gpu, count, each), demand, catalog, library)
            if offer := offered(question, gpu, count):
                break
    demand_every_profile(question, refused, offer, gpu)
    assert offer is not None
    trial = evaluate(question, offer, count // offer.gpu_count, progress)
    return simulation(loaded, catalog, question, trial, today, priced)


def gpu_named(gpu: str, catalog: Catalog) -> str:
    """A kind of GPU as the catalog spells it."""
    if (name := in_any_case(gpu, catalog.gpus)) in catalog.gpus:
        return name
    hint = perhaps(gpu, catalog.gpus) or f" Known: {', '.join(catalog.gpus)}."
    raise NothingToPlanError(f"--gpu {gpu}: unknown.{hint}")


def simulation(
    loaded: Loaded, catalog: Catalog, question: Question, trial: Trial, today: date, priced: bool
) -> Simulation:
    """What a person reads about a deployment one named oneself."""
    scenario, demand = question.scenario, question.workload
    answer = recommend(trial, 0.0)
    return Simulation(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=scenario.seed,
        feasible=answer.feasible,
        requests=trial.replay.requests,
        wall_s=trial.replay.wall_s,
        cost_usd_per_hour=answer.cost_usd_per_hour if priced else None,
        demand_factor_max=trial.demand_factor_max,
        replications=answer.replications,
        replayed=replayed(trial),
        policies=policies(scenario, demand, trial),
        models=answer.models,
        gpus=answer.gpus,
        assumptions=assumptions(scenario, trial, catalog.assumptions),
        warnings=cautions(scenario, demand, trial, today),
    )


def simulate_plan(
    loaded: Loaded, catalog: Catalog, library: Profiles, kept: Plan, today: date, progress: Progress = silent
) -> Simulation:
    """Replay exactly the placement of a plan: its machines, replicas, batch sizes and shares, kept promises or not."""
    loaded, shared = as_merged(with_known_names(loaded, catalog, library), library, kept)
    scenario, demand = loaded.scenario, workload(loaded)
    best = kept.recommendation
    known = (predictor_of(scenario, catalog, library) if best.foretold else None) or library
    question, refused = ask(scenario, demand, catalog, known, shared)
    names, planned = set(question.needs), {model.name for model in best.models}
    if names != planned:
        odd = ", ".join(sorted(names ^ planned))
        raise NothingToPlanError(f"--plan: places other models than the scenario has: {odd}. Plan the scenario anew.")
    offered, _ = offers(catalog, scenario.buy)
    bought = tuple(offer_of(offered, instances) for instances in best.instances)
    fleet = tuple(instances.count for instances in best.instances)
    cards = {card.id: card for card in cards_of(bought, fleet)}
    if set(cards) != {gpu.id for gpu in best.gpus}:
        raise NothingToPlanError("--plan: its GPUs are not those of its instances. Plan the scenario anew.")
    by_name = sorted(best.models, key=lambda model: model.name)
    placed = [one for model in by_name for one in replicas_of(model, cards, question, refused)]
    packing = Packing(tuple(placed), strain=nan, worst="", work=nan, busiest="")
    deployment = deploy(scenario, question.needs, tuple(cards.values()), placed, planned_swap(scenario, kept))
    tell = partial(progress, "replaying the plan")
    seed = PLANNING if scenario.seed == kept.seed else scenario.seed  # with no other luck asked for, the plan's own
    seen = replay(scenario, demand, question.needs, deployment, screen=False, seed=seed, tell=tell)
    trial = Trial(bought, fleet, tuple(cards.values()), packing, deployment, seen, question.offers)
    return simulation(loaded, catalog, question, trial, today, priced=True)


def as_merged(loaded: Loaded, library: Profiles, kept: Plan) -> tuple[Loaded, Merged]:
    """The scenario as the plan's way of merging has it, and which layers are stored once."""
    way = next((way.merging for way in kept.merging if way.chosen), Merging.NONE)
    if way is Merging.NONE:
        return loaded, NOTHING_SHARED
    from planner.merging.analysis import options

    chosen = next((option for option in options(loaded, library) if option.merging is way), None)
    if chosen is None:
        raise NothingToPlanError(f"--plan: merges {way}, which the scenario forbids. Plan the scenario anew.")
    return chosen.of(loaded), chosen.merged


def planned_swap(scenario: Scenario, kept: Plan) -> SwapPolicy:
    """How a plan swaps; what the scenario fixes goes first."""
    given, planned = scenario.swap, kept.policies
    return SwapPolicy(
        eviction=planned.eviction if given.eviction is None else given.eviction,
        prefetch=planned.prefetch if given.prefetch is None else given.prefetch,
        pinned=given.pinned,
    )


def offer_of(offered: Sequence[Offer], wanted: Instances) -> Offer:
    """The offer that a plan took."""
    for offer in offered:
        found = (offer.provider, offer.region, offer.instance, offer.gpu.name, offer.gpu_count)
        if found == (wanted.provider, wanted.region, wanted.instance, wanted.gpu, wanted.gpu_count):
            return offer
    raise NothingToPlanError(f"--plan: the scenario no longer offers {wanted.instance}. Plan the scenario anew.")


def replicas_of(
    model: ModelAnswer, cards: Mapping[str, Card], question: Question, refused: Sequence[Rejection]
) -> Iterator[Placed]:
    """The replicas of one model as a plan placed them."""
    for replica in model.replicas:
        if not replica.gpus or not cards.keys() >= set(replica.gpus):
            raise NothingToPlanError(f"--plan: {model.name}: a replica is on no GPU of it. Plan the scenario anew.")
        mine = tuple(cards[gpu] for gpu in replica.gpus)
        sized = question.sized.get((model.name, mine[0].kind))
        if sized is None:
            reasons = [why(no) for no in refused if no.candidate == f"{model.name} on {mine[0].kind.gpu.name}"]
            raise NothingToPlanError("\n".join(reasons) or f"--plan: {model.name} cannot run on {mine[0].id}.")
        most = sized.batches[len(mine) - 1] if len(mine) <= len(sized.batches) else 0
        if not 1 <= replica.batch_size <= most:
            raise NothingToPlanError(
                f"--plan: {model.name}: batch size must be from 1 to {most}, the largest that its SLO and memory "
                f"allow, got {replica.batch_size}. Plan the scenario anew."
            )
        portion = Portion(sized, replica.share)
        most, swapped = replica.batch_size, model.mode == "swapped"
        yield Placed(portion, mine, most, most, nan, swapped, model.bottleneck)


def offered(question: Question, gpu: str, count: int) -> Offer | None:
    """The cheapest offer of which whole machines make up so many GPUs and hold each model; one's own come first."""
    fitting = [o for o in question.offers if o.gpu.name == gpu and count % o.gpu_count == 0 and holds_all(question, o)]
    return min(fitting, key=lambda o: (bool(o.as_of), o.usd_per_hour / o.gpu_count), default=None)


def holds_all(question: Question, offer: Offer) -> bool:
    """Whether one machine has the GPUs for a replica of each model, cut in stages where it must be."""
    found = [question.sized.get((model, Kind.of(offer))) for model in question.needs]
    return all(sized is not None and sized.stages <= offer.gpu_count for sized in found)


def owned(scenario: Scenario, refused: Sequence[Rejection], gpu: str) -> str:
    """Why machines of one's own with such GPUs will not do, for lack of memory or speed; empty where none are owned."""
    if all(machine.gpu != gpu for machine in scenario.buy.own):
        return ""
    return "\n".join(why(no) for no in refused if no.candidate.endswith(f" on {gpu}"))


def of_kind(scenario: Scenario, gpu: str) -> Scenario:
    """The same question, with one kind of GPU of those on offer; as it is where that kind is not."""
    buy = scenario.buy
    return scenario if buy.gpus and gpu not in buy.gpus else replace(scenario, buy=replace(buy, gpus=(gpu,)))


def unpriced(scenario: Scenario, gpu: str, count: int, each: int) -> Scenario:
    """The same question, with so many such GPUs at hand, some in each machine. Their price is never shown."""
    machine = OwnMachine(name=gpu, gpu=gpu, gpu_count=each, price=1.0, count=count // each)
    return replace(scenario, buy=BuySpec(own=(machine,)))


def demand_every_profile(question: Question, refused: Sequence[Rejection], offer: Offer | None, gpu: str) -> None:
    """Refuse, in the words of sizing, where some model cannot run on the GPU."""
    if offer is not None and all((model, Kind.of(offer)) in question.sized for model in question.needs):
        return
    reasons = [why(no) for no in refused if no.candidate.endswith(f" on {gpu}")]
    raise NothingToPlanError("\n".join(reasons) or f"--gpu {gpu}: no model can run on it.")


def why(no: Rejection) -> str:
    """A rejection in one line."""
    return f"{no.candidate}: {no.reason}. Way out: {no.way_out}."
