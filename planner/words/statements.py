"""A sentence for each code: as `sentences.toml` has it, or worked out here."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from pathlib import Path

from planner.model.candidate import Candidate
from planner.model.plan import PlanWarning, Rejection
from planner.model.statement import Code, Statement
from planner.units.reading import written_duration
from planner.units.writing import begin, counted, dollars, exact, gigabytes, names, share, span_usd
from planner.words.candidates import gpus_name, subject_name
from simulator.grouping import grouped
from simulator.world.hardware import with_article


def _down(value: float) -> float:
    """To three digits, and no more than it is: 840.9 is 840."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (floor(log10(value)) - 2)
    return floor(value / unit + 1e-9) * unit


UNITS: dict[str, Callable[[float], str]] = {
    "n": lambda value: f"{value:,.0f}",
    "are": lambda value: f"{'is' if value == 1 else 'are'} {value:,.0f}",
    "n_are": lambda value: f"{value:,.0f} {'is' if value == 1 else 'are'}",
    "g": lambda value: f"{value:g}",
    "g2": lambda value: f"{value:.2g}",
    "g3": lambda value: f"{float(f'{value:.3g}'):,.10g}",
    "gb": gigabytes,
    "gb2": lambda value: f"{value / 1e9:.2g} GB",
    "gb_up": lambda value: f"{ceil(value / 1e7 - 1e-9) / 100:.2f} GB",  # who provides so much has enough
    "ms": lambda value: f"{value * 1e3:.4g} ms",
    "ms0": lambda value: f"{value * 1e3:.0f} ms",
    "g3_down": lambda value: f"{_down(value):,.10g}",
    "ms_up": lambda value: f"{ceil(value * 1e3)} ms",
    "ms_up2": lambda value: f"{ceil(value * 1e5 - 1e-6) / 100:g} ms",
    "span": written_duration,
    "share": share,
    "share1": lambda value: share(value, 1),
    "share2": lambda value: share(value, 2),
    "slo": exact,
    "slo_down": lambda value: f"{floor(value * 1000) / 10:g} %",
    "usd": dollars,
    "usd4": lambda value: f"${value:.4g}",
    "cents_up": lambda value: f"${ceil(value * 100) / 100:.2f}",
}


class Amount(float):
    """A number that a template asks for in a unit, `{needed_bytes:gb}`, or with what it counts, `{days:n day}`."""

    def __format__(self, unit: str) -> str:
        unit, _, noun = unit.partition(" ")
        return counted(round(self), noun) if noun else UNITS[unit](float(self))


