"""Copies of a server in place of fresh processes: what cannot be copied is started, and nothing waits for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import forks
from support.forks import Server, forking

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")


def said(code: str, **asked: object) -> str:
    """What a process says that runs this code, as a copy where that can be."""
    with forking():
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, **asked).stdout


def test_a_copy_is_a_child_with_variables_and_a_folder_of_its_own(tmp_path: Path) -> None:
    code = "import os, sys; print('torch' in sys.modules, os.getppid(), os.environ['OF_ITS_OWN'], os.getcwd())"
    told = said(code, cwd=tmp_path, env=os.environ | {"OF_ITS_OWN": "yes"})
    assert told.split() == ["True", str(os.getpid()), "yes", str(tmp_path)]


def test_more_variables_than_can_be_told_make_a_fresh_process() -> None:
    long = {f"LONG_{number}": "x" * 100_000 for number in range(2)}
    code = "import os, sys; print('torch' in sys.modules, len(os.environ['LONG_1']))"
    assert said(code, env=os.environ | long).split() == ["False", "100000"]


def test_a_server_that_was_killed_is_named_and_the_next_copy_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Server.started()
    monkeypatch.setattr(forks, "servers", [own])
    own.process.kill()
    with pytest.raises((OSError, ValueError)):
        said("")
    assert forks.servers == []
    assert said("print('again')") == "again\n"
    forks.servers[0].end()
