"""Catalog: kinds of GPU and dated prices, where a user's own files overlay the shipped ones."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TypeVar

from planner.catalog.files import (
    SHIPPED,
    CatalogFile,
    GpuEntry,
    GpuFile,
    Place,
    PriceEntry,
    PriceFile,
    SaleStatus,
    read_all,
)
from planner.catalog.mig import slices
from planner.catalog.price_table import Key, read_table
from planner.catalog.sold import (
    ANY_REGION,
    OWN,
    OWN_IS_NO_PROVIDER,
    Instance,
    Price,
    Purchase,
    is_to_come,
    not_yet,
    stale,
    usual_days,
)
from planner.model.choices import PriceKind
from planner.model.statement import Code, Statement
from planner.units.reading import HOURS_PER_YEAR, perhaps
from simulator.errors import InputError
from simulator.grouping import grouped
from simulator.world.hardware import GPU

K = TypeVar("K")
V = TypeVar("V")

PRICE_FILES = ("prices.yaml", "prices.csv")
"""Files of prices in a folder, which count together."""
TERM_HOURS = {PriceKind.RESERVED_1Y: HOURS_PER_YEAR, PriceKind.RESERVED_3Y: 3 * HOURS_PER_YEAR}


class CatalogError(InputError):
    """A catalog, or a wish that it cannot meet; one line for each thing that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalog:
    """Everything known about what can be had."""

    gpus: Mapping[str, GPU]
    instances: tuple[Instance, ...]
    purchases: tuple[Purchase, ...]
    assumptions: tuple[Statement, ...]
    """Assumptions of the files."""


def load_catalog(directories: Sequence[Path] = ()) -> Catalog:
    """The catalog of `directories` and of what is shipped; the first that has a GPU or an instance wins."""
    return _read_catalog((*directories, SHIPPED)) if directories else _shipped()


@cache
def _shipped() -> Catalog:
    """What is shipped does not change while the program runs."""
    return _read_catalog((SHIPPED,))


def _read_catalog(places: Sequence[Path]) -> Catalog:
    errors: list[str] = []
    gpu_files = read_all([place / "gpus.yaml" for place in places], GpuFile, errors)
    price_files = read_all([place / "prices.yaml" for place in places], PriceFile, errors)
    names = ("gpus.yaml", *PRICE_FILES)
    empty = [place for place in places if not any((place / name).exists() for name in names)]
    errors += [f"{place}: holds neither gpus.yaml nor prices.yaml. Name a directory that does." for place in empty]
    demand_none(errors)
    gpus = _first_wins([_gpus(file) for file in gpu_files])
    gpus = gpus | {name: gpu for name, gpu in slices(SHIPPED / "mig.csv", gpus).items() if name not in gpus}
    for file in price_files:
        file.expect_gpus(gpus)
    _expect_chips(gpu_files)
    _expect_days(price_files)
    instances = _with_host_memory([_layer(place, price_files, gpus, errors) for place in places])
    purchases = _first_wins([_purchases(file) for file in price_files])
    demand_none(errors)
    return Catalog(
        gpus=gpus,
        instances=tuple(instances.values()),
        purchases=tuple(purchases.values()),
        assumptions=tuple(_assumed(gpu_files)),
    )


def demand_none(errors: Sequence[str]) -> None:
    """CatalogError with all of them, a line each, if there are any."""
    if errors:
        raise CatalogError("\n".join(errors))


def _layer(place: Path, files: Sequence[CatalogFile], gpus: Collection[str], errors: list[str]) -> dict[Key, Instance]:
    """Instances of a directory: of its prices.yaml and its prices.csv."""
    known = [_instances(file) for file in files if file.path.parent == place]
    table = place / "prices.csv"
    listed = read_table(table, gpus, errors) if table.exists() else {}
    named = _first_wins(known)
    for key in named.keys() & listed.keys():
        one, other = named[key], listed[key]
        if _machine(one) != _machine(other):
            has = f"has {other.gpu_count} x {other.gpu}, in prices.yaml {one.gpu_count} x {one.gpu}"
            errors.append(f"{table}: {one.name} of {one.provider} {one.region} {has}. Keep one.")
    return _as_asked_since(_with_newer(named, listed))


def _machine(one: Instance) -> tuple[str, str, str, int]:
    """What is the same machine in all regions."""
    return one.provider, one.name, one.gpu, one.gpu_count


def _as_asked_since(known: Mapping[Key, Instance]) -> dict[Key, Instance]:
    """The same, but an old price gives way to a newer and dearer one of the same machine, or of as many such GPUs where
    the provider's list has no machine (`unclear`: an average, or where it starts).

    Who plans with what was asked two years ago cannot buy at it.
    """
    alike = grouped(((one.provider, one.gpu, one.gpu_count), one) for one in known.values())
    return {
        key: replace(
            one,
            prices={
                kind: _asked_since(one, kind, price, alike[one.provider, one.gpu, one.gpu_count])
                for kind, price in one.prices.items()
            },
        )
        for key, one in known.items()
    }


