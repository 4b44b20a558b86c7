"""Processes that tests start, without the seconds in which each would import torch and the planner.

A server imports that once. Each process is a copy of it, and then a child of the test's process as any other: with its
own number, session, pipes and variables, signalled and waited for by the system's own calls. What only a fresh
interpreter shows, such as what it imports, is for tests without it.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

IMPORTED = (
    "torch",
    "torch.utils.data",
    "calibrate.joint.train",
    "calibrate.layers.modules",
    "calibrate.sweep.measure",
    "calibrate.sweep.sweep",
    "calibrate.zoo.zoo",
    "planner.cli",
    "planner.commands.plan",
    "planner.questions.studies.local_engine",
    "planner.search.one_way",
    "planner.search.simulation",
)
"""Of these what is installed; nothing that runs as a program itself."""
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SITE = Path(__file__).parent / "site"
"""Lets torchvision be imported, in copies too."""
BYTES_MAX, READY, FAILED = 1 << 17, b"ready", b"failed"
PATIENCE_S = 120
"""For a copy, which takes a hundredth of a second; for the first the server imports all."""
PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): a process whose parent ends becomes a child of this one."""


class Server:
    """The process that is copied, and the line to it."""

    def __init__(self, line: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        line.settimeout(PATIENCE_S)
        self.line, self.process = line, process
        self.owner, self.lock, self.early = os.getpid(), threading.Lock(), early(os.environ)

    @classmethod
    def started(cls) -> "Server":
        """A new process."""
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            process = PLAIN(
                [PYTHON, "-P", __file__, str(number)],
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
                cwd=SITE.parent,
                env=os.environ | THREADS | {"PYTHONPATH": str(SITE)},
            )
        return cls(line, process)

    def copy(self, asked: dict[str, object], files: Sequence[int]) -> int:
        """The number of a copy that runs what is asked, with these files as its input, output and errors."""
        with self.lock:
            adopt(True)
            try:
                socket.send_fds(self.line, [json.dumps(asked).encode()], files)
                number = self.line.recv(BYTES_MAX)
                assert self.line.recv(BYTES_MAX) == READY
            except BaseException:
                servers.clear()  # the answers would be those to the question before
                self.end()
                raise
            finally:
                adopt(False)
        return int(number)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether a process of these variables begins as a copy does."""
        begins = early(env) == self.early and env.get("OMP_NUM_THREADS") == "1"
        return begins and self.owner == os.getpid()

    def end(self) -> None:
        """End it. Its copies live on."""
        self.line.close()
        if self.process:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
            self.process.kill()
            self.process.wait()


def adopt(does: bool) -> None:
    """Make processes without a parent children of this one, or no longer."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0)


PYTHON, PLAIN = sys.executable, subprocess.Popen
NAMES = PLAIN._execute_child.__code__.co_varnames[1 : PLAIN._execute_child.__code__.co_argcount]
servers: list[Server] = []
starting = threading.Lock()


def server() -> Server:
    """The one of this process; the first call starts it."""
    with starting:
        if not servers:
            servers.append(Server.started())
        return servers[0]


class Forked(PLAIN):
    """A copy of the server where a process of this interpreter is asked for. Anything else is started as always."""

    def _execute_child(self, *given):
        asked = dict(zip(NAMES, given, strict=True))
        env = dict(os.environ if asked["env"] is None else asked["env"])
        words = command(asked["args"])
        cwd = os.path.join(os.getcwd(), asked["cwd"] or "")
        wanted = {"words": words, "cwd": cwd, "env": env, "session": asked["start_new_session"], "parent": os.getpid()}
        is_short = len(json.dumps(wanted).encode()) <= BYTES_MAX
        if not (words and is_short and may_fork(asked) and os.path.isdir(cwd) and server().fits(env)):
            return super()._execute_child(*given)
        pipes = ("p2cread", "c2pwrite", "errwrite")
        files = [number if asked[pipe] == -1 else asked[pipe] for number, pipe in enumerate(pipes)]
        self.pid = server().copy(wanted, files)
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in NAMES if name[:3] in ("p2c", "c2p", "err")))
        return None


@contextmanager
def forking(start: type[PLAIN] = Forked) -> Iterator[None]:
    """Processes of this interpreter are copies of the server meanwhile; fresh ones where `start` is `PLAIN`."""
    before, subprocess.Popen = subprocess.Popen, start
    try:
        yield
    finally:
        subprocess.Popen = before


def command(args: object) -> list[str]:
    """What follows this interpreter's name; empty where another program is asked for."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return []
    program, *words = map(str, args)
    if program == str(Path(PYTHON).with_name("planner")):
        return ["-m", "planner", *words]
    options = words[words[:1] == ["-P"] :]
    return words if program == PYTHON and options[:1] in (["-c"], ["-m"]) else []


def may_fork(asked: Mapping[str, object]) -> bool:
    """Whether nothing is asked for that a copy cannot be given."""
    other = asked["shell"] or asked["pass_fds"] or asked["preexec_fn"] or asked["process_group"] != -1
    return sys.platform == "linux" and not other


def early(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that count before a copy has its own."""
    names = {name for name in env if name.startswith(("PYTHON", "LD_", "CUDA"))} - {"PYTHONPATH"}
    return {name: env[name] for name in names}


def serve(line: socket.socket) -> list[str]:
    """Make copies until nobody asks any more; in each copy, the words that it is to run."""
    while True:
        raw, files, _, _ = socket.recv_fds(line, BYTES_MAX, 3)
        if not raw:
            os._exit(0)
        between = os.fork()
        if not between:
            between = os.getpid()
            if number := os.fork():
                line.send(str(number).encode())
                os._exit(0)
            try:
                become(json.loads(raw), files, between)
            except BaseException:
                line.send(FAILED)
                os._exit(1)
            line.send(READY)
            line.close()
            return json.loads(raw)["words"]
        os.waitpid(between, 0)
        for file in files:
            os.close(file)


def become(asked: dict[str, object], files: Sequence[int], between: int) -> None:
    """Be the process that was asked for, but for what it runs: nobody may meet it before."""
    while os.getppid() == between:
        time.sleep(0.001)
    if os.getppid() != asked["parent"]:
        os._exit(1)  # nobody asks for it any more
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def attended(words: list[str]) -> list[str]:
    """The words to run. A whole command has a copy of itself as the server of what it starts; in copies, theirs."""
    if words[0] != "-m":
        return words
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        servers.append(Server(line))
        subprocess.Popen = Forked
        return words
    line.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    return serve(theirs)


def run(words: list[str]) -> None:
    """As Python runs its command line."""
    sys.path[:0] = searched_first = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    begins = (Path(folder, "sitecustomize.py") for folder in searched_first)
    if first := next(filter(Path.is_file, begins), None):
        runpy.run_path(str(first))
    safe = words[0] == "-P"
    how, what, *rest = words[safe:]
    sys.argv[:] = ["-c", *rest]
    if not safe:
        sys.path.insert(0, "" if how == "-c" else os.getcwd())
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), main.__dict__)


def leave(code: object) -> None:
    """End as Python does, but for taking all modules apart, which takes as long as half of a small command."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: for its copies
    gc.disable()
    for module in IMPORTED:
        with suppress(ImportError):
            import_module(module)
    sys.path.remove(str(SITE))
    gc.enable()
    gc.freeze()
    sys.argv, number = sys.argv[:1], int(sys.argv[1])
    words = attended(serve(socket.socket(fileno=number)))
    try:
        run(words)
    except SystemExit as end:
        leave(end.code)
    leave(0)
