"""A plan at other prices, without simulating again: what its replayed fleets cost, and whether another is cheaper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import isfinite, nan
from pathlib import Path

from planner.catalog.files import SaleStatus
from planner.catalog.offers import OWN, load_prices, retired_machines, spot_machines, stale, usual_days
from planner.catalog.sold import Instance, Price
from planner.io.demand import scenario_of
from planner.model.candidate import Candidate, Machines
from planner.model.choices import PriceKind
from planner.model.plan import (
    Bottleneck,
    Instances,
    Plan,
    PlanWarning,
    Recommendation,
    Rejection,
    UnitCosts,
    WayOfServing,
)
from planner.model.scenario import BuySpec
from planner.model.statement import Code, Statement
from planner.search.search import oldest_price, pareto
from planner.units.reading import HOURS_PER_MONTH, did_you_mean
from planner.units.writing import dollars, names
from planner.words.candidates import candidate_name
from planner.words.statements import warning_line
from simulator.errors import InputError

REPRICE = "planner.reprice/v1"
PRICED = frozenset({Bottleneck.COST, Bottleneck.PRICE})
"""What stood in the way of a candidate only at the old prices."""


class RepriceError(InputError):
    """Prices that a plan cannot be given, one line for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """What an hour of one machine costs, before and now."""

    machine: str
    price_kind: PriceKind | None
    old_usd_per_hour: float
    new_usd_per_hour: float
    old_as_of: str
    new_as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """What a fleet costs, before and now."""

    label: str
    role: str
    """`recommended`, `alternative` (both replayed, and met every SLO) or `rejected`."""
    old_usd_per_hour: float
    new_usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repriced:
    """What other prices change about a plan."""

    plan: str
    prices: str
    feasible: bool
    old_usd_per_hour: float
    new_usd_per_hour: float
    old_usd_per_month: float
    new_usd_per_month: float
    old_prices_as_of: str
    new_prices_as_of: str
    machines: tuple[PriceChange, ...]
    fleets: tuple[FleetChange, ...]
    """Recommended first, then alternatives, then rejected ones whose machines all have a price."""
    cheaper: str | None
    """Label of the cheapest alternative, where it costs less now than what is recommended; it met every SLO."""
    notes: tuple[str, ...]
    schema: str = field(default=REPRICE)


@dataclass(frozen=True)
class PriceList:
    """A file of prices, and the kind of price that is asked of it."""

    path: Path
    instances: tuple[Instance, ...]
    kind: PriceKind | None = None
    """Instead of the kind that a plan was made with."""
    retired: bool = False
    """Whether machines count that are no longer sold."""

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str, str], Instance]:
        """By provider, region and name."""
        return {(i.provider, i.region, i.name): i for i in self.instances}

    def at(self, old: Instances) -> Instances | str:
        """The same machines at their new price, or why there is none. Machines of one's own keep theirs."""
        if old.provider == OWN:
            return old
        place = f"{old.instance}, {old.provider} {old.region}".rstrip()
        listed = self.by_place.get((old.provider, old.region, old.instance))
        if listed is None:
            hint = did_you_mean(old.instance, [i.name for i in self.instances if i.name != old.instance])
            return f"{self.path}: has no price of {place}.{hint} Add it to `instances`, or name another file."
        if (listed.gpu, listed.gpu_count) != (old.gpu, old.gpu_count):
            there, here = f"{listed.gpu_count} x {listed.gpu}", f"{old.gpu_count} x {old.gpu}"
            return f"{self.path}: {place}: has {there}, and the plan {here}. Mend `gpu` and `gpu_count` there."
        if not self.sells(listed):
            return f"{self.path}: {place}: is no longer sold. Plan anew, with `buy.retired: true` if you have access."
        return self._priced(old, listed, place)

    def _priced(self, old: Instances, listed: Instance, place: str) -> Instances | str:
        """Machines at the listed price of their kind."""
        kinds = ", ".join(listed.prices)
        kind = self.kind or old.price_kind
        if kind is None:
            return f"does not say which kind of price it took for {place}. Name it with --price: {kinds}."
        price = listed.prices.get(kind)
        if price is not None:
            return at_price(old, price, kind)
        remedy = "leave --price out" if self.kind else "name a kind with --price"
        return f"{self.path}: has no {kind} price of {place}, only {kinds or 'none'}. Add it, or {remedy}."

    def sells(self, instance: Instance) -> bool:
        """Whether a machine is still sold, or those that are not count too."""
        return self.retired or instance.status is not SaleStatus.RETIRED

    def elsewhere(self, old: Instances, buy: BuySpec) -> Instances:
        """The cheapest machines with the same GPUs at the same kind of price, of all that may be rented."""
        kind = self.kind or old.price_kind
        if old.provider == OWN or kind is None:
            return old
        for_sale = [i for i in self.with_gpus_of(old) if kind in i.prices and allows(buy, i)]
        like_it = [
            at_price(replace(old, provider=i.provider, region=i.region, instance=i.name), i.prices[kind], kind)
            for i in for_sale
        ]
        return min([old, *like_it], key=lambda one: one.usd_per_hour)

    def with_gpus_of(self, old: Instances) -> list[Instance]:
        """Machines on sale with as many of the same GPUs."""
        return [i for i in self.instances if (i.gpu, i.gpu_count) == (old.gpu, old.gpu_count) and self.sells(i)]

    def price(self, old: Instances) -> Price | None:
        """Price and source of machines that were given a price here."""
        listed = self.by_place.get((old.provider, old.region, old.instance))
        return listed.prices.get(old.price_kind) if listed and old.price_kind else None

    def sources(self, answer: Recommendation) -> list[str]:
        """Where the prices of a fleet come from, each once."""
        prices = [self.price(instances) for instances in answer.instances]
        return sorted({price.source for price in prices if price})


