"""Catalog: kinds of GPU and dated prices, where a user's own files overlay the shipped ones; and what is on offer."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TypeVar

from calibrate.published.names import gpus_meant
from planner.catalog.files import (
    CatalogFile,
    GpuEntry,
    GpuFile,
    Place,
    PriceEntry,
    PriceFile,
    SaleStatus,
    instead,
    read_all,
)
from planner.catalog.hosts import host_cores, host_network
from planner.catalog.mig import SLICE, slices
from planner.catalog.price_table import Key, read_table
from planner.catalog.sold import ANY_REGION, Instance, Price, Purchase
from planner.model.candidate import MachineType, OnGpu
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Bottleneck, PlanWarning, Rejection
from planner.model.statement import Code, Statement
from planner.units.errors import Steps, dotted
from planner.units.reading import HOURS_PER_YEAR, perhaps
from simulator.errors import InputError
from simulator.world.hardware import GPU, device_option

K = TypeVar("K")
V = TypeVar("V")

SHIPPED = Path(__file__).parent / "data"
OWN = "own"
"""Provider of machines that are not rented."""
STALE_DAYS = 90
"""After which a price of a large provider may have changed: they cut and raise theirs a few times a year."""
SMALLER_STALE_DAYS = 30
"""The same of smaller clouds, whose prices change within weeks."""
LARGE_PROVIDERS = ("aws", "azure", "gcp", "oci")
CORES_ASSUMED = 4
"""Cores for each GPU of a machine of which nobody says how many it has: as many as the smallest instances have."""
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
    status: SaleStatus
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
    host_cores: int | None = None
    """Cores of its processor; None where nobody says."""
    network_bytes_per_s: tuple[float, float] | None = None
    """Bandwidth to other machines, sustained and in bursts; None where nobody says."""

    @property
    def cores(self) -> int:
        """Cores of its processor, assumed where nobody says."""
        return CORES_ASSUMED * self.gpu_count if self.host_cores is None else self.host_cores

    @property
    def machine(self) -> MachineType:
        """Its name, without its price."""
        return MachineType(
            provider=self.provider,
            region=self.region,
            instance=self.instance,
            gpu=self.gpu.name,
            gpu_count=self.gpu_count,
        )


def stale(as_of: str, today: date, days: int = STALE_DAYS) -> bool:
    """True for a price of an ISO date more than `days` ago. A machine of one's own has no date and never is."""
    return bool(as_of) and (today - date.fromisoformat(as_of)).days > days


def usual_days(provider: str) -> int:
    """Days after which a provider's price may have changed; 90 for those who sell machines."""
    return SMALLER_STALE_DAYS if provider and provider not in LARGE_PROVIDERS else STALE_DAYS


def stale_price(instances: str, provider: str, as_of: str, today: date) -> Statement | None:
    """What to say of a price that is older than its provider's usually become; None of others."""
    usual = usual_days(provider)
    if not stale(as_of, today, usual):
        return None
    figures = {"days": (today - date.fromisoformat(as_of)).days, "usual": usual}
    return Statement(code=Code.STALE_PRICE, subjects=(instances, as_of), figures=figures)


def offers(catalog: Catalog, buy: BuySpec) -> tuple[list[Offer], list[Rejection]]:
    """Machines that may be had under `buy`, and what is refused for want of a price or of anyone who sells it."""
    _demand_none([f"{dotted(place)}: {message}" for place, message in wrong_offers(catalog, buy)])
    own = _own_wanted(buy)
    rented = [instance for instance in catalog.instances if _wanted(instance, buy)]
    kinds = {machine.gpu for machine in own} | {instance.gpu for instance in rented}
    offered, without = _judged(catalog, rented, buy)
    found = [*(_own_offer(catalog, machine) for machine in own), *offered]
    refused = [*_worth_telling(without, found, buy), *_unpriced(buy, kinds)]
    if not found and not refused:
        raise CatalogError(
            "buy: no instance is at once of these providers, regions and instances. Leave one of them out."
        )
    return found, refused


def kinds_on_offer(catalog: Catalog, buy: BuySpec) -> tuple[str, ...]:
    """Kinds of GPU that are named, or else that may be had."""
    return tuple(dict.fromkeys(buy.gpus or (offer.gpu.name for offer in offers(catalog, buy)[0])))


