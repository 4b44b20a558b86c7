"""Merging: what a set of models could share, what of it to share so that each keeps its accuracy, what that costs."""

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from calibrate.io.files import FileError, quoted, read_text
from calibrate.joint.curve import SharedCurve, read_curve
from calibrate.layers.facts import FactsError, facts
from calibrate.library.lookup import Library
from planner.io.load import Loaded
from planner.model.parts.merging import Merging, RetrainingSpec, SharingRule
from planner.model.plan import Live
from planner.model.scenario import Scenario
from planner.units.reading import HOURS_PER_MONTH
from simulator.errors import InputError
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
    common_stem,
    groups,
    saved_bytes,
    search,
    search_stem,
    shareable,
    shared_bytes,
    weighty,
)
from simulator.world.signature import read_signature

ANALYSIS_SCHEMA = "planner.merge/v1"
TOP_TENTH = 0.1
STRONG = 0.5
"""Share of a model's memory in the largest tenth of its layers from which a few groups save most of it."""
FIT_MIN = 4
"""Layers below which a line through them says nothing."""
GEMEL_SHARE = 0.607 / 0.86
"""Of what could be shared, GEMEL (NSDI'23) shared this much at 95 % of the accuracy, at best: 60.7 of 86 %."""
GEMEL_TARGET = 0.95
COPIES_MAX = 1000
MONTH_S = HOURS_PER_MONTH * 3600.0


class MergeError(InputError):
    """Something that cannot be merged or read, in one line with the remedy."""


# Which layers


def layers_of(name: str, library: Library | None = None, shape: tuple[int, ...] | None = None) -> Sequence[LayerFacts]:
    """Layers of a model that was measured, or of any by its name; MergeError where nobody knows them.

    Those of packages, files and a user's own **run their code**, in a process with torch.
    """
    for profile in library.for_model(name) if library else ():
        assert library is not None
        if listed := library.measured(profile).get("layers"):
            return _measured(name, listed)
    try:
        return _facts(name, shape)
    except FactsError as error:
        more = "" if ":" in name else " Or measure it with `planner calibrate` and name the folder with --profiles."
        raise MergeError(f"{error}{more}") from None


@cache
def _facts(name: str, shape: tuple[int, ...] | None) -> tuple[LayerFacts, ...]:
    return facts(name, shape).layers


