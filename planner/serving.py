"""Serving: what is not measured yet is measured, then a scenario is run for real on this machine's device.

Planning never comes here: this is the way to torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p
from pathlib import Path
from typing import Any

from calibrate.library import DEVICE_FILE, Library, find_kinds, find_profiles
from calibrate.provenance import differing
from planner.catalog import Catalog
from planner.fitting import Case, fit
from planner.load import Loaded
from planner.recording import Recording, kept
from planner.scenario import ModelSpec
from simulator.hardware import GPU
from simulator.profile import Profile
from simulator.run import DeploymentError
from simulator.workload import draw

SIGMAS = 1.645
"""Half the width, in standard deviations, that contains 90 % of a normal distribution."""
UNKNOWN_ERROR = 0.05
"""One standard deviation of run or load times of a profile that states no error of its own."""
ABSOLUTE = 1.2533
"""Standard deviation over mean absolute deviation of a normal distribution: the root of pi / 2."""
SECONDS_PER_POINT = 3.0
"""A comparison is worth no more than its profiles: longer than `planner calibrate` takes by itself."""
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The device to run on, and where its profiles are."""

    device: str
    """`cpu`, `cuda:0`."""
    catalog: Catalog
    directories: tuple[Path, ...]
    """Of profiles; what is measured goes into the first."""


def record(loaded: Loaded, bench: Bench, duration_s: float, created_at: str, note: Note) -> Recording:
    """Measure what is missing, serve the scenario for `duration_s` seconds, keep what happened."""
    machine = provenance(bench.device)
    kind = str(machine["gpu"])
    if wanted := missing(loaded, bench, kind):
        note(f"Measuring {', '.join(wanted)} on {kind}; profiles go to {bench.directories[0]}.")
        calibrate(loaded, bench, wanted, kind)
    gpu, library = known(bench, kind)
    case = fit(loaded, gpu, library)
    for line in strangers(case, library, machine):
        note(line)
    note(f"Serving {len(case.deployment.services)} models on {kind} for {duration_s:g} s.")
    return kept(serve(loaded, case, bench.device, duration_s, created_at, machine, library))


def provenance(device: str) -> Mapping[str, Any]:
    """What the device and the software on it are, asked in a process of its own: none of it stays behind."""
    from calibrate.supervisor import Worker

    worker = Worker(device, lambda: None)
    worker.end()
    return worker.provenance


def known(bench: Bench, kind: str) -> tuple[GPU, Library]:
    """The device as a kind of GPU, and all profiles."""
    there = [path for path in bench.directories if path.is_dir()]
    gpus = {**find_kinds(there), **bench.catalog.gpus}
    if kind not in gpus:
        raise DeploymentError(
            f"{kind}: is neither in the catalog nor measured. Measure it: planner calibrate --mode device."
        )
    with_profiles = [path for path in there if any(file.name != DEVICE_FILE for file in path.rglob("*.json"))]
    return gpus[kind], find_profiles(with_profiles, gpus)


def missing(loaded: Loaded, bench: Bench, kind: str) -> list[str]:
    """Models without a profile on this device, or with one that ends before the batch that is asked for."""
    specs = loaded.scenario.models
    try:
        _, library = known(bench, kind)
    except DeploymentError:
        return list(dict.fromkeys(name_of(spec) for spec in specs))
    found = {name_of(spec): library.get(name_of(spec), kind, spec.precision) for spec in specs}
    most = loaded.scenario.validate.batch_size
    return [name for name, profile in found.items() if profile is None or profile.largest_batch < most]


def name_of(spec: ModelSpec) -> str:
    """In the zoo, and of its profile."""
    return spec.profile or spec.name


