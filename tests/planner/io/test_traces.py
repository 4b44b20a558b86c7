"""Traces: every format gives the same sorted seconds; what cannot be used is refused in one line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from support.paths import PUBLIC, ROOT

from planner.io.load import load_scenario, workload
from planner.io.traces.reading import read_trace
from planner.io.traces.summary import describe
from planner.io.traces.table import TraceError
from planner.io.traces.writing import import_trace
from planner.model.replications import horizon_s
from planner.show.text.listings.traces import trace_summary
from planner.units.writing import Screen
from simulator.world.workload import draw

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
        ("arrival_s\n-3\n1\n4\n", "t.csv:2: must be seconds from 0 on, got `-3`"),
        ("# c\nid,arrival_s\na,1\nb\n", "t.csv:4: must be seconds from 0 on, got nothing"),
        ("time\n2023-11-16 18:17:03\n2023-13-16 18:17:03\n", "t.csv:3: must be a date with time like"),
        ('time\n2023-11-16 18:17:03\n""\n', "t.csv:3: must be a date with time like"),
        ("time\nsoon\nlater\n", "t.csv:2: must be a date with time like"),
        (functions(f=[1, -1]), "t.csv:2: counts a minute must be whole numbers from 0 to 15,000,000"),
        (functions(f=[1, 0.5]), "t.csv:2: counts a minute must be whole numbers from 0 to 15,000,000"),
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
    with pytest.raises(TraceError, match="is a directory"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match=r"is a directory\. Name another file"):
        import_trace(csv(tmp_path, "arrival_s\n1\n2\n"), tmp_path)


def test_import_scales_then_cuts(tmp_path):
    source = csv(tmp_path, "arrival_s\n" + "\n".join(str(i) for i in range(100)))
    import_trace(source, tmp_path / "out.csv", rate_rps=4, duration_s=10)
    again = read_trace(tmp_path / "out.csv")
    np.testing.assert_allclose(again.times_s, np.arange(40) / 4)
    assert again.rate_rps == pytest.approx(4)
    with pytest.raises(TraceError, match="lasts 25 s, not 26 s"):
        import_trace(source, tmp_path / "out.csv", rate_rps=4, duration_s=26)


SILENT_ENDS = functions(f=[0, 60, 0, 0])
LONG_PAUSE = "arrival_s\n0\n1\n2\n3\n100\n"
THIRDS = "arrival_s\n0\n0.1\n0.4\n1\n"  # lasts 4/3 s, which no file in microseconds holds exactly


@pytest.mark.parametrize(
    ("text", "wish", "rate_rps", "lasts_s", "first_s"),
    [
        (SILENT_ENDS, {}, 60 / 86_400, 86_400, 60.5),
        (SILENT_ENDS, {"rate_rps": 1 / 4}, 1 / 4, 240, 60.5 / 360),
        (SILENT_ENDS, {"duration_s": 300}, 1 / 5, 300, 60.5),
        (LONG_PAUSE, {"duration_s": 60}, 4 / 60, 60, 0),
        (LONG_PAUSE, {"rate_rps": 0.4, "duration_s": 12.5}, 0.4, 12.5, 0),  # all of it, but for rounding
        (THIRDS, {}, 3, 4 / 3, 0),
        ("# from 5 s, lasts 1 min\narrival_s\n10\n20\n", {}, 1 / 30, 60, 5),
    ],
)
def test_what_was_silent_comes_back(tmp_path, text, wish, rate_rps, lasts_s, first_s):
    made = import_trace(csv(tmp_path, text), tmp_path / "out.csv", **wish)
    again = read_trace(tmp_path / "out.csv")
    assert (again.rate_rps, again.period_s) == (pytest.approx(rate_rps), pytest.approx(lasts_s))
    assert again.times_s[0] == pytest.approx(first_s, abs=1e-6)
    assert (again.times_s.tolist(), again.period_s) == (made.times_s.tolist(), made.period_s)
    import_trace(tmp_path / "out.csv", tmp_path / "twice.csv")
    (tmp_path / "packed").write_bytes(gzip.compress((tmp_path / "twice.csv").read_bytes()))
    packed = read_trace(tmp_path / "packed")
    assert (packed.times_s.tolist(), packed.period_s) == (made.times_s.tolist(), made.period_s)
    first, *rest = (tmp_path / "twice.csv").read_text().splitlines()
    assert first.endswith("from out.csv, made by the planner")
    assert rest == (tmp_path / "out.csv").read_text().splitlines()[1:]


def test_a_scenario_repeats_what_was_silent(tmp_path):
    import_trace(csv(tmp_path, LONG_PAUSE), tmp_path / "out.csv", duration_s=60)
    asked = "models: [{name: resnet50, slo: {latency: 1 s}}]\nstreams: [{model: resnet50, trace: {file: out.csv%s}}]\n"
    for change, period_s in (("", 60), (", rate: 2 rps", 2)):
        demand = workload(load_scenario(csv(tmp_path, asked % change, "s.yaml")))
        assert demand.rates_rps()["resnet50"] == pytest.approx(4 / period_s)
        drawn = draw(demand, 3 * period_s, 1)["resnet50"].arrival_s
        first = np.arange(4) * period_s / 60
        np.testing.assert_allclose(drawn, [*first, *(first + period_s), *(first + 2 * period_s)])


@pytest.mark.parametrize("text", ["# 2 arrivals from 9 sites", "# from our gateway, lasts a week", "#"])
def test_other_comments_say_nothing_of_the_length(tmp_path, text):
    assert read_trace(csv(tmp_path, text + "\narrival_s\n5\n6\n")).period_s == 2
    assert read_trace(csv(tmp_path, "arrival_s\n5\n" + text + "\n6\n")).period_s == 2


@pytest.mark.parametrize("start", ["# from 0 s, lasts 60 s", "#From 0 s ,  LASTS 1 min ", "\ufeff# from 0, lasts 60\r"])
@pytest.mark.parametrize("header", ["arrival_s\n5\n20\n", "id,time\na,5\nb,20\n", "# more\n\ntime\n20\n5\n"])
def test_the_length_may_be_written_by_hand(tmp_path, start, header):
    table = read_trace(csv(tmp_path, start + "\n" + header))
    assert (table.times_s.tolist(), table.period_s) == ([5, 20], 60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# from 0 s, lasts 6 s",
            "t.csv: is said to be from 0 s and to last 6 s, but its arrivals are from 5 s to 7 s.",
        ),
        (
            "# from 6 s, lasts 9 s",
            "t.csv: is said to be from 6 s and to last 9 s, but its arrivals are from 5 s to 7 s.",
        ),
        ("# from 0 s, lasts 0 s", "to last 0 s, but its arrivals are from 5 s to 7 s. Mend or remove the line"),
        ("# from 0 s, lasts 1e11 s", "t.csv:1: `# from 0 s, lasts 1e11 s`: must be at most 1e+10 s, got 1e11 s."),
        (
            "# c\n# from 0 s, lasts 4 moons",
            "t.csv:2: `# from 0 s, lasts 4 moons`: unknown unit `moons` for a duration.",
        ),
        ("# from 0 s, lasts long", "t.csv:1: `# from 0 s, lasts long`: must be a duration, got `long`."),
        ("# from 0 s, lasts -1 s", "must not be negative, got -1 s"),
        ("# from 0 s, lasts 9 s\n# from 0 s, lasts 8 s", "t.csv:2: says a second time how long the recording lasts."),
    ],
)
def test_a_length_that_cannot_be_is_refused(tmp_path, text, said):
    with pytest.raises(TraceError) as error:
        read_trace(csv(tmp_path, text + "\narrival_s\n5\n7\n"))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_left_of_a_recording_can_be_read(tmp_path):
    """Of what comes at one moment, after a cut or to the microsecond, nothing is written: no rate could be read."""
    for text, wish in (("0\n0\n9\n", {"duration_s": 5}), ("0\n0.0000001\n9\n", {"duration_s": 5})):
        with pytest.raises(TraceError, match="all 2 arrivals have the same time"):
            import_trace(csv(tmp_path, "arrival_s\n" + text), tmp_path / "out.csv", **wish)
    assert not (tmp_path / "out.csv").exists()


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
    path = PUBLIC / "azure-llm-2023-code.csv"
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


def recorded(folder: Path, text: str) -> Path:
    path = folder / "r.csv"
    path.write_text(text)
    return path


def test_the_busiest_minute_is_measured_by_the_mean_rate(tmp_path: Path) -> None:
    times = "".join(f"{n / 10}\n" for n in range(600))
    table = read_trace(recorded(tmp_path, f"# from 0 s, lasts 119 s\narrival_s\n{times}"))
    assert describe(table).peak_to_mean_1min == pytest.approx(10 / (600 / 119))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time\n0001-01-01 00:00:00\n2024-01-01 00:00:00\n", "spans 6.38e+10 s"),
        ("time\n2024-01-01 00:00:00\n5\n", "spans"),
        ("time\n1700000000000\n1700000001000\n", "begins at 1.7e+12 s, more than 1e+10. Write times in seconds."),
        ("# from 0 s lasts 1000 s\narrival_s\n0\n1\n", "r.csv:1: cannot be read as a length. Write it as"),
        ("# from -5 s, lasts 1000 s\narrival_s\n0\n1\n", "r.csv:1: cannot be read as a length"),
        ("# lasts 1000 s\narrival_s\n0\n1\n", "r.csv:1: cannot be read as a length"),
    ],
)
def test_what_would_give_another_rate_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(recorded(tmp_path, text))
    assert said in str(error.value)


@pytest.mark.parametrize("comment", ["# arrivals from 9 to 5", "# the last 3 days were quiet", "# from a shop"])
def test_other_comments_are_only_comments(tmp_path: Path, comment: str) -> None:
    assert read_trace(recorded(tmp_path, f"{comment}\narrival_s\n0\n1\n")).times_s.tolist() == [0, 1]


def test_a_short_recording_is_replayed_whole_times(tmp_path: Path) -> None:
    """40 s whose traffic is all in the first 10 s: 61 s would hold it twice, and a rate a third too high."""
    recorded(tmp_path, "# from 0 s, lasts 40 s\narrival_s\n" + "".join(f"{n / 40}\n" for n in range(400)))
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "models: [{name: resnet50, slo: {latency: 1 s}}]\nstreams: [{model: resnet50, trace: {file: r.csv}}]\n"
    )
    loaded = load_scenario(scenario)
    judged_s = horizon_s(loaded.scenario, workload(loaded)) - 2.0
    assert judged_s == 80.0
