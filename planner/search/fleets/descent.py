"""The way down to the best fleet of an integer program."""

from math import inf

from planner.catalog.offers import Offer
from planner.model.scenario import Objective
from planner.placing.fleets import Fleet, FleetProgram, gpu_count
from planner.replay.trial import Trial
from planner.search.fleets.tried import Effort, TriedFleets
from planner.search.placement import LARGE_GPUS
from planner.search.rejections import HUGE_GPUS

STEP = 1.15
"""Growth of the work that a fleet must carry from one step to the next: five steps double it."""
STEPS_DOWN = 16
"""Of a fleet that does, such a part is left out at a time: one instance where there are fewer than twice as many."""


class Descent:
    """The way down to the best fleet of one program: in order, then in steps, then instance by instance.

    First strictly in order, so that an answer among these is the least there is; of large fleets only the first. Then
    in growing steps of the work to be carried, and back in halves: fleets between two steps may be left out. Last,
    instances are left out of the fleet that was found, but where it is huge: there the last step is 1 % of work.
    """

    def __init__(
        self,
        fleets: TriedFleets,
        program: FleetProgram,
        objective: Objective,
        effort: Effort,
        wanted_usd_per_hour: float,
    ) -> None:
        self.fleets, self.program, self.objective, self.effort = fleets, program, objective, effort
        allowed_usd_per_hour = fleets.question.scenario.buy.max_cost or inf
        self.most_usd_per_hour = min(allowed_usd_per_hour, wanted_usd_per_hour)
        self.says_limits = effort.thorough and self.most_usd_per_hour == allowed_usd_per_hour
        self.excluded: list[Fleet] = []
        self.over = False
        """Whether no other fleet is worth a try."""

    def end(self) -> Trial | None:
        """The last fleet that meets every SLO."""
        large = (self.program.least_gpus() or 0) >= LARGE_GPUS
        for _ in range(1 if large else self.effort.first):
            trial = self._next()
            if trial or self.over:
                return trial
        return self._by_steps()

    def _propose(self, design: float) -> Fleet | None:
        return self.fleets.propose(self.program, self.objective, self.excluded, self.most_usd_per_hour, design)

    def _next(self, design: float = 0.0) -> Trial | None:
        """The best fleet that was not tried yet and carries so much work; None where it misses, or there is none."""
        fleet = self._propose(design)
        if fleet is None:
            self.over = True
            if self.says_limits:
                self.fleets.out_of_fleets(self.program, self.excluded, self.most_usd_per_hour, design)
            return None
        trial = self.fleets.try_fleet(self.program.offers, fleet, self.effort)
        if trial is None:
            self.over = self.fleets.too_few
            self.excluded.append(fleet)
        return trial

    def _higher(self, high: float) -> float:
        """The next step; where twice the GPUs changed nothing, to a fleet of twice as many again, which may be none."""
        least = 2 * self.fleets.level_gpus
        high *= STEP
        while least and (fleet := self._propose(high)) and gpu_count(self.program.offers, fleet) < least:
            high *= 2
        return high

    def _by_steps(self) -> Trial | None:
        """The same in steps; back to fleets that carry less than the first step too, for only a few of them were tried.
        Where no fleet that may be bought carries as much as the last step, some between it and the one before may."""
        low, high = 0.0, 1.0
        while (best := self._next(high)) is None and not self.over:
            low, high = high, self._higher(high)
            if high > self.effort.growth_max:
                return None
        for _ in range(0 if self.fleets.too_few else self.effort.halvings):
            middle = (low + high) / 2
            fleet = self._propose(middle)
            if fleet and (trial := self.fleets.try_fleet(self.program.offers, fleet, self.effort)):
                best, high = trial, middle
            elif best or fleet:
                low = middle
                if fleet and self.effort.thorough:
                    self.excluded.append(fleet)
            else:
                high = middle
        if best is None:
            return None
        if len(best.devices) >= HUGE_GPUS:
            return best
        for offer in sorted(best.offers, key=lambda o: -o.usd_per_hour):
            best = with_fewest(self.fleets, best, offer, self.effort)
        return best


def with_fewest(fleets: TriedFleets, trial: Trial, offer: Offer, effort: Effort) -> Trial:
    """As few instances of an offer as will do beside the others; of alternatives in large fleets to 1.6 %.

    A few less at a time until that misses; then half-way to what missed, again and again.
    """
    offered, fleet = trial.offers, trial.fleet
    place = offered.index(offer)
    count, least = fleet[place], int(len(offered) == 1)
    missed = fleets.most_missed(offered, fleet, place)
    step = max(1, count // STEPS_DOWN)
    exact = 1 if effort.halvings else max(1, count // LARGE_GPUS)
    while count > least and (missed is None or count - missed > exact):
        fewer = max(least, count - step) if missed is None else (count + missed) // 2
        smaller = fleets.try_fleet(offered, (*fleet[:place], fewer, *fleet[place + 1 :]), effort)
        if smaller:
            trial, count = smaller, fewer
        else:
            missed = fewer
    return trial
