"""Fuzz: files of every kind that is read, damaged by chance, given to the commands that read them.

`python -m benchmarks.fuzz --count 10000`, or `python -m benchmarks fuzz`. A case is wrong where a command ends in an
internal error, takes more than 20 s or 1 GB, refuses in anything but lines that are short and hold no control
character, or leaves any other file changed. The same seed makes the same case.
"""

import gzip
import io
import json
import os
import re
import resource
import shlex
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from calibrate.joint.spec import read_spec
from calibrate.sweep import assemble
from calibrate.sweep.journal import read_journal
from planner import cli
from simulator.errors import InputError

LIMIT_S, LIMIT_BYTES = 20, 1_000_000_000
LINE_MAX = 2500
"""Of an error, with a path in it."""
ALL = 100_000
LONG = 200_000
"""Bytes of a file that is not made a hundred times as long."""
LENET = Path(__file__).resolve().parent.parent / "tests/data/lenet-cpu.jsonl"
RECORDING = Path(__file__).resolve().parent.parent / "scenarios/validation/recordings/xeon-2-cores/one-30.json.gz"
SERVING = """\
name: small
models:
  - {name: a, profile: nvidia_resnet50, precision: fp32, slo: {latency: 150 ms}}
streams:
  - {model: a, poisson: 20 rps}
buy: {providers: [aws], instances: [g4dn.xlarge]}
horizon: 5 s
replications: 2
confidence: 50 %
"""
MERGED = """\
name: merged
models:
  - {name: a, profile: nvidia_resnet50, layers: resnet50, precision: fp32, slo: {latency: 150 ms}}
  - {name: b, profile: nvidia_resnet50, layers: resnet50, precision: fp32, slo: {latency: 150 ms}}
streams:
  - {model: a, poisson: 20 rps}
  - {model: b, poisson: 20 rps}
buy: {own: [{name: box, gpu: T4, price: $0.3/h, count: 2}]}
merging: layers
sharing: {curve: sharing.json}
horizon: 5 s
"""
TRAINING = """\
model: {zoo: resnet18}
data: {samples: 50000}
train: {epochs: 1, global_batch: 64, precision: fp32}
buy: {gpus: [T4]}
counts: [1, 2]
"""
STUDY = """\
base: small.yaml
"on": {gpu: T4, count: 1}
axes:
  load: [0.5, 1]
  drop: [late, never]
outputs: [p99_s, utilization, fleet]
"""
TRITON = """\
name: "a"
platform: "tensorrt_plan"
max_batch_size: 16
input [{ name: "x" data_type: TYPE_FP32 dims: [3, 224, 224] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [1000] }]
instance_group [{ count: 1 kind: KIND_GPU gpus: [0] }]
dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 1000 }
"""
SENT = """\
# from 0 s, lasts 10 s
arrival_s
0.5
1.25
2.0
7.75
"""
DATED = """\
id,timestamp,tokens
1,2023-11-16 18:17:03.97,12
2,2023-11-16 18:17:04.10,"7"
3,2023-11-16 18:18:00.00,9
"""
BURST = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
"""
MOONCAKE = '{"timestamp": 0, "input_length": 6758, "output_length": 500}\n' * 3 + (
    '{"timestamp": 3000, "input_length": 7, "output_length": 5, "hash_ids": [1, 2]}\n'
)
FUNCTIONS = "HashOwner,HashApp,HashFunction,Trigger," + ",".join(map(str, range(1, 31))) + "\n"
FUNCTIONS += "o,a,f,http," + ",".join("3" * 30) + "\no,a,g,queue," + ",".join("1" * 30) + "\n"
SHARING = {
    "schema": "planner.sharing/v1",
    "models": {"a": {"weight_bytes": 100, "accuracy": 0.9}, "b": {"weight_bytes": 100, "accuracy": 0.9}},
    "groups": [{"signature": "conv", "copy": 0, "layer_bytes": 10, "models": ["a", "b"]}],
    "points": [{"groups": [0], "saved_bytes": 10, "accuracy": {"a": 0.99, "b": 1.0}, "wall_s": 1}],
}
HOSTILE: tuple[Any, ...] = (
    0, -1, 1, 2, 0.5, -0.5, 1e-160, 1e30, 1e99, 1e308, 10**18, 2**63, 2**64, 10**30, True, None, "", "x", "-inf", "nan",
    "1e400", "\x1b[2J\x1b]0;owned\x07", "a\nb: c", "../../x", "/etc/passwd", "\u202eab", "\ud7ff", "x" * 5000, [], {},
    [[]], {"": 0}, [0] * 50, "0" * 400, "$(touch x)", "<script>", "late", "measured",
)  # fmt: skip
TABLE = "# measured\nmodel,shared_fraction,accuracy\na,0.2,0.99\na,0.6,0.95\n*,0.5,0.97\n"
TASKS: dict[str, Any] = {"tasks": [{"name": name, "factory": f"joint_tasks:{name}"} for name in ("a", "b")]}
STATE = {
    "device": "cpu",
    "alone": {"a": 0.9, "b": 0.8},
    "attempts": [
        {
            "groups": [{"signature": "Linear weight=4x4", "copy": 0, "layer_bytes": 64, "models": ["a", "b"]}],
            "accuracy": {"a": 0.99, "b": 1.0}, "accepted": True, "epochs": 2, "trained": ["a", "b"], "wall_s": 1.5,
        }
    ],
    "weights": "weights-2-1.pt",
    "flight": {
        "stage": "sharing 2", "history": [{"a": 0.9, "b": 0.9}], "wall_s": 2.5, "diverged": False,
        "file": "flight-2-1-0-0.pt",
    },
    "schema": "planner.joint/v1",
}  # fmt: skip
ASSEMBLE = "profiles of a journal"
"""Not a command: `planner calibrate --resume` does it beside measuring."""
RESUME = "the state of a joint training"
"""Not a command: `planner merge train --resume` does it before training."""
TOKEN = re.compile(r"[A-Za-z_]+|-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Kind:
    """A kind of file, and who reads it."""

    name: str
    file: str
    """Its place in the folder of a case."""
    readers: tuple[str, ...]
    share: float
    """Of all cases."""
    tree: bool = True
    """JSON, else lines."""
    fresh: tuple[str, ...] = ()
    """What a command writes, removed before the next."""


KINDS = (
    Kind("plan", "plan.json", ("explain plan.json", "report plan.json -o o.html", "diff plan.json plan-2.json",
         "reprice plan.json --prices prices.yaml -o r.json", "export plan.json --to perfetto -o e",
         "export plan.json --to skypilot -o e", "export plan.json --to triton -o e",
         "export plan.json --to kubernetes -o e", "export plan.json --to openmetrics -o e",
         "export plan.json --to ray-serve -o e", "simulate small.yaml --plan plan.json"), 22,
         fresh=("o.html", "r.json", "e")),
    Kind("study", "study.json", ("report study.json -o o.html", "diff study.json study-2.json"), 12, fresh=("o.html",)),
    Kind("simulation", "sim.json", ("diff sim.json sim-2.json",), 6),
    Kind("training", "train.json", ("diff train.json train-2.json",), 6),
    Kind("recording", "run.json", ("validate --replay run.json",), 12),
    Kind("journal", "st/points.jsonl", ("study study.yaml -o st --resume",), 0.2, tree=False,
         fresh=("st/study.json", "st/results.csv", "st/results.parquet")),
    Kind("mark", "out/.planner-export.json", ("export plan.json --to openmetrics -o out --force",), 5),
    Kind("seconds", "sent.csv", ("trace describe sent.csv", "trace import sent.csv -o t.csv"), 4, tree=False,
         fresh=("t.csv",)),
    Kind("dates", "dated.csv", ("trace describe dated.csv",), 4, tree=False),
    Kind("burst", "burst.csv", ("trace describe burst.csv",), 3, tree=False),
    Kind("mooncake", "mooncake.jsonl", ("trace describe mooncake.jsonl",), 3, tree=False),
    Kind("functions", "functions.csv",
         ("trace describe functions.csv", "trace import functions.csv --function 2 -o t.csv"), 4, tree=False,
         fresh=("t.csv",)),
    Kind("prices", "known/prices.yaml", ("prices show --catalog known",), 2, tree=False),
    Kind("gpus", "known/gpus.yaml", ("prices show --catalog known",), 2, tree=False),
    Kind("profile", "mine/T4/a.json", ("profiles show nvidia_resnet50 --profiles mine",), 5),
    Kind("measured", "mine/cpu-intel-xeon-2.50ghz/lenet.json",
         ("profiles show lenet --profiles mine", "profiles plot lenet --profiles mine -o p.png",
          "profiles plot lenet --what memory --profiles mine -o p.png",
          "profiles plot lenet --what layers --profiles mine -o p.png"), 2, fresh=("p.png",)),
    Kind("device", "mine/cpu-intel-xeon-2.50ghz/device.json",
         ("profiles show lenet --profiles mine", "profile lenet --gpu cpu-intel-xeon-2.50ghz --profiles mine"), 3),
    Kind("calibration", "journal.jsonl", (ASSEMBLE,), 3, tree=False, fresh=("made",)),
    Kind("triton", "repo/a/config.pbtxt", ("from-triton repo -o s.yaml --rate 'a=3 rps' --slo 'a=100 ms'",), 4,
         tree=False, fresh=("s.yaml",)),
    Kind("sharing", "sharing.json", ("merge breakeven merged.yaml --loads 1 --models 2",), 2),
    Kind("table", "table.csv", ("merge breakeven tabled.yaml --loads 1 --models 2",), 2, tree=False),
    Kind("state", "joint/state.json", (RESUME,), 4, fresh=("joint/.lock",)),
)  # fmt: skip


@dataclass
class World:
    """A folder with a sound file of each kind, in which a process works."""

    folder: Path
    sound: Mapping[str, bytes] = field(default_factory=dict)


@cache
def world() -> World:
    """Of this process."""
    import_module("calibrate.joint.state")  # torch, which takes a while
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (4 * LIMIT_BYTES, 4 * LIMIT_BYTES))
    folder = Path(mkdtemp(prefix="fuzz-"))
    os.chdir(folder)
    data = files("planner.catalog") / "data"
    prices = (data / "prices.yaml").read_text()
    profile = next(
        Path(str(path))
        for path in Path(str(files("calibrate") / "profiles")).rglob("*.json")
        if "nvidia_resnet50" in path.read_text()
    )
    for name, text in {
        "small.yaml": SERVING, "training.yaml": TRAINING, "study.yaml": STUDY, "repo/a/config.pbtxt": TRITON,
        "sent.csv": SENT, "dated.csv": DATED, "burst.csv": BURST, "mooncake.jsonl": MOONCAKE,
        "functions.csv": FUNCTIONS,
        "prices.yaml": prices, "known/prices.yaml": short(prices),
        "known/gpus.yaml": (data / "gpus.yaml").read_text(), "mine/T4/a.json": profile.read_text(),
        "sharing.json": json.dumps(SHARING),
        "journal.jsonl": LENET.read_text(),
        "run.json": gzip.decompress(RECORDING.read_bytes()).decode(),
        "merged.yaml": MERGED, "tabled.yaml": MERGED.replace("curve: sharing.json", "table: table.csv"),
        "table.csv": TABLE,
        "joint/state.json": json.dumps({"spec": read_spec(TASKS).to_json(), **STATE}),
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assembled(Path("journal.jsonl"), Path("mine"))
    for words, out in (
        ("plan small.yaml -o plan.json", ""),
        ("simulate small.yaml --gpu T4 --count 1 --format json", "sim.json"),
        ("train training.yaml --format json", "train.json"),
        ("study study.yaml -o st --quiet --workers 1", ""),
        ("export plan.json --to openmetrics -o out", ""),
    ):
        code, said, error = asked(words)
        assert code in (0, 3), (words, error)
        if out:
            Path(out).write_text(said, encoding="utf-8")
    shutil.copy("st/study.json", "study.json")
    for name in ("plan", "study", "sim", "train"):
        shutil.copy(f"{name}.json", f"{name}-2.json")
    return World(folder, {kind.file: (folder / kind.file).read_bytes() for kind in KINDS})


def short(prices: str) -> str:
    """The first instances of a file of prices, so that most of its damage is in what is looked at."""
    return prices.partition("\npurchases:")[0][:9000].rpartition("\n  - ")[0] + "\n"


def too_long(*_: object) -> None:
    """A case that takes more than its time."""
    raise TimeoutError(f"not done after {LIMIT_S} s")


@dataclass(frozen=True)
class Case:
    """One damaged file, and what its readers made of it."""

    seed: int
    kind: str
    refused: bool
    wrong: tuple[str, ...]


def judge(seed: int) -> Case:
    """Damage one file and give it to its readers."""
    here, chance = world(), Random(seed)
    kind = chance.choices(KINDS, [kind.share for kind in KINDS])[0]
    damaged = damage(here.sound[kind.file], kind.tree, chance)
    path = Path(kind.file)
    path.write_bytes(damaged)
    words = chance.choice(kind.readers)
    before, wrong = others(kind), []
    try:
        code, out, error = asked(words)
        wrong += [f"{words}: {why}" for why in faults(code, out, error)]
        for name in kind.fresh:
            shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink(missing_ok=True)
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(here.sound[kind.file])
    if changed := [name for name, found in others(kind).items() if before.get(name) != found]:
        wrong.append(f"other files were changed: {changed}")
    return Case(seed, kind.name, code == 2, tuple(wrong))


def others(kind: Kind) -> dict[str, tuple[int, int]]:
    """When all files but those that the case is about were changed, and their sizes."""
    skipped = (kind.file, *kind.fresh, "out/plan.prom", "out/.planner-export.json", "st/")
    return {
        name: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(Path().rglob("*"))
        if path.is_file() and not (name := str(path)).startswith(skipped)
    }


def damage(raw: bytes, tree: bool, chance: Random) -> bytes:
    """One to three changes of a file's values, or of its bytes."""
    if tree and chance.random() < 0.85:
        root = [json.loads(raw)]
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            spoil(root, chance)
        return json.dumps(root[0], ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice((1, 1, 2, 4))):
        raw = scratch(raw, chance)
    return raw


