"""Kills: commands that keep what they have done, ended by SIGKILL at random moments - is anything lost, or done twice?

`python -m benchmarks.kills --count 200`, or `python -m benchmarks kills`; `--what study calibrate` for some of them.
Each command is begun, killed and begun anew with `--resume` until it has met its share of kills; then it runs to its
end. Wrong is a broken file, a result that is there twice or no longer there, an end that is not that of a run nobody
killed, or a process that outlives the one that began it.
"""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import mkdtemp

LIMIT_S = 600.0
ORPHANS_S = 15.0
"""After which no process of a killed command may be left."""
SMALL = """\
models:
  - {name: a, profile: nvidia_resnet50, precision: fp32, slo: {latency: 150 ms}}
streams:
  - {model: a, poisson: 200 rps}
buy: {own: [{name: box, gpu: T4, price: $0.3/h, count: 4}]}
horizon: 200 s
replications: 5
"""
STUDY = """\
base: small.yaml
"on": {gpu: T4, count: 1}
axes:
  load: {from: 0.5, to: 1.5, steps: 12}
outputs: [p99_s, utilization]
"""
TINY = """\
name: tiny
models:
  - {name: lenet, slo: {latency: 500 ms}}
streams:
  - {model: lenet, poisson: 20 rps}
buy: {own: [{name: here, gpu: T4, price: $0.1/h, count: 1}]}
"""
MERGE = """\
tasks:
  - {name: parity, factory: "calibrate.tasks.digits:parity"}
  - {name: larger-than-four, factory: "calibrate.tasks.digits:larger_than_four"}
epochs_alone: 2
epochs: 2
attempts: 3
learning_rate: 0.005
seed: 1
"""
WALL = re.compile(r'"(wall_s|date)": [^,\n]+')
"""What differs between two equal runs."""


@dataclass
class Work:
    """A command that keeps what it has done."""

    words: Sequence[str]
    """After `planner`."""
    results: Callable[[Path], list[str]]
    """Names of what it has done so far, read strictly from the folder; ValueError where a file is broken."""
    end: Callable[[Path], object]
    """What it leaves in the end; equal of two runs."""
    share: int
    """Of all kills."""
    resumes: bool = True
    files: dict[str, str] = field(default_factory=dict)


def lines(path: Path, key: str) -> list[str]:
    """One value of each whole line of a journal; a last line may be cut short."""
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [str(json.loads(line).get(key) or json.loads(line).get("point")) for line in whole]


def points(folder: Path) -> list[str]:
    """Of a calibration."""
    return [name for path in folder.glob("out/*/journal.jsonl") for name in lines(path, "point") if name != "None"]


def trained(folder: Path) -> list[str]:
    """Models and sharings that a joint training has done."""
    path = folder / "out" / "state.json"
    state = json.loads(path.read_text()) if path.exists() else {"alone": {}, "attempts": []}
    return [*state["alone"], *(f"{i}: {one['groups']}" for i, one in enumerate(state["attempts"]))]


def recorded(folder: Path) -> list[str]:
    """The recording, whole, or none."""
    path = folder / "run.json.gz"
    return [str(len(json.loads(gzip.decompress(path.read_bytes()))["requests"]))] if path.exists() else []


def study_bytes(folder: Path) -> object:
    """All that a study leaves."""
    return {name: (folder / "out" / name).read_bytes() for name in ("study.json", "results.csv", "points.jsonl")}


def curve(folder: Path) -> object:
    """What a joint training found, but for how long it took."""
    return WALL.sub("", (folder / "out" / "curve.json").read_text())


