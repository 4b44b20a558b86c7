"""What an answer assumes, and what weakens it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from math import expm1, floor

from calibrate.layers.facts import facts, has_layers, taken_for
from calibrate.library.held import TRACED_ERROR
from calibrate.published import runtimes
from calibrate.published.accuracy import EXACT, accuracy
from calibrate.published.names import architecture, identity, tokens
from calibrate.published.points import points
from planner.catalog.engines import EngineRate, engine_rate, frame_bytes, stream_bytes
from planner.catalog.files import SaleStatus
from planner.catalog.offers import CORES_ASSUMED, retired_machines, spot_machines
from planner.catalog.sold import OWN, stale_price
from planner.model.choices import PriceKind
from planner.model.parts.coding import Coding
from planner.model.parts.pipelines import StageSpec
from planner.model.plan import (
    Bottleneck,
    PlanWarning,
)
from planner.model.replications import REQUESTS_MAX
from planner.model.scenario import Scenario
from planner.model.statement import Code, Statement
from planner.placing.packing.packed import Packing, Placed
from planner.placing.sizing import Need, Sized, context_of, eased, measuring
from planner.placing.stations import pipelines_in
from planner.prediction.effects import products_share
from planner.prediction.learnt import OWN_SOFTWARE_SD
from planner.prediction.rules.bands import SPREAD_80
from planner.replay.answer import shortage_of
from planner.replay.pipelines import resources_of
from planner.replay.replay import Replay
from planner.replay.spares import of_each_type
from planner.replay.trial import Trial, evidence, mean_of_known
from simulator.grouping import grouped
from simulator.world.pipelines import ENCODE
from simulator.world.profile import DISK_BYTES_PER_S, PAGEABLE_SHARE, Evidence, Profile, WeightSource
from simulator.world.workload import Workload

RAN_HERE = (Evidence.MEASURED, Evidence.ELSEWHERE, Evidence.FITTED)
"""Evidence of times that somebody took of the very samples."""
IN_PYTORCH = ("pytorch", "torch-compile", "cuda-graphs")
DECIDING_SHARE = 0.1
"""Least share of draws that keep every SLO with which a measurement may speak for a fleet: below it, only a speed past
the good end of an 80 % band would do."""
ACCEPTED_SHARE = 0.5
"""Least share of draws that keep every SLO with which a lower `confidence` is a remedy, and speeds as they stand are:
below it the fleet more likely fails than not."""
OUTAGES_MIN = 20
"""Outages in all replications below which unavailability is a guess: of 20 the standard error is 22 %."""


def assumptions(scenario: Scenario, trial: Trial, of_catalog: Sequence[Statement]) -> tuple[Statement, ...]:
    """What the answer assumes, each once; `of_catalog` are those about GPUs."""
    statements = (
        *_of_precisions(trial),
        *_of_inputs(scenario, trial),
        *_of_profiles(trial),
        *_of_processors(trial),
        *_of_context(scenario, trial),
        *_of_power(trial, of_catalog),
        *_of_placement(scenario, trial),
        *_of_spares(scenario, trial),
        *_of_stations(trial),
    )
    return tuple(dict.fromkeys(statements))


def _of_precisions(trial: Trial) -> Iterator[Statement]:
    """In what PyTorch computes at each precision, and the GPUs that have TF32.

    Of models without convolutions fp32 is what PyTorch computes in as it comes, and nothing is to be said.
    """
    gpus: dict[str, dict[str, bool]] = {}
    for placed in trial.packing.placed:
        profile = placed.portion.sized.profile
        kinds = [device.kind.gpu for device in placed.devices if not device.kind.gpu.is_processor]
        if kinds and worth_saying(profile):
            gpus.setdefault(profile.precision, {}).update({gpu.name: gpu.has_tf32 for gpu in kinds})
    for precision, on in gpus.items():
        yield Statement(code=Code.COMPUTES_IN, subjects=(precision, *sorted(gpu for gpu in on if on[gpu])))


def worth_saying(profile: Profile) -> bool:
    """Whether one may wonder in what PyTorch computes it."""
    return profile.runtime in IN_PYTORCH and not (profile.precision == "fp32" and only_products(profile))


def only_products(profile: Profile) -> bool:
    """True of a model none of whose layers convolves: as they are known, else as its name has it."""
    if has_layers(profile.model):
        return facts(profile.model).products_share == 1
    return products_share(architecture(profile.model), None) == 1


def _of_inputs(scenario: Scenario, trial: Trial) -> Iterator[Statement]:
    """How many tokens one sample of a model has, where neither the scenario nor whoever measured it says so."""
    specs = {spec.name: spec for spec in scenario.with_stages.models}
    models: dict[int, dict[str, None]] = {}
    for placed in trial.packing.placed:
        sized = placed.portion.sized
        spec = specs.get(sized.model)
        if spec is None or spec.input or sized.profile.latency_evidence in RAN_HERE:
            continue
        if count := tokens(identity(spec.known_as if spec.profile else spec.made_by or spec.known_as)[1]):
            models.setdefault(count, {})[sized.model] = None
    for count, names in models.items():
        yield Statement(code=Code.USUAL_TOKENS, subjects=tuple(names), figures={"tokens": count})


def _of_profiles(trial: Trial) -> Iterator[Statement]:
    """Each assumption of a profile once, after all profiles that it concerns."""
    names_by_text: dict[str, list[str]] = {}
    for name, placed in _profiles(trial).items():
        for text in placed.portion.sized.profile.assumptions:
            names_by_text.setdefault(text, []).append(name)
    for text, names in names_by_text.items():
        yield Statement(code=Code.OF_PROFILES, subjects=tuple(names), text=text)


def _of_processors(trial: Trial) -> Iterator[Statement]:
    """How a machine without a GPU is used."""
    for gpu in {device.kind.gpu.name: device.kind.gpu for device in trial.devices}.values():
        if gpu.cores:
            yield Statement(code=Code.PROCESSOR, subjects=(gpu.name,), figures={"cores": gpu.cores})


def _of_context(scenario: Scenario, trial: Trial) -> Iterator[Statement]:
    """Memory of a process, where it was not measured with each of its models."""
    sized = [placed.portion.sized for placed in _profiles(trial).values()]
    if scenario.context is not None or any(one.profile.context_bytes is None for one in sized):
        held = max(context_of(one.profile, scenario.context) for one in sized)  # without what streams of video hold
        yield Statement(code=Code.CONTEXT, figures={"context_bytes": held})


def _of_power(trial: Trial, of_catalog: Sequence[Statement]) -> Iterator[Statement]:
    """Power that nobody states: while a batch runs, and of the kinds of GPU in use while they idle."""
    unmetered = tuple(name for name, p in _profiles(trial).items() if p.portion.sized.profile.busy_w is None)
    if unmetered:
        yield Statement(code=Code.POWER_BY_PACE, subjects=unmetered)
    kinds = {device.kind.gpu.name for device in trial.devices}
    for one in of_catalog:
        used = tuple(kind for kind in one.subjects if kind in kinds)
        if used:
            yield replace(one, subjects=used)


def _of_placement(scenario: Scenario, trial: Trial) -> Iterator[Statement]:
    """What holds for models that are cut or swapped."""
    placed = trial.packing.placed
    if any(len(p.devices) > 1 for p in placed):
        yield Statement(code=Code.STAGES_BY_WEIGHTS)
    if not any(p.swapped for p in placed):
        return
    yield Statement(code=Code.SHARED_LINK)
    yield from _of_loads(scenario.swap.policy.source, trial)


def _of_spares(scenario: Scenario, trial: Trial) -> Iterator[Statement]:
    """How machines are replaced that may be away: by a spare of their type, or by placing the models anew."""
    if scenario.survive:
        alike = trial.spares == of_each_type(trial.fleet, scenario.survive)
        code = Code.SPARES if alike else Code.PLACED_ANEW
        yield Statement(code=code, figures={"survive": scenario.survive})


def _of_stations(trial: Trial) -> Iterator[Statement]:
    """What holds for pipelines besides their models."""
    stages = [stage for pipeline in pipelines_in(trial.replay.needs) for stage in pipeline.stages]
    yield from _of_due_frames(trial)
    if any(stage.host for stage in stages):
        yield from _of_cores(trial)
    for stage in stages:
        yield from _of_streams(stage)
        if stage.measured and stage.host:
            yield Statement(code=Code.HOST_MEASURED, subjects=(stage.name,), figures={"time_s": stage.host})
    yield from _of_engines(trial, stages)


def _of_streams(stage: StageSpec) -> Iterator[Statement]:
    """The memory that a stream holds where nobody states it."""
    if stage.coding and stage.memory is None:
        work = "encoding" if stage.encode else "decoding"
        yield Statement(code=Code.STREAM_MEMORY, subjects=(work,), figures=assumed_bytes(stage.coding))


def assumed_bytes(coding: Coding) -> dict[str, float]:
    """What each of its streams is taken to hold."""
    return {"stream_bytes": float(stream_bytes(coding))}


def _fullest_of_streams(trial: Trial) -> Iterator[PlanWarning]:
    """The memory that streams of video hold, where it runs out first and nobody states it."""
    fullest = max(resources_of(trial), key=lambda one: one.used, default=None)
    if fullest is not None and fullest.kind is Bottleneck.MEMORY:
        yield from streams_of_assumed_size(trial.replay.needs)


def streams_of_assumed_size(needs: Mapping[str, Need]) -> Iterator[PlanWarning]:
    """The memory that streams of video hold where nobody states it, which decided."""
    for pipeline in pipelines_in(needs):
        for stage in pipeline.stages:
            if stage.coding and stage.memory is None:
                names, held = (f"{pipeline.name}.{stage.name}",), assumed_bytes(stage.coding)
                yield PlanWarning(what=Statement(code=Code.STREAM_MEMORY_BINDS, subjects=names, figures=held))


def _of_due_frames(trial: Trial) -> Iterator[Statement]:
    """Pipelines of which some frames end on the way, so that no SLO counts them."""
    for pipeline in pipelines_in(trial.replay.needs):
        due = mean_of_known([one.due_fraction for one in trial.replay.of(pipeline.name)])
        if due < 1:
            yield Statement(code=Code.DUE_FRAMES, subjects=(pipeline.name,), figures={"due_fraction": due})


def _of_cores(trial: Trial) -> Iterator[Statement]:
    """Cores of machines: virtual ones count whole, and where nobody states them they are assumed."""
    rented = tuple(offer.instance for offer in trial.bought if offer.host_cores and offer.provider != OWN)
    if rented:
        yield Statement(code=Code.VCPUS, subjects=rented)
    for offer in trial.bought:
        if offer.host_cores is None:
            yield Statement(code=Code.CORES, subjects=(offer.instance,), figures={"cores": CORES_ASSUMED})


def _of_engines(trial: Trial, stages: Sequence[StageSpec]) -> Iterator[Statement]:
    """Rates of engines that nobody states: of encoding all, for they hang on a preset, of decoding those that nobody
    published of just this GPU or resolution."""
    codings = [stage.coding for stage in stages if stage.coding and stage.engine_rate is None]
    for kind in sorted(trial.kinds, key=lambda kind: kind.gpu.name):
        for coding in codings:
            rate = engine_rate(kind.gpu, coding)
            if rate:
                yield from _of_rate(coding.kind, rate)


def _of_rate(kind: str, rate: EngineRate) -> Iterator[Statement]:
    figures = {"fps": rate.fps_per_engine}
    if kind == ENCODE and rate.engines:
        yield Statement(code=Code.ENCODE_RATE, subjects=(rate.gpu, rate.evidence, rate.preset), figures=figures)
    elif rate.evidence in (Evidence.ASSUMED, Evidence.EXTRAPOLATED):
        yield Statement(code=Code.DECODE_RATE, subjects=(rate.gpu, rate.evidence), figures=figures)


def _of_loads(source: WeightSource, trial: Trial) -> Iterator[Statement]:
    """What holds for weights that come and go."""
    profiles = [p.portion.sized.profile for p in trial.packing.placed]
    if source is WeightSource.PAGEABLE and None in [profile.pageable_bytes_per_s for profile in profiles]:
        yield Statement(code=Code.PAGEABLE_RATE, figures={"share": PAGEABLE_SHARE})
    if source is not WeightSource.DISK:
        if None in [device.host_memory_bytes for device in trial.devices]:
            yield Statement(code=Code.HOST_MEMORY)
    elif None in [profile.disk_bytes_per_s for profile in profiles]:
        yield Statement(code=Code.DISK_RATE, figures={"bytes_per_s": DISK_BYTES_PER_S})


def warnings_of(scenario: Scenario, workload: Workload, trial: Trial, today: date) -> tuple[PlanWarning, ...]:
    """What weakens the answer, and what to do about it."""
    return (
        *_taken_for(scenario),
        *on_edge(trial.replay),
        *_of_all(trial.replay),
        *_spares_uncounted(scenario),
        *_doubts(trial),
        *_prices(scenario, trial, today),
        *_predicted(scenario, trial),
        *_published(scenario, trial),
        *_batch_ranges(scenario, trial),
        *_fullest_of_streams(trial),
        *_evidence(scenario, trial),
        *_left_out(scenario, trial),
        *_host_work(scenario, trial),
        *_network(trial),
        *(PlanWarning(what=one) for one in of_precisions([p.portion.sized for p in trial.packing.placed])),
        *_windows(workload, trial.replay),
        *_outages(scenario, trial),
        *_unproven(trial),
    )


def _taken_for(scenario: Scenario) -> Iterator[PlanWarning]:
    """Names that begin like those of many networks, of which published tables mean one."""
    for model in scenario.models:
        if meant := taken_for(model.known_as):
            yield PlanWarning(what=Statement(code=Code.TAKEN_FOR, subjects=(model.name, meant)))


def _doubts(trial: Trial) -> Iterator[PlanWarning]:
    """What speaks against a profile, once of all models that have it."""
    profiles = [(name, placed.portion.sized.profile) for name, placed in _profiles(trial).items()]
    alike = grouped(((one.model, one.gpu, doubt), name) for name, one in profiles for doubt in one.doubts)
    for (_, _, doubt), names in alike.items():
        yield PlanWarning(what=Statement(code=Code.DOUBT, subjects=tuple(names), text=doubt))


def _prices(scenario: Scenario, trial: Trial, today: date) -> Iterator[PlanWarning]:
    """Old prices, and machines that may be taken away."""
    for offer in trial.bought:
        if old := stale_price([offer.instance], offer.provider, offer.as_of, today):
            yield PlanWarning(what=old)
    retired = [offer.instance for offer in trial.bought if offer.status is SaleStatus.RETIRED]
    if retired:
        yield retired_machines(retired)
    spot = [offer.instance for offer in trial.bought if offer.price_kind is PriceKind.SPOT]
    if spot and scenario.failures is None:
        yield spot_machines(spot)


def _predicted(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Pairs that nobody measured, or not as they run."""
    sized = {name: placed.portion.sized for name, placed in _profiles(trial).items()}
    predicted = {f"{name}{_otherwise(one.profile)}": one for name, one in sized.items() if one.profile.predicted}
    yield from _unmeasured(Code.PREDICTED, predicted, scenario)


