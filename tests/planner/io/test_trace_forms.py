"""Recordings as they are published: BurstGPT and Mooncake, packed or not. Rows are made up in the published form.

BurstGPT: the README of github.com/HPMLL/BurstGPT (releases 1.1 and 2.0). Mooncake: FAST25-release/README.md of
github.com/kvcache-ai/Mooncake, whose traces hold one such object a line.
"""

import gzip
import json

import numpy as np
import pytest

from planner.io.load import load_scenario, workload
from planner.io.traces.reading import read_trace
from planner.io.traces.table import TraceError
from planner.io.traces.writing import import_trace

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BURST_2 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def kept(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def mooncake(*requests):
    """JSON lines; a request is its time in milliseconds, or the keys that differ from a whole one."""
    whole = {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 13]}
    changes = (one if isinstance(one, dict) else {"timestamp": one} for one in requests)
    return "".join(json.dumps({k: v for k, v in (whole | c).items() if v is not ...}) + "\n" for c in changes)


@pytest.mark.parametrize("name", ["t", "t.gz"])
@pytest.mark.parametrize(
    "text",
    [
        BURST + "5,ChatGPT,90,12,102,Conversation log\n25,GPT-4,7,1,8,API log\n45,ChatGPT,3,2,5,Conversation log\n",
        BURST_2 + "5.0,,2.1,GPT-4,9,4,13,API log\n25.0,7,0.4,GPT-4,7,1,8,Conversation log\n45.0,,1,GPT-4,3,2,5,x\n",
        mooncake(5000, 25000, 45000),
        "\ufeff" + mooncake(0, 20000.0, {"timestamp": 40000, "hash_ids": ...}) + "\n",
    ],
)
def test_published_forms_give_seconds_from_the_first_arrival(tmp_path, text, name):
    table = read_trace(kept(tmp_path, text, name))
    assert table.times_s.tolist() == [0, 20, 40]
    assert table.notes == ()


def test_what_failed_arrived_all_the_same_and_is_told(tmp_path):
    table = read_trace(kept(tmp_path, BURST + "5,GPT-4,0,0,0,API log\n6,GPT-4,9,4,13,API log\n"))
    assert table.times_s.tolist() == [0, 1]
    assert table.notes == ("BurstGPT: 1 of 2 requests got no response tokens; they arrived, so they count.",)


def test_equal_and_unsorted_times_of_mooncake(tmp_path):
    table = read_trace(kept(tmp_path, mooncake(3000, 3000, 0)))
    assert table.times_s.tolist() == [0, 3, 3]
    assert table.notes == ("1 of 3 rows were out of order; the rows were sorted.",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BURST, "has a header but no arrivals"),
        (BURST + "5,GPT-4,1,1,2,API log\n", "holds 1 arrival. A rate needs at least two"),
        (BURST + "5,GPT-4,1,1,2,x\nsoon,GPT-4,1,1,2,x\n", "t:3: must be seconds from 0 on, got `soon`"),
        (BURST + "soon,GPT-4,1,1,2,x\n5,GPT-4,1,1,2,x\n", "t:2: must be seconds from 0 on, got `soon`"),
        (BURST + "5,GPT-4,1,1,2,x\n6,GPT-4,1.5,1,2,x\n", "t:3: must be a whole number of tokens, got `1.5`"),
        (BURST + "5,GPT-4,1,-1,2,x\n6,GPT-4,1,1,2,x\n", "t:2: must be a whole number of tokens, got `-1`"),
        (BURST + "5,GPT-4,1,1,2,x\n6,GPT-4,1\n", "t:3: must be a whole number of tokens, got nothing"),
        (mooncake(1), "holds 1 arrival. A rate needs at least two"),
        (mooncake(1, 1), "all 2 arrivals have the same time"),
        (mooncake(1, -1), "t:2: `timestamp` must be milliseconds from 0 on, got `-1`. Mend or remove the line."),
        (mooncake(1, 10**400), "t:2: `timestamp` must be milliseconds from 0 on, got `1000"),
        (mooncake(1, float("nan")), "t:2: `timestamp` must be milliseconds from 0 on, got `NaN`"),
        (mooncake(1, "2"), 't:2: `timestamp` must be milliseconds from 0 on, got `"2"`'),
        (mooncake(1, {"timestamp": ...}), "t:2: `timestamp` must be milliseconds from 0 on, but is missing"),
        (mooncake(1, {"input_length": ...}), "t:2: `input_length` must be a number of tokens, but is missing"),
        (mooncake(1, {"output_length": True}), "t:2: `output_length` must be a number of tokens, got `true`"),
        (mooncake(1) + "\n[2]\n", "t:3: must be one JSON object on one line, got `[2]`"),
        ('{\n  "timestamp": 1\n}\n', "t:1: must be one JSON object on one line, got `{`"),
        (mooncake(1, 2)[:-9], "t:2: must be one JSON object on one line"),
    ],
)
@pytest.mark.parametrize("packed", ["t", "t.gz"])
def test_the_first_bad_line_is_named(tmp_path, text, said, packed):
    with pytest.raises(TraceError) as error:
        read_trace(kept(tmp_path, text, packed))
    assert said in str(error.value).replace("t.gz:", "t:")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("cut", [3, -5])
def test_a_broken_archive_is_said(tmp_path, cut):
    path = kept(tmp_path, mooncake(*range(100)), "t.gz")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(TraceError, match=r"t\.gz: is broken: it cannot be unpacked by gzip\. Name a whole"):
        read_trace(path)


def test_json_has_no_columns(tmp_path):
    with pytest.raises(TraceError, match="holds JSON lines, which have no column `timestamp`"):
        read_trace(kept(tmp_path, mooncake(1, 2)), "timestamp")


def test_requests_of_burst_are_counted_from_where_a_comment_says(tmp_path):
    table = read_trace(kept(tmp_path, "# from 0 s, lasts 9 s\n" + BURST + "5,GPT-4,9,1,10,x\n6,GPT-4,9,4,13,x\n"))
    assert (table.times_s.tolist(), table.period_s) == ([5, 6], 9)


def test_imported_and_named_by_a_scenario(tmp_path):
    source = kept(tmp_path, mooncake(*range(0, 100_000, 500)), "t.jsonl.gz")
    import_trace(source, tmp_path / "out.csv", rate_rps=4)
    np.testing.assert_allclose(read_trace(tmp_path / "out.csv").times_s, np.arange(200) / 4)
    asked = "models: [{name: resnet50, slo: {latency: 1 s}}]\nstreams: [{model: resnet50, trace: {file: t.jsonl.gz}}]\n"
    loaded = load_scenario(kept(tmp_path, asked, "s.yaml"))
    assert workload(loaded).rates_rps()["resnet50"] == pytest.approx(2)
