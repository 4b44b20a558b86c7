"""Traces: the unit that a column's name says counts, a header is never an arrival, and zones are not mixed."""

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.api.modelling import predict
from planner.cli import app
from planner.io.load import load_scenario, workload
from planner.io.traces.column_units import unit_of
from planner.io.traces.reading import read_counts, read_trace
from planner.io.traces.table import TraceError
from planner.io.traces.writing import import_trace
from simulator.errors import InputError

SCENARIO = """
models: [{name: resnet50, slo: {latency: 100 ms, attainment: 95 %}}]
streams: [{model: resnet50, trace: {file: t.csv, column: arrival_ms}}]
"""


def csv(folder, text):
    """A file with that text."""
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("column", "name"),
    [
        *((column, "milliseconds") for column in ("arrival_ms", "ms", "Arrival (ms)", "arrivalMs", "time [msec]")),
        *((column, "milliseconds") for column in ("TIMESTAMP_MS", "timestampms", "millis", "ms_since_start")),
        *((column, "microseconds") for column in ("t_us", "ts (µs)", "start_usec", "epochMicros")),
        *((column, "nanoseconds") for column in ("arrival_ns", "startTimeNanos", "time/ns")),
        *((column, "minutes") for column in ("minute", "t_min")),
        *((column, "hours") for column in ("hours", "t_h")),
        *((column, "seconds") for column in ("arrival_s", "time", "us_east_time", "min_arrival", "items", "terms", "")),
        *((column, "seconds") for column in ("arrivals", "timestamps", "status", "columns")),
    ],
)
def test_a_column_says_its_unit(column, name):
    assert unit_of(column).name == name


@pytest.mark.parametrize(("column", "rows"), [("arrival_ms", "1000 2000 4000"), ("t_us", "0 1000000 3000000")])
def test_times_are_read_in_the_unit_of_their_column(tmp_path, column, rows):
    path = csv(tmp_path, "\n".join([column, *rows.split()]) + "\n")
    table = read_trace(path, column)
    np.testing.assert_allclose(table.times_s, [0, 1, 3])
    (note,) = table.notes
    assert f"`{column}` was read as" in note
    kept = import_trace(path, tmp_path / "kept.csv", column=column)
    np.testing.assert_allclose(read_trace(tmp_path / "kept.csv").times_s, kept.times_s)


def test_the_unit_is_said_and_counts_in_a_scenario(tmp_path):
    path = csv(tmp_path, "arrival_ms\n1000\n2000\n3000\n")
    shown = CliRunner().invoke(app, ["trace", "describe", str(path), "--column", "arrival_ms"]).output
    assert "3 arrivals in 3.0 s" in shown
    assert "was read as milliseconds" in shown
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    (stream,) = workload(load_scenario(tmp_path / "s.yaml")).streams
    assert stream.arrivals.rate_rps == pytest.approx(1.0)


def test_dates_need_no_unit(tmp_path):
    table = read_trace(csv(tmp_path, "at_ms\n2024-01-01 00:00:00\n2024-01-01 00:00:01\n"), "at_ms")
    assert (table.times_s.tolist(), table.notes) == ([0, 1], ())


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("0\n1\n2\n", None, "has no header"),
        ("0\n1\n2\n", "0", "has no header"),
        ("0,5\n1,5\n2,5\n", "0", "has no header"),
        ("2024-01-01 00:00:00,GET\n2024-01-01 00:00:01,GET\n", "2024-01-01 00:00:00", "has no header"),
        ("time\n1\n1_000\n", None, "t.csv:3: must be seconds from 0 on, got `1_000`"),
        ("time\n1\n٢\n", None, "t.csv:3: must be seconds from 0 on"),
        ("t_ms\n1\n-1\n", "t_ms", "t.csv:3: must be milliseconds from 0 on, got `-1`"),
        ("time\n2024-01-01T00:00:00\n2024-01-01T00:00:01Z\n", None, "t.csv:3: must be a time without a zone"),
        ("time\n2024-01-01T00:00Z\n\n2024-01-01 00:00:01\n", None, "t.csv:4: must be a time with its zone"),
        ("time\n1700000000000\n1700000001000\n", None, "where the header names it, e.g. `arrival_ms`"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path, text, column, said):
    with pytest.raises(TraceError) as error:
        read_trace(csv(tmp_path, text), column)
    assert said in str(error.value)


