"""Cluster: reaches a Ray cluster that is there, and measures one machine of each kind of GPU it has, all at a time.

On such a machine runs the same sweep as here, on the same files: what `--out` holds is sent along, and what changes
comes back every few seconds, so that a machine that is lost takes no finished point with it. Ray is imported only here.
"""

import logging
import os
import pickle
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any

from calibrate.request import Request
from calibrate.sweep import check_writable, say
from simulator.errors import InputError

ANSWER_S = 10.0
"""A cluster that has not answered by then is none, or wants another token."""
LOOK_S = 2.0
"""How often a machine sends what it has."""
TYPE = "accelerator_type:"
"""How Ray names a machine's kind of GPU among its resources."""
KEPT = "*/[!.]*.json*"
"""Of `--out`: journals and profiles, in a folder for each kind of GPU; not what is half written."""
SERVE = "import sys; sys.path[:] = {path!r}; from calibrate.cluster import serve; sys.exit(serve())"
FAILED = 2


class ClusterError(InputError):
    """A cluster that cannot be reached, or cannot do what is asked; the text is one line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of GPU, or machines without one, and what to ask Ray for to get such a machine."""

    name: str
    gpus: int
    resources: Mapping[str, float] = field(default_factory=dict)
    node: str | None = None
    """Where only this machine will do."""


@dataclass(frozen=True, slots=True)
class News:
    """What a machine has since it was asked last."""

    host: str
    files: Mapping[str, bytes]
    """By path under `--out`."""
    wrote: Sequence[str]
    """Lines of its standard output."""
    said: Sequence[str]
    """Lines of its standard error."""
    code: int | None
    """The sweep's exit code, once it has ended."""


class Sweeper:
    """An actor of Ray: the sweep on the machine where it lives, which ends with it."""

    def __init__(self, request: Request, files: Mapping[str, bytes]) -> None:
        """Start the sweep in a process of its own, with `files` in its `--out`."""
        self.folder = tempfile.TemporaryDirectory(prefix="calibrate-")
        self.out = Path(self.folder.name, "out")
        self.shown = str(request.out)
        self.sent = dict(files)
        for name, data in files.items():
            write(self.out / name, data)
        self.logs = [Path(self.folder.name, name) for name in ("stdout", "stderr")]
        self.read_bytes = [0, 0]
        with self.logs[0].open("wb") as wrote, self.logs[1].open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=wrote,
                stderr=said,
                start_new_session=True,
            )
        assert self.process.stdin
        pickle.dump(replace(request, out=self.out, cluster=None), self.process.stdin)
        self.process.stdin.close()

    def news(self) -> News:
        """What has changed, a while later or at the end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LOOK_S)
        code = self.process.poll()  # first: what is read after the end is all there is
        now = held(self.out)
        changed = {name: data for name, data in now.items() if self.sent.get(name) != data}
        self.sent |= changed
        return News(platform.node(), changed, self._lines(0), self._lines(1), code)

    def _lines(self, log: int) -> list[str]:
        """Whole lines that came since, as if they had been written where the files go."""
        raw = self.logs[log].read_bytes()[self.read_bytes[log] :]
        whole = raw[: raw.rfind(b"\n") + 1]
        self.read_bytes[log] += len(whole)
        return whole.decode(errors="replace").replace(str(self.out), self.shown).splitlines()


def serve() -> int:
    """What a machine does: the sweep that comes on standard input."""
    from calibrate.cli import guarded
    from calibrate.sweep import run

    threading.Thread(target=_outlive_nobody, args=(os.getppid(),), daemon=True).start()
    request: Request = pickle.load(sys.stdin.buffer)
    return guarded(lambda: run(request))


def _outlive_nobody(parent: int) -> None:
    """End cleanly with the actor, and so with the command that asked."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def connect(address: str) -> ModuleType:
    """Ray, connected to the cluster at `address`. ClusterError where none answers in time."""
    if find_spec("ray") is None:
        raise ClusterError("--engine ray takes Ray: pip install 'gpu-capacity-planner[cluster]'.")
    if _has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported
    if why := _closed(address) or _refusal(address):
        raise ClusterError(
            f"--address {address}: no Ray cluster answers there: {why}. Start one with `ray start --head`, or name"
            " another, e.g. ray://10.0.0.1:10001."
        )
    import ray

    return ray


def _has_token() -> bool:
    """Whether there is a token to show. By itself Ray shows it to `auto`, and not to a cluster that is named."""
    kept = Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")) or kept.is_file()


def _closed(address: str) -> str:
    """Why nothing listens there; empty where something does, or where Ray has to find out what is meant."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S / 2).close()
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _refusal(address: str) -> str:
    """Why the cluster does not let us in; empty where it does."""
    came: SimpleQueue[BaseException | None] = SimpleQueue()
    with tempfile.TemporaryFile() as said:
        # Ray tries on for minutes, which nobody need wait for; the thread ends with it or with this process.
        threading.Thread(target=_init, args=(address, os.dup(said.fileno()), came), daemon=True).start()
        give_up_s = time.monotonic() + ANSWER_S
        while time.monotonic() < give_up_s:
            with suppress(Empty):
                error = came.get(timeout=LOOK_S / 4)
                return last_line(error) if error else ""
            if b"InvalidAuthToken" in os.pread(said.fileno(), 1 << 20, 0):
                return "it wants another token, in ~/.ray/auth_token or RAY_AUTH_TOKEN"
    return f"nothing came for {ANSWER_S:g} s; if it is one, look at its token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _init(address: str, said: int, came: "SimpleQueue[BaseException | None]") -> None:
    """Connect, and tell how it went. Meanwhile what is not Python's own writes to file `said` for standard error."""
    python, fd = sys.stderr, os.dup(2)
    sys.stderr = open(fd, "w", buffering=1, encoding="utf-8")  # noqa: SIM115 - until the other is back
    os.dup2(said, 2)
    error: BaseException | None = None
    try:
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except BaseException as raised:
        error = raised
    os.dup2(fd, 2)
    sys.stderr.close()
    sys.stderr = python
    os.close(said)
    came.put(error)


