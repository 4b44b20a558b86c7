"""Loading: scenarios become frozen SI data; overrides, YAML 1.2, references, demand, schema."""

import hashlib
import json
import math

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import SCENARIOS

from planner.catalog.catalog import load_catalog
from planner.io.load import PROBLEMS_SHOWN, ScenarioError, load_scenario, schema, workload
from planner.io.starter import starter
from planner.io.strict_yaml import YamlError, parse
from planner.model.replications import confidence_of, horizon_s, requests_needed, warmup_s
from planner.model.scenario import MemoryPolicy
from planner.search.names import spelt
from simulator.clock.metrics import attainment_interval
from simulator.world.deployment import Eviction
from simulator.world.workload import FixedRate, Gamma, Poisson, Trace, draw

FILES = sorted(SCENARIOS.glob("*.yaml"))
TEXTS = st.text(st.characters(codec="ascii"))
SMALL = """\
models:
  - {name: a.1, slo: {latency: 100 ms}}
  - {name: b, slo: {latency: 1 s, attainment: 95 %}}
streams:
  - {name: first, model: a.1, rate: 30 fps}
  - {model: b, poisson: 2 rps}
"""


def load(folder, text=SMALL, *overrides):
    """What the loader makes of a text."""
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return load_scenario(path, overrides)


def problems(folder, text=SMALL, *overrides):
    """What the loader has against a text."""
    with pytest.raises(ScenarioError) as error:
        load(folder, text, *overrides)
    return [problem.replace(str(folder) + "/", "") for problem in error.value.problems]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenarios_load_and_fit_the_schema(path):
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    jsonschema.validate(parse(text).data, schema())
    loaded = load_scenario(path)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert workload(loaded).streams


def test_committed_schema_is_the_one_that_is_written():
    assert (SCENARIOS / "scenario.schema.json").read_text() == json.dumps(schema(), indent=2) + "\n"
    jsonschema.Draft202012Validator.check_schema(schema())


def test_schema_tells_editors_what_the_fields_mean():
    slo = schema()["$defs"]["SloSpec"]["properties"]["latency"]
    assert slo["description"].startswith("Longest acceptable time")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"latency": "30 fps"}, schema()["$defs"]["SloSpec"])


def test_sizes_of_the_scenarios():
    demand = {path.stem: sum(stream.count for stream in load_scenario(path).scenario.streams) for path in FILES}
    assert demand["fleet"] == 200
    assert demand["video"] == 44
    assert len(load_scenario(SCENARIOS / "video.yaml").scenario.models) == 8


def test_starter_loads(tmp_path):
    scenario = load(tmp_path, starter()).scenario
    assert scenario.models[0].slo.latency == 0.15
    jsonschema.validate(parse(starter()).data, schema())


def test_people_write_units_and_the_scenario_is_si(tmp_path):
    scenario = load(tmp_path, SMALL + "headroom: 20 %\ncontext: 1 GiB\nswap: {eviction: mru}\nmemory: swap\n").scenario
    assert scenario.models[0].slo.latency == 0.1
    assert scenario.models[1].slo.attainment == 0.95
    assert scenario.headroom == 0.2
    assert scenario.context == 2**30
    assert scenario.swap.eviction is Eviction.MRU
    assert scenario.memory is MemoryPolicy.SWAP


def test_a_byte_order_mark_is_accepted(tmp_path):
    assert load(tmp_path, "\ufeff" + SMALL).scenario == load(tmp_path, SMALL).scenario


def test_anchors_share_values(tmp_path):
    text = SMALL.replace("{latency: 100 ms}", "&slo {latency: 100 ms}")
    text = text.replace("{latency: 1 s, attainment: 95 %}", "*slo")
    first, second = load(tmp_path, text, "models[b].slo.latency=2 s").scenario.models
    assert (first.slo.latency, second.slo.latency) == (0.1, 2)


# Overrides


