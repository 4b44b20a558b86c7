"""Bad inputs: each gives lines that name place, value, rule and remedy, and an exit code; none a traceback."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.paths import SCENARIOS
from typer import BadParameter

from calibrate.io.files import Fault, FileError, named
from planner.cli import usage
from planner.io.load import ScenarioError, load_scenario
from planner.io.store import StoreError, read_json
from planner.questions.studies.reading import load_study
from planner.questions.training.reading import load_training
from simulator.errors import InputError

GOOD = """\
name: good
models:
  - name: resnet50
    slo: {latency: 100 ms, attainment: 99 %}
  - name: vgg16
    slo: {latency: 100 ms}
streams:
  - {model: resnet50, count: 2, rate: 15 fps}
  - {model: vgg16, poisson: 10 rps}
buy:
  providers: [azure]
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

A_NAME = "must be a name of 1 to 64 letters from a to z, digits, `-`, `_` and `.`, got"


def changed(old, new):
    """The good scenario with one thing wrong."""
    assert old in GOOD
    return GOOD.replace(old, new, 1)


TABLE = {
    # what is wrong: (the text, what each line of the message says)
    "empty": ("", ["s.yaml: is empty. `planner init FILE`"]),
    "only comments": ("# nothing\n", ["s.yaml: is empty."]),
    "a list": ("- 1\n- 2\n", ["s.yaml:1:1: must be a mapping with `models` and `streams`, got a list."]),
    "a word": ("hello", ["s.yaml:1:1: must be a mapping with `models` and `streams`, got `hello`."]),
    "nothing": ("~", ["s.yaml:1:1: must be a mapping with `models` and `streams`, got nothing."]),
    "not UTF-8": (b"name: caf\xe9\n", ["s.yaml: is not UTF-8: byte 0xe9 at offset 9. Save the file as UTF-8."]),
    "UTF-16": (GOOD.encode("utf-16"), ["s.yaml: is not UTF-8: byte 0xff at offset 0."]),
    "binary": (b"\x00\x01\x02", ["s.yaml: is not YAML: ", "control characters are not allowed"]),
    "200 MB": (None, ["s.yaml: holds more than 4 MB. Move recorded arrivals to a CSV file"]),
    "not closed": (changed("[azure]", "[azure"), ["s.yaml:12:1: is not YAML: ", "did not find expected ',' or ']'."]),
    "no value where one is needed": (
        changed("[azure]", "[%azure]"),
        ["s.yaml:11:15: is not YAML: ", "Put a text that begins so in quotation marks."],
    ),
    "a comma too many": (changed("[azure]", "[, azure]"), ["s.yaml:11:15: is not YAML: ", "Write a value there;"]),
    "a bracket too many": ("{a: 1}}\n", ["is not YAML: ", "Write keys as `key: value`, and items"]),
    "a tab": (changed("  - name: resnet50", "\t- name: resnet50"), ["s.yaml:3:1: is not YAML: ", "Indent with blanks"]),
    "two documents": (GOOD + "---\na: 1\n", ["s.yaml:12:1: starts a second document. Keep one"]),
    "alias bomb": (BOMB, ["aliases make the document too large. Write the values out."]),
    "alias of itself": ("a: &a [*a]", ["s.yaml:1:8: alias `*a` contains itself."]),
    "alias of nothing": ("a: *b", ["s.yaml:1:4: alias `*b` has no anchor before it."]),
    "deep nesting": ("[" * 100_000, ["s.yaml:1:52: is nested deeper than 50 levels."]),
    "deep nesting of mappings": ("{a: " * 100_000, ["is nested deeper than 50 levels."]),
    "tag that runs code": (
        changed("name: good", "name: !!python/object/apply:os.system [ls]"),
        ["s.yaml:1:7: has the tag `tag:yaml.org,2002:python/object/apply:os.system`. Tags are not allowed: leave"],
    ),
    "tag of one's own": (changed("name: good", "name: !mine good"), ["s.yaml:1:7: has the tag `!mine`."]),
    "merge key": (GOOD + "<<: {seed: 1}\n", ["s.yaml:12:1: <<: unknown key. Known: name, models,"]),
    "key that is a list": ("? [a]\n: 1", ["s.yaml:1:3: a key must be a word, not an alias, a list or a mapping."]),
    "key given twice": (GOOD + "name: again\n", ["s.yaml:12:1: key `name` is given twice, first in line 1. Keep one."]),
    "unknown key": (GOOD + "hedroom: 10 %\n", ["s.yaml:12:1: hedroom: unknown key. Did you mean `headroom`? Known: "]),
    "unknown key that speaks to the terminal": (
        GOOD + '"\\e[2J\\n": 1\n',
        ["s.yaml:12:1: \\x1b[2J\\n: unknown key. Known: name, models,"],
    ),
    "a key as other tools call it": (
        changed("providers: [azure]", "budget: 4"),
        ["s.yaml:11:3: buy.budget: unknown key. Did you mean `max_cost`? Known: "],
    ),
    "unknown key below": (
        changed("attainment", "atainment"),
        ["s.yaml:4:28: models[0].slo.atainment: unknown key. Did you mean `attainment`? Known: latency, attainment."],
    ),
    "unknown key of a swap policy": (
        GOOD + "swap: {evict: lru}\n",
        ["s.yaml:12:8: swap.evict: unknown key. Did you mean `eviction`? Known: eviction, prefetch, pinned, disk."],
    ),
    "no models": (changed("models:", "modles:"), ["models: is missing. Add it.", "Did you mean `models`?"]),
    "empty models": (
        "models: []\nstreams: []",
        ["s.yaml:1:9: models: must not be empty.", "s.yaml:2:10: streams: must"],
    ),
    "no SLO": (changed("    slo: {latency: 100 ms}\n", ""), ["s.yaml:5:5: models[1].slo: is missing. Add it."]),
    "models as a mapping": (
        "models: {a: 1}\nstreams: [{model: a, rate: 1}]",
        ["s.yaml:1:9: models: must be a list, got a mapping."],
    ),
    "a model as a word": (
        "models: [a]\nstreams: [{model: a, rate: 1}]",
        ["s.yaml:1:10: models[0]: must be a mapping of keys to values, got `a`."],
    ),
    "buy as a list": (
        changed("  providers: [azure]", "  - azure"),
        ["s.yaml:11:3: buy: must be a mapping", "got a list."],
    ),
    "providers as a word": (changed("[azure]", "azure"), ["s.yaml:11:14: buy.providers: must be a list, got `azure`."]),
    "a name with spaces": (
        changed("providers: [azure]", "instances: [T4 x]"),
        [f"s.yaml:11:15: buy.instances[0]: {A_NAME} `T4 x`."],
    ),
    "a model's source as its name": (
        "models: [{name: timm:resnet50, slo: 50 ms}]\nstreams: [{model: timm:resnet50, rate: 1/s}]",
        [
            f"models[0].name: {A_NAME} `timm:resnet50`. Give it"
            " a short name, and write `model: timm:resnet50` beside it.",
            f"streams[0].model: {A_NAME} `timm:resnet50`. Write the short name that it has under `models`.",
        ],
    ),
    "unknown unit": (
        changed("100 ms,", "100 msec,"),
        ["s.yaml:4:20: models[0].slo.latency: unknown unit `msec` for a duration. Did you mean `ms`? Known: us, "],
    ),
    "unit of another quantity": (
        changed("15 fps", "15 GB"),
        ["s.yaml:8:39: streams[0].rate: unknown unit `GB` for a rate. Known: fps, rps,"],
    ),
    "percent as a number": (
        changed("99 %", "99"),
        ["s.yaml:4:40: models[0].slo.attainment: must be between 0 and 1, got 99. Write 0.99 or 99 %."],
    ),
    "attainment of nothing": (changed("99 %", "0 %"), ["models[0].slo.attainment: must be above 0, got `0 %`."]),
    "no latency at all": (changed("100 ms,", "0,"), ["models[0].slo.latency: must be above 0, got 0."]),
    "negative latency": (
        changed("100 ms,", "-1 ms,"),
        ["models[0].slo.latency: must not be negative, got -1 ms. Write"],
    ),
    "negative rate": (changed("15 fps", "-15 fps"), ["streams[0].rate: must not be negative, got -15 fps. Write e.g."]),
    "rate of nothing": (changed("15 fps", "0 fps"), ["streams[0].rate: must be above 0, got 0 fps. Write e.g."]),
    "NaN": (changed("15 fps", ".nan"), ["streams[0].rate: must be finite, got nan. Write e.g. `30 fps`"]),
    "infinity": (GOOD + "horizon: .inf\n", ["s.yaml:12:10: horizon: must be finite, got inf."]),
    "too many digits": (GOOD + f"seed: {'9' * 5000}\n", ["s.yaml:12:7: seed: must be a whole number"]),
    "rate too large": (changed("15 fps", "1e400 fps"), ["streams[0].rate: must be finite, got 1e400 fps."]),
    "half a camera": (
        changed("count: 2", "count: 1.5"),
        ["s.yaml:8:30: streams[0].count: must be a whole number, got 1.5."],
    ),
    "a whole number with a point": (
        changed("count: 2", "count: 4.0"),
        ["streams[0].count: must be a whole number, got 4.0. Write `4`."],
    ),
    "a count in words": (changed("count: 2", "count: two"), ["streams[0].count: must be a whole number, got `two`."]),
    "a count that is true": (
        changed("count: 2", "count: true"),
        ["streams[0].count: must be a whole number, got true. Write e.g. `1`."],
    ),
    "half a seed": (GOOD + "seed: 1.5\n", ["s.yaml:12:7: seed: must be a whole number, got 1.5. Write e.g. `1`."]),
    "half a GPU": (
        GOOD + "  max_gpus: 2.5\n",
        ["s.yaml:12:13: buy.max_gpus: must be a whole number, got 2.5. Write e.g. `64`."],
    ),
    "a speed in words": (
        GOOD + "  host_speed: fast\n",
        ["s.yaml:12:15: buy.host_speed: must be a number, got `fast`. Write e.g. `1`."],
    ),
    "a seed of ten digits": (
        GOOD + "seed: 9999999999\n",
        ["seed: must be at most 4294967295, got 9999999999. Write `4294967295` or less."],
    ),
    "no cameras": (changed("count: 2", "count: 0"), ["streams[0].count: must be at least 1, got 0."]),
    "a million and one": (
        changed("count: 2", "count: 1000001"),
        ["streams[0].count: must be at most 1 million, got 1000001."],
    ),
    "yes is no truth": (GOOD + "padded: yes\n", ["s.yaml:12:9: padded: must be `true` or `false`, got `yes`."]),
    "a number as name": (changed("name: good", "name: 5"), ['s.yaml:1:7: name: must be a text, got 5. Write `"5"`.']),
    "one's own machines in the wrong place": (
        GOOD + "machines: [{name: box, gpu: T4, price: $1/h}]\n",
        ["s.yaml:12:1: machines: unknown key. Your own machines stand under `buy.own`."],
    ),
    "one's own machines beside `buy`": (
        GOOD + "own: [{name: box, gpu: T4, price: $1/h}]\n",
        ["s.yaml:12:1: own: unknown key. Your own machines stand under `buy.own`."],
    ),
    "one's own machines as hosts to buy": (
        GOOD + "  hosts: [{name: box, gpu: T4, price: $1/h}]\n",
        ["s.yaml:12:3: buy.hosts: unknown key. Your own machines stand under `buy.own`."],
    ),
    "GPUs in the wrong place": (
        GOOD + "gpus: [T4]\n",
        ["s.yaml:12:1: gpus: unknown key. Did you mean `buy.gpus`? Your own machines stand under `buy.own`."],
    ),
    "unknown word": (
        GOOD + "memory: resident-only\n",
        ["s.yaml:12:9: memory: must be one of resident, swap, auto, got `resident-only`. Did you mean `resident`?"],
    ),
    "unknown eviction": (
        GOOD + "swap: {eviction: fifo}\n",
        ["s.yaml:12:18: swap.eviction: must be one of lru, mru, lookahead, cost, got `fifo`."],
    ),
    "headroom of all": (GOOD + "headroom: 100 %\n", ["s.yaml:12:11: headroom: must be below 100 %, got `100 %`."]),
    "no replication": (GOOD + "replications: 0\n", ["s.yaml:12:15: replications: must be at least 1, got 0."]),
    "all sites for sure": (
        GOOD + "confidence: 100 %\n",
        ["s.yaml:12:13: confidence: must be at most 99.9 %, got `100 %`."],
    ),
    "negative seed": (GOOD + "seed: -1\n", ["s.yaml:12:7: seed: must be at least 0, got -1."]),
    "warmup too long": (
        GOOD + "horizon: 10 s\nwarmup: 1 min\n",
        ["s.yaml:13:9: warmup: must be shorter than the horizon of 10 s, got 60 s."],
    ),
    "two models of a name": (
        changed("name: vgg16", "name: resnet50"),
        ["s.yaml:5:11: models[1].name: `resnet50` is the name of another model.", "no model is called `vgg16`"],
    ),
    "a model nobody asks": (
        changed("  - {model: vgg16, poisson: 10 rps}\n", ""),
        ["s.yaml:5:11: models[1].name: no stream asks `vgg16`. Add a stream with `model: vgg16` or leave"],
    ),
    "a model nobody asks, named nearly like one that is asked": (
        GOOD.replace("vgg16", "resnet502", 1).replace("  - {model: vgg16, poisson: 10 rps}\n", ""),
        ["s.yaml:5:11: models[1].name: no stream asks `resnet502`. Add a stream with `model: resnet502` or leave"],
    ),
    "a model that is not there": (
        changed("model: vgg16", "model: vgg61"),
        ["s.yaml:9:13: streams[1].model: no model is called `vgg61`. Did you mean `vgg16`?"],
    ),
    "a model that is not there, beside one that nobody asks": (
        GOOD.replace("model: resnet50", "model: vgg61"),
        [
            "s.yaml:3:11: models[0].name: no stream asks `resnet50`.",
            "s.yaml:8:13: streams[0].model: no model is called `vgg61`. Did you mean `vgg16`?",
        ],
    ),
    "a model whose name is none": (
        changed("name: vgg16", "name: vgg 16"),
        [f"s.yaml:5:11: models[1].name: {A_NAME} `vgg 16`."],
    ),
    "no way to send": (
        changed(", rate: 15 fps", ""),
        ["s.yaml:8:5: streams[0]: does not say how it sends. Give one of"],
    ),
    "two ways to send": (
        changed("rate: 15 fps", "rate: 15 fps, poisson: 3"),
        ["s.yaml:8:56: streams[0].poisson: cannot stand beside `rate`: a stream sends in one way. Keep one of them."],
    ),
    "jitter of people": (
        changed("10 rps", "10 rps, jitter: 1 ms"),
        ["s.yaml:9:45: streams[1].jitter: goes only with `rate`, not with `poisson`. Leave it out."],
    ),
    "no burstiness": (
        changed("poisson: 10 rps", "gamma: {rate: 10 rps}"),
        ["streams[1].gamma.cv: is missing. Add it."],
    ),
    "burstiness of nothing": (
        changed("poisson: 10 rps", "gamma: {rate: 10 rps, cv: 0}"),
        ["s.yaml:9:46: streams[1].gamma.cv: must be at least 0.001, got 0."],
    ),
    "no recording": (
        changed("poisson: 10 rps", "trace: {file: none.csv}"),
        ["s.yaml:9:34: streams[1].trace.file: ", "none.csv: no such file."],
    ),
    "a recording that is none": (
        changed("poisson: 10 rps", "trace: {file: s.yaml}"),
        [
            "streams[1].trace.file: ",
            "s.yaml: has no column of time stamps: nothing in its first line is called arrival_s,",
        ],
    ),
    "a wait longer than the SLO": (
        changed("slo: {latency: 100 ms, attainment: 99 %}", "slo: {latency: 100 ms}\n    max_queue_delay: 1e9 s"),
        ["s.yaml:5:22: models[0].max_queue_delay: must be below the latency of the SLO, 0.1 s, got 1e+09 s."],
    ),
    "jitter of years": (
        changed("rate: 15 fps", "rate: 15 fps, jitter: 1e9 s"),
        ["s.yaml:8:55: streams[0].jitter: must be at most 6 s, a tenth of the horizon, got 1e+09 s."],
    ),
    "failures all the time": (
        GOOD + "failures: {mean_time_between: 10 s, recovery: 1 s}\n",
        ["s.yaml:12:31: failures.mean_time_between: must be at least 60 s, got 10 s."],
    ),
    "a horizon of 30 years": (
        GOOD + "horizon: 1e9 s\n",
        [
            "s.yaml:12:10: horizon: 40 requests/s for ",
            " are more than 50,000,000 in one replication. Set a `horizon` below",
        ],
    ),
    "a rate without end": (
        changed("poisson: 10 rps", "poisson: 1e9 rps"),
        [
            "s.yaml:8:3: streams: 1e+09 requests/s for ",
            " are more than 50,000,000 in one replication. Set a `horizon` below",
        ],
    ),
    "hardly ever asked": (
        changed("poisson: 10 rps", "poisson: 1e-9 rps"),
        ["s.yaml:5:5: models[1]: is asked 1e-09 times a second, less than once in 24 h: nothing to judge it by."],
    ),
    "asked less than once in the horizon": (
        changed("poisson: 10 rps", "poisson: 1e-3 rps") + "horizon: 20 s\n",
        ["models[1]: is asked 0.001 times a second", "Raise the rate or the horizon, or leave the model out."],
    ),
    "a plan": (
        '{"schema": "planner.plan/v3", "scenario": "a", "policies": {}}',
        ["s.yaml: is an answer (`planner.plan/v3`), not a scenario. `planner explain "],
    ),
    "reuse without half-life": (
        GOOD + "accuracy: {rule: reuse-last}\n",
        ["s.yaml:12:11: accuracy: needs `half_life` with `reuse-last`. Write e.g. `half_life: 2 s`."],
    ),
    "half-life without reuse": (
        GOOD + "accuracy: {half_life: 2 s}\n",
        ["s.yaml:12:23: accuracy.half_life: goes only with `rule: reuse-last`."],
    ),
    "a price beyond any": (
        GOOD + "  max_cost: $1e9/h\n",
        ["s.yaml:12:13: buy.max_cost: must be at most $1000000/h, got $1e9/h. Write e.g. `$2.50/h`"],
    ),
    "a price for how long": (
        GOOD + "  max_cost: $5\n",
        ["s.yaml:12:13: buy.max_cost: must say for how long the price is, got `$5`. Write e.g. `$2.50/h`"],
    ),
    "a price of zero": (
        GOOD + "  own: [{name: box, gpu: V100, price: 0}]\n",
        ["s.yaml:12:39: buy.own[0].price: must be above 0, got 0. Write what an hour costs you, its electricity"],
    ),
    "gigabits": (
        GOOD + "context: 1 Gb\n",
        ["s.yaml:12:10: context: unknown unit `Gb` for a size of memory. Did you mean `GB`? Known: B, kB,"],
    ),
    "failures without recovery": (
        GOOD + "failures: {mean_time_between: 12 h}\n",
        ["s.yaml:12:11: failures.recovery: is missing. Add it."],
    ),
}


