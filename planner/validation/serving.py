"""Serving: what is not measured yet is measured, then a scenario is run for real on this machine's device.

Planning never comes here: this is the way to torch.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from calibrate.library import DEVICE_FILE, Library, find_kinds, find_profiles
from calibrate.provenance import differing
from calibrate.served import Actions, doublings
from planner.catalog import Catalog
from planner.layout import counted
from planner.load import Loaded
from planner.scenario import ModelSpec
from planner.validation.fitting import Case, Pace, fit
from planner.validation.recording import Recording, kept
from planner.validation.rehearsal import rehearsal_s, rehearse
from planner.validation.speed import speed_of
from simulator.hardware import GPU
from simulator.profile import Profile
from simulator.run import DeploymentError
from simulator.workload import draw

if TYPE_CHECKING:
    from calibrate.serve import Source

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
        calibrate(loaded, bench, wanted)
    gpu, library = known(bench, kind)
    for line in strangers(fit(loaded, gpu, library), library, machine):
        note(line)
    bench_now = Now(bench.device, machine, gpu, library, created_at)
    return kept(serve(loaded, bench_now, duration_s, note))


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
        return list(dict.fromkeys(runs_as(spec) for spec in specs))
    most = loaded.scenario.validate.batch_size
    found = [(runs_as(spec), library.get(spec.known_as, kind, spec.precision)) for spec in specs]
    return list(dict.fromkeys(name for name, profile in found if profile is None or profile.largest_batch < most))


def runs_as(spec: ModelSpec) -> str:
    """A name of the zoo, or a model of one's own."""
    return spec.factory or spec.known_as


def calibrate(loaded: Loaded, bench: Bench, wanted: Sequence[str]) -> None:
    """Measure models up to the batch that is asked for. DeploymentError where that does not work."""
    from calibrate import zoo
    from calibrate.journal import JournalError
    from calibrate.points import Settings
    from calibrate.request import Request
    from calibrate.sweep import run

    specs = [spec for spec in loaded.scenario.models if runs_as(spec) in wanted]
    if strange := [spec.known_as for spec in specs if not spec.factory and zoo.expand(spec.known_as) is None]:
        raise DeploymentError(f"{strange[0]}: is no model that can be run. Known are {', '.join(zoo.MODELS)}.")
    for shape in dict.fromkeys(spec.input for spec in specs):
        alike = [spec for spec in specs if spec.input == shape]
        names = tuple(dict.fromkeys(map(runs_as, alike)))
        request = Request(
            models=names,
            device=bench.device,
            input_shape=shape or None,
            batches=doublings(loaded.scenario.validate.batch_size),
            modes=("inference",),
            settings=tuple(Settings(precision=p) for p in sorted({spec.precision or "fp32" for spec in alike})),
            seconds_per_point=SECONDS_PER_POINT,
            out=bench.directories[0],
            resume=True,
        )
        try:
            code = run(request)
        except JournalError as error:
            raise DeploymentError(str(error)) from error
        if code:
            raise DeploymentError(f"{', '.join(names)}: could not be measured (exit {code}). The lines above say why.")


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


@dataclass(frozen=True, slots=True)
class Now:
    """What a run meets: the device, what it is, and what is known of it."""

    device: str
    machine: Mapping[str, Any]
    gpu: GPU
    library: Library
    created_at: str


