"""Profiles of other tools' files, and profiles as plain CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calibrate.io.files import FileError, lines_json, put, read_text
from calibrate.io.reader import parse
from calibrate.library.lookup import Library, checked_profile, profile_file
from calibrate.library.reading import SCHEMA
from planner.imports.measurements import plain_csv
from planner.imports.measurements.assembling import profile_of
from planner.imports.measurements.files import Added
from planner.imports.measurements.formats import LARGEST_BYTES
from planner.imports.texts import TextFile
from planner.model.choices import MeasurementFormat
from simulator.errors import InputError
from simulator.world.hardware import GPU
from simulator.world.profile import Profile


def import_profile(
    files: Sequence[Path], out: Path, added: Added, gpus: Mapping[str, GPU], form: MeasurementFormat | None = None
) -> tuple[Profile, Path]:
    """The profile that files make, written into the folder `out`; nothing is written where they make none."""
    raw = _exported(files, added) or profile_of(files, added, gpus, form)
    profile = checked_profile(raw, gpus, files[0])
    path = out / profile.gpu / profile_file(profile.model, profile.precision)
    if path.exists():
        raise InputError(f"{path}: exists already. Name another folder with --out, or remove it.")
    put(path, f"{lines_json(raw)}\n".encode(), InputError, "Name another folder with --out")
    return profile, path


def _exported(files: Sequence[Path], added: Added) -> dict[str, Any] | None:
    """The profile of a file that `planner profiles export` wrote; None where it is another."""
    try:
        read = [TextFile(str(path), read_text(path, LARGEST_BYTES)) for path in files]
    except FileError:  # told by whoever reads it as what it is
        return None
    if not any(map(plain_csv.is_whole, read)):
        return None
    if len(files) > 1 or any(value is not None for value in asdict(added).values()):
        raise InputError(f"{files[0]}: says all of a profile. Import it alone, without options.")
    return plain_csv.profile_json(read[0])


def export_profile(profile: Profile, library: Library) -> str:
    """A profile as plain CSV."""
    path = library.paths.get((profile.model, profile.gpu, profile.precision))
    known = library.profiles.get((profile.model, profile.gpu, profile.precision))
    raw = parse(path, "a profile") if path and known and known.source == profile.source else _of_figures(profile)
    if len(profile.layers) > 1:
        raw.pop("weight_bytes", None)
        raw["layers"] = [asdict(layer) for layer in profile.layers]
    return plain_csv.text_of(raw)


def _of_figures(profile: Profile) -> dict[str, Any]:
    """JSON of a profile that has no file: of figures that were published."""
    given = {"flops_per_sample": profile.flops_per_sample, "busy_w": profile.busy_w}
    return {
        "schema": SCHEMA,
        "model": profile.model,
        "gpu": profile.gpu,
        "precision": profile.precision,
        "runtime": profile.runtime,
        "weight_bytes": profile.weight_bytes,
        "latency_s": _by_batch(profile.latency.x, profile.latency.y),
        "workspace_bytes": _by_batch(profile.workspace.x, profile.workspace.y),
        "load": asdict(profile.load),
        **{key: value for key, value in given.items() if value is not None},
        **{key: str(getattr(profile, key)) for key in ("latency_evidence", "memory_evidence", "load_evidence")},
        "source": profile.source,
        "as_of": profile.as_of,
        "assumptions": list(profile.assumptions),
        "doubts": list(profile.doubts),
    }


def _by_batch(batches: Sequence[float], figures: Sequence[float]) -> dict[str, float]:
    return {f"{batch:g}": figure for batch, figure in zip(batches, figures, strict=True)}
