"""Catalog: kinds of GPU and dated prices, from YAML that a user's own files overlay; and what is on offer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from planner.load import message, shown
from planner.plan import Bottleneck, Rejection
from planner.scenario import BuySpec, Name, OwnMachine, PriceKind
from planner.strict_yaml import Document, YamlError, dotted, parse, read_text
from planner.units import HOURS_PER_YEAR, did_you_mean
from simulator.hardware import GPU

K = TypeVar("K")
V = TypeVar("V")

SHIPPED = Path(__file__).parent / "data"
OWN = "own"
"""Provider of machines that are not rented."""
STALE_DAYS = 90
TERM_HOURS = {PriceKind.RESERVED_1Y: HOURS_PER_YEAR, PriceKind.RESERVED_3Y: 3 * HOURS_PER_YEAR}


class CatalogError(ValueError):
    """A catalog, or a wish that it cannot meet; one line for each thing that is wrong."""


class Status(StrEnum):
    """Whether an instance can still be had."""

    ACTIVE = "active"
    RETIRED = "retired"
    """Still in the price list, no longer sold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of a whole instance costs."""

    usd_per_hour: float
    """Of a range, its upper end."""
    usd_per_hour_range: tuple[float, float] | None = None
    as_of: str
    """ISO date."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A type of machine that a provider rents or rented out, and its prices."""

    provider: str
    region: str
    name: str
    gpu: str
    gpu_count: int
    host_memory_bytes: int | None
    status: Status
    prices: Mapping[PriceKind, Price]

    def __str__(self) -> str:
        """`g4dn.xlarge (T4), aws us-east-1`."""
        return f"{self.name} ({self.gpu}), {self.provider} {self.region}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """What a machine costs to buy."""

    machine: str
    gpu: str
    gpu_count: int
    usd: float
    as_of: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything known about what can be had."""

    gpus: Mapping[str, GPU]
    instances: tuple[Instance, ...]
    purchases: tuple[Purchase, ...]
    assumptions: tuple[str, ...]
    """What the files take for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A machine at a price."""

    provider: str
    """`own` for machines of one's own."""
    region: str
    """Empty for machines of one's own."""
    instance: str
    gpu: GPU
    gpu_count: int
    """GPUs in one machine."""
    usd_per_hour: float
    """The whole machine."""
    price_kind: PriceKind | None
    """None for machines of one's own."""
    status: Status
    as_of: str
    """ISO date of the price; empty for machines of one's own."""
    source: str
    memory_bytes: int
    """Usable memory of each GPU."""
    host_memory_bytes: int | None
    """None where it is not known."""
    count_max: int | None
    """How many there are; None: as many as wanted."""
    spot_range: tuple[float, float] | None
    """Lowest and highest spot price seen, USD/h; None for other kinds of price."""


def stale(as_of: str, today: date, days: int = STALE_DAYS) -> bool:
    """Whether a price of that ISO date is more than `days` old. A machine of one's own has no date and never is."""
    return bool(as_of) and (today - date.fromisoformat(as_of)).days > days


def offers(catalog: Catalog, buy: BuySpec) -> tuple[list[Offer], list[Rejection]]:
    """What may be had under `buy`, and what is refused for want of a price or of anyone who sells it."""
    if errors := [*_unknown(catalog, buy), *_own_errors(catalog, buy)]:
        raise CatalogError("\n".join(errors))
    own = [_own_offer(catalog, machine) for machine in buy.own if not buy.gpus or machine.gpu in buy.gpus]
    rented = [instance for instance in catalog.instances if _wanted(instance, buy)]
    judged = [_judge(catalog, instance, buy) for instance in rented]
    found = own + [offer for offer in judged if isinstance(offer, Offer)]
    refused = [no for no in judged if isinstance(no, Rejection)]
    had = {offer.gpu.name for offer in own} | {instance.gpu for instance in rented}
    refused += [_without_price(gpu) for gpu in buy.gpus if gpu not in had]
    if not found and not refused:
        raise CatalogError(
            "buy: no instance is at once of these providers, regions and instances. Leave one of them out."
        )
    return found, refused


def _wanted(instance: Instance, buy: BuySpec) -> bool:
    if buy.own and not buy.providers:
        return False
    wishes = (
        (buy.providers, instance.provider),
        (buy.regions, instance.region),
        (buy.gpus, instance.gpu),
        (buy.instances, instance.name),
    )
    return all(not allowed or value in allowed for allowed, value in wishes)


