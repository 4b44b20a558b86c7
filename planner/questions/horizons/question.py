"""The question of a long horizon: load, levels, what is on offer, and the least that any way must cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

import numpy as np

from planner.catalog.offers import Offer
from planner.model.calendar import CalendarSpec
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec
from planner.model.progress import Progress
from planner.questions.horizons.demand import MINUTE_S, MINUTES_PER_HOUR, PERIODS, Levels
from planner.questions.horizons.judging import Course
from planner.questions.horizons.machines import Hardware, MachineGroup, hardware
from planner.questions.horizons.market import Market
from planner.replay.run import seed_of
from simulator.clock.autoscaling import HOUR_S, Autoscaling, Counts, Interruptions, strikes
from simulator.grouping import grouped
from simulator.world.workload import Floats

STAGE = 4
"""Seeds of interruptions are no others'."""
TARGETS = tuple(percent / 100 for percent in range(5, 101, 5))
"""Target utilizations of a timetable, and of an autoscaler where the scenario states none."""
TARGET_MIN = 0.5
"""Lower ones are tried only where the headroom asks for them."""
NEAR_HEADROOM = 0.7
"""Part of what the headroom leaves from which on targets are tried."""
SPARE = 1.5
"""Machines over those of the peak up to which numbers are tried."""


