"""Sweep: measures all points of a request, keeps each as it comes, and ends well whatever happens on the way."""

import json
import shlex
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from types import FrameType

from calibrate.assembling.telling import about, amount, doubts, headline, say, title
from calibrate.devices.memory_log import MemoryLog, reader
from calibrate.io.points import Point, PointOutcome, Status, What
from calibrate.io.process import BUSY_SHARE, ONE_THREAD, busy_share
from calibrate.library.lookup import DEVICE_FILE
from calibrate.sweep.agenda import PointGroup, agenda, groups, probe_names
from calibrate.sweep.journal import Journal, JournalError, open_journal
from calibrate.sweep.request import Request
from calibrate.sweep.supervisor import Job, NoDeviceError, StoppedError, Worker, WorkerError
from calibrate.zoo.sources import ZooError

START_S = 8.0
"""To start a worker and build its model, until it has been seen."""
FIRST_GUESS_S = {What.LAYERS: 2.0, What.LOAD: 4.0, What.MEMORY: 2.0}
"""For a point that is not repeated; a repeated one takes `Request.seconds_per_point` and a little."""
COMPILING_S = 40.0
"""To compile a model for a batch size, before its memory is measured; until it has been seen."""
IN_ROWS_S = 1.5
"""Of a batch on a GPU back to back, with a cold cache, and apart for host and device."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Sweep:
    """A request under way."""

    request: Request
    started_s: float = field(default_factory=time.monotonic)
    stop_signal: int = 0
    """Number of the signal that asked it to end."""
    out_of_time: bool = False
    journal: Journal | None = None
    worker: Worker | None = None
    log: MemoryLog | None = None
    unusable: dict[str, str] = field(default_factory=dict)
    """Groups that could not be measured, and why."""
    took_s: defaultdict[What, list[float]] = field(default_factory=lambda: defaultdict(list))
    start_s: list[float] = field(default_factory=list)

    def check(self, needed_s: float = 0.0) -> None:
        """Raise where the sweep is to end now, or would have to before `needed_s` are over."""
        self.out_of_time |= self.budget_left_s <= needed_s
        if self.stopped:
            raise StoppedError

    @property
    def stopped(self) -> bool:
        """Whether a signal or the budget ended it."""
        return bool(self.stop_signal) or self.out_of_time

    def end_worker(self) -> None:
        """End the worker, if there is one."""
        if self.worker:
            self.worker.end()
        self.worker = None

    def close(self) -> None:
        """Leave nothing running and nothing locked."""
        self.end_worker()
        if self.journal:
            self.journal.close()

    @property
    def budget_left_s(self) -> float:
        """Until the sweep must have ended."""
        budget_s = self.request.budget_s
        return float("inf") if budget_s is None else self.started_s + budget_s - time.monotonic()

    def outcomes(self, group: PointGroup) -> list[PointOutcome]:
        """Outcomes of a group so far."""
        kept = self.journal.outcomes.values() if self.journal else ()
        wanted = (group.model, group.settings)
        return [outcome for outcome in kept if (outcome.point.model, outcome.point.settings) == wanted]

    def points(self, group: PointGroup) -> list[Point]:
        """Points of a group not yet measured; none where it cannot be."""
        if group.name in self.unusable:
            return []
        wanted = self.request.probes
        known = probe_names(self.request.device.partition(":")[0])
        probes = [probe for probe in known if not wanted or probe in wanted]
        if self.journal is None:
            return agenda(self.request, group, {}, self.request.seed, probes)
        return agenda(self.request, group, self.journal.settled, self.journal.header.seed, probes)

    def expected_s(self, point: Point) -> float:
        """How long a point will take, learnt from those of its kind."""
        if point.what is What.SOAK:
            return self.request.soak_s + 1
        if seen := self.took_s[point.what]:
            return fmean(seen)
        repeated_s = 1.5 * self.request.seconds_per_point + (0.5 if self.request.device == "cpu" else 0.5 + IN_ROWS_S)
        compiling_s = COMPILING_S if point.settings.compile and point.what is What.MEMORY else 0.0
        return FIRST_GUESS_S.get(point.what, repeated_s) + compiling_s

    def left(self) -> tuple[int, float]:
        """Points still to be measured, and about how long they will take (s)."""
        waiting = [points for group in groups(self.request) if (points := self.points(group))]
        start_s = fmean(self.start_s) if self.start_s else START_S
        measuring_s = sum(self.expected_s(point) for points in waiting for point in points)
        return sum(map(len, waiting)), measuring_s + start_s * len(waiting)


def run(request: Request) -> int:
    """Measure what is asked for; exit code. Raises `JournalError` or `NoDeviceError`, each in one line.

    0: every model has figures, or the budget ended. 2: a model has none. 128 + n: signal n ended it.
    """
    sweep = Sweep(request)
    if request.dry_run:
        return _dry_run(sweep)
    log = MemoryLog(request.memory_log, reader(request.device)) if request.memory_log else nullcontext()
    with _signals(sweep), ExitStack() as cleanup:
        cleanup.callback(sweep.close)
        check_writable(request.out)
        with log as sweep.log:
            _measure_all(sweep)
        return _finish(sweep)


def _dry_run(sweep: Sweep) -> int:
    """Say what would be measured, and what cannot be; exit code."""
    request = sweep.request
    _build_without_weights(sweep)
    looked = "" if request.device == "cpu" else f", nor was it looked whether {request.device} is there"
    often = f", in each of {request.sessions} sessions" if request.sessions > 1 else ""
    for name, why in sweep.unusable.items():
        say(f"{name}: cannot be measured: {why}")
    print(f"{amount(*sweep.left())}{often}. Nothing was measured{looked}.")
    return 2 if sweep.unusable else 0


def _build_without_weights(sweep: Sweep) -> None:
    """Note the zoo's models that cannot be built here, such as those of a package that cannot be imported."""
    if find_spec("torch") is None:
        return
    from calibrate.zoo.zoo import MODELS, build

    for group in groups(sweep.request):
        if group.model not in MODELS:
            continue  # code of the user's own is run by no dry run
        try:
            build(group.model, place="meta")
        except ZooError as error:
            sweep.unusable[group.name] = str(error)


