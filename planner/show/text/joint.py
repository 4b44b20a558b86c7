"""A joint training as text: what can be shared, and what that costs."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from planner.show.document import Column, Document, Rows, Section, Table, Text
from planner.show.terminal import terminal
from planner.units.writing import Screen, percent, seconds, share
from simulator.world.signature import read_signature


def report(curve: Mapping[str, Any], folder: Path, screen: Screen) -> str:
    """Memory that can be shared, and what each sharing that was tried did to each model."""
    total = sum(model["weight_bytes"] for model in curve["models"].values())
    tried = list(zip(curve["points"], curve["attempts"], strict=True))
    held = [point["saved_bytes"] for point, attempt in tried if attempt["accepted"]]
    saved = held[-1] if held else 0
    first = (
        f"Sharing saves {size(saved)} of {size(total)} of weights, {share(saved / total, 1)}; every model keeps its"
        " target."
        if saved
        else "Nothing can be shared with every model keeping its target."
    )
    could = f"Shareable are {size(curve['shareable_bytes'])}; the stem alone is {size(curve['stem_bytes'])}."
    alone = ", ".join(
        f"{name} {model['accuracy']:.4g} (keeps {share(curve['targets'][name])})"
        for name, model in curve["models"].items()
    )
    about = Document(
        name="",
        headline=first,
        lead=[Text(could)],
        sections=[
            Section("", [Table(columns(curve, tried) if tried else [])]),
            Section(
                "",
                [
                    Text(f"Accuracies are shares of those alone: {alone}."),
                    Text(f"Kept in {folder}: curve.json, and the merged weights in {curve['weights']}."),
                ],
            ),
        ],
    )
    return terminal(about, screen)


def columns(curve: Mapping[str, Any], tried: Sequence[tuple[Any, Any]]) -> list[Column]:
    """One row for each sharing that was tried: its point on the curve and its attempt."""
    rows = Rows(tried)
    groups = Rows([curve["groups"][point["groups"][-1]] for point, _ in tried])
    return [
        groups.words("one layer more", lambda group: read_signature(group["signature"]).short),
        groups.figures("models", lambda group: str(len(group["models"]))),
        groups.figures("saves", lambda group: size((len(group["models"]) - 1) * group["layer_bytes"])),
        rows.words("holds", lambda one: "yes" if one[1]["accepted"] else "no"),
        rows.figures("epochs", lambda one: str(one[1]["epochs"])),
        rows.figures("time", lambda one: seconds(one[0]["wall_s"])),
        *(rows.figures(name, partial(accuracy, name)) for name in curve["models"]),
    ]


def accuracy(name: str, one: tuple[Any, Any]) -> str:
    """Accuracy of one model after a sharing, in percent of that alone."""
    return f"{percent(one[0]['accuracy'][name])} %"


def size(count: int) -> str:
    """`4.10 MB`, `525.3 kB`, `640 bytes`."""
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:,.2f} MB"
