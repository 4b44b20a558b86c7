"""Traces: every format gives the same sorted seconds; what cannot be used is refused in one line."""

import os
from pathlib import Path

import numpy as np
import pytest

from planner.layout import Screen
from planner.listings import trace_summary
from planner.traces import TraceError, describe, import_trace, read_trace

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("PLANNER_TEST_DATA", ROOT.parent / "shared" / "data"))
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
FUNCTIONS = "HashOwner,HashApp,HashFunction,Trigger," + ",".join(str(i + 1) for i in range(1440)) + "\n"


def csv(folder, text, name="t.csv"):
    """A file with that text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def functions(**counts):
    """Rows of the Azure Functions format: the first minutes as given, then nothing."""
    rows = [f"o,a,{name},http,{','.join(map(str, [*few, *[0] * (1440 - len(few))]))}" for name, few in counts.items()]
    return FUNCTIONS + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "arrival_s\n5\n5.5\n7\n",
        "# a comment\nid,Timestamp\na,1700000005\nb,1700000005.5\n\n# another\nc,1700000007\n",
        "\ufefftime\r\n5\r\n5.5\r\n7\r\n",
        AZURE + "2023-11-16 18:17:03.9799600,1,2\n2023-11-16 18:17:04.4799600,1,2\n2023-11-16 18:17:05.9799600,3,4\n",
        'time,note\n2024-02-29T23:59:59Z,x\n2024-02-29T23:59:59.5Z,x\n2024-03-01T01:00:01+01:00,"a, b"\n',
    ],
)
def test_formats_give_seconds_from_the_first_arrival(tmp_path, text):
    table = read_trace(csv(tmp_path, text))
    np.testing.assert_allclose(table.times_s, [0, 0.5, 2], atol=1e-6)
    assert table.period_s == pytest.approx(3)
    assert table.rate_rps == pytest.approx(1)
    assert table.notes == ()


def test_rows_out_of_order_are_sorted_and_it_is_said(tmp_path):
    table = read_trace(csv(tmp_path, "arrival_s\n7\n5\n5.5\n"))
    assert table.times_s.tolist() == [0, 0.5, 2]
    assert table.notes == ("1 of 3 rows were out of order; the rows were sorted.",)


def test_column_can_be_named(tmp_path):
    path = csv(tmp_path, "when,time\n0,9\n1,9\n")
    assert read_trace(path, "when").times_s.tolist() == [0, 1]
    with pytest.raises(TraceError, match=r"has no column `wen`\. Did you mean `when`"):
        read_trace(path, "wen")


def test_functions_spread_the_calls_of_a_minute_evenly(tmp_path):
    path = csv(tmp_path, functions(few=[2, 0, 1], many=[0, 4, 4]))
    assert read_trace(path, function="few").times_s.tolist() == [15, 45, 150]
    assert read_trace(path).times_s.size == 8  # the busiest
    both = read_trace(path, function=2)
    assert both.times_s.size == 11
    assert both.period_s == 86400
    assert np.all(np.diff(both.times_s) > 0)
    with pytest.raises(TraceError, match="has no function `none`"):
        read_trace(path, function="none")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("arrival_s\n", "has a header but no arrivals"),
        ("arrival_s\n1\n", "holds 1 arrival. A rate needs at least two"),
        ("arrival_s\n1\n1\n", "all 2 arrivals have the same time"),
        ("x,y\n1,2\n", "has no column of time stamps: none of x, y is called arrival_s"),
        ("arrival_s\n1\n2\nthree\n", "t.csv:4: must be seconds from 0 on, got `three`. Mend or remove the row."),
        ("arrival_s\n1\nnan\n", "t.csv:3: must be seconds from 0 on, got `nan`"),
        ("arrival_s\n1\ninf\n", "t.csv:3: must be seconds from 0 on, got `inf`"),
        ("arrival_s\n1\n-2\n", "t.csv:3: must be seconds from 0 on, got `-2`"),
        ("# c\nid,arrival_s\na,1\nb\n", "t.csv:4: must be seconds from 0 on, got nothing"),
        ("time\n2023-11-16 18:17:03\n2023-13-16 18:17:03\n", "t.csv:3: must be a date with time like"),
        ('time\n2023-11-16 18:17:03\n""\n', "t.csv:3: must be a date with time like"),
        ("time\nsoon\nlater\n", "t.csv:2: must be a date with time like"),
        (functions(f=[1, -1]), "t.csv:2: counts a minute must be whole numbers from 0 on"),
        (functions(f=[1, 0.5]), "t.csv:2: counts a minute must be whole numbers from 0 on"),
        (functions(f=[1]), "holds 1 arrival"),
        (FUNCTIONS, "has no functions"),
    ],
)
def test_bad_recordings_are_refused_in_one_line(tmp_path, text, fragment):
    with pytest.raises(TraceError) as error:
        read_trace(csv(tmp_path, text))
    assert fragment in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin").write_bytes(b"time\n\xe9\n")
    with pytest.raises(TraceError, match="is not UTF-8"):
        read_trace(tmp_path / "latin")
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none")
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match="cannot be written"):
        import_trace(csv(tmp_path, "arrival_s\n1\n2\n"), tmp_path)


def test_import_scales_then_cuts(tmp_path):
    source = csv(tmp_path, "arrival_s\n" + "\n".join(str(i) for i in range(100)))
    import_trace(source, tmp_path / "out.csv", rate_rps=4, duration_s=10)
    again = read_trace(tmp_path / "out.csv")
    np.testing.assert_allclose(again.times_s, np.arange(40) / 4)
    assert again.rate_rps == pytest.approx(4)
    with pytest.raises(TraceError, match="lasts 25 s, not 26 s"):
        import_trace(source, tmp_path / "out.csv", rate_rps=4, duration_s=26)


def test_describe_knows_even_from_bursty(tmp_path):
    even = describe(read_trace(csv(tmp_path, "arrival_s\n" + "\n".join(f"{i / 10:.1f}" for i in range(1200)))))
    assert even.count == 1200
    assert even.mean_rate_rps == pytest.approx(10)
    assert even.gap_cv == pytest.approx(0, abs=1e-9)
    assert even.peak_to_mean_1min == pytest.approx(1)
    bursts = np.repeat(np.arange(0, 600, 60), 30) + np.tile(np.arange(30) / 100, 10)
    bursty = describe(read_trace(csv(tmp_path, "arrival_s\n" + "\n".join(f"{t:.2f}" for t in bursts))))
    assert bursty.gap_cv > 5
    assert bursty.busiest[0].count == 30
    assert bursty.peak_to_mean_1s > 20


def test_gaps_of_independent_arrivals_have_cv_one(tmp_path):
    times = np.cumsum(np.random.default_rng(7).exponential(0.1, 20_000))
    summary = describe(read_trace(csv(tmp_path, "arrival_s\n" + "\n".join(f"{t:.6f}" for t in times))))
    assert summary.gap_cv == pytest.approx(1, abs=4 / np.sqrt(20_000))  # four standard errors of an exponential's cv
    assert summary.mean_rate_rps == pytest.approx(10, rel=4 / np.sqrt(20_000))


def test_azure_llm_trace():
    path = DATA / "azure-llm-2023-code.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    table = read_trace(path)
    summary = describe(table)
    assert summary.count == 8819
    assert table.times_s[1] == pytest.approx(0.052, abs=1e-6)  # 18:17:04.0319600 after 18:17:03.9799600
    assert summary.mean_rate_rps == pytest.approx(8819 / summary.duration_s)
    assert summary.gap_cv > 2
    assert table.at_rate(10).rate_rps == pytest.approx(10)


def test_the_shipped_recording_is_what_its_header_says():
    rng = np.random.default_rng(2024)
    times, start, busy = [], 0.0, False
    while len(times) < 3600:
        length = rng.exponential(4.0 if busy else 20.0)
        arrivals = rng.poisson((40.0 if busy else 5.0) * length)
        times.extend(np.sort(rng.uniform(start, start + length, arrivals)))
        start, busy = start + length, not busy
    shipped = read_trace(ROOT / "scenarios" / "data" / "bursts.csv")
    np.testing.assert_allclose(shipped.times_s, np.array(times[:3600]) - times[0], atol=0.00051)


def test_windows_longer_than_the_recording_are_not_judged(tmp_path):
    table = read_trace(csv(tmp_path, "arrival_s\n" + "".join(f"{i / 25}\n" for i in range(500))))
    summary = describe(table)
    assert {w.length_s for w in summary.busiest} == {1.0}
    assert summary.peak_to_mean_1min == 1
    text = trace_summary("t.csv", summary, Screen())
    assert "minute" not in text
    assert "60 s" not in text


def test_a_recording_with_an_outlier_is_described_in_little_memory(tmp_path):
    table = read_trace(csv(tmp_path, "arrival_s\n0\n1700000000\n1700000000.5\n"))
    assert max(w.count for w in describe(table).busiest) == 2


def test_times_that_are_no_seconds_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"t\.csv: spans 1e\+308 s, more than 1e\+10\. Write times in seconds\."):
        read_trace(csv(tmp_path, "arrival_s\n0\n1e308\n"))


def test_a_recording_is_never_written_over(tmp_path):
    path = csv(tmp_path, "arrival_s\n0\n1\n")
    with pytest.raises(TraceError, match="is the recording itself"):
        import_trace(path, path)
    assert path.read_text() == "arrival_s\n0\n1\n"