def _judge(catalog: Catalog, instance: Instance, buy: BuySpec) -> Offer | Rejection:
    price = instance.prices.get(buy.price)
    if price is None:
        kinds = " or ".join(kind.value for kind in instance.prices)
        return _refusal(
            str(instance),
            Bottleneck.PRICE,
            f"No {buy.price} price of {instance} is known.",
            f"Set buy.price to {kinds}, or put a {buy.price} price into prices.yaml of a --catalog directory.",
        )
    if instance.status is Status.RETIRED and not buy.retired:
        return _refusal(
            str(instance),
            Bottleneck.RETIRED,
            f"{instance.provider} still lists {instance.name} but no longer sells it.",
            "Set buy.retired to true if you still have access to it.",
            price.usd_per_hour,
        )
    gpu = catalog.gpus[instance.gpu]
    return Offer(
        provider=instance.provider,
        region=instance.region,
        instance=instance.name,
        gpu=gpu,
        gpu_count=instance.gpu_count,
        usd_per_hour=price.usd_per_hour,
        price_kind=buy.price,
        status=instance.status,
        as_of=price.as_of,
        source=price.source,
        memory_bytes=gpu.memory_bytes,
        host_memory_bytes=instance.host_memory_bytes,
        count_max=None,
        spot_range=price.usd_per_hour_range,
    )


def _without_price(gpu: str) -> Rejection:
    return _refusal(
        gpu,
        Bottleneck.PRICE,
        f"No instance with {gpu} is priced among the providers, regions and instances asked for.",
        f"Ask for more of them, price a {gpu} in prices.yaml of a --catalog directory, or list your own under buy.own.",
    )


def _refusal(what: str, why: Bottleneck, reason: str, way_out: str, usd_per_hour: float | None = None) -> Rejection:
    return Rejection(
        candidate=what,
        bottleneck=why,
        observed=0.0,
        limit=0.0,
        unit="",
        reason=reason,
        way_out=way_out,
        cost_usd_per_hour=usd_per_hour,
    )


def _own_offer(catalog: Catalog, machine: OwnMachine) -> Offer:
    gpu = catalog.gpus[machine.gpu]
    return Offer(
        provider=OWN,
        region="",
        instance=machine.name,
        gpu=gpu,
        gpu_count=machine.gpu_count,
        usd_per_hour=machine.price,
        price_kind=None,
        status=Status.ACTIVE,
        as_of="",
        source="the scenario",
        memory_bytes=machine.memory or gpu.memory_bytes,
        host_memory_bytes=machine.host_memory,
        count_max=machine.count,
        spot_range=None,
    )


def _unknown(catalog: Catalog, buy: BuySpec) -> Iterator[str]:
    """One line for each name that the catalog does not have."""
    known = {
        "providers": {instance.provider for instance in catalog.instances},
        "regions": {instance.region for instance in catalog.instances},
        "gpus": set(catalog.gpus),
        "instances": {instance.name for instance in catalog.instances},
    }
    named = [(f"buy.{key}[{i}]", name, known[key]) for key in known for i, name in enumerate(getattr(buy, key))]
    named += [(f"buy.own[{i}].gpu", machine.gpu, known["gpus"]) for i, machine in enumerate(buy.own)]
    return (
        f"{place}: `{name}` is not in the catalog.{_instead(name, names)}"
        for place, name, names in named
        if name not in names
    )


def _own_errors(catalog: Catalog, buy: BuySpec) -> Iterator[str]:
    """One line for each machine of one's own that cannot be."""
    names = [machine.name for machine in buy.own]
    for i, machine in enumerate(buy.own):
        gpu = catalog.gpus.get(machine.gpu)
        if gpu and machine.memory is not None and not 0 < machine.memory <= gpu.memory_bytes:
            most = f"{gpu.memory_bytes / 1e9:g} GB"
            got = f"{machine.memory / 1e9:g} GB"
            rule = f"must be above 0 and at most the {most} of a {gpu.name}, got {got}"
            yield f"buy.own[{i}].memory: {rule}. Write {most} or less."
        if machine.price <= 0:
            yield f"buy.own[{i}].price: must be above $0/h. Write what an hour of it costs you in all."
        if (first := names.index(machine.name)) < i:
            yield f"buy.own[{i}].name: `{machine.name}` is taken by buy.own[{first}]. Write another, or `count` there."