@contextmanager
def _signals(sweep: Sweep) -> Iterator[None]:
    """Signals are only noted: the sweep ends between two steps, never within the writing of a point."""

    def note_signal(number: int, _frame: FrameType | None) -> None:
        sweep.stop_signal = number

    before = {number: signal.signal(number, note_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _open(sweep: Sweep) -> None:
    """Ask the device what it is, which says where its journal lies."""
    request = sweep.request
    sweep.worker = Worker(request.device, sweep.check)
    known = sweep.worker.provenance
    path = request.out / known["gpu"] / "journal.jsonl"
    sweep.journal = open_journal(path, known, request.seed, resume=request.resume)
    _same_request(sweep)
    before = f"; {there} are there from before" if (there := len(sweep.journal.settled)) else ""
    say(f"{known['gpu']}: {amount(*sweep.left())}{before}. Each is kept in {path} as it comes.")
    if request.device == "cpu":
        threads = known["torch_threads"]
        say(f"It computes with {threads} thread{'s' * (threads != 1)}; OMP_NUM_THREADS=N in front makes it N.")
        if threads > 1 and (share := busy_share()) > BUSY_SHARE:
            say(f"The load was {share:.0%} of the cores in the last minute. {ONE_THREAD}.")


def _same_request(sweep: Sweep) -> None:
    """Refuse to go on with other inputs for a model than it was measured with; say where an order is kept."""
    assert sweep.journal
    journal, request = sweep.journal, sweep.request
    for outcome in journal.outcomes.values():
        fed = outcome.details.get("input_shape")
        if fed and request.input_shape and outcome.point.model in request.models and tuple(fed) != request.input_shape:
            was, now = ("x".join(map(str, shape)) for shape in (fed, request.input_shape))
            raise JournalError(
                f"{journal.path}: {outcome.point.model}: --input was {was}, now it is {now}."
                " Such figures are not mixed: name another --out."
            )
    if journal.header.seed != request.seed:
        say(f"The journal was begun with --seed {journal.header.seed}, which goes on.")


def _measure_all(sweep: Sweep) -> None:
    """Every group in turn, until all is measured or the sweep is to end."""
    try:
        _open(sweep)
        for group in groups(sweep.request):
            if sweep.points(group):
                _measure_group(sweep, group)
    except StoppedError:
        return
    except NoDeviceError as error:
        if not sweep.journal:
            raise
        sweep.unusable[sweep.request.device] = str(error)
    finally:
        sweep.end_worker()


def _measure_group(sweep: Sweep, group: PointGroup) -> None:
    """All points of a group, in a process of its own: a new one after each point that did not go well."""
    assert sweep.journal
    built = False
    try:
        while points := sweep.points(group):
            if not built:
                _build(sweep, group)
            built = _measure(sweep, points[0])
    except NoDeviceError:
        raise
    except WorkerError as error:
        sweep.unusable[group.name] = str(error)
    finally:
        sweep.end_worker()


def _build(sweep: Sweep, group: PointGroup) -> None:
    request = sweep.request
    started_s = time.monotonic()
    sweep.worker = sweep.worker or Worker(request.device, sweep.check)
    job = Job(
        model=group.model,
        settings=group.settings,
        input_shape=request.input_shape if ":" in group.model else None,
        seconds_per_point=request.seconds_per_point,
        soak_s=request.soak_s,
        memory_bytes=request.memory_bytes,
    )
    sweep.worker.build(job, request.timeout_s)
    sweep.start_s.append(time.monotonic() - started_s)


def _measure(sweep: Sweep, point: Point) -> bool:
    """Measure one point and keep it; whether the worker is fit for the next."""
    assert sweep.worker
    assert sweep.journal
    sweep.check(needed_s=sweep.expected_s(point))
    if sweep.log:
        model = f"{point.model}{point.settings.suffix}" or What.PROBE
        sweep.log.mark(point.key, model, point.probe or point.what)
    soak_s = sweep.request.soak_s if point.what is What.SOAK else 0.0
    outcome = sweep.worker.measure(point, sweep.request.timeout_s + soak_s)
    sweep.journal.append(outcome)
    sweep.took_s[point.what].append(outcome.took_s)
    _show(sweep, outcome)
    if outcome.status is not Status.OK:
        sweep.end_worker()
    return outcome.status is Status.OK


def _show(sweep: Sweep, outcome: PointOutcome) -> None:
    assert sweep.journal
    points, seconds = sweep.left()
    done = len(sweep.journal.settled)
    what = title(outcome.point)
    came = headline(outcome) if outcome.status is Status.OK else f"{outcome.status}: {outcome.message}"
    say(f"{done}/{done + points}  {what}: {came}  ({about(seconds)} left)", passing=outcome.status is Status.OK)


def _finish(sweep: Sweep) -> int:
    """Write the profiles of what there is, and say what came out and what to do next; exit code."""
    if sweep.journal is None:
        return _nothing_measured(sweep)
    for line in _summary(sweep):
        say(line)
    files: list[Path] = []
    if outcomes := list(sweep.journal.outcomes.values()):
        from calibrate.sweep import assemble  # SciPy takes a second to import, which is not waited for before measuring

        files = assemble.write(outcomes, sweep.journal.header, sweep.request.out)
    without_profile = [] if sweep.stopped else _without_profile(sweep, sweep.journal, files)
    for line in [*doubts(files), *without_profile]:
        say(line)
    for path in files:
        print(f"Wrote {path}", flush=True)
    _say_next(sweep, files)
    if sweep.stop_signal:
        return 128 + sweep.stop_signal
    if sweep.stopped:
        return 0
    wanted = (What.LATENCY, What.TRAINING, What.PROBE)
    seen = (
        any(one.status is Status.OK and one.point.what in wanted for one in sweep.outcomes(group))
        for group in groups(sweep.request)
    )
    return 2 if without_profile or not all(seen) else 0


def _nothing_measured(sweep: Sweep) -> int:
    if sweep.stop_signal:
        say("Interrupted before anything was measured.")
        return 128 + sweep.stop_signal
    say(f"--budget: {sweep.request.budget_s:g} s ended before anything was measured. Allow more.")
    return 2


def _say_next(sweep: Sweep, files: Sequence[Path]) -> None:
    points, seconds = sweep.left()
    if sweep.stopped and points:
        why = "Interrupted" if sweep.stop_signal else "The budget has ended"
        say(f"{why}: {amount(points, seconds)} left. The same command with --resume continues.")
    elif profiles := [path for path in files if path.name != DEVICE_FILE]:
        model = json.loads(profiles[0].read_bytes())["model"]
        say(f"Next: planner profiles show {shlex.quote(model)} --profiles {shlex.quote(str(sweep.request.out))}")


def _without_profile(sweep: Sweep, journal: Journal, files: Sequence[Path]) -> list[str]:
    """Models with figures of which no profile can be made, and why."""
    from calibrate.assembling.measured import Measured
    from calibrate.assembling.profile import lacking
    from calibrate.sweep.assemble import file_name

    written = {path.name for path in files}
    lines = []
    for group in groups(sweep.request):
        outcomes = {outcome.point.key: outcome for outcome in sweep.outcomes(group)}
        measured = Measured(group.model, group.settings, journal.header.provenance, outcomes, {})
        if not group.model or not outcomes or file_name(measured) in written:
            continue
        if reason := lacking(measured):
            lines.append(f"{group.name}: no profile: {reason}")
    return lines


def _summary(sweep: Sweep) -> list[str]:
    """One line a group: how its points ended."""
    lines = []
    for group in groups(sweep.request):
        count = Counter(outcome.status for outcome in sweep.outcomes(group))
        if group.name in sweep.unusable:
            lines.append(f"{group.name}: not measured: {sweep.unusable[group.name]}.")
        elif count:
            measured = f"{count.pop(Status.OK, 0)} points measured"
            others = [f"{points} {status}" for status, points in count.items()]
            lines.append(f"{group.name}: {', '.join([measured, *others])}.")
    if why := sweep.unusable.get(sweep.request.device):
        lines.append(f"{sweep.request.device}: {why}. The same command with --resume continues.")
    return lines


def check_writable(out: Path) -> None:
    """Find out before an hour of measuring rather than after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            return
    except OSError as error:
        remedy = "Name a directory that may be written with --out."
        raise JournalError(f"{out}: cannot be written ({error.strerror}). {remedy}") from None