def test_overrides_by_number_and_by_name(tmp_path):
    scenario = load(
        tmp_path,
        SMALL,
        "models.1.slo.latency=80ms",
        "models[a.1].slo.attainment=0.9",
        "headroom=20%",
        "buy.gpus=[T4, V100]",
        "buy.max_cost=$5/h",
        "streams[first].count=4",
        "failures={mean_time_between: 12 h, recovery: 3 min}",
        "name=x = y",
        "streams.1.poisson=3",
        "streams.1.poisson=4",
    ).scenario
    assert [model.slo.latency for model in scenario.models] == [0.1, 0.08]
    assert scenario.models[0].slo.attainment == 0.9
    assert scenario.headroom == 0.2
    assert scenario.buy.gpus == ("T4", "V100")
    assert scenario.buy.max_cost == 5
    assert scenario.streams[0].count == 4
    assert scenario.failures
    assert scenario.failures.recovery == 180
    assert scenario.name == "x = y"
    assert scenario.streams[1].poisson == 4


def test_an_override_of_every_item(tmp_path):
    """As axes of studies have it."""
    scenario = load(tmp_path, SMALL, "models[*].precision=fp16", "models[1].precision=fp32").scenario
    assert [model.precision for model in scenario.models] == ["fp16", "fp32"]
    (problem,) = problems(tmp_path, SMALL, "model[*].precision=fp16")
    assert "`model` is no list with items, and `[*]` means each of them. Did you mean `models`?" in problem


def test_null_takes_a_key_away(tmp_path):
    usual = load(tmp_path, SMALL).scenario.headroom
    assert load(tmp_path, f"{SMALL}\nheadroom: 30 %\n", "headroom=null").scenario.headroom == usual != 0.3
    assert load(tmp_path, SMALL, "survive=null", "swap.eviction=null").scenario == load(tmp_path).scenario


def test_overrides_change_the_checksum(tmp_path):
    assert load(tmp_path).sha256 != load(tmp_path, SMALL, "seed=2").sha256


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("headroom", "--set headroom: must be `path=value`. Write e.g. `--set headroom=20%`."),
        ("=1", "--set =1: must be `path=value`. Write e.g. `--set headroom=20%`."),
        ("headroom=", "--set headroom=: has no value. Write e.g. `--set headroom=20%`, or `headroom=null` for none."),
        ("headroom=99", "--set headroom=99: headroom: must be between 0 and 1, got 99. Write 0.99 or 99 %."),
        ("models.7.name=x", "--set models.7.name=x: `models` has no item `7`. Known: a.1, b, 0 to 1."),
        ("models[c].name=x", "--set models[c].name=x: `models` has no item `c`. Known: a.1, b, 0 to 1."),
        ("streams.frist.count=2", "--set streams.frist.count=2: `streams` has no item `frist`. Did you mean `first`?"),
        ("models.b.name.x=1", "--set models.b.name.x=1: `x` cannot be set: `b` has no keys."),
        ("seed=[1", "--set seed=[1: the value is not YAML: while parsing a flow sequence, did not find expected"),
        ("failures.recovery=1 s", "s.yaml:1:1: failures.mean_time_between: is missing. Add it."),
        ("hedroom=1", "--set hedroom=1: hedroom: unknown key. Did you mean `headroom`? Known: name, models,"),
        ("hedroom=null", "--set hedroom=null: hedroom: unknown key. Did you mean `headroom`? Known: name, models,"),
        ("swap.evict.by=null", "--set swap.evict.by=null: swap.evict: unknown key. Did you mean `eviction`?"),
        ("policies.routing=first", "--set policies.routing=first: policies: unknown key."),
        (
            "models.0.slo.late.by=3",
            "--set models.0.slo.late.by=3: models[0].slo.late: unknown key. Did you mean `latency`?",
        ),
        ("accuracy.rule=reuse-last", "--set accuracy.rule=reuse-last: accuracy: needs `half_life` with `reuse-last`."),
        ("models.b.factory=m:f", "--set models.b.factory=m:f: models[1]: needs `input`, the shape of one sample,"),
        ("models.b.slo={}", "--set models.b.slo={}: models[1].slo.latency: is missing. Add it."),
    ],
)
def test_bad_overrides_name_themselves(tmp_path, override, line):
    (problem,) = problems(tmp_path, SMALL, override)
    assert problem.startswith(line)


