"""Offers: machines that may be had under `buy`, at which price, and why others may not."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from calibrate.published.names import gpus_meant, gpus_of_family
from planner.catalog.catalog import Catalog, CatalogError, demand_none
from planner.catalog.files import KINDS_LISTED, SaleStatus, instead
from planner.catalog.hosts import host_cores, host_network
from planner.catalog.mig import is_slice
from planner.catalog.sold import OWN, Instance, Purchase
from planner.model.candidate import MachineType, OnGpu
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Bottleneck, PlanWarning, Rejection
from planner.model.statement import Code, Statement
from planner.units.errors import Steps, dotted
from planner.units.reading import perhaps
from simulator.near import known_ones, near_names
from simulator.world.hardware import GPU, device_option, with_article

CORES_ASSUMED = 4
"""Cores for each GPU of a machine of which nobody says how many it has: as many as the smallest instances have."""


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
    count_max: int | None = None
    """How many there are; None: as many as wanted."""
    spot_range: tuple[float, float] | None = None
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
    def name(self) -> tuple[str, str, str, str, int]:
        """What is offered, at whatever price."""
        return self.provider, self.region, self.instance, self.gpu.name, self.gpu_count

    @property
    def place(self) -> tuple[str, str]:
        """Its provider and region."""
        return self.provider, self.region

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


def offers(catalog: Catalog, buy: BuySpec) -> tuple[list[Offer], list[Rejection]]:
    """Machines that may be had under `buy`, and what is refused for want of a price or of anyone who sells it."""
    demand_none([f"{dotted(place)}: {message}" for place, message in wrong_offers(catalog, buy)])
    own = _own_wanted(buy)
    rented = [instance for instance in catalog.instances if is_wanted(instance, buy)]
    kinds = {machine.gpu for machine in own} | {instance.gpu for instance in rented}
    judged = [_judge(catalog, instance, buy) for instance in rented]
    without = [one for one in judged if isinstance(one, Rejection)]
    offered = [one for one in judged if isinstance(one, Offer)]
    found = [*(_own_offer(catalog, machine) for machine in own), *offered]
    refused = [*_worth_telling(without, found, buy), *_unpriced(catalog, buy, kinds)]
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


def _unpriced(catalog: Catalog, buy: BuySpec, kinds: Collection[str]) -> list[Rejection]:
    """Kinds of GPU that are asked for and of which no machine is known."""
    unpriced = [gpu for gpu in buy.gpus if gpu not in kinds]
    if not unpriced:
        return []
    sold = _kinds_sold(catalog, replace(buy, gpus=()))
    wider = {
        "buy.providers": replace(buy, providers=()),
        "buy.regions": replace(buy, regions=()),
        "buy.instances": replace(buy, instances=()),
    }
    kinds_of_wider = {key: _kinds_sold(catalog, one) for key, one in wider.items() if one != buy}
    return [
        _without_price(
            gpu,
            buy,
            near_names(gpu, sold - {*buy.gpus}),
            [key for key, kinds in kinds_of_wider.items() if gpu in kinds],
        )
        for gpu in unpriced
    ]


def _kinds_sold(catalog: Catalog, buy: BuySpec) -> set[str]:
    return {instance.gpu for instance in catalog.instances if is_wanted(instance, buy)}


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


def is_wanted(instance: Instance, buy: BuySpec) -> bool:
    """Whether `buy` lets one rent it; what is `unclear` only where it names the instance."""
    if buy.own and not buy.providers:
        return False
    if instance.status_at(buy.price) is SaleStatus.UNCLEAR and instance.name not in buy.instances:
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
    if price.status is SaleStatus.RETIRED and not buy.retired:
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
        status=price.status,
        as_of=price.as_of,
        source=price.source,
        memory_bytes=gpu.memory_bytes,
        host_memory_bytes=instance.host_memory_bytes,
        spot_range=price.usd_per_hour_range,
        host_cores=host_cores(instance.provider, instance.name),
        network_bytes_per_s=host_network(instance.provider, instance.name),
    )


def _without_price(gpu: str, buy: BuySpec, near: Sequence[str], narrowing: Sequence[str]) -> Rejection:
    """A kind of GPU that cannot be had, with those of a name like its own that can: `L40S` for `L40`.

    `narrowing`: the keys any of which alone keeps it out.
    """
    code, remedy = Code.GPU_NOT_PRICED, Statement(code=Code.PRICE_THE_GPU, subjects=(gpu,))
    if buy.own and not buy.providers:
        code, remedy = Code.GPU_NOT_OWNED, Statement(code=Code.NAME_PROVIDERS, subjects=(gpu,))
    elif narrowing:
        remedy = Statement(code=Code.WIDEN_BUY, subjects=(*narrowing, gpu))
    no = _not_offered(OnGpu(gpu=gpu), Bottleneck.PRICE, Statement(code=code, subjects=(gpu,)), remedy)
    meant = Statement(code=Code.NEAR_GPU, subjects=tuple(near))
    return replace(no, remedies=(meant, *no.remedies)) if near else no


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
        host_cores=machine.cores,
    )


COMPANIES = {"google": "gcp", "google cloud": "gcp", "amazon": "aws", "microsoft": "azure", "oracle": "oci"}
"""Their clouds' names."""


