"""What a plan would do, in words: the circumstances, each case, and what would mend it."""

from collections.abc import Iterator, Sequence
from shlex import quote

from planner.model.plan import ModelAnswer
from planner.questions.readiness.answer import LossCase, Mend, MendKind, WhatIf
from planner.show.text import plan as prose
from planner.show.text.reasons import sentence, uncertain
from planner.units.writing import counted, dollars, exact, names, percent, seconds
from planner.words.candidates import machines_name
from planner.words.statements import rejection_reason, rejection_remedy


def headline(answer: WhatIf) -> str:
    """`3 x box (T4) and 1 spare, as planned, with 1 machine away: 2 of 3 cases miss an SLO.`"""
    ready = sum(one.count for one in answer.spares)
    spares = f" and {counted(ready, 'spare')}" if ready else ""
    fleet = f"{machines_name(answer.candidate.machines)}{spares}, as planned"
    speeds = uncertain([model for case in answer.cases for model in case.models])
    drawn = f", over {speeds}" if speeds else ""
    found = f"{', '.join([fleet, *circumstances(answer)])}: {verdict(answer)}{drawn}."
    return f"Interrupted; so far: {found}" if answer.interrupted else found


def verdict(answer: WhatIf) -> str:
    """What cases do as the plan stands, and with the models placed anew where that was tried."""
    if answer.cases and all(map(leaves_nothing, answer.cases)):
        return "no machine is left"
    tried = [case.anew.feasible for case in answer.cases if case.anew]
    missed = tried.count(False)
    stands = as_it_stands(answer.cases)
    if not tried:
        return stands
    if missed == len(tried):
        return f"{stands}, also with the models placed anew"
    verb = "does" if missed == 1 else "do"
    return f"as it stands {stands}; with the models placed anew {f'{missed} {verb}' if missed else 'every SLO is met'}"


def leaves_nothing(case: LossCase) -> bool:
    """Whether no machine is left, spares included."""
    return case.anew is not None and not case.anew.machines


def as_it_stands(cases: Sequence[LossCase]) -> str:
    """`2 of 3 cases miss an SLO and 1 cannot run`."""
    short = [shortfall(case) for case in cases if not case.feasible]
    if not short:
        return "every SLO is met"
    if len(cases) == 1:
        return SHORTFALLS[short[0]][0]
    among = f" of {counted(len(cases), 'case')}"
    parts: list[str] = []
    for kind, (_, one, several) in SHORTFALLS.items():
        if number := short.count(kind):
            parts.append(f"{number}{'' if parts else among} {one if number == 1 else several}")
    return " and ".join(parts)


SHORTFALLS = {
    "missed": ("an SLO is missed", "misses an SLO", "miss an SLO"),
    "undecided": ("an SLO may be missed", "may miss an SLO", "may miss an SLO"),
    "cannot run": ("it cannot run", "cannot run", "cannot run"),
}
"""By what keeps a case from surely meeting every SLO: how the only case is told of, one of several, and several."""


def shortfall(case: LossCase) -> str:
    """A key of `SHORTFALLS`."""
    if cannot_run(case):
        return "cannot run"
    return "missed" if case.unserved or any(model.slo_met is False for model in case.models) else "undecided"


def circumstances(answer: WhatIf) -> Iterator[str]:
    """`with 1 machine away`, `at 2 times the load`; none where nothing is otherwise."""
    if answer.lose:
        yield f"with {counted(answer.lose, 'machine')} away"
    if answer.load != 1:
        yield f"at {answer.load:g} times the load"
    if answer.overrides:
        yield f"with {', '.join(answer.overrides)}"


def left_out(answer: WhatIf) -> str:
    """Ways to lose machines that were not replayed; empty where all were."""
    if not answer.ways_left_out:
        return ""
    others = counted(answer.ways_left_out, "other set")
    if answer.interrupted:
        return f"Not replayed: {others} of machines."
    return f"Not replayed: {others} of machines, which leave each model more of its replicas."


def about_anew(answer: WhatIf) -> str:
    """What placing anew means, and times of takeovers; empty where no case came to either."""
    if not any(case.anew and not leaves_nothing(case) for case in answer.cases):
        reads = "A spare takes over once it has read weights from disk; to start a process or an engine comes on top."
        return reads if any(case.taken_over for case in answer.cases) else ""
    counted_on = ", as `survive` counts on" if answer.lose <= answer.survive else ""
    return (
        "Placed anew: a scheduler, or you, puts the models on all that is left, spares included"
        f"{counted_on}. The time is that of reading weights from disk; until then it is as it stands."
    )


def away(case: LossCase) -> str:
    """`g4dn.xlarge-1`."""
    return names(case.lost) if case.lost else "none"