def calibrate(loaded: Loaded, bench: Bench, wanted: Sequence[str], kind: str) -> None:
    """Measure models up to the batch that is asked for. DeploymentError where that does not work."""
    from calibrate import zoo
    from calibrate.points import Settings
    from calibrate.request import Request
    from calibrate.sweep import run

    if strange := [name for name in wanted if zoo.expand(name) is None]:
        raise DeploymentError(f"{strange[0]}: is no model that can be run. Known are {', '.join(zoo.MODELS)}.")
    out = bench.directories[0]
    precisions = {spec.precision or "fp32" for spec in loaded.scenario.models if name_of(spec) in wanted}
    request = Request(
        models=tuple(wanted),
        device=bench.device,
        batches=batches(loaded.scenario.validate.batch_size),
        modes=("inference",) if (out / kind / "device.json").exists() else ("inference", "device"),
        settings=tuple(Settings(precision=precision) for precision in sorted(precisions)),
        seconds_per_point=SECONDS_PER_POINT,
        out=out,
        resume=True,
    )
    if code := run(request):
        raise DeploymentError(f"{', '.join(wanted)}: could not be measured (exit {code}). The lines above say why.")


def batches(most: int) -> tuple[int, ...]:
    """Powers of two up to the largest batch, and that one: 1, 2, 4, 6 for 6."""
    return tuple(sorted({most, *(1 << n for n in range(most.bit_length()) if 1 << n <= most)}))


def strangers(case: Case, library: Library, machine: Mapping[str, Any]) -> list[str]:
    """Profiles that were not measured here and as they are used now, a line each."""
    lines = []
    for profile in (service.replicas[0].profile for service in case.deployment.services):
        was = library.measured(profile).get("provenance", {})
        found = differing(was, {**machine, **{key: was.get(key) for key in PER_MODEL}})
        if found:
            key, before, now = found
            lines.append(
                f"{profile.model}: its profile was measured with {key} {before}, here it is {now}. "
                "Name another --profiles DIR to measure anew."
            )
    return lines


PER_MODEL = ("precision", "channels_last", "cudnn_benchmark", "compile", "resolution")
"""Keys of a provenance that a model's settings make, not the machine."""


def serve(
    loaded: Loaded,
    case: Case,
    device: str,
    duration_s: float,
    created_at: str,
    machine: Mapping[str, Any],
    library: Library,
) -> Recording:
    """Run it for real."""
    from calibrate.points import Settings
    from calibrate.serve import Source
    from calibrate.serve import serve as run

    scenario = loaded.scenario
    demand = draw(case.workload, duration_s, scenario.seed)
    profiles = {service.model: service.replicas[0].profile for service in case.deployment.services}
    sources = {
        spec.name: Source(name=name_of(spec), settings=Settings(precision=profiles[spec.name].precision))
        for spec in scenario.models
    }
    served = run(case.deployment, demand, sources, device, duration_s, seed=scenario.seed)
    return Recording(
        scenario=scenario.name or loaded.path.stem,
        scenario_text=loaded.path.read_text(encoding="utf-8"),
        created_at=created_at,
        machine=machine,
        result=replace(served.result, deployment=case.deployment),
        warmup_s=case.warmup_s,
        actions=served.actions,
        launch_s=served.launch_s,
        held=served.held,
        stopped=served.stopped or "",
        run_error={model: run_error(profile) for model, profile in profiles.items()},
        load_error={model: load_error(library.measured(profile)) for model, profile in profiles.items()},
    )


def run_error(profile: Profile) -> float:
    """One standard deviation of run times that a profile states, a share. Of a band of 7 %: ln 1.07 / 1.645 = 4 %."""
    quality = profile.latency_fit
    return log1p(quality.band) / SIGMAS if quality and quality.band else UNKNOWN_ERROR


def load_error(measured: Mapping[str, Any]) -> float:
    """The same of load times, from the mean error of the fit through copies of several sizes."""
    fits = measured.get("fits", {})
    found = fits.get("load.pinned") or fits.get("load.pageable")
    return ABSOLUTE * float(found["error_mean"]) if found else UNKNOWN_ERROR