def at_price(instances: Instances, price: Price, kind: PriceKind) -> Instances:
    """The same machines at that price."""
    return replace(instances, usd_per_hour=price.usd_per_hour, price_as_of=price.as_of, price_kind=kind)


def allows(buy: BuySpec, instance: Instance) -> bool:
    """Whether a scenario lets one rent there; where it names no provider or region, any will do."""
    provider = not buy.providers or instance.provider in buy.providers
    region = not buy.regions or instance.region in buy.regions
    return provider and region


def read_prices(path: Path, kind: PriceKind | None = None) -> PriceList:
    """The prices in a file like prices.yaml, or in the prices.yaml of a directory."""
    return PriceList(path, load_prices(path), kind)


def reprice(plan: Plan, path: str, prices: PriceList, now: str) -> tuple[Plan, Repriced]:
    """The plan at other prices, and what they change. RepriceError where what it recommends has none.

    The recommendation stays: what it rests on was checked for it alone. `now` is an ISO time stamp.
    """
    old = plan.recommendation
    if not old.models:
        raise RepriceError(f"{path}: recommends nothing, so nothing has a price. Run `planner plan` with --catalog.")
    scenario = scenario_of(plan)
    buy = scenario.buy if scenario else BuySpec()
    prices = replace(prices, retired=buy.retired)
    best = repriced(old, prices)
    if isinstance(best, Unpriced):
        raise RepriceError(best.with_path(path, prices))
    fleets = Fleets(plan, best, tuple((old, repriced(old, prices)) for old in plan.alternatives), prices, buy)
    cheaper = fleets.cheaper
    book = Book(plan, best, prices)
    new = replace(
        plan,
        created_at=now,
        recommendation=best,
        alternatives=tuple(fleets.alternatives),
        pareto=pareto([best, *fleets.alternatives]) if best.feasible else (),
        rejections=tuple(book.rejection(no) for no in plan.rejections if no.bottleneck not in PRICED),
        outlooks=(),
        precisions=(),
        measure_next=tuple(m for m in plan.measure_next if m.gpu in {gpu.kind for gpu in best.gpus}),
        prices_as_of=oldest_price(best),
        merging=tuple(book.way(way) for way in plan.merging),
        assumptions=(*plan.assumptions, repriced_at(plan, prices, now)),
        warnings=tuple(dict.fromkeys((*kept_warnings(plan, best), *warnings(plan, best, cheaper, prices, now)))),
    )
    return new, Repriced(
        plan=path,
        prices=str(prices.path),
        feasible=best.feasible,
        old_usd_per_hour=old.cost_usd_per_hour,
        new_usd_per_hour=best.cost_usd_per_hour,
        old_usd_per_month=old.cost_usd_per_month,
        new_usd_per_month=best.cost_usd_per_month,
        old_prices_as_of=plan.prices_as_of,
        new_prices_as_of=oldest_price(best),
        machines=tuple(price_changes(plan, prices)),
        fleets=(*fleets.changes(), *book.rejected(plan.rejections)),
        cheaper=candidate_name(cheaper.candidate) if cheaper else None,
        notes=tuple(notes(plan, best, cheaper, fleets.unpriced, prices, now)),
    )


