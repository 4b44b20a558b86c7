"""Sizing: the demand on each model, its feasible batch sizes on each kind of GPU, and the least work that takes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile
from math import ceil, exp, floor, inf
from typing import NamedTuple, Protocol

import numpy as np

from calibrate.library.hosts import beside_host
from planner.catalog.offers import Offer
from planner.model.candidate import OnGpu
from planner.model.parts.models import ModelSpec
from planner.model.parts.pipelines import PipelineSpec
from planner.model.plan import Bottleneck, Rejection
from planner.model.scenario import Scenario
from planner.model.statement import Code, Statement
from planner.placing.stages import items_of, least_shares
from simulator.clock.run import cut
from simulator.world.curves import by_size
from simulator.world.deployment import Drop
from simulator.world.hardware import CONTEXT_BYTES, GPU
from simulator.world.model import Layer
from simulator.world.precision import weight_share
from simulator.world.profile import Evidence, Profile
from simulator.world.sharing import NOTHING_SHARED, Merged, merged_layers
from simulator.world.workload import SLO, FixedRate, Gamma, Poisson, Stream, Trace, Workload

STAGES_MAX = 16
"""GPUs of the largest machines there are to rent."""


class Unpredicted(NamedTuple):
    """Why nothing is predicted of a pair that nobody measured."""

    why: str
    remedy: str = ""
    """Where measuring would not help."""


WhyNot = Callable[[str, str, str | None, str | None], Unpredicted]
"""Of a model, a GPU, a precision and a runtime."""


class Profiles(Protocol):
    """Where profiles come from."""

    def get(self, model: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
        """The profile of `model` on `gpu`; None where nobody measured it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """GPUs that are the same to a model: one GPU with so much usable memory."""

    gpu: GPU
    memory_bytes: int

    def __hash__(self) -> int:
        """Of the name and the size alone: packing looks kinds up a hundred thousand times."""
        return hash((self.gpu.name, self.memory_bytes))

    @classmethod
    def of(cls, offer: Offer) -> "Kind":
        """The kind of GPU in an offer."""
        return cls(offer.gpu, offer.memory_bytes)


class Part(NamedTuple):
    """What the SLO of one stage leaves a stage that leads there."""

    name: str
    slo_s: float
    time_s: float


@dataclass(frozen=True, slots=True)
class Need:
    """What is asked of one model."""

    model: str
    rate_rps: float
    """Mean rate of all its streams."""
    slo: SLO
    max_queue_delay_s: float
    may_drop: bool
    """Whether requests beyond the attainment target may be given up."""
    streams: tuple[Stream, ...]
    dispersion: float = 0.0
    """Variance over mean of the number of arrivals in a window: 0 for cameras, 1 for Poisson."""
    gap_s: float = 0.0
    """Least time between two requests: the period of a camera that is alone, 0 for all else."""
    pipeline: PipelineSpec | None = None
    """Its stages, where a pipeline is asked."""
    frames: "Need | None" = None
    """Of a stage: what is asked of its pipeline."""
    own: "Part | None" = None
    """Of a stage: its part of the SLO that leaves it least, of those that stages have besides their pipeline's."""
    least_share: float | None = None
    """Of a stage: share of its items that must be answered at least; None: as its attainment says."""

    @property
    def needed_rps(self) -> float:
        """Requests that must be processed: 100 rps at 99 % attainment need 99 where frames may be dropped, else 100."""
        return self.rate_rps * (self.slo.attainment if self.may_drop else 1.0)

    @property
    def least_rps(self) -> float:
        """Requests that must be answered in time: of frames that may be lost, those with most items may be the ones."""
        return self.rate_rps * (self.slo.attainment if self.least_share is None else self.least_share)

    def with_fewer_streams(self, share: float) -> "Need | None":
        """What is asked where streams have so large a share of their cameras, in whole ones; None where none is left.
        Of a stage: of the items of as many frames."""
        if self.frames:
            frames = self.frames.with_fewer_streams(share)
            if frames is None:
                return None
            rate_rps = self.rate_rps * frames.rate_rps / self.frames.rate_rps
            return replace(self, rate_rps=rate_rps, streams=(Stream(self.model, Poisson(rate_rps)),), frames=frames)
        counts = [(one, floor(one.count * share + 1e-9)) for one in self.streams]
        streams = tuple(replace(one, count=count) for one, count in counts if count)
        rate_rps = sum(one.rate_rps for one in streams)
        return replace(self, rate_rps=rate_rps, streams=streams, gap_s=least_gap_s(streams)) if streams else None

    @property
    def judged(self) -> "Need":
        """What is asked where the SLO is judged: of a stage the pipeline, else itself."""
        return self.frames or self


