"""A plan at other prices, without simulating again: what its replayed fleets cost, and whether another is cheaper."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import isfinite, isnan, nan
from operator import attrgetter

from planner.catalog.files import SaleStatus
from planner.catalog.offers import retired_machines, spot_machines
from planner.catalog.sold import OWN, stale_price
from planner.compare.price_list import PriceList, RepriceError
from planner.io.demand import scenario_of
from planner.model.candidate import Candidate, Machines
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec
from planner.model.plan import (
    Bottleneck,
    Instances,
    KindLeftOut,
    OfOneKind,
    Plan,
    PlanWarning,
    Recommendation,
    Rejection,
    Searched,
    UnitCosts,
    WayOfServing,
    is_as_sure,
)
from planner.model.ranges import is_within
from planner.model.statement import Code, Statement
from planner.replay.kinds import at_each_price
from planner.search.one_way import oldest_price, pareto
from planner.units.reading import HOURS_PER_MONTH
from planner.words.candidates import candidate_name

REPRICE = "planner.reprice/v2"
USD_PER_HOUR = attrgetter("cost_usd_per_hour")
PRICED = frozenset({Bottleneck.COST, Bottleneck.PRICE})
"""What stood in the way of a candidate only at the old prices."""
OF_PRICES = frozenset({Code.STALE_PRICE, Code.STALE_PRICES, Code.RETIRED, Code.CHEAPER_NOW, Code.OVER_MAX_COST})
"""What is said of prices, and anew of other prices."""


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
    """`recommended`, `alternative`, `alternative, only ranked` (less sure), `same GPUs elsewhere` or
    `rejected`."""
    old_usd_per_hour: float
    new_usd_per_hour: float
    prices_as_of: str = ""
    """ISO date of the oldest of its new prices; empty for machines of one's own, and of rejected fleets."""
    days_old: int | None = None
    """Days since then."""


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
    """Label of the cheapest alternative that is as sure to meet every SLO, where it costs less now than what is
    recommended."""
    cheaper_ranked: str | None
    """The same of those that are less sure, where it costs less than that too."""
    rivals: int
    """Alternatives that have a price here."""
    unpriced: tuple[str, ...]
    """Alternatives that have none."""
    never_replayed: int
    """Candidates that were rejected for their old price, and never replayed."""
    warnings: tuple[PlanWarning, ...]
    sources: tuple[str, ...]
    """Of the new prices."""
    schema: str = field(default=REPRICE)


def reprice(plan: Plan, path: str, prices: PriceList, now: str) -> tuple[Plan, Repriced]:
    """The plan at other prices, and what they change. RepriceError where what it recommends has none.

    The recommendation stays: what it rests on was checked for it alone. `now` is an ISO time stamp.
    """
    if not plan.recommendation.models:
        raise RepriceError(f"{path}: recommends nothing, so nothing has a price. Run `planner plan` with --catalog.")
    scenario = scenario_of(plan)
    prices = replace(prices, plan=path, buy=scenario.buy if scenario else BuySpec())
    repricing = Repricing(plan, prices, now, repriced(plan.recommendation, prices))
    return repricing.new_plan(), repricing.changes()


def repriced(answer: Recommendation, prices: PriceList) -> Recommendation:
    """A fleet at new prices; RepriceError, a line for each machine without one. What bounds its cost is no longer
    known."""
    machines, reasons = [], []
    for one in answer.instances:
        try:
            machines.append(prices.at(one))
        except RepriceError as error:
            reasons.append(str(error))
    if reasons:
        raise RepriceError("\n".join(reasons))
    return replace(at_cost(answer, tuple(machines)), lower_bound_usd_per_hour=nan, lower_bound_full_usd_per_hour=nan)


def repriced_or_none(answer: Recommendation, prices: PriceList) -> Recommendation | None:
    """The same; None where some machine has no price."""
    try:
        return repriced(answer, prices)
    except RepriceError:
        return None