class Subject(str):
    """A name that a template may ask for after its article: `{0:article}`."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        return with_article(self) if form == "article" else str(self)


Template = str | Callable[[Statement], str]


def overloaded(at: Statement) -> str:
    """The load of a fleet, and the most that it may have."""
    load, limit = at.figures["load"], at.figures["limit"]
    loading = ", weight loading included" if at.figures["loading"] else ""
    work = f"even in the largest batches allowed, its GPUs are loaded to {share(load, 1)}"
    likely = at.figures.get("load_at_middle", load)
    band = at_slow_ends(load, likely)
    most = f"; the headroom allows {share(limit)}" if limit < 1 else ""
    grow = f"; queues {'would' if likely > 1 else 'may'} grow without end" if load > 1 else ""
    return f"{work}{loading}{',' if loading and band else ''}{band}{most}{grow}"


def too_busy(at: Statement) -> str:
    """How long the busiest GPU would work, and how long were uncertain speeds as is likely."""
    work = at.figures["work"]
    band = at_slow_ends(work, at.figures.get("work_at_middle", work))
    return filled(
        f"the busiest GPU would work {{work:share1}} of the time{band}; {{headroom:share}} headroom must stay free", at
    )


def at_slow_ends(load: float, at_middle: float) -> str:
    """` if uncertain speeds are at their slow end, 62.1 % at the middle`; empty where all are measured."""
    return (
        f" if uncertain speeds are at their slow end, {share(at_middle, 1)} at the middle" if at_middle != load else ""
    )


HELD_BESIDE = {"context_bytes": "the process", "models_bytes": "models and their process"}
"""What holds GPU memory besides streams of video, by figure."""


def too_many_streams(of: Statement) -> str:
    """What streams of video hold, and what a GPU has for them: `; 16.00 GB less 0.80 GB for the process leave ...`."""
    streams, figures = of.figures["streams"], of.figures
    what = f"the {streams:,.0f} streams of video on one {of.subjects[0]} hold" if streams > 1 else "one stream holds"
    held, memory_bytes = f"{what} {gigabytes(figures['held_bytes'])}", figures["memory_bytes"]
    beside = next((name for name in HELD_BESIDE if name in figures), None)
    if beside is None:  # of plans kept before it was said
        return f"{held} of {gigabytes(memory_bytes)}"
    less, left = gigabytes(figures[beside]), gigabytes(max(0, memory_bytes - figures[beside]))
    return f"{held}; {gigabytes(memory_bytes)} less {less} for {HELD_BESIDE[beside]} leave {left}"


def draws_break(an_slo: Statement) -> str:
    """How many replications break an SLO, as far as they were run."""
    least = "at least " if an_slo.figures.get("at_least") else ""
    return filled(
        f"{least}{{broken:n}} of {{draws:n}} replications miss an SLO, most often that of {{0}}: too many for "
        "{asked:slo} confidence",
        an_slo,
    )


def missed_in_draws(an_slo: Statement) -> str:
    """The share of replications that meet an SLO; where that is as much as is asked, they are too few to prove it."""
    figures = an_slo.figures
    few = ", too few to prove it" if figures["kept"] >= figures["asked"] else ""
    return filled(
        "{0} is on time for {mean:share2} on average, and meets its SLO of {target:slo} in {kept:share} of {draws:n} "
        f"replications{few}; {{asked:slo}} was asked for",
        an_slo,
    )


def offered_for_less(by: Statement) -> str:
    """The machine that has the same GPUs for less."""
    instance, gpu, provider, region = by.subjects
    gpus = gpus_name(gpu, int(by.figures["gpu_count"]))
    return f"{instance} ({gpus}, {provider} {region}) has the same GPUs at no more each"


def more_gpus(needed: Statement) -> str:
    """`one more GPU ($1.01/h more)`, `3 more GPUs`."""
    count = int(needed.figures["gpu_count"])
    price = filled(" ({usd_per_hour:usd}/h more)", needed) if "usd_per_hour" in needed.figures else ""
    return f"{'one more GPU' if count == 1 else f'{count} more GPUs'}{price}"


def other_price(prices: Statement) -> str:
    """The kinds of price that are known."""
    wanted, *known = prices.subjects
    named = " or ".join(known)
    compared = prices.code is Code.OTHER_PRICE_COMPARED
    another = f"add {named} to prices" if compared else f"set buy.price to {named}"
    stated = f"put its {wanted} price into prices.yaml of a --catalog directory"
    return f"{another}, or {stated}" if known else stated


def others_miss_too(miss: Statement) -> str:
    """Models besides the first for which the remedy was not made."""
    model, *others = miss.subjects
    return f"that is for {model} alone: {missing(others, miss, ' too')}"


def missed_in_a_replay(miss: Statement) -> str:
    """Models that a replay saw miss."""
    return f"in a replay {missing(miss.subjects, miss)}"


def missing(models: Sequence[str], miss: Statement, too: str = "") -> str:
    """`a misses`, `a, b miss, c is undecided`: the last of them are undecided, as many as the statement says."""
    count = len(models) - int(miss.figures.get("undecided", 0))
    parts = {f"miss{'es' if count == 1 else ''}{too}": models[:count]}
    parts[f"{'is' if len(models) - count == 1 else 'are'} undecided"] = models[count:]
    return ", ".join(f"{named(those)} {does}" for does, those in parts.items() if those)


def raise_latencies(of: Statement) -> str:
    """Longer SLOs that are needed together, those alike at once: `raise latency SLOs: a, b to 27 ms, c to 31 ms`."""
    times = [UNITS["ms_up"](of.figures[f"latency_{i}_s"]) for i in range(1, len(of.subjects) + 1)]
    alike = grouped(zip(times, of.subjects, strict=True))
    return f"raise latency SLOs together: {', '.join(f'{named(models)} to {time}' for time, models in alike.items())}"


def might_do_it(outlook: Statement) -> str:
    """A fleet that nobody measured, what it might cost, and on what that depends."""
    fleet, model = outlook.subjects
    at = outlook.figures
    against = f", against {dollars(at['best_usd_per_hour'])}/h" if "best_usd_per_hour" in at else ""
    spread = span_usd(at["low_usd_per_hour"], at["high_usd_per_hour"])
    return f"{fleet} might do it for {dollars(at['usd_per_hour'])}/h, {spread}{against}; that depends mostly on {model}"


def host_work(at: Statement) -> str:
    """What is not in an answer whose requests begin and end at models, and the fewest processors there are for it."""
    instance, of_what = at.subjects
    has = filled(f"; {instance} has {{cores:n}} {of_what}", at) if at.figures else ""
    return f"decoding and tokenizing on the host are not included{has}: docs/pipelines.md"


def network(at: Statement) -> str:
    """What a network between machines carries at most, which is not in an answer."""
    text = "time on the network between machines is not included"
    most = "decoded frames, if all go to another machine, are {bytes_per_s:gb2}/s"
    return filled(f"{text}: {most}", at) if at.figures else text


def stale_price(at: Statement) -> str:
    """Machines and the date of their price, with its age where the answer has it."""
    *instances, as_of = at.subjects
    dates = "price of {} is" if len(instances) == 1 else "prices of {} are"
    age = filled(" ({days:n day} ago); such prices usually change within {usual:n day}", at) if at.figures else ""
    return f"the {dates.format(names(instances))} from {as_of}{age}"


def widen_buy(to: Statement) -> str:
    """The keys any of which leaves a kind of GPU out that is sold."""
    *keys, gpu = to.subjects
    named_by = " or ".join(f"`{key}`" for key in keys)
    return f"name what has {with_article(gpu)} in {named_by} too, or leave that key out"


GPUS_NAMED = 6
"""Kinds of GPU that a remedy names."""
STATIONS = {
    "decode": "the decoders of {1}",
    "encode": "the encoders of {1}",
    "host": "the cores of machines with {1}",
    "copy": "the links to {1}",
}
"""Names by kind of station; {1}: the kind of GPU."""


def station_too_busy(at: Statement) -> str:
    """The kind of station that pipelines ask more of than it can do."""
    kind, _ = at.subjects
    return filled(
        f"{STATIONS[kind]} would work {{load:share1}} of the time; {{headroom:share}} headroom must stay free", at
    )


def no_station(at: Statement) -> str:
    """The work that nothing in a fleet can do."""
    kind, _ = at.subjects
    if kind in ("decode", "encode"):
        return f"none of its GPUs {kind}s these frames"
    return "none of its machines does that work"


def other_codec(of: Statement) -> str:
    """What a GPU decodes, or encodes, instead."""
    kind, *codecs = of.subjects
    return f"a codec that it {kind}s ({', '.join(codecs)}), or another kind of GPU"


def able_gpus(of: Statement) -> str:
    """Kinds of GPU that do it, the first few of many."""
    kind, *gpus = of.subjects
    more = f" and {len(gpus) - GPUS_NAMED} others" if len(gpus) > GPUS_NAMED else ""
    return f"a GPU that {kind}s it ({', '.join(gpus[:GPUS_NAMED])}{more}), or that work on a core, as `host: 12 ms`"


def encode_rate(of: Statement) -> str:
    """The rate of an engine that encodes, with its preset."""
    gpu, evidence, preset = of.subjects
    at = f"at preset {preset}" if preset else "at a preset that is not stated"
    return filled(f"an engine of {gpu} encodes {{fps:n}} frames a second {at}, which is {evidence}", of)


IN_TORCH = {
    "tf32": "at tf32 PyTorch computes in TF32, which matrix products do only where `allow_tf32` is set",
    "torch": "at torch PyTorch computes by its own default: convolutions in TF32{on}, matrix products in fp32",
    "amp": "at amp PyTorch computes under autocast, in fp16 where that is safe",
    "amp-bf16": "at amp-bf16 PyTorch computes under autocast, in bf16 where that is safe",
}
"""By precision, which one answer may have several of; of others the model itself has it."""


def computes_in(at: Statement) -> str:
    """What PyTorch is set to, above all whether TF32 is on."""
    precision, *with_tf32 = at.subjects
    on = f" on {', '.join(with_tf32)}"
    if precision != "fp32":
        setting = IN_TORCH.get(precision, f"at {precision} PyTorch computes in it, weights included")
        return setting.format(on=on if with_tf32 else " where a GPU has it")
    if not with_tf32:
        return "at fp32 PyTorch computes in fp32: these GPUs have no TF32"
    return f"at fp32 TF32 is off; PyTorch's own default (`precision: torch`) has it on for convolutions{on}"


SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))


def sentences(kind: str) -> dict[Code, Template]:
    """By code, as the file has them."""
    return {Code(code): sentence for code, sentence in SENTENCES[kind].items()}


REASONS = sentences("reasons") | {
    Code.DRAWS_BREAK: draws_break,
    Code.MISSED_IN_DRAWS: missed_in_draws,
    Code.OFFERED_FOR_LESS: offered_for_less,
    Code.OVERLOADED: overloaded,
    Code.TOO_BUSY: too_busy,
    Code.STATION_TOO_BUSY: station_too_busy,
    Code.NO_STATION: no_station,
    Code.TOO_MANY_STREAMS: too_many_streams,
}
REMEDIES = sentences("remedies") | {
    Code.OTHER_PRICE: other_price,
    Code.OTHER_PRICE_COMPARED: other_price,
    Code.MORE_GPUS: more_gpus,
    Code.RAISE_LATENCIES: raise_latencies,
    Code.WIDEN_BUY: widen_buy,
    Code.OTHER_CODEC: other_codec,
    Code.ABLE_GPUS: able_gpus,
}
ADDITIONS = sentences("additions") | {
    Code.OTHERS_MISS_TOO: others_miss_too,
    Code.MISSED_IN_A_REPLAY: missed_in_a_replay,
}
WARNINGS: dict[Code, tuple[Template, Template]] = {
    **{Code(code): (what, remedy) for code, (what, remedy) in SENTENCES["warnings"].items()},
    Code.STALE_PRICE: (stale_price, "look it up and pass a newer prices.yaml with `--catalog DIR`"),
    Code.NETWORK: (network, "decode frames where the models see them, or check that the network carries them"),
    Code.HOST_WORK: (host_work, "say what it takes as `host` stages of a pipeline"),
}
"""What weakens an answer, and what to do about it."""
ASSUMPTIONS = sentences("assumptions") | {
    Code.COMPUTES_IN: computes_in,
    Code.ENCODE_RATE: encode_rate,
    Code.NETWORK: network,  # of plans kept before it was a warning
}
GROUPED = frozenset({Code.OF_PROFILES, Code.POWER_BY_PACE, Code.USUAL_TOKENS})
"""Assumptions that begin with whom they are about."""
MEASUREMENTS = sentences("measurements") | {Code.MIGHT_DO_IT: might_do_it}
NOTES = sentences("notes")
"""What helps to read a difference."""
NAMED_MAX = 24
"""Names that a sentence lists."""


def filled(template: Template, statement: Statement) -> str:
    """A template with a statement's subjects and figures in it. LookupError or ValueError where one is missing."""
    if callable(template):
        return template(statement)
    subjects = statement.subjects
    figures = {name: Amount(value) for name, value in statement.figures.items()}
    words = {
        "all": named(subjects),
        "few": names_and_more(subjects),
        "some": names_and_more(subjects[:-1]),
        "last": subjects[-1] if subjects else "",
        "text": statement.text,
    }
    return template.format(*map(Subject, subjects), **words, **figures)


