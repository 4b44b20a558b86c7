"""Of several ways to run a model the cheapest that was replayed; at one cost the one with better evidence."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from support.planning import CATALOG, T4, demand, loaded, model, offer, profile, scenario

from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Recommendation
from planner.model.scenario import Objective, Scenario
from planner.placing.sizing import needs, size
from planner.search.one_way import on_best_evidence
from planner.search.plan import plan
from planner.search.question import Question
from simulator.world.profile import Evidence, Profile

ASKED = scenario([replace(model("one"), precision=("fp32", "int8"))], {"one": (2, 10.0)})


@dataclass(frozen=True)
class TwoWays:
    """The same model at two precisions, int8 as many times as fast."""

    faster: float
    evidence: Evidence
    floor_s: float = 0.0
    slope_s: float = 0.010

    def get(self, name: str, gpu: str, precision: str | None = None, /) -> Profile | None:
        slow = 1.0 if precision == "fp32" else 1 / self.faster
        made = profile(name, T4, self.floor_s * slow, self.slope_s * slow)
        return replace(made, precision=precision or "fp32", latency_evidence=self.evidence)


def chosen(library: TwoWays, replayed: Callable[[Scenario], tuple[float, ...]] = lambda _: (0.5,)) -> tuple[str, ...]:
    """The precisions that are left of those listed."""

    def asked(one):
        need = needs(one, demand(one))
        sized, _ = size(one, need, [offer(T4, 0.5)], library)
        return Question(one, demand(one), need, (offer(T4, 0.5),), sized)

    return on_best_evidence(loaded(ASKED).scenario, asked, replayed).models[0].precisions


def test_the_more_precise_is_taken_where_nothing_is_saved() -> None:
    assert chosen(TwoWays(2.0, Evidence.FITTED)) == ("fp32",)


def test_what_saves_a_gpu_is_taken() -> None:
    """At fp32 two cameras of 10 fps, 10 ms each, fit one GPU; ten times the work does not."""
    heavy = replace(ASKED, streams=tuple(replace(s, rate=90.0) for s in ASKED.streams))

    def asked(one):
        need = needs(one, demand(one))
        sized, _ = size(one, need, [offer(T4, 0.5)], TwoWays(4.0, Evidence.FITTED))
        return Question(one, demand(one), need, (offer(T4, 0.5),), sized)

    left = on_best_evidence(heavy, asked, lambda _: None).models[0].precisions
    assert left != ("fp32",)


def test_what_is_cheaper_once_replayed_is_taken() -> None:
    """Both are sized for one GPU; at fp32 two turn out to be needed."""

    def replayed(one: Scenario) -> tuple[float, ...]:
        return (1.0,) if one.models[0].precisions == ("fp32",) else (0.5,)

    assert chosen(TwoWays(2.0, Evidence.FITTED), replayed) != ("fp32",)


def test_variants_are_compared_by_the_objective() -> None:
    """Eight GPUs in a box cost less than one elsewhere, so that at either precision the box is cheapest."""
    heavy = replace(ASKED, streams=tuple(replace(s, rate=90.0) for s in ASKED.streams), objective=Objective.GPUS)
    offered = [offer(T4, 0.5), offer(T4, 0.4, 8, "box")]

    def asked(one: Scenario) -> Question:
        need = needs(one, demand(one))
        sized, _ = size(one, need, offered, TwoWays(4.0, Evidence.FITTED))
        return Question(one, demand(one), need, tuple(offered), sized)

    assert on_best_evidence(heavy, asked, lambda _: None).models[0].precisions != ("fp32",)
    cheapest = replace(heavy, objective=Objective.COST)
    assert on_best_evidence(cheapest, asked, lambda _: None).models[0].precisions == ("fp32",)


def test_the_bound_is_below_every_variant_not_the_chosen_one_alone() -> None:
    """Both precisions take two GPUs. One might do at int8, by full batches alone: so much is not proven of the two."""
    library = TwoWays(1.3, Evidence.FITTED, floor_s=0.008, slope_s=0.004)
    own = BuySpec(own=(OwnMachine(name="t4", gpu="T4", price=0.5, count=9),))

    def best(*precisions: str) -> Recommendation:
        asked = scenario([replace(model("one", 0.05), precision=precisions)], {"one": (25, 10.0)}, buy=own)
        return plan(loaded(asked), CATALOG, library, created_at="2026-07-25T00:00:00").recommendation

    both, fp32, int8 = best("fp32", "int8"), best("fp32"), best("int8")
    assert both.models[0].precision == "fp32"
    assert [one.cost_usd_per_hour for one in (both, fp32, int8)] == [1.0, 1.0, 1.0]
    assert both.lower_bound_usd_per_hour == int8.lower_bound_usd_per_hour < fp32.lower_bound_usd_per_hour
