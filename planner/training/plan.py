"""The answer to a training scenario: options with time, memory, money and what holds each; cheapest and fastest."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from calibrate.library import Library
from planner.catalog import Catalog, Offer, Purchase, offers
from planner.layout import ranges
from planner.load import ScenarioError
from planner.plans import Rejection
from planner.scenario import PriceKind
from planner.training.closed_forms import (
    RUN_OVER_STEPS,
    Link,
    Range,
    all_reduce_s,
    epoch_law,
    exactly,
    exposed_s,
    loader_s,
    pipeline_s,
    rescaled_step_s,
    with_interruptions_s,
    workers_enough,
)
from planner.training.cost import JOULES_PER_KWH, Ownership, co2_kg, rent_usd
from planner.training.memory import (
    ACTIVATION_BYTES,
    STATE_BYTES,
    WEIGHT_BYTES,
    Memory,
    Split,
    gpus_needed,
    largest_batch,
    memory,
    states,
    vision_activation_bytes,
)
from planner.training.scenario import LoadedTraining, SpeedSpec, TrainingScenario, batch_of
from planner.training.speed import MEASURED_OPTIMIZER, Limit, Speed, Subject, launches_s, speed, subject
from simulator.hardware import GPU
from simulator.profile import Evidence

SCHEMA = "planner.training/v1"
INSIDE_LATENCY_S = 5e-6
"""Of one message between GPUs of one machine: NCCL's rings take 4 to 8 us a hop."""
PURCHASE = "purchase"
OPTIMIZER_PASSES = 3
"""Times that weights, gradients and states are read or written in an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Machines that can be had: rented, one's own, or bought."""

    instance: str
    gpu: GPU
    gpus_each: int
    usd_per_hour: Range
    price_kind: str
    memory_bytes: int
    count_max: int | None = None
    as_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to train: its time, memory and money at the ends and the middle of what is foretold."""

    gpu: str
    gpu_count: int
    instance: str
    machines: int
    price_kind: str
    global_batch: int
    micro_batch: float
    """Samples of one pass on one copy of the model."""
    parallel: str
    """How the GPUs share the work, in words."""
    fits: bool
    memory_bytes: int
    """On the fullest GPU, at the middle."""
    memory: Mapping[str, float]
    """By kind."""
    memory_range_bytes: Range
    memory_limit_bytes: int
    largest_batch: int
    """Most samples of one pass that fit on one GPU or pipeline, at the middle; 0: none."""
    gpus_needed: int
    """Fewest GPUs that could hold weights, gradients and optimizer states divided among them."""
    steps: float
    step_s: float
    time_s: Range
    cost_usd: Range
    energy_j: float
    co2_kg: float | None
    bottleneck: Limit
    workers_enough: int | None
    """Loader workers for each GPU that end a loader's hold; None where nothing is known of the loader."""
    staleness: int
    """Updates by others before a gradient arrives; 0 where all step together."""
    evidence: Evidence
    source: str
    """Where the speed comes from."""
    within_deadline: bool
    """Even at the late end."""
    within_budget: bool
    """Even at the dear end."""
    pareto: bool = False
    """Whether no option that fits is both faster and cheaper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The answer."""

    schema: str = SCHEMA
    name: str
    options: tuple[Option, ...]
    cheapest: Option | None
    """Within the deadline and the budget, at the bad ends."""
    fastest: Option | None
    """Within the budget and the deadline, at the bad ends."""
    warnings: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    prices_as_of: str = ""
    """ISO date of the oldest price; empty where all machines are one's own."""
    deadline_s: float | None = None
    budget_usd: float | None = None