def _own_wanted(buy: BuySpec) -> list[OwnMachine]:
    return [machine for machine in buy.own if not buy.gpus or machine.gpu in buy.gpus]


def own_left_out(buy: BuySpec) -> list[PlanWarning]:
    """A warning of machines of one's own whose kind of GPU is not among those that are named; none, where all are."""
    wanted = _own_wanted(buy)
    left = [f"{machine.name} ({machine.gpu})" for machine in buy.own if machine not in wanted]
    return [PlanWarning(what=Statement(code=Code.OWN_LEFT_OUT, subjects=tuple(left)))] if left else []


def _judged(catalog: Catalog, rented: Sequence[Instance], buy: BuySpec) -> tuple[list[Offer], list[Rejection]]:
    """Instances that may be had, and those that may not."""
    judged = [_judge(catalog, instance, buy) for instance in rented]
    offered = [one for one in judged if isinstance(one, Offer)]
    return offered, [one for one in judged if isinstance(one, Rejection)]


def _worth_telling(refused: Sequence[Rejection], found: Sequence[Offer], buy: BuySpec) -> Iterator[Rejection]:
    """All but instances without such a price where their GPU can be had otherwise, unless they are asked for."""
    offered = {offer.gpu.name for offer in found}
    for rejection in refused:
        match rejection.subject:
            case MachineType(instance=name, gpu=gpu) if rejection.bottleneck is Bottleneck.PRICE:
                worth = name in buy.instances or gpu not in offered
            case _:
                worth = True
        if worth:
            yield rejection


def _unpriced(buy: BuySpec, kinds: Collection[str]) -> list[Rejection]:
    """Kinds of GPU that are asked for and of which no machine is known."""
    return [_without_price(gpu, buy) for gpu in buy.gpus if gpu not in kinds]


def purchases(catalog: Catalog, buy: BuySpec) -> tuple[list[Purchase], list[Rejection]]:
    """Machines that may be bought under `buy`, and what is refused for no longer being made."""
    wanted = [p for p in catalog.purchases if not buy.gpus or p.gpu in buy.gpus]
    gone = [p for p in wanted if p.status is SaleStatus.RETIRED and not buy.retired]
    rejections = [
        _not_offered(
            MachineType(provider="", region="", instance=p.machine, gpu=p.gpu, gpu_count=p.gpu_count),
            Bottleneck.RETIRED,
            Statement(code=Code.NOT_MADE),
            Statement(code=Code.ALLOW_RETIRED_PURCHASE),
        )
        for p in gone
    ]
    return [p for p in wanted if p not in gone], rejections


def _wanted(instance: Instance, buy: BuySpec) -> bool:
    if buy.own and not buy.providers:
        return False
    if instance.status is SaleStatus.UNCLEAR and instance.name not in buy.instances:
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
        others = tuple(kind.value for kind in instance.prices)
        return _not_offered(
            instance.machine,
            Bottleneck.PRICE,
            Statement(code=Code.NO_PRICE, subjects=(buy.price,)),
            Statement(code=Code.OTHER_PRICE, subjects=(buy.price, *others)),
        )
    if instance.status is SaleStatus.RETIRED and not buy.retired:
        return _not_offered(
            instance.machine,
            Bottleneck.RETIRED,
            Statement(code=Code.NOT_SOLD, subjects=(instance.provider,)),
            Statement(code=Code.ALLOW_RETIRED),
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
        host_cores=host_cores(instance.provider, instance.name),
        network_bytes_per_s=host_network(instance.provider, instance.name),
    )


def _without_price(gpu: str, buy: BuySpec) -> Rejection:
    code, remedy = Code.GPU_NOT_PRICED, Code.PRICE_THE_GPU
    if buy.own and not buy.providers:
        code, remedy = Code.GPU_NOT_OWNED, Code.NAME_PROVIDERS
    return _not_offered(
        OnGpu(gpu=gpu),
        Bottleneck.PRICE,
        Statement(code=code, subjects=(gpu,)),
        Statement(code=remedy, subjects=(gpu,)),
    )