def works(ray: bool) -> dict[str, Work]:
    """All that can be killed."""
    study = ("study", "study.yaml", "-o", "out", "--quiet")
    small = {"small.yaml": SMALL, "study.yaml": STUDY}
    found = {
        "study": Work(study, lambda f: lines(f / "out" / "points.jsonl", "key"), study_bytes, 80, files=small),
        "calibrate": Work(
            ("calibrate", "--device", "cpu", "--models", "lenet", "--mode", "inference", "--batches", "1,2,4,8",
             "--seconds", "0.3", "--out", "out"),
            points, lambda f: sorted(set(points(f))), 60,
        ),
        "merge": Work(
            ("merge", "train", "merge.yaml", "--device", "cpu", "--out", "out", "--quiet"), trained, curve, 25,
            files={"merge.yaml": MERGE},
        ),
        "record": Work(
            ("validate", "tiny.yaml", "--device", "cpu", "--duration", "1s", "--record", "run.json.gz"),
            recorded, lambda f: len(recorded(f)), 15, resumes=False, files={"tiny.yaml": TINY},
        ),
    }  # fmt: skip
    if ray:
        found["ray"] = Work((*study, "--engine", "ray", "--address", "127.0.0.1:6399"), found["study"].results,
                            study_bytes, 20, files=small)  # fmt: skip
    return found


def begun(work: Work, folder: Path, *, resume: bool) -> subprocess.Popen[bytes]:
    """The command, in a group of processes of its own."""
    words = [sys.executable, "-m", "planner", *work.words, *(["--resume"] if resume and work.resumes else [])]
    log = (folder / "said").open("ab")
    return subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def to_the_end(work: Work, folder: Path) -> float:
    """Run it to its end; seconds it took."""
    began_s = time.perf_counter()
    if code := begun(work, folder, resume=True).wait(LIMIT_S):
        said = (folder / "said").read_text(errors="replace").strip().splitlines()
        raise RuntimeError(f"{' '.join(work.words)} ended with {code}: {said[-1:]}")
    return time.perf_counter() - began_s


def fresh(work: Work) -> Path:
    """A folder with what the command reads."""
    folder = Path(mkdtemp(prefix="kills-"))
    for name, text in work.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def left(group: int) -> bool:
    """Whether some process of a group is alive."""
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def kill(work: Work, folder: Path, moment_s: float) -> Iterator[str]:
    """Begin it, kill it; what is wrong then."""
    before = work.results(folder)
    running = begun(work, folder, resume=True)
    with suppress(subprocess.TimeoutExpired):
        running.wait(moment_s)
    os.kill(running.pid, signal.SIGKILL) if running.poll() is None else None
    running.wait()
    until_s = time.perf_counter() + ORPHANS_S
    while left(running.pid) and time.perf_counter() < until_s:
        time.sleep(0.05)
    if left(running.pid):
        yield "processes outlive it"
        os.killpg(running.pid, signal.SIGKILL)
    try:
        after = work.results(folder)
    except ValueError as error:
        yield f"a file is broken: {error}"
        return
    if lost := set(before) - set(after):
        yield f"lost: {sorted(lost)[:3]}"
    if len(set(after)) < len(after):
        yield "something is there twice"


def killed(name: str, work: Work, count: int, seed: int) -> list[str]:
    """All that went wrong with one command under so many kills; each time it is done, it is begun anew."""
    chance, wrong, done = Random(seed), [], 0
    whole = fresh(work)
    took_s = to_the_end(work, whole)
    expected = work.end(whole)
    while done < count:
        folder = fresh(work)
        lives = min(count - done, chance.randint(1, 6))
        for _ in range(lives):
            wrong += [f"{name}, kill {done}: {what}" for what in kill(work, folder, chance.uniform(0, took_s))]
            done += 1
        to_the_end(work, folder)
        if work.end(folder) != expected:
            wrong.append(f"{name}, after {done} kills: it ended otherwise ({folder})")
        else:
            shutil.rmtree(folder)
    shutil.rmtree(whole)
    return wrong


def options(words: list[str]) -> Namespace:
    """Of the command line."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200, metavar="N", help="kills in all")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--what", nargs="+", help="which commands; all where none is named")
    parser.add_argument("--ray", action="store_true", help="also on the Ray cluster at 127.0.0.1:6399")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """One line for each command, and what went wrong."""
    given = options(sys.argv[1:] if words is None else words)
    chosen = {name: work for name, work in works(given.ray).items() if not given.what or name in given.what}
    total = sum(work.share for work in chosen.values())
    failed = False
    for name, work in chosen.items():
        count = max(1, round(given.count * work.share / total))
        wrong = killed(name, work, count, given.seed)
        failed |= bool(wrong)
        print("\n".join([f"{name}: {count} kills, {len(wrong)} wrong", *wrong]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
