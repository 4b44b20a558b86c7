"""The first minutes on a GPU, one command: `python -m benchmarks.gpu --out gpu`, or `make gpu`.

Steps in the order in which they are worth most, each with a time after which it is ended; what it left stays, and
`--steps table` goes on there. Each step writes a log, its folder of profiles, and an archive of it, to be carried home.
Needs torch, NumPy and SciPy; `validate`, `train` and `doctor` also what the planner needs.
"""

import argparse
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

VALIDATED = ("two-models", "one-80", "swap-swap-aware", "batching", "two-processes")
REGIMES = "--models resnet18,resnet50,vgg16 --mode inference --batches 1,8,32 --seconds 0.3"
STEPS: Mapping[str, tuple[int, Sequence[str]]] = {
    "smoke": (
        180,
        (
            "planner doctor --device {device}",
            "calibrate --models lenet,resnet50,ssd_vgg --batches 1,8 --seconds 0.2 --mode inference,training,device"
            " --optimizers sgd --memory-log {out}/smoke.csv",
        ),
    ),
    "regimes": (
        420,
        (
            f"calibrate {REGIMES} --precision fp32,torch,tf32",
            f"calibrate {REGIMES} --cuda-graph",
            "calibrate --models resnet50 --mode inference --batches 64 --precision torch --seconds 0.3 --soak 60",
        ),
    ),
    "table": (
        480,
        (
            "calibrate --models lecture --mode inference,device --batches 1,2,4,8,16,32 --seconds 0.5 --budget 440"
            " --memory-log {out}/table.csv",
        ),
    ),
    "validate": (
        540,
        tuple(
            f"planner validate scenarios/validation/{name}.yaml --device {{device}} --duration 45s"
            f" --profiles {{folder}} --record {{out}}/{name}.json.gz"
            for name in VALIDATED
        ),
    ),
    "precisions": (
        480,
        (
            "calibrate --models resnet50,vit_b_16,bert_base --mode inference --precision fp32,torch,amp,amp-bf16,bf16"
            " --batches 1,4,16,64,256 --seconds 0.5 --budget 440",
        ),
    ),
    "training": (
        300,
        (
            "calibrate --models resnet50 --mode inference,training --optimizers sgd --precision fp32,amp"
            " --batches 8,32,128 --until-memory-ends --seconds 0.5 --budget 200",
            "planner train scenarios/training/lenet.yaml --measure --device {device}",
        ),
    ),
    "again": (120, ("calibrate --models resnet50 --mode inference --batches 1,2,4,8,16,32 --seconds 0.5",)),
}
"""By name: seconds at most, and commands. `again` is one model of `table` in another session: how far both differ."""


def arguments(command: str, step: str, device: str, out: Path) -> list[str]:
    """The words of a command of a step, after `python -m`; each step has a folder of profiles of its own."""
    folder = out / step
    words = command.format(device=device, out=out, folder=folder).split()
    if words[0] == "planner":
        return words
    if "--memory-log" in words and Path(words[-1]).exists():
        words = words[:-2]  # of a run before, which is not written over
    return [*words, "--device", device, "--out", str(folder), "--resume"]


def run(step: str, device: str, out: Path) -> bool:
    """Run a step and pack what it left; True where all its commands ended well and in time."""
    limit_s, commands = STEPS[step]
    end_s = time.monotonic() + limit_s
    well = True
    with (out / f"{step}.log").open("a", encoding="utf-8") as log:
        for command in commands:
            words = [sys.executable, "-m", *arguments(command, step, device, out)]
            log.write(f"$ {' '.join(words[1:])}\n")
            log.flush()
            try:
                done = subprocess.run(
                    words, stdout=log, stderr=log, check=False, timeout=max(1.0, end_s - time.monotonic())
                )
                well &= done.returncode == 0
            except subprocess.TimeoutExpired:
                log.write(f"ended after {limit_s} s in all\n")
                well = False
    if (out / step).exists():
        with tarfile.open(out / f"{step}.tgz", "w:gz") as packed:
            packed.add(out / step, step)
    return well


def main(given: Sequence[str] | None = None) -> int:
    """Run the steps that are named; 1 where one did not end well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, default=Path("gpu"))
    parser.add_argument("--steps", default=",".join(STEPS), help="default: all, in this order: %(default)s")
    options = parser.parse_args(given)
    steps = options.steps.split(",")
    if unknown := sorted(set(steps) - STEPS.keys()):
        parser.error(f"--steps: {unknown[0]} is not known. Write some of {','.join(STEPS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for step in steps:
        start_s = time.monotonic()
        well = run(step, options.device, options.out)
        failed += [] if well else [step]
        ended = "well" if well else "not well"
        print(f"{step}: {ended}, {time.monotonic() - start_s:.0f} s, see {options.out}/{step}.log")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
