"""Property tests draw the same examples on every run; `--hypothesis-profile=default` draws new ones."""

import os
import signal

import pytest
import torchvision_guard
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
torchvision_guard.activate()
# Tests run beside each other: threads of one would wait for those of the next.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell starts what it runs in the background with Ctrl-C ignored, and what is ignored is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def torchvision_in_workers(monkeypatch):
    """Processes that the test starts can import torchvision too."""
    monkeypatch.setenv("PYTHONPATH", torchvision_guard.search_path())