def repriced_at(plan: Plan, prices: PriceList, now: str) -> Statement:
    """The assumption that only prices are new."""
    return Statement(code=Code.REPRICED, subjects=(plan.created_at, now, prices.path.name))


@dataclass(frozen=True)
class Unpriced:
    """Machines of a fleet that have no price in the file, a line for each that says why."""

    reasons: tuple[str, ...]

    def with_path(self, path: str, prices: PriceList) -> str:
        """The lines, those that concern the plan after its path."""
        of_prices = str(prices.path)
        return "\n".join(line if line.startswith(of_prices) else f"{path}: {line}" for line in self.reasons)


@dataclass(frozen=True)
class Fleets:
    """The fleets of a plan that were replayed, before and now."""

    plan: Plan
    best: Recommendation
    others: tuple[tuple[Recommendation, Recommendation | Unpriced], ...]
    """The alternatives, each as it was and at its new price."""
    prices: PriceList
    buy: BuySpec

    @cached_property
    def alternatives(self) -> Sequence[Recommendation]:
        """Alternatives at their new prices, without those that have none."""
        return in_order(self.plan, [new for _, new in self.others if isinstance(new, Recommendation)])

    @property
    def unpriced(self) -> list[str]:
        """Names of the alternatives without a price."""
        return [candidate_name(old.candidate) for old, new in self.others if isinstance(new, Unpriced)]

    @cached_property
    def moved(self) -> list[Recommendation]:
        """The same GPUs of whoever rents them for less."""
        feasible = [answer for answer in (self.best, *self.alternatives) if answer.feasible]
        moved = [elsewhere(answer, self.prices, self.buy) for answer in feasible]
        return [answer for answer in moved if answer]

    @cached_property
    def cheaper(self) -> Recommendation | None:
        """The cheapest fleet that costs less now than what is recommended; None where none does."""
        less = (1 - 1e-9) * self.best.cost_usd_per_hour  # by more than rounding
        fleets = [answer for answer in (*self.alternatives, *self.moved) if answer.feasible]
        rivals = [answer for answer in fleets if answer.cost_usd_per_hour < less]
        return min(rivals, key=lambda answer: answer.cost_usd_per_hour, default=None)

    def changes(self) -> Iterator[FleetChange]:
        """What each of them costs, before and now."""
        yield fleet_change(self.plan.recommendation, self.best, "recommended")
        for old, new in self.others:
            if isinstance(new, Recommendation):
                yield fleet_change(old, new, "alternative")
        for new in self.moved:
            yield fleet_change(replace(new, cost_usd_per_hour=nan), new, "same GPUs elsewhere")


def repriced(answer: Recommendation, prices: PriceList) -> Recommendation | Unpriced:
    """A fleet at new prices, or why some of its machines have none. What bounds its cost is no longer known."""
    priced = [prices.at(instances) for instances in answer.instances]
    reasons = tuple(one for one in priced if isinstance(one, str))
    if reasons:
        return Unpriced(reasons)
    machines = tuple(one for one in priced if isinstance(one, Instances))
    return replace(at_cost(answer, machines), lower_bound_usd_per_hour=nan)


def at_cost(answer: Recommendation, machines: tuple[Instances, ...]) -> Recommendation:
    """The answer on these machines, which cost something else."""
    cost = sum(i.count * i.usd_per_hour for i in machines)
    return replace(
        answer,
        instances=machines,
        cost_usd_per_hour=cost,
        cost_usd_per_month=cost * HOURS_PER_MONTH,
        unit_costs=answer.unit_costs and scaled(answer.unit_costs, cost / answer.cost_usd_per_hour),
    )