def begun(template: Template, statement: Statement) -> str:
    """The same as a sentence begins; a name that it begins with stays as it is written."""
    text = filled(template, statement)
    return text if isinstance(template, str) and template.startswith("{") else begin(text)


def reason(why: Statement) -> str:
    """Why a candidate was rejected, as a clause."""
    return filled(REASONS[why.code], why)


def remedies(changes: Sequence[Statement], additions: Sequence[Statement] = ()) -> str:
    """Changes any of which would help, then what must be added to that."""
    either = ", or ".join(filled(REMEDIES[change.code], change) for change in changes)
    return "; ".join([either, *map(addition, additions)])


def addition(one: Statement) -> str:
    """What must be added to a reason or a remedy."""
    return filled(ADDITIONS[one.code], one)


def rejection_reason(no: Rejection) -> str:
    """Why a candidate was rejected, with what belongs to it."""
    return ", and ".join([reason(no.why), *map(addition, no.beside)])


def rejection_remedy(no: Rejection) -> str:
    """The smallest change that would help."""
    return remedies([priced(one, no) for one in no.remedies], no.but)


def priced(remedy: Statement, no: Rejection) -> Statement:
    """A remedy of more GPUs with what these cost, where the fleet's machines are of one type, with a GPU each."""
    if remedy.code is not Code.MORE_GPUS or not no.cost_usd_per_hour:
        return remedy
    match no.subject:
        case Candidate(machines=(one,)) if one.gpu_count == 1:
            usd_per_hour = remedy.figures["gpu_count"] * no.cost_usd_per_hour / one.count
            return replace(remedy, figures={**remedy.figures, "usd_per_hour": usd_per_hour})
    return remedy