def measure(request: Request) -> int:
    """Measure one machine of each kind; exit code: 0 where all went well, else the worst of theirs."""
    assert request.cluster
    check_writable(request.out)
    ray = connect(request.cluster)
    try:
        return _Kinds(ray, request).measured()
    except KeyboardInterrupt:
        say(f"Interrupted. What was measured is in {request.out}; the same command with --resume continues.")
        return 130
    finally:
        ray.shutdown()


class _Kinds:
    """All kinds of a cluster, under way."""

    def __init__(self, ray: ModuleType, request: Request) -> None:
        self.ray, self.request = ray, request
        self.owners: dict[str, str] = {}
        """Which kind of Ray's fills a folder of `--out`: two may turn out to be the same kind of GPU."""

    def measured(self) -> int:
        """All of them, until the last has ended; the worst exit code."""
        found = kinds(self.ray.nodes(), self.request.device)
        say(f"To measure, each as soon as one is free: {', '.join(kind.name for kind in found)}.")
        files = self.ray.put(held(self.request.out))
        waiting, codes = {}, []
        for kind in found:
            actor = self.start(kind, files)
            waiting[actor.news.remote()] = (kind.name, actor)
        while waiting:
            (told, *_), _ = self.ray.wait(list(waiting), num_returns=1)
            name, actor = waiting.pop(told)
            if (code := self.hear(name, told)) is None:
                waiting[actor.news.remote()] = (name, actor)
            else:
                codes.append(code)
                self.ray.kill(actor)
        return max(codes)

    def start(self, kind: Kind, files: Any) -> Any:
        """The sweep on a machine of this kind, once Ray has one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked: dict[str, Any] = {"num_cpus": 1, "num_gpus": kind.gpus, "resources": dict(kind.resources)}
        if kind.node:
            asked["scheduling_strategy"] = NodeAffinitySchedulingStrategy(kind.node, soft=False)
        device = "cuda:0" if kind.gpus else "cpu"  # of the GPUs Ray shows a task its own alone
        return self.ray.remote(Sweeper).options(**asked).remote(replace(self.request, device=device), files)

    def hear(self, name: str, told: Any) -> int | None:
        """Keep what a machine has sent; the exit code once it has ended."""
        try:
            news: News = self.ray.get(told)
            self.keep(name, news)
        except (ClusterError, self.ray.exceptions.RayError) as error:
            why = last_line(error)
            say(f"{name}: lost: {why}. What it had measured is in {self.request.out}; --resume continues.")
            return FAILED
        if news.code is not None:
            say(f"{name}: measured on {news.host}." if news.code == 0 else f"{name}: {news.host} ended early.")
        return news.code

    def keep(self, name: str, news: News) -> None:
        """Write and say what a machine has sent."""
        for line in news.said:
            say(f"{name}: {line}")
        for file, data in news.files.items():
            folder = file.partition("/")[0]
            if self.owners.setdefault(folder, name) != name:
                raise ClusterError(f"{news.host} has a {folder} like {self.owners[folder]}, and one is enough")
            write(self.request.out / file, data)
        for line in news.wrote:
            print(line, flush=True)


def kinds(nodes: Iterable[Mapping[str, Any]], device: str) -> list[Kind]:
    """What a cluster has to be measured: a machine of each of Ray's accelerator types; without GPU any machine."""
    alive = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    if device == "cpu":
        if bare := [node for node in alive if not node["Resources"].get("GPU")]:
            return [Kind("cpu", 0, node=bare[0]["NodeID"])]
        raise ClusterError("--engine ray: the cluster has no machine without a GPU.")
    found = {kind.name: kind for node in alive if node["Resources"].get("GPU") for kind in kinds_of(node)}
    if not found:
        raise ClusterError("--engine ray: the cluster has no machine with a GPU. --device cpu measures one without.")
    return [found[name] for name in sorted(found)]


def kinds_of(node: Mapping[str, Any]) -> list[Kind]:
    """Of one machine's GPUs; where Ray does not know their type, they are a kind of their own."""
    types = [name for name in node["Resources"] if name.startswith(TYPE)]
    if not types:
        return [Kind(f"GPU of {node['NodeManagerHostname']}", 1, node=node["NodeID"])]
    return [Kind(name.removeprefix(TYPE), 1, {name: 0.001}) for name in types]


def held(out: Path) -> dict[str, bytes]:
    """Journals and profiles in `out`."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob(KEPT))}


def write(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise ClusterError(f"{path}: cannot be written ({error.strerror}). Then continue with --resume") from None


def last_line(error: BaseException) -> str:
    """What went wrong, without the traceback that Ray puts before it."""
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300].rstrip(".")