@pytest.fixture
def scenario(tmp_path):
    """Writes a scenario: text, bytes, or None for one of 200 MB that takes no room on the disk."""

    def write(content):
        path = tmp_path / "s.yaml"
        match content:
            case None:
                with path.open("wb") as file:
                    file.truncate(200_000_000)
            case bytes():
                path.write_bytes(content)
            case _:
                path.write_text(content, encoding="utf-8")
        return path

    return write


def lines_fit(text, fragments):
    """Every fragment is there, and every line names the file and ends as a sentence."""
    for fragment in fragments:
        assert fragment in text
    for line in text.strip().splitlines():
        assert re.search(r"s\.yaml(:\d+:\d+)?: ", line)
        assert line.endswith((".", "?"))


def test_the_good_one_is_good(scenario):
    assert load_scenario(scenario(GOOD)).scenario.name == "good"


@pytest.mark.parametrize(("content", "fragments"), TABLE.values(), ids=TABLE)
def test_loader(scenario, tmp_path, content, fragments):
    with pytest.raises(ScenarioError) as error:
        load_scenario(scenario(content))
    lines_fit(str(error.value).replace(f"{tmp_path}/", ""), fragments)


def test_a_model_that_is_not_there_and_one_that_nobody_asks_are_one_mistake(scenario):
    with pytest.raises(ScenarioError) as error:
        load_scenario(scenario(GOOD.replace("model: vgg16", "model: yolo")))
    assert str(error.value).endswith(
        "s.yaml:9:13: streams[1].model: no model is called `yolo`. Known: resnet50, vgg16."
    )
    assert "\n" not in str(error.value)


