"""The command `planner merge train`: models are trained to share layers, in a process of their own that has torch."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.layout import Format


def train(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="YAML file with the tasks, e.g. merge/digits.yaml.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For the curve and the merged weights. Default: the spec's name + .merged."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="D", help="cuda:0, cuda:1, ... or cpu.")] = "cuda:0",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the training in --out ended.")] = False,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train models to share layers, and measure what that costs. Runs the tasks' own code."""
    from calibrate.joint_spec import CURVE
    from planner.cli import emit
    from planner.layout import stdout_screen

    if form not in (Format.TABLE, Format.JSON):
        raise typer.BadParameter(f"--format: must be table or json, got {form}.")
    told = json.dumps(read_joint_spec(spec).to_json())
    folder = out or Path(f"{spec.stem}.merged")
    options = ["--out", str(folder), "--device", device, *["--resume"] * resume, *["--quiet"] * quiet]
    if code := run(told, options):
        raise typer.Exit(code)
    text = (folder / CURVE).read_text(encoding="utf-8")
    emit(text if form is Format.JSON else "\n".join(report(json.loads(text), folder, stdout_screen())) + "\n")


def read_joint_spec(path: Path) -> Any:
    """The spec in a YAML file; ScenarioError lists all that is wrong, with its place."""
    from calibrate.joint_spec import SpecError, read_spec
    from planner.load import ScenarioError, line
    from planner.strict_yaml import Problem, Steps, YamlError, dotted, parse, read_text

    try:
        document = parse(read_text(path))
    except YamlError as error:
        raise ScenarioError([line(path, problem) for problem in error.problems]) from None
    except ValueError as error:
        hint = "no such file. scenarios/merge/digits.yaml is one to start from."
        raise ScenarioError([f"{path}: {error if path.exists() else hint}"]) from None

    def place(steps: Steps, message: str) -> Problem:
        known = next(steps[:n] for n in range(len(steps), -1, -1) if steps[:n] in document.places)
        return Problem(*document.places[known], message, dotted(steps))

    problems = [*document.problems, *(place(*problem) for problem in shares_read(document.data))]
    try:
        spec = read_spec(document.data)
    except SpecError as error:
        known = {problem.path for problem in problems}
        problems += [found for found in (place(*problem) for problem in error.problems) if found.path not in known]
    if problems:
        raise ScenarioError([line(path, p) for p in sorted(problems, key=lambda p: (p.line, p.column))])
    return spec


def shares_read(data: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """Puts numbers in the place of shares such as `95 %`, and gives what is wrong with some."""
    from planner.units import fraction

    problems: list[tuple[tuple[str | int, ...], str]] = []
    tasks = data.get("tasks") if isinstance(data, dict) else None
    for number, task in enumerate(tasks if isinstance(tasks, list) else []):
        if isinstance(task, dict) and "target" in task:
            try:
                task["target"] = fraction(task["target"])
            except ValueError as error:
                problems.append((("tasks", number, "target"), str(error)))
    return problems


def run(told: str, options: Sequence[str]) -> int:
    """Train in a process of its own, which says itself what is wrong; its exit code."""
    from importlib.util import find_spec

    from planner.cli import Status, note

    if find_spec("torch") is None:
        note("torch is not installed, training needs it. pip install torch")
        return Status.INPUT
    command = [sys.executable, "-m", "calibrate.joint", "-", *options, "--parent", str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            process.communicate(told)
        except KeyboardInterrupt:
            process.wait()  # it was interrupted too, and says how to go on
            return 130
    if process.returncode >= 0:
        return process.returncode
    note(f"The training was ended by signal {-process.returncode}. The same command with --resume continues.")
    return Status.INTERNAL


# The answer


def report(curve: Mapping[str, Any], folder: Path, screen: Any) -> list[str]:
    """What can be shared, and what each sharing that was tried did to each model."""
    from planner.layout import share, table

    total = sum(model["weight_bytes"] for model in curve["models"].values())
    tried = list(zip(curve["points"], curve["attempts"], strict=True))
    held = [point["saved_bytes"] for point, attempt in tried if attempt["accepted"]]
    saved = held[-1] if held else 0
    first = (
        f"Sharing saves {size(saved)} of {size(total)} of weights, {saved / total:.1%}; every model keeps its target."
        if saved
        else "Nothing can be shared with every model keeping its target."
    )
    could = f"Shareable are {size(curve['shareable_bytes'])}; the stem alone is {size(curve['stem_bytes'])}."
    alone = ", ".join(
        f"{name} {model['accuracy']:.4g} (keeps {share(curve['targets'][name])})"
        for name, model in curve["models"].items()
    )
    return [
        screen.bold(first),
        could,
        "",
        *(table(columns(curve, tried), screen) if tried else []),
        "",
        *screen.wrap(f"Accuracies are shares of those alone: {alone}."),
        *screen.wrap(f"Kept in {folder}: curve.json, and the merged weights in {curve['weights']}."),
    ]


def columns(curve: Mapping[str, Any], tried: Sequence[tuple[Any, Any]]) -> list[Any]:
    """One row for each sharing that was tried."""
    from planner.layout import Column, seconds

    groups = [curve["groups"][point["groups"][-1]] for point, _ in tried]
    return [
        Column("one layer more", [short(group["signature"]) for group in groups]),
        Column("models", [str(len(group["models"])) for group in groups], right=True),
        Column("saves", [size((len(g["models"]) - 1) * g["layer_bytes"]) for g in groups], right=True),
        Column("holds", ["yes" if attempt["accepted"] else "no" for _, attempt in tried]),
        Column("epochs", [str(attempt["epochs"]) for _, attempt in tried], right=True),
        Column("time", [seconds(point["wall_s"]) for point, _ in tried], right=True),
        *(Column(name, accuracies(tried, name), right=True) for name in curve["models"]),
    ]


def accuracies(tried: Sequence[tuple[Any, Any]], name: str) -> list[str]:
    """Of one model after each sharing, in percent of that alone."""
    from planner.layout import percent

    return [f"{percent(point['accuracy'][name])} %" for point, _ in tried]


def short(signature: str) -> str:
    """`Linear 128x512` for `Linear weight=128x512 bias=128`."""
    kind, *parts = signature.split()
    sizes = dict(part.partition("=")[::2] for part in parts)
    return f"{kind} {sizes.get('weight', '')}".strip()


def size(count: int) -> str:
    """`4.10 MB`, `525.3 kB`, `640 bytes`."""
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:,.2f} MB"
