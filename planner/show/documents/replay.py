"""Models and GPUs of a replay as tables: parts that a plan and a simulation share."""

from collections.abc import Iterator, Sequence
from math import isfinite

from calibrate.library.reading import USUAL_RUNTIME
from planner.model.plan import GpuAnswer, ModelAnswer, Policies, Recommendation
from planner.model.simulation import Simulation
from planner.show.charts.plan import fleet, room
from planner.show.document import PAGE, Block, Cell, Column, DrawnCharts, Rows, Section, Stat, Table, Text, Tone
from planner.show.text import plan as prose
from planner.units.writing import counted, exact, gigabytes, names, per_second, percent, ranges, seconds, share
from simulator.world.profile import Evidence

GPUS_SHOWN = 16
MODELS_NOTE = "#: numbers of GPUs, as in the table below. On time: the share, with its 95 % interval."
MEANS_NOTE = " Median and p95 are means over replications."
FLEET_NOTE = (
    "GPUs that hold the same models are drawn once, by the busiest and the fullest. Busy: the share of time that "
    "batches ran; small batches keep a GPU busy at a low offered load. Paler: waiting for weights. Memory: the most in "
    "use at once. #: as in the table below."
)
GPUS_NOTE = (
    "Offered load: the share of time that all requests would take in full batches, with uncertain speeds at their slow "
    "end; headroom is kept on it. Busy: the share of time that batches ran; small batches keep a GPU busy at a low "
    "offered load. Loading: the share of time that it waited for weights."
)

DRAWS_DECIDE = "`SLO met in`, the share of replications, decides; not the interval of the share on time."
SLO_WORDS = {True: "met", False: "MISSED", None: "undecided"}
"""By whether a model's SLO is met."""


def verdict(answer: Recommendation | Simulation) -> Text:
    """How the SLOs stand; green only where nothing is predicted or assumed."""
    line = prose.slo_line(answer)
    if not answer.feasible:
        return Text(line, Tone.BAD)
    weak = prose.weak_line(answer.models)
    return Text(f"{line} {weak}", Tone.WARN) if weak else Text(line, Tone.GOOD)


def stats(answer: Recommendation | Simulation, at: str) -> list[Stat]:
    """GPUs, the tightest and the slowest model, and the demand; `at` is where the answer stands in the JSON."""
    models, gpus = answer.models, answer.gpus
    tight, slow = prose.tightest(models), min(models, key=prose.latency_left)
    offered_rps = sum(m.offered_rps for m in models)
    kinds = names(list(dict.fromkeys(gpu.kind for gpu in gpus)))
    spares = sum(one.spares * one.gpu_count for one in answer.instances) if isinstance(answer, Recommendation) else 0
    paid = f"{kinds}; {spares} more in spares" if spares else kinds
    p99 = f"{prose.tilde(slow)}{seconds(slow.p99_shown_s)}"
    key = "p99_s" if slow.p99_in_draws_s is None else "p99_in_draws_s"
    p99_cell = Cell(p99, slow.p99_shown_s, f"{at}models.{models.index(slow)}.{key}")
    tone = Tone.GOOD if slow.p99_shown_s <= slow.slo_s else Tone.BAD
    return [
        Stat("GPUs", Cell(str(len(gpus)), len(gpus)), paid),
        least(tight, f"{at}models.{models.index(tight)}"),
        Stat("slowest p99", p99_cell, f"{slow.name}, of {seconds(slow.slo_s)}", tone),
        Stat("demand", Cell(per_second(offered_rps), offered_rps), counted(len(models), "model")),
    ]


def least(tight: ModelAnswer, at: str) -> Stat:
    """The share that the tightest model surely gets: of replications that draw phases or speeds, else of requests."""
    tone = Tone.GOOD if tight.slo_met else Tone.BAD
    slo = f"SLO {exact(tight.slo_attainment_target)}"
    if drawn := tight.draws_kept:
        cell = Cell(f"{percent(drawn.mean)} %", drawn.mean, f"{at}.draws_kept.mean")
        return Stat("met least often", cell, f"{tight.name}, {slo}", tone)
    low = tight.slo_attainment.low
    cell = Cell(f"{percent(low)} %", low, f"{at}.slo_attainment.low")
    return Stat("lowest share on time", cell, f"{tight.name}, bad end; {slo}", tone)


def where(answer: Recommendation | Simulation) -> Section:
    """The fleet, drawn."""
    note = Text(FLEET_NOTE if answer.gpus else "", Tone.NOTE)
    drawn = DrawnCharts(lambda: fleet(answer))
    return Section("What runs where", [drawn, note], id="fleet", link="Fleet", views=PAGE)


def sections(
    answer: Recommendation | Simulation, policies: Policies, at: str, more: Sequence[Block] = (), *, short: bool = False
) -> tuple[Section, Section]:
    """Models and GPUs; `more` of the models is for pages alone, and so are mean batches where it is to be short."""
    models, gpus = answer.models, answer.gpus
    missed = frozenset(i for i, m in enumerate(models) if m.slo_met is False)
    table = Table(model_columns(models, gpus, policies, at, short=short), missed, stacked=True)
    means = MEANS_NOTE if any(m.p99_in_draws_s is not None for m in models) else ""
    notes = Text(f"{MODELS_NOTE}{means}" if models else "", Tone.NOTE, views=PAGE)
    bars = DrawnCharts(lambda: room(models) if models else ())
    draws_decide = answer.replayed is not None and answer.replayed.draws_mixed == 1
    decides = Text(DRAWS_DECIDE if draws_decide and any(map(prose.beside_interval, models)) else "", indent=2)
    gpu_note = Text(GPUS_NOTE if gpus else "", Tone.NOTE, views=PAGE)
    return (
        Section("Models", [bars, table, notes, decides, Text(prose.given_up(models), indent=2), *more], id="models"),
        Section("GPUs", [Table(gpu_columns(gpus, at), shown=GPUS_SHOWN, stacked=True), gpu_note], id="gpus"),
    )


