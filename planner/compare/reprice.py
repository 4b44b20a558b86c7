"""A plan at other prices, without simulating again: what its replayed fleets cost, and whether another is cheaper."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import isfinite, nan
from pathlib import Path

from planner.catalog import OWN, Instance, Price, load_prices, retired_machines, spot_machines, stale
from planner.catalog_files import Status
from planner.exports.demand import scenario_of
from planner.layout import dollars, names
from planner.plans import Bottleneck, Caution, Instances, Plan, Recommendation, Rejection, UnitCosts, WayOfServing
from planner.scenario import BuySpec, PriceKind
from planner.units import HOURS_PER_MONTH, did_you_mean
from simulator.errors import InputError

REPRICE = "planner.reprice/v1"
PRICED = frozenset({Bottleneck.COST, Bottleneck.PRICE})
"""What stood in the way of a candidate only at the old prices."""
OF_FLEET = re.compile(r"(\d+) x (\S+) \((?:(\d+) x )?([^\s,()]+)(?:, (\S+)(?: (\S+))?)?\)")
"""One kind of machine in a label: `2 x g5.xlarge (A10G)`, `1 x NC24s_v3 (4 x V100, azure eastus)`."""


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
    """`recommended`, `alternative` (both replayed, and kept every promise) or `refused`."""
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
    """Recommended first, then alternatives, then refused ones whose machines all have a price."""
    cheaper: str | None
    """Label of the cheapest alternative, where it costs less now than what is recommended; it kept every promise."""
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
        found = self.by_place.get((old.provider, old.region, old.instance))
        if found is None:
            hint = did_you_mean(old.instance, [i.name for i in self.instances if i.name != old.instance])
            return f"{self.path}: has no price of {place}.{hint} Add it to `instances`, or name another file."
        if (found.gpu, found.gpu_count) != (old.gpu, old.gpu_count):
            there, here = f"{found.gpu_count} x {found.gpu}", f"{old.gpu_count} x {old.gpu}"
            return f"{self.path}: {place}: has {there}, and the plan {here}. Mend `gpu` and `gpu_count` there."
        if found.status is Status.RETIRED and not self.retired:
            return f"{self.path}: {place}: is no longer sold. Plan anew, with `buy.retired: true` if you have access."
        kind = self.kind or old.price_kind
        if kind is None:
            known = ", ".join(found.prices)
            return f"does not say which kind of price it took for {place}. Name it with --price: {known}."
        if (price := found.prices.get(kind)) is None:
            known = ", ".join(found.prices) or "none"
            way = "leave --price out" if self.kind else "name a kind with --price"
            return f"{self.path}: has no {kind} price of {place}, only {known}. Add it, or {way}."
        return replace(old, usd_per_hour=price.usd_per_hour, price_as_of=price.as_of, price_kind=kind)

    def elsewhere(self, old: Instances, buy: BuySpec) -> Instances:
        """The cheapest machines with the same GPUs at the same kind of price, of all that may be rented."""
        kind = self.kind or old.price_kind
        if old.provider == OWN or kind is None:
            return old
        like = [
            replace(
                old,
                provider=i.provider,
                region=i.region,
                instance=i.name,
                usd_per_hour=i.prices[kind].usd_per_hour,
                price_as_of=i.prices[kind].as_of,
                price_kind=kind,
            )
            for i in self.instances
            if (i.gpu, i.gpu_count) == (old.gpu, old.gpu_count)
            and (i.status is not Status.RETIRED or self.retired)
            and kind in i.prices
            and (not buy.providers or i.provider in buy.providers)
            and (not buy.regions or i.region in buy.regions)
        ]
        return min([old, *like], key=lambda one: one.usd_per_hour)

    def price(self, old: Instances) -> Price | None:
        """Price and source of machines that were given a price here."""
        found = self.by_place.get((old.provider, old.region, old.instance))
        return found.prices.get(old.price_kind) if found and old.price_kind else None


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
    if isinstance(best, list):
        raise RepriceError("\n".join(line if line.startswith(str(prices.path)) else f"{path}: {line}" for line in best))
    others = [(a, repriced(a, prices)) for a in plan.alternatives]
    alternatives = [new for _, new in others if isinstance(new, Recommendation)]
    unpriced = [was.label for was, new in others if isinstance(new, list)]
    book = Book(plan, best, prices)
    rejections = tuple(book.rejection(no) for no in plan.rejections if no.bottleneck not in PRICED)
    moved = [one for answer in (best, *alternatives) if answer.feasible and (one := elsewhere(answer, prices, buy))]
    less = (1 - 1e-9) * best.cost_usd_per_hour
    rivals = [a for a in (*alternatives, *moved) if a.feasible and a.cost_usd_per_hour < less]
    cheaper = min(rivals, key=lambda a: a.cost_usd_per_hour, default=None)
    said = tuple(notes(plan, best, cheaper, unpriced, prices, now))
    new = replace(
        plan,
        created_at=now,
        recommendation=best,
        alternatives=tuple(in_order(plan, alternatives)),
        pareto=pareto_of([best, *alternatives]) if best.feasible else (),
        rejections=rejections,
        outlooks=(),
        precisions=(),
        measure_next=tuple(m for m in plan.measure_next if m.gpu in {gpu.kind for gpu in best.gpus}),
        prices_as_of=oldest(best),
        merging=tuple(book.way(way) for way in plan.merging),
        assumptions=(*plan.assumptions, f"replayed {plan.created_at}, and priced {now} from {prices.path.name}"),
        warnings=tuple(dict.fromkeys((*kept_warnings(plan, best), *warnings(plan, best, cheaper, prices, now)))),
    )
    fleets = [fleet_change(o, n, r) for o, n, r in pairs(old, best, others)]
    fleets += [fleet_change(replace(one, cost_usd_per_hour=nan), one, "same GPUs elsewhere") for one in moved]
    fleets += book.refused(plan.rejections)
    return new, Repriced(
        plan=path,
        prices=str(prices.path),
        feasible=best.feasible,
        old_usd_per_hour=old.cost_usd_per_hour,
        new_usd_per_hour=best.cost_usd_per_hour,
        old_usd_per_month=old.cost_usd_per_month,
        new_usd_per_month=best.cost_usd_per_month,
        old_prices_as_of=plan.prices_as_of,
        new_prices_as_of=oldest(best),
        machines=tuple(price_changes(plan, prices)),
        fleets=tuple(fleets),
        cheaper=cheaper.label if cheaper else None,
        notes=said,
    )


def repriced(answer: Recommendation, prices: PriceList) -> Recommendation | list[str]:
    """A fleet at new prices, or a line for each machine that has none. What bounds its cost is no longer known."""
    found = [prices.at(instances) for instances in answer.instances]
    machines = tuple(one for one in found if isinstance(one, Instances))
    if problems := [one for one in found if isinstance(one, str)]:
        return problems
    cost = sum(i.count * i.usd_per_hour for i in machines)
    return replace(
        answer,
        instances=machines,
        cost_usd_per_hour=cost,
        cost_usd_per_month=cost * HOURS_PER_MONTH,
        unit_costs=answer.unit_costs and scaled(answer.unit_costs, cost / answer.cost_usd_per_hour),
        lower_bound_usd_per_hour=nan,
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
    cost = sum(one.count * one.usd_per_hour for one in machines)
    parts = [
        f"{i.count} x {i.instance} ({f'{i.gpu_count} x ' if i.gpu_count > 1 else ''}{i.gpu}, {i.provider} {i.region})"
        for i in machines
    ]
    memory = answer.label.rpartition(")")[2]
    return replace(
        answer,
        label=" + ".join(parts) + memory,
        instances=machines,
        cost_usd_per_hour=cost,
        cost_usd_per_month=cost * HOURS_PER_MONTH,
        unit_costs=answer.unit_costs and scaled(answer.unit_costs, cost / answer.cost_usd_per_hour),
    )


def in_order(plan: Plan, alternatives: Sequence[Recommendation]) -> Sequence[Recommendation]:
    """Alternatives cheapest first where they were so before; else in the order of what the plan has least of."""
    costs = [a.cost_usd_per_hour for a in (plan.recommendation, *plan.alternatives)]
    return sorted(alternatives, key=lambda a: a.cost_usd_per_hour) if costs == sorted(costs) else alternatives


def pareto_of(answers: Sequence[Recommendation]) -> tuple[str, ...]:
    """Labels of those that no other beats in cost and latency, at the new costs."""
    from planner.search import pareto

    return pareto(answers)


def oldest(answer: Recommendation) -> str:
    """ISO date of the oldest price; empty where nothing is rented."""
    return min((i.price_as_of for i in answer.instances if i.price_as_of), default="")


@dataclass(frozen=True)
class Book:
    """New prices of fleets that a plan names in words only."""

    plan: Plan
    best: Recommendation
    prices: PriceList

    @cached_property
    def kind(self) -> PriceKind | None:
        """Kind of price that the plan rents at."""
        return next((i.price_kind for i in self.best.instances if i.price_kind), self.prices.kind)

    def cost(self, label: str) -> float | None:
        """Dollars an hour of a fleet like `2 x g5.xlarge (A10G), resident`; None where some machine has no price."""
        parts = OF_FLEET.findall(label)
        costs = [self.machine(int(n), name, int(each or 1), gpu, place) for n, name, each, gpu, *place in parts]
        return sum(c for c in costs if c is not None) if costs and None not in costs else None

    def machine(self, count: int, name: str, gpu_count: int, gpu: str, place: Sequence[str]) -> float | None:
        """Of some machines of one name: at the place in the label, or where the plan has them, or the only one."""
        what = (name, gpu, gpu_count)
        mine = [i for a in (self.best, *self.plan.alternatives) for i in a.instances]
        own = [i.usd_per_hour for i in mine if i.provider == OWN and (i.instance, i.gpu, i.gpu_count) == what]
        if own:
            return count * own[0]
        there = [i for i in self.prices.instances if (i.name, i.gpu, i.gpu_count) == what and self.kind in i.prices]
        if place and place[0]:
            there = [i for i in there if (i.provider, i.region) == tuple(place)]
        if len(there) > 1:
            places = {(i.provider, i.region) for i in mine if i.instance == name}
            there = [i for i in there if (i.provider, i.region) in places]
        return count * there[0].prices[self.kind].usd_per_hour if len(there) == 1 and self.kind else None

    def rejection(self, no: Rejection) -> Rejection:
        """A refused candidate at its new cost; without one where that is not known."""
        return no if no.cost_usd_per_hour is None else replace(no, cost_usd_per_hour=self.cost(no.candidate))

    def refused(self, rejections: Sequence[Rejection]) -> Iterator[FleetChange]:
        """Fleets that were refused for another reason than their price."""
        for no in rejections:
            new = None if no.bottleneck in PRICED else self.cost(no.candidate)
            if new is not None and no.cost_usd_per_hour is not None:
                label, was = no.candidate, no.cost_usd_per_hour
                yield FleetChange(label=label, role="refused", old_usd_per_hour=was, new_usd_per_hour=new)

    def way(self, way: WayOfServing) -> WayOfServing:
        """A way of serving at the new price of its machines; its training keeps the scenario's price."""
        cost = self.best.cost_usd_per_hour if way.chosen else self.cost(way.fleet)
        hourly = nan if cost is None else cost
        total = way.total_usd_per_month + (hourly - way.cost_usd_per_hour) * HOURS_PER_MONTH
        return replace(way, cost_usd_per_hour=hourly, total_usd_per_month=total)


