"""Profiles for people to look at: a line each, and one of them whole."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from operator import attrgetter
from statistics import fmean, median, stdev
from typing import Any

from calibrate.io.files import one_line
from planner.io.raw import all_runs_s, batch_points, numbers_in, part_of, without_hiccups
from planner.show.document import Column, Document, Items, Rows, Table
from planner.show.terminal import listed, terminal
from planner.units.writing import Screen, counted, gigabytes, per_second, seconds, share, size_text
from simulator.grouping import grouped
from simulator.world.hardware import CONTEXT_BYTES
from simulator.world.profile import FitQuality, Profile, WeightSource

ENDED = {"failed": "failed", "timed-out": "took too long", "crashed": "ended its process"}
"""What came of a batch that was tried, as calibration names it."""


def profile_list(profiles: Sequence[Profile], screen: Screen) -> str:
    """One line for each profile."""
    rows = Rows(profiles)
    columns = [
        *_speeds(profiles),
        rows.shown("weights", "weight_bytes", gigabytes),
        rows.figures("load", lambda p: seconds(p.load(p.weight_bytes))),
        *_fits([p.latency_fit for p in profiles]),
        rows.words("latency is", "latency_evidence"),
        rows.words("loading is", "load_evidence"),
    ]
    return listed(columns, screen)


def model_list(profiles: Sequence[Profile], screen: Screen) -> str:
    """One line for each model: on how many GPUs it is known, and what that rests on at best."""
    of_model = grouped((profile.model, profile) for profile in profiles)
    rows = Rows([of_model[name] for name in sorted(of_model)])
    columns = [
        rows.words("model", lambda those: those[0].model),
        rows.figures("profiles", lambda those: str(len(those))),
        rows.figures("GPUs", lambda those: str(len({one.gpu for one in those}))),
        rows.words(
            "latency at best", lambda those: min((one.latency_evidence for one in those), key=attrgetter("rank"))
        ),
    ]
    return listed(columns, screen)


def speed_list(profiles: Sequence[Profile], screen: Screen) -> str:
    """One shorter line for each: where it runs, how fast, and what that rests on."""
    return listed([*_speeds(profiles), Rows(profiles).words("latency is", "latency_evidence")], screen)


def _speeds(profiles: Sequence[Profile]) -> list[Column]:
    """What runs where, and how fast."""
    rows = Rows(profiles)
    return [
        rows.words("model", "model"),
        rows.words("GPU", "gpu"),
        rows.words("precision", "precision"),
        rows.words("runtime", "runtime"),
        rows.figures("batches", lambda p: f"1-{p.largest_batch}"),
        rows.figures("batch 1", lambda p: seconds(p.latency(1))),
        rows.figures("best rate", lambda p: per_second(best_rate(p))),
    ]


def _fits(fits: Sequence[FitQuality | None]) -> list[Column]:
    """How latency was fitted and how far that errs; nothing where nobody fitted any."""
    if not any(fits):
        return []
    rows = Rows(fits)
    return [
        rows.words("fit", lambda f: f.form if f else "-"),
        rows.figures("fit errs", lambda f: _share(f.error_mean if f else None)),
        rows.figures("at worst", lambda f: f"{_share(f.error_max)}{_place(f)}" if f else "-"),
    ]


def _share(value: float | None) -> str:
    """`1.2 %`; `-` where it is not known."""
    return "-" if value is None else share(value, 1)


def _place(quality: FitQuality) -> str:
    return f" at {quality.error_max_at:g}" if quality.error_max_at else ""


def best_rate(profile: Profile) -> float:
    """Most samples per second at any batch size that was seen."""
    return max(n / profile.latency(n) for n in range(1, profile.largest_batch + 1))


def profile_show(profile: Profile, screen: Screen, measured: Mapping[str, Any] | None = None) -> str:
    """All figures of one profile and where they come from; `measured` is what its file holds besides."""
    raw = measured or {}
    made_on = part_of(raw, "provenance")
    in_place = made_on and "driver" not in made_on
    known = {
        "within main memory" if in_place else "from pinned memory": profile.load,
        "from pageable memory": profile.pageable_bytes_per_s and profile.load_from(WeightSource.PAGEABLE),
        "from disk": profile.disk_bytes_per_s and profile.load_from(WeightSource.DISK),
    }
    loading = ", ".join(f"{seconds(load(profile.weight_bytes))} {where}" for where, load in known.items() if load)
    facts = [
        f"Memory: {size_text(profile.weight_bytes)} of weights{_layers(profile)}; {profile.memory_evidence}. A plan"
        " reserves them and the workspace.",
        f"Loading: {loading}; {profile.load_evidence}.",
        *_beside_loading(profile, raw),
        f"Besides, a process holds {_context(profile)}.",
        f"Latency: {profile.latency_evidence}, {_spread(profile, raw)}.",
        *([f"Sessions: {_sessions(profile, raw)}."] if raw.get("sessions") else []),
        *([f"Fit: {_quality(profile.latency_fit)}."] if profile.latency_fit else []),
        f"Source: {profile.source} ({profile.as_of}).",
        *_evidence(raw),
        *(f"Assumed: {text}" for text in profile.assumptions),
        *(f"Doubt: {text}" for text in profile.doubts),
        *(
            f"Doubt of training with {name}: {text}"
            for name, texts in part_of(raw, "training_doubts").items()
            for text in texts
        ),
    ]
    head = f"{profile.model} on {profile.gpu}, {profile.precision}, {profile.runtime}"
    lead = [Table(_by_batch(profile, raw)), Table(_trained(part_of(raw, "training"))), Items(facts, bullets=False)]
    return terminal(Document(name=profile.model, headline=head, lead=lead), screen)


def _by_batch(profile: Profile, raw: Mapping[str, Any]) -> list[Column]:
    """A row for each batch size that was measured."""
    rows = Rows([int(x) for x in profile.latency.x])
    least_bytes = min(map(profile.workspace, rows.items))
    columns = [rows.figures("batch", str)]
    points = [batch_points(raw, n) for n in rows.items]
    if profile.latency_fit:
        of_batch = dict(zip(profile.latency.x, profile.latency.y, strict=True))
        seen = [all_runs_s(of) or y for of, y in zip(points, of_batch.values(), strict=True)]
        title = "with hiccups" if without_hiccups(raw, of_batch) else "measured"
        columns.append(Column(title, list(map(seconds, seen)), right=True))
    columns += [
        rows.figures("latency", lambda n: seconds(profile.latency(n))),
        rows.figures("rate", lambda n: per_second(n / profile.latency(n))),
        rows.figures("workspace", lambda n: size_text(profile.workspace(n), least_bytes)),
    ]
    slack = profile.slack
    if slack is not None:
        columns.append(rows.figures("of it slack", lambda n: size_text(slack(n))))
    return [*columns, *_of_points(points)]


def _trained(steps: Mapping[str, Any]) -> list[Column]:
    """A row for each optimizer and batch size whose training step was timed: whole, in a row, and its parts."""
    rows = Rows([(name, batch, step) for name in steps for batch, step in part_of(steps, name).items()])
    parts = {
        "step": "step_s",
        "in a row": "sustained_s",
        "forward": "forward_s",
        "backward": "backward_s",
        "update": "optimizer_s",
        "of the host": "host_s",
        "of kernels": "busy_s",
    }
    times = [
        Rows([numbers_in([step.get(name)]) for *_, step in rows.items]).figures(
            title, lambda s: seconds(*s) if s else "-"
        )
        for title, name in parts.items()
        if any(name in step for *_, step in rows.items)
    ]
    named = [rows.words("optimizer", lambda row: row[0]), rows.figures("batch", lambda row: row[1])]
    return [*named, *times] if times else []


def _of_points(points: Sequence[Sequence[Mapping[str, Any]]]) -> list[Column]:
    """Rates, energy and runs, of a profile that was measured here."""
    samples_s = [[s for point in of for s in numbers_in(part_of(point, "samples").get("wall_s"))] for of in points]
    columns = [
        _seen(points, "sustained_s", "in a row", seconds),
        _seen(points, "host_s", "of the host", seconds),
        _seen(points, "busy_s", "of kernels", seconds),
        _seen(points, "cold_s", "cold cache", seconds),
        _seen(points, "beside_load_s", "beside a load", seconds),
        _seen(points, "energy_j", "energy", lambda joules: f"{joules:.3g} J"),
    ]
    return [*(column for column in columns if column), *(_runs(samples_s) if any(samples_s) else [])]


def _seen(
    points: Sequence[Sequence[Mapping[str, Any]]], name: str, title: str, written: Callable[[float], str]
) -> Column | None:
    """A figure by batch size, the mean of all sessions; None where it was not measured."""
    rows = Rows([numbers_in([part_of(point, "values").get(name) for point in of]) for of in points])
    return rows.figures(title, lambda seen: written(fmean(seen)) if seen else "-") if any(rows.items) else None


def _runs(samples_s: Sequence[Sequence[float]]) -> list[Column]:
    """How often each batch size was run, and how its times spread."""
    rows = Rows(samples_s)
    return [
        rows.figures("runs", lambda s: str(len(s))),
        rows.figures("p95", lambda s: _reached(s, 0.95)),
        rows.figures("p99", lambda s: _reached(s, 0.99)),
        rows.figures("cv", lambda s: f"{stdev(s) / fmean(s):.2g}" if len(s) > 1 else "-"),
    ]


def _reached(samples_s: Sequence[float], part: float) -> str:
    """The time that so large a part of the runs kept to."""
    return seconds(sorted(samples_s)[ceil(part * len(samples_s)) - 1]) if samples_s else "-"


def _sessions(profile: Profile, raw: Mapping[str, Any]) -> str:
    """`3, whose times differ by 4.0 % between sessions; another is expected within 4.6 %, one standard deviation`."""
    spreads = [f"{share(cv, 1)} between {level}" for level, cv in part_of(raw, "spread_cv").items()]
    differ = f", whose times differ by {', '.join(spreads)}" if spreads else ""
    coming = f"another is expected within {share(profile.session_cv, 1)}, one standard deviation"
    levels = numbers_in([one.get("level") for one in raw["sessions"]])
    ends = f" at {min(levels):.3g} to {max(levels):.3g} times the usual time" if levels else ""
    return f"{len(raw['sessions'])}{ends}{differ}; {coming}"


def _spread(profile: Profile, raw: Mapping[str, Any]) -> str:
    """`coefficient of variation 0.03`; of batches that mostly ran once that it is not known."""
    points = [point for n in profile.latency.x for point in batch_points(raw, n)]
    runs = [len(numbers_in(part_of(point, "samples").get("wall_s"))) for point in points]
    if any(runs) and median(filter(None, runs)) < 2:
        return "and how far runs differ is not known: most batches ran once"
    drawn = ", ".join(str(batch) for batch, _ in profile.latency_factors)
    replayed = f"; replays draw from the runs themselves, of batch {drawn}" if drawn else ""
    return f"coefficient of variation {profile.latency_cv:.2g}{replayed}"


def _context(profile: Profile) -> str:
    """`0.52 GB, measured`."""
    if profile.context_bytes is None:
        return f"{size_text(CONTEXT_BYTES)}, assumed"
    return f"{size_text(profile.context_bytes)}, measured"


def _beside_loading(profile: Profile, raw: Mapping[str, Any]) -> list[str]:
    """What swapping and unloading cost, what a batch takes under load, and power; of several sessions the last."""
    points = part_of((raw.get("sessions") or [raw])[-1], "points")
    facts = [*_unloading(part_of(points, "load", "0")), *_soaked(part_of(points, "soak"))]
    if swapping := profile.after_load:
        ratios = f"a batch right after it takes {swapping.batch_ratio:.2f} times as long"
        facts.append(f"Swapping: a load takes {swapping.load_ratio:.2f} times as long, {ratios}.")
    if profile.beside_load > 1:
        facts.append(f"A batch and a load beside it take {profile.beside_load:.2f} times as long while both run.")
    if profile.busy_w:
        facts.append(f"Power: {profile.busy_w:.3g} W while it runs.")
    return facts


def _unloading(point: Mapping[str, Any]) -> list[str]:
    unload_s = numbers_in(part_of(point, "samples").get("unload_s"))
    cold_s = numbers_in(part_of(point, "details").get("allocating_s"))
    peak = numbers_in([part_of(point, "values").get("load_peak_bytes")])
    if not unload_s or not cold_s:
        return []
    held = f", holding {size_text(peak[0])} at most" if peak else ""
    cold = f"a load into memory that must first be allocated {seconds(median(cold_s))}"
    return [f"Unloading: {seconds(median(unload_s))}; {cold}{held}."]


def _soaked(by_batch: Mapping[str, Any]) -> list[str]:
    """`Under load for long: batch 32 takes 51.2 ms, at first 47.0 ms.`"""
    values = {batch: part_of(by_batch, batch, "values") for batch in by_batch}
    ends = {batch: numbers_in([seen.get("sustained_s"), seen.get("first_s")]) for batch, seen in values.items()}
    return [
        f"Under load for long: batch {batch} takes {seconds(pair[0])}, at first {seconds(pair[1])}."
        for batch, pair in ends.items()
        if len(pair) == 2
    ]


def _layers(profile: Profile) -> str:
    return f" in {counted(len(profile.layers), 'layer')}" if len(profile.layers) > 1 else ""


def _quality(quality: FitQuality) -> str:
    """`joined; batches left out were predicted within 1.2 % on average; it errs by 3.3 % at worst, ...`."""
    mean, worst, band = (_share(value) for value in (quality.error_mean, quality.error_max, quality.band))
    known = {
        f"batches left out were predicted within {mean} on average": quality.error_mean,
        f"it errs by {worst} at worst, at batch {quality.error_max_at or 0:g}": quality.error_max,
        f"90 % of other batches are expected within {band}": quality.band,
    }
    return "; ".join([quality.form, *(text for text, value in known.items() if value is not None)])


def _evidence(raw: Mapping[str, Any]) -> list[str]:
    """The making of a measured profile, as its file has it. What is not as expected is not shown."""
    facts = {
        "Measured on": ", ".join(_provenance(part_of(raw, "provenance"))),
        "Computed in": ", ".join(_in_force(raw)),
        "Bound by": "; ".join(_regimes(part_of(raw, "regime"))),
        "Largest batch": "; ".join(_limits(part_of(raw, "limits"))),
        **{f"Fit of {name}": _fit(part_of(raw, "fits", name)) for name in part_of(raw, "fits") if name != "latency"},
    }
    return [f"{what}: {text}." for what, text in facts.items() if text]


def _provenance(raw: Mapping[str, Any]) -> list[str]:
    of_gpu = {"driver": "driver ", "cuda": "CUDA ", "cudnn": "cuDNN "} if raw.get("driver") else {}
    words = {"gpu_name": "", **of_gpu, "torch": "torch ", "date": "on "}
    return [f"{word}{str(raw[key])[:60]}" for key, word in words.items() if raw.get(key) not in (None, "")]


def _in_force(raw: Mapping[str, Any]) -> list[str]:
    """`convolutions in tf32, products in ieee`: what torch said while batches were timed."""
    by_batch = part_of((raw.get("sessions") or [raw])[-1], "points", "latency")
    found = next((part_of(by_batch, batch, "details", "regime") for batch in by_batch), {})
    kinds = [f"{what} in {found[what]}" for what in ("convolutions", "products") if found.get(what)]
    return [*kinds, *([f"autocast to {found['autocast']}"] if found.get("autocast") else [])]


def _regimes(raw: Mapping[str, Any]) -> list[str]:
    """`overhead up to batch 4`, `bandwidth from batch 8 on`: by the smallest and largest measured batch of each."""
    known = {int(batch): str(regime) for batch, regime in raw.items() if str(batch).isdigit()}
    of = {regime: [b for b in known if known[b] == regime] for regime in known.values()}
    return [f"{regime} at {_span(sorted(batches), sorted(known))}" for regime, batches in of.items()]


def _span(some: Sequence[int], known: Sequence[int]) -> str:
    """`batch 4`, `batches 1 to 8` where all measured ones between are among them, else `batches 1, 4`."""
    if len(some) == 1:
        return f"batch {some[0]}"
    between = [batch for batch in known if some[0] <= batch <= some[-1]]
    return f"batches {some[0]} to {some[-1]}" if between == list(some) else f"batches {', '.join(map(str, some))}"


def _limits(raw: Mapping[str, Any]) -> list[str]:
    """`inference 64, and 128 did not fit`; `inference 32, and no larger one was tried`; `inference 2, and 4 was tried
    and failed (ValueError: too many)`."""
    ends = {phase: part_of(raw, phase) for phase in raw}
    return [f"{phase} {end.get('fits', 'none')}, and {_past(end)}" for phase, end in ends.items() if end]


def _past(end: Mapping[str, Any]) -> str:
    """What came of batches past the largest."""
    ended = part_of(end, "ended")
    how = ENDED.get(str(ended.get("how")), "failed")
    why = one_line(str(ended.get("why") or "no reason given"), 200)
    failed = [f"{ended.get('batch')} was tried and {how} ({why})"] if ended else []
    too_large = [f"{end['fails']} did not fit"] if "fails" in end else []
    return " and ".join([*failed, *too_large]) or "no larger one was tried"


def _fit(raw: Mapping[str, Any]) -> str:
    errors = {
        key: next(iter(numbers_in([raw.get(key)])), None) for key in ("error_mean", "error_max", "error_max_at", "band")
    }
    return _quality(FitQuality(form=str(raw["form"]), **errors)) if raw.get("form") else ""
