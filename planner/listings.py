"""Listings: profiles, prices and recordings for people to look at."""

from collections.abc import Sequence
from datetime import date

from calibrate.library import Library
from planner.catalog import Catalog, Instance, Price, Purchase, stale
from planner.layout import Column, Screen, counted, dollars, gigabytes, per_second, seconds, table
from planner.scenario import PriceKind
from planner.trace import TraceSummary
from planner.units import did_you_mean
from simulator.profile import Profile


class ListingError(ValueError):
    """Something asked for that is not known, in one line."""


def profile_list(profiles: Sequence[Profile], screen: Screen) -> str:
    """One line for each profile."""
    columns = [
        Column("model", [p.model for p in profiles]),
        Column("GPU", [p.gpu for p in profiles]),
        Column("precision", [p.precision for p in profiles]),
        Column("batches", [f"1-{p.largest_batch}" for p in profiles], right=True),
        Column("batch 1", [seconds(p.latency(1)) for p in profiles], right=True),
        Column("best rate", [per_second(best_rate(p)) for p in profiles], right=True),
        Column("weights", [gigabytes(p.weight_bytes) for p in profiles], right=True),
        Column("load", [seconds(p.load(p.weight_bytes)) for p in profiles], right=True),
        Column("latency is", [p.latency_evidence for p in profiles]),
        Column("loading is", [p.load_evidence for p in profiles]),
    ]
    return "\n".join(table(columns, screen, indent=0)) + "\n"


def best_rate(profile: Profile) -> float:
    """Most samples per second at any batch size that was seen."""
    return max(n / profile.latency(n) for n in range(1, profile.largest_batch + 1))


def profile_show(profile: Profile, screen: Screen) -> list[str]:
    """All figures of one profile and where they come from."""
    batches = [int(x) for x in profile.latency.x]
    columns = [
        Column("batch", [str(n) for n in batches], right=True),
        Column("latency", [seconds(profile.latency(n)) for n in batches], right=True),
        Column("rate", [per_second(n / profile.latency(n)) for n in batches], right=True),
        Column("workspace", [gigabytes(profile.workspace(n)) for n in batches], right=True),
    ]
    facts = [
        f"Memory: {gigabytes(profile.weight_bytes)} of weights; {profile.memory_evidence}.",
        f"Loading: {seconds(profile.load(profile.weight_bytes))} from pinned memory; {profile.load_evidence}.",
        f"Latency: {profile.latency_evidence}, coefficient of variation {profile.latency_cv:.2g}.",
        f"Source: {profile.source} ({profile.as_of}).",
        *(f"Assumed: {text}" for text in profile.assumptions),
        *(f"Doubt: {text}" for text in profile.doubts),
    ]
    head = screen.bold(f"{profile.model} on {profile.gpu}, {profile.precision}")
    return [head, *table(columns, screen), *(line for fact in facts for line in screen.wrap(fact, 2, 2))]


def choose(library: Library, model: str, gpu: str | None) -> tuple[Profile, ...]:
    """Profiles of a model on a GPU, or on all there are; ListingError where there is none."""
    of_model = library.for_model(model)
    if not of_model:
        raise ListingError(
            f"no profile of `{model}`.{did_you_mean(model, list(library.models()))} See `profiles list`."
        )
    chosen = tuple(p for p in of_model if gpu in (None, p.gpu))
    if not chosen:
        raise ListingError(
            f"no profile of `{model}` on `{gpu}`. Known: {', '.join(sorted({p.gpu for p in of_model}))}."
        )
    return chosen


def choose_purchases(catalog: Catalog, gpu: str | None, provider: str | None) -> list[Purchase]:
    """Machines with a GPU that can be bought; none where a provider's rents are asked for."""
    return [] if provider else [p for p in catalog.purchases if gpu in (None, p.gpu)]


def choose_instances(catalog: Catalog, gpu: str | None, provider: str | None) -> list[Instance]:
    """Instances with a GPU, of a provider; ListingError where there is none."""
    chosen = [i for i in catalog.instances if gpu in (None, i.gpu) and provider in (None, i.provider)]
    if not chosen and not choose_purchases(catalog, gpu, provider):
        kinds, providers = sorted({i.gpu for i in catalog.instances}), sorted({i.provider for i in catalog.instances})
        asked = " ".join(word for word in (gpu, provider) if word)
        raise ListingError(f"no price of `{asked}`. Known: {', '.join(kinds)}; of {', '.join(providers)}.")
    return chosen


