"""Kept words: plans of random scenarios replayed for longer with other seeds - are the SLOs that they call met met?

`python -m benchmarks.kept_words --count 100`. A plan is broken where, replayed twenty times as long, an interval of
attainment lies wholly below its target, or a model's replicas do not keep up. Where all arrivals come from cameras, one
draw of their phases is one site for good: broken where more than 4 of 40 draws leave a model below its target.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.outside import FEASIBLE, INFEASIBLE, Watch, each, planner
from benchmarks.random_scenarios import HEAD, Drawn, Traffic, options, write
from planner import read_plan, simulate

TIMES_LONGER, DRAW_TIMES_LONGER = 20, 5
"""Replays last so many times as long as the planner's own: what grows slowly takes time to show."""
DRAWS, DRAWS_LOST_MAX = 40, 4
"""Sites, and how many of them may have a model below its target: where one in twenty may, 4 or fewer do in 95 % of
cases."""
SEED = 1_000_003
"""Of the first replay: far from those of scenarios."""


class Outcome(StrEnum):
    """What came of one scenario."""

    KEPT = "kept"
    BROKEN = "broken"
    INFEASIBLE = "infeasible"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Word:
    """One scenario, planned and replayed."""

    drawn: Drawn
    cost_usd_per_hour: float | None
    outcome: Outcome
    remark: str

    def __str__(self) -> str:
        price = "-" if self.cost_usd_per_hour is None else f"${self.cost_usd_per_hour:.2f}/h"
        return f"{self.drawn}  {price:>8}  {self.outcome:<10}  {self.remark}"


def judge(seed: int, given: Namespace) -> Word:
    """Draw, plan and replay one scenario."""
    watch = Watch()
    with TemporaryDirectory() as folder:
        drawn = write(seed, Path(folder), given)
        plan = drawn.folder / "plan.json"
        ran = planner("plan", *drawn.files, "-o", plan)
        if ran.code == FEASIBLE:
            check = draws if drawn.traffic is Traffic.CAMERAS else longer
            outcome, why = check(drawn, plan, ran.answer["policies"]["horizon_s"])
        elif ran.code == INFEASIBLE:
            outcome, why = Outcome.INFEASIBLE, ""
        else:
            outcome, why = Outcome.ERROR, f"plan: exit {ran.code}: {ran.error}"
    return Word(drawn, ran.cost_usd_per_hour, outcome, f"{watch}  {why}")


def longer(drawn: Drawn, plan: Path, horizon_s: float) -> tuple[Outcome, str]:
    """Twenty times as long, with another seed."""
    horizon = f"horizon={TIMES_LONGER * horizon_s:.6g}s"
    ran = planner("simulate", *drawn.files, "--plan", plan, "--seed", SEED, "--set", horizon)
    if not ran.answer:
        return Outcome.ERROR, f"simulate: exit {ran.code}: {ran.error}"
    broken = []
    for model in ran.answer["models"]:
        seen, target = model["slo_attainment"], model["slo_attainment_target"]
        if seen["high"] < target:
            broken.append(f"{model['name']} {seen['mean']:.2%} of {target:.0%}, {model['verdict']}")
        elif model["verdict"] != "stable":
            broken.append(f"{model['name']} {model['verdict']}")
    return (Outcome.BROKEN, "; ".join(broken)) if broken else (Outcome.KEPT, "")


def draws(drawn: Drawn, plan: Path, horizon_s: float) -> tuple[Outcome, str]:
    """Many sites, each with phases of its own."""
    kept, one = read_plan(plan), ["replications=1", f"horizon={DRAW_TIMES_LONGER * horizon_s:.6g}s"]
    scenario, profiles = drawn.folder / "scenario.yaml", drawn.folder / "profiles"
    missed: Counter[str] = Counter()
    lost = 0
    for seed in range(SEED, SEED + DRAWS):
        try:
            seen = simulate(scenario, plan=kept, overrides=one, profiles=[profiles], seed=seed)
        except Exception as error:  # whatever it is, the other scenarios can still be judged
            return Outcome.ERROR, f"simulate: {error}"
        below = [m.name for m in seen.models if m.slo_attainment.mean < m.slo_attainment_target]
        missed.update(below)
        lost += bool(below)
    models = ", ".join(f"{model} in {n}" for model, n in missed.items())
    why = f"below target in {lost} of {DRAWS} draws: {models}" if lost else ""
    return (Outcome.BROKEN if lost > DRAWS_LOST_MAX else Outcome.KEPT), why


def summary(words: Iterable[Word]) -> list[str]:
    """Counts of outcomes, by kind, by traffic, and in all."""
    counts: dict[str, Counter[Outcome]] = {}
    for word in words:
        for group in (word.drawn.kind, word.drawn.traffic, "all"):
            counts.setdefault(group, Counter())[word.outcome] += 1
    head = f"{'':<12}{'planned':>10}" + "".join(f"{outcome:>12}" for outcome in Outcome)
    rows = [head]
    for group, count in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0] in list(Traffic))):
        planned = count[Outcome.KEPT] + count[Outcome.BROKEN]
        rows.append(f"{group:<12}{planned:>10}" + "".join(f"{count[outcome]:>12}" for outcome in Outcome))
    return rows


def main() -> None:
    """One line for each scenario, then the summary."""
    given = options(__doc__, count=30).parse_args()
    words = each(partial(judge, given=given), given, f"{HEAD}      cost  outcome        took  why")
    print("\n" + "\n".join(summary(words)))


if __name__ == "__main__":
    main()
