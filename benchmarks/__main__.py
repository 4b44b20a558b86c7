"""`python -m benchmarks [memory] [speed] [loop] [rules] [pipelines] [commands] [fits] [predictions] [studies]
[scale]`; all where none is named; `large` takes minutes, `fuzz` and `kills` an hour.

Prints one table for each question and whether the targets are met.
"""

import os
import platform
import sys
import timeit
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from time import perf_counter

from benchmarks import fuzz, kills
from benchmarks.c_loop import bare_loop, beside
from benchmarks.commands import ROOT, CommandError, plan, process_s
from benchmarks.fits import series, summary, table
from benchmarks.learnt import learnt_table, new_gpus_table, ratios_table, whole_fit
from benchmarks.load import Load
from benchmarks.memory import bytes_per_request
from benchmarks.own_profiles import own_profiles_table
from benchmarks.pipelines import Crossings, frames_per_s
from benchmarks.predictions import all_cases
from benchmarks.predictions import table as predicted_table
from benchmarks.scale import LARGE, SIZES, scaled
from benchmarks.speed import Series, measure
from benchmarks.studies import costs, machine_speed_up
from benchmarks.truths import shares, truths_table
from benchmarks.unlearnt import judged as untaught
from benchmarks.unlearnt import repositories_judged, timed_twice, timed_twice_table, unlearnt_table
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.io.load import load_scenario
from planner.placing.merging.analysis import analyze
from planner.placing.merging.layers import layers_of, named
from simulator.world.deployment import Drop

BATCHED, SINGLE = 8, 1
"""Largest batch; at 8, batches of 6 to 7 form."""
SPEED = {BATCHED: 1_000_000, SINGLE: 300_000}
"""Requests a second at least, on two cores."""
LINEAR = 1.05
"""Exponent at most, over all sizes. Time like n log n fits as 1.08 between 10^4 and 10^7. Between two sizes alone the
exponent is uncertain by 0.1, for ten million requests are timed once; beside it stands that of the baseline."""
LOOP = {
    Load(1, 1, BATCHED): 1.5,
    Load(1, 1, SINGLE): 1.5,
    Load(8, 64, BATCHED): 3.0,
    Load(8, 64, SINGLE): 3.0,
    Load(1, 16, BATCHED, resident=0.5): 6.0,
}
"""Times that a bare loop in C takes, at most."""
BYTES = 100
FIFTY = ("resnet50*10", "resnet101*10", "resnet152*10", "vgg16*10", "inceptionv3*10")
PLAN_S = {"video.yaml": 3.0, "fleet.yaml": 30.0}
GAP = 0.1
OVERHEAD_S = 0.02
RAY_OVERHEAD_S = 0.05
SPEED_UP = 1.7
UP_TO_1E6 = (10**4, 10**5, 10**6)
UP_TO_1E7 = (*UP_TO_1E6, 10**7)


