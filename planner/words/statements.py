"""A sentence for each code.

In braces stand subjects by number, all or a `few` of them, `some` before the `last`, or figures in the unit that
follows."""

from collections.abc import Callable, Sequence
from math import ceil, floor

from planner.model.plan import PlanWarning, Rejection
from planner.model.statement import Code, Statement
from planner.units.reading import written_duration
from planner.units.writing import dollars, exact, gigabytes, share, span_usd
from planner.words.candidates import gpus_name, subject_name

UNITS: dict[str, Callable[[float], str]] = {
    "n": lambda value: f"{value:,.0f}",
    "g": lambda value: f"{value:g}",
    "g2": lambda value: f"{value:.2g}",
    "g3": lambda value: f"{value:.3g}",
    "gb": gigabytes,
    "gb2": lambda value: f"{value / 1e9:.2g} GB",
    "gb_up": lambda value: f"{ceil(value / 1e7 - 1e-9) / 100:.2f} GB",  # who provides so much has enough
    "ms": lambda value: f"{value * 1e3:.4g} ms",
    "ms0": lambda value: f"{value * 1e3:.0f} ms",
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
    """A number that a template asks for in a unit: `{needed_bytes:gb}`."""

    def __format__(self, unit: str) -> str:
        return UNITS[unit](float(self))


Template = str | Callable[[Statement], str]


def overloaded(at: Statement) -> str:
    """How long a fleet would work, and how long it may."""
    load, limit = at.figures["load"], at.figures["limit"]
    loading = ", weight loading included" if at.figures["loading"] else ""
    work = f"even in the largest batches allowed, its GPUs have {share(load, 1)} of the work that they can do{loading}"
    likely = at.figures.get("load_at_middle", load)
    band = f" with predicted speeds at their bad ends, {share(likely, 1)} at the middle" if likely != load else ""
    most = f"; {share(limit)} is the most, with the headroom" if limit < 1 else ""
    grow = f"; queues {'would' if likely > 1 else 'may'} grow without end" if load > 1 else ""
    return f"{work}{band}{most}{grow}"


def too_many_streams(of: Statement) -> str:
    """What decoded streams hold of a GPU's memory."""
    streams = of.figures["streams"]
    what = f"the {streams:,.0f} streams that a {of.subjects[0]} decodes hold" if streams > 1 else "one stream holds"
    return f"{what} {gigabytes(of.figures['held_bytes'])} of {gigabytes(of.figures['memory_bytes'])}"


def offered_for_less(by: Statement) -> str:
    """The machine that has the same GPUs for less."""
    instance, gpu, provider, region = by.subjects
    gpus = gpus_name(gpu, int(by.figures["gpu_count"]))
    return f"{instance} ({gpus}, {provider} {region}) has the same GPUs at no more each"


def more_gpus(needed: Statement) -> str:
    """`one more GPU`, `3 more GPUs`."""
    count = int(needed.figures["gpu_count"])
    return "one more GPU" if count == 1 else f"{count} more GPUs"


def other_price(prices: Statement) -> str:
    """The kinds of price that are known."""
    wanted, *known = prices.subjects
    return f"set buy.price to {' or '.join(known)}, or put its {wanted} price into prices.yaml of a --catalog directory"


def others_miss_too(miss: Statement) -> str:
    """Models besides the first for which the remedy was not made."""
    model, *others = miss.subjects
    return f"that is for {model} alone, {', '.join(others)} {missing(others)} too"


def missed_in_a_replay(miss: Statement) -> str:
    """Models that a replay saw miss."""
    return f"in a replay {', '.join(miss.subjects)} {missing(miss.subjects)}"


def missing(models: Sequence[str]) -> str:
    """`misses` of one, `miss` of several."""
    return "misses" if len(models) == 1 else "miss"


def might_do_it(outlook: Statement) -> str:
    """A fleet that nobody measured, what it might cost, and on what that depends."""
    fleet, model = outlook.subjects
    at = outlook.figures
    against = f", against {dollars(at['best_usd_per_hour'])}/h" if "best_usd_per_hour" in at else ""
    spread = span_usd(at["low_usd_per_hour"], at["high_usd_per_hour"])
    return f"{fleet} might do it for {dollars(at['usd_per_hour'])}/h, {spread}{against}; that depends on {model} most"


def host_work(at: Statement) -> str:
    """What is not in an answer whose requests begin and end at models, and the fewest processors there are for it."""
    instance, of_what = at.subjects
    has = said(f"; {instance} has {{cores:n}} {of_what}", at) if at.figures else ""
    return f"decoding and tokenizing on the host are not in this{has}: docs/pipelines.md"


STATIONS = {
    "decode": "the decoders of {1}",
    "host": "the cores of machines with {1}",
    "copy": "the links to {1}",
}
"""Names by kind of station; {1}: the kind of GPU."""


def station_too_busy(at: Statement) -> str:
    """The kind of station that pipelines ask more of than it can do."""
    kind, _ = at.subjects
    return said(f"{STATIONS[kind]} would work {{load:share1}} of the time, with {{headroom:share}} to be kept free", at)


def no_station(at: Statement) -> str:
    """The work that nothing in a fleet can do."""
    kind, _ = at.subjects
    return "none of its GPUs decodes these frames" if kind == "decode" else "none of its machines does that work"


IN_TORCH = {
    "tf32": "PyTorch computes in TF32, which matrix products do only where `allow_tf32` is set",
    "torch": "PyTorch computes as it comes: convolutions in TF32{on}, matrix products in fp32",
    "amp": "PyTorch computes under autocast, in fp16 where that is safe",
    "amp-bf16": "PyTorch computes under autocast, in bf16 where that is safe",
}
"""By precision; of others the model itself has it."""


def computes_in(at: Statement) -> str:
    """What PyTorch is set to, above all whether TF32 is on."""
    precision, *with_tf32 = at.subjects
    on = f" on {', '.join(with_tf32)}"
    if precision != "fp32":
        told = IN_TORCH.get(precision, f"PyTorch computes in {precision}, weights included")
        return told.format(on=on if with_tf32 else " where a GPU has it")
    if not with_tf32:
        return "times are of fp32; these GPUs have no TF32"
    return f"times are of fp32, TF32 off; PyTorch as it comes has TF32 on for convolutions{on}: `precision: torch`"


REASONS: dict[Code, Template] = {
    Code.OFFERED_FOR_LESS: offered_for_less,
    Code.NO_PRICE: "no {0} price of it is known",
    Code.NOT_SOLD: "{0} still lists it but no longer sells it",
    Code.NOT_MADE: "it is no longer made",
    Code.GPU_NOT_OWNED: "none of your own machines has a {0}, and with buy.own and no buy.providers nothing is rented",
    Code.GPU_NOT_PRICED: "no instance with {0} is priced among the providers, regions and instances asked for",
    Code.NO_PROFILE: "no profile of {some} on {last}",
    Code.MODEL_TOO_LARGE: "context, weights and one sample take {needed_bytes:gb_up}, its memory is {limit_bytes:gb}",
    Code.SAMPLE_TOO_SLOW: "one sample alone runs {run_s:ms}, over the SLO of {slo_s:ms}",
    Code.NO_GPU_LEFT: "no GPUs are left that can hold {0}",
    Code.GPU_TOO_FULL: "the fullest GPU needs {needed_bytes:gb_up}, its memory is {limit_bytes:gb}",
    Code.HOST_TOO_FULL: "the fullest host needs {needed_bytes:gb_up}, its memory is {limit_bytes:gb}",
    Code.TOO_BUSY: "the busiest GPU would work {work:share1} of the time, with {headroom:share} to be kept free",
    Code.FEW_TURNS: "{0} gets turns for {served:share} of its frames: its GPU is busy with other models",
    Code.KIND_TOO_DEAR: "over twice the cheapest",
    Code.NO_FLEET_OF_KIND: "no answer: no fleet of it that was tried, within what may be bought, meets every SLO",
    Code.LONG_WAIT: "{0} would wait {worst_s:ms0} in the worst case while its GPU serves other models",
    Code.OVERLOADED: overloaded,
    Code.QUEUES_GREW: "what waits for {all} grew from the middle of the replays to their end",
    Code.MISSED: "{0} answers {mean:share2} in time ({low:share2} to {high:share2} with 95 % confidence)",
    Code.MISSED_IN_DRAWS: "{0} answers {mean:share2} in time, on the mean over draws, and keeps "
    "{target:slo} in {kept:share} of them, where {asked:slo} must surely",
    Code.MISSED_AT_BEST: "at least {broken:n} of {draws:n} draws break an SLO, most often that of {0}, where all SLOs "
    "must be met in {asked:slo} of them",
    Code.NOT_PROVEN: "{0} answers {mean:share2} in time ({low:share2} to {high:share2} with 95 % confidence), and "
    "{judged:n} requests do not prove {target:slo}",
    Code.NOT_JUDGED: "no request of {0} was replayed long enough to be judged",
    Code.TOO_MANY_GPUS: "the next larger fleet has {gpu_count:n} GPUs, {gpu_count_max:n} are allowed",
    Code.TOO_FEW_MACHINES: "the next larger fleet has {count:n} of {0}, there are {count_max:n}",
    Code.TOO_DEAR: "the next fleet costs {cost_usd_per_hour:usd4}/h, {cost_max_usd_per_hour:usd4}/h is allowed",
    Code.STATION_TOO_BUSY: station_too_busy,
    Code.NO_STATION: no_station,
    Code.NO_DECODER: "it is not known to decode {all}",
    Code.TOO_MANY_STREAMS: too_many_streams,
}
REMEDIES: dict[Code, Template] = {
    Code.LOWER_PRICE: "a price below {usd_per_hour:usd4}/h",
    Code.OTHER_PRICE: other_price,
    Code.ALLOW_RETIRED: "set buy.retired to true if you still have access to it",
    Code.ALLOW_RETIRED_PURCHASE: "set buy.retired to true if you can still buy one, or price another in a prices.yaml "
    "with --catalog",
    Code.NAME_PROVIDERS: "name providers to rent from under buy.providers, or leave {0} out of buy.gpus",
    Code.PRICE_THE_GPU: "allow more providers, regions or kinds of price under buy, price a {0} in prices.yaml of a "
    "--catalog directory, or list your own under buy.own",
    Code.MEASURE: "measure with `planner calibrate` on a {0}, or name a folder of profiles with `--profiles DIR`",
    Code.AS_SAID: "{text}",
    Code.LARGER_GPU: "a GPU with {needed_bytes:gb_up} at least",
    Code.CUT_OVER: "a machine with {stages:n} such GPUs, over which its layers are cut",
    Code.RAISE_LATENCY: "raise {0}'s latency SLO to {latency_s:ms_up}",
    Code.RAISE_LATENCY_WITH_WAITING: "raise {0}'s latency SLO: {run_s:ms_up2} at the very least, and waiting comes on "
    "top; {two_s:ms_up2} lets one request go first",
    Code.RAISE_ANY_LATENCY: "raise {0}'s latency SLO",
    Code.ONE_MORE_MACHINE: "one more machine that can hold {0}",
    Code.MORE_MEMORY: "at least {needed_bytes:gb_up} of {0} memory ({more_bytes:gb_up} more)",
    Code.MORE_GPUS: more_gpus,
    Code.ALLOW_SWAPPING: "`memory: swap`",
    Code.FEWER_CAMERAS: "drop to {left:n} of {count:n} cameras of {0}",
    Code.LOWER_RATE: "lower {0}'s rate to {rate_rps:g3} rps",
    Code.LESS_DEMAND: "{share:share} of the demand",
    Code.LOWER_SLO: "an SLO of {attainment:slo_down} for {0}",
    Code.LONGER_HORIZON: "set `horizon: {horizon_s:span}`",
    Code.ANY_LONGER_HORIZON: "set a longer `horizon`",
    Code.MORE_REPLICATIONS: "set `replications: {replications:n}`, or a lower `confidence`",
    Code.RAISE_MAX_GPUS: "`buy.max_gpus: {gpu_count:n}` or more",
    Code.RAISE_COUNT: "`count: {count:n}` of {0}",
    Code.OTHER_MACHINE: "another machine",
    Code.OTHER_CODEC: "a codec that it decodes ({all}), or another kind of GPU",
    Code.RAISE_MAX_COST: "`buy.max_cost: {cost_usd_per_hour:cents_up}/h` or more",
}
ADDITIONS: dict[Code, Template] = {
    Code.NOTHING_PREDICTS: "nothing predicts it there: {text}",
    Code.CUTTING_IS_NO_HELP: "cutting it over {stages:n} does not help: each would keep {kept_bytes:gb_up} and the "
    "context",
    Code.OTHERS_MISS_TOO: others_miss_too,
    Code.MISSED_IN_A_REPLAY: missed_in_a_replay,
}
WARNINGS: dict[Code, tuple[Template, Template]] = {
    Code.DOUBT: ("{0}: {text}", ""),
    Code.STALE_PRICE: (
        "the price of {0} is of {1}",
        "look it up and pass a newer prices.yaml with `--catalog DIR`",
    ),
    Code.STALE_PRICES: (
        "prices are of {0}, more than {days:n} days old",
        "give newer ones with `--catalog DIR`",
    ),
    Code.DEARER_SINCE: (
        "{0} at {usd_per_hour:usd}/h is a price of {1}: since then, {2} asked {now_usd_per_hour:usd}/h for as many {3} "
        "({4}, {5})",
        "ask {2}, and give its price of today with `--catalog DIR`",
    ),
    Code.SPOT: (
        "spot machines ({all}) may be taken away at any time, and that is not in these figures",
        "say how often and for how long with `failures`",
    ),
    Code.RETIRED: (
        "{all} can no longer be rented by who has none",
        "leave out `buy.retired` unless you still have access",
    ),
    Code.OWN_NOT_REPLAYED: (
        "of your own machines {all} have no part in this, for --gpu names another kind",
        "name their kind with --gpu",
    ),
    Code.OWN_LEFT_OUT: (
        "of your own machines {all} have no part in this, for buy.gpus does not name their kinds",
        "add these kinds to buy.gpus, or leave buy.gpus out",
    ),
    Code.PREDICTED: (
        "nobody measured {few}: SLOs hold as surely as the bands of their predictions",
        "measure with `planner calibrate` on such a GPU before you buy, and name the folder with `--profiles DIR`",
    ),
    Code.DECODE_MEMORY_BINDS: (
        "memory that decoded streams hold runs out first, and {stream_bytes:gb2} for each of {0} is assumed",
        "see with `nvidia-smi` what one stream adds, and write it as the stage's `memory`, e.g. `memory: 200 MB`",
    ),
    Code.BATCHES_END: (
        "batches of {all} end where measuring ended: in larger ones fewer GPUs may do",
        "measure larger ones with `planner calibrate --batches` on such a GPU, and name the folder with "
        "`--profiles DIR`",
    ),
    Code.PREDICTED_BATCHES_END: (
        "batches of {all} end where their predictions end: in larger ones fewer GPUs may do",
        "measure with `planner calibrate --batches` on such a GPU, and name the folder with `--profiles DIR`",
    ),
    Code.PARTLY_ASSUMED: (
        "figures of {all} are partly assumed",
        "measure them with `planner calibrate` and name the folder with `--profiles DIR`",
    ),
    Code.MEMORY_PREDICTED: (
        "memory of {all} is predicted from layers, within {error:slo} of real passes, without what libraries add",
        "measure it with `planner calibrate` and name the folder with `--profiles DIR`",
    ),
    Code.WINDOWS: (
        "{windows:n} windows of {window_s:span} of a recording of {recording_s:span} were replayed, not all of it",
        "`horizon: {recording_s:span}` replays all",
    ),
    Code.FEW_OUTAGES: (
        "only {outages:g2} outages are to be expected in all that was replayed: a chance result",
        "`horizon: {horizon_s:span}` shows about {enough:n}",
    ),
    Code.UNPROVEN: ("too few {0} to prove {1}'s SLO", ""),
    Code.INTERRUPTED: (
        "the search was interrupted: cheaper fleets and other kinds of GPU were not all tried",
        "let `planner plan` come to its end",
    ),
    Code.WAYS_NOT_COMPARED: (
        "the search was interrupted: ways of merging were not all planned for and compared",
        "let `planner plan` come to its end, or name one way: merging none, stem or layers",
    ),
    Code.CUT_OFF: (
        "the search over fleets was cut off: one with less of the objective may have been left out",
        "offer fewer machines with `buy.gpus` or `buy.instances`",
    ),
    Code.ACCURACY_ASSUMED: (
        "the accuracy of merged models is assumed, not measured",
        "train them together with `planner merge train` and name the file under `sharing.curve`",
    ),
    Code.TRAINING_COST_UNKNOWN: (
        "what joint training costs is not in these figures",
        "say what it takes under `sharing.retraining`",
    ),
    Code.CHEAPER_NOW: (
        "{0}, which meets every SLO too, costs {cost_usd_per_hour:usd}/h now: less",
        "run `planner plan` with --catalog",
    ),
    Code.ACCURACY_LOST: (
        "{0} at {1}: {2} {value:g} % for {reference:g} % at fp32, {3} ({4})",
        "measure it on your data, and write it as the model's `accuracy`",
    ),
    Code.HOST_WORK: (host_work, "say what it takes as `host` stages of a pipeline"),
    Code.RUNTIME_LEFT_OUT: ("{last} does not run {some}, and is left out there", "name runtimes that do"),
    Code.ACCURACY_UNKNOWN: (
        "what {last} costs {some} in accuracy is not published",
        "measure it on your data, and write it as the model's `accuracy`",
    ),
}
"""What weakens an answer, and what to do about it."""
ASSUMPTIONS: dict[Code, Template] = {
    Code.COMPUTES_IN: computes_in,
    Code.OF_PROFILES: "{text}",
    Code.CONTEXT: "one process on each GPU holds {context_bytes:gb2} besides weights and workspace",
    Code.POWER_BY_PACE: "power while a batch runs is not published: taken by the pace of the batch",
    Code.PROCESSOR: "{0} is no GPU: one process, {cores:n} threads on as many cores, its share of the memory",
    Code.IDLE_POWER: "idle power is assumed to be {share_of_tdp:slo} of the power limit: no vendor states it ({all})",
    Code.STAGES_BY_WEIGHTS: "a model cut into pipeline stages spends time in each in proportion to its weights",
    Code.SHARED_LINK: "all GPUs of a host share a link as wide as one GPU's own",
    Code.DISK_RATE: "loads from disk, not measured, run at {bytes_per_s:gb2}/s",
    Code.PAGEABLE_RATE: "loads from pageable memory, not measured, run at {share:share} of the pinned rate",
    Code.HOST_MEMORY: "host memory, where it is not listed, holds all weights",
    Code.REPRICED: "replayed {0}, and priced {1} from {2}",
    Code.OF_MERGING: "{text}",
    Code.SPARES: "what machines did that are away, up to {survive:n}, is done by those left and the spares; the time "
    "until then is not counted: `failures` replays it",
    Code.CORES: "{0}: {cores:n} cores for each GPU, which nobody states",
    Code.VCPUS: "a virtual CPU of {all} counts as a core",
    Code.DUE_FRAMES: "the SLO of `{0}` counts {due_fraction:share} of its frames: those of which something reaches a "
    "last stage",
    Code.DECODE_MEMORY: "decoding holds {stream_bytes:gb2} of GPU memory for each stream",
    Code.DECODE_RATE: "an engine of {0} decodes {fps:n} frames a second, which is {1}",
    Code.NETWORK: "frames and items go from machine to machine in no time",
}
GROUPED = frozenset({Code.OF_PROFILES, Code.POWER_BY_PACE})
"""Assumptions that begin with whom they are about."""
MEASUREMENTS: dict[Code, Template] = {
    Code.MIGHT_DO_IT: might_do_it,
    Code.WIDEST_BAND: "its time may be so far off that {usd_per_hour:usd}/h of GPU time are likely bought in vain, "
    "more than for any other model here",
    Code.LEAST_ROOM: "among the models that are only {0}, it has the least room",
}
NOTES: dict[Code, Template] = {
    Code.NO_LONGER_FEASIBLE: "Feasible before, no longer",
    Code.FEASIBLE_NOW: "Not feasible before, feasible now",
    Code.SAME_ARRIVALS: "Both met the same arrivals (common random numbers), so chance moves both alike: what is "
    "called within noise may be real, what differs surely does",
    Code.OTHER_ARRIVALS: "They met different arrivals: a difference within noise may be theirs",
    Code.SAME_SEED: "Both draw from seed {0}, so points of the same demand met the same arrivals (common random "
    "numbers)",
    Code.OTHER_SEEDS: "The studies draw from different seeds, or differ in more",
    Code.OLD_FLEET_MEETS: "The old fleet, {0}, still meets every SLO, at {cost_usd_per_hour:usd}/h",
    Code.OLD_FLEET_REJECTED: "The old fleet, {0}, is rejected now",
    Code.NEW_FLEET_MET: "The new fleet, {0}, met every SLO before too, at {cost_usd_per_hour:usd}/h",
    Code.NEW_FLEET_REJECTED: "The new fleet, {0}, was rejected before",
    Code.HIDDEN_CHANGES: "The scenario's text, or its --set, is another: not all of what changed in it need show here",
}
"""What helps to read a difference."""


def said(template: Template, statement: Statement) -> str:
    """A template with a statement's subjects and figures in it. LookupError or ValueError where one is missing."""
    if callable(template):
        return template(statement)
    subjects = statement.subjects
    figures = {name: Amount(value) for name, value in statement.figures.items()}
    words = {
        "all": ", ".join(subjects),
        "few": names_and_more(subjects),
        "some": names_and_more(subjects[:-1]),
        "last": subjects[-1] if subjects else "",
        "text": statement.text,
    }
    return template.format(*subjects, **words, **figures)


def reason(why: Statement) -> str:
    """Why a candidate was rejected, as a clause."""
    return said(REASONS[why.code], why)


def remedies(changes: Sequence[Statement], additions: Sequence[Statement] = ()) -> str:
    """Changes any of which would help, then what must be added to that."""
    either = ", or ".join(said(REMEDIES[change.code], change) for change in changes)
    return "; ".join([either, *map(addition, additions)])


def addition(one: Statement) -> str:
    """What must be added to a reason or a remedy."""
    return said(ADDITIONS[one.code], one)


def rejection_reason(no: Rejection) -> str:
    """Why a candidate was rejected, with what belongs to it."""
    return ", and ".join([reason(no.why), *map(addition, no.beside)])


def rejection_remedy(no: Rejection) -> str:
    """The smallest change that would help."""
    return remedies(no.remedies, no.but)


def rejection_line(no: Rejection) -> str:
    """All of it in one line, for an error."""
    return f"{subject_name(no.subject)}: {rejection_reason(no)}. Remedy: {rejection_remedy(no)}."


def warning(one: PlanWarning) -> tuple[str, str]:
    """What weakens an answer, and what to do about it."""
    what, remedy = WARNINGS[one.what.code]
    return said(what, one.what), remedies(one.remedies) if one.remedies else said(remedy, one.what)


def warning_line(one: PlanWarning) -> str:
    """What weakens an answer and what to do about it, in one clause."""
    what, remedy = warning(one)
    return f"{what}: {remedy}" if remedy else what


def assumption(one: Statement) -> str:
    """What is assumed, without whom it is about."""
    return said(ASSUMPTIONS[one.code], one)


def assumption_line(one: Statement) -> str:
    """What is assumed, after whom it is about where that is a profile."""
    text = assumption(one)
    return f"{', '.join(one.subjects)}: {text}" if one.code in GROUPED else text


def measurement(why: Statement) -> str:
    """Why a measurement would narrow the answer."""
    return said(MEASUREMENTS[why.code], why)


def note(what: Statement, rejection: Rejection | None = None) -> str:
    """What helps to read a difference, with why a fleet was rejected."""
    why = f": {rejection_reason(rejection)}" if rejection else ""
    return f"{said(NOTES[what.code], what)}{why}."


def names_and_more(items: tuple[str, ...]) -> str:
    """`a, b, c and 4 more`."""
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