def _instead(name: str, known: set[str]) -> str:
    """A hint at what was meant; `A100` may be the beginning of two names."""
    if longer := [f"`{word}`" for word in sorted(known) if word.startswith(name)]:
        return f" Did you mean {' or '.join(longer[:3])}?"
    return did_you_mean(name, sorted(known)) or f" Known: {', '.join(sorted(known))}."


# The files


def _iso(value: object) -> str:
    """A date as it stands in the file."""
    try:
        known = isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"must be a date, got {shown(value)}. Write it as 2026-07-20.")
    return str(value)


FORBID = {"extra": "forbid"}
IsoDate = Annotated[str, BeforeValidator(_iso)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=1, le=64)]
Usd = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Gigabytes = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
GigabytesPerSecond = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
Tflops = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
Watts = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """A kind of GPU as it stands in gpus.yaml."""

    __pydantic_config__ = FORBID
    memory_gb: Gigabytes
    memory_bandwidth_gb_per_s: GigabytesPerSecond
    fp32_tflops: Tflops
    tensor_fp16_tflops: Tflops | None = None
    tdp_w: Watts
    idle_w: Watts | None = None
    pcie_gb_per_s: GigabytesPerSecond
    nvlink_gb_per_s: GigabytesPerSecond | None = None
    compute_capability: str = ""
    source: Text | None = None
    """The file's, where not given."""
    note: Text | None = None

    def __post_init__(self) -> None:
        if self.idle_w is not None and self.idle_w >= self.tdp_w:
            raise ValueError("idle_w must be below tdp_w. Write both in watts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFile:
    """gpus.yaml."""

    __pydantic_config__ = FORBID
    source: Text
    assumed_idle_share_of_tdp: Annotated[float, Field(gt=0, lt=1)] | None = None
    gpus: dict[Name, GpuEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """Where prices were read, and when."""

    __pydantic_config__ = FORBID
    title: Text
    as_of: IsoDate


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceEntry:
    """A price: by the hour, a range by the hour, or for the whole term of a reservation."""

    __pydantic_config__ = FORBID
    usd_per_hour: Usd | None = None
    usd_per_hour_low: Usd | None = None
    usd_per_hour_high: Usd | None = None
    usd_in_all: Usd | None = None
    source: str
    """One of the file's sources."""

    def __post_init__(self) -> None:
        low, high = self.usd_per_hour_low, self.usd_per_hour_high
        if (low is None) != (high is None) or (low is not None and high is not None and low > high):
            raise ValueError("needs usd_per_hour_low and usd_per_hour_high, the low one first. Write both.")
        if sum(value is not None for value in (self.usd_per_hour, low, self.usd_in_all)) != 1:
            raise ValueError(
                "needs exactly one of usd_per_hour, usd_per_hour_low with usd_per_hour_high, and usd_in_all. Write one."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEntry:
    """An instance as it stands in prices.yaml."""

    __pydantic_config__ = FORBID
    provider: Name
    region: Name
    instance: Name
    gpu: Name
    gpu_count: Count
    host_memory_gb: Gigabytes | None = None
    status: Status = Status.ACTIVE
    prices: Annotated[dict[PriceKind, PriceEntry], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseEntry:
    """A machine that can be bought, as it stands in prices.yaml."""

    __pydantic_config__ = FORBID
    machine: Name
    gpu: Name
    gpu_count: Count
    usd: Usd
    source: str
    """One of the file's sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFile:
    """prices.yaml."""

    __pydantic_config__ = FORBID
    sources: dict[Name, SourceEntry]
    instances: tuple[InstanceEntry, ...] = ()
    purchases: tuple[PurchaseEntry, ...] = ()


ENTRIES = (GpuFile, GpuEntry, PriceFile, SourceEntry, PriceEntry, InstanceEntry, PurchaseEntry)


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the catalog that has been read, and all that is wrong with it."""

    path: Path
    document: Document
    entries: Any
    errors: list[str]

    def say(self, where: tuple[str | int, ...], message: str) -> None:
        """Notes an error at that path of the document."""
        self.errors.append(_line(self.path, self.document, where, message))


def load_catalog(directories: Sequence[Path] = ()) -> Catalog:
    """The catalog of `directories` and of what is shipped; the first that has a GPU or an instance wins."""
    errors: list[str] = []
    places = (*directories, SHIPPED)
    gpu_files = _read_all([place / "gpus.yaml" for place in places], GpuFile, errors)
    price_files = _read_all([place / "prices.yaml" for place in places], PriceFile, errors)
    empty = [place for place in places if not any((place / name).exists() for name in ("gpus.yaml", "prices.yaml"))]
    errors += [f"{place}: holds neither gpus.yaml nor prices.yaml. Name a directory that does." for place in empty]
    if errors:
        raise CatalogError("\n".join(errors))
    gpus = _first_wins([_gpus(file) for file in gpu_files])
    instances = _first_wins([_instances(file, gpus) for file in price_files])
    purchases = _first_wins([_purchases(file, gpus) for file in price_files])
    if errors:
        raise CatalogError("\n".join(errors))
    return Catalog(
        gpus=gpus,
        instances=tuple(instances.values()),
        purchases=tuple(purchases.values()),
        assumptions=tuple(_assumed(gpu_files)),
    )


def _first_wins(layers: Sequence[dict[K, V]]) -> dict[K, V]:
    merged: dict[K, V] = {}
    for layer in layers:
        merged = layer | merged
    return merged


def _read_all(paths: Sequence[Path], schema: type, errors: list[str]) -> list[_File]:
    return [file for path in paths if path.exists() and (file := _read(path, schema, errors))]


def _read(path: Path, schema: type, errors: list[str]) -> _File | None:
    try:
        document = parse(read_text(path))
    except YamlError as error:
        errors.extend(f"{path}:{p.line}:{p.column}: {p.message}" for p in error.problems)
        return None
    except ValueError as error:
        errors.append(f"{path}: {error}")
        return None
    errors.extend(f"{path}:{p.line}:{p.column}: {p.message}" for p in document.problems)
    try:
        return _File(path, document, _adapter(schema).validate_json(json.dumps(document.data), strict=True), errors)
    except ValidationError as error:
        errors.extend(_explain(path, document, problem) for problem in error.errors())
        return None


@cache
def _adapter(schema: type) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def _line(path: Path, document: Document, where: tuple[str | int, ...], text: str, at_key: bool = False) -> str:
    """`prices.yaml:12:6: instances[3].gpu_count: must be ...`, at the nearest place that stands in the file."""
    where = tuple(part for part in where if part != "[key]")
    places = document.keys if at_key else document.places
    line, column = places.get(where) or next(
        document.places[where[:n]] for n in range(len(where), -1, -1) if where[:n] in document.places
    )
    sentence = f"{dotted(where)}: {text}" if where else text
    # Texts of the file may hold line breaks; an error is one line.
    return f"{path}:{line}:{column}: {sentence if sentence.isprintable() else ascii(sentence)[1:-1]}"


def _explain(path: Path, document: Document, problem: Any) -> str:
    """One error of pydantic as a line."""
    kind, where = problem["type"], problem["loc"]
    if kind != "unexpected_keyword_argument":
        return _line(path, document, where, message(where, kind, problem), at_key=where[-1:] == ("[key]",))
    known = sorted({field.name for entry in ENTRIES for field in fields(entry)})
    hint = did_you_mean(str(where[-1]), known) or " Leave it out."
    return _line(path, document, where, f"unknown key.{hint}", at_key=True)


def _gpus(file: _File) -> dict[str, GPU]:
    idle_share = file.entries.assumed_idle_share_of_tdp
    for name, entry in file.entries.gpus.items():
        if entry.idle_w is None and idle_share is None:
            file.say(("gpus", name), "has no idle_w. Write it, or assumed_idle_share_of_tdp for the whole file.")
    return {
        name: _gpu(name, entry, file.entries.source, idle_share or 0.0) for name, entry in file.entries.gpus.items()
    }


def _gpu(name: str, entry: GpuEntry, source: str, idle_share: float) -> GPU:
    source = entry.source or source
    return GPU(
        name=name,
        memory_bytes=round(entry.memory_gb * 1e9),
        memory_bytes_per_s=entry.memory_bandwidth_gb_per_s * 1e9,
        fp32_flops=entry.fp32_tflops * 1e12,
        tensor_fp16_flops=entry.tensor_fp16_tflops and entry.tensor_fp16_tflops * 1e12,
        tdp_w=entry.tdp_w,
        idle_w=entry.tdp_w * idle_share if entry.idle_w is None else entry.idle_w,
        pcie_bytes_per_s=entry.pcie_gb_per_s * 1e9,
        nvlink_bytes_per_s=entry.nvlink_gb_per_s and entry.nvlink_gb_per_s * 1e9,
        compute_capability=entry.compute_capability,
        source=f"{source} ({entry.note})" if entry.note else source,
    )


def _assumed(files: Sequence[_File]) -> Iterator[str]:
    """Idle power by a rule, for the kinds that the first file naming them has no figure of."""
    seen: set[str] = set()
    for file in files:
        new = {name: entry for name, entry in file.entries.gpus.items() if name not in seen}
        names = [name for name, entry in new.items() if entry.idle_w is None]
        if names:
            share = f"{file.entries.assumed_idle_share_of_tdp * 100:g} %"
            yield f"Idle power is assumed to be {share} of the power limit: no vendor states it ({', '.join(names)})."
        seen |= new.keys()


def _instances(file: _File, gpus: Mapping[str, GPU]) -> dict[tuple[str, str, str], Instance]:
    found: dict[tuple[str, str, str], Instance] = {}
    for i, entry in enumerate(file.entries.instances):
        where = ("instances", i)
        _known(file, (*where, "gpu"), entry.gpu, set(gpus))
        key = (entry.provider, entry.region, entry.instance)
        if key in found:
            file.say(where, f"{entry.instance} of {entry.provider} {entry.region} is listed twice. Keep one.")
        prices = {kind: _price(file, (*where, "prices", kind.value), kind, p) for kind, p in entry.prices.items()}
        found[key] = Instance(
            provider=entry.provider,
            region=entry.region,
            name=entry.instance,
            gpu=entry.gpu,
            gpu_count=entry.gpu_count,
            host_memory_bytes=None if entry.host_memory_gb is None else round(entry.host_memory_gb * 1e9),
            status=entry.status,
            prices={kind: price for kind, price in prices.items() if price},
        )
    return found


def _price(file: _File, where: tuple[str | int, ...], kind: PriceKind, entry: PriceEntry) -> Price | None:
    source = _source(file, where, entry.source)
    if entry.usd_in_all is not None and kind not in TERM_HOURS:
        file.say((*where, "usd_in_all"), f"{kind} has no term. Write usd_per_hour.")
    if entry.usd_per_hour_low is not None and kind is not PriceKind.SPOT:
        file.say((*where, "usd_per_hour_low"), f"{kind} has no range. Write usd_per_hour.")
    hourly = entry.usd_per_hour or entry.usd_per_hour_high or (entry.usd_in_all or 0.0) / TERM_HOURS.get(kind, 1)
    low, high = entry.usd_per_hour_low, entry.usd_per_hour_high
    if source is None:
        return None
    return Price(
        usd_per_hour=hourly,
        usd_per_hour_range=(low, high) if low is not None and high is not None else None,
        as_of=source.as_of,
        source=source.title,
    )


def _purchases(file: _File, gpus: Mapping[str, GPU]) -> dict[str, Purchase]:
    found: dict[str, Purchase] = {}
    for i, entry in enumerate(file.entries.purchases):
        where = ("purchases", i)
        _known(file, (*where, "gpu"), entry.gpu, set(gpus))
        if source := _source(file, where, entry.source):
            found[entry.machine] = Purchase(
                machine=entry.machine,
                gpu=entry.gpu,
                gpu_count=entry.gpu_count,
                usd=entry.usd,
                as_of=source.as_of,
                source=source.title,
            )
    return found


def _source(file: _File, where: tuple[str | int, ...], name: str) -> SourceEntry | None:
    _known(file, (*where, "source"), name, set(file.entries.sources))
    found: SourceEntry | None = file.entries.sources.get(name)
    return found


def _known(file: _File, where: tuple[str | int, ...], name: str, known: set[str]) -> None:
    if name not in known:
        file.say(where, f"`{name}` is not known.{_instead(name, known)}")