def train(loaded: LoadedTraining, catalog: Catalog, library: Library) -> TrainingPlan:
    """Every option of a training scenario; ScenarioError or CatalogError where there is none."""
    s = loaded.scenario
    unknown = [x.gpu for x in s.speed if x.gpu not in catalog.gpus]
    if unknown:
        raise ScenarioError([f"{loaded.path}: speed: `{unknown[0]}` is not a kind of GPU in the catalog."])
    what = subject(s)
    found, refused = sources(s, catalog)
    made = [option(s, what, source, count, library) for source in found for count in counts(s, source)]
    known = sorted((o for o in made if o), key=lambda o: (o.cost_usd.mid, o.time_s.mid))
    if not known:
        tried = ", ".join(map(str, s.gpu_counts[:12]))
        hint = "Name other `counts`, `buy.gpus`, or another precision."
        wrong = f"no machine on offer makes up {tried} GPUs at {s.train.precision}"
        raise ScenarioError([f"{loaded.path}: {wrong}. {hint}"])
    options = tuple(replace(o, pareto=is_pareto(o, known)) for o in known)
    allowed = [o for o in options if o.fits and o.within_deadline and o.within_budget]
    return TrainingPlan(
        name=s.name or what.name,
        options=options,
        cheapest=min(allowed, key=lambda o: (o.cost_usd.mid, o.time_s.mid), default=None),
        fastest=min(allowed, key=lambda o: (o.time_s.mid, o.cost_usd.mid), default=None),
        warnings=(*loaded.warnings, *left_out(s, found, {(o.gpu, o.gpu_count) for o in known})),
        rejections=tuple(refused),
        prices_as_of=min((source.as_of for source in found if source.as_of), default=""),
        deadline_s=s.deadline,
        budget_usd=s.budget,
    )


def left_out(s: TrainingScenario, found: Sequence[Source], known: set[tuple[str, int]]) -> Iterator[str]:
    """What was asked for and is no option, and why."""
    if uneven := [count for count in s.gpu_counts if batch_of(s, count) is None]:
        yield f"Left out: {ranges(uneven)} GPUs, which do not divide a batch of {s.train.global_batch}."
    kinds = {source.gpu.name for source in found if any(batch_of(s, n) for n in counts(s, source))}
    if unable := sorted(kinds - {gpu for gpu, _ in known}):
        yield f"Left out: {', '.join(unable)}, which cannot compute in {s.train.precision}."


def is_pareto(o: Option, others: Sequence[Option]) -> bool:
    """Whether none that fits is faster at no higher cost, or cheaper in no longer time."""
    at = (o.time_s.mid, o.cost_usd.mid)
    return o.fits and not any(
        x.fits and x.time_s.mid <= at[0] and x.cost_usd.mid <= at[1] and (x.time_s.mid, x.cost_usd.mid) != at
        for x in others
    )


# What can be had


def sources(s: TrainingScenario, catalog: Catalog) -> tuple[list[Source], list[Rejection]]:
    """Machines at all kinds of price asked for, and what was refused at each of them."""
    found: list[Source] = []
    refused: list[Rejection] = []
    for i, kind in enumerate(s.price_kinds):
        at_price, no = offers(catalog, replace(s.buy, price=kind))
        rented = [o for o in at_price if o.price_kind or i == 0]
        found += [_rented(o) for o in rented]
        refused += no
    if own := s.purchase:
        terms = Ownership(
            years=own.years,
            interest=own.interest,
            used=own.used,
            usd_per_kwh=own.electricity,
            overhead=own.overhead,
        )
        wanted = [p for p in catalog.purchases if not s.buy.gpus or p.gpu in s.buy.gpus]
        found += [_bought(p, catalog.gpus[p.gpu], terms) for p in wanted]
    return found, refused


def _rented(offer: Offer) -> Source:
    low, high = offer.spot_range or (offer.usd_per_hour, offer.usd_per_hour)
    return Source(
        instance=offer.instance,
        gpu=offer.gpu,
        gpus_each=offer.gpu_count,
        usd_per_hour=Range(low=low, mid=offer.usd_per_hour, high=high),
        price_kind=str(offer.price_kind or "own"),
        memory_bytes=offer.memory_bytes,
        count_max=offer.count_max,
        as_of=offer.as_of,
    )