@dataclass(frozen=True, slots=True)
class Sized:
    """One model on one kind of GPU."""

    need: Need
    profile: Profile
    latency_s: tuple[float, ...]
    """Run time of a batch of 1, 2, ... up to the largest that meets the SLO and fits in memory, cut over as many GPUs
    as one machine has."""
    batches: tuple[int, ...]
    """Largest feasible batch of a replica that spans 1, 2, ... GPUs; 0 where so few do not hold it."""
    least_work: float
    """GPUs that are busy at least, on average, whatever the plan."""
    design_work: float
    """GPUs that are busy when a request waits as long as its batch runs."""
    context_bytes: int
    """What one framework process holds besides weights and workspace."""
    streams_bytes: int = 0
    """What of that streams of video hold."""

    def beside_streams(self, held_bytes: int) -> "Sized":
        """The same on a GPU on which streams of video hold so much."""
        return replace(self, context_bytes=self.context_bytes + held_bytes, streams_bytes=held_bytes)

    def asked(self, need: Need) -> "Sized":
        """The same where so much is asked of it, in proportion."""
        factor = need.rate_rps / self.need.rate_rps
        least, design = self.least_work * factor, self.design_work * factor
        return replace(self, need=need, least_work=least, design_work=design)

    @property
    def model(self) -> str:
        """Name in the scenario."""
        return self.need.model

    @property
    def batch_size_max(self) -> int:
        """Largest feasible batch of a replica on the fewest GPUs that hold it."""
        return self.batches[self.stages - 1]

    @property
    def stages(self) -> int:
        """Fewest GPUs that one replica spans: 1 unless the model is too large for one."""
        return next(k for k, most in enumerate(self.batches, start=1) if most)


SizedModels = Mapping[tuple[str, Kind], Sized]


def most_arrivals(streams: Iterable[Stream], window_s: float) -> float:
    """Most requests that can arrive within any closed window; infinite for random arrivals.

    Two cameras at 10 fps send at most 2 x 3 frames in 0.25 s.
    """
    return sum(stream.count * _most_arrivals_of_one(stream, window_s) for stream in streams)


def _most_arrivals_of_one(stream: Stream, window_s: float) -> float:
    match stream.arrivals:
        case FixedRate(rate_rps=rate, jitter_s=0.0):
            return floor(window_s * rate + 1e-9) + 1
        case Trace(times_s=times, period_s=period) if window_s < period and len(times):
            twice, until_s = np.concatenate([times, times + period]), times + window_s + 1e-9

            def never_come(count: int) -> bool:
                last_s = twice[count - 1 : count - 1 + len(times)]
                return not (last_s <= until_s[: len(last_s)]).any()

            return bisect_left(range(1, len(twice) + 1), True, key=never_come)
        case _:
            return inf


def gap_cv(stream: Stream) -> float:
    """Coefficient of variation of the gaps between one source's requests; cameras are taken as regular."""
    match stream.arrivals:
        case FixedRate():
            return 0.0
        case Poisson():
            return 1.0
        case Gamma(cv=cv):
            return cv
        case Trace(times_s=times):
            gaps = np.diff(times)
            return float(gaps.std() / gaps.mean()) if len(gaps) and gaps.any() else 0.0


def least_gap_s(streams: Sequence[Stream]) -> float:
    """Least time between two requests: 0.1 s for one camera at 10 fps, 0 for several sources and for random gaps."""
    match streams:
        case [Stream(arrivals=FixedRate(rate_rps=rate, jitter_s=0.0), count=1)]:
            return 1 / rate
    return 0.0


