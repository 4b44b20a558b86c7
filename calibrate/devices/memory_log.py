"""Memory log: what a device's memory did through a run, as CSV while it happens, then as a picture. Needs no torch."""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple, Self, TextIO

from calibrate.devices.nvml import find
from calibrate.io.files import FileError, demand_ours, read_text
from calibrate.io.plot import save
from simulator.errors import InputError

EVERY_S = 0.1
HEADROOM = 1.15
WHICH = """
import sys, torch
from calibrate.devices.nvml import names_of
print(*names_of(torch.cuda.get_device_properties(sys.argv[1])), sep="\\n")
"""


class MemoryLogError(InputError):
    """A log that cannot be written; the text is one line that names the file and the remedy."""


class Row(NamedTuple):
    """One look at the memory."""

    t_s: float
    """Since the log began."""
    memory_bytes: int
    """Held on the whole GPU, or on the CPU by this process and all it started."""
    running: str = ""
    """Key of the point that was marked last."""
    model: str = ""
    """Its model; `probe` where it is one of the device."""
    phase: str = ""
    """What is measured of it: `latency`."""


HEADER = Row._fields


class MemoryLog:
    """Writes `path` every `every_s` while in its `with` block, then draws it beside, as `.png`.

    `held_bytes` tells the memory held now (None: not now); `reader` gives one for a device. Once the file cannot be
    written any more (a full disk), logging ends with one line on stderr and the run goes on.
    """

    def __init__(self, path: Path, held_bytes: Callable[[], int | None], every_s: float = EVERY_S) -> None:
        if path.suffix == ".png":
            raise MemoryLogError(f"--memory-log: {path}: the log is CSV, its picture gets the same name. Write a .csv")
        try:
            demand_ours(path.with_suffix(".png"), "picture")
        except FileError as error:
            raise MemoryLogError(f"--memory-log: {path.with_suffix('.png')}: {error}. Name another file") from None
        self.path = path
        self.held_bytes = held_bytes
        self.every_s = every_s
        self.running = ("", "", "")
        self._stop = Event()
        self._writing = Lock()
        self._thread = Thread(target=self._log, name="memory log", daemon=True)

    def __enter__(self) -> Self:
        try:
            # Never over a log of before: on --resume the first part would be lost.
            self._file: TextIO = self.path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            raise MemoryLogError(f"--memory-log: {self.path}: is there already. Name another file") from None
        except OSError as error:
            raise MemoryLogError(
                f"--memory-log: {self.path}: cannot be written ({error.strerror}). Name a file in a directory that can"
            ) from None
        self._start_s = time.monotonic()
        self._file.write(",".join(HEADER) + "\n")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._file.close()
            note = draw(read_log(self.path), self.path.with_suffix(".png"))
        except (OSError, InputError) as failure:
            note = f"memory log: {self.path.with_suffix('.png')}: not drawn ({failure})"
        print(note, file=sys.stderr)

    def mark(self, running: str, model: str, phase: str) -> None:
        """From now on this runs; a row is written at once."""
        self.running = (running, model, phase)
        self._row()

    def _log(self) -> None:
        while not self._stop.is_set():
            self._row()
            self._stop.wait(self.every_s)

    def _row(self) -> None:
        held = self.held_bytes()
        with self._writing:
            if held is None or self._file.closed or self._stop.is_set():
                return
            try:
                csv.writer(self._file, lineterminator="\n").writerow(
                    Row(round(time.monotonic() - self._start_s, 3), held, *self.running)
                )
                self._file.flush()
            except OSError as error:
                print(f"memory log: {self.path}: ends here ({error.strerror})", file=sys.stderr)
                self._stop.set()


LEAVE = "Leave --memory-log out"


def reader(device: str) -> Callable[[], int | None]:
    """A function that reads the memory held on `device`: `cpu`, or a GPU such as `cuda:0` through NVML."""
    if device == "cpu":
        try:
            tree_rss_bytes(os.getpid())
        except (OSError, subprocess.CalledProcessError) as error:
            why = f"neither /proc nor ps tells it: {error}"
            raise MemoryLogError(f"--memory-log: {device}: its memory cannot be read ({why}). {LEAVE}") from None
        return lambda: tree_rss_bytes(os.getpid())
    # CUDA and NVML number GPUs differently. Read in a process that ends at once, so that this one holds no context.
    done = subprocess.run([sys.executable, "-c", WHICH, device], capture_output=True, text=True, check=False)
    nvml = find(*done.stdout.split("\n")[:2])
    if done.returncode or not nvml.there:
        why = f"{nvml.why_not}. {nvml.remedy}"
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["torch does not start"])[-1]
        raise MemoryLogError(f"--memory-log: {device}: its memory cannot be read ({why}). {LEAVE}")
    return nvml.memory_used_bytes


