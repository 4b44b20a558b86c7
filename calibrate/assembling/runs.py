"""Runs of a batch: what it takes, and what disturbed them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from calibrate.assembling.figures import DIGITS, short, short_by_batch
from calibrate.assembling.measured import Measured
from calibrate.devices.nvml import OVERHEATED
from calibrate.io.points import HICCUP, HICCUPS_MAX, PointOutcome, What, often_held_up, usual
from calibrate.library import fit

POWER_CAP = "sw_power_cap"
HELD_UP = "held_up"
"""Of a point that was pooled of several sessions: the largest share of hiccups in one of them."""
HICCUPS_OK = 0.02
"""Share of runs that may be held up: fewer say little."""
LOAD_OK = 0.03
"""Share by which load may slow a batch down and count as noise."""
CLOCK_FALL = 0.05
"""Share by which a clock may fall while a batch is timed."""


def under_load(m: Measured, alone: Mapping[int, float]) -> tuple[dict[int, float], list[str]]:
    """Seconds of a batch on a device that never rests, by batch, and what that says of times alone (`alone`).

    Plans load a device, so its time alone counts only where it is the longer one. Where a row is shorter, the host
    queued a batch while the one before ran, which a server that waits for each batch does not.
    """
    times = m.by_batch(What.LATENCY)
    slower = slower_by(m)
    loaded = {batch: _loaded_s(alone_s, times[batch], slower) for batch, alone_s in alone.items()}
    longer = {batch: time_s / alone[batch] - 1 for batch, time_s in loaded.items() if time_s > alone[batch]}
    if not longer:
        return loaded, []
    figures = f"up to {max(longer.values()):.0%} above those of a batch alone"
    why = "back to back" + (f", with kernels {slower - 1:.0%} slower after long load" if slower > 1 else "")
    return loaded, [f"{fit.named_batches(list(longer))}: times are those under load, {figures}: {why}."]


def _loaded_s(alone_s: float, outcome: PointOutcome, slower: float) -> float:
    """The longer of alone and in a row, where they differ by more than a row spreads; its kernels are `slower`.

    10 ms alone, 10.1 in a row, of which kernels take 8, that are 1.25 times slower under load: 12 ms.
    """
    windows_s = outcome.samples.get("sustained_s", ())
    row_s = median(windows_s) if windows_s else alone_s
    differs = row_s > alone_s * (1 + max(LOAD_OK, fit.coefficient_of_variation(windows_s)))
    time_s = row_s if differs else alone_s
    return time_s + (slower - 1) * min(time_s, outcome.values.get("busy_s", time_s))


def slower_by(m: Measured) -> float:
    """Time of kernels under load for long over that of a first second: 1 where a soak showed no more than noise."""
    soak = m.one(What.SOAK)
    if soak is None:
        return 1.0
    timed = m.by_batch(What.LATENCY).get(soak.point.batch)
    row_s = timed.samples.get("sustained_s", ()) if timed else ()
    firsts_s = [soak.values["first_s"], *([median(row_s)] if row_s else [])]
    ratio = soak.values["sustained_s"] / min(firsts_s)
    return ratio if ratio > 1 + LOAD_OK else 1.0


def pace_s(outcome: PointOutcome) -> float:
    """Seconds of a batch or a step of a point that was timed, as its profile has them but for what a soak adds."""
    match outcome.point.what:
        case What.LATENCY:
            return _loaded_s(fmean(counted_runs(outcome)), outcome, slower=1.0)
        case What.TRAINING:
            return median(outcome.samples.get("sustained_s") or outcome.samples["step_s"])
    return outcome.values["sustained_s"]


def counted_runs(outcome: PointOutcome) -> Sequence[float]:
    """Times of an inference batch without hiccups, which runs pooled of several sessions have lost already."""
    runs_s = outcome.samples["wall_s"]
    return runs_s if HELD_UP in outcome.details else usual(runs_s)


def counted(times: Mapping[int, PointOutcome]) -> dict[int, Sequence[float]]:
    """Times that count of the inference batches of one curve: hiccups are left out at all sizes, or at none.

    Longer batches are held up more often. Left out only where they are few, hiccups of a busy machine would give the
    curve a step where they become many: 0.2, 0.7 and 1.1 ms with medians of 0.2, 0.23 and 0.33.
    """
    if _often(times):
        return {batch: outcome.samples["wall_s"] for batch, outcome in times.items()}
    return {batch: counted_runs(outcome) for batch, outcome in times.items()}


def as_counted(times: Mapping[int, PointOutcome]) -> dict[int, PointOutcome]:
    """The batches of one curve with only the times that count, and the share that was left out."""
    made = {}
    for batch, runs_s in counted(times).items():
        outcome = times[batch]
        left_out = 0.0 if _often(times) else held_up(outcome)
        made[batch] = replace(
            outcome,
            samples={**outcome.samples, "wall_s": runs_s},
            details={**outcome.details, HELD_UP: left_out},
        )
    return made


def _often(times: Mapping[int, PointOutcome]) -> list[int]:
    """Batches that were held up so often that this is how the device is."""
    return [batch for batch, o in times.items() if HELD_UP not in o.details and often_held_up(o.samples["wall_s"])]


def held_up(outcome: PointOutcome) -> float:
    """Share of the runs of an inference batch that were hiccups."""
    runs_s = outcome.samples["wall_s"]
    return float(outcome.details.get(HELD_UP, 1 - len(usual(runs_s)) / len(runs_s)))


def disturbances(times: Mapping[int, PointOutcome]) -> list[str]:
    """Hiccups, clocks that fell or were held down, and other processes, while batches were timed."""
    return [*slow_clocks(times), *_hiccups(times)]


def slow_clocks(times: Mapping[int, PointOutcome]) -> list[str]:
    """Clocks that fell or were held down, and other processes, while batches or steps were timed."""
    found = []
    slowing = {*OVERHEATED, POWER_CAP}
    reasons = {batch: slowing.intersection(o.details.get("slow_reasons") or ()) for batch, o in times.items()}
    if lowered := [batch for batch, each in reasons.items() if each]:
        listed = ", ".join(sorted(set[str]().union(*reasons.values())))
        remedy = "expect the same in use, or raise the power limit, cool the device, and measure again"
        found.append(f"{fit.named_batches(lowered)}: clocks were held down under load ({listed}); {remedy}.")
    falls = {batch: _clock_fall(outcome.values) for batch, outcome in times.items()}
    if fell := [batch for batch, share in falls.items() if share > CLOCK_FALL]:
        worst = f"the clock fell by up to {max(falls.values()):.0%} during the runs"
        found.append(f"{fit.named_batches(fell)}: {worst}; cool the device or lock its clocks, and measure again.")
    if shared := [batch for batch, outcome in times.items() if outcome.values.get("other_processes")]:
        found.append(f"{fit.named_batches(shared)}: another process was on the device; end it and measure again.")
    return found


def _hiccups(times: Mapping[int, PointOutcome]) -> Iterator[str]:
    held = {batch: held_up(outcome) for batch, outcome in times.items()}
    if many := [batch for batch, share in held.items() if share > HICCUPS_OK]:
        remedy = "find what else runs there, or expect them in use"
        often = _often(times)
        at = fit.named_batches(often).lower()
        why = f"count all the same, for at {at} more than {HICCUPS_MAX:.0%} took over {HICCUP} times the median"
        result = why if often else "do not count"
        most = f"{max(held.values()):.0%}"
        yield f"{fit.named_batches(many)}: up to {most} of runs were held up and {result}; {remedy}."


def host_bound(times: Mapping[int, PointOutcome]) -> list[str]:
    """Batches that the host queues more slowly than the device runs them: the figures are of that host."""
    known = _known_apart(times)
    bound = [batch for batch, by_host in held_by_host(times).items() if by_host]
    if not bound:
        return []
    first = known[bound[0]]
    figures = f"{first['host_s'] * 1e3:.3g} ms beside {first['busy_s'] * 1e3:.3g} ms of kernels at batch {bound[0]}"
    remedy = "measure on the host that will serve, or with --cuda-graph or --compile"
    return [
        f"{fit.named_batches(bound)}: the host queues a batch more slowly than the GPU runs it ({figures}); {remedy}."
    ]


def times_apart(times: Mapping[int, PointOutcome], slower: float) -> dict[str, dict[str, float]]:
    """Seconds of a batch that are the host's, and that are kernels' under load, by batch."""
    known = _known_apart(times)
    if not known:
        return {}
    return {
        "host_s": short_by_batch({batch: values["host_s"] for batch, values in known.items()}),
        "busy_s": short_by_batch({batch: slower * values["busy_s"] for batch, values in known.items()}),
    }


def held_by_host(times: Mapping[int, PointOutcome]) -> dict[int, bool]:
    """Whether the host queues a batch more slowly than its kernels run, where that was measured."""
    return {batch: values["host_s"] > values["busy_s"] for batch, values in _known_apart(times).items()}


def _known_apart(times: Mapping[int, PointOutcome]) -> dict[int, Mapping[str, float]]:
    return {batch: o.values for batch, o in times.items() if {"host_s", "busy_s"} <= o.values.keys()}


def times_beside_load(m: Measured, times: Mapping[int, PointOutcome]) -> dict[str, float]:
    """How many times as long a batch and a load take while both run, where that is more than noise.

    What they took beyond the longer of the two, over the shorter, which they share; of all batch sizes together. A
    batch of 10 ms and a load of 4 ms that are both done after 12: 1 + 2 / 4.
    """
    loaded = m.one(What.LOAD)
    if loaded is None or not loaded.samples.get("pinned_s"):
        return {}
    load_s = median(loaded.samples["pinned_s"])
    runs_s = counted(times)
    seen = [
        (fmean(runs_s[batch]), o.values["beside_load_s"]) for batch, o in times.items() if "beside_load_s" in o.values
    ]
    shared_s = sum(min(alone_s, load_s) for alone_s, _ in seen)
    beyond_s = sum(both_s - max(alone_s, load_s) for alone_s, both_s in seen)
    if beyond_s <= LOAD_OK * shared_s:
        return {}
    return {"beside_load": short(min(2.0, 1 + beyond_s / shared_s), DIGITS)}


def _clock_fall(values: Mapping[str, float]) -> float:
    start, end = values.get("clock_start_mhz"), values.get("clock_end_mhz")
    return 1 - end / start if start and end is not None else 0.0