def at_cost(answer: Recommendation, machines: tuple[Instances, ...]) -> Recommendation:
    """The answer on these machines, which cost something else."""
    cost = sum(one.paid * one.usd_per_hour for one in machines)
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


@dataclass(frozen=True)
class Repricing:
    """A plan on its way to other prices."""

    plan: Plan
    prices: PriceList
    now: str
    best: Recommendation
    """Its recommendation at the new prices."""

    @cached_property
    def others(self) -> list[tuple[Recommendation, Recommendation | None]]:
        """The alternatives as they were and at their new prices; None where they have none."""
        return [(old, repriced_or_none(old, self.prices)) for old in self.plan.alternatives]

    @cached_property
    def alternatives(self) -> list[Recommendation]:
        """Alternatives cheapest first where they were so before; else in the order of what the plan has least of."""
        priced = [new for _, new in self.others if new]
        costs = [answer.cost_usd_per_hour for answer in (self.plan.recommendation, *self.plan.alternatives)]
        return sorted(priced, key=USD_PER_HOUR) if costs == sorted(costs) else priced

    @cached_property
    def moved(self) -> list[Recommendation]:
        """The same GPUs of whoever rents them for least, where that is less: it needs no other replay."""
        moved = []
        for answer in (self.best, *self.alternatives):
            machines = tuple(map(self.prices.elsewhere, answer.instances))
            if answer.feasible and machines != answer.instances:
                merged: dict[tuple[str, str, str], Instances] = {}
                for one in machines:
                    place = (one.provider, one.region, one.instance)
                    known = merged.get(place, replace(one, count=0, spares=0))
                    merged[place] = replace(
                        one, count=known.count + one.count, spares=known.spares + one.spares, ambiguous=True
                    )
                moved.append(at_cost(answer, tuple(merged.values())))
        return [answer for answer in moved if not self.is_refused(answer)]

    def is_refused(self, answer: Recommendation) -> bool:
        """Whether a fleet that was only ranked has the GPUs of one that was rejected for another reason than price."""
        rejected = [no.subject for no in self.plan.rejections if no.bottleneck not in PRICED]
        refused = [gpus_of(subject) for subject in rejected if isinstance(subject, Candidate)]
        return answer.searched is Searched.RANKED and gpus_of(answer.candidate) in refused

    @cached_property
    def cheaper(self) -> Recommendation | None:
        """The cheapest fleet that is as sure and costs less now than what is recommended; None where none does."""
        return self.cheapest_below(self.best, is_sure=True)

    @cached_property
    def cheaper_ranked(self) -> Recommendation | None:
        """The cheapest that was ranked and is less sure, so that it may miss; None where it costs no less than all that
        surely meet every SLO."""
        return self.cheapest_below(self.cheaper or self.best, is_sure=False)

    def is_only_ranked(self, answer: Recommendation) -> bool:
        """Whether a fleet is less sure than what is recommended."""
        return not is_as_sure(answer, self.best)

    def cheapest_below(self, best: Recommendation, *, is_sure: bool) -> Recommendation | None:
        """The cheapest of those looked at so far that costs less than another, by more than rounding."""
        less = (1 - 1e-9) * best.cost_usd_per_hour
        fleets = [a for a in (*self.alternatives, *self.moved) if a.feasible and self.is_only_ranked(a) != is_sure]
        known = [a for a in fleets if a.cost_usd_per_hour < less and not self.is_refused(a)]
        return min(known, key=USD_PER_HOUR, default=None)

    @cached_property
    def kept(self) -> list[Rejection]:
        """Candidates that were rejected for another reason than their price, at their new cost."""
        return [self.rejection(no) for no in self.plan.rejections if no.bottleneck not in PRICED]

    def rejection(self, no: Rejection) -> Rejection:
        """A rejected candidate at its new cost; without one where that is not known."""
        if no.cost_usd_per_hour is None or not isinstance(no.subject, Candidate):
            return no
        return replace(no, cost_usd_per_hour=self.cost(no.subject))

    def cost(self, candidate: Candidate) -> float | None:
        """Dollars an hour of a fleet that was not replayed; None where some machine has no price."""
        costs = [self.hourly(machines) for machines in candidate.machines]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if costs and len(known) == len(costs) else None

    @cached_property
    def own_usd_per_hour(self) -> dict[str, float]:
        """What one's own machines cost each, as the plan has it."""
        replayed = [one for answer in (self.best, *self.plan.alternatives) for one in answer.instances]
        return {one.instance: one.usd_per_hour for one in reversed(replayed) if one.provider == OWN}

    @cached_property
    def price_kind(self) -> PriceKind:
        """That counts: the one asked for, that of the plan's machines, or the scenario's where all are one's own."""
        of_machines = next((one.price_kind for one in self.best.instances if one.price_kind), None)
        return of_machines or self.prices.kind or self.prices.buy.price

    def hourly(self, machines: Machines) -> float | None:
        """Of machines of one type: one's own cost what they cost in the plan, others what the plan's kind of price is.
        None where that is not known."""
        listed = self.prices.listed(machines)
        price = listed.prices.get(self.price_kind) if listed else None
        rented = price.usd_per_hour if price else None
        each = self.own_usd_per_hour.get(machines.instance) if machines.provider == OWN else rented
        return None if each is None else machines.count * each

    @cached_property
    def kinds(self) -> tuple[OfOneKind, ...]:
        """Each kind of GPU alone, the cheapest first, of those whose fleet has a price."""
        return tuple(sorted(filter(None, map(self.kind_alone, self.plan.by_gpu)), key=USD_PER_HOUR))

    def kind_alone(self, one: OfOneKind) -> OfOneKind | None:
        """The same fleet at these prices; None where it has none."""
        machines = self.bought(one.candidate)
        cost = sum(machine.paid * machine.usd_per_hour for machine in machines)
        if not machines or isnan(cost):
            return None
        by_price = at_each_price([(self.prices.listed(machine), machine.paid) for machine in machines])
        return replace(
            one,
            cost_usd_per_hour=cost,
            usd_per_hour_by_price={kind: usd_per_hour for kind, (usd_per_hour, _) in by_price.items()},
            prices_as_of=min((machine.price_as_of for machine in machines if machine.price_as_of), default=""),
            prices_as_of_by_price={kind: as_of for kind, (_, as_of) in by_price.items()},
        )

    def bought(self, candidate: Candidate) -> tuple[Instances, ...]:
        """A fleet's machines at these prices; empty where one has none, or where there are spares that only replayed
        fleets count."""
        replayed = {answer.candidate: answer.instances for answer in (self.best, *self.alternatives)}
        if candidate in replayed or self.plan.policies.survive:
            return replayed.get(candidate, ())
        with suppress(RepriceError):
            return tuple(self.prices.at(self.as_instances(machines)) for machines in candidate.machines)
        return ()

    def as_instances(self, machines: Machines) -> Instances:
        """Machines before they get a price; those of one's own have theirs, NaN where no replayed fleet has any."""
        is_own = machines.provider == OWN
        return Instances(
            provider=machines.provider,
            region=machines.region,
            instance=machines.instance,
            gpu=machines.gpu,
            gpu_count=machines.gpu_count,
            count=machines.count,
            usd_per_hour=self.own_usd_per_hour.get(machines.instance, nan) if is_own else nan,
            price_as_of="",
            price_kind=None if is_own else self.price_kind,
            ambiguous=machines.ambiguous,
        )

    def left_out(self) -> Iterator[KindLeftOut]:
        """Kinds of GPU without a fleet, and those that only a price kept out: what they cost is not known."""
        unknown = Statement(code=Code.NOT_REPRICED)
        for one in self.plan.by_gpu_left_out:
            by_price = one.why.code is Code.KIND_TOO_DEAR or "buy.max_cost" in one.why.subjects
            yield replace(one, why=unknown if by_price else one.why, usd_per_hour_at_least=None)
        priced = {one.gpu for one in self.kinds}
        for kind in self.plan.by_gpu:
            if kind.gpu not in priced:
                yield KindLeftOut(gpu=kind.gpu, why=unknown)

    def way(self, way: WayOfServing) -> WayOfServing:
        """A way of serving at the new price of its machines; its training keeps the scenario's price."""
        cost = self.best.cost_usd_per_hour if way.chosen else self.cost(way.candidate)
        hourly = nan if cost is None else cost
        total = way.total_usd_per_month + (hourly - way.cost_usd_per_hour) * HOURS_PER_MONTH
        return replace(way, cost_usd_per_hour=hourly, total_usd_per_month=total)

    def new_plan(self) -> Plan:
        """The plan at these prices."""
        plan, best = self.plan, self.best
        assumption = Statement(code=Code.REPRICED, subjects=(plan.created_at, self.now, self.prices.path.name))
        on = {gpu.kind for gpu in best.gpus}
        return replace(
            plan,
            created_at=self.now,
            recommendation=best,
            alternatives=tuple(self.alternatives),
            pareto=pareto([best, *self.alternatives]) if best.feasible else (),
            by_gpu=self.kinds,
            by_gpu_left_out=tuple(self.left_out()),
            rejections=tuple(self.kept),
            outlooks=(),
            precisions=(),
            measure_next=tuple(
                replace(one, usd=nan, worth_usd_per_month=nan) for one in plan.measure_next if one.gpu in on
            ),
            prices_as_of=oldest_price(best),
            merging=tuple(map(self.way, plan.merging)),
            assumptions=(*plan.assumptions, assumption),
            warnings=tuple(dict.fromkeys((*self.kept_warnings(), *self.warnings()))),
        )

    def kept_warnings(self) -> Iterator[PlanWarning]:
        """Those of the plan that are not about prices which no longer count."""
        was = spot_machines(on_spot(self.plan.recommendation))
        for warning in self.plan.warnings:
            if warning.what.code not in OF_PRICES and (on_spot(self.best) or warning != was):
                yield warning

    def warnings(self) -> Iterator[PlanWarning]:
        """What weakens the answer at its new prices."""
        most, cost = self.prices.buy.max_cost, self.best.cost_usd_per_hour
        if most is not None and not is_within(cost, most):
            figures = {"cost_usd_per_hour": cost, "cost_max_usd_per_hour": most}
            yield PlanWarning(what=Statement(code=Code.OVER_MAX_COST, figures=figures))
        if (spot := on_spot(self.best)) and self.plan.policies.failures is None:
            yield spot_machines(spot)
        fleets = [fleet for fleet in (self.best, self.cheaper, self.cheaper_ranked) if fleet]
        for one in (one for fleet in fleets for one in fleet.instances):
            if what := stale_price([one.instance], one.provider, one.price_as_of, self.today):
                remedy = f"look it up and write a newer one into {self.prices.path}"
                yield PlanWarning(what=what, remedies=(Statement(code=Code.AS_SAID, text=remedy),))
            listed = self.prices.listed(one)
            if listed and listed.status_at(one.price_kind) is SaleStatus.RETIRED:
                yield retired_machines([one.instance])
        if self.cheaper:
            figures = {"cost_usd_per_hour": self.cheaper.cost_usd_per_hour}
            name = candidate_name(self.cheaper.candidate)
            yield PlanWarning(what=Statement(code=Code.CHEAPER_NOW, subjects=(name,), figures=figures))

    @property
    def today(self) -> date:
        """Of `now`."""
        return date.fromisoformat(self.now[:10])

    def changes(self) -> Repriced:
        """What the prices change."""
        old, new = self.plan.recommendation, self.best
        return Repriced(
            plan=self.prices.plan,
            prices=str(self.prices.path),
            feasible=new.feasible,
            old_usd_per_hour=old.cost_usd_per_hour,
            new_usd_per_hour=new.cost_usd_per_hour,
            old_usd_per_month=old.cost_usd_per_month,
            new_usd_per_month=new.cost_usd_per_month,
            old_prices_as_of=self.plan.prices_as_of,
            new_prices_as_of=oldest_price(new),
            machines=tuple(self.machine_changes()),
            fleets=tuple(self.fleet_changes()),
            cheaper=candidate_name(self.cheaper.candidate) if self.cheaper else None,
            cheaper_ranked=candidate_name(self.cheaper_ranked.candidate) if self.cheaper_ranked else None,
            rivals=len(self.alternatives),
            unpriced=tuple(candidate_name(old.candidate) for old, new in self.others if new is None),
            never_replayed=len(self.plan.rejections) - len(self.kept),
            warnings=tuple(dict.fromkeys(self.warnings())),
            sources=tuple(self.prices.sources(self.best)),
        )

    def machine_changes(self) -> Iterator[PriceChange]:
        """Each machine of the replayed fleets that has a price in the file, once."""
        seen = set()
        for was in (one for answer in (self.plan.recommendation, *self.plan.alternatives) for one in answer.instances):
            machine = f"{was.instance} ({was.gpu}), {was.provider} {was.region}".rstrip()
            if machine in seen:
                continue
            with suppress(RepriceError):
                now = self.prices.at(was)
                seen.add(machine)
                yield PriceChange(
                    machine=machine,
                    price_kind=now.price_kind,
                    old_usd_per_hour=was.usd_per_hour,
                    new_usd_per_hour=now.usd_per_hour,
                    old_as_of=was.price_as_of,
                    new_as_of=now.price_as_of,
                )

    def fleet_changes(self) -> Iterator[FleetChange]:
        """What each fleet costs, before and now."""
        was, best = self.plan.recommendation, self.best
        yield self.fleet_change(best, "recommended", was.cost_usd_per_hour)
        for before, now in self.others:
            if now:
                only = ", only ranked" if self.is_only_ranked(now) else ""
                yield self.fleet_change(now, f"alternative{only}", before.cost_usd_per_hour)
        for fleet in self.moved:
            yield self.fleet_change(fleet, "same GPUs elsewhere", nan)
        rejected = [no for no in self.plan.rejections if no.bottleneck not in PRICED]
        for former, no in zip(rejected, self.kept, strict=True):
            old, new = former.cost_usd_per_hour, no.cost_usd_per_hour
            if isinstance(no.subject, Candidate) and old is not None and new is not None:
                yield FleetChange(
                    label=candidate_name(no.subject), role="rejected", old_usd_per_hour=old, new_usd_per_hour=new
                )

    def fleet_change(self, answer: Recommendation, role: str, old_usd_per_hour: float) -> FleetChange:
        """What a replayed fleet costs an hour, before and now."""
        as_of = oldest_price(answer)
        return FleetChange(
            label=candidate_name(answer.candidate),
            role=role,
            old_usd_per_hour=old_usd_per_hour,
            new_usd_per_hour=answer.cost_usd_per_hour,
            prices_as_of=as_of,
            days_old=(self.today - date.fromisoformat(as_of)).days if as_of else None,
        )


def gpus_of(candidate: Candidate) -> Counter[tuple[str, int]]:
    """Machines by their kind of GPU and how many each has."""
    counts: Counter[tuple[str, int]] = Counter()
    for machines in candidate.machines:
        counts[machines.gpu, machines.gpu_count] += machines.count
    return counts


def on_spot(answer: Recommendation) -> list[str]:
    """Types of its machines that may be taken away."""
    return [one.instance for one in answer.instances if one.price_kind is PriceKind.SPOT]


def relative(old: float, new: float) -> float:
    """Change as a share of the old cost; NaN where there is none."""
    return (new - old) / old if old and isfinite(old) else nan
