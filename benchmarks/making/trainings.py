"""Writes into the published trainings what their layers and data sheets say: `python -m benchmarks.making.trainings`.

Figures stand there by hand, each with its source and place; the last columns are made of them.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Mapping

from calibrate.layers.facts import facts
from calibrate.layers.work import Facts
from planner.catalog.catalog import load_catalog
from planner.prediction.trainings import FILE, StepCase, step_case
from simulator.world.hardware import GPU

MADE = ("kind", "work_s", "overhead_s")


def layers_of(row: Mapping[str, str]) -> Facts:
    """The layers of a row's model at its input: tokens of a text, pixels of a picture."""
    size = int(row["input"])
    return facts(row["model"], (size,)) if "bert" in row["model"] else facts(row["model"]).at(size)


def made(row: Mapping[str, str], gpus: Mapping[str, GPU]) -> dict[str, str]:
    """What is made of a row."""
    case: StepCase = step_case(layers_of(row), gpus[row["gpu"]], row["precision"], int(row["batch"]))
    return {"kind": case.kind, **{name: f"{getattr(case, name):.6g}" for name in MADE[1:]}}


def main() -> None:
    """Rewrite the file."""
    gpus = load_catalog().gpus
    with FILE.open(encoding="utf-8", newline="") as lines:
        rows = [{**row, **made(row, gpus)} for row in csv.DictReader(lines)]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    main()
