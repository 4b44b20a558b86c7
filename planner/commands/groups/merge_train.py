"""The command `planner merge train`: models are trained to share layers, in a process of their own that has torch."""

import json
from pathlib import Path
from typing import Annotated

import typer

from planner.api import modelling
from planner.console.options import Device, FormJson, Quiet, shipped_path
from planner.units.writing import Format


def train(
    spec: Annotated[
        Path,
        typer.Argument(metavar="SPEC", callback=shipped_path, help="YAML file with the tasks, e.g. merge/digits.yaml."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For the curve and the merged weights. Default: the spec's name + .merged."),
    ] = None,
    device: Device = "cuda:0",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the training in --out ended.")] = False,
    form: FormJson = Format.TABLE,
    quiet: Quiet = False,
) -> None:
    """Train models to share layers, and measure what that costs. Runs the tasks' own code."""
    from calibrate.joint.spec import CURVE
    from planner.console.output import ExitCode, emit, note
    from planner.show.text.joint import report
    from planner.units.writing import stdout_screen

    folder = out or Path(f"{spec.stem}.merged")
    if (code := modelling.run_joint(spec, folder, device, resume, quiet)) < 0:
        note(f"The training was ended by signal {-code}. The same command with --resume continues.")
        code = ExitCode.INTERNAL
    if code:
        raise typer.Exit(code)
    text = (folder / CURVE).read_text(encoding="utf-8")
    emit(text if form is Format.JSON else report(json.loads(text), folder, stdout_screen()))
