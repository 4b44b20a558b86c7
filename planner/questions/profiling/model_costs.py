"""Costs of models side by side: to load one, and to run it at some batch sizes. The table of CS 181AI, lecture 14."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from statistics import fmean
from typing import Any

from calibrate.io.points import Settings
from calibrate.layers.facts import known as models_with_layers
from calibrate.library.lookup import Library
from calibrate.library.memory import room_in
from planner.catalog.catalog import Catalog
from planner.model.plan import Prediction
from planner.prediction.predict import Predictor, doubt_of
from planner.questions.profiling.wish import asked_precision
from simulator.errors import InputError
from simulator.near import near_names
from simulator.world.profile import Evidence, Profile, WeightSource


class Origin(StrEnum):
    """Where costs come from."""

    MEASURED = "measured"
    """Here, by a calibration."""
    PUBLISHED = "published"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """One batch size."""

    batch: int
    time_s: float
    memory_bytes: float
    """The most that is allocated: weights and the tensors of the batch."""
    reserved_bytes: float
    """The same with libraries' own workspace and the allocator's slack, without the context."""
    band_s: tuple[float, float] | None = None
    """80 % band of a predicted or published time."""
    beside_load_s: float | None = None
    """Until the batch and a load of the model beside it are both done, as measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """One model on one kind of GPU, as it was run."""

    origin: Origin
    model: str
    """Without what its settings add to the name."""
    name: str
    """As profiles call it."""
    gpu: str
    precision: str
    runtime: str
    settings: Settings | None
    """Of a measured one."""
    weight_bytes: float
    context_bytes: int | None
    """What each process holds besides; None: not measured."""
    load_s: float
    """From pinned memory."""
    pageable_s: float | None
    """From pageable memory; None: not measured."""
    memory_evidence: Evidence
    """Of the workspace."""
    runs: tuple[RunCost, ...]
    """Those of the batch sizes asked for that are known."""

    def at(self, batch: int) -> RunCost | None:
        """The costs of a batch; None where it was not measured."""
        return next((run for run in self.runs if run.batch == batch), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCosts:
    """The answer: rows by origin, then by model."""

    batches: tuple[int, ...]
    rows: tuple[ModelCost, ...]

    def of(self, origin: Origin) -> list[ModelCost]:
        return [row for row in self.rows if row.origin is origin]

    @property
    def benchmarked(self) -> list[tuple[ModelCost, ModelCost]]:
        """Models that were run with cuDNN choosing its algorithms by rule, and by trying them."""
        by_setting = {(row.model, row.gpu, row.precision, row.settings): row for row in self.rows if row.settings}
        pairs = []
        for (model, gpu, precision, settings), row in by_setting.items():
            tried = by_setting.get((model, gpu, precision, replace(settings, cudnn_benchmark=True)))
            if not settings.cudnn_benchmark and tried is not None:
                pairs.append((row, tried))
        return pairs


def model_costs(
    library: Library,
    catalog: Catalog,
    batches: Sequence[int],
    models: Sequence[str] = (),
    gpu: str | None = None,
    precision: str | None = None,
    *,
    everything: bool = False,
) -> ModelCosts:
    """All models, or some unless `everything`, on the GPUs they have profiles for, or on one: there, what nobody
    measured is predicted."""
    known = sorted({*library.models(), *models_with_layers()})
    _demand_known(gpu, list(catalog.gpus), "GPU")
    precision = precision and asked_precision(precision)
    for model in models:
        if not (library.published_of(model) or library.for_model(model)):
            _demand_known(model, known, "model")
    kinds = [gpu] if gpu else sorted({profile.gpu for profile in library.profiles.values()})
    predictor = Predictor(library, catalog.gpus)
    shown = known if everything else _in_all_settings(library, models) or known
    rows = dict.fromkeys(  # one model may be known by several names
        row
        for model, kind in product(shown, kinds)
        for row in _rows(predictor, model, kind, precision, batches, predicts=gpu is not None)
    )
    origins = list(Origin)
    return ModelCosts(batches=tuple(batches), rows=tuple(sorted(rows, key=lambda r: origins.index(r.origin))))


def _in_all_settings(library: Library, models: Sequence[str]) -> list[str]:
    """Names, each with those of the same model's profiles in other settings: `net`, `net.cudnn_benchmark`."""
    if not models:
        return []
    profiles = library.profiles.values()
    plain = {profile.model: library.measured(profile).get("model", profile.model) for profile in profiles}
    names = [other for model in models for other in (model, *(name for name, of in plain.items() if of == model))]
    return list(dict.fromkeys(names))


def _demand_known(name: str | None, known: Sequence[str], what: str) -> None:
    if name is None or name in known:
        return
    close = near_names(name, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else "See `planner profiles list`."
    raise InputError(f"no {what} `{name}` is known. {hint}")


def _rows(
    predictor: Predictor, model: str, gpu: str, precision: str | None, batches: Sequence[int], *, predicts: bool
) -> Iterator[ModelCost]:
    """What is known of a pair: its own profiles, else what was published, else a prediction."""
    known = _known(predictor.library, model, gpu, precision)
    for profile in known:
        yield _of_profile(profile, predictor, batches)
    if predicts and not known:
        found = [predictor.predict(model, gpu, precision, batch) for batch in batches]
        yield from _of_predictions(predictor, [prediction for prediction in found if prediction])


def _known(library: Library, model: str, gpu: str, precision: str | None) -> list[Profile]:
    of_model = [p for p in library.for_model(model) if p.gpu == gpu and precision in (None, p.precision)]
    own = list(map(library.roomy, of_model))
    published = None if own else library.get(model, gpu, precision)
    return [published] if published else own


def _of_profile(profile: Profile, predictor: Predictor, batches: Sequence[int]) -> ModelCost:
    raw = predictor.library.measured(profile)
    settings = Settings(**raw["settings"]) if raw.get("settings") else None
    weights, held_numbers = profile.weight_bytes, predictor.grounds.held_numbers(profile.model)
    rooms = {batch: room_in(profile, held_numbers, batch) for batch in batches if batch <= profile.largest_batch}
    return ModelCost(
        origin=Origin.MEASURED if raw else Origin.PUBLISHED,
        model=raw.get("model", profile.model),
        name=profile.model,
        gpu=profile.gpu,
        precision=profile.precision,
        runtime=profile.runtime,
        settings=settings,
        weight_bytes=weights,
        context_bytes=profile.context_bytes,
        load_s=profile.load(weights),
        pageable_s=profile.load_from(WeightSource.PAGEABLE)(weights) if profile.pageable_bytes_per_s else None,
        memory_evidence=profile.memory_evidence,
        runs=tuple(
            RunCost(
                batch=batch,
                time_s=profile.latency(batch),
                memory_bytes=weights + room.allocated,
                reserved_bytes=weights + room.reserved,
                band_s=_band_s(predictor.of_profile(profile, batch)) if doubt_of(profile) else None,
                beside_load_s=_beside_load_s(raw, batch),
            )
            for batch, room in rooms.items()
        ),
    )


def _beside_load_s(raw: Mapping[str, Any], batch: int) -> float | None:
    """The mean of all sessions that measured it."""
    sessions = raw.get("sessions") or [raw]
    points = [session.get("points", {}).get("latency", {}).get(str(batch), {}) for session in sessions]
    seen = [time_s for point in points if (time_s := point.get("values", {}).get("beside_load_s"))]
    return fmean(seen) if seen else None


def _of_predictions(predictor: Predictor, found: Sequence[Prediction]) -> Iterator[ModelCost]:
    if not found:
        return
    first = found[0]
    made = predictor.get(first.model, first.gpu, first.precision)
    yield ModelCost(
        origin=Origin.PREDICTED,
        model=first.model,
        name=first.model,
        gpu=first.gpu,
        precision=first.precision,
        runtime=made.runtime if made else "",
        settings=None,
        weight_bytes=made.weight_bytes if made else 0,
        context_bytes=made.context_bytes if made else None,
        load_s=first.load_s.value,
        pageable_s=None,
        memory_evidence=first.memory_evidence,
        runs=tuple(_run_of(prediction) for prediction in found),
    )


def _run_of(prediction: Prediction) -> RunCost:
    return RunCost(
        batch=prediction.batch_size,
        time_s=prediction.latency_s.value,
        memory_bytes=prediction.memory_bytes,
        reserved_bytes=prediction.reserved_bytes,
        band_s=_band_s(prediction),
    )


def _band_s(prediction: Prediction) -> tuple[float, float]:
    return prediction.latency_s.low, prediction.latency_s.high