def price_list(catalog: Catalog, wanted: Sequence[Instance], screen: Screen) -> str:
    """One line for each instance, cheapest GPU first."""
    rows = sorted(wanted, key=lambda i: (per_gpu(i), i.name, i.region))
    columns = [
        Column("instance", [i.name for i in rows]),
        Column("provider", [f"{i.provider} {i.region}" for i in rows]),
        Column("GPUs", [f"{i.gpu_count} x {i.gpu}" for i in rows]),
        Column(
            "memory", [f"{i.gpu_count} x {catalog.gpus[i.gpu].memory_bytes / 1e9:.0f} GB" for i in rows], right=True
        ),
        *(Column(kind, [hourly(i.prices.get(kind)) for i in rows], right=True) for kind in PriceKind),
        Column("status", [i.status for i in rows]),
        Column("as of", [oldest(i) for i in rows]),
    ]
    return "\n".join(table(columns, screen, indent=0)) + "\n"


def purchase_list(wanted: Sequence[Purchase], screen: Screen) -> str:
    """One line for each machine that can be bought, cheapest GPU first; nothing where there is none."""
    rows = sorted(wanted, key=lambda p: (p.usd / p.gpu_count, p.machine))
    columns = [
        Column("to buy", [p.machine for p in rows]),
        Column("GPUs", [f"{p.gpu_count} x {p.gpu}" for p in rows]),
        Column("price", [dollars(p.usd) for p in rows], right=True),
        Column("each GPU", [dollars(p.usd / p.gpu_count) for p in rows], right=True),
        Column("as of", [p.as_of for p in rows]),
    ]
    return "\n".join(table(columns, screen, indent=0)) + "\n" if rows else ""


def hourly(price: Price | None) -> str:
    """`$0.526`, `$0.158-0.210`, or `-` where nobody says."""
    if price is None:
        return "-"
    if price.usd_per_hour_range is None:
        return dollars(price.usd_per_hour)
    low, high = price.usd_per_hour_range
    return f"{dollars(low)}-{high:.2f}"


def per_gpu(instance: Instance) -> float:
    """Lowest price of one of its GPUs, dollars an hour."""
    return min(price.usd_per_hour for price in instance.prices.values()) / instance.gpu_count


def oldest(instance: Instance) -> str:
    """Date of the oldest of its prices."""
    return min(price.as_of for price in instance.prices.values())


def price_status(catalog: Catalog, today: date, screen: Screen) -> str:
    """How old the prices are, by provider and date."""
    dated = [(i.provider, p.as_of, p.source) for i in catalog.instances for p in i.prices.values()]
    dated += [("to buy", p.as_of, p.source) for p in catalog.purchases]
    groups = sorted(set(dated))
    columns = [
        Column("provider", [provider for provider, _, _ in groups]),
        Column("as of", [as_of for _, as_of, _ in groups]),
        Column("days", [str((today - date.fromisoformat(as_of)).days) for _, as_of, _ in groups], right=True),
        Column("state", ["STALE" if stale(as_of, today) else "fresh" for _, as_of, _ in groups]),
        Column("prices", [str(dated.count(group)) for group in groups], right=True),
        Column("source", [source for _, _, source in groups]),
    ]
    old = frozenset(i for i, (_, as_of, _) in enumerate(groups) if stale(as_of, today))
    remedy = ["", "Stale prices mislead: put newer ones into a prices.yaml and name its directory with --catalog."]
    return "\n".join([*table(columns, screen, indent=0, bad=old), *(remedy if old else [])]) + "\n"


def trace_summary(name: str, summary: TraceSummary, screen: Screen) -> str:
    """What a recording is like, and how to use it."""
    windows = [
        f"  {counted(w.count, 'arrival')} in {w.length_s:g} s from {w.start_s:,.0f} s "
        f"({per_second(w.count / w.length_s)})"
        for w in summary.busiest
    ]
    peaks = [("second", summary.peak_to_mean_1s)] if summary.duration_s >= 1 else []
    peaks += [("minute", summary.peak_to_mean_1min)] if summary.duration_s >= 60 else []
    times = ", ".join(f"the busiest {unit} {peak:.1f} times" for unit, peak in peaks)
    lines = [
        screen.bold(f"{name}: {summary.count:,} arrivals in {summary.duration_s:,.1f} s"),
        f"Mean rate {per_second(summary.mean_rate_rps)}; cv of gaps {summary.gap_cv:.2f} (1: Poisson, more: bursty).",
        *([f"Against the mean, {times}."] if peaks else []),
        *(["Busiest windows:", *windows] if windows else []),
    ]
    return "\n".join(lines) + "\n"