def read_log(path: Path) -> list[Row]:
    """The rows of a log; a last line cut off by a kill is left out."""
    try:
        lines = [line for line in read_text(path).splitlines(keepends=True) if line.endswith("\n")]
        read = csv.reader(lines)
        if tuple(next(read, ())) != HEADER:
            raise MemoryLogError(f"{path}: is not a memory log. Its first line must be {','.join(HEADER)}")
        return [Row(float(t_s), int(memory_bytes), *running) for t_s, memory_bytes, *running in read]
    except MemoryLogError:
        raise
    except (TypeError, ValueError, csv.Error) as error:
        raise MemoryLogError(f"{path}: is no whole memory log ({error}). Name one that --memory-log wrote") from None


def draw(rows: Sequence[Row], path: Path) -> str:
    """Draws memory over time to `path`, shaded by model; returns one line that says where it is, or why it is not."""
    if not rows:
        return f"memory log: {path}: not drawn, nothing was logged"
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f"memory log: {path}: not drawn, matplotlib is not installed. pip install matplotlib"
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([row.t_s for row in rows], [row.memory_bytes / 1e9 for row in rows], linewidth=1)
    for index, (name, start_s, end_s) in enumerate(spans(rows, lambda row: (row.model,))):
        axes.axvspan(start_s, end_s, alpha=0.12 if index % 2 else 0.04, linewidth=0)
        axes.annotate(
            name, ((start_s + end_s) / 2, 0.98), xycoords=("data", "axes fraction"), rotation=90, ha="center", va="top",
            fontsize=7,
        )  # fmt: skip
    for name, start_s, _ in spans(rows, lambda row: (row.model, row.phase)):
        axes.axvline(start_s, color="grey", linewidth=0.3)
        axes.annotate(
            name, (start_s, 0.01), xycoords=("data", "axes fraction"), rotation=90, va="bottom", fontsize=5
        )  # fmt: skip
    # Room above, or a line that is flat would lie on the frame.
    top = HEADROOM * max(row.memory_bytes for row in rows) / 1e9
    axes.set(xlabel="time (s)", ylabel="memory held (GB)", ylim=(0, top or 1))
    save(figure, path, "--memory-log")
    return f"memory log: {path}"


def spans(rows: Sequence[Row], of: Callable[[Row], tuple[str, ...]]) -> list[tuple[str, float, float]]:
    """From when to when (s) what rows are `of` ran: each model, or each phase of one."""
    found = [("/".join(filter(None, names)), next(group).t_s) for names, group in groupby(rows, of)]
    ends = [*(start_s for _, start_s in found[1:]), rows[-1].t_s]
    return [(name, start_s, end_s) for (name, start_s), end_s in zip(found, ends, strict=True) if name]


# Memory of processes


def tree_rss_bytes(pid: int) -> int:
    """Resident memory of process `pid` and of all it started; pages that two of them share count twice."""
    if not Path("/proc/self/task", str(os.getpid()), "children").exists():
        return _listed_rss_bytes(pid)
    total, todo = 0, [pid]
    while todo:
        process = Path("/proc", str(todo.pop()))
        try:
            # proc(5): the second figure of `statm` counts resident pages; `children` stands with each thread.
            total += int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            children = [(thread / "children").read_text() for thread in (process / "task").iterdir()]
        except OSError:
            continue  # it, or a thread of it, ended meanwhile
        todo += map(int, " ".join(children).split())
    return total


def _listed_rss_bytes(pid: int) -> int:
    """The same where there is no /proc: from a list of all processes, which takes longer."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True)
    rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    tree = {pid}
    while more := {child for child, parent, _ in rows if parent in tree} - tree:
        tree |= more
    return sum(rss_kib * 1024 for child, _, rss_kib in rows if child in tree)