def needs(scenario: Scenario, workload: Workload) -> dict[str, Need]:
    """Demand on each model that any stream asks."""

    def need(spec: ModelSpec | PipelineSpec) -> Need:
        streams = tuple(s for s in workload.streams if s.model == spec.name)
        slo = SLO(spec.slo.latency, spec.slo.attainment)
        rate_rps = sum(s.rate_rps for s in streams)
        spread = sum(s.rate_rps * gap_cv(s) ** 2 for s in streams) / rate_rps
        may_drop = scenario.drop is not Drop.NEVER
        delay_s = spec.max_queue_delay if isinstance(spec, ModelSpec) else 0.0
        pipeline = spec if isinstance(spec, PipelineSpec) else None
        return Need(spec.name, rate_rps, slo, delay_s, may_drop, streams, spread, least_gap_s(streams), pipeline)

    asked = {s.model for s in workload.streams}
    found = {spec.name: need(spec) for spec in scenario.asked if spec.name in asked}
    models = {spec.name: spec for spec in scenario.models}
    for pipeline in scenario.pipelines:
        frames = found.pop(pipeline.name)
        found |= {need.model: need for need in stage_needs(pipeline, frames, models)}
    return found


def stage_needs(pipeline: PipelineSpec, frames: Need, models: Mapping[str, ModelSpec]) -> Iterator[Need]:
    """Demand on each stage that runs a model. How its items come is not known before the stages before it run."""
    least = least_shares(pipeline, frames.slo.attainment)
    for stage, items in items_of(pipeline).items():
        name = pipeline.stage(stage)
        if name not in models:
            continue
        spec, rate_rps = models[name], frames.rate_rps * items.mean
        yield Need(
            model=name,
            rate_rps=rate_rps,
            slo=SLO(spec.slo.latency, spec.slo.attainment),
            max_queue_delay_s=spec.max_queue_delay,
            may_drop=frames.may_drop,
            streams=(Stream(name, Poisson(rate_rps)),),
            dispersion=items.variance / items.mean + items.mean * frames.dispersion,
            frames=frames,
            least_share=least[stage],
        )


def judged(needs: Mapping[str, Need]) -> dict[str, Need]:
    """What streams ask and SLOs judge: models, and pipelines as a whole."""
    return {need.judged.model: need.judged for need in needs.values()}


def least_work(need: Need, latency_s: Sequence[float], noisy: bool) -> float:
    """GPUs busy at least, on long-run average, so that enough requests of one model are answered in time.

    Batches are those in `latency_s`: measured, and run within the SLO. A request is on time only if its whole batch is:
    the batch's run time is at most the SLO, and the request arrived at most SLO minus run time before the start. So a
    batch of b that runs l(b) serves at most k(b) = min(b, arrivals in such a window) requests in time, and each costs
    at least min_b l(b) / k(b). Attainment x rate of them are due each second. Where nothing may be dropped, all must
    run as well, at no less than min_b l(b) / b each.

    100 rps at attainment 0.99, 10 ms for one and 16 ms for two: min(10, 8) ms x 99 /s = 0.792 GPUs.
    """
    slo = need.slo
    on_time_s = all_s = inf
    for b, run_s in enumerate(latency_s, start=1):
        window_s = slo.latency_s if noisy else slo.latency_s - run_s
        on_time_s = min(on_time_s, run_s / min(b, most_arrivals(need.streams, max(window_s, 0.0))))
        all_s = min(all_s, run_s / b)
    on_time = need.least_rps * on_time_s
    return on_time if need.may_drop else max(on_time, need.rate_rps * all_s)


def design_work(need: Need, latency_s: Sequence[float]) -> float:
    """GPUs busy at the largest batch that half the SLO leaves time to gather and half to run."""
    half_s = need.slo.latency_s / 2
    gathered = max(1, ceil(need.needed_rps * half_s))
    fitting = [run_s / b for b, run_s in enumerate(latency_s, start=1) if b <= gathered and run_s <= half_s]
    return need.needed_rps * min(fitting, default=latency_s[0])