def scaled(unit: UnitCosts, factor: float) -> UnitCosts:
    """The same requests at another price."""
    camera = unit.per_stream_month
    return UnitCosts(
        per_million_requests=unit.per_million_requests * factor,
        per_million_right=unit.per_million_right * factor,
        per_stream_month=None if camera is None else camera * factor,
    )


def elsewhere(answer: Recommendation, prices: PriceList, buy: BuySpec) -> Recommendation | None:
    """The same GPUs of whoever rents them for least, which needs no other replay; None where nobody does for less."""
    machines = tuple(prices.elsewhere(one, buy) for one in answer.instances)
    if machines == answer.instances:
        return None
    return at_cost(answer, tuple(replace(one, ambiguous=True) for one in machines))


def in_order(plan: Plan, alternatives: Sequence[Recommendation]) -> Sequence[Recommendation]:
    """Alternatives cheapest first where they were so before; else in the order of what the plan has least of."""
    costs = [a.cost_usd_per_hour for a in (plan.recommendation, *plan.alternatives)]
    return sorted(alternatives, key=lambda a: a.cost_usd_per_hour) if costs == sorted(costs) else alternatives


@dataclass(frozen=True)
class Book:
    """New prices of fleets that a plan names without prices."""

    plan: Plan
    best: Recommendation
    prices: PriceList

    @cached_property
    def kind(self) -> PriceKind | None:
        """Kind of price that the plan rents at."""
        return next((i.price_kind for i in self.best.instances if i.price_kind), self.prices.kind)

    def cost(self, candidate: Candidate) -> float | None:
        """Dollars an hour of a fleet; None where some machine has no price."""
        costs = [self.machine(machines) for machines in candidate.machines]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if costs and len(known) == len(costs) else None

    def machine(self, machines: Machines) -> float | None:
        """Of machines of one type; those of one's own cost what they cost in the plan."""
        if machines.provider == OWN:
            own = self._own_usd_per_hour(machines.instance)
            return None if own is None else machines.count * own
        listed = self.prices.by_place.get((machines.provider, machines.region, machines.instance))
        price = listed.prices.get(self.kind) if listed and self.kind else None
        return machines.count * price.usd_per_hour if price else None

    def _own_usd_per_hour(self, name: str) -> float | None:
        answers = (self.best, *self.plan.alternatives)
        instances = [i for answer in answers for i in answer.instances]
        return next((i.usd_per_hour for i in instances if (i.provider, i.instance) == (OWN, name)), None)

    def rejection(self, no: Rejection) -> Rejection:
        """A rejected candidate at its new cost; without one where that is not known."""
        if no.cost_usd_per_hour is None or not isinstance(no.subject, Candidate):
            return no
        return replace(no, cost_usd_per_hour=self.cost(no.subject))

    def rejected(self, rejections: Sequence[Rejection]) -> Iterator[FleetChange]:
        """Fleets that were rejected for another reason than their price."""
        for no in rejections:
            was = no.cost_usd_per_hour
            if no.bottleneck in PRICED or was is None or not isinstance(no.subject, Candidate):
                continue
            if (new := self.cost(no.subject)) is not None:
                label = candidate_name(no.subject)
                yield FleetChange(label=label, role="rejected", old_usd_per_hour=was, new_usd_per_hour=new)

    def way(self, way: WayOfServing) -> WayOfServing:
        """A way of serving at the new price of its machines; its training keeps the scenario's price."""
        cost = self.best.cost_usd_per_hour if way.chosen else self.cost(way.candidate)
        hourly = nan if cost is None else cost
        total = way.total_usd_per_month + (hourly - way.cost_usd_per_hour) * HOURS_PER_MONTH
        return replace(way, cost_usd_per_hour=hourly, total_usd_per_month=total)


def fleet_change(old: Recommendation, new: Recommendation, role: str) -> FleetChange:
    """What a replayed fleet costs, before and now."""
    return FleetChange(
        label=candidate_name(new.candidate),
        role=role,
        old_usd_per_hour=old.cost_usd_per_hour,
        new_usd_per_hour=new.cost_usd_per_hour,
    )


