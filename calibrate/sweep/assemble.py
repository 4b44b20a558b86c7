"""Assemble: files of profiles and of a device, made of what a calibration measured and of what is there already."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrate.assembling.device import device_json, seen_flops, seen_loads
from calibrate.assembling.measured import Measured
from calibrate.assembling.points import outcomes_of
from calibrate.assembling.profile import how_measured, profile_json
from calibrate.devices.provenance import differing
from calibrate.io.files import Fault, FileError, lines_json, put, read_json
from calibrate.io.points import PointOutcome, Settings, Status, What
from calibrate.library.lookup import DEVICE_FILE, profile_file
from calibrate.library.reading import DEVICE_SCHEMA, SCHEMA
from calibrate.sweep.journal import Header, JournalError
from simulator.grouping import grouped

BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that reading a damaged file raises."""


def write(outcomes: Sequence[PointOutcome], header: Header, out: Path) -> list[Path]:
    """Profiles and the device file under `out/<gpu>`, joined with what earlier runs on the same device left there.

    Each is written whole or not at all. Raises `JournalError` after all that can be written is.
    """
    directory = out / str(header.provenance["gpu"])
    device = directory / DEVICE_FILE
    errors: list[str] = []
    probes = _kept_probes(device, header.provenance, errors)
    probes |= {o.point.probe: o for o in outcomes if o.point.what is What.PROBE}
    good_probes = {name: o for name, o in probes.items() if o.status is Status.OK}
    made = []
    of_models = (o for o in outcomes if o.point.what is not What.PROBE)
    by_model = grouped(((o.point.model, o.point.settings), o) for o in of_models)
    for (model, settings), group in by_model.items():
        measured = Measured(model, settings, header.provenance, {o.point.key: o for o in group}, good_probes)
        path = directory / file_name(measured)
        joined = _joined(path, measured, errors)
        if joined and (raw := profile_json(joined)):
            write_file(path, _as_swapped(path, raw))
            made.append(path)
    if errors:
        raise JournalError("\n".join(errors))
    write_file(device, device_json(header.provenance, probes, _profiles(directory)))
    return [*made, device]


def file_name(m: Measured) -> str:
    """The profile's file under its device's folder."""
    return profile_file(m.name, m.settings.precision)


def _joined(path: Path, m: Measured, errors: list[str]) -> Measured | None:
    """With the points that a profile of the same device, software and settings already holds; the new ones count."""
    try:
        kept = read(path)
        if kept is None:
            return m
        if "sessions" in kept["measured"]:
            remedy = "Name another --out, then join both: planner profiles join"
            errors.append(f"{path}: holds several sessions, to which no points are added. {remedy}.")
            return None
        was = kept["measured"]["provenance"]
        old = outcomes_of(kept["measured"]["points"], m.model, m.settings, kept["measured"]["layers"])
    except BROKEN as error:
        errors.append(broken(path, error))
        return None
    if not _same(path, was, {**m.provenance, **how_measured(m)}, errors):
        return None
    return replace(m, outcomes={o.point.key: o for o in old} | dict(m.outcomes))


def _as_swapped(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """The profile with what swapping was seen to cost, which is measured apart, as its file has it."""
    kept = read(path) or {}
    if "after_load" not in kept:
        return raw
    measured = {**raw["measured"], "after_load": kept["measured"].get("after_load", {})}
    return {**raw, "after_load": kept["after_load"], "measured": measured}


def _kept_probes(path: Path, provenance: Mapping[str, Any], errors: list[str]) -> dict[str, PointOutcome]:
    try:
        kept = read(path)
        if kept is None or not _same(path, kept["provenance"], provenance, errors):
            return {}
        return {o.point.probe: o for o in outcomes_of({What.PROBE: kept["probes"]}, "", Settings())}
    except BROKEN as error:
        errors.append(broken(path, error))
        return {}


def broken(path: Path, error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) else "it is no whole file of a calibration"
    return f"{path}: cannot be read ({why}). Move it away, then continue with --resume."


def _same(path: Path, was: Mapping[str, Any], now: Mapping[str, Any], errors: list[str]) -> bool:
    """True where figures may stand together; else an error names the key that differs."""
    if (found := differing(was, now)) is None:
        return True
    key, old, new = found
    remedy = "Move the file away, then the same command with --resume writes it anew"
    errors.append(f"{path}: {key} was {old}, now it is {new}: such figures are not mixed. {remedy}.")
    return False


def _profiles(directory: Path) -> list[dict[str, Any]]:
    """Those that are whole: a broken one says so to whoever plans with it."""
    found = []
    for path in sorted(directory.glob("*.json")):
        with suppress(*BROKEN):
            raw = read(path) if path.name != DEVICE_FILE else None
            if raw and seen_loads([raw]) and seen_flops([raw], fp32=raw["precision"] == "fp32") is not None:
                found.append(raw)
    return found


def read(path: Path) -> dict[str, Any] | None:
    """A file of ours; None where there is none. One of `BROKEN` where it is damaged."""
    try:
        raw = read_json(path)
    except FileError as error:
        if error.fault is Fault.MISSING:
            return None
        raise
    return raw if isinstance(raw, dict) and raw.get("schema") in (SCHEMA, DEVICE_SCHEMA) else None


def write_file(path: Path, raw: Mapping[str, Any]) -> None:
    """A profile or a device, as a file of ours."""
    remedy = "Make room, or let it be written, then continue with --resume"
    put(path, f"{lines_json(raw)}\n".encode(), JournalError, remedy)
