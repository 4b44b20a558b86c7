"""The search for the cheapest fleet: a `Descent` for each program, each fleet tried once."""

from dataclasses import replace
from math import inf

from planner.catalog.offers import Offer
from planner.model.scenario import Objective
from planner.placing.fleets import Fleet, FleetProgram
from planner.replay.spares import SpareSearch
from planner.replay.trial import Trial
from planner.search.fleets.descent import Descent
from planner.search.fleets.tried import ALTERNATIVE, ESTIMATE, PROOF, Effort, TriedFleets, only_bought

ROOM, WORTHWHILE = 0.1, 0.01
"""Shares of the cost: fleets without some kind of GPU are looked for where they might save so much, and must save so
much."""
DIGITS = 6
"""Digits to which two fleets cost the same."""


class FleetSearch(TriedFleets):
    """Looks for the best fleet among those that it tries."""

    def best(
        self,
        program: FleetProgram,
        objective: Objective,
        effort: Effort | None = None,
        wanted_usd_per_hour: float = inf,
    ) -> Trial | None:
        """The fleet with least of the objective that meets every SLO.

        What costs more than is wanted is not tried, and that is no limit on buying.
        """
        trial = self._best(program, objective, effort or self.usual_effort, wanted_usd_per_hour)
        return trial and self.without_idle(trial)

    @property
    def usual_effort(self) -> Effort:
        """For an answer."""
        return ESTIMATE if any(sized.profile.doubt for sized in self.question.sized.values()) else PROOF

    def with_fewer_kinds(self, best: Trial) -> Trial:
        """The cheapest without some kind of GPU of the best, again and again while that saves something: where the
        cheapest mixes of all kinds nearly do, those of fewer are behind them."""
        most_usd_per_hour = best.cost_usd_per_hour * (1 - WORTHWHILE)
        room_usd_per_hour = best.cost_usd_per_hour * (1 - ROOM)
        for name in dict.fromkeys(device.kind.gpu.name for device in best.devices):
            left = [offer for offer in self.question.offers if offer.gpu.name != name]
            program = self.question.program(left)
            bound = program.lower_bound_usd_per_hour() if left else None
            if bound is None or bound > room_usd_per_hour:
                continue
            if found := self.best(program, Objective.COST, wanted_usd_per_hour=most_usd_per_hour):
                return self.with_fewer_kinds(found)
        return best

    def _best(
        self, program: FleetProgram, objective: Objective, effort: Effort, wanted_usd_per_hour: float
    ) -> Trial | None:
        while True:
            trial = Descent(self, program, objective, effort, wanted_usd_per_hour).end()
            if trial is None or not (trial.replay.hopeful and effort.hopeful):
                return trial
            key = only_bought(trial.offers, trial.fleet)
            self.tried[key] = self._try(*key, replace(effort, hopeful=False))
            if confirmed := self.tried[key]:
                return confirmed

    @property
    def spares(self) -> SpareSearch:
        """A search for machines that stand ready."""
        question = self.question

        def of_type(offer: Offer) -> Trial | None:
            return self.best(question.program([offer]), Objective.COST, ALTERNATIVE)

        def carries(offered: tuple[Offer, ...], fleet: Fleet) -> bool:
            counted = tuple(replace(offer, count_max=n) for offer, n in zip(offered, fleet, strict=True))
            return replace(question.program(offered), offers=counted).lower_bound_usd_per_hour() is not None

        least_usd_per_hour = question.lower_bound_usd_per_hour()
        return SpareSearch(question.scenario, question.offers, self.anew, of_type, carries, least_usd_per_hour)


def goal_of(objective: Objective, trial: Trial) -> float:
    """What the objective wants little of."""
    match objective:
        case Objective.COST:
            return trial.cost_usd_per_hour
        case Objective.GPUS:
            return len(trial.devices)
        case Objective.ENERGY:
            return trial.power_w
