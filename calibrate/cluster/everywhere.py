"""Everywhere: measures one machine of each kind of GPU that a Ray cluster has, all at the same time.

On such a machine runs the same sweep as here, on the same files: what `--out` holds is sent along, and what changes
comes back every few seconds, so that a machine that is lost takes no finished point with it.
"""

import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from calibrate.assembling.telling import say
from calibrate.cluster.cluster import Cluster, ClusterError, in_one_line, reached
from calibrate.io.files import put
from calibrate.io.process import end_with, python
from calibrate.sweep.request import Request
from calibrate.sweep.sweep import check_writable

LOOK_S = 2.0
"""How often a machine sends what it has."""
TYPE = "accelerator_type:"
"""How Ray names a machine's kind of GPU among its resources."""
KEPT = "*/[!.]*.json*"
"""Files of `--out`: journals and profiles, in a folder for each kind of GPU; not those half written."""
REMEDY = "Make room, or let it be written, then continue with --resume"
FAILED = 2


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A kind of GPU, or machines without one, and what to ask Ray for to get such a machine."""

    name: str
    gpus: int
    resources: Mapping[str, float] = field(default_factory=dict)
    node: str | None = None
    """Where only this machine will do."""


@dataclass(frozen=True, slots=True)
class News:
    """Everything new on a machine since the last call."""

    host: str
    files: Mapping[str, bytes]
    """By path under `--out`."""
    output: Sequence[str]
    """Lines of its standard output."""
    errors: Sequence[str]
    """Lines of its standard error."""
    code: int | None
    """The sweep's exit code once it has ended; 128 + n where signal n killed it."""