def serve(loaded: Loaded, now: Now, duration_s: float, note: Note) -> Recording:
    """Run it for real, with a rehearsal before and, unless it was stopped, after.

    Rates and promises are fitted to the device as the first rehearsal finds it: 60 % load of a device that happens to
    be slow today is less than of the one that was profiled.
    """
    from calibrate.serve import serve as run

    scenario, case = loaded.scenario, fit(loaded, now.gpu, now.library)
    profiles = {service.model: service.replicas[0].profile for service in case.deployment.services}
    models = sources(loaded, profiles)
    lasts_s, before = rehearsal_s(duration_s), Processor.now()
    note(f"Rehearsing for {lasts_s:g} s.")
    rehearsal = rehearse(case, models, now.device, lasts_s)
    found = speed_of([rehearsal])
    case = fit(loaded, now.gpu, now.library, Pace(run=found.run, load=found.load))
    demand = draw(case.workload, duration_s, scenario.seed)
    note(f"Serving {counted(len(models), 'model')} on {now.machine['gpu']} for {duration_s:g} s.")
    served = run(case.deployment, demand, models, now.device, duration_s, seed=scenario.seed)
    again, stopped = (
        ([], served.stopped) if served.stopped else rehearsed_again(case, models, now.device, lasts_s, note)
    )
    others = Processor.now().others_cores(before)
    return Recording(
        scenario=scenario.name or loaded.path.stem,
        scenario_text=loaded.text,
        created_at=now.created_at,
        machine=now.machine,
        result=replace(served.result, deployment=case.deployment),
        warmup_s=case.warmup_s,
        actions=served.actions,
        launch_s=served.launch_s,
        held=served.held,
        others_cores=others,
        stopped=stopped,
        run_error={model: run_error(profile) for model, profile in profiles.items()},
        load_error={model: load_error(now.library.measured(profile)) for model, profile in profiles.items()},
        rehearsals=(rehearsal, *again),
    )


def rehearsed_again(
    case: Case, models: Mapping[str, "Source"], device: str, lasts_s: float, note: Note
) -> tuple[list[tuple[Actions, ...]], str]:
    """The rehearsal after the run, and why there is none: the run before it is kept whatever happens here."""
    try:
        note(f"Rehearsing again for {lasts_s:g} s.")
        return [rehearse(case, models, device, lasts_s)], ""
    except KeyboardInterrupt:
        return [], "second rehearsal: interrupted"
    except Exception as error:
        return [], f"second rehearsal: {str(error).removeprefix('rehearsal: ') or type(error).__name__}"


@dataclass(frozen=True, slots=True)
class Processor:
    """What the machine's cores have done so far, in seconds."""

    at_s: float
    busy_s: float | None
    """Of all cores and programs; None where the system does not say."""
    own_s: float
    """Of this program and the processes it started and saw end."""

    @classmethod
    def now(cls) -> "Processor":
        """Until now."""
        own = os.times()
        own_s = own.user + own.system + own.children_user + own.children_system
        try:
            user, nice, system, _idle, _waiting, *rest = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        except (OSError, ValueError):
            return cls(perf_counter(), None, own_s)
        ticks = sum(map(int, (user, nice, system, *rest)))
        return cls(perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), own_s)

    def others_cores(self, before: "Processor") -> float | None:
        """Cores that other programs kept busy since `before`, on average."""
        if self.busy_s is None or before.busy_s is None:
            return None
        others_s = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return round(max(0.0, others_s) / (self.at_s - before.at_s), 3)


def sources(loaded: Loaded, profiles: Mapping[str, Profile]) -> dict[str, "Source"]:
    """The real model behind each name of the scenario, at the precision of its profile."""
    from calibrate.points import Settings
    from calibrate.serve import Source

    return {
        spec.name: Source(
            name=runs_as(spec),
            settings=Settings(precision=profiles[spec.name].precision),
            input_shape=spec.input or None,
        )
        for spec in loaded.scenario.models
    }


def run_error(profile: Profile) -> float:
    """One standard deviation of run times that a profile states, a share. Of a band of 7 %: ln 1.07 / 1.645 = 4 %."""
    quality = profile.latency_fit
    return log1p(quality.band) / SIGMAS if quality and quality.band else UNKNOWN_ERROR


def load_error(measured: Mapping[str, Any]) -> float:
    """The same of load times, from the mean error of the fit through copies of several sizes."""
    fits = measured.get("fits", {})
    found = fits.get("load.pinned") or fits.get("load.pageable")
    return ABSOLUTE * float(found["error_mean"]) if found else UNKNOWN_ERROR