def pairs(
    old: Recommendation, best: Recommendation, others: Sequence[tuple[Recommendation, Recommendation | list[str]]]
) -> Iterator[tuple[Recommendation, Recommendation, str]]:
    """Fleets before and now, with what they are in the plan."""
    yield old, best, "recommended"
    yield from ((was, new, "alternative") for was, new in others if isinstance(new, Recommendation))


def fleet_change(old: Recommendation, new: Recommendation, role: str) -> FleetChange:
    """What a replayed fleet costs, before and now."""
    return FleetChange(
        label=old.label, role=role, old_usd_per_hour=old.cost_usd_per_hour, new_usd_per_hour=new.cost_usd_per_hour
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


def kept_warnings(plan: Plan, best: Recommendation) -> Iterator[Caution]:
    """Those of the plan that are not about prices which no longer count."""
    was = spot_machines([i.instance for i in plan.recommendation.instances if i.price_kind is PriceKind.SPOT])
    still = any(i.price_kind is PriceKind.SPOT for i in best.instances)
    for caution in plan.warnings:
        if not caution.what.startswith("the price of ") and (still or caution != was):
            yield caution


def warnings(
    plan: Plan, best: Recommendation, cheaper: Recommendation | None, prices: PriceList, now: str
) -> Iterator[Caution]:
    """What weakens the answer at its new prices."""
    spot = [i.instance for i in best.instances if i.price_kind is PriceKind.SPOT]
    if spot and plan.policies.failures is None:
        yield spot_machines(spot)
    for i in best.instances:
        if stale(i.price_as_of, date.fromisoformat(now[:10])):
            what = f"the price of {i.instance} is of {i.price_as_of}"
            yield Caution(what=what, remedy=f"look it up and write a newer one into {prices.path}")
        found = prices.by_place.get((i.provider, i.region, i.instance))
        if found and found.status is Status.RETIRED:
            yield retired_machines([i.instance])
    if cheaper is not None:
        what = f"{cheaper.label}, which keeps every promise too, costs {dollars(cheaper.cost_usd_per_hour)}/h now: less"
        yield Caution(what=what, remedy="run `planner plan` with --catalog")


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
        yield f"Cheaper now, and keeps every promise too: {cheaper.label} at {dollars(cheaper.cost_usd_per_hour)}/h."
    elif best.feasible and rivals:
        yield f"None of the {rivals} other fleets that kept every promise is cheaper at these prices."
    if unpriced:
        yield f"Left out, for want of a price in {prices.path}: {names(unpriced)}."
    yield from (f"{sentence}." for sentence in map(caution_text, warnings(plan, best, None, prices, now)))
    sources = {price.source for i in best.instances if (price := prices.price(i))}
    yield from (f"Source: {source}." for source in sorted(sources))
    lost = sum(no.bottleneck in PRICED for no in plan.rejections)
    never = f" {lost} candidates were refused for their old price and never replayed." if lost else ""
    yield (
        "Only what was replayed is compared: another fleet may be cheaper at these prices, and what nothing can beat is"
        f" not known.{never} To search anew: planner plan SCENARIO --catalog DIR, with a prices.yaml in DIR."
    )


def caution_text(caution: Caution) -> str:
    """`The price of g5.xlarge is of 2025-01-01: look it up ...`."""
    return f"{caution.what[0].upper()}{caution.what[1:]}: {caution.remedy}"


def relative(old: float, new: float) -> float:
    """Change as a share of the old cost; NaN where there is none."""
    return (new - old) / old if old and isfinite(old) else nan