OWN = "{name: a, gpu: RTX4060, price: $1/h}"


@pytest.mark.parametrize(
    ("override", "rule"),
    [
        ("merging=yes", "must be one of none, stem, layers, auto, got `yes`."),
        ("budget=$900/month", "budget: unknown key. Did you mean `buy.max_cost`? "),
        ("gpus=[T4]", "gpus: unknown key. Did you mean `buy.gpus`? "),
        ("buy.own=RTX4060", "must be a list, got `RTX4060`. Write `[{name: ..., gpu: ..., price: ...}]`."),
        ("buy.own=[RTX4060]", "got `RTX4060`. Write `{name: ..., gpu: ..., price: ...}`."),
        (f"buy.own=[{OWN.replace(', price: $1/h', '')}]", "price: is missing. Add it. Write what an hour costs you"),
        ("buy.own=[{name: a, gpu: RTX4060, price: EUR 1/h}]", "must be a price in US dollars, got"),
        (f"buy.own=[{OWN.replace('}', ', memory: 8}')}]", "must say its unit, got 8. Write `8 GB`, or `8 B`"),
    ],
)
def test_an_error_says_what_is_wanted(tmp_path, override, rule):
    (problem,) = problems(tmp_path, SMALL, override)
    assert rule in problem


@pytest.mark.parametrize("written", ["RTX 4060", "GeForce RTX 4060", "4060"])
def test_a_kind_of_gpu_may_be_written_as_people_say_it(tmp_path, written):
    asked = (f"buy.own=[{OWN.replace('RTX4060', written)}]", f"buy.gpus=[{written}]")
    path = tmp_path / "s.yaml"
    path.write_text(SMALL)
    buy = spelt(load_scenario(path, asked).scenario.buy, load_catalog())
    assert (buy.gpus, buy.own[0].gpu) == (("RTX4060",), "RTX4060")


@pytest.mark.parametrize("size", ["384", "[384]", "big"])
@pytest.mark.parametrize(
    ("name", "full"), [("bert_large", "hf:bert-large-uncased"), ("bge-large-en-v1.5", "hf:BAAI/bge-large-en-v1.5")]
)
def test_a_plain_name_has_one_input_and_the_name_of_the_package_that_takes_others_is_said(tmp_path, size, name, full):
    asked = f"models.b.input={size}"
    (problem,) = problems(tmp_path, SMALL, f"models.b.model={name}", asked)
    assert problem.startswith(f"--set {asked}: models[1]: has `input`, which goes only with a `model` of a package")
    assert problem.endswith(f"Leave it out, or write `model: {full}`, whose input may be another.")


# YAML


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("010", 10),
        ("0o17", 15),
        ("0x10", 16),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("1e3", 1000),
        ("1.5e6", 1_500_000),
        ("1e-3", 0.001),
        ("1.0", 1.0),
        ("1_000", "1_000"),
        (".5", 0.5),
        ("+12.", 12.0),
        ("'1'", "1"),
        ("2001-01-01", "2001-01-01"),
        ("~", None),
        ("", None),
        ("-.inf", float("-inf")),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    got = parse(f"k: {text}").data["k"]
    assert got == value
    assert type(got) is type(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
        max_leaves=20,
    )
)
def test_json_is_yaml(value):
    assert parse("k: " + json.dumps(value)).data == {"k": value}


@given(st.text(max_size=200))
def test_any_text_is_a_document_or_an_error_with_a_place(text):
    messages = []
    try:
        parse(text)
    except YamlError as error:
        messages = [problem.message for problem in error.problems]
    assert all(message.endswith(".") for message in messages)


# Several problems at once, each at its place