def _bought(machine: Purchase, gpu: GPU, terms: Ownership) -> Source:
    usd = terms.usd_per_hour(machine.usd, machine.gpu_count * gpu.tdp_w)
    return Source(
        instance=machine.machine,
        gpu=gpu,
        gpus_each=machine.gpu_count,
        usd_per_hour=exactly(usd),
        price_kind=PURCHASE,
        memory_bytes=gpu.memory_bytes,
        as_of=machine.as_of,
    )


def counts(s: TrainingScenario, source: Source) -> Iterator[int]:
    """Numbers of GPUs that whole machines make up."""
    for count in s.gpu_counts:
        machines, rest = divmod(count, source.gpus_each)
        if not rest and count <= s.buy.max_gpus and machines <= (source.count_max or math.inf):
            yield count


# One option


def option(s: TrainingScenario, what: Subject, source: Source, count: int, library: Library) -> Option | None:
    """One way to train; None where the batch is not divided by it, or the GPU lacks the precision."""
    micro = batch_of(s, count)
    if micro is None:
        return None
    split = split_of(s, count)
    per_step = round(micro * split.data * s.train.accumulation)
    found = speed(s, what, source.gpu, micro, library)
    if found is None:
        return None
    each = activations(s, what, split, source.gpu, library)
    held = memory_of(s, what, micro, split, each)
    job = Job(s=s, what=what, source=source, count=count, split=split, micro=micro, per_step=per_step, speed=found)
    step, limit, kind, said = job.step()
    time_s = job.time(step, said == RUN)
    machines = count // source.gpus_each
    cost = Range(
        low=rent_usd(time_s.low, source.usd_per_hour.low, machines),
        mid=rent_usd(time_s.mid, source.usd_per_hour.mid, machines),
        high=rent_usd(time_s.high, source.usd_per_hour.high, machines),
    )
    fits = held.total.mid <= source.memory_bytes
    energy_j = count * power_w(s, what, source.gpu, library) * time_s.mid
    return Option(
        gpu=source.gpu.name,
        gpu_count=count,
        instance=source.instance,
        machines=machines,
        price_kind=source.price_kind,
        global_batch=per_step,
        micro_batch=micro,
        parallel=in_words(split, s),
        fits=fits,
        memory_bytes=round(held.total.mid),
        memory=held.kinds(),
        memory_range_bytes=held.total,
        memory_limit_bytes=source.memory_bytes,
        largest_batch=largest(s, what, source, split, each),
        gpus_needed=gpus_needed(what.params, s.train.precision, s.train.optimizer, source.memory_bytes, s.context),
        steps=job.steps().mid,
        step_s=step.mid,
        time_s=time_s,
        cost_usd=cost,
        energy_j=energy_j,
        co2_kg=None if s.grid is None else co2_kg(energy_j, s.grid),
        bottleneck=limit if fits else Limit.MEMORY,
        workers_enough=job.workers_enough(),
        staleness=0 if s.parallel.synchronous else split.data - 1,
        evidence=kind,
        source=said if said != RUN else "a run of this training that the scenario states",
        within_deadline=s.deadline is None or time_s.high <= s.deadline,
        within_budget=s.budget is None or cost.high <= s.budget,
    )


RUN = "run"


def power_w(s: TrainingScenario, what: Subject, gpu: GPU, library: Library) -> float:
    """Of one GPU at work: as a profile measured it, else its power limit."""
    profile = library.get(what.profile, gpu.name, s.train.precision) if what.profile else None
    return profile.busy_w if profile and profile.busy_w else gpu.tdp_w


def split_of(s: TrainingScenario, count: int) -> Split:
    """How so many GPUs share the work; whole models where the parts asked for do not come out even."""
    p = s.parallel
    if count % (p.tensor * p.pipeline):
        return Split(data=count, zero=p.zero)
    data = count // (p.tensor * p.pipeline)
    return Split(data=data, tensor=p.tensor, pipeline=p.pipeline, zero=p.zero, sequence_parallel=p.sequence_parallel)