def wrong_offers(catalog: Catalog, buy: BuySpec) -> Iterator[tuple[Steps, str]]:
    """All that is wrong with `buy` once the catalog is known: the place, and what it is."""
    known = {
        "providers": {instance.provider for instance in catalog.instances},
        "regions": {instance.region for instance in catalog.instances},
        "gpus": set(catalog.gpus),
        "instances": {instance.name for instance in catalog.instances},
    }
    for place, kind, name in _names_in(buy):
        if name not in known[kind]:
            meant = COMPANIES.get(name.lower(), name) if kind == "providers" else name
            priced = instead(meant, known[kind], "`planner prices show`")
            hint = which_gpu(name, catalog.gpus) if kind == "gpus" else priced
            yield place, f"`{name}` is not in the catalog.{hint}"
    yield from _own_errors(catalog, buy)


def _names_in(buy: BuySpec) -> Iterator[tuple[Steps, str, str]]:
    """Each name under `buy`: its place, what it is a name of, and itself."""
    for kind in ("providers", "regions", "gpus", "instances"):
        for i, name in enumerate(getattr(buy, kind)):
            yield ("buy", kind, i), kind, name
    for i, machine in enumerate(buy.own):
        yield ("buy", "own", i, "gpu"), "gpus", machine.gpu


def near_gpu(name: str, known: Collection[str]) -> str:
    """A hint at the other kinds of GPU that were meant; empty where none is near."""
    if meant := [one for one in gpus_meant(name, known) if one != name]:
        return f" Did you mean {' or '.join(f'`{one}`' for one in meant)}?"
    return perhaps(name, known)


def family_of(name: str, known: Collection[str]) -> str:
    """A hint at kinds of the same family, each another one; empty where there are none."""
    alike = [f"`{kind}`" for kind in gpus_of_family(name, known)]
    return f" Other kinds of its family: {', '.join(alike)}." if alike else ""


def which_gpu(name: str, gpus: Mapping[str, GPU]) -> str:
    """The same, else how another is made known."""
    known = [kind for kind, gpu in gpus.items() if not gpu.mig_profile or is_slice(name)]
    if device_option(name) == "cpu":
        known = [kind for kind in known if device_option(kind) == "cpu"]
        measured = " If `planner calibrate` measured it, name the folder with `--profiles DIR`."
        return f"{near_gpu(name, known)}{measured}{known_ones(name, sorted(known), KINDS_LISTED)}"
    listed = family_of(name, known) or known_ones(name, sorted(known), KINDS_LISTED)
    return near_gpu(name, known) or f"{listed} Others go into gpus.yaml of a --catalog directory."


def _own_errors(catalog: Catalog, buy: BuySpec) -> Iterator[tuple[Steps, str]]:
    """Machines of one's own that cannot be."""
    names = [machine.name for machine in buy.own]
    for i, machine in enumerate(buy.own):
        gpu = catalog.gpus.get(machine.gpu)
        if gpu and machine.memory is not None and not 0 < machine.memory <= gpu.memory_bytes:
            most = f"{gpu.memory_bytes / 1e9:g} GB"
            got = f"{machine.memory / 1e9:g} GB"
            rule = f"must be above 0 and at most the {most} of {with_article(gpu.name)}, got {got}"
            yield ("buy", "own", i, "memory"), f"{rule}. Write {most} or less."
        if (first := names.index(machine.name)) < i:
            taken = f"`{machine.name}` is taken by buy.own[{first}]. Write another, or `count` there."
            yield ("buy", "own", i, "name"), taken


def spot_machines(names: Sequence[str]) -> PlanWarning:
    """They may be taken away, and no failures are replayed."""
    return PlanWarning(what=Statement(code=Code.SPOT, subjects=tuple(names)))


def retired_machines(names: Sequence[str]) -> PlanWarning:
    """Who has none gets none."""
    return PlanWarning(what=Statement(code=Code.RETIRED, subjects=tuple(names)))
