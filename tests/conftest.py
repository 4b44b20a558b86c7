"""Property tests draw the same examples on every run; `--hypothesis-profile=default` draws new ones."""

import gc
import os
import signal
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from support import forks, torchvision_guard

from simulator.machine_code import alone

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
torchvision_guard.activate()
# Tests run beside each other: threads of one would wait for those of the next.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a test plans is worked out, not taken from an earlier run.
os.environ.setdefault("PLANNER_NO_CACHE", "1")
# Each process that a test starts would compile all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# On a fresh clone one process compiles what it imports, while the others wait to find it; else each would compile it.
collecting, compiled = ExitStack(), Path(__file__).parents[1] / "planner" / "__pycache__"
if "PYTEST_XDIST_WORKER" in os.environ and not compiled.exists():
    collecting.enter_context(alone(Path(__file__).parent / "__pycache__" / "collecting.lock"))
    if compiled.exists():
        collecting.close()
# Looking for garbage in what is imported took a quarter of the time of collecting.
gc.set_threshold(20_000)
# A shell starts what it runs in the background with Ctrl-C ignored, and what is ignored is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

EARLY = tuple(
    f"tests/{name}"
    for name in (
        "simulator/clock/test_compiled.py",
        "simulator/flow/compiled",
        "simulator/clock/test_worlds.py",
        "planner/placing/test_exchanges.py",
        "calibrate/test_cli.py",
        "calibrate/sweep/test_sweep.py",
        "planner/test_cli.py",
        "test_walks.py",
        "planner/questions/validation",
        "planner/questions/studies",
        "calibrate/sweep/test_cuda.py",
        "planner/search/test_kept_words.py",
        "planner/search/test_pipelines.py",
        "planner/io/test_foreign.py",
        "planner/questions/horizons",
        "planner/questions/training",
        "calibrate/joint",
        "planner/search",
        "planner/prediction",
        "simulator",
        "calibrate",
    )
)
"""First where machine code is made, each by one process: two that need the same at once make it twice, and who plans
before it is there does without. Then files that take longest: were one of these the last, it would run while the other
process has ended."""

WAITING = tuple(
    f"tests/{name}"
    for name in (
        "calibrate/sweep/test_cuda.py",
        "planner/questions/studies/test_studies_ray.py",
        "calibrate/serving",
        "calibrate/sweep/test_sweep.py",
        "planner/questions/validation/test_bench.py",
        "planner/exports/checking/test_check_slo.py",
    )
)
"""Files that wait more than they compute, for processes that they start, or for the time of a real run. Of three
processes one has these, and nothing else: two cores are busy then."""

assert all((Path(__file__).parents[1] / one).exists() for one in (*EARLY, *WAITING))


def pytest_collection_modifyitems(items):
    """Brings those that are EARLY to the front, in that order."""

    @cache
    def place(file):
        return next((i for i, early in enumerate(EARLY) if file.startswith(early)), len(EARLY))

    items.sort(key=lambda item: place(item.nodeid.partition("::")[0]))


def pytest_collection_finish():
    """What was imported stays: looking for garbage in it, again and again, took a tenth of the time of all tests."""
    collecting.close()
    gc.freeze()


def pytest_unconfigure():
    """What is left is thrown away at the end: duckdb says what it finds."""
    gc.unfreeze()
    for server in forks.servers:
        server.end()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Gives each process one file at a time, in the order of `EARLY`: tests of one share what takes long to make."""
    config.option.loadscopereorder = False  # files of many tests before all others
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _assign_work_unit(self, node):
            """The next file that is the process's own, else any."""
            if (scope := self._own(node)) is not None:
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

        def _own(self, node):
            """The next file that waits, for the last of three processes; for others the next that does not."""
            waits = self._only_waits(node)
            return next((scope for scope in self.workqueue if scope.startswith(WAITING) == waits), None)

        def _only_waits(self, node):
            others = [one for one in self.nodes if one is not node and not one.shutting_down]
            return len(others) > 1 and node is self.nodes[-1]

        def _reschedule(self, node):
            """Forgets what has ended, which xdist would count again after each test."""
            if self._only_waits(node) and not node.shutting_down and self._own(node) is None:
                node.shutdown()
            work = self.assigned_work[node]
            for scope in [scope for scope, ended in work.items() if all(ended.values())]:
                del work[scope]
            super()._reschedule(node)

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def modules_of_its_folder(request):
    """What a test imports from its own folder is not there for the next, whose module may have the same name."""
    before = set(sys.modules)
    yield
    if folder := request.node.funcargs.get("tmp_path"):
        for name in sys.modules.keys() - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


@pytest.fixture
def torchvision_in_workers(monkeypatch):
    """Processes that the test starts can import torchvision too."""
    monkeypatch.setenv("PYTHONPATH", torchvision_guard.search_path())


@pytest.fixture(scope="module")
def forked():
    """Processes that tests of a file start are copies of one that has imported torch and the planner."""
    with forks.forking():
        yield
