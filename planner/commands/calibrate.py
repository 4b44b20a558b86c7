"""The commands `planner calibrate` and `planner doctor`: what needs the device."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import profiling
from planner.console.options import Device
from planner.console.output import say

EVERYTHING_IS_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""One parser for `planner calibrate` and for `python -m calibrate`, which runs where typer is not installed."""


def calibrate(context: typer.Context) -> None:
    """Measure what models cost on this machine's device."""
    raise typer.Exit(profiling.calibrate(*context.args))


def doctor(
    device: Device = "cuda:0",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where profiles shall go.")] = Path("profiles"),
) -> None:
    """Check if a device can be measured, and say what is missing."""
    from calibrate.devices.doctor import exit_code, render

    findings = profiling.doctor(device, out)
    say(render(findings))
    raise typer.Exit(exit_code(findings))
