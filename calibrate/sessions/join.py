"""Joining: profiles of several sessions become one of their usual times, with how far they lie apart. Needs no torch.

What was measured in each session stays in the joined file under `measured.sessions`, so that more can join later.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import sqrt
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

from calibrate.assembling.device import device_json
from calibrate.assembling.measured import Measured
from calibrate.assembling.points import outcomes_of, points_json
from calibrate.assembling.profile import profile_json
from calibrate.assembling.runs import HELD_UP, as_counted, counted, counted_runs, held_by_host, held_up
from calibrate.devices.provenance import MAY_DIFFER, MUST_AGREE
from calibrate.io.points import PointOutcome, Settings, Status, What
from calibrate.library.fit import coefficient_of_variation
from calibrate.library.lookup import DEVICE_FILE
from calibrate.sessions.spread import SessionLevels, SessionTimes, Spread, spread_of
from calibrate.sweep.assemble import BROKEN, broken, read, write_file
from simulator.errors import InputError
from simulator.grouping import grouped
from simulator.world.profile import Evidence, weakest

APART_REMEDY = "find what else ran there, and measure again on a quiet device"
AGREE = 1.25
"""Most that figures may differ by where a GPU, a driver or a host does. GPUs of one kind in one computing centre
differ by up to 22 % (Sinha et al., SC 2022); beyond that something else differs."""
EVIDENCE = ("latency_evidence", "memory_evidence", "load_evidence")
"""Keys of a profile. What was measured elsewhere stays so, with whatever it is joined."""
TYPICAL: Mapping[str, Callable[[Sequence[float]], float]] = {"wall_s": fmean}
"""What is made of a series of samples, by its name; of all others the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one profile's file holds of one session."""

    path: Path
    raw: Mapping[str, Any]
    """The whole file."""
    provenance: Mapping[str, Any]
    outcomes: tuple[PointOutcome, ...]
    after_load: Mapping[str, float]
    """What swapping cost; empty where it was not measured."""

    @property
    def timed(self) -> dict[int, PointOutcome]:
        """Inference batches that went well, by size."""
        return {o.point.batch: o for o in self.outcomes if o.point.what is What.LATENCY and o.status is Status.OK}

    @property
    def counted_outcomes(self) -> list[PointOutcome]:
        """All outcomes, of inference batches the runs that count."""
        runs = {outcome.point: outcome for outcome in as_counted(self.timed).values()}
        return [runs.get(outcome.point, outcome) for outcome in self.outcomes]

    @property
    def times(self) -> SessionTimes:
        timed = self.timed
        samples = counted(timed)
        return SessionTimes(
            host=f"{self.provenance.get('host_cpu')} with {self.provenance.get('host_cores')} cores",
            gpu=str(self.provenance.get("gpu_uuid_sha256") or ""),
            mean_s={batch: fmean(taken) for batch, taken in samples.items()},
            cv={batch: coefficient_of_variation(taken) / sqrt(len(taken)) for batch, taken in samples.items()},
            by_host=held_by_host(timed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedProfile:
    """One model of several sessions."""

    model: str
    gpu: str
    precision: str
    path: Path
    """The file that was written."""
    spread: Spread | None
    """None: there was one session, taken as it is."""
    differs: Mapping[str, Sequence[str]]
    """What differed between sessions whose figures agree: values by key."""

    @property
    def text(self) -> str:
        """In a line."""
        name = f"{self.model} on {self.gpu} at {self.precision}"
        if self.spread is None:
            return f"{name}: one session, taken as it is."
        levels = self.spread.levels
        between = [f"{cv:.1%} between {level}" for level, cv in self.spread.cv.items()]
        differs = [f"{key} ({', '.join(values)})" for key, values in self.differs.items()]
        parts = [
            f"{len(levels)} sessions of {min(levels):.3g} to {max(levels):.3g} times the usual time",
            *between,
            *([f"figures agree though these differ: {'; '.join(differs)}"] if differs else []),
        ]
        return f"{name}: {', '.join(parts)}."


def join(folders: Sequence[Path], out: Path) -> list[JoinedProfile]:
    """The profiles of all sessions under `folders`, joined by kind of GPU, model and setting, under `out`.

    InputError, before anything is written, where sessions cannot stand together or `out` holds other profiles.
    """
    by_kind: dict[str, dict[str, list[Session]]] = {}
    for session in (one for folder in folders for one in _sessions(folder)):
        by_kind.setdefault(session.raw["gpu"], {}).setdefault(session.path.name, []).append(session)
    of_kinds = {gpu: _of_kind(sessions, out / gpu) for gpu, sessions in sorted(by_kind.items())}
    for made in of_kinds.values():
        for path, raw in made.files.items():
            write_file(path, raw)
    return [joined for made in of_kinds.values() for joined in made.joined]


@dataclass(frozen=True, slots=True)
class OfKind:
    """All that is written of one kind of GPU."""

    joined: Sequence[JoinedProfile]
    files: Mapping[Path, Mapping[str, Any]]


def _of_kind(by_file: Mapping[str, Sequence[Session]], folder: Path) -> OfKind:
    """The joined profiles of a kind of GPU, by file, and the device."""
    probes = _probes([session for sessions in by_file.values() for session in sessions])
    made = [_made(sessions, probes, folder / name) for name, sessions in sorted(by_file.items())]
    files: dict[Path, Mapping[str, Any]] = {joined.path: raw for joined, raw, _ in made}
    newest = max((provenance for *_, provenance in made), key=lambda p: str(p["date"]))
    device = device_json(newest, probes, list(files.values())) | _of_devices(chain.from_iterable(by_file.values()))
    return OfKind([joined for joined, *_ in made], {**files, folder / DEVICE_FILE: device})


# Reading


def _sessions(folder: Path) -> list[Session]:
    """All that a calibration left under a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a directory. Name one that `planner calibrate` wrote.")
    found = [s for path in sorted(folder.rglob("*.json")) if path.name != DEVICE_FILE for s in _of_file(path)]
    if not found:
        raise InputError(f"{folder}: holds no profile of a calibration. Name one that `planner calibrate` wrote.")
    return found


def _of_file(path: Path) -> Iterator[Session]:
    """The session of a profile, or those that it was joined of; none where nothing was measured."""
    try:
        raw = read(path)
        measured = (raw or {}).get("measured") or {}
        kept = measured.get("sessions") or ([measured] if "points" in measured else [])
        settings = Settings(**measured["settings"]) if kept else Settings()
        for one in kept:
            assert raw
            outcomes = outcomes_of(one["points"], raw["model"], settings, measured.get("layers", ()))
            ratios = raw.get("after_load", {}) if one is measured else one.get("after_load", {})
            yield Session(path=path, raw=raw, provenance=one["provenance"], outcomes=tuple(outcomes), after_load=ratios)
    except BROKEN as error:
        raise InputError(broken(path, error)) from None


def _probes(sessions: Sequence[Session]) -> dict[str, PointOutcome]:
    """What was probed of the device beside the profiles: the median of each figure."""
    found: dict[str, list[PointOutcome]] = {}
    for path in sorted({session.path.with_name(DEVICE_FILE) for session in sessions}):
        try:
            raw = read(path) or {}
            for outcome in outcomes_of({What.PROBE: raw.get("probes", {})}, "", Settings()):
                found.setdefault(outcome.point.probe, []).append(outcome)
        except BROKEN as error:
            raise InputError(broken(path, error)) from None
    return {name: _pooled_values(outcomes, median) for name, outcomes in found.items()}


def _of_devices(sessions: Iterable[Session]) -> dict[str, str]:
    """How the probes are known, where a device beside the profiles says so: as the weakest."""
    devices = (read(path) or {} for path in {session.path.with_name(DEVICE_FILE) for session in sessions})
    said = [Evidence(raw["evidence"]) for raw in devices if "evidence" in raw]
    return {"evidence": weakest(*said).value} if said else {}


# Joining


def _made(
    sessions: Sequence[Session], probes: Mapping[str, PointOutcome], path: Path
) -> tuple[JoinedProfile, dict[str, Any], Mapping[str, Any]]:
    """What came of a model's sessions, its file, and where the newest of them was measured."""
    _demand_new(path)
    newest = max(sessions, key=lambda s: str(s.provenance["date"]))
    named = {"model": newest.raw["model"], "gpu": newest.raw["gpu"], "precision": newest.raw["precision"]}
    if len(sessions) == 1:
        return JoinedProfile(**named, path=path, spread=None, differs={}), dict(newest.raw), newest.provenance
    times = [session.times for session in sessions]
    _demand_comparable(sessions, times)
    spread = spread_of(times)
    differs = _demand_agreeing(sessions, spread.levels)
    settings = Settings(**newest.raw["measured"]["settings"])
    levels = SessionLevels(times, spread.levels)
    measured = Measured(newest.raw["model"], settings, newest.provenance, _pooled(sessions, levels), probes)
    raw = profile_json(measured)
    if raw is None:
        raise InputError(f"{newest.path}: its sessions together make no profile. Measure it anew.")
    kept = [
        {
            "provenance": dict(session.provenance),
            "level": round(level, 5),
            "points": points_json(session.outcomes),
            **({"after_load": dict(session.after_load)} if session.after_load else {}),
        }
        for session, level in zip(sessions, spread.levels, strict=True)
    ]
    raw |= named
    for key in EVIDENCE:
        elsewhere = [Evidence.ELSEWHERE for session in sessions if session.raw.get(key) == Evidence.ELSEWHERE]
        raw[key] = weakest(Evidence(raw[key]), *elsewhere).value
    raw["session_cv"] = round(spread.session_cv, 5)
    if spread.session_cv > AGREE - 1:
        raw["doubts"] = [*raw["doubts"], f"Sessions lie {spread.session_cv:.0%} apart; {APART_REMEDY}."]
    raw["source"] = f"{raw['source']}, {len(sessions)} sessions"
    raw |= _after_load(sessions)
    raw["measured"] |= {
        "model": newest.raw["measured"].get("model", newest.raw["model"]),
        "spread_cv": {level: round(cv, 5) for level, cv in spread.cv.items()},
        "sessions": kept,
    }
    return JoinedProfile(**named, path=path, spread=spread, differs=differs), raw, newest.provenance


def _after_load(sessions: Sequence[Session]) -> dict[str, Any]:
    """What swapping costs: geometric means of the ratios that sessions saw."""
    known = [session.after_load for session in sessions if session.after_load]
    if not known:
        return {}
    names = ("batch_ratio", "load_ratio")
    return {"after_load": {name: round(geometric_mean(one[name] for one in known), 4) for name in names}}


def _demand_new(path: Path) -> None:
    """InputError where the file holds a profile that was not joined: it would be lost."""
    try:
        raw = read(path) or {}
    except BROKEN as error:
        raise InputError(broken(path, error)) from None
    if raw and "sessions" not in raw.get("measured", {}):
        raise InputError(f"{path}: holds a profile of one session. Name another --out.")


def _demand_comparable(sessions: Sequence[Session], times: Sequence[SessionTimes]) -> None:
    """InputError where two are the same session, were measured in another way, or share no batch size."""
    first = sessions[0]
    for number, one in enumerate(sessions[1:], 1):
        if any(one.outcomes == other.outcomes for other in sessions[:number]):
            raise InputError(f"{one.path}: is a session that is there already. Name each once.")
        for key in set(MUST_AGREE) - set(MAY_DIFFER):
            was, now = first.provenance.get(key), one.provenance.get(key)
            if was != now:
                differs = f"{key} is {now}, in {first.path} it is {was}"
                raise InputError(f"{one.path}: {differs}: such figures are not joined. Leave one of them out.")
    if not set.intersection(*(set(one.mean_s) for one in times)):
        raise InputError(f"{first.path}: no batch size was measured in all sessions. Measure one in each.")


def _demand_agreeing(sessions: Sequence[Session], levels: Sequence[float]) -> dict[str, Sequence[str]]:
    """What may differ and does; InputError where the figures differ with it."""
    found: dict[str, Sequence[str]] = {}
    for key in MAY_DIFFER:
        of_value = grouped(
            (str(session.provenance.get(key)), level) for session, level in zip(sessions, levels, strict=True)
        )
        typical = {value: geometric_mean(seen) for value, seen in of_value.items()}
        apart = max(typical.values()) / min(typical.values())
        if apart > AGREE:
            values = " and ".join(of_value)
            wrong = f"{key} is {values}, and times differ by {apart:.3g} times, more than {AGREE:g}"
            raise InputError(f"{sessions[0].path}: {wrong}: such figures are not joined. Leave one of them out.")
        if len(of_value) > 1:
            found[key] = [value[:40] for value in of_value]
    return found


# Pooling


def _pooled(sessions: Sequence[Session], levels: SessionLevels) -> dict[str, PointOutcome]:
    """Each point once, its times as if all sessions had been of the usual speed; those that went well count."""
    seen: dict[str, list[PointOutcome | None]] = {}
    for number, session in enumerate(sessions):
        for outcome in session.counted_outcomes:
            seen.setdefault(outcome.point.key, [None] * len(sessions))[number] = outcome
    return {key: _pooled_point(found, _levels(levels, found)) for key, found in seen.items()}


def _levels(levels: SessionLevels, found: Sequence[PointOutcome | None]) -> Sequence[float]:
    """How slow sessions were at a point."""
    point = next(outcome.point for outcome in found if outcome)
    return levels.at(point.batch) if point.what is What.LATENCY else levels.whole


def _pooled_point(found: Sequence[PointOutcome | None], levels: Sequence[float]) -> PointOutcome:
    """A point of all sessions, None of those that lack it."""
    good = [outcome if outcome and outcome.status is Status.OK else None for outcome in found]
    outcomes = [outcome for outcome in good if outcome]
    if not outcomes:
        return [outcome for outcome in found if outcome][-1]
    size = outcomes[0].point.what is What.MEMORY  # of memory the most that was seen is safe
    return replace(_pooled_values(outcomes, max if size else fmean), samples=_pooled_samples(good, levels))


def _pooled_samples(found: Sequence[PointOutcome | None], levels: Sequence[float]) -> dict[str, list[float]]:
    """Samples of a point, of all sessions, each at the speed that is usual."""
    samples = [dict(outcome.samples) if outcome else {} for outcome in found]
    for outcome, of_one in zip(found, samples, strict=True):
        if outcome and "wall_s" in of_one:  # without hiccups: together with others' runs they would count anew
            of_one["wall_s"] = counted_runs(outcome)
    return {
        name: _at_usual_speed([of_one.get(name, ()) for of_one in samples], levels, TYPICAL.get(name, median))
        for name in dict.fromkeys(chain.from_iterable(samples))
    }


def _pooled_values(outcomes: Sequence[PointOutcome], pool: Any) -> PointOutcome:
    """The last outcome with each value pooled over all."""
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.values)
    values = {name: float(pool([o.values[name] for o in outcomes if name in o.values])) for name in names}
    return replace(outcomes[-1], values=values, details=_pooled_details(outcomes))


def _pooled_details(outcomes: Sequence[PointOutcome]) -> dict[str, Any]:
    """The last one's; what held the clock down, or runs up, in any session counts by its largest share."""
    seen = [one.details["slow_reasons"] for one in outcomes if one.details.get("slow_reasons")]
    shares = [reasons if isinstance(reasons, Mapping) else dict.fromkeys(reasons, 1.0) for reasons in seen]
    held = {name: max(one.get(name, 0.0) for one in shares) for one in shares for name in one}
    pooled = {**outcomes[-1].details, **({"slow_reasons": held} if held else {})}
    if all("wall_s" in one.samples for one in outcomes):
        pooled[HELD_UP] = max(held_up(one) for one in outcomes)
    return pooled


def _at_usual_speed(
    taken: Sequence[Sequence[float]], levels: Sequence[float], typical: Callable[[Sequence[float]], float]
) -> list[float]:
    """Samples of sessions, each series scaled to the time that all have in common: their spread within is left.

    That is the mean over all sessions, so it lies between them; one that lacks the point (no samples) would have taken
    its level times what the others took at theirs. Times of 1.0 and 1.2 become 1.1. Each series is brought there by
    the figure that is made of it later.
    """
    known = {n: typical(samples) for n, samples in enumerate(taken) if samples}
    if min(known.values()) <= 0:
        return list(chain(*taken))
    at_usual_s = geometric_mean(time_s / levels[n] for n, time_s in known.items())
    common_s = fmean(known.get(n, at_usual_s * level) for n, level in enumerate(levels))
    return [sample * common_s / time_s for n, time_s in known.items() for sample in taken[n]]
