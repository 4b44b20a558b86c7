"""Mutants: damaged scenarios through every command with `--format json` - is standard output one document, or nothing?

`python -m benchmarks.mutants --count 1000`. A scenario, a training or a study is drawn, changed in one to three places,
and asked of every command that reads one. A command fails that prints anything but one JSON document, shows a
traceback, or ends with a code that is not its own; one that refuses (exit 2) prints nothing and says why.
"""

import json
import os
import re
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.outside import GIVEN_UP, each
from planner import catalog, cli

SERVING = """
models:
  - {name: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
  - {name: look, profile: vgg16, slo: {latency: 200 ms, attainment: 90 %}}
streams:
  - {model: resnet50, count: 4, rate: 10 fps}
  - {model: look, poisson: 20 rps}
buy:
  providers: [aws]
  gpus: [T4, A10G, V100]
  own: [{name: box, gpu: V100, memory: 4 GB, price: $0.3/h, count: 2}]
memory: auto
horizon: 5 s
replications: 2
confidence: 50 %
calendar:
  days: 1
  hourly: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0.5, 0.5]
  representatives: 4
  autoscaling: {target_utilization: 60 %, boot: 2 min}
"""
TRAINING = """
model: {zoo: resnet18}
data: {samples: 50000, loader: {workers: 2, rate: 2000 /s}}
train: {epochs: 10, global_batch: 64, precision: fp32}
buy: {gpus: [T4, A10G]}
counts: [1, 2]
"""
STUDY = """
base: base.yaml
"on": {gpu: T4, count: 2}
axes:
  load: [0.5, 1]
  models[resnet50].slo.latency: [50 ms, 100 ms]
outputs: [gpu_count, utilization]
"""
BASE = "base.yaml"
COMMANDS = {
    SERVING: (
        "plan {0} -o plan.json",
        "simulate {0} --gpu T4 --count 2",
        "simulate {0} --plan plan.json",
        "horizon {0}",
        "merge breakeven {0} --loads 1 --models 2",
        "explain plan.json",
        "reprice plan.json --prices prices.yaml",
        "diff plan.json plan.json",
    ),
    TRAINING: ("train {0}",),
    STUDY: ("study {0} -o out",),
}
"""What is asked of each kind of file, in order."""
WITHOUT_JSON = {"explain"}
CODES = {0, 2, 3, 4, 5}
ODD = (0, -1, 1e30, float("nan"), 10**18, "", "many", "12 parsecs", "\u00fc \x1b[31m", "T4 ", None, True, [], {})
OTHER_NAMES = ("resnet5O", "ResNet50", "yolov3", "bert_base", "H100", "t4", "A2000", "fp16", "int8", "lru", "nobody")
NUMBER = re.compile(r"\d+(\.\d+)?")
OTHER_NUMBER = 0.9
"""Share of damaged numbers that become another number, which much of what is damaged survives."""
HEAVY = (
    "search.one_way", "search.simulation", "questions.studies.run", "show.text.plan",
    "commands.horizon", "commands.groups.merge", "commands.train",
)  # fmt: skip
"""Modules that a command imports as it runs: imported once, before the copies are made."""
LIMIT_S = 240
"""After which a command is given up."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file, and what every command made of it."""

    seed: int
    changes: str
    codes: tuple[int, ...]
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        codes = " ".join(map(str, self.codes))
        return f"{self.seed:6d}  {codes:<18}  {'; '.join(self.wrong) or 'well'}  ({self.changes})"


def judge(seed: int) -> Mutant:
    """Draw one file and ask every command."""
    for name in HEAVY:
        import_module(f"planner.{name}")
    chance = Random(seed)
    kind = chance.choices([SERVING, TRAINING, STUDY], [8, 1, 1])[0]
    tree = yaml.safe_load(kind)
    changes = [change(tree, chance) for _ in range(chance.randint(1, 3))]
    wrong: list[str] = []
    codes = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / BASE).write_text(SERVING, encoding="utf-8")
        (folder / "mutant.yaml").write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
        (folder / "prices.yaml").write_text((Path(catalog.__file__).parent / "data" / "prices.yaml").read_text())
        for command in COMMANDS[kind]:
            words = command.format("mutant.yaml").split()
            if "plan.json" in words[1:] and words[0] != "plan" and not (folder / "plan.json").exists():
                continue  # there is no plan to ask about
            code, out, err = asked(words, folder)
            codes.append(code)
            wrong += [f"{words[0]}: {why}" for why in faults(words, code, out, err)]
    return Mutant(seed, "; ".join(changes), tuple(codes), tuple(wrong))


