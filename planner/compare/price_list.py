"""A file of prices, and what it says of the machines of a plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from planner.catalog.catalog import PRICE_FILES, load_prices
from planner.catalog.files import SaleStatus
from planner.catalog.offers import is_wanted
from planner.catalog.sold import OWN, Instance, Price
from planner.model.candidate import Machines
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec
from planner.model.plan import Instances, Recommendation
from planner.units.reading import did_you_mean
from simulator.errors import InputError


class RepriceError(InputError):
    """Prices that a plan cannot be given, one line for each."""


@dataclass(frozen=True)
class PriceList:
    """A file of prices, and what is asked of it."""

    path: Path
    instances: tuple[Instance, ...]
    kind: PriceKind | None = None
    """Instead of the kind that a plan was made with."""
    buy: BuySpec = field(default_factory=BuySpec)
    """What the plan's scenario lets one rent."""
    plan: str = ""
    """The plan's name in errors."""

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str, str], Instance]:
        """By provider, region and name."""
        return {(i.provider, i.region, i.name): i for i in self.instances}

    def listed(self, machines: Instances | Machines) -> Instance | None:
        """The type with its prices; None where it has none here."""
        return self.by_place.get((machines.provider, machines.region, machines.instance))

    def at(self, old: Instances) -> Instances:
        """The same machines at their new price; RepriceError where there is none. Those of one's own keep theirs."""
        if old.provider == OWN:
            return old
        place = f"{old.instance}, {old.provider} {old.region}".rstrip()
        listed = self.listed(old)
        if listed is None:
            hint = did_you_mean(old.instance, [i.name for i in self.instances if i.name != old.instance])
            remedy = "Add it to `instances`, or name another file."
            beside = self.beside(lambda _: True, old)
            raise RepriceError(f"{self.path}: has no price of {place}.{beside or hint} {remedy}")
        if not has_gpus_of(listed, old):
            there, here = f"{listed.gpu_count} x {listed.gpu}", f"{old.gpu_count} x {old.gpu}"
            remedy = "Mend `gpu` and `gpu_count` there."
            raise RepriceError(f"{self.path}: {place}: has {there}, and the plan {here}. {remedy}")
        kind = self.kind or old.price_kind
        if not self.sells(listed, kind):
            remedy = "Plan anew, with `buy.retired: true` if you have access."
            raise RepriceError(f"{self.path}: {place}: is no longer sold. {remedy}")
        if listed.status_at(kind) is SaleStatus.UNCLEAR and listed.name not in self.buy.instances:
            remedy = f"Plan anew, with `buy.instances: [{listed.name}]` if you can have it at that price."
            raise RepriceError(f"{self.path}: {place}: its price is `unclear` there. {remedy}")
        return self.priced(old, listed, place)

    def priced(self, old: Instances, listed: Instance, place: str) -> Instances:
        """Machines at the listed price of their kind."""
        kinds = ", ".join(listed.prices)
        kind = self.kind or old.price_kind
        if kind is None:
            wrong = f"does not say which kind of price it took for {place}"
            raise RepriceError(f"{self.plan}: {wrong}. Name it with --price: {kinds}.")
        if kind in listed.prices:
            return at_price(old, listed.prices[kind], kind)
        remedy = "leave --price out" if self.kind else "name a kind with --price"
        beside = self.beside(lambda listed: kind in listed.prices, old)
        rule = f"has no {kind} price of {place}, only {kinds or 'none'}."
        raise RepriceError(f"{self.path}: {rule}{beside} Add it, or {remedy}.")

    def beside(self, has: Callable[[Instance], bool], old: Instances) -> str:
        """Says so where another file of the folder, which is read with it, has what is lacking."""
        folder = self.path.parent
        if self.path.is_dir() or self.path.name not in PRICE_FILES:
            return ""
        try:
            listed = PriceList(folder, load_prices(folder)).listed(old)
        except InputError:
            return ""
        return f" Its folder has one: name `{folder}`." if listed and has(listed) else ""

    def sells(self, instance: Instance, kind: PriceKind | None) -> bool:
        """Whether a machine is still sold at its price of that kind, or those that are not count too."""
        return self.buy.retired or instance.status_at(kind) is not SaleStatus.RETIRED

    def elsewhere(self, old: Instances) -> Instances:
        """The cheapest machines with the same GPUs at the same kind of price, of all that may be rented."""
        kind = self.kind or old.price_kind
        if old.provider == OWN or kind is None:
            return old
        buy = replace(self.buy, price=kind)
        alike = [
            at_price(replace(old, provider=i.provider, region=i.region, instance=i.name), i.prices[kind], kind)
            for i in self.instances
            if has_gpus_of(i, old) and kind in i.prices and self.sells(i, kind) and is_wanted(i, buy)
        ]
        return min([old, *alike], key=lambda one: one.usd_per_hour)

    def sources(self, answer: Recommendation) -> list[str]:
        """Where the prices of a fleet come from, each once."""
        listed = [(self.listed(one), one.price_kind) for one in answer.instances]
        prices = [machine.prices.get(kind) for machine, kind in listed if machine and kind]
        return sorted({price.source for price in prices if price})


def has_gpus_of(instance: Instance, old: Instances) -> bool:
    """Whether a machine has as many of the same GPUs."""
    return (instance.gpu, instance.gpu_count) == (old.gpu, old.gpu_count)


def at_price(instances: Instances, price: Price, kind: PriceKind) -> Instances:
    """The same machines at that price."""
    return replace(instances, usd_per_hour=price.usd_per_hour, price_as_of=price.as_of, price_kind=kind)


def read_prices(path: Path, kind: PriceKind | None = None) -> PriceList:
    """The prices in a file like prices.yaml, or in the prices.yaml of a directory."""
    return PriceList(path, load_prices(path), kind)
