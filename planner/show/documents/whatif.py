"""What a plan would do as a document: each case, how far its SLOs are missed, and what would mend it."""

from planner.model.plan import ModelAnswer
from planner.questions.readiness.answer import LossCase, WhatIf
from planner.show.document import Column, Document, Items, Rows, Section, Table, Text, Tone
from planner.show.documents import brief
from planner.show.documents.replay import SLO_WORDS, beside_target
from planner.show.text import plan as figures
from planner.show.text import readiness as prose
from planner.units.writing import names, per_second


def document(answer: WhatIf) -> Document:
    """A plan under other circumstances."""
    missed = frozenset(i for i, case in enumerate(answer.cases) if not case.feasible)
    worst = next((case for case in answer.cases if not case.feasible), answer.cases[0])
    title = f"Without {prose.away(worst)}" if worst.lost else "Models"
    rows: Rows[ModelAnswer] = Rows(worst.models)
    columns: list[Column] = [
        rows.words("model", lambda m: f"{m.name} {figures.tilde(m)}".strip()),
        rows.figures("p99 / SLO", figures.p99),
        rows.figures("on time / SLO", beside_target),
        rows.words("SLO", lambda m: SLO_WORDS[m.slo_met]),
        rows.figures("short of it by", prose.short),
        rows.shown("asked", "offered_rps", per_second),
        rows.words("limited by", lambda m: m.bottleneck if m.verdict == "stable" else m.verdict),
    ]
    models = Table(columns, frozenset(i for i, m in enumerate(worst.models) if not m.slo_met))
    return Document(
        name=answer.scenario or "What if",
        headline=prose.headline(answer),
        sections=[
            Section("Cases", cases(answer, missed), id="cases"),
            Section(title, [models, *notes(answer, worst)], id="models"),
            Section("Why", [Items(list(prose.obstacles(answer)))], id="why", tone=Tone.WARN),
            Section(
                "What would mend it",
                [Items(list(map(prose.mend, answer.mends))), Text(prose.planned_anew(answer))],
                id="mends",
            ),
        ],
    )


def cases(answer: WhatIf, missed: frozenset[int]) -> list[Table | Text]:
    """A row for each set of machines that may be away; none where none is."""
    if not answer.lose:
        return []
    rows = Rows.at("cases", answer.cases)
    columns = [rows.words("away", prose.away), rows.shown("ways", "ways")]
    if any(case.taken_over for case in answer.cases):
        columns.append(rows.words("a spare takes over", prose.taken_over))
    columns.append(rows.words("as it stands", prose.standing))
    if any(case.anew and not prose.leaves_nothing(case) for case in answer.cases):
        columns.append(rows.words("placed anew", prose.anew))
    columns.append(rows.words("tightest: on time / SLO", prose.tightest))
    return [
        Table(columns, missed, stacked=True),
        Text(prose.left_out(answer), Tone.NOTE),
        Text(prose.about_anew(answer), Tone.NOTE),
    ]


def notes(answer: WhatIf, case: LossCase) -> list[Text]:
    """What its figures do not show, as of a plan, and what must be set otherwise than planned."""
    of_p99 = figures.not_exceeded(figures.asked_of_p99(case.models, case.draws_asked))
    predicted = figures.TILDE if any(model.predicted for model in case.models) else ""
    notes = [*brief.notes_of(case.models), f"{predicted} {of_p99}".strip()]
    smaller = f"In smaller batches than planned, for SLOs allow no larger: {names(answer.smaller_batches)}."
    return [*(Text(note, Tone.NOTE) for note in notes), Text(smaller if answer.smaller_batches else "", Tone.NOTE)]
