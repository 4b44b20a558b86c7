"""Serving a scenario for real on this machine's device, after a calibration of the models without a profile.

Planning never comes here: this is the way to torch.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from math import hypot, log1p, sqrt
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from calibrate.devices.provenance import differing
from calibrate.layers.naming import measured_as
from calibrate.library.lookup import DEVICE_FILE, Library, find_kinds, find_profiles
from calibrate.serving.served import Actions, Served, apart, doublings
from planner.catalog.catalog import Catalog
from planner.io.load import Loaded
from planner.model.parts.models import ModelSpec
from planner.model.scenario import Scenario
from planner.questions.validation.fitting import Case, Pace, fit, loading_paces, precision_of
from planner.questions.validation.pipelines import CORE, CorePace, refuse_unservable
from planner.questions.validation.recording import Recording, kept
from planner.questions.validation.rehearsal import RehearsalError, rehearsal_s, rehearse
from planner.questions.validation.speed import speed_of
from planner.questions.validation.takes import cut, lengths, served_in_sequence
from planner.units.writing import counted
from simulator.errors import DeploymentError
from simulator.machine_code import cores
from simulator.near import known_ones
from simulator.world.hardware import GPU
from simulator.world.profile import Profile
from simulator.world.workload import Demand, draw

if TYPE_CHECKING:
    from calibrate.serving.serve import Source
    from calibrate.sweep.request import Request

DURATION_S = 30.0
"""Length of a run where none is given."""
LONGEST_S = 86_400.0
"""Longest run."""
SIGMAS = 1.645
"""Half the width, in standard deviations, that contains 90 % of a normal distribution."""
UNKNOWN_ERROR = 0.05
"""One standard deviation of run or load times of a profile that states no error of its own."""
ABSOLUTE = 1.2533
"""Standard deviation over mean absolute deviation of a normal distribution: the root of pi / 2."""
SECONDS_PER_POINT = 3.0
"""A comparison is worth no more than its profiles: longer than `planner calibrate` takes by itself."""
PER_MODEL = ("precision", "channels_last", "cudnn_benchmark", "compile", "resolution", "input_shape")
"""Keys of a provenance that a model's settings make, not the machine."""
THREADS = "OMP_NUM_THREADS"
"""Where torch, and the processes that are started, find how many threads they compute with."""
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationBench:
    """The device to run on, and the folders of its profiles."""

    device: str
    """`cpu`, `cuda:0`."""
    catalog: Catalog
    directories: tuple[Path, ...]
    """Folders of profiles; new ones go into the first."""


def record(loaded: Loaded, bench: ValidationBench, duration_s: float, created_at: str, note: Note) -> Recording:
    """Measure missing profiles, serve the scenario for `duration_s` seconds, and record it."""
    from calibrate.sweep.request import Request

    refuse_unservable(loaded.scenario)
    check_runnable(loaded)
    with core_kept(loaded.scenario, bench.device):
        machine = provenance(bench.device)
        kind = str(machine["gpu"])
        bench = replace(bench, directories=agreeing(loaded, bench, machine, note))
        if wanted := missing(loaded, bench, kind):
            note(f"Measuring {', '.join(wanted)} on {kind}; profiles go to {bench.directories[0]}.")
            calibrate(loaded, bench, wanted, kind)
        if core_unknown(loaded, bench, kind):
            note(f"Measuring how long a core of {kind} takes for frames; it goes to {bench.directories[0]}.")
            request = Request(
                models=(),
                device=bench.device,
                modes=("device",),
                probes=("host",),
                seconds_per_point=SECONDS_PER_POINT,
                out=bench.directories[0],
                resume=True,
            )
            if code := sweep(request):
                raise DeploymentError(
                    f"work of the host: could not be measured (exit {code}). The lines above say why."
                )
        gpu, library = known(bench, kind)
        for line in strangers(fit(loaded, gpu, library, Pace(core=core_pace(library, gpu))), library, machine):
            note(line)
        return kept(serve(loaded, ServedDevice(bench.device, machine, gpu, library), duration_s, created_at, note))


@contextmanager
def core_kept(scenario: Scenario, device: str) -> Iterator[None]:
    """A processor computes with fewer threads than it has cores while a core of it works for a pipeline, unless
    `OMP_NUM_THREADS` says how many: what has a core in the deployment must find one.

    With as many threads as cores a frame that is decoded beside a batch waits for its end, and the batch for the frame.
    """
    threads = cores() - CORE.servers
    if device != "cpu" or not scenario.pipelines or threads < 1 or os.environ.get(THREADS):
        yield
        return
    os.environ[THREADS] = str(threads)
    torch: Any = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    try:
        if torch:
            torch.set_num_threads(threads)
        yield
    finally:
        del os.environ[THREADS]
        if torch:
            torch.set_num_threads(before)