def _not_offered(
    subject: MachineType | OnGpu,
    bottleneck: Bottleneck,
    why: Statement,
    remedy: Statement,
    usd_per_hour: float | None = None,
) -> Rejection:
    return Rejection(
        subject=subject,
        bottleneck=bottleneck,
        observed=0,  # offers there are of it, of the one that it takes
        limit=1,
        unit="",
        why=why,
        remedies=(remedy,),
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
        status=SaleStatus.ACTIVE,
        as_of="",
        source="the scenario",
        memory_bytes=machine.memory or gpu.memory_bytes,
        host_memory_bytes=machine.host_memory,
        count_max=machine.count,
        spot_range=None,
        host_cores=machine.cores,
    )


COMPANIES = {"google": "gcp", "google cloud": "gcp", "amazon": "aws", "microsoft": "azure", "oracle": "oci"}
"""Their clouds' names."""


def wrong_offers(catalog: Catalog, buy: BuySpec) -> Iterator[tuple[Steps, str]]:
    """All that is wrong with `buy` once the catalog is known: the place, and what it is."""
    yield from _unknown_names(catalog, buy)
    yield from _own_errors(catalog, buy)


def _unknown_names(catalog: Catalog, buy: BuySpec) -> Iterator[tuple[Steps, str]]:
    """Each name under `buy` that the catalog does not have: its place, and what is wrong with it."""
    known = {
        "providers": {instance.provider for instance in catalog.instances},
        "regions": {instance.region for instance in catalog.instances},
        "gpus": set(catalog.gpus),
        "instances": {instance.name for instance in catalog.instances},
    }
    for place, kind, name in _names_in(buy):
        if name not in known[kind]:
            meant = COMPANIES.get(name.lower(), name) if kind == "providers" else name
            hint = which_gpu(name, catalog.gpus) if kind == "gpus" else instead(meant, known[kind])
            yield place, f"`{name}` is not in the catalog.{hint}"


def _names_in(buy: BuySpec) -> Iterator[tuple[Steps, str, str]]:
    """Each name under `buy`: its place, what it is a name of, and itself."""
    for kind in ("providers", "regions", "gpus", "instances"):
        for i, name in enumerate(getattr(buy, kind)):
            yield ("buy", kind, i), kind, name
    for i, machine in enumerate(buy.own):
        yield ("buy", "own", i, "gpu"), "gpus", machine.gpu


def near_gpu(name: str, known: Collection[str]) -> str:
    """A hint at the kinds of GPU that were meant; empty where none is near."""
    if meant := gpus_meant(name, known):
        return f" Did you mean {' or '.join(f'`{one}`' for one in meant)}?"
    return perhaps(name, known)


def which_gpu(name: str, gpus: Mapping[str, GPU]) -> str:
    """The same, else how another is made known."""
    known = [kind for kind, gpu in gpus.items() if not gpu.mig_profile or SLICE in name]
    if device_option(name) == "cpu":
        known = [kind for kind in known if device_option(kind) == "cpu"]
        measured = " If `planner calibrate` measured it, name the folder with `--profiles DIR`."
        return f"{near_gpu(name, known)}{measured} Known processors: {', '.join(sorted(known))}."
    listed = f" Known: {', '.join(sorted(known))}. Others go into gpus.yaml of a --catalog directory."
    return near_gpu(name, known) or listed


def _own_errors(catalog: Catalog, buy: BuySpec) -> Iterator[tuple[Steps, str]]:
    """Machines of one's own that cannot be."""
    names = [machine.name for machine in buy.own]
    for i, machine in enumerate(buy.own):
        gpu = catalog.gpus.get(machine.gpu)
        if gpu and machine.memory is not None and not 0 < machine.memory <= gpu.memory_bytes:
            most = f"{gpu.memory_bytes / 1e9:g} GB"
            got = f"{machine.memory / 1e9:g} GB"
            rule = f"must be above 0 and at most the {most} of a {gpu.name}, got {got}"
            yield ("buy", "own", i, "memory"), f"{rule}. Write {most} or less."
        if (first := names.index(machine.name)) < i:
            taken = f"`{machine.name}` is taken by buy.own[{first}]. Write another, or `count` there."
            yield ("buy", "own", i, "name"), taken