@dataclass(frozen=True)
class HorizonQuestion:
    """Load, levels and offers, which all ways have in common."""

    market: Market
    calendar: CalendarSpec
    factors: Floats
    """Factor of each minute."""
    levels: Levels
    progress: Progress
    needs: dict[Hardware, Counts] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Length of the whole calendar."""
        return len(self.factors) * MINUTE_S

    @property
    def hours(self) -> float:
        """Length of the whole calendar."""
        return self.duration_s / HOUR_S

    @property
    def buy(self) -> BuySpec:
        """Machines that may be had, and what an hour of them may cost."""
        return self.market.loaded.scenario.buy

    def course(self, group: MachineGroup) -> Course:
        """This load on such machines."""
        return Course(group, self.factors, self.levels, self.calendar.keep, self.calendar.keep_share)

    def needed(self, group: MachineGroup) -> Counts:
        """Fewest machines that meet every SLO on average at each level; remembered."""
        key = hardware(group.offer)
        if key not in self.needs:
            self.needs[key] = self.course(group).needed
        return self.needs[key]

    def most_machines(self, group: MachineGroup) -> int:
        """Most machines that are tried."""
        peak_erlangs = group.load_erlangs * float(self.factors.max())
        peak = max(group.machines_peak, ceil(peak_erlangs))
        return min(group.machines_max, ceil(SPARE * peak))

    # Autoscaler and interruptions as the simulator takes them

    def policy(self, group: MachineGroup, target: float) -> Autoscaling:
        """The autoscaler of these machines, beside the group's base."""
        spec = self.calendar.autoscaling
        base = group.base.machines if group.base else 0
        most = group.machines_max
        if spec.max is not None:
            most = min(most, max(0, spec.max - base))
        return Autoscaling(
            target_utilization=target,
            boot_s=spec.boot,
            load_s=self.weight_load_s(group),
            scale_down_delay_s=spec.scale_down_delay,
            interval_s=spec.interval,
            machines_min=min(most, max(0, spec.min - base)),
            machines_max=most,
        )

    def start_s(self, group: MachineGroup) -> float:
        """Time from the order of a machine until it answers."""
        return self.calendar.autoscaling.boot + self.weight_load_s(group)

    def weight_load_s(self, group: MachineGroup) -> float:
        """Time from the boot until the models answer.

        Where the scenario states none: the weights of all models loaded one after the other, by their profiles.
        """
        stated_s = self.calendar.autoscaling.load
        if stated_s is not None:
            return stated_s
        sized = [placed.portion.sized for placed in group.trial.packing.placed]
        profiles = {some.model: some.profile for some in sized}
        return sum(profile.load(profile.weight_bytes) for profile in profiles.values())

    @cached_property
    def grid(self) -> Sequence[float]:
        """Target utilizations that are tried."""
        least = min(TARGET_MIN, NEAR_HEADROOM * (1 - self.market.loaded.scenario.headroom))
        return [target for target in TARGETS if target >= least] or TARGETS[:1]

    @cached_property
    def targets(self) -> Sequence[float]:
        """Target utilizations of the autoscaler."""
        stated = self.calendar.autoscaling.target_utilization
        return self.grid if stated is None else (stated,)

    @cached_property
    def interruptions(self) -> Interruptions | None:
        """How spot machines are taken away; None where they are not weighed."""
        spot = self.calendar.spot
        if spot is None:
            return None
        return Interruptions(
            rate_per_s=spot.interruptions,
            notice_s=spot.notice,
            together=spot.together,
            zones=spot.zones,
            shortage_s=spot.shortage,
        )

    @cached_property
    def seeds(self) -> Sequence[int]:
        """Seeds of the interruptions, one for each replication."""
        scenario = self.market.loaded.scenario
        return [seed_of(scenario.seed, STAGE, i) for i in range(scenario.replications)]

    def hours_in_shortage(self, machines: int) -> float:
        """Hours, at most, in which so many spot machines are not to be had, the mean of the replications."""
        rule = self.interruptions
        if rule is None:
            return 0.0
        strikes_of = [len(zone) for seed in self.seeds for zone in strikes(rule, self.duration_s, seed)]
        machines_of_zone = ceil(machines / rule.zones)
        hours = float(np.mean(strikes_of)) * rule.zones * rule.shortage_s / HOUR_S * machines_of_zone
        return min(self.hours * machines, hours)

    def _paid_share(self, offer: Offer) -> float:
        """Share of the time in which spot machines can surely be had and are paid; 1 of others."""
        if offer.price_kind is not PriceKind.SPOT:
            return 1.0
        return 1 - self.hours_in_shortage(1) / self.hours

    # Lower bounds

    @cached_property
    def may_be_lost(self) -> float:
        """Load, in minutes at factor 1, that may go unserved while every SLO is met."""
        targets = [spec.slo.attainment for spec in self.market.loaded.scenario.models]
        late = (1 - min(targets)) * float(self.factors.sum())
        minutes = min(PERIODS[self.calendar.keep], len(self.factors))
        by_period = self.factors.reshape(-1, minutes).sum(axis=1)
        busiest_first = np.sort(by_period)[::-1]
        # Shares over several replications together may miss a part of a period: hence the interpolation.
        missed = len(by_period) * (1 - self.calendar.keep_share)
        load_of_busiest = np.append(0.0, np.cumsum(busiest_first))
        return late + float(np.interp(missed, np.arange(len(load_of_busiest)), load_of_busiest))

    def at_least_usd(self, base: Offer | None, rest: Offer) -> float:
        """A cost that no way with such machines can beat, whatever their number: no machine is ever idle."""
        erlangs = self.market.erlangs(rest)
        load = self.factors * sum(erlangs.values()) / rest.gpu_count
        spare = self.may_be_lost * sum(erlangs.values()) / rest.gpu_count
        usd_per_hour = rest.usd_per_hour * self._paid_share(rest)

        def rest_usd(load: Floats) -> float:
            return max(0.0, float(load.sum()) - spare) / MINUTES_PER_HOUR * usd_per_hour

        if base is None:
            return rest_usd(load)
        base_erlangs = self.market.erlangs(base)
        ratio = max(erlangs[model] / base_erlangs[model] for model in erlangs if base_erlangs[model])
        replaced = ratio * base.gpu_count / rest.gpu_count  # machines of the rest that one of the base can stand for
        most = ceil(float(load.max()) / replaced)
        return min(
            machines * base.usd_per_hour * self.hours + rest_usd(np.maximum(load - machines * replaced, 0))
            for machines in range(most + 1)
        )

    @cached_property
    def bound_usd(self) -> float:
        """A cost that no way can beat: in one region, each model on the machine that does its work cheapest, never
        idle."""
        usd_per_hour = min(map(self._busy_usd_per_hour, self.market.together))
        return max(0.0, float(self.factors.sum()) - self.may_be_lost) / MINUTES_PER_HOUR * usd_per_hour

    def _busy_usd_per_hour(self, offers: Sequence[Offer]) -> float:
        """Dollars an hour of factor 1, each model on that of these machines that does its work cheapest."""
        usd_of_model = grouped(
            (model, erlangs * (offer.usd_per_hour / offer.gpu_count * self._paid_share(offer)))
            for offer in offers
            for model, erlangs in self.market.erlangs(offer).items()
        )
        return sum(map(min, usd_of_model.values()))
