"""The memory log of real runs: it follows memory, survives kill -9 and a full disk, and is drawn."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from calibrate.devices import memory_log
from calibrate.devices.memory_log import MemoryLog, MemoryLogError, Row, draw, read_log, reader, spans, tree_rss_bytes

OCCUPY = "import sys; held = bytearray(b'x' * int(sys.argv[1])); print('ready', flush=True); sys.stdin.readline()"
LOGGED = """
import sys, time
from pathlib import Path
from calibrate.devices.memory_log import MemoryLog, reader
{before}
with MemoryLog(Path(sys.argv[1]), reader("cpu"), every_s=0.005) as log:
    for number in range(100):
        log.mark(f"model/latency/{{number}}", "model", "latency")
        print(number, flush=True)
        time.sleep({pause_s})
print("the run went on", flush=True)
"""

GROWING = """
import sys, time
from pathlib import Path
from calibrate.devices.memory_log import MemoryLog, reader
with MemoryLog(Path(sys.argv[1]), reader("cpu"), every_s=0.01) as log:
    log.mark("small/latency/1", "small", "latency")
    time.sleep(0.1)
    held = bytearray(b"x" * int(sys.argv[2]))
    log.mark("large/latency/1", "large", "latency")
    time.sleep(0.1)
"""


def run_logged(path: Path, before: str = "", pause_s: float = 0.001) -> subprocess.Popen[str]:
    code = LOGGED.format(before=before, pause_s=pause_s)
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_follows_memory_and_is_drawn(tmp_path: Path) -> None:
    """In a process of its own: one that ran other tests gives their memory back meanwhile."""
    path, wanted_bytes = tmp_path / "log.csv", 200_000_000
    command = [sys.executable, "-c", GROWING, str(path), str(wanted_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = read_log(path)
    before = min(row.memory_bytes for row in rows if row.model == "small")
    after = max(row.memory_bytes for row in rows if row.model == "large")
    assert after - before >= 0.8 * wanted_bytes
    assert [row.t_s for row in rows] == sorted(row.t_s for row in rows)
    assert {row.running for row in rows} <= {"", "small/latency/1", "large/latency/1"}
    picture = tmp_path / "log.png"
    assert (done.returncode, done.stderr) == (0, f"memory log: {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_it_started_counts() -> None:
    wanted_bytes = 100_000_000
    before = tree_rss_bytes(os.getpid())
    command = [sys.executable, "-c", OCCUPY, str(wanted_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        assert tree_rss_bytes(child.pid) >= wanted_bytes
        assert tree_rss_bytes(os.getpid()) - before >= 0.9 * wanted_bytes
        child.kill()


@pytest.mark.skipif(not shutil.which("ps"), reason="ps is not installed")
def test_a_list_of_all_processes_says_the_same() -> None:
    assert memory_log._listed_rss_bytes(os.getpid()) == pytest.approx(tree_rss_bytes(os.getpid()), rel=0.2)


def test_after_kill_9_what_was_logged_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with run_logged(path, pause_s=0.05) as run:
        assert run.stdout
        while run.stdout.readline() != "5\n":
            pass
        run.send_signal(signal.SIGKILL)
    assert {row.running for row in read_log(path)} >= {f"model/latency/{number}" for number in range(6)}


def test_a_full_disk_ends_the_log_and_not_the_run(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))"
    path = tmp_path / "log.csv"
    with run_logged(path, before=limit) as run:
        out, err = run.communicate()
    assert run.returncode == 0
    assert out.endswith("the run went on\n")
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        f"memory log: {path}: ends here",
        f"memory log: {path.with_suffix('.png')}: not drawn",
    ]
    assert read_log(path)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("of before")
    with pytest.raises(MemoryLogError, match="is there already"), MemoryLog(path, reader("cpu")):
        pass
    assert path.read_text() == "of before"


@pytest.mark.parametrize(
    ("path", "says"),
    [("nowhere/log.csv", "cannot be written (No such file or directory)"), ("log.png", "the log is CSV")],
)
def test_where_it_cannot_be_written(tmp_path: Path, path: str, says: str) -> None:
    with pytest.raises(MemoryLogError) as refused, MemoryLog(tmp_path / path, reader("cpu")):
        pass
    assert str(refused.value).startswith(f"--memory-log: {tmp_path / path}: {says}")


@pytest.mark.usefixtures("forked")
def test_a_device_whose_memory_cannot_be_read() -> None:
    with pytest.raises(MemoryLogError, match=r"cuda:99: its memory cannot be read \(.*\)\. Leave"):
        reader("cuda:99")


def test_a_line_cut_off_is_left_out_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('t_s,memory_bytes,running,model,phase\n0.0,100,x,"a, b",load\n0.1,20')
    assert read_log(path) == [Row(0.0, 100, "x", "a, b", "load")]
    path.write_text("other\n1\n")
    with pytest.raises(MemoryLogError, match="is not a memory log"):
        read_log(path)


def test_spans_join_what_one_model_ran() -> None:
    marks = [(0.0, "", ""), (1.0, "a", "layers"), (2.0, "a", "load"), (3.0, "b", "layers"), (4.0, "a", "layers")]
    rows = [Row(t_s, 1, "", *running) for t_s, *running in marks]
    assert spans(rows, lambda row: (row.model,)) == [("a", 1.0, 3.0), ("b", 3.0, 4.0), ("a", 4.0, 4.0)]


def test_spans_of_phases() -> None:
    marks = [(0.0, "load", "1"), (1.0, "memory", "1"), (2.0, "memory", "2"), (3.0, "latency", "1")]
    rows = [Row(t_s, 1, running, "a", phase) for t_s, phase, running in marks]
    assert spans(rows, lambda row: (row.model, row.phase)) == [
        ("a/load", 0.0, 1.0),
        ("a/memory", 1.0, 3.0),
        ("a/latency", 3.0, 3.0),
    ]


@pytest.mark.parametrize("held_bytes", [1, 480_000_000, 79_000_000_000])
def test_memory_that_does_not_change_is_seen_inside_the_frame(held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(memory_log, "save", lambda figure, *_: drawn.append(figure))
    draw([Row(t_s, held_bytes, "net/latency/1", "net", "latency") for t_s in (0.0, 1.0, 2.0)], Path("log.png"))
    (axes,) = drawn[0].axes
    (line,) = axes.lines[:1]
    bottom, top = axes.get_ylim()
    assert bottom == 0, "heights are in proportion to bytes"
    assert set(line.get_ydata()) == {held_bytes / 1e9}
    assert 0.05 < held_bytes / 1e9 / top < 0.95


def test_why_there_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.png"
    assert draw([], path) == f"memory log: {path}: not drawn, nothing was logged"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw([Row(0.0, 1)], path).endswith("matplotlib is not installed. pip install matplotlib")
    assert not path.exists()