def test_of_two_models_that_nobody_asks_one_is_meant_at_most(scenario):
    with pytest.raises(ScenarioError) as error:
        load_scenario(scenario(GOOD.replace("model: vgg16", "model: yolo").replace("model: resnet50", "model: yolo")))
    assert len(error.value.problems) == 4


def test_files_that_are_none(tmp_path):
    with pytest.raises(ScenarioError, match=r"none.yaml: no such file. `planner init FILE` writes a scenario"):
        load_scenario(tmp_path / "none.yaml")
    with pytest.raises(ScenarioError, match=r"is a directory\. Name a YAML file in it\."):
        load_scenario(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read: embedded null byte"):
        load_scenario(Path("a\0b"))
    with pytest.raises(ScenarioError, match="cannot be read: File name too long"):
        load_scenario(tmp_path / ("x" * 5000))


@pytest.mark.parametrize(
    "words", [["explain"], ["report"], ["whatif"], ["diff", "bad.yaml"], ["export", "--to", "triton"]]
)
def test_a_scenario_that_cannot_be_read_is_no_answer_that_is_made_again(tmp_path, capfd, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("models: [\n")
    options = ["-o", "out"] if words[0] == "export" else []
    code, _, err = planner(capfd, monkeypatch, words[0], *words[1:], "bad.yaml", *options)
    assert code == 2
    assert "bad.yaml:1:1: is not JSON: " in err
    assert "Name what a command kept as JSON, such as plan.json; `planner plan` reads scenarios." in err


def test_the_answer_in_a_folder_is_named(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(StoreError, match=r"is a directory\. Name `.*/plan\.json`\."):
        read_json(tmp_path)


def test_what_may_not_be_read_is_made_readable():
    """Whether the system says so to the planner, or to the library that reads the command line."""
    remedy = "Make it readable for you, or name another file."
    with pytest.raises(InputError) as refused, named("x", "Name one that a command kept"):
        raise FileError("cannot be read: no", fault=Fault.DENIED)
    assert str(refused.value) == f"x: cannot be read: no. {remedy}"
    error = BadParameter("path 'my plan.json' is not readable.", param_hint="'ANSWER'")
    assert usage(error) == f"my plan.json: cannot be read. {remedy}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_the_system_keeps_closed(scenario, capfd, monkeypatch):
    path = scenario(GOOD)
    path.chmod(0)
    for command in ("plan", "explain"):
        code, _, err = planner(capfd, monkeypatch, command, path)
        assert (code, "Make it readable for you" in err) == (2, True)


# The command


def planner(capfd, monkeypatch, *words):
    """Exit code, standard output and standard error of the `planner` command, run in this process."""
    from planner.cli import main

    monkeypatch.setattr(sys, "argv", ["planner", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main()
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    return left.value.code, out, err


OWN = "buy={own: [{name: box, gpu: V100, memory: 1 GB, price: $1/h}]}"
COMMANDS = {
    # what is wrong: (words of the command, exit code, what it says)
    "no command": (["paln"], 2, ["No such command"]),
    "no command of a group": (["gpus", "list"], 2, ["No such command 'list'. Known: show, add. See planner gpus"]),
    "nearly a command of a group": (["profiles", "ls"], 2, ["Did you mean 'list'? See planner profiles --help."]),
    "no scenario": (["plan"], 2, ["Missing argument 'SCENARIO'. YAML file, or one that is shipped"]),
    "no prices": (["reprice", "plan.json"], 2, ["Missing option '--prices'. A prices.yaml or prices.csv, or a"]),
    "a study's own key": (
        ["study", "studies/deadline", "--set", "axes.load=[]"],
        2,
        ["--set axes.load=[]: `axes` is a key of the study, and --set changes its base. Change it in the file."],
    ),
    "a plan in the place of the one it is made of": (
        ["reprice", "s.yaml", "--prices", "t.csv", "-o", "s.yaml"],
        2,
        ["s.yaml: is what the answer is made of. Name another file with -o."],
    ),
    "a report onto a folder": (
        ["report", "plan.json", "-o", "."],
        2,
        ["must end in .html."],
    ),
    "no such option": (["plan", "s.yaml", "--nope"], 2, ["No such option: --nope"]),
    "no such format": (
        ["plan", "s.yaml", "--format", "xml"],
        2,
        ["'--format': must be table, json, csv or md, got xml."],
    ),
    "no such policy": (
        ["simulate", "s.yaml", "--gpu", "V100", "--count", "1", "--policy", "routing=share"],
        2,
        ["--policy routing=share: must be one of", "Did you mean `shared`?"],
    ),
    "no such scenario": (["plan", "none.yaml"], 2, ["none.yaml: no such file. `planner init FILE` writes a scenario"]),
    "a folder": (["plan", "."], 2, ["is a directory. Name a YAML file in it."]),
    "a wrong value": (["plan", "s.yaml", "--set", "headroom=99"], 2, ["--set headroom=99: headroom: must be between"]),
    "a wrong key": (["plan", "s.yaml", "--set", "hedroom=9%"], 2, ["hedroom: unknown key. Did you mean `headroom`?"]),
    "a key below a plain value": (
        ["plan", "s.yaml", "--set", "merging.foo.bar=null"],
        2,
        ["--set merging.foo.bar=null: merging.foo: unknown key. `merging` has no keys."],
    ),
    "an item of no list": (
        ["plan", "s.yaml", "--set", "pipelines[0].foo=1"],
        2,
        ["--set pipelines[0].foo=1: `pipelines` is not there, nor its item `0`. Write all of it: `pipelines=...`."],
    ),
    "no item": (["plan", "s.yaml", "--set", "models[x].name=y"], 2, ["`models` has no item `x`. Known: resnet50,"]),
    "negative seed": (["plan", "s.yaml", "--seed", "-1"], 2, ["--seed -1: must be from 0 to 4294967295. Write"]),
    "unknown option": (["plan", "s.yaml", "--gpu", "T4"], 2, ["planner plan: No such option: --gpu"]),
    "no condition": (["plan", "s.yaml", "--fail-on", "cost>"], 2, ["--fail-on cost>: is no condition. Write e.g."]),
    "unknown provider": (
        ["plan", "s.yaml", "--set", "buy.providers=[ibmz]"],
        2,
        ["`ibmz` is not in the catalog. Known: "],
    ),
    "unknown GPU": (["plan", "s.yaml", "--set", "buy.gpus=[V1000]"], 2, ["`V1000` is not in", "Did you mean `V100`?"]),
    "one of several GPUs": (
        ["plan", "s.yaml", "--set", "buy.gpus=[A100]"],
        2,
        ["`A100` is not in the catalog. Did you mean `A100-40GB` or `A100-40GB-PCIe` or `A100-80GB` or"],
    ),
    "no catalog": (["plan", "s.yaml", "--catalog", "none"], 2, ["none: holds neither gpus.yaml nor prices.yaml."]),
    "no profiles": (["plan", "s.yaml", "--profiles", "none"], 2, ["none: is not a directory."]),
    "too little memory": (
        ["plan", "s.yaml", "--set", OWN],
        3,
        ["No feasible plan", "memory is 1.00 GB. Remedy: a GPU with"],
    ),
    "too short an SLO": (
        ["plan", "s.yaml", "-v", "--set", "models.0.slo.latency=1ms", "--set", "buy.gpus=[T4]"],
        3,
        ["No feasible plan", "one sample alone takes ", "Remedy: raise resnet50's latency SLO: "],
    ),
    "no profile of a model": (
        ["plan", "s.yaml", "--set", "predict=never", "--set", "buy.gpus=[A100-80GB]"],
        3,
        ["No feasible plan", "no profile"],
    ),
    "a model that nobody knows": (
        ["plan", "s.yaml", "--set", "models.0.profile=resnet5"],
        2,
        ["--set models.0.profile=resnet5: ", "no model is known as `resnet5`", "Did you mean `resnet50` or"],
    ),
    "a model that is like another": (
        ["plan", "s.yaml", "--set", "models.0.profile=yolov9s"],
        2,
        ["no model is known as `yolov9s`: no profile, no layers.", "`ultralytics:yolov9s`"],
    ),
    "simulate on no kind": (["simulate", "s.yaml", "--count", "1"], 2, ["name either --gpu and --count, or --plan."]),
    "simulate on an unknown kind": (
        ["simulate", "s.yaml", "--gpu", "V1000", "--count", "1"],
        2,
        ["--gpu V1000: is not in the catalog. Did you mean `V100`?"],
    ),
    "simulate on one of several kinds": (
        ["simulate", "s.yaml", "--gpu", "A100-PCIe", "--count", "1"],
        2,
        ["--gpu A100-PCIe: is not in the catalog. Did you mean `A100-40GB-PCIe` or `A100-80GB-PCIe`?"],
    ),
    "simulate on none": (["simulate", "s.yaml", "--gpu", "V100", "--count", "0"], 2, ["--count 0: must be at least 1"]),
    "simulate by no policy": (
        ["simulate", "s.yaml", "--gpu", "V100", "--count", "1", "--policy", "evict=lru"],
        2,
        ["--policy evict=lru: unknown.", "Did you mean `eviction`?"],
    ),
    "nowhere to write": (["plan", "s.yaml", "-o", "none/x.json"], 2, ["none/x.json: cannot be written: folder none"]),
    "no plan to explain": (["explain", "none.json"], 2, ["none.json: no such file"]),
    "no scenario to explain": (
        ["explain", "none.yaml"],
        2,
        ["none.yaml: no such file. Name what a command kept as JSON, such as plan.json; `planner plan` reads scen"],
    ),
    "a folder to explain": (["explain", "."], 2, ["is a directory. Name what a command kept as JSON, such as plan.js"]),
    "a plan that is none": (
        ["explain", "s.yaml"],
        2,
        ["s.yaml: is a scenario of serving: `planner plan` reads it. Name the answer that it keeps."],
    ),
    "no such profile": (["profiles", "show", "none"], 2, ["no profile of `none`."]),
    "no such price": (["prices", "show", "--gpu", "none"], 2, ["no price of `none`. Known: "]),
    "no recording": (
        ["trace", "describe", "none.csv"],
        2,
        ["none.csv: no such file. Name a whole CSV file with time stamps."],
    ),
    "no time stamps": (["trace", "describe", "s.yaml"], 2, ["s.yaml: has no column of time stamps"]),
    "import at no rate": (
        ["trace", "import", "t.csv", "--rate", "0"],
        2,
        ["--rate must be above 0, got 0. Write e.g."],
    ),
    "import in gigabytes": (
        ["trace", "import", "t.csv", "--rate", "3 GB"],
        2,
        ["unknown unit `GB` for a rate. Known: fps,"],
    ),
    "import too long": (
        ["trace", "import", "t.csv", "--duration", "1 h"],
        2,
        ["t.csv: lasts 4 s, not 3600 s. Ask for less."],
    ),
    "import too fast": (
        ["trace", "import", "t.csv", "--rate", "1e8rps"],
        2,
        ["t.csv: cannot be scaled to 1e+08 a second: times are kept in microseconds. Ask for 1,000,000 at most."],
    ),
    "import too slow": (
        ["trace", "import", "t.csv", "--rate", "1e-300rps"],
        2,
        ["t.csv: cannot be scaled to 1e-300 a second: it would last more than 1e+10 s. Ask for 4e-10 at least."],
    ),
    "import nothing": (["trace", "import", "t.csv", "--duration", "0 s"], 2, ["a duration must be above 0 s"]),
    "import onto a folder": (["trace", "import", "t.csv", "-o", "."], 2, ["-o .: must end in .csv. Name such a file."]),
    "init onto a file": (["init", "s.yaml"], 2, ["s.yaml: exists already. Name another file."]),
}


@pytest.mark.parametrize(("words", "code", "fragments"), COMMANDS.values(), ids=COMMANDS)
def test_command(scenario, tmp_path, monkeypatch, capfd, words, code, fragments):
    scenario(GOOD)
    (tmp_path / "t.csv").write_text("arrival_s\n0\n1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    left, out, err = planner(capfd, monkeypatch, *words)
    assert left == code
    for fragment in fragments:
        assert fragment in " ".join((out + err).split())


@pytest.mark.parametrize(
    "name", ["empty", "not UTF-8", "200 MB", "alias bomb", "tag that runs code", "NaN", "unknown key"]
)
def test_command_says_what_the_loader_says(scenario, tmp_path, monkeypatch, capfd, name):
    content, fragments = TABLE[name]
    scenario(content)
    monkeypatch.chdir(tmp_path)
    code, out, err = planner(capfd, monkeypatch, "plan", "s.yaml")
    assert (code, out) == (2, "")
    lines_fit(err, fragments)


OTHERS = {
    "serving": "video.yaml",
    "training": "training/resnet50.yaml",
    "study": "studies/memory.yaml",
}


@pytest.mark.parametrize(
    ("wanted", "read"), [("serving", load_scenario), ("training", load_training), ("study", load_study)]
)
@pytest.mark.parametrize("given", OTHERS)
def test_a_document_of_another_kind_is_one_line(wanted, read, given):
    path = SCENARIOS / OTHERS[given]
    if given == wanted:
        read(path)
        return
    with pytest.raises(ScenarioError) as error:
        read(path)
    (line,) = str(error.value).splitlines()
    assert f"{OTHERS[given]}:" in line
    assert re.search(rf"is a (scenario of )?{given}: `planner (plan|train|study)` reads it\. Name a file with `", line)
