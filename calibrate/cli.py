"""The command line of `python -m calibrate`, by the standard library: it runs where there is torch, NumPy and SciPy."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from calibrate.io.guard import guarded
from calibrate.io.points import OPTIMIZERS, PRECISIONS
from calibrate.layers.facts import shipped
from calibrate.layers.naming import options_of
from calibrate.sweep import request
from calibrate.sweep.agenda import PROBES
from calibrate.sweep.request import MODES, Request
from calibrate.sweep.sweep import run
from calibrate.zoo import zoo
from simulator.errors import InputError


class Parser(argparse.ArgumentParser):
    """Says in one line what it does not understand."""

    def error(self, message: str) -> NoReturn:
        """`unrecognized arguments: --sed` becomes a refusal like all others."""
        raise InputError(f"calibrate: {message}. {self.prog} --help lists all options.")


def parser(prog: str = "python -m calibrate") -> argparse.ArgumentParser:
    """All options; how their values are read stands in `calibrate.sweep.request`."""
    options = Parser(
        prog=prog,
        description="Measure what models cost on this machine's device. With --model it runs code of yours.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("--device", default="cuda:0", metavar="D", help="cuda:0, cuda:1, ... or cpu (default: cuda:0)")
    add("--models", default="", metavar="M,...", help="models by name, or the groups all and lecture")
    add("--model", action="append", default=[], metavar="PACKAGE.MODULE:FACTORY", help="a model of yours; repeatable")
    add("--input", metavar="CxHxW", help="shape of one sample of your models, e.g. 3x224x224")
    add("--batches", default="1,2,4,8,16,32,64", metavar="N,...", help="batch sizes (default: %(default)s)")
    add("--mode", default="inference,device", metavar="M,...", help=f"{', '.join(MODES)} (default: %(default)s)")
    add("--what", default="", metavar="P,...", help=f"only these probes of the device: {', '.join(PROBES)}")
    add("--precision", default="fp32", metavar="P,...", help=f"{', '.join(PRECISIONS)} (default: %(default)s)")
    add("--resolution", default="", metavar="N,...", help="height and width of pictures (default: the model's own)")
    add("--channels-last", action="store_true", help="lay tensors out with channels last")
    add("--cudnn-benchmark", action="store_true", help="let cuDNN choose its algorithms by trying them")
    add("--compile", action="store_true", help="through torch.compile")
    add("--cuda-graph", action="store_true", help="inference captured as a CUDA graph")
    add("--optimizers", default=",".join(OPTIMIZERS), metavar="O,...", help="of a training step (default: %(default)s)")
    add("--until-memory-ends", action="store_true", help="go on doubling the batch past the largest of --batches")
    add("--seconds", default="1", metavar="S", help="time for repeats of one point (default: %(default)s)")
    add("--soak", metavar="S", help="at the end run each model's largest batch back to back for so long")
    add("--timeout", default="120", metavar="S", help="give a point up after so long (default: %(default)s)")
    add("--budget", metavar="S", help="stop cleanly after so long in all; --resume continues")
    add("--memory", metavar="SIZE", help="no more than this for a model, e.g. 8GB (default: all there is)")
    add("--memory-log", type=Path, metavar="FILE", help="write and draw what the device's memory did, e.g. memory.csv")
    add("--out", type=Path, default=Path("profiles"), metavar="DIR", help="where profiles go (default: %(default)s)")
    add("--resume", action="store_true", help="continue the journal in --out: measure only what is missing")
    add("--sessions", default="1", metavar="N", help="measure all so often, and join what came out (default: 1)")
    add("--apart", default="60", metavar="S", help="between two sessions (default: %(default)s)")
    add("--seed", default="0", metavar="N", help="start of all random orders (default: 0)")
    add(
        "--engine", default="local", choices=("local", "ray"), help="measure here, or each kind of GPU of a Ray cluster"
    )
    add("--address", metavar="A", help="of the cluster: auto, this machine's (default), HOST:6379 or ray://HOST:10001")
    add("--dry-run", action="store_true", help="say how many points and how long, and measure nothing")
    return options


def read(arguments: Sequence[str] | None = None, prog: str = "python -m calibrate") -> Request:
    """The request that `arguments` make; InputError where they make none."""
    given = parser(prog).parse_args(arguments)
    modes = request.some("--mode", given.mode, MODES)
    probes = request.some("--what", given.what, PROBES) if given.what else ()
    if probes:
        modes = ("device",)
    if given.cuda_graph and ({"training", "swapping"} & set(modes) or given.device == "cpu"):
        raise InputError("--cuda-graph: captures inference on a GPU alone. Write --mode inference --device cuda:0.")
    return Request(
        models=request.models(given.models, given.model, expand, needed=modes != ("device",)),
        device=request.device(given.device),
        input_shape=request.shape(given.input) if given.input else None,
        batches=request.batch_sizes(given.batches),
        modes=modes,
        probes=probes,
        settings=request.axes(
            given.precision,
            given.resolution,
            channels_last=given.channels_last,
            cudnn_benchmark=given.cudnn_benchmark,
            compile=given.compile,
            cuda_graph=given.cuda_graph,
        ),
        optimizers=request.some("--optimizers", given.optimizers, OPTIMIZERS),
        out=given.out,
        seconds_per_point=request.seconds("--seconds", given.seconds),
        soak_s=request.seconds("--soak", given.soak) if given.soak else 0.0,
        timeout_s=request.seconds("--timeout", given.timeout),
        budget_s=request.seconds("--budget", given.budget) if given.budget else None,
        memory_bytes=request.size("--memory", given.memory) if given.memory else None,
        memory_log=given.memory_log,
        until_memory_ends=given.until_memory_ends,
        sessions=request.sessions(given.sessions),
        apart_s=request.seconds("--apart", given.apart),
        seed=request.whole("--seed", given.seed),
        resume=given.resume,
        dry_run=given.dry_run,
        cluster=cluster(given),
    )


def expand(name: str) -> Sequence[str] | None:
    """The models that a name stands for, as plans know it; InputError where it may be one of several."""
    found = zoo.expand(name) or shipped(name)
    if not found and (options := options_of(name)):
        raise InputError(f"--models: {name} is a name of figures. Write {options}, which builds that network.")
    if name not in zoo.GROUPS and len(found) > 1:
        raise InputError(f"--models: {name} may be {' or '.join(found)}. Write one of them.")
    return found or None


def cluster(given: argparse.Namespace) -> str | None:
    """Address of the cluster that is to measure; InputError where that does not go with the other options."""
    if given.engine == "local":
        if given.address:
            raise InputError(f"--address: {given.address} goes with --engine ray alone.")
        return None
    if given.memory_log:
        raise InputError(f"--memory-log: {given.memory_log} is of one machine. Leave it out with --engine ray.")
    if "swapping" in request.some("--mode", given.mode, MODES):
        raise InputError("--mode: swapping is measured on this machine alone. Leave it out with --engine ray.")
    if given.device not in ("cpu", "cuda", "cuda:0"):
        raise InputError(f"--device: {given.device} is chosen by Ray with --engine ray. Write cuda or cpu.")
    return given.address or "auto"


def main(arguments: Sequence[str] | None = None, prog: str = "python -m calibrate") -> int:
    """Run the command under the name it was called by; its exit code."""
    return guarded(lambda: measured(read(arguments, prog)))


def measured(wanted: Request) -> int:
    """Measure in one session or in several; exit code."""
    if wanted.sessions == 1 or wanted.dry_run:
        return session(wanted)
    from calibrate.sessions.several import measure_sessions

    return measure_sessions(wanted, session)


def session(wanted: Request) -> int:
    """Measure here or on a cluster; exit code."""
    if wanted.cluster is None or wanted.dry_run:
        return run(wanted) or swapping(wanted)
    from calibrate.cluster.everywhere import measure

    return measure(wanted)


def swapping(wanted: Request) -> int:
    """Measure what swapping costs, where that is wanted, once there are profiles to hold it; exit code."""
    if "swapping" not in wanted.modes or wanted.dry_run:
        return 0
    from calibrate.serving.after_load import measure_swapping

    return measure_swapping(wanted)