def spoil(root: list[Any], chance: Random) -> None:
    """Change one value of a tree. The walk takes every branch alike, so that long columns are not all there is."""
    holder, key = root, 0
    while isinstance(inner := holder[key], dict | list) and inner and chance.random() < 0.9:
        holder, key = inner, chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    match chance.randrange(8):
        case 0 if holder is not root:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, deepcopy(holder[key]))
        case 2 if isinstance(holder, dict):
            holder[str(chance.choice(HOSTILE))[:100]] = holder.pop(key)
        case 3 if isinstance(holder, dict):
            holder[key] = deepcopy(holder[chance.choice(list(holder))])
        case 4 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] *= chance.choice((-1, 0, 1e-9, 10, 1e6, 1e15))
        case 5 if isinstance(holder[key], str):
            holder[key] += chance.choice(("\n", "\x07", "x", " ", "\u202e"))
        case _:
            holder[key] = deepcopy(chance.choice(HOSTILE))


def scratch(raw: bytes, chance: Random) -> bytes:
    """Change some bytes, a token or a line."""
    at = chance.randrange(len(raw) or 1)
    match chance.randrange(8):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + bytes([chance.randrange(256)]) + raw[at + 1 :]
        case 2:
            return raw[:at] + chance.choice((b"\x00", b"\xff", b'"', b"\r", b"{", b"[" * 3000, b"9" * 500)) + raw[at:]
        case 3:
            return gzip.compress(raw)[: chance.choice((None, 20))]
    text = raw.decode("utf-8", "replace")
    lines, tokens = text.split("\n"), list(TOKEN.finditer(text))
    match chance.randrange(4):
        case 0:
            del lines[chance.randrange(len(lines))]
        case 1:
            lines.insert(chance.randrange(len(lines)), chance.choice(lines))
        case 2:
            lines *= chance.choice((2, 100)) if len(raw) < LONG else 1
        case _ if tokens:
            found, other = chance.choice(tokens), str(chance.choice(HOSTILE))
            return (text[: found.start()] + other + text[found.end() :]).encode("utf-8", "surrogatepass")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def resumed(folder: Path) -> None:
    """A joint training that goes on."""
    work = import_module("calibrate.joint.state").JointWork
    with work(folder, read_spec(TASKS), "cpu", resume=True):
        pass