def test_every_problem_in_one_go(tmp_path):
    text = """\
models:
  - name: yolov3
    slo: {latency: 100 msec, attainment: 99}
  - name: resnet50
    profle: x
    slo: {attainment: 0.9}
streams:
  - {model: yolo3, rate: 30 fps}
  - {model: resnet50, rate: 15 fps, poisson: 2}
  - {model: resnet50, poisson: 2, jitter: 1 ms}
headroom: 2
headroom: 3
"""
    lines = problems(tmp_path, text, "seed=-1")
    assert [line.split(" ")[0] for line in lines] == [
        "s.yaml:3:20:",
        "s.yaml:3:42:",
        "s.yaml:5:5:",
        "s.yaml:6:10:",
        "s.yaml:8:13:",
        "s.yaml:9:46:",
        "s.yaml:10:43:",
        "s.yaml:11:11:",
        "s.yaml:12:1:",
        "--set",
    ]
    assert lines[1] == "s.yaml:3:42: models[0].slo.attainment: must be between 0 and 1, got 99. Write 0.99 or 99 %."


def test_no_one_reads_a_thousand_lines(tmp_path):
    lines = problems(tmp_path, SMALL + "  - {model: c}\n" * 500)
    assert len(lines) == 101
    assert lines[-1] == "s.yaml: and 900 more."


# Demand


def test_streams_become_arrivals(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s\n0\n1\n3\n")
    text = """\
models: [{name: m, slo: {latency: 1}}]
streams:
  - {model: m, rate: 10 fps, count: 3, jitter: 2 ms}
  - {model: m, rate: 10 fps, count: 3, phase: aligned}
  - {model: m, rate: 10 fps, count: 4, phase: spread}
  - {model: m, poisson: 5 rps, count: 2}
  - {model: m, gamma: {rate: 5 rps, cv: 2}}
  - {model: m, trace: {file: t.csv, rate: 2 rps}}
"""
    streams = workload(load(tmp_path, text)).streams
    assert streams[0].arrivals == FixedRate(10, None, 0.002)
    assert streams[0].count == 3
    assert streams[1].arrivals == FixedRate(10, 0.0)
    assert [stream.arrivals for stream in streams[2:6]] == [FixedRate(10, phase) for phase in (0, 0.025, 0.05, 0.075)]
    assert all(stream.count == 1 for stream in streams[2:6])
    assert (streams[6].arrivals, streams[6].count) == (Poisson(5), 2)
    assert streams[7].arrivals == Gamma(5, 2)
    trace = streams[8].arrivals
    assert isinstance(trace, Trace)
    assert trace.times_s.tolist() == pytest.approx([0, 1 / 3, 1])
    assert trace.times_s.size / trace.period_s == pytest.approx(2)


# How long a replication lasts

RARE = """\
models:
  - {name: often, slo: {latency: 100 ms, attainment: 99 %}}
  - {name: rarely, slo: {latency: 2 s, attainment: 95 %}}
streams:
  - {model: often, poisson: 100 rps}
  - {model: rarely, poisson: 0.1 rps}
"""


def span(folder, text, *overrides):
    """The horizon of a scenario, and its warm-up."""
    loaded = load(folder, text, *overrides)
    return horizon_s(loaded.scenario, workload(loaded)), warmup_s(loaded.scenario)


def test_a_minute_is_judged_where_nothing_asks_for_more(tmp_path):
    assert span(tmp_path, RARE, "streams.1.poisson=100 rps") == (60 + 2 + 2, 2.0)


def test_an_slo_gets_the_requests_that_prove_it(tmp_path):
    """Wilson at 98.3 % with all in time: 2.394^2 x 19 = 109, and 3 x 10.4 more by chance, ten times 0.1 a second."""
    assert span(tmp_path, RARE) == (math.ceil((109 + 3 * 109**0.5) / (10 * 0.1)) + 4, 2.0)
    needed = requests_needed(0.95, confidence_of(3))
    _, low, _ = attainment_interval([1.0], [needed], confidence_of(3))
    _, short, _ = attainment_interval([1.0], [needed - 1], confidence_of(3))
    assert short < 0.95 <= low


def test_fixed_demand_proves_its_slo_in_one_replication(tmp_path):
    """Every seed is the same: one run, one look at 95 %, needs 73 requests and 3 x 8.5 more at one in ten seconds."""
    fixed = RARE.replace("poisson: 100 rps", "rate: 100 fps, phase: aligned").replace(
        "poisson: 0.1 rps", "rate: 0.1 fps, phase: aligned"
    )
    assert span(tmp_path, fixed)[0] == math.ceil((73 + 3 * 73**0.5) / 0.1) + 4


def test_an_slo_of_all_asks_for_no_more_than_a_minute(tmp_path):
    assert span(tmp_path, RARE, "models.rarely.slo.attainment=100 %")[0] == 64


def test_a_recording_is_replayed_as_a_whole(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s\n" + "\n".join(str(t) for t in range(0, 500)))
    text = RARE.replace("poisson: 100 rps", "trace: {file: t.csv}")
    assert span(tmp_path, text) == (500 + 4, 2.0)
    wanted_s = (109 + 3 * 109**0.5) / (10 * 0.1)
    assert span(tmp_path, text, "streams.0.trace.rate=10 rps")[0] == math.ceil(wanted_s / 50) * 50 + 4, "50 s each"


def test_a_budget_limits_what_nobody_asked_for(tmp_path):
    """20 million requests in ten replications at 20,000 a second are 100 s; five nines would take longer."""
    text = RARE.replace("100 rps", "20000 rps").replace("0.1 rps", "1 rps") + "replications: 10\n"
    assert span(tmp_path, text, "models.rarely.slo.attainment=99.999 %")[0] == math.ceil(2e7 / 10 / 20001) + 4


def test_what_is_asked_for_is_kept(tmp_path):
    assert span(tmp_path, RARE + "horizon: 10 s\nwarmup: 1 s\n") == (10.0, 1.0)
    assert span(tmp_path, RARE + "warmup: 0 s\n")[1] == 0.0


def test_a_horizon_in_which_nobody_can_be_judged_is_refused(tmp_path):
    assert problems(tmp_path, RARE + "horizon: 4 s\n") == [
        "s.yaml:7:10: horizon: must be longer than a warm-up of 2 s and the longest latency, 2 s, got 4 s."
        " Make it longer."
    ]
    assert load(tmp_path, RARE + "horizon: 4.1 s\n").scenario.horizon == 4.1


# Whatever is written: a scenario, or an error in lines that end as sentences

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["30 fps", "5", "a.1", "lru", "-1 s"])
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
PLACES = """
models streams buy swap accuracy failures headroom memory seed horizon models.0 models.0.slo models.b.slo.latency
streams.0.rate streams.0.count streams.0.trace streams.1.gamma buy.own buy.own.0 models.name context.x
"""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PLACES.split()), value=JSON, text=TEXTS)
def test_anything_in_any_place_loads_or_is_explained(tmp_path, path, value, text):
    for override in (f"{path}={json.dumps(value)}", f"{path}={text}", f"{text}=1"):
        lines = []
        try:
            load(tmp_path, SMALL, override)
        except ScenarioError as error:
            lines = error.problems
        assert all(line.endswith((".", "?")) and line.isprintable() for line in lines)
        assert not any("something else" in line for line in lines)


