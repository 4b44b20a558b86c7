"""Options: what of a scenario's models to share so that each keeps its accuracy, and what that costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from calibrate.joint.curve import SharedCurve, read_curve
from calibrate.library.lookup import Library
from planner.io.load import Loaded
from planner.model.parts.merging import Merging, RetrainingSpec, SharingRule
from planner.model.plan import Live
from planner.model.scenario import Scenario
from planner.placing.merging.accuracy import Rows, assumed_gemel, assumed_harmless, read_table, tabled
from planner.placing.merging.layers import MergeError, layers_of
from planner.units.reading import HOURS_PER_MONTH
from simulator.world.model import LayerFacts
from simulator.world.profile import Evidence
from simulator.world.sharing import (
    LEAST_SHARE,
    NOTHING_SHARED,
    Attempt,
    Judge,
    LayerRule,
    Merged,
    Models,
    Sharing,
    SharingError,
    groups,
    search,
    search_stem,
    shared_bytes,
    weighty,
)

MONTH_S = HOURS_PER_MONTH * 3600.0


def best_point(curve: SharedCurve, candidates: Sharing, targets: Mapping[str, float]) -> Merged:
    """The trained sharing that saves most, of those that use only `candidates` and with which each model keeps its
    target."""
    best = Merged(())
    attempts: list[Attempt] = []
    for point in curve.points:
        if not point.sharing or not _within(point.sharing, candidates):
            continue
        members = {model for group in point.sharing for model in group.models}
        kept = all(point.accuracy.get(m, 0.0) >= targets.get(m, 0.0) for m in members)
        if kept and point.saved_bytes > best.saved_bytes:
            best = Merged(point.sharing, point.accuracy)
        attempts.append(Attempt(point.sharing[-1], kept, point.accuracy, best.saved_bytes, tuple(sorted(members))))
    return Merged(best.sharing, best.accuracy, tuple(attempts))


def _within(sharing: Sharing, candidates: Sharing) -> bool:
    """Whether each group shares no more than a candidate does."""
    models_by_layer = {(g.signature, g.copy): set(g.models) for g in candidates}
    return all(set(g.models) <= models_by_layer.get((g.signature, g.copy), set()) for g in sharing)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the accuracy of merged models."""

    judge: Judge | None
    """None: there is a curve."""
    curve: SharedCurve | None
    evidence: Evidence
    source: str
    """As a sentence of the answer says it."""


def choose(models: Models, rule: LayerRule, about: Known, targets: Mapping[str, float]) -> Merged:
    """What to share of `models` under a rule so that each keeps its target, as far as is known."""
    try:
        candidates = groups(models, rule)
        if about.curve is not None:
            return best_point(about.curve, candidates, targets)
        assert about.judge is not None
        if rule is LayerRule.STEM:
            return search_stem(candidates, about.judge, targets)
        least = LEAST_SHARE * sum(x.weight_bytes for layers in weighty(models).values() for x in layers)
        return search(candidates, about.judge, targets, least_bytes=round(least))
    except SharingError as error:
        raise MergeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Bill:
    """What joint training costs. Figures are NaN where the scenario does not say what a training takes."""

    training_usd: float = 0.0
    """Of all tries of the search for what to share."""
    retraining_usd_per_month: float = 0.0
    """What is shared, trained once more each time."""
    life_s: float = math.inf
    """Over how long the search is written off."""
    live: tuple[Live, ...] = ()
    """How the saving grew."""

    @property
    def usd_per_month(self) -> float:
        """Retraining, and the first training written off: $365 over a year are $30.42 a month."""
        if math.isnan(self.training_usd):
            return 0.0
        return self.retraining_usd_per_month + self.training_usd * MONTH_S / self.life_s


@dataclass(frozen=True, slots=True)
class Option:
    """One way of merging a scenario's models."""

    merging: Merging
    merged: Merged
    bill: Bill = Bill()
    evidence: Evidence | None = None
    """Of the accuracy; None where nothing is shared."""
    assumptions: tuple[str, ...] = ()
    """What is assumed."""

    @property
    def way(self) -> Merging:
        """Which layers are stored once; none where nothing was found that could be."""
        return self.merging if self.merged.sharing else Merging.NONE

    def of(self, loaded: Loaded) -> Loaded:
        """The scenario in which merged models are as accurate as they then are."""
        accuracy = self.merged.accuracy
        models = tuple(
            replace(spec, accuracy=min(1.0, spec.accuracy * accuracy.get(spec.name, 1.0)))
            for spec in loaded.scenario.models
        )
        return replace(loaded, scenario=replace(loaded.scenario, models=models))


NOTHING_MERGED = Option(Merging.NONE, NOTHING_SHARED)
"""Each model on its own."""