def test_zones_that_differ_are_known_moments(tmp_path):
    text = "time\n2024-01-01T00:00:00Z\n2024-01-01T01:00:01+01:00\n2024-01-01T00:00:02-00:00\n"
    assert read_trace(csv(tmp_path, text)).times_s.tolist() == [0, 1, 2]


def test_a_column_of_figures_may_stand_beside_the_times(tmp_path):
    assert read_trace(csv(tmp_path, "time,50,95\n0,1,2\n1,1,2\n")).times_s.tolist() == [0, 1]


def test_counts_need_a_header_too(tmp_path):
    with pytest.raises(TraceError, match="has no header"):
        read_counts(csv(tmp_path, "3\n4\n"), "3")
    with pytest.raises(TraceError, match=r"t\.csv:3: must be a whole number"):
        read_counts(csv(tmp_path, "cars\n3\n1_0\n"), "cars")


@pytest.mark.parametrize(
    ("column", "scale"),
    [
        *((column, 1e3) for column in ("arrival_ms", "timestamp_ms", "Timestamp (ms)", "arrivalTimeMs", "ts_ms")),
        *((column, 1e6) for column in ("time_us", "timestampus", "TIMESTAMP_MICROS")),
        *((column, 1) for column in ("arrival_time_s", "time_sec", "Timestamp (seconds)")),
    ],
)
def test_a_column_of_time_stamps_is_found_with_its_unit(tmp_path, column, scale):
    rows = "\n".join(f"{number},{second * scale:.0f}" for number, second in enumerate((0, 1, 3)))
    np.testing.assert_allclose(read_trace(csv(tmp_path, f"request_id,{column}\n{rows}\n")).times_s, [0, 1, 3])


def test_two_columns_with_units_are_asked_about(tmp_path):
    path = csv(tmp_path, "time_ms,arrival_us\n0,0\n1,1000\n")
    with pytest.raises(TraceError, match=r"has 2 columns of time stamps: `time_ms`, `arrival_us`\. Name one"):
        read_trace(path)


@pytest.mark.parametrize("column", ["requests", "count", "num_requests", "Requests/s", "rps"])
def test_counts_of_arrivals_are_no_arrivals(tmp_path, column):
    rows = "\n".join(f"{1700000000 + 60 * minute},600" for minute in range(30))
    path = csv(tmp_path, f"timestamp,{column}\n{rows}\n")
    with pytest.raises(TraceError, match=f"column `{column}` says how many arrived.*Write a row for each"):
        read_trace(path)
    assert len(read_trace(path, "timestamp").times_s) == 30


@pytest.mark.parametrize("counts", [(0.5, 0.7, 0.2), (1, 0, 1), (2, 1, 1)])
@pytest.mark.parametrize("column", ["rate", "count", "num_requests_total"])
def test_counts_of_few_are_no_arrivals_either(tmp_path, column, counts):
    rows = "\n".join(f"{60 * minute},{count}" for minute, count in enumerate(counts))
    with pytest.raises(TraceError, match=f"column `{column}` says how many arrived"):
        read_trace(csv(tmp_path, f"ts,{column}\n{rows}\n"))


@pytest.mark.parametrize("rows", ["timestamp,requests\n0,1\n1,1\n", "timestamp,request_id\n0,8\n1,9\n"])
def test_one_request_a_row_is_an_arrival(tmp_path, rows):
    assert len(read_trace(csv(tmp_path, rows)).times_s) == 2


@pytest.mark.parametrize(("between", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_other_separators_are_named(tmp_path, between, name):
    path = csv(tmp_path, f"arrival_s{between}size\n0{between}1\n1{between}2\n")
    with pytest.raises(TraceError, match=f":1: its columns are set apart by {name}. Write commas"):
        read_trace(path)
    table = csv(tmp_path, f"gpu{between}model\nT4{between}resnet50\n")
    with pytest.raises(InputError, match=f":1: its columns are set apart by {name}"):
        predict(table)