def _asked_since(one: Instance, kind: PriceKind, price: Price, alike: Sequence[Instance]) -> Price:
    """The price of a machine, or what its provider asks since for the like."""
    if price.status is not SaleStatus.ACTIVE:
        return price
    since = [other.prices[kind] for other in alike if kind in other.prices and _stands_for(other, one, kind)]
    newest = max(since, key=lambda other: other.as_of, default=price)
    old = stale(price.as_of, date.fromisoformat(newest.as_of), usual_days(one.provider))
    if not old or newest.usd_per_hour <= price.usd_per_hour:
        return price
    was = f"{one.name} itself was ${price.usd_per_hour:g}/h on {price.as_of}"
    return replace(newest, source=f"{newest.source}; {was}", status=price.status)


def _stands_for(other: Instance, one: Instance, kind: PriceKind) -> bool:
    """Whether it is the same machine, or what stands for all machines with such GPUs, where that one is."""
    status = other.status_at(kind)
    is_same = status is SaleStatus.ACTIVE and other.name == one.name
    is_there = other.region == one.region or ANY_REGION in (one.region, other.region)
    return is_there and (is_same or status is SaleStatus.UNCLEAR)


def _with_host_memory(layers: Sequence[dict[Key, Instance]]) -> dict[Key, Instance]:
    """All of them, the first of each name; of a machine whose list does not say how much memory it has, what is said of
    it in other regions: the least that the first directory says which says any."""
    said: list[dict[tuple[str, str, str, int], int]] = []
    for layer in layers:
        known = ((_machine(one), one.host_memory_bytes) for one in layer.values() if one.host_memory_bytes)
        said.append(dict(sorted(known, reverse=True)))
    anywhere = _first_wins(said)
    return {
        key: replace(one, host_memory_bytes=one.host_memory_bytes or anywhere.get(_machine(one)))
        for key, one in _first_wins(layers).items()
    }


def _with_newer(known: dict[Key, Instance], table: Mapping[Key, Instance]) -> dict[Key, Instance]:
    """Instances and those of a table; of one that both have, each kind of price is the newer one, and memory is what
    either says. What is no longer sold is so at all its prices."""
    merged = dict(table) | known
    for key in known.keys() & table.keys():
        one, other = known[key], table[key]
        newer = {
            kind: price if one.status is SaleStatus.ACTIVE else replace(price, status=one.status)
            for kind, price in other.prices.items()
            if kind not in one.prices or price.as_of > one.prices[kind].as_of
        }
        host_memory_bytes = one.host_memory_bytes or other.host_memory_bytes
        merged[key] = replace(one, prices={**one.prices, **newer}, host_memory_bytes=host_memory_bytes)
    return merged


def load_prices(path: Path) -> tuple[Instance, ...]:
    """Instances of a file of prices, or of those in a directory; their kinds of GPU need not be known."""
    files_there = [path / name for name in PRICE_FILES] if path.is_dir() else [path]
    found = [file for file in files_there if file.exists()]
    errors: list[str] = []
    if not found and path.is_dir():
        errors.append(f"{path}: holds neither prices.yaml nor prices.csv. Name a directory that does.")
    elif not found:
        errors.append(f"{path}: no such file. Name a file like the shipped prices.yaml.")
    tables = [file for file in found if file.suffix.lower() == ".csv"]
    files = read_all([file for file in found if file not in tables], PriceFile, errors)
    _expect_days(files)
    known = [_instances(file) for file in files]
    listed = [read_table(table, None, errors) for table in tables]
    demand_none(errors)
    return tuple(_with_newer(_first_wins(known), _first_wins(listed)).values())


def _first_wins(layers: Sequence[dict[K, V]]) -> dict[K, V]:
    merged: dict[K, V] = {}
    for layer in layers:
        merged = layer | merged
    return merged


def _expect_chips(files: Sequence[CatalogFile]) -> None:
    """Notes an error for each chip that no other kind has; what is shipped may have a kind alone of its chip."""
    kinds = [(file, name, entry.chip or "") for file in files for name, entry in file.entries.gpus.items()]
    known = Counter(word for _, *names in kinds for word in names)
    for file, name, chip in kinds:
        if chip and known[chip] == 1 and file.path.parent != SHIPPED:
            hint = perhaps(chip, known.keys() - {chip, ""}) or " Name a kind that has it, or leave it out."
            file.say(("gpus", name, "chip"), f"`{chip}` is neither a kind nor the chip of another.{hint}")


def _expect_days(files: Sequence[CatalogFile]) -> None:
    """Notes an error for each source that is yet to come: its prices would never grow old."""
    for file in files:
        for name, source in file.entries.sources.items():
            if is_to_come(source.as_of) and file.path.parent != SHIPPED:
                file.say(("sources", name, "as_of"), not_yet(source.as_of))