def assembled(journal: Path, out: Path) -> None:
    """Profiles of what a calibration measured."""
    header, outcomes = read_journal(journal)
    assemble.write(outcomes, header, out)


@cache
def command() -> Any:
    """The command line, made once."""
    return cli.commands()


def asked(words: str) -> tuple[int, str, str]:
    """Exit code and output of a command, in this process."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    signal.alarm(LIMIT_S)
    try:
        with redirect_stdout(out), redirect_stderr(error):
            try:
                if words == ASSEMBLE:
                    assembled(Path("journal.jsonl"), Path("made"))
                elif words == RESUME:
                    resumed(Path("joint"))
                else:
                    command().main(shlex.split(words), standalone_mode=True)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except Exception as wrong:
                try:
                    cli.fail(wrong)
                except SystemExit as end:
                    code = int(end.code or 0)
                if not isinstance(wrong, InputError):
                    print(trace(wrong), file=error)
    finally:
        signal.alarm(0)
    return code, out.getvalue(), error.getvalue()


def trace(wrong: BaseException) -> str:
    """Where an internal error arose."""
    at = wrong.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else ""


def faults(code: int, out: str, error: str) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if code not in (0, 2, 3, 4, 5) or "internal error" in error:
        yield f"exit {code}: {' '.join(error.split())[:400]}"
    if code == 2 and not error.strip():
        yield "refused without a word"
    for line in error.splitlines():
        if len(line) > LINE_MAX or not line.isprintable():
            yield f"an error of {len(line)} characters, or with control characters: {line[:80]!r}"
            break
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", out):
        yield "control characters in the answer"
    if (peak := 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) > LIMIT_BYTES:
        yield f"took {peak / 1e9:.2f} GB"


def table(cases: list[Case]) -> str:
    """Counts by kind of file."""
    tried = Counter(case.kind for case in cases)
    refused = Counter(case.kind for case in cases if case.refused)
    wrong = Counter(case.kind for case in cases if case.wrong)
    rows = [f"{name:<12} {tried[name]:>7} {refused[name]:>8} {wrong[name]:>6}" for name in sorted(tried)]
    total = f"{'all':<12} {len(cases):>7} {refused.total():>8} {wrong.total():>6}"
    return "\n".join([f"{'kind':<12} {'cases':>7} {'refused':>8} {'wrong':>6}", *rows, total])


def fuzz(given: Namespace, tell: Callable[[str], None] = print) -> list[Case]:
    """All cases; those that are wrong are told at once."""
    cases = []
    with ProcessPoolExecutor(given.jobs) as pool:
        seeds = range(given.first_seed, given.first_seed + given.count)
        for case in pool.map(judge, seeds, chunksize=20):
            cases.append(case)
            if case.wrong:
                tell(f"{case.seed:7d}  {case.kind:<10}  {'; '.join(case.wrong)}")
    return cases


def options(words: list[str]) -> Namespace:
    """Of the command line."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, usual in (("count", ALL), ("first-seed", 0), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """The cases that went wrong, then the table."""
    cases = fuzz(options(sys.argv[1:] if words is None else words))
    print(table(cases))
    if any(case.wrong for case in cases):
        sys.exit(1)


if __name__ == "__main__":
    main()