def price_changes(plan: Plan, prices: PriceList) -> Iterator[PriceChange]:
    """Each machine of the replayed fleets that has a price in the file, once."""
    seen = set()
    for old in (i for a in (plan.recommendation, *plan.alternatives) for i in a.instances):
        new, machine = prices.at(old), f"{old.instance} ({old.gpu}), {old.provider} {old.region}".rstrip()
        if isinstance(new, Instances) and machine not in seen:
            seen.add(machine)
            yield PriceChange(
                machine=machine,
                price_kind=new.price_kind,
                old_usd_per_hour=old.usd_per_hour,
                new_usd_per_hour=new.usd_per_hour,
                old_as_of=old.price_as_of,
                new_as_of=new.price_as_of,
            )


def kept_warnings(plan: Plan, best: Recommendation) -> Iterator[PlanWarning]:
    """Those of the plan that are not about prices which no longer count."""
    was = spot_machines([i.instance for i in plan.recommendation.instances if i.price_kind is PriceKind.SPOT])
    still = any(i.price_kind is PriceKind.SPOT for i in best.instances)
    for warning in plan.warnings:
        if warning.what.code is not Code.STALE_PRICE and (still or warning != was):
            yield warning


def warnings(
    plan: Plan, best: Recommendation, cheaper: Recommendation | None, prices: PriceList, now: str
) -> Iterator[PlanWarning]:
    """What weakens the answer at its new prices."""
    spot = [i.instance for i in best.instances if i.price_kind is PriceKind.SPOT]
    if spot and plan.policies.failures is None:
        yield spot_machines(spot)
    for i in best.instances:
        if stale(i.price_as_of, date.fromisoformat(now[:10]), usual_days(i.provider)):
            what = Statement(code=Code.STALE_PRICE, subjects=(i.instance, i.price_as_of))
            remedy = Statement(code=Code.AS_SAID, text=f"look it up and write a newer one into {prices.path}")
            yield PlanWarning(what=what, remedies=(remedy,))
        listed = prices.by_place.get((i.provider, i.region, i.instance))
        if listed and listed.status is SaleStatus.RETIRED:
            yield retired_machines([i.instance])
    if cheaper is not None:
        figures = {"cost_usd_per_hour": cheaper.cost_usd_per_hour}
        name = candidate_name(cheaper.candidate)
        yield PlanWarning(what=Statement(code=Code.CHEAPER_NOW, subjects=(name,), figures=figures))


def notes(
    plan: Plan,
    best: Recommendation,
    cheaper: Recommendation | None,
    unpriced: Sequence[str],
    prices: PriceList,
    now: str,
) -> Iterator[str]:
    """What one should know before believing the new costs."""
    rivals = len(plan.alternatives) - len(unpriced)
    if cheaper:
        name, cost = candidate_name(cheaper.candidate), dollars(cheaper.cost_usd_per_hour)
        yield f"Cheaper now, and meets every SLO too: {name} at {cost}/h."
    elif best.feasible and rivals:
        yield f"None of the {rivals} other fleets that met every SLO is cheaper at these prices."
    if unpriced:
        yield f"Left out, for want of a price in {prices.path}: {names(unpriced)}."
    for warning in warnings(plan, best, None, prices, now):
        yield f"{warning_text(warning)}."
    for source in prices.sources(best):
        yield f"Source: {source}."
    lost = sum(no.bottleneck in PRICED for no in plan.rejections)
    never = f" {lost} candidates were rejected for their old price and never replayed." if lost else ""
    yield (
        "Only what was replayed is compared: another fleet may be cheaper at these prices, and what nothing can beat is"
        f" not known.{never} To search anew: planner plan SCENARIO --catalog DIR, with a prices.yaml in DIR."
    )


def warning_text(one: PlanWarning) -> str:
    """`The price of g5.xlarge is of 2025-01-01: look it up ...`."""
    text = warning_line(one)
    return f"{text[0].upper()}{text[1:]}"


def relative(old: float, new: float) -> float:
    """Change as a share of the old cost; NaN where there is none."""
    return (new - old) / old if old and isfinite(old) else nan