def agreeing(loaded: Loaded, bench: ValidationBench, machine: Mapping[str, Any], note: Note) -> tuple[Path, ...]:
    """The folders of profiles. Where something has to be measured and the first was begun under other settings, one
    beside it stands in: figures of both are not mixed."""
    from calibrate.sweep.journal import read_journal

    first, *others = bench.directories
    kind = str(machine["gpu"])
    tried = bench
    while missing(loaded, tried, kind) or core_unknown(loaded, tried, kind):
        journal = first / kind / "journal.jsonl"
        difference = differing(read_journal(journal)[0].provenance, machine) if journal.exists() else None
        if difference is None:
            break
        key, before, now = difference
        plain = re.sub(r"[^\w.+]+", "-", str(now))
        beside = first.with_name(f"{first.name}-{key}-{plain}")
        note(f"{first}: was measured with {key} {before}, here it is {now}. Profiles of that lie in {beside}.")
        first = beside
        tried = replace(bench, directories=(first, *others))
    return tried.directories


def core_unknown(loaded: Loaded, bench: ValidationBench, kind: str) -> bool:
    """Whether a pipeline needs a core that nobody probed."""
    return bool(loaded.scenario.pipelines) and not known(bench, kind)[1].probes(kind).get("host")


def provenance(device: str) -> Mapping[str, Any]:
    """Device and software as a process of its own finds them, which leaves nothing behind."""
    from calibrate.sweep.supervisor import Worker

    worker = Worker(device, lambda: None)
    worker.end()
    return worker.provenance


def known(bench: ValidationBench, kind: str) -> tuple[GPU, Library]:
    """The device as a kind of GPU, and all profiles."""
    directories = [path for path in bench.directories if path.is_dir()]
    gpus = {**find_kinds(directories), **bench.catalog.gpus}
    if kind not in gpus:
        raise DeploymentError(
            f"{kind}: is neither in the catalog nor measured. Measure it: planner calibrate --mode device."
        )
    with_profiles = [path for path in directories if any(file.name != DEVICE_FILE for file in path.rglob("*.json"))]
    return gpus[kind], find_profiles(with_profiles, gpus)


def missing(loaded: Loaded, bench: ValidationBench, kind: str) -> list[str]:
    """Models without a profile on this device, or with one that ends before the scenario's largest batch."""
    specs = loaded.scenario.with_stages.models
    try:
        _, library = known(bench, kind)
    except DeploymentError:
        return list(dict.fromkeys(map(runs_as, specs)))
    names: dict[str, None] = {}
    for spec in specs:
        profile = library.get(spec.known_as, kind, precision_of(spec))
        if profile is None or profile.largest_batch < loaded.scenario.validate.batch_size:
            names[runs_as(spec)] = None
    return list(names)


def runs_as(spec: ModelSpec) -> str:
    """A name of the zoo or of a package, or a model of one's own."""
    return spec.made_by or measured_as(spec.known_as)


def check_runnable(loaded: Loaded) -> None:
    """DeploymentError where a profile or a name says not which model is to be run."""
    from calibrate.zoo import zoo

    for spec in loaded.scenario.with_stages.models:
        if spec.factory or zoo.expand(runs_as(spec)) is not None:
            continue
        key = "model" if spec.model else "profile" if spec.profile else "name"
        known = known_ones(spec.known_as, zoo.MODELS, "docs/models.md")
        remedy = "Name what is to be run as its `model` or `factory`."
        raise DeploymentError(
            f"models[{spec.name}].{key}: `{getattr(spec, key)}` is no model that can be run. {remedy}{known}"
        )


def calibrate(loaded: Loaded, bench: ValidationBench, wanted: Sequence[str], kind: str) -> None:
    """Measure models up to the scenario's largest batch. DeploymentError where that does not work."""
    from calibrate.sweep.journal import JournalError

    specs = [spec for spec in loaded.scenario.with_stages.models if runs_as(spec) in wanted]
    for request in requests_of(specs, bench, loaded.scenario.validate.batch_size):
        try:
            code = sweep(request)
        except JournalError as error:
            raise DeploymentError(str(error)) from error
        if code:
            still = missing(loaded, bench, kind)
            failed = ", ".join(model for model in request.models if model in still) or "a model"
            raise DeploymentError(f"{failed}: could not be measured (exit {code}). The lines above say why.")