def way_on(no: Rejection) -> str:
    """`Remedy: a GPU with 9.10 GB at least`; of a fleet `May help: ...`: whether that suffices, the next plan shows, or
    replays have shown: `What helps: ...`."""
    label = "May help" if isinstance(no.subject, Candidate) else "Remedy"
    if no.replayed:
        label = "What helps"
    return f"{label}: {rejection_remedy(no)}"


def rejection_line(no: Rejection) -> str:
    """All of it in one line, for an error."""
    return f"{subject_name(no.subject)}: {rejection_reason(no)}. {way_on(no)}."


def rejection_lines(rejected: Sequence[Rejection]) -> list[str]:
    """The same, with one line for all that are rejected alike."""
    alike = grouped(((rejection_reason(no), way_on(no)), subject_name(no.subject)) for no in rejected)
    return [f"{names(subjects)}: {reason}. {remedy}." for (reason, remedy), subjects in alike.items()]


def warning(one: PlanWarning) -> tuple[str, str]:
    """What weakens an answer, and what to do about it."""
    what, remedy = WARNINGS[one.what.code]
    return begun(what, one.what), remedies(one.remedies) if one.remedies else filled(remedy, one.what)


def warning_line(one: PlanWarning) -> str:
    """What weakens an answer and what to do about it, without the last full stop."""
    what, remedy = warning(one)
    return f"{what}. Remedy: {remedy}" if remedy else what


def assumption(one: Statement) -> str:
    """What is assumed, without whom it is about."""
    template = ASSUMPTIONS[one.code]
    return filled(template, one) if one.code in GROUPED else begun(template, one)


def assumption_line(one: Statement) -> str:
    """What is assumed, after whom it is about where that is a profile."""
    text = assumption(one)
    return f"{named(one.subjects)}: {text}" if one.code in GROUPED else text


def measurement(why: Statement) -> str:
    """Why a measurement would narrow the answer."""
    return filled(MEASUREMENTS[why.code], why)


def note(what: Statement, rejection: Rejection | None = None) -> str:
    """What helps to read a difference, with why a fleet was rejected."""
    why = f": {rejection_reason(rejection)}" if rejection else ""
    return f"{filled(NOTES[what.code], what)}{why}."


def named(items: Sequence[str]) -> str:
    """All of them; of more than anybody reads, as of a thousand models, the first and how many more."""
    return ", ".join(items) if len(items) <= NAMED_MAX else names_and_more(items)


def names_and_more(items: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