def held_bytes(profile: Profile, batch_size: int, stages: int) -> float:
    """Weights and workspace on the fullest GPU: every stage keeps its run of layers and the whole workspace."""
    return fullest_bytes(profile, stages) + profile.workspace(batch_size)


def fullest_bytes(profile: Profile, stages: int) -> int:
    """Weights on the fullest GPU."""
    return max(sum(layer.weight_bytes for layer in part) for part in cut(profile, stages))


def stages_needed(profile: Profile, room_bytes: int, stages_max: int) -> int | None:
    """Fewest GPUs that hold the model, its layers cut in runs of about equal bytes; None where `stages_max` do not."""
    return next((k for k in range(1, stages_max + 1) if held_bytes(profile, 1, k) <= room_bytes), None)


def fits_at_all(sized: Sized, kind: Kind) -> bool:
    """Whether so many GPUs as one machine has hold a model at batch 1 beside its context."""
    room_bytes = kind.memory_bytes - sized.context_bytes
    return stages_needed(sized.profile, room_bytes, len(sized.batches)) is not None


def feasible_latency_s(profile: Profile, slo_s: float, room_bytes: int, stages_max: int) -> list[tuple[float, ...]]:
    """Run times of batches 1, 2, ... that were measured, keep the SLO and fit in memory, on one GPU and on more."""
    times_s = tuple(takewhile(lambda time_s: time_s <= slo_s, by_size(profile.latency, profile.largest_batch)))
    workspaces = by_size(profile.workspace, len(times_s)) if times_s else ()

    def most(weight_bytes: int) -> int:
        return sum(1 for _ in takewhile(lambda held: weight_bytes + held <= room_bytes, workspaces))

    return [times_s[: most(fullest_bytes(profile, stages))] for stages in range(1, stages_max + 1)]