def sweep(request: "Request") -> int:
    """Exit code of a calibration. Standard output is for the answer alone, which may be JSON."""
    from calibrate.sweep.sweep import run

    with redirect_stdout(sys.stderr):
        return run(request)


def requests_of(specs: Sequence[ModelSpec], bench: ValidationBench, batch_size: int) -> Iterator["Request"]:
    """One request to measure for each shape of input."""
    from calibrate.io.points import Settings
    from calibrate.sweep.request import Request

    for shape in dict.fromkeys(spec.input for spec in specs):
        alike = [spec for spec in specs if spec.input == shape]
        precisions = sorted({precision_of(spec) or "fp32" for spec in alike})
        yield Request(
            models=tuple(dict.fromkeys(map(runs_as, alike))),
            device=bench.device,
            input_shape=shape or None,
            batches=doublings(batch_size),
            modes=("inference",),
            settings=tuple(Settings(precision=precision) for precision in precisions),
            seconds_per_point=SECONDS_PER_POINT,
            out=bench.directories[0],
            resume=True,
        )


def strangers(case: Case, library: Library, machine: Mapping[str, Any]) -> list[str]:
    """Profiles that were not measured here and under the present settings, a line each."""
    lines = []
    for service in case.deployment.services:
        profile = service.replicas[0].profile
        measured = library.measured(profile)
        sessions = measured.get("sessions") or [measured]
        found = [_stranger(session.get("provenance", {}), machine) for session in sessions]
        if all(found) and (difference := found[-1]):
            key, before, now = difference
            alike = f"Put OMP_NUM_THREADS={before} in front to serve as it was measured, or name" if before else "Name"
            remedy = f"{alike if key == 'torch_threads' else 'Name'} another"
            lines.append(
                f"{profile.model}: its profile was measured with {key} {before}, here it is {now}. "
                f"{remedy} --profiles DIR to measure anew."
            )
    return lines