def model_columns(
    models: Sequence[ModelAnswer], gpus: Sequence[GpuAnswer], policies: Policies, at: str, *, short: bool
) -> list[Column]:
    """Each model's place, its figures, and what limits it; its GPUs by their numbers in the table of GPUs."""
    numbers = {gpu.id: i for i, gpu in enumerate(gpus, 1)}
    is_drawn = any(m.p99_in_draws_s is not None for m in models)
    rows = Rows.at(f"{at}models", models, prose.tilde)
    columns = [
        rows.words("model", "name"),
        rows.figures("batch", prose.batches, "batch_size"),
        rows.words("on #", lambda m: ranges([numbers[g] for g in m.gpus])),
        rows.words("mode", "mode", once="{}"),
    ]
    columns += [
        *ways_of_running(rows),
        rows.shown("median", "p50_s", seconds, page_only=True),
        rows.shown("p95", "p95_s", seconds, page_only=True),
        rows.figures("p99 / SLO", prose.p99, "p99_in_draws_s" if is_drawn else "p99_s"),
        rows.figures("on time / SLO", beside_target, "slo_attainment.mean"),
    ]
    if any(m.draws_kept for m in models):
        columns.append(rows.worked("SLO met in", drawn, lambda kept: f"{percent(kept)} %"))
    if prose.told_apart(models, policies):
        columns.append(rows.figures("accuracy", lambda m: f"{percent(m.accuracy.under(policies))} %"))
    return [
        *columns,
        rows.shown("asked", "offered_rps", per_second),
        rows.shown("answered", "throughput_rps", per_second, page_only=True),
        rows.figures("dropped", dropped, "dropped_fraction", page_only=True),
        rows.figures(
            "energy each", lambda m: f"{m.joules_per_inference:.2f} J", "joules_per_inference", page_only=True
        ),
        rows.words("limited by", lambda m: m.bottleneck if m.verdict == "stable" else m.verdict),
        rows.figures("mean batch", mean_batch, "mean_batch_size", page_only=short),
        rows.words("evidence", evidence, once="evidence {}"),
    ]


def evidence(m: ModelAnswer) -> str:
    """Where its speed comes from, as the first line has it: `published (memory or loading predicted)`."""
    if m.speed_evidence in (None, m.evidence) or m.evidence not in (Evidence.PREDICTED, Evidence.ASSUMED):
        return str(m.speed_evidence or m.evidence)
    if m.speed_evidence is Evidence.PREDICTED:
        return f"predicted ({m.evidence})"
    return f"{m.speed_evidence} (memory or loading {m.evidence})"


def ways_of_running(rows: Rows[ModelAnswer]) -> Iterator[Column]:
    """Precision and runtime, where they do not go without saying."""
    if any(m.precision for m in rows.items):
        yield rows.words("precision", "precision", once="at {}")
    if any(m.runtime not in ("", USUAL_RUNTIME) for m in rows.items):
        yield rows.words("runtime", "runtime", once="in {}")


def beside_target(m: ModelAnswer) -> str:
    """`99.31 [99.20, 99.43] / 99 %`."""
    return f"{prose.on_time(m)} / {exact(m.slo_attainment_target)}"


def mean_batch(m: ModelAnswer) -> str:
    """`1.75`; of a model that formed none `-`."""
    return f"{m.mean_batch_size:.2f}" if isfinite(m.mean_batch_size) else "-"


def dropped(m: ModelAnswer) -> str:
    """`0.12 %` of its requests."""
    return f"{percent(m.dropped_fraction, up=True)} %"


def drawn(m: ModelAnswer) -> float | None:
    """Share of replications that meet its SLO; None where these draw neither phases nor speeds."""
    return m.draws_kept.mean if m.draws_kept else None


def gpu_columns(gpus: Sequence[GpuAnswer], at: str) -> list[Column]:
    """The work and memory of each GPU."""
    rows = Rows.at(f"{at}gpus", gpus, prose.tilde)
    return [
        Column("#", [Cell(str(i), i) for i in range(1, len(gpus) + 1)], right=True),
        rows.words("GPU", "id"),
        rows.words("kind", "kind"),
        rows.shown("offered load", "offered_load", share),
        rows.shown("busy", "utilization", share),
        rows.figures("loading", lambda g: share(g.load_share, 1), "load_share"),
        rows.shown("swaps", "swaps_per_s", per_second),
        rows.figures("memory", memory, "peak_memory_bytes"),
        rows.figures("power", lambda g: f"{g.mean_power_w:.0f} W", "mean_power_w"),
        rows.words("models", lambda g: names(g.models), wide=True),
    ]


def memory(g: GpuAnswer) -> str:
    """`13.20 of 16.00 GB`."""
    return f"{g.peak_memory_bytes / 1e9:.2f} of {gigabytes(g.memory_bytes)}"