def test_a_recording_asked_by_several_sources_starts_elsewhere_for_each(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s\n" + "".join(f"{i * i / 10}\n" for i in range(30)))
    text = "models: [{name: m, slo: {latency: 1 s}}]\nstreams: [{model: m, count: 3, trace: {file: t.csv}}]\n"
    demand = workload(load(tmp_path, text))
    (stream,) = demand.streams
    whole_s = stream.arrivals.period_s
    drawn = draw(demand, whole_s, 1)["m"]
    first, *others = (drawn.arrival_s[drawn.source == source] for source in range(3))
    assert first.tolist() == pytest.approx(stream.arrivals.times_s.tolist())
    assert [len(times) for times in others] == [30, 30]
    assert not any(np.allclose(times, first) for times in others)


def test_of_many_mistakes_the_first_are_shown_and_the_rest_counted() -> None:
    lines = [f"s.yaml:{n}:3: models[{n}].name: no such model." for n in range(50)]
    error = ScenarioError(lines)
    shown = str(error).splitlines()
    assert shown == [*lines[:PROBLEMS_SHOWN], f"and {50 - PROBLEMS_SHOWN} more such lines: mend these first"]
    assert error.problems == tuple(lines)
    assert str(ScenarioError(lines[:PROBLEMS_SHOWN])).splitlines() == lines[:PROBLEMS_SHOWN]