def _measured(name: str, listed: Any) -> tuple[LayerFacts, ...]:
    """Layers as a profile's file has them; a layer of which only the weights are known reads and writes nothing."""
    try:
        return tuple(
            LayerFacts(
                name=str(row["name"]),
                type=str(row["type"]),
                signature=read_signature(str(row["signature"])),
                params=int(row["params"]),
                weight_bytes=int(row["weight_bytes"]),
                flops=int(row.get("flops", 0)),
                input_bytes=int(row.get("input_bytes", 0)),
                output_bytes=int(row.get("output_bytes", 0)),
            )
            for row in listed
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MergeError(f"{name}: the layers in its profile cannot be read. Measure it again.") from None


def named(words: Sequence[str], look: Callable[[str], Sequence[LayerFacts]]) -> dict[str, Sequence[LayerFacts]]:
    """Models by name: `resnet50*4` is four of them, `resnet50-1` to `resnet50-4`, and so is a name given four times."""
    counts: Counter[str] = Counter()
    for word in words:
        name, star, times = word.partition("*")
        if star and not (times.isdecimal() and 1 <= int(times) <= COPIES_MAX):
            raise MergeError(f"{word}: must be a name or `name*N`, N from 1 to {COPIES_MAX}. Write e.g. resnet50*4.")
        counts[name] += int(times) if star else 1
    return {name if n == 1 else f"{name}-{i}": look(name) for name, n in counts.items() for i in range(1, n + 1)}


# What could be shared


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Memory of layers by rank, the largest first: `scale_bytes / rank ** exponent`."""

    scale_bytes: float
    exponent: float
    """0: all layers alike; 2: the second largest is a quarter of the largest."""
    r2: float
    """Share of the variance of the logarithms that the line explains: 1 is a power law to the dot."""

    def __call__(self, rank: float) -> float:
        """Bytes of the layer of that rank. 400 MB, exponent 2: 400, 100, 44 MB."""
        return float(self.scale_bytes / rank**self.exponent)


def power_law(sizes: Sequence[int]) -> PowerLaw | None:
    """A straight line through the logarithms of size and rank, by least squares; `sizes` above 0, the largest
    first. None where there are too few."""
    if len(sizes) < FIT_MIN:
        return None
    rank, size = np.log(np.arange(1, len(sizes) + 1)), np.log(np.array(sizes, dtype=float))
    if sizes[0] == sizes[-1]:
        return PowerLaw(float(sizes[0]), 0.0, 1.0)
    slope, start = np.polyfit(rank, size, 1)
    spread = float(((size - size.mean()) ** 2).sum())
    left = float(((size - start - slope * rank) ** 2).sum())
    return PowerLaw(float(np.exp(start)), float(-slope), 1 - left / spread)


@dataclass(frozen=True, slots=True)
class HeavyHitters:
    """How much of one model's memory its largest layers hold. Where few hold most, a few groups save most."""

    model: str
    bytes: int
    """Of the layers that may be shared: all but norms."""
    layers: int
    largest: str
    """Path of the largest layer."""
    largest_share: float
    top_layers: int
    """The largest tenth of the layers, one at least."""
    top_share: float
    strength: str
    """`strong` where the largest tenth holds half of the memory, else `weak`."""
    layer_bytes: tuple[int, ...] = ()
    """Of each layer, the largest first."""
    power_law: PowerLaw | None = None
    """Fitted to those; None where there are too few to fit anything."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a set of models could share."""

    models: tuple[str, ...]
    total_bytes: int
    """Of all layers with weights but norms, each model on its own."""
    norm_bytes: int
    """Of norm layers, which are never shared; not part of the total."""
    shareable_bytes: int
    """What need not be held where all equal layers are shared."""
    stem_bytes: int
    """The same where only the longest run from the input on is shared that all of the models have."""
    branching_stem_bytes: int
    """The same where each model shares its run with those that begin like it."""
    groups: Sharing
    """Most bytes saved first."""
    heavy_hitters: tuple[HeavyHitters, ...]
    shared_by: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each model that some other has too."""


def analyze(models: Models) -> Analysis:
    """What the models could share, under both rules; MergeError where they cannot be compared."""
    try:
        found, listed = groups(models), weighty(models)
        stem, branching = common_stem(models), groups(models, LayerRule.STEM)
    except SharingError as error:
        raise MergeError(str(error)) from None
    norms = sum(x.weight_bytes for layers in models.values() for x in layers if not shareable(x))
    return Analysis(
        models=tuple(models),
        total_bytes=sum(layer.weight_bytes for layers in listed.values() for layer in layers),
        norm_bytes=norms,
        shareable_bytes=saved_bytes(found),
        stem_bytes=saved_bytes(stem),
        branching_stem_bytes=saved_bytes(branching),
        groups=found,
        heavy_hitters=tuple(heavy_hitters(model, layers) for model, layers in listed.items()),
        shared_by=shared_bytes(found),
    )


def heavy_hitters(model: str, layers: Sequence[LayerFacts]) -> HeavyHitters:
    """The largest layers of one model. VGG-16: 2 of 16 layers hold 86 % of it; ResNet-152: 16 of 156 hold 33 %."""
    ordered = sorted(layers, key=lambda layer: -layer.weight_bytes)
    total = sum(layer.weight_bytes for layer in layers)
    top = max(1, round(TOP_TENTH * len(layers)))
    share = sum(layer.weight_bytes for layer in ordered[:top]) / total
    return HeavyHitters(
        model=model,
        bytes=total,
        layers=len(layers),
        largest=ordered[0].name,
        largest_share=ordered[0].weight_bytes / total,
        top_layers=top,
        top_share=share,
        strength="strong" if share >= STRONG else "weak",
        layer_bytes=tuple(layer.weight_bytes for layer in ordered),
        power_law=power_law([layer.weight_bytes for layer in ordered]),
    )


# How accurate it stays


def assumed_harmless(sharing: Sharing) -> dict[str, float]:
    """Accuracy over that alone under the rule `harmless`: no sharing costs any."""
    return dict.fromkeys(shared_bytes(sharing), 1.0)


def assumed_gemel(could: Mapping[str, int]) -> Judge:
    """The rule `gemel`: accuracy falls on a straight line to 95 % where a model shares 70.6 % of what it could.

    `could`: bytes of each model that some other has too. GEMEL (NSDI'23) reports 86 % shareable and 60.7 % shared at
    95 % of the accuracy, each for the best of its workloads; the straight line and that it holds for each model by
    itself are assumed. 35.3 % shared: 97.5 %.
    """

    def judge(sharing: Sharing) -> dict[str, float]:
        return {
            model: max(0.0, 1 - (1 - GEMEL_TARGET) * size / could[model] / GEMEL_SHARE)
            for model, size in shared_bytes(sharing).items()
        }

    return judge


LARGEST_TABLE_BYTES = 1_000_000
TABLE_COLUMNS = frozenset({"model", "shared_fraction", "accuracy"})
Rows = Mapping[str, Sequence[tuple[float, float]]]
"""Accuracy over that alone by share of a model's bytes that is shared, ascending, by model; `*` is for any other."""


def read_table(path: Path) -> Rows:
    """A CSV with the columns `model`, `shared_fraction` and `accuracy`; MergeError names the line that is wrong."""
    rows: dict[str, dict[float, float]] = {}
    for number, row in enumerate(_table_rows(path), start=2):
        share, accuracy = _point(row)
        if not 0 <= share <= 1 or not 0 <= accuracy < math.inf:
            got = quoted(f"{row['shared_fraction']} and {row['accuracy']}")
            raise MergeError(f"{path}: row {number}: a share from 0 to 1 and an accuracy are wanted, got {got}.")
        rows.setdefault(str(row["model"]), {})[share] = accuracy
    if not rows:
        raise MergeError(f"{path}: holds no row. Write one for each share that was measured.")
    return {model: tuple(sorted(points.items())) for model, points in rows.items()}


def _table_rows(path: Path) -> list[dict[str, str]]:
    """The rows of the file, all columns there."""
    try:
        lines = read_text(path, LARGEST_TABLE_BYTES).splitlines()
    except FileError as error:
        raise MergeError(f"{path}: {error}. Name a CSV file.") from None
    reader = csv.DictReader(line for line in lines if line and not line.startswith("#"))
    try:
        missing = TABLE_COLUMNS - set(reader.fieldnames or ())
        rows = list(reader)
    except csv.Error as error:
        raise MergeError(f"{path}: is not CSV: {error}. Mend row {reader.line_num}.") from None
    if missing:
        names = ", ".join(sorted(TABLE_COLUMNS))
        raise MergeError(f"{path}: must have the columns {names}. Write them in the first line.")
    return rows


def _point(row: Mapping[str, str]) -> tuple[float, float]:
    """Share and accuracy; NaN where one is no number."""
    try:
        return float(row["shared_fraction"]), float(row["accuracy"])
    except (TypeError, ValueError):  # a short row has None
        return math.nan, math.nan


def tabled(rows: Rows, sizes: Mapping[str, int]) -> Judge:
    """Accuracy from a measured table: on a line between its points, and 0 beyond the largest share measured.

    `sizes`: bytes of each model that count. A table that begins above a share of 0 begins there with 1.
    """

    def judge(sharing: Sharing) -> dict[str, float]:
        accuracy = {}
        for model, size in shared_bytes(sharing).items():
            points = rows.get(model) or rows.get("*", ())
            accuracy[model] = interpolated([(0.0, 1.0), *points], size / sizes[model])
        return accuracy

    return judge


def interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """On a straight line between neighbours; 0 beyond the last point."""
    if at > points[-1][0] + 1e-12:
        return 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if at <= x1 + 1e-12:
            return y1 if x1 == x0 else y0 + (y1 - y0) * min(1.0, (at - x0) / (x1 - x0))
    return points[-1][1]


# What to share


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


# What a scenario may merge, and what that costs


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
        assumptions = [f"merging {merging}: nothing was found that could be shared with every model at its accuracy"]
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
