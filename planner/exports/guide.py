"""Guide: README.md of an export, with the steps, what to do when a machine is lost, and what differs from the plan."""

from collections.abc import Iterator, Sequence

from calibrate.io.files import printable
from planner.exports.fleet import Machine, ServedModel
from planner.model.plan import Instances, Plan
from planner.units.writing import counted, dollars
from planner.words.candidates import candidate_name
from simulator.grouping import grouped


def readme(plan: Plan, target: str, steps: Sequence[str], when_lost: str, differs: Sequence[str]) -> str:
    """A guide to the folder. `when_lost`: how a spare takes over from a machine of its type."""
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    lines = [
        f"# {printable(plan.scenario)} on {target}",
        "",
        planned(plan),
        *counted_as(plan),
        "",
        *numbered,
        "",
        "`check_slo.py` sends the planned load for a minute and compares with the plan's SLOs. Exit code 0: all are",
        "met; 4: one is not; 2: it could not be measured.",
        "",
        *losses(plan, when_lost),
        "What differs from the plan:",
        "",
        *(f"- {sentence}" for sentence in differs or ["nothing that is known."]),
        "",
    ]
    return "\n".join(lines)


def planned(plan: Plan) -> str:
    """`Planned: 3 x t4 (T4), resident, and 1 spare t4, $0.40 an hour, of which $0.100 for what is spare.`"""
    spare_usd = sum(one.spares * one.usd_per_hour for one in spares(plan))
    part = f", of which {dollars(spare_usd)} for what is spare" if spares(plan) else ""
    return f"Planned: {fleet_name(plan)}, ${plan.recommendation.cost_usd_per_hour:.2f} an hour{part}."


def fleet_name(plan: Plan) -> str:
    """`3 x t4 (T4), resident, and 1 spare t4`."""
    fleet = printable(candidate_name(plan.recommendation.candidate))
    return f"{fleet}, and {spares_name(spares(plan))}" if spares(plan) else fleet


def spares(plan: Plan) -> list[Instances]:
    """Types of machines of which some are spare."""
    return [one for one in plan.recommendation.instances if one.spares]


def spares_name(ready: Sequence[Instances]) -> str:
    """`1 spare t4-box and 2 spare l4-box`."""
    return " and ".join(f"{one.spares} spare {printable(one.instance)}" for one in ready)


def losses(plan: Plan, when_lost: str) -> Iterator[str]:
    """What to do when a machine is lost that may be away; nothing where none may."""
    ready, away = spares(plan), plan.policies.survive
    if not ready and not away:
        return
    yield f"When a machine is lost ({counted(away, 'machine')} may be away at once):" if away else "Spares:"
    yield ""
    if ready:
        yield f"- Paid and ready, without any model until then: {spares_name(ready)}. {when_lost}"
    if short := [one for one in plan.recommendation.instances if one.spares < away]:
        which = " or ".join(f"{one.spares + 1} x {printable(one.instance)}" for one in short)
        yield (
            f"- No spare is like what is lost where that is {which}: then models must be placed anew on all that is "
            "left, spares included. Plan again with that as machines of your own (`buy.own`), without `survive`, and "
            "export it."
        )
    yield (
        "- The plan does not count the time until a loss is noticed and models run again; "
        "`planner whatif PLAN --lose 1` shows what is missed meanwhile."
    )
    yield ""


def shares_sentence(name: str, here: Sequence[tuple[str, ServedModel]]) -> str:
    """`yolov3: the plan sends 95 % to g5.xlarge-1 (batches of up to 9) and 5 % to g5.xlarge-2 (up to 1)`."""
    parts = grouped(((served.share, served.batch_size), place) for place, served in here)
    said = [
        f"{100 * share:.3g} % to {'each of ' if len(places) > 1 else ''}{', '.join(map(printable, places))} "
        f"(batches of up to {batch_size})"
        for (share, batch_size), places in parts.items()
    ]
    return f"{printable(name)}: the plan sends {' and '.join(said)}"


def by_machine(fleet: Sequence[Machine], model: str) -> list[tuple[str, ServedModel]]:
    """Machines that serve a model, and how."""
    return [(machine.name, served) for machine in fleet for served in machine.served if served.model.name == model]


def unequal(here: Sequence[tuple[str, ServedModel]], by_replica: bool) -> bool:
    """True where some machines, or replicas, of a model get more requests than others."""
    return len({round(served.share / (len(served.devices) if by_replica else 1), 6) for _, served in here}) > 1


def counted_as(plan: Plan) -> list[str]:
    """A line on the precisions and runtimes that the plan's times are of; none where it does not say."""
    models = [model for model in plan.recommendation.models if model.precision and model.runtime]
    ways = grouped((f"at {model.precision} in {model.runtime}", printable(model.name)) for model in models)
    told = "; ".join(f"{', '.join(named)} {way}" for way, named in ways.items())
    return [f"Its times are those of {told}: what runs otherwise takes others."] if told else []
