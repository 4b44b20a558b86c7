"""Held: how many numbers a network holds at once besides its weights, from layers that were traced or counted."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from calibrate.io.tables import table
from calibrate.layers.facts import OWN_NAMES, facts, named
from calibrate.layers.facts import known as models_with_layers
from calibrate.layers.work import Facts, FactsError
from calibrate.published import names
from simulator.world.precision import FACT_BYTES
from simulator.world.profile import Evidence
from simulator.world.signature import sizes

TRACED_ERROR = 0.15
"""What layers hold is as near to the allocations of real passes: ten networks at batch 1, 8 and 64."""
USUAL_HELD, USUAL_POWER = 0.89e6, 0.46
"""Numbers held by a network whose layers put out a million at the usual size, and how they grow with those: of 750
that were traced, half are within 33 %."""


@cache
def held_numbers(architecture: str, size: str) -> float | None:
    """The most that lie in memory for one sample of an input; None where its layers are not known.

    Traced at one size, they grow with pixels or tokens; with these as layers say, for attention grows by the square.
    """
    layers, length = own_layers(architecture), names.tokens(size)
    if layers and length and layers.scales_to((length,)):
        with suppress(FactsError):  # more tokens than it has positions for
            return counted(layers.of_shape((length,)), architecture).held
    if known := _by_input(architecture):
        traced = size if size in known else next(iter(known))
        return known[traced] * names.grown(traced, size)
    counts = names.facts_of(architecture, size)
    if counts is None or not (counts.activations or counts.macs):
        return None
    grown = names.grown(str(names.USUAL_SIZE), counts.input) if counts.input.isdigit() else 1.0
    usual_size = names.activations_of(counts) / grown
    held = USUAL_HELD * (usual_size / 1e6) ** USUAL_POWER
    return float(held * grown * names.grown(counts.input, size))


def counts_of(model: str) -> names.Architecture | None:
    """Published counts of a model at its usual input, with what it holds; None where either is not known."""
    name, size = names.identity(model)
    known, held = names.facts_of(name, size), held_numbers(name, size)
    return None if known is None or held is None else replace(known, held=held)


@cache
def own_counts(architecture: str) -> names.Architecture | None:
    """Counts of a network's own layers, at the input that they were traced at; None where they are not known."""
    layers = facts(architecture) if architecture in named() else own_layers(architecture)
    return counted(layers, architecture) if layers else None


def held_evidence(architecture: str) -> Evidence:
    """Predicted where its layers were traced, assumed where a law of what they put out stands in."""
    return Evidence.PREDICTED if _by_input(architecture) else Evidence.ASSUMED


def _by_input(architecture: str) -> Mapping[str, float]:
    """By its own layers, else as traced at each input; empty where neither is there."""
    layers = own_layers(architecture)
    if layers is None:
        return _traced().get(architecture, {})
    own = counted(layers, layers.model)
    return {own.input: own.held or 0.0}


def own_layers(architecture: str) -> Facts | None:
    """Those which plans know it by, or of the package's model that is it."""
    own = OWN_NAMES.get(architecture, architecture)
    if own in models_with_layers():
        return facts(own)
    of_package = _of_packages().get(architecture)
    layers = facts(of_package) if of_package else None
    return layers if layers and names.has_size_of(layers.params, architecture) else None


@cache
def _of_packages() -> Mapping[str, str]:
    """Models of packages whose layers are shipped, by the architecture that published tables mean."""
    return {names.architecture(full): full for full in reversed(named())}


def counted(layers: Facts, name: str) -> names.Architecture:
    """A model's own counts, as published tables have them of others."""
    sides = layers.input_shape
    size = f"seq{sides[0]}" if len(sides) == 1 else names.canonical_input(sizes(sides[1:]))
    return names.Architecture(
        name=name,
        input=size,
        params=layers.params,
        macs=layers.macs,
        activations=float(layers.outputs),
        held=layers.peak_activation_bytes_per_sample / FACT_BYTES,
        kernels=layers.kernels,
    )


@cache
def _traced() -> Mapping[str, Mapping[str, float]]:
    """By architecture and input, as `benchmarks.making.holding` wrote them."""
    found: dict[str, dict[str, float]] = {}
    for row in table(names.DATA / "held.csv"):
        found.setdefault(row["architecture"], {})[row["input"]] = float(row["held_millions"]) * 1e6
    return found