@dataclass(frozen=True, slots=True)
class Own:
    """Profiles as one model of a scenario has them: two models with one profile have weights of their own, unless they
    share them."""

    model: str
    library: Profiles
    twice: bool
    """Whether another model of the scenario has the same profile."""
    shared: Merged
    runtime: str | None = None
    """The one it must run in; None: any."""
    host_speed: float = 1.0
    """Of the hosts that will serve, over those that measured."""

    def get(self, model: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
        """The profile, with this model's layers."""
        profile = self.library.get(model, gpu, precision, *filter(None, (runtime or self.runtime,)))
        if profile is None:
            return None
        profile = beside_host(profile, self.host_speed)
        if any(self.model in group.models for group in self.shared.sharing):
            share = weight_share(profile.precision)
            layers = merged_layers(self.model, profile.weight_bytes, self.shared.sharing, share)
            return replace(profile, layers=layers)
        if self.twice:
            layers = tuple(Layer(f"{self.model}: {layer.key}", layer.weight_bytes) for layer in profile.layers)
            return replace(profile, layers=layers)
        return profile


def size(
    scenario: Scenario,
    need_by_model: Mapping[str, Need],
    offers: Sequence[Offer],
    library: Profiles,
    shared: Merged = NOTHING_SHARED,
    why_not: WhyNot | None = None,
) -> tuple[dict[tuple[str, Kind], Sized], list[Rejection]]:
    """Every model on every kind of GPU that can serve it, and why the other kinds cannot.

    `why_not` says why nothing is predicted of a pair that nobody measured; None where nothing is predicted at all.
    """
    wanted = [spec for spec in scenario.models if spec.name in need_by_model]
    own = _own(scenario, library, shared)
    sized: dict[tuple[str, Kind], Sized] = {}
    rejections: list[Rejection] = []
    for kind, stages_max in _gpu_count_max(offers).items():
        missing: list[ModelSpec] = []
        for spec in wanted:
            match _best(spec, need_by_model[spec.name], kind, stages_max, own[spec.name], scenario.context):
                case Sized() as one:
                    sized[spec.name, kind] = one
                case Rejection() as rejection:
                    rejections.append(rejection)
                case None:
                    missing.append(spec)
        if missing:
            rejections.append(_no_profiles(missing, kind, why_not))
    return sized, rejections


def _own(scenario: Scenario, library: Profiles, shared: Merged) -> dict[str, Own]:
    times = Counter(spec.known_as for spec in scenario.models)
    speed = scenario.buy.host_speed
    return {
        spec.name: Own(spec.name, library, times[spec.known_as] > 1, shared, host_speed=speed)
        for spec in scenario.models
    }


def _gpu_count_max(offers: Sequence[Offer]) -> dict[Kind, int]:
    """GPUs of each kind in the largest machine that has them."""
    most: dict[Kind, int] = {}
    for offer in offers:
        kind = Kind.of(offer)
        most[kind] = max(offer.gpu_count, most.get(kind, 0))
    return most


def context_of(profile: Profile, given_bytes: int | None) -> int:
    """What a process holds besides weights and workspace: as given, else as measured, else as assumed."""
    measured_bytes = CONTEXT_BYTES if profile.context_bytes is None else profile.context_bytes
    return measured_bytes if given_bytes is None else given_bytes


def context_without_models(scenario: Scenario) -> int:
    """What a process holds that only decodes or encodes: as given, else as assumed."""
    return CONTEXT_BYTES if scenario.context is None else scenario.context


def _best(
    spec: ModelSpec, need: Need, kind: Kind, stages_max: int, own: Own, given_bytes: int | None
) -> Sized | Rejection | None:
    """The precision and runtime that needs fewest GPUs, of those that it may run in."""
    tried = [
        size_one(
            spec,
            variant.precision,
            need,
            kind,
            stages_max,
            replace(own, runtime=variant.runtime),
            given_bytes,
        )
        for variant in spec.variants
    ]
    fitting = [one for one in tried if isinstance(one, Sized)]
    if fitting:
        return min(fitting, key=lambda one: one.design_work)
    return next((one for one in tried if one is not None), None)


def size_one(
    spec: ModelSpec,
    precision: str | None,
    need: Need,
    kind: Kind,
    stages_max: int,
    library: Profiles,
    given_bytes: int | None,
) -> Sized | Rejection | None:
    """One model on one kind of GPU; None where nobody measured it. `given_bytes`: the context where it is given."""
    profile = library.get(spec.known_as, kind.gpu.name, precision)
    if profile is None:
        return None
    context_bytes = context_of(profile, given_bytes)
    room_bytes = kind.memory_bytes - context_bytes
    fewest = stages_needed(profile, room_bytes, stages_max)
    if fewest is None:
        return _no_memory(spec, profile, kind, context_bytes)
    slo_s = need.slo.latency_s
    feasible = feasible_latency_s(profile, slo_s, room_bytes, stages_max)
    latency_s = max(feasible, key=len)
    if not latency_s:
        return _too_slow(spec, need, profile, kind)
    least = least_work(need, latency_s, noisy=profile.varies)
    design = design_work(need, feasible[fewest - 1])
    return Sized(need, profile, latency_s, tuple(map(len, feasible)), least, max(least, design), context_bytes)


def _no_profiles(missing: Sequence[ModelSpec], kind: Kind, why_not: WhyNot | None) -> Rejection:
    gpu = kind.gpu.name
    names = tuple(f"{s.known_as} ({' or '.join(s.precisions)})" if s.precisions else s.known_as for s in missing)
    unpredicted = {why_not(s.known_as, gpu, *s.variants[0]) for s in missing} if why_not else set()
    return Rejection(
        subject=OnGpu(gpu=gpu, models=names),
        bottleneck=Bottleneck.PROFILE,
        observed=0,
        limit=len(names),
        unit="",
        why=Statement(code=Code.NO_PROFILE, subjects=(*names, gpu)),
        beside=tuple(
            Statement(code=Code.NOTHING_PREDICTS, text=why) for why in sorted({u.why for u in unpredicted} - {""})
        ),
        remedies=_remedies(unpredicted) or measuring([(s, s.variants[0][1]) for s in missing], gpu),
    )


def measuring(models: Sequence[tuple[ModelSpec, str | None]], gpu: str) -> tuple[Statement, ...]:
    """How to measure models on a GPU, each in its runtime: with that runtime's own tool where `calibrate` has none."""
    others = {runtime: None for spec, runtime in models if runtime and not spec.is_calibrated_in(runtime)}
    ours = any(spec.is_calibrated_in(runtime) for spec, runtime in models)
    elsewhere = (Statement(code=Code.MEASURE_ELSEWHERE, subjects=tuple(others)),) if others else ()
    return (*elsewhere, *((Statement(code=Code.MEASURE, subjects=(gpu,)),) if ours else ()))


def eased(profiles: Iterable[Profile]) -> tuple[Statement, ...]:
    """What spares measuring where uncertain speeds would do at the middle of their bands.

    `buy.evidence: measured` takes away the GPUs of models that are predicted there and have a profile elsewhere.
    """
    drawn = sorted({profile.speed_evidence for profile in profiles if profile.doubt})
    stand = bool(drawn) and Evidence.PREDICTED not in drawn
    taken = (Statement(code=Code.AS_THEY_STAND, subjects=tuple(drawn)),) if stand else ()
    return (*taken, Statement(code=Code.LOWER_CONFIDENCE)) if drawn else ()


def _remedies(unpredicted: Set[Unpredicted]) -> tuple[Statement, ...]:
    """What some need before measuring helps; nothing where that alone helps all of them."""
    texts = sorted({one.remedy for one in unpredicted} - {""})
    return tuple(Statement(code=Code.AS_SAID, text=text) for text in texts)


def _no_memory(spec: ModelSpec, profile: Profile, kind: Kind, context_bytes: int) -> Rejection:
    needed = context_bytes + profile.weight_bytes + profile.workspace(1)
    figures = {"needed_bytes": needed, "limit_bytes": kind.memory_bytes}
    remedies = [Statement(code=Code.LARGER_GPU, figures={"needed_bytes": needed})]
    but: list[Statement] = []
    stages = stages_needed(profile, kind.memory_bytes - context_bytes, STAGES_MAX)
    if stages is not None:
        remedies.append(Statement(code=Code.CUT_OVER, figures={"stages": stages}))
    else:
        kept = {"stages": STAGES_MAX, "kept_bytes": held_bytes(profile, 1, STAGES_MAX)}
        but.append(Statement(code=Code.CUTTING_IS_NO_HELP, figures=kept))
    return Rejection(
        subject=OnGpu(gpu=kind.gpu.name, models=(spec.name,)),
        bottleneck=Bottleneck.MEMORY,
        observed=needed,
        limit=kind.memory_bytes,
        unit="bytes",
        why=Statement(code=Code.MODEL_TOO_LARGE, figures=figures),
        remedies=tuple(remedies),
        but=tuple(but),
    )


def _too_slow(spec: ModelSpec, need: Need, profile: Profile, kind: Kind) -> Rejection:
    run_s, slo_s = profile.latency(1), spec.slo.latency
    enough = {"run_s": run_s, "two_s": 2 * run_s}
    remedies = [Statement(code=Code.RAISE_LATENCY_WITH_WAITING, subjects=(need.judged.model,), figures=enough)]
    why = Statement(code=Code.SAMPLE_TOO_SLOW, figures={"run_s": run_s, "slo_s": slo_s})
    mid_s = run_s if profile.doubt is None else run_s * exp(-profile.doubt.quantile * profile.doubt.error_sd(1))
    if mid_s < run_s:
        figures = {"run_s": run_s, "slo_s": slo_s, "mid_s": mid_s}
        why = Statement(code=Code.SAMPLE_MAY_BE_TOO_SLOW, subjects=(profile.speed_evidence,), figures=figures)
        remedies += measuring([(spec, profile.runtime)], kind.gpu.name)
        remedies += eased([profile]) if mid_s <= slo_s else ()
    return Rejection(
        subject=OnGpu(gpu=kind.gpu.name, models=(spec.name,)),
        bottleneck=Bottleneck.LATENCY,
        observed=run_s,
        limit=slo_s,
        unit="s",
        why=why,
        remedies=tuple(remedies),
    )