def _gpus(file: CatalogFile) -> dict[str, GPU]:
    idle_share = file.entries.assumed_idle_share_of_tdp
    for name, entry in file.entries.gpus.items():
        if entry.idle_w is None and idle_share is None:
            file.say(("gpus", name), "has no idle_w. Write it, or assumed_idle_share_of_tdp for the whole file.")
    return {
        name: _gpu(name, entry, file.entries.source, idle_share or 0.0) for name, entry in file.entries.gpus.items()
    }


def _scaled(figure: float | None, unit: float) -> float | None:
    return figure and figure * unit


def _gpu(name: str, entry: GpuEntry, source: str, idle_share: float) -> GPU:
    source = entry.source or source
    return GPU(
        name=name,
        chip=entry.chip or "",
        memory_bytes=round(entry.memory_gb * 1e9),
        memory_bytes_per_s=entry.memory_bandwidth_gb_per_s * 1e9,
        fp32_flops=entry.fp32_tflops * 1e12,
        tensor_fp16_flops=_scaled(entry.tensor_fp16_tflops, 1e12),
        tensor_tf32_flops=_scaled(entry.tensor_tf32_tflops, 1e12),
        tensor_int8_flops=_scaled(entry.tensor_int8_tops, 1e12),
        tensor_fp8_flops=_scaled(entry.tensor_fp8_tflops, 1e12),
        l2_bytes=_scaled(entry.l2_mb, 1e6),
        sm_count=entry.sm_count,
        decoders=entry.decoders,
        encoders=entry.encoders,
        encode_sessions=entry.encode_sessions,
        cores=entry.cores,
        assumed=entry.assumed,
        tdp_w=entry.tdp_w,
        idle_w=entry.tdp_w * idle_share if entry.idle_w is None else entry.idle_w,
        pcie_bytes_per_s=entry.pcie_gb_per_s * 1e9,
        nvlink_bytes_per_s=_scaled(entry.nvlink_gb_per_s, 1e9),
        compute_capability=entry.compute_capability,
        source=f"{source} ({entry.note})" if entry.note else source,
    )


def _assumed(files: Sequence[CatalogFile]) -> Iterator[Statement]:
    """Idle power by a rule, for the kinds that the first file naming them has no figure of."""
    seen: set[str] = set()
    for file in files:
        new = {name: entry for name, entry in file.entries.gpus.items() if name not in seen}
        names = tuple(name for name, entry in new.items() if entry.idle_w is None)
        if names:
            share = file.entries.assumed_idle_share_of_tdp or 0.0
            yield Statement(code=Code.IDLE_POWER, subjects=names, figures={"share_of_tdp": share})
        seen |= new.keys()


def _instances(file: CatalogFile) -> dict[Key, Instance]:
    found: dict[Key, Instance] = {}
    for i, entry in enumerate(file.entries.instances):
        where = ("instances", i)
        key = (entry.provider, entry.region, entry.instance)
        if key in found:
            file.say(where, f"{entry.instance} of {entry.provider} {entry.region} is listed twice. Keep one.")
        if entry.provider == OWN:
            file.say((*where, "provider"), OWN_IS_NO_PROVIDER)
        prices = {kind: _price(file, (*where, "prices", kind.value), kind, p) for kind, p in entry.prices.items()}
        found[key] = Instance(
            provider=entry.provider,
            region=entry.region,
            name=entry.instance,
            gpu=entry.gpu,
            gpu_count=entry.gpu_count,
            host_memory_bytes=None if entry.host_memory_gb is None else round(entry.host_memory_gb * 1e9),
            prices={kind: replace(price, status=entry.status) for kind, price in prices.items() if price},
        )
    return found


def _price(file: CatalogFile, where: Place, kind: PriceKind, entry: PriceEntry) -> Price | None:
    source = file.source(where, entry.source)
    if entry.usd_in_all is not None and kind not in TERM_HOURS:
        file.say((*where, "usd_in_all"), f"{kind} has no term. Write usd_per_hour.")
    if entry.usd_per_hour_low is not None and kind is not PriceKind.SPOT:
        file.say((*where, "usd_per_hour_low"), f"{kind} has no range. Write usd_per_hour.")
    if source is None:
        return None
    # A range counts at its upper end, a term by its hours.
    usd_per_hour = entry.usd_per_hour or entry.usd_per_hour_high or 0.0
    if entry.usd_in_all is not None:
        usd_per_hour = entry.usd_in_all / TERM_HOURS.get(kind, 1)
    return Price(
        usd_per_hour=usd_per_hour,
        usd_per_hour_range=entry.usd_per_hour_range,
        as_of=source.as_of,
        source=source.title,
    )


def _purchases(file: CatalogFile) -> dict[str, Purchase]:
    found: dict[str, Purchase] = {}
    for i, entry in enumerate(file.entries.purchases):
        where = ("purchases", i)
        if source := file.source(where, entry.source):
            found[entry.machine] = Purchase(
                machine=entry.machine,
                gpu=entry.gpu,
                gpu_count=entry.gpu_count,
                usd=entry.usd,
                power_w=entry.power_w,
                status=entry.status,
                as_of=source.as_of,
                source=source.title,
            )
    return found