def verdict(met: bool) -> str:
    """In words."""
    return "met" if met else "NOT MET"


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One table; each row as soon as it is known."""
    widths = [28, *(max(len(text), 12) for text in head[1:])]
    print(f"\n{title}\n")
    for row in chain([head, ["-" * w for w in widths]], rows):
        print("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip(), flush=True)


def speed_row(series: Series) -> list[str]:
    """One configuration at its largest number of requests."""
    load, run = series.load, series.largest
    target = SPEED[load.batch_size_max]
    return [
        str(load.gpu_count),
        str(load.model_count),
        f"{run.mean_batch:.1f}",
        f"{run.request_count:,}",
        f"{run.requests_per_s:,.0f}",
        f"{target:,}",
        verdict(run.requests_per_s >= target),
        f"{run.ratio:.2f}",
        f"{series.exponent:.3f}",
        verdict(series.exponent <= LINEAR),
        "{:.2f} / {:.2f}".format(*series.last_exponents),
    ]


def speed() -> None:
    """Speed and growth in all configurations."""
    columns = ["GPUs", "models", "mean batch", "requests", "requests/s", "at least", "speed"]
    columns += ["x baseline", "k", f"k <= {LINEAR}", "k of last two / of baseline"]
    configurations = [Load(g, m, b) for b in (BATCHED, SINGLE) for g in (1, 8) for m in (1, 64)]
    longest = {Load(1, 1, BATCHED), Load(8, 64, BATCHED), Load(1, 1, SINGLE)}
    rows = (speed_row(measure(load, UP_TO_1E7 if load in longest else UP_TO_1E6)) for load in configurations)
    show("Simulated requests per second of processor time, and the exponent k of time ~ requests^k", columns, rows)


def loop() -> None:
    """The same beside a loop in C, which notes nothing, or what an answer needs."""
    maker, *_ = bare_loop()
    columns = ["load", "requests", "batches", "loop", "with answer", "replayed", "loop x", "at most", "speed"]
    columns += ["answer x", "simulated", "loop x"]
    title = f"Requests a second of processor time beside a bare loop in {maker} over the same queues"
    show(f"{title}; replayed as plans do, and with arrivals drawn and all records", columns, loop_rows())


def loop_rows() -> Iterable[list[str]]:
    """Both beside the loop."""
    for load, limit in LOOP.items():
        one = beside(load, 10**6)
        turns = ", in turns" if load.resident < 1 else ""
        yield [
            f"{load.gpu_count} GPUs, {load.model_count} models, batch {load.batch_size_max}{turns}",
            f"{one.requests:,}",
            f"{one.batches:,}",
            f"{one.requests / one.loop_s:,.0f}",
            f"{one.requests / one.answer_s:,.0f}",
            f"{one.requests / one.replay_s:,.0f}",
            f"{one.replay_s / one.loop_s:.1f}",
            f"{limit:g}",
            verdict(one.replay_s <= limit * one.loop_s),
            f"{one.replay_s / one.answer_s:.1f}",
            f"{one.requests / one.simulate_s:,.0f}",
            f"{one.simulate_s / one.loop_s:.1f}",
        ]


def rules() -> None:
    """The same with rules that cost time; no targets."""
    loads = {
        "16 models, none dropped": Load(1, 16, BATCHED),
        "16 models, late ones dropped": Load(1, 16, BATCHED, drop=Drop.LATE),
        "16 models, half of them fit in memory": Load(1, 16, BATCHED, resident=0.5),
    }
    columns = ["rules on one GPU, 10^5 requests       ", "mean batch", "requests/s", "x baseline"]
    runs = ((name, measure(load, (10**5,)).largest) for name, load in loads.items())
    rows = ([n, f"{r.mean_batch:.1f}", f"{r.requests_per_s:,.0f}", f"{r.ratio:.2f}"] for n, r in runs)
    show("What rules cost; for information", columns, rows)


def pipelines() -> None:
    """Frames that are decoded, looked at and followed by crops; no targets."""
    found = ((gpu_count, *frames_per_s(Crossings(gpu_count), 20_000)) for gpu_count in (1, 8))
    rows = ([str(gpu_count), f"{frames:,}", f"{speed:,.0f}", f"{6 * speed:,.0f}"] for gpu_count, frames, speed in found)
    show("Frames of a pipeline, six items each", ["GPUs", "frames", "frames/s", "items/s"], rows)


def memory() -> None:
    """Bytes for each request."""
    cases = [(b, metrics) for b in (BATCHED, SINGLE) for metrics in (False, True)]
    found = ((b, metrics, bytes_per_request(b, metrics)) for b, metrics in cases)
    rows = (
        [
            f"batch <= {b}" if b > 1 else "batch 1",
            "and metrics" if metrics else "simulate",
            f"{size:.1f}",
            str(BYTES),
            verdict(size < BYTES),
        ]
        for b, metrics, size in found
    )
    title = "Memory per request: growth of a process's peak from 10^6 to 10^7 requests"
    show(title, ["case", "work", "bytes/request", "under", "memory"], rows)


WORKS: dict[str, tuple[Callable[[], object], float]] = {
    "  read scenarios/video.yaml": (lambda: load_scenario(ROOT / "scenarios" / "video.yaml"), 0.03),
    "  read all shipped profiles": (lambda: find_profiles((), load_catalog().gpus), 0.2),
    "  what 50 models share": (lambda: analyze(named(FIFTY, layers_of)), 2.0),
}
"""Parts of commands, and how long each may take."""


def best_s(work: Callable[[], object]) -> float:
    """The quickest of five."""
    return min(timeit.repeat(work, number=1, repeat=5))


def commands() -> None:
    """Whole processes."""
    bare_s = process_s(["-c", "pass"], 5)

    def time_row(name: str, took_s: float, limit_s: float) -> list[str]:
        return [name, f"{took_s:.2f} s", f"{limit_s:g} s", verdict(took_s < limit_s), f"{took_s / bare_s:.0f}"]

    def rows() -> Iterable[list[str]]:
        yield time_row("planner --help", process_s(["-m", "planner", "--help"], 5), 0.5)
        for name, (work, limit_s) in WORKS.items():
            yield time_row(name, best_s(work), limit_s)
        for scenario, limit_s in PLAN_S.items():
            name = f"plan {scenario}"
            try:
                planned = plan(scenario, 3 if limit_s < 10 else 1)
            except CommandError as error:
                yield [name, "failed", f"{limit_s:g} s", verdict(False), str(error)]
                continue
            yield time_row(name, planned.process_s, limit_s)
            costs = f"${planned.cost_usd_per_hour:.2f}/h, bound ${planned.lower_bound_usd_per_hour:.2f}/h"
            yield ["  gap to the bound", f"{planned.gap:.1%}", f"{GAP:.0%}", verdict(planned.gap < GAP), costs]

    columns = ["command          ", "took", "under", "target", "x `python -c pass`"]
    show(f"Whole processes; `python -c pass` takes {bare_s * 1e3:.0f} ms", columns, rows())


def fits() -> None:
    """How well fits predict what they have not seen, on series that others measured."""
    judged = series()
    print("\nErrors of held-out points\n")
    print("\n".join([*table(judged), "", *summary(judged)]))


def predictions() -> None:
    """How far predictions err on models and devices that others measured."""
    print("\nErrors of predictions\n")
    print("\n".join(predicted_table(all_cases())))
    print("\nErrors beside figures that taught nothing\n")
    print("\n".join(unlearnt_table(untaught())))
    print("\nOne batch, timed by two publishers\n")
    print("\n".join(timed_twice_table(timed_twice())))


def learnt() -> None:
    """How far the learnt predictor errs where something was left out; takes some minutes."""
    print("\nErrors of what was learnt from published points\n")
    fitted = whole_fit()
    print("\n".join(learnt_table(fitted)))
    print("\nErrors beside repositories that were left out\n")
    print("\n".join(unlearnt_table(repositories_judged(fitted))))
    print("\nTimes of MLPerf's full batches at int8 in TensorRT over those of an A100 PCIe\n")
    print("\n".join(ratios_table(fitted)))
    print("\nGPUs that nobody published, and with five models measured\n")
    print("\n".join(new_gpus_table(fitted)))
    print("\nOther GPUs than that on which somebody measured a model, without and with that\n")
    print("\n".join(own_profiles_table(fitted)))


def truths() -> None:
    """How often plans on predictions hold for what was left out; takes some minutes."""
    print("\nPlans asked for 90 %, for models on GPUs that nothing was known of, and their published times\n")
    fitted = whole_fit()
    print("\n".join(truths_table(fitted)))
    for what, share in shares(fitted).items():
        print(f"\nPart of the variance of errors that models on one GPU have in common, left out {what}: {share:.2f}")


def studies() -> None:
    """What a study costs beside its points, and what a second worker brings."""
    short, longer = costs(200, 5.0), costs(60, 200.0)
    rows = [
        ["overhead of a point", f"{short.point_s * 1e3:.1f} ms", f"{short.overhead_s * 1e3:.1f} ms",
         f"{OVERHEAD_S * 1e3:g} ms", verdict(short.overhead_s < OVERHEAD_S)],
        ["two workers over one", f"{longer.point_s * 1e3:.1f} ms", f"{longer.speed_up:.2f}",
         f"{SPEED_UP:g}", verdict(longer.speed_up >= SPEED_UP)],
    ]  # fmt: skip
    if (ray_s := short.ray_overhead_s) is not None:
        rows.append(["overhead of a point on Ray", f"{short.point_s * 1e3:.1f} ms", f"{ray_s * 1e3:.1f} ms",
                     f"{RAY_OVERHEAD_S * 1e3:g} ms", verdict(ray_s < RAY_OVERHEAD_S)])  # fmt: skip
    rows.append(["two bare loops over one", "-", f"{machine_speed_up():.2f}", "-", "-"])
    show(
        "A study's points beside the same points called directly", ["what", "one point", "is", "limit", "target"], rows
    )


def scale(sizes: tuple[tuple[int, int], ...] = SIZES) -> None:
    """How plans take longer with models, cameras and GPUs."""
    columns = ["models x cameras", "GPUs", "processor s", "x first", "ms a camera", "MB", "gap"]
    show("Plans that grow", columns, scale_rows(sizes))


def scale_rows(sizes: tuple[tuple[int, int], ...]) -> Iterable[list[str]]:
    """One row a size, each beside the first."""
    first_s = None
    for one in scaled(sizes):
        first_s = first_s or one.took_s
        yield [
            f"{one.models} x {one.streams}",
            str(one.gpus),
            f"{one.took_s:.1f}",
            f"{one.took_s / first_s:.1f}",
            f"{one.took_s / one.streams * 1e3:.0f}",
            f"{one.memory_bytes / 1e6:.0f}",
            f"{one.gap:.1%}",
        ]


PARTS = {
    "memory": memory,
    "speed": speed,
    "loop": loop,
    "rules": rules,
    "pipelines": pipelines,
    "commands": commands,
    "fits": fits,
    "predictions": predictions,
    "studies": studies,
    "scale": scale,
}
"""Memory first, because a child's peak starts at what its parent holds."""
LONG = {
    "learnt": learnt,
    "truths": truths,
    "large": lambda: scale(LARGE),
    "fuzz": lambda: fuzz.main([]),
    "kills": lambda: kills.main([]),
}
"""Which take minutes or hours, and run only where they are named."""


def main() -> None:
    """What was asked for, or everything."""
    if unknown := set(sys.argv[1:]) - PARTS.keys() - LONG.keys():
        sys.exit(f"{min(unknown)!r} is not known. Write some of: {' '.join([*PARTS, *LONG])}")
    began_s = perf_counter()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {sys.platform}")
    print("Baseline: a bare SimPy loop, one process per server, arrivals in an array, one timeout per batch.")
    for name, part in (PARTS | LONG).items():
        if name in (sys.argv[1:] or PARTS):
            part()
    print(f"\n{perf_counter() - began_s:.0f} s in all")


if __name__ == "__main__":
    main()