DRAWN_OR_TAKEN = {
    (Evidence.PUBLISHED, True): Code.AS_PUBLISHED,
    (Evidence.PUBLISHED, False): Code.TAKEN_AS_PUBLISHED,
    (Evidence.ASSUMED, True): Code.ASSUMED_SPEEDS,
}
"""By evidence of speeds, and whether these are drawn."""


def _published(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Times that others published or that are assumed, drawn or taken as they stand."""
    sized = {name: placed.portion.sized for name, placed in _profiles(trial).items()}
    for known, code in DRAWN_OR_TAKEN.items():
        those = {name: one for name, one in sized.items() if _speed(one.profile) == known}
        yield from _unmeasured(code, those, scenario, error=round(expm1(SPREAD_80 * OWN_SOFTWARE_SD), 2))


def _speed(profile: Profile) -> tuple[Evidence, bool]:
    """Its evidence, and whether it is drawn."""
    return profile.speed_evidence, profile.doubt is not None


def _unmeasured(
    code: Code, by_name: Mapping[str, Sized], scenario: Scenario, **figures: float
) -> Iterator[PlanWarning]:
    """That something of models was not measured as they run; and how it is, where `planner calibrate` does not run
    them."""
    if not by_name:
        return
    specs = {spec.name: spec for spec in scenario.models}
    how = measuring([(specs[one.model], one.profile.runtime) for one in by_name.values()], "")
    elsewhere = tuple(one for one in how if one.code is Code.MEASURE_ELSEWHERE)
    yield PlanWarning(what=Statement(code=code, subjects=tuple(by_name), figures=figures), remedies=elsewhere)


def _otherwise(profile: Profile) -> str:
    """` in pytorch at fp32`, where somebody published how the model runs on the GPU otherwise."""
    known = next(points(architecture(profile.model), profile.gpu), None)
    return f" in {profile.runtime} at {profile.precision}" if known else ""


def _batch_ranges(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """GPUs short of compute only because nobody measured or predicted larger batches."""
    if len(trial.devices) == 1:
        return
    placed = trial.packing.placed
    held = [p.portion.sized for p in placed if shortage_of(p, placed).bottleneck is Bottleneck.BATCH_RANGE]
    for code, predicted in ((Code.BATCHES_END, False), (Code.PREDICTED_BATCHES_END, True)):
        of_code = (one for one in held if one.profile.predicted is predicted)
        yield from _unmeasured(code, {_on_gpu(one): one for one in of_code}, scenario)


def _evidence(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Profiles that rest on assumptions, but for speeds of which `_published` warns, or on layers for their memory."""
    assumed: dict[str, Sized] = {}
    by_layers: dict[str, Sized] = {}
    for name, placed in _profiles(trial).items():
        sized = placed.portion.sized
        said = _speed(sized.profile) in DRAWN_OR_TAKEN
        kept = replace(sized.profile, latency_evidence=Evidence.MEASURED) if said else sized.profile
        if not sized.profile.predicted and evidence(kept, placed.swapped) is Evidence.ASSUMED:
            assumed[name] = sized
        elif not sized.profile.predicted and sized.profile.memory_evidence is Evidence.PREDICTED:
            by_layers[name] = sized
    yield from _unmeasured(Code.PARTLY_ASSUMED, assumed, scenario)
    yield from _unmeasured(Code.MEMORY_PREDICTED, by_layers, scenario, error=TRACED_ERROR)


def _left_out(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Runtimes that do not run a model which may run in others; that in which it was measured runs it."""
    placed = (one.portion.sized for one in trial.packing.placed)
    runs = {(one.model, one.profile.runtime) for one in placed}
    unserved: dict[str, list[str]] = {}
    for model in scenario.models:
        network = architecture(model.made_by or model.known_as)
        for one in model.runtimes:
            if (model.name, one) not in runs and runtimes.runtime(one).unserved_network(network):
                unserved.setdefault(one, []).append(model.name)
    for one, models in unserved.items():
        yield PlanWarning(what=Statement(code=Code.RUNTIME_LEFT_OUT, subjects=(*models, one)))


def _host_work(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Work of processors before and after models, where no pipeline states any."""
    if any(stage.host or stage.coding for pipeline in scenario.pipelines for stage in pipeline.stages):
        return
    known = {offer: offer.host_cores for offer in trial.bought if offer.host_cores}
    least = min(known, key=lambda offer: known[offer] / offer.gpu_count, default=None)
    named = (least.instance, "cores" if least.provider == OWN else "vCPUs") if least else ("", "")
    figures = {"cores": float(known[least])} if least else {}
    yield PlanWarning(what=Statement(code=Code.HOST_WORK, subjects=named, figures=figures))


def _network(trial: Trial) -> Iterator[PlanWarning]:
    """What goes from machine to machine: frames that one decodes and another sees are the most of it."""
    pipelines = pipelines_in(trial.replay.needs)
    if len({device.host for device in trial.devices}) < 2 or not pipelines:
        return
    most = sum(
        trial.replay.needs[pipeline.name].rate_rps * frame_bytes(coding.width, coding.height, coding.codec)
        for pipeline in pipelines
        for stage in pipeline.stages
        if stage.decode and (coding := stage.coding)
    )
    yield PlanWarning(what=Statement(code=Code.NETWORK, figures={"bytes_per_s": most} if most else {}))


def of_precisions(placed: Sequence[Sized]) -> Iterator[Statement]:
    """What models lose in accuracy at the precisions that they run at: as published, or that nobody says."""
    runs = {(one.model, one.profile.model, one.profile.precision, one.profile.runtime): None for one in placed}
    unknown: dict[str, list[str]] = {}
    for name, model, precision, runtime in runs:
        if precision in EXACT:
            continue
        if (found := accuracy(model, precision, runtime)) is None:
            unknown.setdefault(precision, []).append(name)
            continue
        source = f"{found.source}, {found.as_of}"
        yield Statement(
            code=Code.ACCURACY_LOST,
            subjects=(name, precision, found.metric, found.method, source),
            figures={"value": found.value, "reference": found.reference},
        )
    for precision, names in unknown.items():
        yield Statement(code=Code.ACCURACY_UNKNOWN, subjects=(*dict.fromkeys(names), precision))


def _windows(workload: Workload, seen: Replay) -> Iterator[PlanWarning]:
    """Recordings of which no replication replays all."""
    window_s, recording_s = seen.stretch.horizon_s, workload.longest_recording_s
    if recording_s > window_s:
        figures = {"windows": len(seen.summaries), "window_s": window_s, "recording_s": recording_s}
        yield PlanWarning(what=Statement(code=Code.WINDOWS, figures=figures))


def _outages(scenario: Scenario, trial: Trial) -> Iterator[PlanWarning]:
    """Disturbances too rare for the replayed time, where they do not count by their mean. A host that starts away has
    an outage more."""
    if scenario.failures is None or trial.replay.in_time_up:
        return
    every_s = scenario.failures.mean_time_between + scenario.failures.recovery
    host_runs = len({device.host for one in trial.packing.placed for device in one.devices}) * trial.replay.replayed
    at_first = host_runs * scenario.failures.recovery / every_s
    expected = at_first + host_runs * trial.replay.stretch.horizon_s / every_s
    if expected >= OUTAGES_MIN:
        return
    longer_s = (OUTAGES_MIN - at_first) * every_s / host_runs
    figures = {"outages": expected, "horizon_s": longer_s, "enough": OUTAGES_MIN}
    requests = longer_s * trial.replay.looks[0] * sum(need.rate_rps for need in trial.replay.needs.values())
    code = Code.FEW_OUTAGES if requests <= REQUESTS_MAX else Code.RARE_OUTAGES
    yield PlanWarning(what=Statement(code=code, figures=figures))


def _spares_uncounted(scenario: Scenario) -> Iterator[PlanWarning]:
    """That machines are away for all of their recovery, whatever spares do."""
    if scenario.failures and scenario.survive:
        yield PlanWarning(what=Statement(code=Code.SPARES_UNCOUNTED))


def _unproven(trial: Trial) -> Iterator[PlanWarning]:
    """SLOs that are met on the mean, with too few requests to prove them."""
    seen = trial.replay
    for model, kept in seen.kept.items():
        if kept is None and not seen.falls_short(model):
            of_draws = "draws of the phases" if seen.draws and seen.draws.surely else "draws of speeds"
            few = of_draws if seen.draws and model not in seen.rare else f"requests of {model}"
            what = Statement(code=Code.UNPROVEN, subjects=(few, model))
            yield PlanWarning(what=what, remedies=remedies_unproven(trial, model))


def on_edge(seen: Replay) -> Iterator[PlanWarning]:
    """Draws of speeds, as many as there are at most, that meet every SLO about as often as is asked."""
    together, asked = seen.all_kept, seen.draws
    if not together or not asked or asked.surely:
        return
    count = seen.wide.draws if seen.wide else len(seen.summaries)
    if count >= seen.looks[-1] > 1 and together.low < asked.share < together.high:
        figures = {"draws": count, "kept": together.mean, "asked": asked.share}
        yield PlanWarning(what=Statement(code=Code.ON_EDGE, figures=figures))


def _of_all(seen: Replay) -> Iterator[PlanWarning]:
    """SLOs of 100 %, which no finite number of random requests proves."""
    of_all = tuple(model for model, kept in seen.kept.items() if kept and seen.needs[model].slo.attainment >= 1)
    if of_all and seen.noisy and not seen.draws:
        yield PlanWarning(what=Statement(code=Code.SLO_OF_ALL, subjects=of_all))


def surer(packing: Packing) -> tuple[Statement, ...]:
    """What helps where uncertain speeds alone leave a fleet in doubt."""
    return Statement(code=Code.MEASURING_DECIDES), *eased(p.portion.sized.profile for p in packing.placed)


def surer_in_draws(trial: Trial) -> tuple[Statement, ...]:
    """Of these what helps a fleet that misses SLOs in so many draws of speeds; nothing where nearly all draws do."""
    seen = trial.replay
    if seen.kept_share < DECIDING_SHARE:
        return ()
    decides, *ways = surer(trial.packing)
    asks_little = seen.draws is not None and seen.draws.share <= ACCEPTED_SHARE
    return decides, *(ways if asks_little or seen.kept_share >= ACCEPTED_SHARE else ())


def remedies_unproven(trial: Trial, model: str) -> tuple[Statement, ...]:
    """More replications, a longer horizon, or a lower SLO; draws of speeds are as many as they may be."""
    seen = trial.replay
    if model in seen.rare:
        return (Statement(code=Code.ANY_LONGER_HORIZON),)
    if seen.draws and not seen.draws.surely:
        return surer_in_draws(trial) or surer(trial.packing)
    if seen.draws:
        return (Statement(code=Code.MORE_REPLICATIONS, figures={"replications": 2 * seen.replayed}),)
    remedies: list[Statement] = []
    if (longer_s := seen.horizon_to_prove_s(model)) is not None:
        remedies.append(Statement(code=Code.LONGER_HORIZON, figures={"horizon_s": longer_s}))
    low = seen.attainment[model].low
    if floor(low * 1000) > 0:
        remedies.append(Statement(code=Code.LOWER_SLO, subjects=(model,), figures={"attainment": low}))
    return tuple(remedies) or (Statement(code=Code.ANY_LONGER_HORIZON),)


def _profiles(trial: Trial) -> dict[str, Placed]:
    """A replica of each model on each kind of GPU, by `doors on V100`."""
    return {_on_gpu(placed.portion.sized): placed for placed in trial.packing.placed}


def _on_gpu(one: Sized) -> str:
    """`doors on V100`: the name that the scenario has for it, and tables."""
    return f"{one.model} on {one.profile.gpu}"
