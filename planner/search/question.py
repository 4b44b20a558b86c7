"""The question: a scenario with all that is known about its models and offers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import inf
from statistics import NormalDist

from calibrate.layers.facts import facts
from calibrate.layers.work import Facts
from calibrate.library.lookup import Library
from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer, offers
from planner.model.candidate import OnGpu
from planner.model.parts.machines import EvidenceAsked
from planner.model.plan import Rejection
from planner.model.replications import RISK_SHARE
from planner.model.scenario import MemoryPolicy, Predict, Scenario
from planner.placing.duty import Rules
from planner.placing.fleets import FleetProgram, dominates
from planner.placing.sizing import Kind, Need, Profiles, SizedModels, WhyNot, context_without_models, needs, size
from planner.placing.stations import (
    does,
    encoded_streams,
    resources,
    stream_sizes,
    too_many_of_a_source,
    too_small_for_a_stream,
    unable,
)
from planner.prediction.predict import Predictor
from planner.search.rejections import dominated, no_engine, stream_too_large, too_many_encoded
from simulator.errors import InputError
from simulator.world.pipelines import ENCODE, ENGINES
from simulator.world.sharing import NOTHING_SHARED, Merged
from simulator.world.workload import Workload


class NothingToPlanError(InputError):
    """A deployment that cannot be; the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Question:
    """A scenario with all that is known about its models and offers."""

    scenario: Scenario
    workload: Workload
    needs: Mapping[str, Need]
    offers: tuple[Offer, ...]
    """Those that no other stands in for."""
    sized: SizedModels

    def program(self, offered: Sequence[Offer] | None = None) -> FleetProgram:
        """The integer program over all offers, or some; one for each, for it remembers what it has proposed."""
        asked = self.offers if offered is None else tuple(offered)
        if asked not in self._programs:
            self._programs[asked] = self._program(asked)
        return self._programs[asked]

    @cached_property
    def _programs(self) -> dict[tuple[Offer, ...], FleetProgram]:
        return {}

    def _program(self, offered: tuple[Offer, ...]) -> FleetProgram:
        return FleetProgram(
            offers=offered,
            models=tuple(self.needs),
            sized=self.sized,
            headroom=self.scenario.headroom,
            max_gpus=self.scenario.buy.max_gpus,
            resident=self.scenario.memory is MemoryPolicy.RESIDENT,
            resources=resources(self.needs, [offer.gpu for offer in self.offers]),
            stream_sizes={kind: tuple(stream_sizes(self.needs, kind).tolist()) for kind in ENGINES},
            encoded=tuple(encoded_streams(self.needs, ENCODE).tolist()),
            context_bytes=context_without_models(self.scenario),
        )

    def lower_bound_usd_per_hour(self) -> float:
        """Price that no plan can beat; where the limits on buying leave none, that none could beat without them."""
        program = self.program()
        bound = program.lower_bound_usd_per_hour()
        least = (program.unlimited().lower_bound_usd_per_hour() or 0.0) if bound is None else bound
        return self.with_spares_usd_per_hour(program, least)

    def with_spares_usd_per_hour(self, program: FleetProgram, least_usd_per_hour: float) -> float:
        """Price that no fleet of a program can beat with its spares, where none can beat `least_usd_per_hour` without.

        What is left carries the work whichever machines are away, so what these cost comes on top.
        """
        return least_usd_per_hour + self.scenario.survive * program.spare_usd_per_hour

    def with_fewer_streams(self, share: float) -> "Question | None":
        """The same with so large a share of the cameras of each pipeline's streams, in whole ones; None where some
        pipeline would have none."""
        needs: dict[str, Need] = {}
        for model, need in self.needs.items():
            fewer = need.with_fewer_streams(share) if need.judged.pipeline else need
            if fewer is None:
                return None
            needs[model] = fewer
        sized = {cell: one.asked(needs[cell[0]]) for cell, one in self.sized.items()}
        return replace(self, needs=needs, sized=sized)

    @property
    def served(self) -> bool:
        """Whether each model can run on some kind of GPU on offer."""
        return {model for model, _ in self.sized} == set(self.needs)

    @property
    def policies(self) -> tuple[bool, ...]:
        """Whether models may take turns in memory: what is tried, in order."""
        match self.scenario.memory:
            case MemoryPolicy.RESIDENT:
                return (False,)
            case MemoryPolicy.SWAP:
                return (True,)
            case MemoryPolicy.AUTO:
                return (False, True)

    def rules(self, swap: bool, tightness: Mapping[str, float]) -> Rules:
        """What each GPU must keep."""
        s, policy = self.scenario, self.scenario.swap.policy
        return Rules(s.headroom, swap, policy.prefetch, policy.source, tightness)


def ask(
    scenario: Scenario,
    demand: Workload,
    catalog: Catalog,
    library: Profiles,
    shared: Merged = NOTHING_SHARED,
    *,
    by_place: bool = False,
) -> tuple[Question, list[Rejection]]:
    """The question, and what is rejected before any fleet is built; the same for every command.

    Pairs that nobody measured are predicted; where measured ones are asked for, only if those serve not every model.
    `by_place`: a cheaper offer stands in for others of its own provider and region alone.
    """
    scenario = scenario.with_stages
    predictor = predictor_of(scenario, catalog, library)
    if predictor is None or scenario.buy.evidence is EvidenceAsked.MEASURED:
        measured = _ask(scenario, demand, catalog, library, shared, predictor, by_place=by_place)
        if predictor is None or measured[0].served:
            return measured
    return _ask(scenario, demand, catalog, predictor, shared, by_place=by_place)