# Reading the files


def load_catalog(directories: Sequence[Path] = ()) -> Catalog:
    """The catalog of `directories` and of what is shipped; the first that has a GPU or an instance wins."""
    errors: list[str] = []
    places = (*directories, SHIPPED)
    gpu_files = read_all([place / "gpus.yaml" for place in places], GpuFile, errors)
    price_files = read_all([place / "prices.yaml" for place in places], PriceFile, errors)
    _demand_none([*errors, *_empty(places)])
    gpus = _first_wins([_gpus(file) for file in gpu_files])
    gpus = gpus | {name: gpu for name, gpu in slices(SHIPPED / "mig.csv", gpus).items() if name not in gpus}
    for file in price_files:
        file.expect_gpus(gpus)
    _expect_chips(gpu_files)
    instances = _first_wins([_layer(place, price_files, gpus, errors) for place in places])
    purchases = _first_wins([_purchases(file) for file in price_files])
    _demand_none(errors)
    return Catalog(
        gpus=gpus,
        instances=tuple(instances.values()),
        purchases=tuple(purchases.values()),
        assumptions=tuple(_assumed(gpu_files)),
    )


def _empty(places: Sequence[Path]) -> list[str]:
    """Errors of folders that hold no catalog."""
    return [
        f"{place}: holds neither gpus.yaml nor prices.yaml. Name a directory that does."
        for place in places
        if not holds_catalog(place)
    ]


def _demand_none(errors: Sequence[str]) -> None:
    """CatalogError with all of them, a line each."""
    if errors:
        raise CatalogError("\n".join(errors))


def _layer(place: Path, files: Sequence[CatalogFile], gpus: Collection[str], errors: list[str]) -> dict[Key, Instance]:
    """Instances of a directory: of its prices.yaml and its prices.csv."""
    known = [_instances(file) for file in files if file.path.parent == place]
    table = place / "prices.csv"
    listed = read_table(table, gpus, errors) if table.exists() else {}
    return _as_asked_since(_with_newer(_first_wins(known), listed))


def _as_asked_since(known: Mapping[Key, Instance]) -> dict[Key, Instance]:
    """The same, but an old price gives way to a newer and dearer one of the same machine, or of as many such GPUs where
    the provider's list has no machine (`unclear`: an average, or where it starts).

    Who plans with what was asked two years ago cannot buy at it.
    """
    alike: dict[tuple[str, str, int], list[Instance]] = {}
    for one in known.values():
        alike.setdefault((one.provider, one.gpu, one.gpu_count), []).append(one)
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
    if one.status is not SaleStatus.ACTIVE:
        return price
    since = [other.prices[kind] for other in alike if kind in other.prices and _stands_for(other, one)]
    newest = max(since, key=lambda other: other.as_of, default=price)
    old = stale(price.as_of, date.fromisoformat(newest.as_of), usual_days(one.provider))
    if not old or newest.usd_per_hour <= price.usd_per_hour:
        return price
    was = f"{one.name} itself was ${price.usd_per_hour:g}/h on {price.as_of}"
    return replace(newest, source=f"{newest.source}; {was}")


def _stands_for(other: Instance, one: Instance) -> bool:
    """Whether it is the same machine, or what stands for all machines with such GPUs, where that one is."""
    is_same = other.status is SaleStatus.ACTIVE and other.name == one.name
    is_there = other.region == one.region or ANY_REGION in (one.region, other.region)
    return is_there and (is_same or other.status is SaleStatus.UNCLEAR)


def _with_newer(known: dict[Key, Instance], table: Mapping[Key, Instance]) -> dict[Key, Instance]:
    """Instances and those of a table; of one that both have, each kind of price is the newer one."""
    merged = dict(table) | known
    for key in known.keys() & table.keys():
        one, other = known[key], table[key]
        newer = {kind: price for kind, price in other.prices.items() if _is_newer(price, one.prices.get(kind))}
        merged[key] = replace(one, prices={**one.prices, **newer})
    return merged


def _is_newer(price: Price, than: Price | None) -> bool:
    return than is None or price.as_of > than.as_of


