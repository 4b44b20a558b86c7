"""Options that commands share, each written once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.console.output import note
from planner.console.shipped import folder, named, shipped
from planner.units.writing import Format


def answers_as(*forms: Format) -> Any:
    """The option of a command that answers in these forms alone."""

    def read(text: str) -> Format:
        if text in forms:
            return Format(text)
        *first, last = forms
        raise typer.BadParameter(f"must be {', '.join(first)} or {last}, got {text}.")

    return typer.Option(
        "--format",
        metavar="|".join(forms),
        parser=read,
        autocompletion=lambda incomplete: [form for form in forms if form.startswith(incomplete)],
        help="How the answer is written.",
    )


def shipped_path(context: typer.Context, path: Path | None) -> Path | None:
    """What `shipped` finds; where a file was named that is not there, a note says which is used.

    Not while a shell completes a line.
    """
    found = shipped(path)
    if path and found != path and not context.resilient_parsing and path.suffix and path.parts[0] != "scenarios":
        note(f"{path}: no such file here; the shipped {found and found.relative_to(folder())} is used.")
    return found


Scenario = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        callback=shipped_path,
        autocompletion=named,
        help="YAML file, or one that is shipped, e.g. video; `planner init` writes one.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Start of all random numbers, instead of the scenario's."),
]
Catalogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--catalog", metavar="DIR", help="Your gpus.yaml and prices.yaml, before the shipped ones. Repeatable."
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="DIR", help="Your profiles, before the shipped ones. Repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="All of the answer, not its first lines.")]
Form = Annotated[Format, answers_as(*Format)]
FormNoCsv = Annotated[Format, answers_as(Format.TABLE, Format.JSON, Format.MD)]
FormJson = Annotated[Format, answers_as(Format.TABLE, Format.JSON)]
Out = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the answer here, as JSON.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw it as PNG; needs matplotlib."),
]
Device = Annotated[str, typer.Option("--device", metavar="D", help="cuda:0, cuda:1, ... or cpu.")]
GpuKind = Annotated[str | None, typer.Option("--gpu", metavar="KIND", help="Kind of GPU, e.g. V100.")]
Answer = Annotated[
    Path, typer.Argument(metavar="ANSWER", help="plan.json, study.json, or JSON of simulate, train or horizon.")
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")]