def _stranger(measured: Mapping[str, Any], machine: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first key in which a session's machine differs from this one."""
    return differing(measured, {**machine, **{key: measured.get(key) for key in PER_MODEL}})


# Serving


@dataclass(frozen=True, slots=True)
class ServedDevice:
    """The device that serves, its provenance, and its profiles."""

    name: str
    machine: Mapping[str, Any]
    gpu: GPU
    library: Library


def serve(loaded: Loaded, device: ServedDevice, duration_s: float, created_at: str, note: Note) -> Recording:
    """Run it for real in takes, with a rehearsal before each and, unless it was stopped, after the last.

    Rates and SLOs are fitted to the device as the first rehearsal finds it: 60 % load of a device that happens to be
    slow today is less than of the one that was profiled.
    """
    scenario, core = loaded.scenario, core_pace(device.library, device.gpu)
    case = fit(loaded, device.gpu, device.library, Pace(core=core))
    profiles = {service.model: service.replicas[0].profile for service in case.deployment.services}
    models, sessions_cv = sources(loaded, profiles), between_sessions(device.library, device.gpu)
    core = replace(core, found=objects_found(case, models))
    case = fit(loaded, device.gpu, device.library, Pace(core=core))
    lasts_s, before = lengths(duration_s), Processor.now()
    rehearsed_s = rehearsal_s(lasts_s[0], of_pipeline=case.scene is not None)
    note(f"Rehearsing for {rehearsed_s:g} s.")
    rehearsal = rehearse(case, models, device.name, rehearsed_s)
    speed = speed_of([apart(rehearsal, loading_paces(case.deployment))])
    pace = Pace(run=speed.run, load=speed.load, core=replace(core, slower=speed.work))
    case = fit(loaded, device.gpu, device.library, pace)
    demand = draw(case.workload, duration_s, scenario.seed)
    server = TakeServer(case, models, device, rehearsed_s, note)
    takes, again, stopped = server.in_takes(demand, lasts_s, scenario.seed)
    served = served_in_sequence(takes)
    return Recording(
        scenario=scenario.name or loaded.path.stem,
        scenario_text=loaded.text,
        created_at=created_at,
        machine=device.machine,
        result=replace(served.result, deployment=case.deployment),
        warmup_s=case.warmup_s,
        actions=served.actions,
        takes_s=tuple(take.result.duration_s for take in takes) if len(takes) > 1 else (),
        held=served.held,
        others_cores=Processor.now().others_cores(before),
        stopped=stopped,
        run_error={model: hypot(run_error(profile), sessions_cv) for model, profile in profiles.items()},
        load_error={
            model: hypot(load_error(device.library.measured(profile)), sessions_cv)
            for model, profile in profiles.items()
        },
        rehearsals=(rehearsal, *again),
    )


def core_pace(library: Library, gpu: GPU) -> CorePace:
    """A core as it was probed."""
    return CorePace(probed_s=library.probes(gpu.name).get("host", {}))


def objects_found(case: Case, models: Mapping[str, "Source"]) -> tuple[int, ...]:
    """Objects that the detector of a pipeline finds in each picture of its scene; none without a pipeline."""
    if case.scene is None:
        return ()
    from calibrate.serving.pipelines import counted

    return counted(case.deployment.pipelines[0], models, case.scene)


@dataclass(frozen=True, slots=True)
class TakeServer:
    """Serves takes, and rehearses between them."""

    case: Case
    models: Mapping[str, "Source"]
    device: ServedDevice
    rehearsed_s: float
    """Length of a rehearsal."""
    note: Note

    def in_takes(
        self, demand: Mapping[str, Demand], lasts_s: Sequence[float], seed: int
    ) -> tuple[list[Served], list[tuple[Actions, ...]], str]:
        """Takes of so many seconds, the rehearsal after each, and why it ended early; empty where it did not."""
        from calibrate.serving.entry import serve as run

        takes: list[Served] = []
        rehearsals: list[tuple[Actions, ...]] = []
        for number, asked in enumerate(cut(demand, lasts_s)):
            which = f", take {number + 1} of {len(lasts_s)}" if len(lasts_s) > 1 else ""
            models, gpu = counted(len(self.models), "model"), self.device.machine["gpu"]
            self.note(f"Serving {models} on {gpu} for {lasts_s[number]:g} s{which}.")
            case = self.case
            takes.append(
                run(case.deployment, asked, self.models, self.device.name, lasts_s[number], seed=seed, scene=case.scene)
            )
            if stopped := takes[-1].stopped or self._rehearse_again(rehearsals):
                return takes, rehearsals, stopped
        return takes, rehearsals, ""

    def _rehearse_again(self, rehearsals: list[tuple[Actions, ...]]) -> str:
        """Why there is no rehearsal after a take; empty where there is. The take is kept whatever happens here."""
        try:
            self.note(f"Rehearsing again for {self.rehearsed_s:g} s.")
            rehearsals.append(rehearse(self.case, self.models, self.device.name, self.rehearsed_s))
        except KeyboardInterrupt:
            return "rehearsal after it: interrupted"
        except RehearsalError as error:
            return f"rehearsal after it: {error.reason}"
        except Exception as error:
            return f"rehearsal after it: {str(error) or type(error).__name__}"
        return ""


@dataclass(frozen=True, slots=True)
class Processor:
    """Seconds for which the machine's cores were busy so far."""

    at_s: float
    busy_s: float | None
    """Seconds of all cores and programs; None where the system does not say."""
    own_s: float
    """Seconds of this program, and of the processes that it started and that ended."""

    @classmethod
    def now(cls) -> "Processor":
        """The seconds until now."""
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
    from calibrate.io.points import Settings
    from calibrate.serving.serve import Source

    return {
        spec.name: Source(
            name=runs_as(spec),
            settings=Settings(precision=profiles[spec.name].precision),
            input_shape=spec.input or None,
        )
        for spec in loaded.scenario.with_stages.models
    }


def between_sessions(library: Library, gpu: GPU) -> float:
    """Coefficient of variation of the device's speed between sessions, all profiles together: 3 and 4 % are 3.5 %.

    It is the device whose speed differs: the few sessions of one model would not tell it.
    """
    known = [profile.session_cv**2 for profile in library.profiles.values() if profile.gpu == gpu.name]
    return sqrt(fmean(known)) if known else 0.0


def run_error(profile: Profile) -> float:
    """One standard deviation of run times that a profile states, a share. A band of 7 %: ln 1.07 / 1.645 = 4 %."""
    quality = profile.latency_fit
    return log1p(quality.band) / SIGMAS if quality and quality.band else UNKNOWN_ERROR


def load_error(measured: Mapping[str, Any]) -> float:
    """One standard deviation of load times, from the mean error of the fit through copies of several sizes."""
    fits = measured.get("fits", {})
    found = fits.get("load.pinned") or fits.get("load.pageable")
    return ABSOLUTE * float(found["error_mean"]) if found else UNKNOWN_ERROR