def in_words(split: Split, s: TrainingScenario) -> str:
    """`data 8, tensor 8, pipeline 16`."""
    parts = {"data": split.data, "tensor": split.tensor, "pipeline": split.pipeline}
    words = [f"{name} {n}" for name, n in parts.items() if n > 1]
    if split.zero:
        words.append(f"ZeRO-{split.zero}")
    if not s.parallel.synchronous:
        words.append("asynchronous")
    return ", ".join(words) or "one GPU"


# Memory


def activations(s: TrainingScenario, what: Subject, split: Split, gpu: GPU, library: Library) -> Range:
    """Bytes that one sample keeps on one GPU between the passes: the measured slope, else from layers or shape."""
    if (slope := measured_activations(s, what, gpu, library)) is not None:
        return exactly(slope / split.parts)
    if what.shape:
        size = ACTIVATION_BYTES[s.train.precision] / 2
        return exactly(what.shape.activation_bytes(1, split, s.train.recompute) * size)
    assert what.facts
    return vision_activation_bytes(what.facts, s.train.precision, s.train.recompute) * (1 / split.parts)


def measured_activations(s: TrainingScenario, what: Subject, gpu: GPU, library: Library) -> float | None:
    """Of one more sample, between the smallest and the largest batch of a profile; None where that was not measured."""
    changed = s.model.pixels or s.model.channels or s.train.recompute != "none"
    profile = library.get(what.profile, gpu.name, s.train.precision) if what.profile and not changed else None
    if profile is None:
        return None
    optimizer = MEASURED_OPTIMIZER.get(s.train.optimizer)
    points = library.measured(profile).get("points", {}).get(f"memory.{optimizer}", {})
    held = {int(batch): p.get("values", {}).get("activations_bytes") for batch, p in points.items()}
    known = sorted((batch, size) for batch, size in held.items() if size)
    if len(known) < 2:
        return None
    (least, few), (most, many) = known[0], known[-1]
    return max(0.0, float(many - few)) / (most - least) or None


def memory_of(s: TrainingScenario, what: Subject, micro: float, split: Split, each: Range) -> Memory:
    """A step's peak on one GPU."""
    fixed = states(what.params, s.train.precision, s.train.optimizer, split, what.buffer_bytes)
    return memory(fixed, each * micro, s.context)


def largest(s: TrainingScenario, what: Subject, source: Source, split: Split, each: Range) -> int:
    """Most samples of one pass that fit."""
    fixed = states(what.params, s.train.precision, s.train.optimizer, split, what.buffer_bytes)
    return largest_batch(fixed, each, s.context, source.memory_bytes)


# Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One option while its time is worked out."""

    s: TrainingScenario
    what: Subject
    source: Source
    count: int
    split: Split
    micro: float
    per_step: int
    speed: Speed

    def samples(self) -> float:
        """Of one epoch."""
        d = self.s.data
        if d.samples is not None:
            return d.samples * d.used
        assert d.tokens is not None
        assert self.what.shape
        return d.tokens * d.used / self.what.shape.sequence

    def epochs(self) -> Range:
        """To the end, or to the target."""
        t = self.s.train
        found = exactly(t.epochs if t.epochs is not None else 1.0)
        if t.epochs_to_target:
            law = epoch_law([(p.global_batch, p.epochs) for p in t.epochs_to_target])
            found = law.range(self.per_step)
        if self.s.parallel.synchronous:
            return found
        return found * (1 + self.s.parallel.epochs_per_staleness * (self.split.data - 1))

    def steps(self) -> Range:
        """Of all GPUs together; asynchronous: as many updates, `data` of them in the time of one."""
        return self.epochs() * (self.samples() / self.per_step)

    def step(self) -> tuple[Range, Limit, Evidence, str]:
        """A step's time, what holds it, what that is worth, and where it comes from."""
        spec = nearest(self.s.speed, self.source.gpu, self.count)
        if spec:
            return self.stated(spec)
        p = self.s.train.accumulation
        if self.speed.whole:
            step = self.speed.pass_s * (p / self.split.parts)
            return self.fed(step, self.speed.limit, self.speed.evidence, self.speed.source)
        compute = self.speed.pass_s.each(lambda t: pipeline_s(t / self.split.tensor, self.split.pipeline, p))
        compute, ring_s = compute + self.tensor_s(), self.ring_s()
        hidden = self.s.parallel.overlap and self.s.parallel.synchronous
        step = compute.each(lambda t: t + exposed_s(ring_s, t, hidden))
        step = step + (self.update_s() + self.norms_s())
        held = {self.speed.limit: compute.mid, Limit.NETWORK: step.mid - compute.mid}
        return self.fed(step, max(held, key=held.__getitem__), self.speed.evidence, self.speed.source)

    def stated(self, spec: SpeedSpec) -> tuple[Range, Limit, Evidence, str]:
        """From a step or a run that the scenario states, at this number of GPUs or carried to it."""
        batch = spec.global_batch or (self.per_step if spec.gpu_count == self.count else round(
            self.micro * spec.gpu_count * self.s.train.accumulation / self.split.parts))  # fmt: skip
        if spec.run is not None:
            measured_s = spec.run / (self.epochs().mid * self.samples() / batch)
        else:
            measured_s = spec.step if spec.step is not None else batch / (spec.rate or math.inf)
        each, wanted = batch / spec.gpu_count, self.per_step / self.count
        if spec.gpu_count == self.count and each == wanted:
            said = RUN if spec.run is not None else "a step that the scenario states"
            return self.fed(exactly(measured_s), self.speed.limit, Evidence.PUBLISHED, said)
        step = rescaled_step_s(measured_s, each, wanted, launches_s(self.what))
        ring_s = self.ring_s() if self.count > spec.gpu_count else 0.0
        longer = step.each(lambda t: t + exposed_s(ring_s, t, self.s.parallel.overlap))
        held = {Limit.NETWORK: longer.mid - step.mid, Limit.OVERHEAD: min(launches_s(self.what), step.mid)}
        held[self.speed.limit] = step.mid - held[Limit.OVERHEAD]
        said = f"carried from {spec.gpu_count} GPUs that the scenario states"
        return self.fed(longer, max(held, key=held.__getitem__), Evidence.EXTRAPOLATED, said)

    def fed(self, step: Range, limit: Limit, kind: Evidence, said: str) -> tuple[Range, Limit, Evidence, str]:
        """With the loader, where that is slower."""
        ready_s = self.loading_s()
        return step.each(lambda t: max(t, ready_s)), Limit.LOADER if ready_s > step.mid else limit, kind, said

    def loading_s(self) -> float:
        """To have a step's samples ready."""
        d, samples = self.s.data, self.per_step / self.split.data
        machines = self.count // self.source.gpus_each
        copies_each = max(1.0, self.split.data / machines)
        storage = d.storage / d.bytes / copies_each if d.storage and d.bytes else math.inf
        if d.loader is None:
            return samples / storage
        return loader_s(samples, d.loader.workers, d.loader.rate, storage)

    def workers_enough(self) -> int | None:
        """Loader workers for each GPU with which the loader holds nothing up."""
        if (loader := self.s.data.loader) is None:
            return None
        free = replace(self, s=replace(self.s, data=replace(self.s.data, loader=None)))
        return workers_enough(self.per_step / self.split.data, loader.rate, free.step()[0].mid)

    def links(self) -> tuple[int, int, Link, Link]:
        """GPUs in a machine, machines, and the links inside and between, for the data parallel ring."""
        machines = self.count // self.source.gpus_each
        inside = min(self.split.data, max(1, self.source.gpus_each // self.split.parts))
        between = max(1, min(machines, self.split.data // inside))
        gpu, net = self.source.gpu, self.s.network
        return (
            inside,
            between,
            Link(bytes_per_s=gpu.link_bytes_per_s, latency_s=INSIDE_LATENCY_S),
            Link(bytes_per_s=net.bandwidth, latency_s=net.latency),
        )

    def ring_s(self) -> float:
        """Gradients of a step between all copies; ZeRO-3 gathers the weights as well, half as much again."""
        if not self.s.parallel.synchronous:
            return 0.0
        size = self.what.params / self.split.parts * WEIGHT_BYTES[self.s.train.precision]
        return all_reduce_s(size * (1.5 if self.split.zero == 3 else 1.0), *self.links())

    def tensor_s(self) -> float:
        """What layers put out, gathered from the GPUs among which each is divided, forward and backward."""
        if self.split.tensor == 1 or not self.what.facts:
            return 0.0
        share = ACTIVATION_BYTES[self.s.train.precision] / 4
        size = self.what.facts.activation_bytes_per_sample * share * self.micro * self.s.train.accumulation
        return 2 * self.links()[2].ring_s(size, self.split.tensor)

    def norms_s(self) -> float:
        """Statistics of batch norms, agreed on twice in each pass: messages too short for anything but latency."""
        if not self.s.train.sync_batch_norm or not self.what.facts:
            return 0.0
        norms = sum(layer.type == "BatchNorm2d" for layer in self.what.facts.layers)
        return 2 * norms * self.s.train.accumulation * all_reduce_s(0.0, *self.links())

    def update_s(self) -> float:
        """The optimizer: weights, gradients and states pass the memory a few times."""
        t = self.s.train
        each = WEIGHT_BYTES[t.precision] * 2 + STATE_BYTES[t.optimizer]
        shared = self.split.data if self.split.zero else 1
        params = self.what.params / self.split.parts / shared
        return OPTIMIZER_PASSES * each / 2 * params / self.source.gpu.memory_bytes_per_s

    def time(self, step: Range, is_run: bool) -> Range:
        """Of the whole training: steps, evaluation, what runs take over that, interruptions."""
        work = self.steps() * step
        if not is_run:
            # Forward passes alone: a third of a step's operations.
            judged = self.epochs() * (self.s.train.evaluation / self.per_step)
            work = work + judged * step * (1 / 3)
        if self.s.goodput:
            work = work * (1 / self.s.goodput)
        elif not (is_run or self.speed_is_whole()):
            low, mid, high = RUN_OVER_STEPS
            work = work * Range(low=low, mid=mid, high=high)
        between_s = self.between_s()
        stop = self.s.interruptions
        return work.each(lambda t: with_interruptions_s(t, between_s, stop.write, stop.restart))

    def speed_is_whole(self) -> bool:
        """Whether the speed was that of whole runs."""
        return self.speed.whole and nearest(self.s.speed, self.source.gpu, self.count) is None

    def between_s(self) -> float:
        """Mean time between interruptions of all machines together."""
        stop, machines = self.s.interruptions, self.count // self.source.gpus_each
        each = [stop.mean_time_between] if stop.mean_time_between else []
        if self.source.price_kind == PriceKind.SPOT:
            each.append(stop.spot_mean_time_between)
        rate = sum(1 / t for t in each) * machines
        return 1 / rate if rate else math.inf


def nearest(speeds: Sequence[SpeedSpec], gpu: GPU, count: int) -> SpeedSpec | None:
    """The stated step or run on this kind of GPU whose number of GPUs is nearest, by ratio."""
    known = [x for x in speeds if x.gpu == gpu.name and x.achieved is None]
    return min(known, key=lambda x: (abs(math.log(x.gpu_count / count)), x.gpu_count), default=None)


def kilowatt_hours(energy_j: float) -> float:
    """3.6 MJ are one."""
    return energy_j / JOULES_PER_KWH