def predictor_of(scenario: Scenario, catalog: Catalog, library: Profiles) -> Predictor | None:
    """What predicts pairs that have no profile, at the end of the band that the confidence asks for.

    None where the scenario forbids it, or `library` does so itself.
    """
    if scenario.predict is Predict.NEVER or not isinstance(library, Library):
        return None
    predictor = _predictor(
        library,
        catalog,
        tuple((m.known_as, m.made_by, m.input) for m in scenario.models if m.is_traced),
        scenario.buy.evidence is not EvidenceAsked.MEASURED,
    )
    return predictor.at(NormalDist().inv_cdf(1 - RISK_SHARE * (1 - scenario.confidence)))


@lru_cache(maxsize=4)
def _predictor(
    library: Library,
    catalog: Catalog,
    own: tuple[tuple[str, str, tuple[int, ...]], ...],
    draws_published: bool,
) -> Predictor:
    """One for each library and models of one's own, for it remembers what it has predicted."""
    places = {name: (model, shape or None) for name, model, shape in own}

    def facts_of(model: str) -> Facts:
        return facts(*places.get(model, (model, None)))

    return Predictor(library, catalog.gpus, draws_published=draws_published, facts_of=facts_of)


def _ask(
    scenario: Scenario,
    demand: Workload,
    catalog: Catalog,
    library: Profiles,
    shared: Merged,
    predictor: Predictor | None = None,
    *,
    by_place: bool,
) -> tuple[Question, list[Rejection]]:
    offered, rejections = offers(catalog, scenario.buy)
    need_by_model = needs(scenario, demand)
    sized, misfits = size(scenario, need_by_model, offered, library, shared, _why_not(library, catalog, predictor))
    spanning = any(s.stages > 1 for s in sized.values())
    on_hosts = any(stage.host for pipeline in scenario.pipelines for stage in pipeline.stages)
    kept, replaced = undominated(
        offered, whole_hosts=spanning, host_cores=on_hosts, weight_bytes=weight_bytes(sized), by_place=by_place
    )
    useful = tuple(offer for offer in kept if any(k == Kind.of(offer) for _, k in sized))
    kinds = list(dict.fromkeys(map(Kind.of, offered)))
    unfit = _unfit_for_video(need_by_model, kinds, context_without_models(scenario), catalog)
    return Question(scenario, demand, need_by_model, useful, sized), [*rejections, *misfits, *unfit, *replaced]


def _why_not(library: Profiles, catalog: Catalog, predictor: Predictor | None) -> WhyNot | None:
    """What says why a pair has no profile; with measured ones alone, which GPUs lack a precision."""
    match library:
        case Predictor():
            return library.why_not
        case Library():
            return (predictor or Predictor(library, catalog.gpus)).unable
    return None


def _unfit_for_video(
    need_by_model: Mapping[str, Need], kinds: Sequence[Kind], context_bytes: int, catalog: Catalog
) -> Iterator[Rejection]:
    """Kinds of GPU that lack an engine for what is asked, or the memory for one stream of it, or whose driver does not
    encode all streams of one source."""
    gpus = [kind.gpu for kind in kinds]
    newest_first = [gpu for gpu in reversed([*catalog.gpus.values()]) if not gpu.mig_profile]
    for one in unable(need_by_model, gpus):
        yield no_engine(one, [gpu.name for gpu in newest_first if all(does(gpu, coding) for coding in one.codings)])
    for kind, held_bytes in too_small_for_a_stream(need_by_model, kinds, context_bytes):
        yield stream_too_large(kind, held_bytes, context_bytes)
    yield from (too_many_encoded(OnGpu(gpu=gpu.name), gpu, n) for gpu, n in too_many_of_a_source(need_by_model, gpus))


def weight_bytes(sized: SizedModels) -> int:
    """The most that a host has to hold: weights of each model once, as on the kind of GPU where they are most."""
    most: dict[str, int] = {}
    for (model, _), one in sized.items():
        most[model] = max(most.get(model, 0), one.profile.weight_bytes)
    return sum(most.values())


def undominated(
    offered: Sequence[Offer],
    *,
    whole_hosts: bool,
    host_cores: bool = False,
    weight_bytes: float = inf,
    by_place: bool = False,
) -> tuple[list[Offer], list[Rejection]]:
    """Offers that no other stands in for, cheapest by the GPU first."""
    stands_in = partial(dominates, whole_hosts=whole_hosts, host_cores=host_cores, weight_bytes=weight_bytes)
    kept: list[Offer] = []
    rejections: list[Rejection] = []
    for offer in sorted(offered, key=lambda o: (o.usd_per_hour / o.gpu_count, o.gpu_count)):
        rivals = [one for one in kept if one.place == offer.place] if by_place else kept
        better = next((one for one in rivals if stands_in(one, offer)), None)
        if better is None:
            kept.append(offer)
        else:
            rejections.append(dominated(offer, better))
    return kept, rejections
