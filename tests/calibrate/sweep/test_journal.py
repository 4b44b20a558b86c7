"""The journal: every point once, whole lines only, one writer, one device - whatever ends the writing."""

import errno
import json
import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from calibrate.io.lines import Lines
from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.sweep.journal import WRITER, Header, Journal, JournalError, open_journal, read_journal

DEVICE = {"gpu": "T4", "driver": "570.1", "torch": "2.13.0", "temperature_c": 41.0}


def outcome(batch: int, **kept: object) -> PointOutcome:
    point = Point(what=What.LATENCY, model="lenet", batch=batch, settings=Settings(resolution=448))
    return PointOutcome(
        point=point, status=Status.OK, samples={"wall_s": [0.001, 0.002]}, values={"energy_j": 2.0}, **kept
    )


def written(path: Path, *batches: int) -> Path:
    with closing(open_journal(path, DEVICE, 7, resume=False)) as journal:
        for batch in batches:
            journal.append(outcome(batch))
    return path


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    header, outcomes = read_journal(written(tmp_path / "T4" / "journal.jsonl", 1, 2))
    assert header.provenance == DEVICE
    assert header.seed == 7
    assert outcomes == [outcome(1), outcome(2)]


def test_resume_goes_on_under_the_journals_own_seed(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", 1)
    with closing(open_journal(path, {**DEVICE, "temperature_c": 60.0}, 8, resume=True)) as journal:
        assert journal.header.seed == 7
        journal.append(outcome(2))
    assert [o.point.batch for o in read_journal(path)[1]] == [1, 2]


def test_a_journal_is_not_written_over(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", 1, 2)
    before = path.read_bytes()
    told = r"holds 2 points already\. Add to it with --resume, .* other models too, or name another --out"
    with pytest.raises(JournalError, match=told):
        open_journal(path, DEVICE, 7, resume=False)
    assert path.read_bytes() == before


def test_a_journal_without_points_is_begun_again(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl")
    with closing(open_journal(path, {**DEVICE, "driver": "580.2"}, 9, resume=False)) as journal:
        assert journal.header.seed == 9
    assert len(path.read_text().splitlines()) == 1


def test_another_device_is_refused_by_the_key_that_differs(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", 1)
    with pytest.raises(JournalError, match=r"driver was 570\.1, now it is 580\.2\. .*another --out"):
        open_journal(path, {**DEVICE, "driver": "580.2"}, 7, resume=True)


def test_a_point_is_kept_once(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path / "journal.jsonl", DEVICE, 7, resume=False)) as journal:
        journal.append(outcome(1))
        with pytest.raises(JournalError, match=r"holds lenet\.448px/latency/1/fp32 already"):
            journal.append(outcome(1))


@pytest.mark.parametrize("status", [Status.FAILED, Status.CRASHED, Status.TIMED_OUT])
def test_resume_measures_again_what_failed(tmp_path: Path, status: Status) -> None:
    path = tmp_path / "journal.jsonl"
    failed = PointOutcome(point=outcome(1).point, status=status, message="the GPU was busy")
    with closing(open_journal(path, DEVICE, 7, resume=False)) as journal:
        journal.append(failed)
        journal.append(outcome(2))
        assert list(journal.settled) == [failed.point.key, outcome(2).point.key]
    for again in (failed, outcome(1)):
        with closing(open_journal(path, DEVICE, 7, resume=True)) as journal:
            assert list(journal.settled) == [outcome(2).point.key]
            journal.append(again)
    assert {o.point.batch: o.status for o in read_journal(path)[1]} == {1: Status.OK, 2: Status.OK}
    with closing(open_journal(path, DEVICE, 7, resume=True)) as journal:
        assert len(journal.settled) == 2


def test_resume_does_not_try_again_where_memory_ended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(open_journal(path, DEVICE, 7, resume=False)) as journal:
        journal.append(PointOutcome(point=outcome(1).point, status=Status.OUT_OF_MEMORY))
    with closing(open_journal(path, DEVICE, 7, resume=True)) as journal:
        assert list(journal.settled) == [outcome(1).point.key]


def test_cut_anywhere_it_holds_the_whole_lines_before(tmp_path: Path) -> None:
    """What kill -9 within a write leaves, at 40 places and at each end of a line."""
    whole = written(tmp_path / "journal.jsonl", *range(1, 9)).read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {*random.Random(1).sample(range(len(whole)), 40), *ends}:
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(whole[:cut])
        with closing(open_journal(path, DEVICE, 7, resume=True)) as journal:
            kept = max(sum(end <= cut for end in ends) - 1, 0)
            assert [o.point.batch for o in journal.outcomes.values()] == list(range(1, kept + 1))
            journal.append(outcome(99))
        assert [o.point.batch for o in read_journal(path)[1]] == [*range(1, kept + 1), 99]


def test_a_last_line_of_anything_is_cut_off_and_one_before_it_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", 1, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, b"\0" * 50 + b"\n"]))
    with closing(open_journal(path, DEVICE, 7, resume=True)) as journal:
        assert len(journal.outcomes) == 2
    path.write_bytes(b"".join([lines[0], b"nonsense\n", lines[1]]))
    with pytest.raises(JournalError, match="line 2 is no line of a journal"):
        open_journal(path, DEVICE, 7, resume=True)
    path.write_bytes(b"".join([lines[0], lines[1], lines[1], lines[2]]))
    with pytest.raises(JournalError, match=r"line 3 holds lenet\.448px/latency/1/fp32 again"):
        read_journal(path)


def test_a_foreign_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"schema": "shopping/v1"}\n')
    with pytest.raises(JournalError, match="line 1 is no line of a journal"):
        open_journal(path, DEVICE, 7, resume=False)
    assert "shopping" in path.read_text()


def test_only_one_writes(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", 1)
    with (
        closing(open_journal(path, DEVICE, 7, resume=True)),
        pytest.raises(JournalError, match="another calibration is writing it"),
    ):
        open_journal(path, DEVICE, 7, resume=True)
    open_journal(path, DEVICE, 7, resume=True).close()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"cannot be written \(.*\)\. Name another --out"):
        open_journal(tmp_path / "file" / "T4" / "journal.jsonl", DEVICE, 7, resume=False)


FILL = """
import resource, sys
from contextlib import closing
from pathlib import Path
from calibrate.sweep.journal import JournalError
from test_journal import DEVICE, open_journal, outcome
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with closing(open_journal(Path(sys.argv[1]), DEVICE, 7, resume=False)) as journal:
    for batch in range(1, 1000):
        try:
            journal.append(outcome(batch))
        except JournalError as error:
            print(len(journal.outcomes), error)
            break
"""


def test_where_the_disk_ends_the_whole_lines_stay(tmp_path: Path) -> None:
    """A limit on the file's size stands in for a full disk: a write that is cut short, then one that fails."""
    path = tmp_path / "journal.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", FILL, path], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    kept, message = ran.stdout.split(" ", 1)
    assert message.startswith(f"{path}: cannot be written ({os.strerror(errno.EFBIG)}). Make room")
    assert path.read_bytes().endswith(b"}\n")
    assert int(kept) == len(read_journal(path)[1]) > 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device() -> None:
    lines = Lines(Path("/dev/full"), WRITER, os.open("/dev/full", os.O_RDWR))
    journal = Journal(lines, Header(provenance=DEVICE, seed=7), {})
    with (
        closing(journal),
        pytest.raises(JournalError, match=f"cannot be written .{os.strerror(errno.ENOSPC)}.*--resume"),
    ):
        journal.append(outcome(1))
    with pytest.raises(JournalError, match="is a device or a pipe"):
        open_journal(Path("/dev/full"), DEVICE, 7, resume=False)


def test_what_json_cannot_hold_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(open_journal(path, DEVICE, 7, resume=False)) as journal, pytest.raises(ValueError, match="JSON"):
        journal.append(outcome(1, details={"spread": float("nan")}))
    assert len(path.read_text().splitlines()) == 1


def test_lines_are_json_of_one_schema(tmp_path: Path) -> None:
    first, second = written(tmp_path / "journal.jsonl", 4).read_text().splitlines()
    assert json.loads(first)["schema"] == "planner.journal/v1"
    assert json.loads(second)["point"]["batch"] == 4