def change(tree: Any, chance: Random) -> str:
    """Damage one place of a file, and say how."""
    holder, key = chance.choice(list(places(tree)))
    old = holder[key]
    number = NUMBER.match(str(old)) if isinstance(old, int | float | str) else None
    if number and chance.random() < OTHER_NUMBER:
        other = f"{float(number[0]) * chance.choice((0.01, 0.5, 1.5, 3, 100)):.6g}"
        holder[key] = other + old[number.end() :] if isinstance(old, str) else yaml.safe_load(other)
        return f"{key}: {holder[key]!r}"
    match chance.randrange(6):
        case 0:
            del holder[key]
            return f"{key} left out"
        case 1:
            holder[key] = deepcopy(chance.choice(ODD))
        case 2 if isinstance(old, str):
            at = chance.randrange(len(old) or 1)
            holder[key] = old[:at] + old[at + 1 :]
        case 3 if isinstance(holder, list):
            holder.append(deepcopy(old))
        case 4 if isinstance(old, dict):
            old["nonsense"] = 1
        case _:
            holder[key] = chance.choice(OTHER_NAMES)
    return f"{key}: {str(holder[key])[:40]!r}"


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a file, as what holds it and where."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from places(tree[key])


def asked(words: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit code and output of a command, run in a copy of this process, which has loaded it already."""
    out, err = folder / "stdout", folder / "stderr"
    child = os.fork()
    if not child:
        answer(words, folder, out, err)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGXCPU))
    signal.alarm(LIMIT_S)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(0)
    code = GIVEN_UP if code == -signal.SIGXCPU else code
    return code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


def answer(words: list[str], folder: Path, out: Path, err: Path) -> None:
    """Run a command with both outputs in files, and end this process."""
    code = 1
    try:
        os.chdir(folder)
        for path, number, name in ((out, 1, "stdout"), (err, 2, "stderr")):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as this process lives
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)  # as if no test captured it
        sys.argv = ["planner", *words, *([] if words[0] in WITHOUT_JSON else ["--format", "json"])]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def faults(words: list[str], code: int, out: str, err: str) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if code == GIVEN_UP:
        yield f"not done after {LIMIT_S} s"
        return
    if code not in CODES or "Traceback" in err:
        yield f"exit {code}: {err.strip()[-300:]!r}"
    if code == 2 and (out or not err.strip()):
        yield f"refused without a word, or with an answer: {out[:200]!r}"
    if words[0] not in WITHOUT_JSON and code != 2:
        try:
            json.loads(out, parse_constant=not_finite)
        except ValueError:
            yield f"standard output is no JSON document: {out[:200]!r}"


def not_finite(word: str) -> None:
    """JSON has no NaN and no infinity."""
    raise ValueError(word)


def summary(mutants: list[Mutant]) -> str:
    """Counts of commands by exit code, and of those that did wrong."""
    codes = Counter(code for mutant in mutants for code in mutant.codes)
    by_code = ", ".join(f"{n} with exit {code}" for code, n in sorted(codes.items()))
    wrong = sum(bool(mutant.wrong) for mutant in mutants)
    return f"{len(mutants)} mutants, {codes.total()} commands: {by_code}. Mutants that went wrong: {wrong}."


def options() -> Namespace:
    """Of the command line."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    for name, usual in (("count", 100), ("first-seed", 0), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N")
    return parser.parse_args()


def main() -> None:
    """One line for each mutant, then the summary."""
    given = options()
    print(summary(each(judge, given, "  seed  exit codes          what went wrong  (what was changed)")))


if __name__ == "__main__":
    main()