def taken_over(case: LossCase) -> str:
    """`g4dn.xlarge-1 in 0.31 s`: what a spare does, and how long it loads weights before."""
    return f"{names(case.taken_over)} in {seconds(case.takeover_s)}" if case.taken_over else "-"


def anew(case: LossCase) -> str:
    """`met after 0.31 s`; `-` where nothing was placed anew."""
    if case.anew is None or leaves_nothing(case):
        return "-"
    return f"met after {seconds(case.anew.load_s)}" if case.anew.feasible else "no way found"


def cannot_run(case: LossCase) -> bool:
    """Whether it was clear before a replay that what is left cannot do the work."""
    return case.rejection is not None and not case.models


def standing(case: LossCase) -> str:
    """`met`, or the models that miss, may miss or are not served; `cannot run` where that was clear before a replay."""
    if case.feasible:
        return "met"
    if cannot_run(case):
        return "cannot run"
    found = {
        "missed": [model.name for model in case.models if model.slo_met is False],
        "undecided": [model.name for model in case.models if model.slo_met is None],
        "not served": case.unserved,
    }
    return "; ".join(f"{names(whom)} {what}" for what, whom in found.items() if whom) or "not sure"


def short(model: ModelAnswer) -> str:
    """`4.20 points`: share on time that an SLO lacks; how many replications meet it, where these say otherwise than
    the mean; `-` where it is met by both."""
    lacking = model.slo_attainment_target - model.slo_attainment.mean
    if model.slo_met and (lacking <= 0 or not model.draws_kept):
        return "-"
    if lacking > 0 and not model.slo_met:
        return f"{100 * lacking:.2f} points"
    return f"met in {percent(model.draws_kept.mean)} % of replications" if model.draws_kept else "not surely met"


def obstacles(answer: WhatIf) -> Iterator[str]:
    """Why cases miss, and what would help by rule, each once with the cases that it is of.

    A smaller demand that would do is a part of the one asked about, so that the load stands beside it.
    """
    remedy = "May help" if answer.load == 1 else f"May help at {answer.load:g} times the load"
    cases_of: dict[str, list[str]] = {}
    for case in answer.cases:
        if case.rejection is not None:
            reason = sentence(rejection_reason(case.rejection))
            obstacle = f"{reason} {remedy}: {rejection_remedy(case.rejection)}."
            cases_of.setdefault(obstacle, []).append(" and ".join(case.lost))
    for obstacle, cases in cases_of.items():
        yield f"Without {' or '.join(cases)}: {obstacle}" if answer.lose else obstacle


def tightest(case: LossCase) -> str:
    """`yolov3 with 91.20 [90.80, 91.60] % on time, SLO 99 %`; `-` where no model is served."""
    if not case.models:
        return "-"
    model = prose.tightest(case.models)
    return f"{model.name} {prose.on_time(model)} / {exact(model.slo_attainment_target)}"


def mend(one: Mend) -> str:
    """`1 x g4dn.xlarge (T4) to take over what is away: $2.10/h in all, $0.53/h more.`"""
    what = ", and ".join(part for part in (served_by(one), readied(one)) if part)
    if one.beyond_count:
        what += f"; {machines_name(one.beyond_count)} of that beyond your `count`"
    more = one.cost_added_usd_per_hour
    change = f"{dollars(abs(more))}/h {'more' if more >= 0 else 'less'}"
    return f"{what}: {dollars(one.cost_usd_per_hour)}/h in all, {change}."


def planned_anew(answer: WhatIf) -> str:
    """The plan that may cost less than these mends; empty where there are none."""
    if not answer.mends:
        return ""
    survive = [f"survive={answer.lose}"] if answer.lose > answer.survive else []
    changes = "".join(f" --set {quote(one)}" for one in (*answer.plan_overrides, *answer.overrides, *survive))
    again = f"run `planner plan SCENARIO{changes}`"
    if answer.load != 1:
        again = f"multiply the rates in the scenario by {answer.load:g}, then {again}"
    speeds = uncertain([model for case in answer.cases for model in case.models])
    sure = f" From few replications of {speeds}: to be as sure as a plan, it may take more." if speeds else ""
    return f"These keep the plan's types of machines.{sure} Others may cost less: {again}."


def served_by(one: Mend) -> str:
    """Other machines than those of the plan, or the models placed anew on them; empty where both stay."""
    match one.kind:
        case MendKind.SPARES:
            return ""
        case MendKind.ANEW:
            return "the same machines, with the models placed anew"
        case MendKind.MACHINES:
            return f"{machines_name(one.candidate.machines)}, with the models placed anew"


def readied(one: Mend) -> str:
    """What follows a loss: `1 x g4dn.xlarge (T4) to take over what is away`; empty where none is asked about."""
    spares = machines_name(one.spares) if one.spares else "no spare"
    if one.anew:
        return f"{spares}, with the models placed anew after a loss on all that is left"
    return f"{spares} to take over what is away" if one.spares else ""