class Sweeper:
    """An actor of Ray: the sweep on the machine where it lives, which ends with it."""

    def __init__(self, request: Request, files: Mapping[str, bytes]) -> None:
        """Start the sweep in a process of its own, with `files` in its `--out`."""
        self.folder = tempfile.TemporaryDirectory(prefix="calibrate-")
        self.out = Path(self.folder.name, "out")
        self.shown = str(request.out)
        self.sent = dict(files)
        for name, data in files.items():
            put(self.out / name, data, ClusterError, REMEDY)
        self.logs = [Path(self.folder.name, name) for name in ("stdout", "stderr")]
        self.read_bytes = [0, 0]
        with self.logs[0].open("wb") as output, self.logs[1].open("wb") as errors:
            self.process = subprocess.Popen(
                python("calibrate.cluster.everywhere", "serve"),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdin
        pickle.dump(replace(request, out=self.out, cluster=None), self.process.stdin)
        self.process.stdin.close()

    def news(self) -> News:
        """Everything that has changed, a while later or at the end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LOOK_S)
        code = self.process.poll()  # first: what is read after the end is all there is
        if code is not None and code < 0:
            code = 128 - code
        now = held(self.out)
        changed = {name: data for name, data in now.items() if self.sent.get(name) != data}
        self.sent |= changed
        news = News(platform.node(), changed, self._lines(0), self._lines(1), code)
        if code is not None:
            self.folder.cleanup()
        return news

    def _lines(self, log: int) -> list[str]:
        """Whole lines that came since, as if they had been written where the files go."""
        raw = self.logs[log].read_bytes()[self.read_bytes[log] :]
        whole = raw[: raw.rfind(b"\n") + 1]
        self.read_bytes[log] += len(whole)
        return whole.decode(errors="replace").replace(str(self.out), self.shown).splitlines()


def serve(actor: int) -> int:
    """Run the sweep that comes on standard input; it ends cleanly with the actor, and so with the command."""
    from calibrate.io.guard import guarded
    from calibrate.sweep.sweep import run

    end_with(actor, signal.SIGTERM)
    request: Request = pickle.load(sys.stdin.buffer)
    code = guarded(lambda: run(request))
    if os.getppid() != actor:
        shutil.rmtree(request.out.parent, ignore_errors=True)
    return code


def measure(request: Request) -> int:
    """Measure one machine of each kind; exit code: 0 where all went well, else the worst of theirs."""
    assert request.cluster
    check_writable(request.out)
    try:
        with Cluster(request.cluster, serve_kinds, request, held(request.out)) as cluster:
            return Kept(cluster, request.out).measured()
    except KeyboardInterrupt:
        say(f"Interrupted. What was measured is in {request.out}; the same command with --resume continues.")
        return 130


class Kept:
    """All kinds of a cluster, under way: what they send is kept here."""

    def __init__(self, cluster: Cluster, out: Path) -> None:
        self.cluster, self.out = cluster, out
        self.owners: dict[str, str] = {}
        """Which kind of Ray's fills a folder of `--out`: two may turn out to be the same kind of GPU."""

    def measured(self) -> int:
        """All of them, until the last has ended; the worst exit code."""
        names = self.cluster.receive()
        say(f"To measure, each as soon as one is free: {', '.join(names)}.")
        codes: list[int] = []
        while len(codes) < len(names):
            code = self.receive(*self.cluster.receive())
            self.cluster.send(code is None)
            if code is not None:
                codes.append(code)
        return max(codes)

    def receive(self, name: str, news: News | str) -> int | None:
        """Keep what a machine has sent, or say why it is lost; the exit code once it has ended."""
        why = news if isinstance(news, str) else self.keep(name, news)
        if why or isinstance(news, str):
            say(f"{name}: lost: {why}. What it had measured is in {self.out}; --resume continues.")
            return FAILED
        if news.code is not None:
            say(f"{name}: measured on {news.host}." if news.code == 0 else f"{name}: {news.host} ended early.")
        return news.code

    def keep(self, name: str, news: News) -> str:
        """Write and say what a machine has sent; why that cannot be, else nothing."""
        for line in news.errors:
            say(f"{name}: {line}")
        for file, data in news.files.items():
            folder = file.partition("/")[0]
            if self.owners.setdefault(folder, name) != name:
                return f"{news.host} has a {folder} like {self.owners[folder]}, and one is enough"
            try:
                put(self.out / file, data, ClusterError, REMEDY)
            except ClusterError as error:
                return str(error).rstrip(".")
        for line in news.output:
            print(line, flush=True)
        return ""


def serve_kinds(parent: int) -> None:
    """In the process that is connected: what each kind's machine sends, until the parent has enough of it."""
    with reached(parent) as (ray, line, (request, files)):
        try:
            found = kinds(ray.nodes(), request.device)
        except ClusterError as error:
            line.send(error)
            return
        line.send([kind.name for kind in found])
        reference = ray.put(files)
        actors = [(kind.name, started(ray, request, kind, reference)) for kind in found]
        waiting = {actor.news.remote(): (name, actor) for name, actor in actors}
        while waiting:
            (ended, *_), _ = ray.wait(list(waiting), num_returns=1)
            name, actor = waiting.pop(ended)
            try:
                line.send((name, ray.get(ended)))
            except ray.exceptions.RayError as error:
                line.send((name, in_one_line(error)))
            if line.recv():
                waiting[actor.news.remote()] = (name, actor)
            else:
                ray.kill(actor)


def started(ray: ModuleType, request: Request, kind: NodeKind, files: Any) -> Any:
    """The sweep on a machine of this kind, once Ray has one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options: dict[str, Any] = {"num_cpus": 1, "num_gpus": kind.gpus, "resources": dict(kind.resources)}
    if kind.node:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(kind.node, soft=False)
    device = "cuda:0" if kind.gpus else "cpu"  # of the GPUs Ray shows a task its own alone
    return ray.remote(Sweeper).options(**options).remote(replace(request, device=device), files)


def kinds(nodes: Iterable[Mapping[str, Any]], device: str) -> list[NodeKind]:
    """The kinds of a cluster to measure: a machine of each of Ray's accelerator types; for `cpu` one without a GPU."""
    alive = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    with_gpu = [node for node in alive if node["Resources"].get("GPU")]
    if device == "cpu":
        for node in alive:
            if node not in with_gpu:
                return [NodeKind("cpu", 0, node=node["NodeID"])]
        raise ClusterError("--engine ray: the cluster has no machine without a GPU.")
    if not with_gpu:
        raise ClusterError("--engine ray: the cluster has no machine with a GPU. --device cpu measures one without.")
    by_name = {kind.name: kind for node in with_gpu for kind in kinds_of(node)}
    return [by_name[name] for name in sorted(by_name)]


def kinds_of(node: Mapping[str, Any]) -> list[NodeKind]:
    """Kinds of one machine's GPUs; where Ray does not know their type, they are a kind of their own."""
    types = [name for name in node["Resources"] if name.startswith(TYPE)]
    if not types:
        return [NodeKind(f"GPU of {node['NodeManagerHostname']}", 1, node=node["NodeID"])]
    return [NodeKind(name.removeprefix(TYPE), 1, {name: 0.001}) for name in types]


def held(out: Path) -> dict[str, bytes]:
    """Journals and profiles in `out`."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob(KEPT))}