def options(loaded: Loaded, library: Any) -> list[Option]:
    """The ways of merging that a scenario allows, none at all first; MergeError where something is wrong with them."""
    scenario = loaded.scenario
    wanted = {
        Merging.NONE: (),
        Merging.STEM: (Merging.STEM,),
        Merging.LAYERS: (Merging.LAYERS,),
        Merging.AUTO: (Merging.STEM, Merging.LAYERS),
    }[scenario.merging]
    alone = [NOTHING_MERGED] if scenario.merging in (Merging.NONE, Merging.AUTO) else []
    if not wanted:
        return alone
    models, unknown = known_layers(scenario, library)
    return alone + [option(loaded, merging, models, unknown) for merging in wanted]


def known_layers(scenario: Scenario, library: Any) -> tuple[dict[str, Sequence[LayerFacts]], list[str]]:
    """Layers by model, and the models whose layers nobody knows: they are never merged."""
    layers: dict[str, Sequence[LayerFacts]] = {}
    unknown: list[str] = []
    for spec in scenario.models:
        try:
            source = library if isinstance(library, Library) else None
            if ":" in spec.made_by and not spec.layers:
                layers[spec.name] = layers_of(spec.made_by, source, spec.input or None)
            else:
                layers[spec.name] = layers_of(spec.layers or spec.known_as, source)
        except MergeError:
            if spec.layers:
                raise
            unknown.append(spec.name)
    return layers, unknown


def option(loaded: Loaded, merging: Merging, models: Models, unknown: Sequence[str]) -> Option:
    """What to share under one rule, how sure that is, and what it costs."""
    scenario, spec = loaded.scenario, loaded.scenario.sharing
    rule = LayerRule(merging.value)
    about = knowledge(loaded, models)
    targets = {model.name: model.merged_accuracy for model in scenario.models}
    merged = choose(models, rule, about, targets) if len(models) > 1 else NOTHING_SHARED
    assumptions = [f"merging {merging}: {about.source}"]
    if unknown:
        them = "it" if len(unknown) == 1 else "them"
        text = f"layers are not known, so nothing of {them} is merged; `layers` would name them"
        assumptions.append(f"{', '.join(unknown)}: {text}")
    if not merged.sharing:
        nothing = f"merging {merging}: nothing was found that could be shared with every model at its accuracy"
        assumptions[0:1] = [nothing] if len(models) > 1 else []
    evidence = about.evidence if merged.sharing else None
    return Option(merging, merged, bill(merged, spec.retraining), evidence, tuple(assumptions))


def knowledge(loaded: Loaded, models: Models) -> Known:
    """What the scenario says of the accuracy of merged models."""
    spec = loaded.scenario.sharing
    found: SharedCurve | Rows | None = loaded.stated or stated(loaded)
    if isinstance(found, SharedCurve):
        if not found.models.keys() & models.keys():
            named_there = ", ".join(found.models)
            raise MergeError(f"{spec.curve}: has none of the scenario's models, only {named_there}. Name them alike.")
        return Known(None, found, Evidence.MEASURED, f"accuracy was measured by joint training ({spec.curve})")
    sizes = {model: sum(x.weight_bytes for x in layers) for model, layers in weighty(models).items()} if models else {}
    if found is not None:
        return Known(tabled(found, sizes), None, Evidence.MEASURED, f"accuracy is that of a table ({spec.table})")
    if spec.rule is SharingRule.HARMLESS:
        return Known(assumed_harmless, None, Evidence.ASSUMED, "rule `harmless`: sharing is assumed to cost nothing")
    could = shared_bytes(groups(models)) if models else {}
    text = "rule `gemel`: accuracy is assumed to fall on a line to 95 % where 71 % of what could be shared is"
    return Known(assumed_gemel(could), None, Evidence.ASSUMED, text)


def stated(loaded: Loaded) -> SharedCurve | Rows | None:
    """What the file holds that the scenario names; InputError or MergeError where that is nothing of use."""
    spec, directory = loaded.scenario.sharing, loaded.path.parent
    if spec.curve is not None:
        return read_curve(directory / spec.curve)
    return None if spec.table is None else read_table(directory / spec.table)


def bill(merged: Merged, spec: RetrainingSpec | None) -> Bill:
    """What the search for what to share takes, and training it anew.

    Three tries of 4 models, 5 epochs of 100 steps of 0.3 s: 3 x 4 x 5 x 100 x 0.3 s = half an hour.
    """
    if not merged.attempts:
        return Bill()
    if spec is None:
        live = tuple(Live(after_s=math.nan, saved_bytes=x.saved_bytes) for x in merged.attempts if x.accepted)
        return Bill(math.nan, math.nan, live=live)
    one_s = spec.epochs * spec.steps * spec.step
    ends_s = list(accumulate(one_s * len(x.trained) for x in merged.attempts))
    again_s = one_s * len(shared_bytes(merged.sharing))
    per_month = MONTH_S / spec.every if spec.every else 0.0
    return Bill(
        training_usd=spec.price * ends_s[-1] / 3600,
        retraining_usd_per_month=spec.price * again_s / 3600 * per_month,
        life_s=spec.life,
        live=tuple(
            Live(after_s=end_s, saved_bytes=tried.saved_bytes)
            for tried, end_s in zip(merged.attempts, ends_s, strict=True)
            if tried.accepted
        ),
    )
