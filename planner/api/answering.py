"""Calls about answers that were kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.asking import File, choice, kept_plan, now, path_of, word

if TYPE_CHECKING:
    import planner.model.plan
    import planner.model.scenario
    from planner.compare.diff import Diff
    from planner.compare.reprice import Repriced
    from planner.objects import Plan


def explain(answer: Any) -> str:
    """Why an answer, or the file that keeps one, is what it is: a plan, simulation, training, study, horizon, or what a
    plan would do."""
    from planner.show.kept import explained
    from planner.units.writing import Screen

    return explained(found(answer), Screen())


def found(answer: Any) -> Any:
    """The answer, read where its file is named."""
    from planner.show.kept import read_kept

    return read_kept(Path(answer)) if isinstance(answer, File) else answer


def read_plan(file: File) -> "Plan":
    """A plan that was kept."""
    from planner.io.store import read_plan as read
    from planner.objects import Plan

    return Plan.of(read(path_of("file", file)))


def write_plan(plan: "planner.model.plan.Plan", file: File) -> None:
    """Keep a plan; commands go on from there. InputError where the file holds something else."""
    from planner.objects import Plan

    Plan.of(kept_plan(plan)).save(file)


def report(answer: Any, out: File) -> None:
    """An answer, or the file that keeps one as JSON, as one HTML page that opens offline."""
    from planner.io.store import write_text
    from planner.show.kept import document_of
    from planner.show.page.render import check_page, page

    check_page(path_of("out", out))
    write_text(page(document_of(found(answer))), Path(out))


def diff(old: Any, new: Any) -> "Diff":
    """Differences between two answers, or the files that keep them, and which figures differ by more than chance."""
    from planner.compare.answers import answer_of, read_answer
    from planner.compare.diff import compare

    before, after = (
        read_answer(Path(one)) if isinstance(one, File) else answer_of(one, name)
        for name, one in (("old", old), ("new", new))
    )
    return compare(before, after)


def reprice(plan: "planner.model.plan.Plan | File", prices: File, kind: str | None = None) -> "tuple[Plan, Repriced]":
    """A plan at the prices in a file or folder, and what that changes. Nothing is simulated again."""
    from planner.compare.price_list import read_prices
    from planner.compare.reprice import reprice as at_prices
    from planner.model.choices import PriceKind
    from planner.objects import Plan

    wanted = None if kind is None else choice(PriceKind, "kind", kind)
    known = read_prices(path_of("prices", prices), wanted)
    old = kept_plan(plan)
    name = str(plan) if isinstance(plan, File) else plan.scenario
    new, changes = at_prices(old, name, known, now())
    return Plan.of(new), changes


def export(plan: "planner.model.plan.Plan | File", to: str, out: File, *, force: bool = False) -> Mapping[str, str]:
    """Files that deploy, watch or draw a plan, written to a folder. Their texts by path in that folder.

    `to`: one of `planner.model.choices.Target`.
    """
    from planner.exports.targets import export as written

    named = [str(plan)] if isinstance(plan, File) else []
    return written(kept_plan(plan), word("to", to), path_of("out", out), force, *named)