def holds_catalog(place: Path) -> bool:
    """True where a directory has GPUs or prices."""
    return any((place / name).exists() for name in ("gpus.yaml", "prices.yaml", "prices.csv"))


def _price_files(path: Path) -> list[Path]:
    """A file, or those in a directory, where there are any."""
    files = [path / name for name in ("prices.yaml", "prices.csv")] if path.is_dir() else [path]
    return [file for file in files if file.exists()]


def load_prices(path: Path) -> tuple[Instance, ...]:
    """Instances of a file of prices, or of those in a directory; their kinds of GPU need not be known."""
    found = _price_files(path)
    errors = [] if found else [f"{path}: {_no_prices(path)}"]
    tables = [file for file in found if file.suffix.lower() == ".csv"]
    known = [_instances(read) for read in read_all([file for file in found if file not in tables], PriceFile, errors)]
    listed = [read_table(table, None, errors) for table in tables]
    _demand_none(errors)
    return tuple(_with_newer(_first_wins(known), _first_wins(listed)).values())


def _no_prices(path: Path) -> str:
    """What is wrong with a place of prices that has none, and the remedy."""
    if path.is_dir():
        return "holds neither prices.yaml nor prices.csv. Name a directory that does."
    return "no such file. Name a file like the shipped prices.yaml."


def _first_wins(layers: Sequence[dict[K, V]]) -> dict[K, V]:
    merged: dict[K, V] = {}
    for layer in layers:
        merged = layer | merged
    return merged


def _expect_chips(files: Sequence[CatalogFile]) -> None:
    """Notes an error for each chip that no other kind has; what is shipped may have a kind alone of its chip."""
    kinds = [(file, name, entry.chip or "") for file in files for name, entry in file.entries.gpus.items()]
    known = Counter([*(name for _, name, _ in kinds), *(chip for _, _, chip in kinds)])
    for file, name, chip in kinds:
        if chip and known[chip] == 1 and file.path.parent != SHIPPED:
            hint = perhaps(chip, known.keys() - {chip, ""}) or " Name a kind that has it, or leave it out."
            file.say(("gpus", name, "chip"), f"`{chip}` is neither a kind nor the chip of another.{hint}")


def _gpus(file: CatalogFile) -> dict[str, GPU]:
    idle_share = file.entries.assumed_idle_share_of_tdp
    for name, entry in file.entries.gpus.items():
        if entry.idle_w is None and idle_share is None:
            file.say(("gpus", name), "has no idle_w. Write it, or assumed_idle_share_of_tdp for the whole file.")
    return {
        name: _gpu(name, entry, file.entries.source, idle_share or 0.0) for name, entry in file.entries.gpus.items()
    }


def _scaled(figure: float | None, unit: float) -> float | None:
    return None if figure is None else figure * unit


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


def _price(file: CatalogFile, where: Place, kind: PriceKind, entry: PriceEntry) -> Price | None:
    source = file.source(where, entry.source)
    if entry.usd_in_all is not None and kind not in TERM_HOURS:
        file.say((*where, "usd_in_all"), f"{kind} has no term. Write usd_per_hour.")
    if entry.usd_per_hour_low is not None and kind is not PriceKind.SPOT:
        file.say((*where, "usd_per_hour_low"), f"{kind} has no range. Write usd_per_hour.")
    if source is None:
        return None
    return Price(
        usd_per_hour=_hourly(kind, entry),
        usd_per_hour_range=entry.usd_per_hour_range,
        as_of=source.as_of,
        source=source.title,
    )


def _hourly(kind: PriceKind, entry: PriceEntry) -> float:
    """A range counts at its upper end, a term by its hours."""
    if entry.usd_in_all is not None:
        return entry.usd_in_all / TERM_HOURS.get(kind, 1)
    return entry.usd_per_hour or entry.usd_per_hour_high or 0.0


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


# Warnings about the way machines are paid


def spot_machines(names: Sequence[str]) -> PlanWarning:
    """They may be taken away, and no failures are replayed."""
    return PlanWarning(what=Statement(code=Code.SPOT, subjects=tuple(names)))


def retired_machines(names: Sequence[str]) -> PlanWarning:
    """Who has none gets none."""
    return PlanWarning(what=Statement(code=Code.RETIRED, subjects=tuple(names)))
