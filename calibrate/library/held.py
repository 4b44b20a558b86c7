"""Held: how many numbers a network holds at once besides its weights, from layers that were traced or counted."""

import csv
from collections.abc import Mapping
from functools import cache

from calibrate.layers.facts import facts
from calibrate.layers.facts import known as models_with_layers
from calibrate.published import names
from simulator.world.precision import FACT_BYTES

USUAL_HELD, USUAL_POWER = 0.89e6, 0.46
"""Numbers held by a network whose layers put out a million at the usual size, and how they grow with those: of 750
that were traced, half are within 33 %."""


@cache
def held_numbers(architecture: str, size: str) -> float | None:
    """The most that lie in memory for one sample of an input; None where its layers are not known.

    Traced at one size, they grow with pixels or tokens.
    """
    known = dict(_traced().get(architecture, {}))
    if not known and architecture in models_with_layers():
        known = _of_layers(architecture)
    if known:
        traced = size if size in known else next(iter(known))
        return known[traced] * names.grown(traced, size)
    counted = names.facts_of(architecture, size)
    if counted is None or not (counted.activations or counted.macs):
        return None
    grown = names.grown(str(names.USUAL_SIZE), counted.input) if counted.input.isdigit() else 1.0
    usual_size = names.activations_of(counted) / grown
    held = USUAL_HELD * (usual_size / 1e6) ** USUAL_POWER
    return float(held * grown * names.grown(counted.input, size))


def _of_layers(name: str) -> dict[str, float]:
    layers = facts(name)
    shape = layers.input_shape
    size = f"seq{shape[0]}" if len(shape) == 1 else names.canonical_input("x".join(map(str, shape[1:])))
    return {size: layers.peak_activation_bytes_per_sample / FACT_BYTES}


@cache
def _traced() -> Mapping[str, Mapping[str, float]]:
    """By architecture and input, as `calibrate.layers.holding` wrote them."""
    found: dict[str, dict[str, float]] = {}
    with (names.DATA / "held.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["architecture"], {})[row["input"]] = float(row["held_millions"]) * 1e6
    return found
