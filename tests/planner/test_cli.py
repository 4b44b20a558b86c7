"""The command line as a person meets it: what README shows, exit codes, pipes, terminals, interruptions."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import pytest
from support.answers import BEST, INFEASIBLE, PLAN
from support.forks import Forked, forking
from support.paths import ROOT
from support.shown import SHOWN, chains

from planner import __main__ as entry
from planner import cli
from planner.compare.gate import crossed, parse_condition, weak
from planner.console.output import lines
from planner.io.store import read_plan, write_answer
from planner.model.plan import PlanWarning
from planner.model.statement import Code, Statement
from planner.search.plan import plan
from planner.show.text.plan import headline
from simulator.errors import InputError

VIDEO = "scenarios/video.yaml"
TRACE = "scenarios/trace.yaml"
NEEDS_SYS = pytest.mark.skipif(not Path("/sys").is_dir(), reason="only Linux has a folder where nobody writes")
ON_T4 = ("plan", TRACE, "--set", "buy.gpus=[T4]", "--set", "buy.evidence=measured")
"""A plan in little time: of one kind of GPU, at published speeds as they stand."""
QUICK = ("--set", "horizon=10 s", "--set", "replications=2", "--set", "confidence=50 %")
PLANNER = [sys.executable, "-m", "planner"]
LONG_S = 300
"""After which a command that takes seconds is taken to hang, however busy the machine is."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of one's own, with the scenarios and the catalog in it."""
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    shutil.copytree(ROOT / "planner/catalog/data", tmp_path / "planner/catalog/data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def planner(here, monkeypatch, capsys):
    """`planner(...)` in this process, as if piped: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("planner.console.output.LINE_EVERY_S", inf)  # however slow it is here

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["planner", *map(str, words)])
        with forking(), pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


def apart(*words, **options):
    """The same in a process of its own; a fresh one where it is to begin with other settings of Python."""
    with forking():
        return subprocess.run(
            [*PLANNER, *words], capture_output=True, text=True, check=False, timeout=LONG_S, **options
        )


@pytest.fixture
def browser(tmp_path, monkeypatch):
    """A browser that only notes what it is given; the file of its notes."""
    program, seen = tmp_path / "browser", tmp_path / "seen.txt"
    program.write_text(f'#!/bin/sh\necho "$1" >> {seen}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return seen


@pytest.fixture
def answered_once(monkeypatch):
    """A question that is asked in several forms of answer is searched for once."""

    def once(loaded, catalog, library, *, created_at, progress):
        key = (loaded.sha256, repr(loaded.scenario))
        if key not in ANSWERS:
            ANSWERS[key] = plan(loaded, catalog, library, created_at=created_at, progress=progress)
        return replace(ANSWERS[key], created_at=created_at)

    monkeypatch.setattr("planner.search.plan.plan", once)


ANSWERS = {}


@pytest.mark.parametrize("chain", chains(SHOWN), ids=lambda chain: "_".join(chain[0][0][1:4]))
def test_what_readme_shows_runs(planner, answered_once, browser, chain):
    for words, code in chain:
        exit_code, out, err = planner(*words[1:])
        assert "Traceback" not in err
        assert out, words
        assert exit_code == code, (words, err)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.parametrize(
    ("line", "offered"), [("planner ex", ["explain", "export"]), ("planner plan video --format j", ["json"])]
)
def test_the_shell_completes_commands_and_choices(line, offered):
    place = str(line.count(" "))
    asked = os.environ | {"_PLANNER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}
    done = subprocess.run([sys.executable, "-m", "planner"], check=True, capture_output=True, text=True, env=asked)
    assert sorted(done.stdout.split()) == offered


def test_readme_shows_every_command():
    shown = " ".join(command for command, _ in SHOWN)
    assert [path for path, _ in commands() if f"planner {path}" not in shown] == []


def commands():
    """Every command with its options."""
    for name, command in cli.commands().commands.items():
        for below, one in getattr(command, "commands", {"": command}).items():
            yield f"{name} {below}".strip(), one


@pytest.mark.parametrize(("path", "command"), list(commands()))
def test_every_command_and_option_has_help_and_a_place_in_the_docs(path, command):
    docs = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert f"`planner {path}" in docs
    assert command.help
    assert not command.get_short_help_str(61).endswith("...")  # the room that a list of commands has in 80 columns
    for option in command.params:
        assert option.param_type_name == "argument" or option.help, option.name
        assert all(f"`{word}" in docs for word in option.opts if word.startswith("-"))


def test_open_hands_the_page_to_the_browser(browser, here):
    write_answer(PLAN, here / "kept.json")
    opened = apart("open", "kept.json")
    assert (opened.returncode, opened.stderr) == (0, "")
    page = Path(opened.stdout.strip())
    assert browser.read_text().split() == [page.as_uri()]
    assert page.read_text().startswith("<!doctype html>")


def test_help_says_what_exit_codes_mean(planner):
    code, out, _ = planner("--help")
    assert code == 0
    assert [line.split()[0] for line in out.split("Exit codes:")[1].splitlines()[1:8]] == [*list("012345"), "130"]


def test_a_plan_is_answered_and_kept(planner, here):
    code, out, err = planner(*ON_T4)
    assert code == 0
    kept = read_plan(here / "plan.json")
    assert " ".join(out.split()).startswith(headline(kept))
    assert "planner explain plan.json" in out.splitlines()[-1]
    assert err == ""


@pytest.mark.parametrize(("every_s", "quiet", "told"), [(0.0, (), True), (0.0, ("-q",), False), (inf, (), False)])
def test_progress_is_a_plain_line_where_no_terminal_shows_a_bar(planner, monkeypatch, every_s, quiet, told):
    monkeypatch.setattr("planner.console.output.LINE_EVERY_S", every_s)
    code, out, err = planner(*ON_T4, "--no-cache", "--format", "json", *quiet)
    assert code == 0
    assert json.loads(out)["schema"] == "planner.plan/v3"
    assert bool(err) is told
    assert all(re.fullmatch(r"\d+ s: [ -~]+", line) for line in err.splitlines())


@pytest.mark.parametrize(("done", "share"), [(0.0, ""), (0.254, ", 25 % done"), (1.001, ", 100 % done")])
def test_a_line_of_progress_says_how_much_is_done(monkeypatch, capsys, done, share):
    monkeypatch.setattr("planner.console.output.LINE_EVERY_S", 0.0)
    lines()("confirming 2 x T4", done)
    assert re.fullmatch(rf"\d+ s: confirming 2 x T4{share}\n", capsys.readouterr().err)


def test_json_stands_alone_and_is_what_the_file_holds(planner, here):
    code, out, err = planner(*ON_T4, "--format", "json")
    assert (code, err) == (0, "")
    assert not (here / "plan.json").exists()
    _, again, _ = planner(*ON_T4, "--format", "json", "-o", "kept.json")
    first, second, kept = (json.loads(text) for text in (out, again, (here / "kept.json").read_text()))
    assert second == kept
    assert first | {"created_at": ""} == second | {"created_at": ""}
    assert first["recommendation"]["models"][0]["slo_attainment"].keys() == {"mean", "low", "high"}


def test_a_simulation_has_the_keys_of_a_plan(planner, answered_once):
    code, out, _ = planner("simulate", VIDEO, *QUICK, "--gpu", "V100", "--count", "8", "--format", "json")
    run = json.loads(out)
    _, out, _ = planner(*ON_T4, "--format", "json")
    best = json.loads(out)["recommendation"]
    assert code == 0
    assert (run["schema"], len(run["gpus"])) == ("planner.simulation/v2", 8)
    assert run["requests"] > 0
    assert run["wall_s"] > 0
    assert run["models"][0].keys() == best["models"][0].keys()
    assert run["policies"].keys() == json.loads(out)["policies"].keys()
    assert run["gpus"][0].keys() == best["gpus"][0].keys()


BOX = ("scenarios/edge-box.yaml", *QUICK, "--set", "accuracy=null")


@pytest.mark.parametrize("asked", [ON_T4[1:], BOX], ids=["trace", "edge-box"])
def test_a_plan_is_replayed_as_it_is(planner, answered_once, here, asked):
    planner("plan", *asked, "-o", "kept.json")
    best = json.loads((here / "kept.json").read_text())["recommendation"]
    words = ("simulate", *asked, "--plan", "kept.json", "--format", "json")
    code, out, _ = planner(*words)
    run = json.loads(out)
    assert code == 0
    assert [m["replicas"] for m in run["models"]] == [m["replicas"] for m in best["models"]]
    assert [m["slo_attainment"] for m in run["models"]] == [m["slo_attainment"] for m in best["models"]]
    assert run["gpus"] == best["gpus"]
    assert run["cost_usd_per_hour"] == best["cost_usd_per_hour"]
    other = json.loads(planner(*words, "--seed", "7")[1])
    assert [m["replicas"] for m in other["models"]] == [m["replicas"] for m in best["models"]]
    assert other["models"] != run["models"]


def test_a_plan_of_another_question_is_not_replayed(planner, answered_once, here):
    planner(*ON_T4, "-o", "kept.json")
    code, out, err = planner("simulate", VIDEO, "--plan", "kept.json")
    assert (code, out) == (2, "")
    assert err.startswith("kept.json: places other models than the scenario has: ")
    kept = json.loads((here / "kept.json").read_text())
    kept["recommendation"]["models"][0]["replicas"][0]["batch_size"] = 100_000
    (here / "kept.json").write_text(json.dumps(kept))
    code, _, err = planner("simulate", TRACE, "--plan", "kept.json")
    assert code == 2
    assert "batch size must be from 1 to" in err
    kept["recommendation"]["models"][0]["replicas"][0]["gpus"] = ["elsewhere:0"]
    (here / "kept.json").write_text(json.dumps(kept))
    code, _, err = planner("simulate", TRACE, "--plan", "kept.json")
    assert (code, "runs on `elsewhere:0`, which is not among `gpus`" in err) == (2, True)


OWNED = """\
models: [{name: frcnn, profile: faster_rcnn, slo: {latency: 2 s, attainment: 95 %}}]
streams: [{model: frcnn, count: 2, rate: 1 fps}]
buy: {own: [{name: box, gpu: V100, memory: MEMORY, count: 6, price: $0.1/h}]}
"""


def test_gpus_of_ones_own_come_first_with_the_memory_they_have(planner, here):
    words = ("simulate", "own.yaml", "--gpu", "V100", "--count", "1", "--format", "json")
    (here / "own.yaml").write_text(OWNED.replace("MEMORY", "6 GB"))
    run = json.loads(planner(*words)[1])
    assert (run["gpus"][0]["memory_bytes"], run["cost_usd_per_hour"]) == (6_000_000_000, 0.1)
    (here / "own.yaml").write_text(OWNED.replace("MEMORY", "1.3 GB"))
    code, out, err = planner(*words)
    assert (code, out) == (2, "")
    assert err.startswith("frcnn on V100: context, weights and one sample take ")
    assert ", its memory is 1.30 GB. Remedy: a GPU with " in err


def test_too_few_gpus_exit_3(planner):
    code, out, _ = planner("simulate", VIDEO, "--gpu", "V100", "--count", "1", "--format", "json")
    assert code == 3
    assert not all(model["slo_met"] for model in json.loads(out)["models"])


def test_a_lost_frame_is_counted_under_both_rules(planner):
    words = ("simulate", "scenarios/edge-box.yaml", "--gpu", "V100", "--count", "1", "--format", "json")
    changes = ("streams.0.rate=800 fps", "models[doors].accuracy=90 %", "replications=2", "horizon=10 s")
    code, out, _ = planner(*words, *(word for change in changes for word in ("--set", change)))
    doors = next(m for m in json.loads(out)["models"] if m["name"] == "doors")
    assert code == 3
    assert doors["accuracy"]["lost_is_wrong"] == pytest.approx(0.9 * doors["slo_attainment"]["mean"])
    assert doors["accuracy"]["lost_is_wrong"] < doors["accuracy"]["reuse_last"] < 0.9


def test_machines_to_buy_are_listed(planner):
    brief, whole = planner("profiles", "show", "resnet50")[1], planner("profiles", "show", "resnet50", "-v")[1]
    heads = re.findall(r"^\w+ on (\S+), (\S+), (\S+)$", whole, re.MULTILINE)
    assert [tuple(line.split()[1:4]) for line in brief.splitlines()[1 : 1 + len(heads)]] == heads
    _, out, _ = planner("prices", "show", "--gpu", "V100")
    assert re.search(r"^DGX-1V +8 x V100 +\$149,000 +\$18,625 +retired +2023-03-06$", out, re.M)
    code, out, _ = planner("prices", "show", "--gpu", "P100-SXM2")
    assert (code, out.splitlines()[0].split()[0]) == (0, "to")
    _, out, _ = planner("prices", "show", "--provider", "azure")
    assert "DGX" not in out


def test_an_infeasible_question_exits_3_and_says_why(planner, answered_once):
    code, out, _ = planner("plan", VIDEO, "--set", "buy.max_gpus=1", "--format", "json")
    answer = json.loads(out)
    assert (code, answer["recommendation"]["feasible"]) == (3, False)
    assert answer["rejections"]


MODEL = "  - {name: NAME, profile: resnet50_v2, slo: {latency: 200 ms, attainment: 95 %}}\n"
STREAM = "  - {model: NAME, count: 2, rate: 5 fps}\n"
FOUR_IN_THE_MEMORY_OF_THREE = f"""
models:
{"".join(MODEL.replace("NAME", name) for name in "abcd")}
streams:
{"".join(STREAM.replace("NAME", name) for name in "abcd")}
buy: {{own: [{{name: box, gpu: V100, memory: 1.2 GB, price: $1/h, count: 1}}]}}
scheduling: round-robin
swap: {{prefetch: false}}
"""


def test_a_policy_changes_the_replay(planner):
    Path("turns.yaml").write_text(FOUR_IN_THE_MEMORY_OF_THREE, encoding="utf-8")
    words = ("simulate", "turns.yaml", "--gpu", "V100", "--count", "1", "--format", "json", *QUICK)
    lru, mru = (json.loads(planner(*words, "--policy", f"eviction={name}")[1]) for name in ("lru", "mru"))
    assert lru["requests"] == mru["requests"]
    assert lru["gpus"][0]["swaps_per_s"] != mru["gpus"][0]["swaps_per_s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan", "SCENARIO"),
        ("plan missing.yaml", "missing.yaml"),
        (f"plan {VIDEO} --fail-on cost", "--fail-on cost: is no condition. Write e.g. `cost>5`"),
        (f"plan {VIDEO} --fail-on coast>5", "unknown metric `coast`. Did you mean `cost`?"),
        (f"plan {VIDEO} --fail-on cost>5fps", "unknown unit `fps`"),
        (f"plan {VIDEO} --fail-on p99>80", "must say its unit, got 80. Write `80 ms`"),
        (f"plan {VIDEO} --fail-on gpus>1.5", "must be a whole number, got `1.5`"),
        (f"plan {VIDEO} --format xml", "xml"),
        (f"plan {VIDEO} --catalog nowhere", "nowhere"),
        (f"plan {VIDEO} --profiles nowhere", "nowhere"),
        (f"plan {VIDEO} --set seed=-1", "seed"),
        (f"plan {VIDEO} --seed -1", "seed"),
        (f"plan {VIDEO} --seed 4294967296", "--seed 4294967296: must be from 0 to 4294967295"),
        ("plans", "plans"),
        ("explain", "ANSWER"),
        ("explain missing.json", "missing.json: no such file."),
        ("explain scenarios/video.yaml", "is a scenario of serving: `planner plan` reads it. Name the answer that"),
        ("explain scenarios", "is a directory"),
        (
            f"simulate {VIDEO} --gpu V10 --count 1",
            "Did you mean `V100` or `V100-32GB` or `V100S`?",
        ),
        (f"simulate {VIDEO} --gpu H100 --count 1 --set predict=never", "no profile of yolov3"),
        (f"simulate {VIDEO} --gpu V100 --count 0", "--count"),
        (f"simulate {VIDEO} --gpu V100 --count 1 --policy evict=mru", "Did you mean `eviction`?"),
        (f"simulate {VIDEO} --gpu V100 --count 1 --policy eviction=best", "best"),
        ("init scenarios/video.yaml", "scenarios/video.yaml: exists already"),
        ("init nowhere/mine.yaml", "nowhere/mine.yaml: cannot be written"),
        ("profiles show vgg", "no profile of `vgg`. Did you mean `vgg16`?"),
        ("profiles plot lenett -o x.png", "Did you mean `lenet`? See `profiles list`."),
        ("profiles show lenet", "Measure it with `planner calibrate --models lenet`. Profiles of your own: name"),
        (f"simulate {VIDEO} --gpu cpu-amd-epyc --count 1", "measured it, name the folder with `--profiles DIR`"),
        (
            "profiles show vgg16 --gpu L4",
            "no profile of `vgg16` on `L4`. Known: CPU-Sapphire-Rapids-4c, CPU-i9-10940X, H100, H200, T4, V100.",
        ),
        ("prices show --gpu X", "no price of `X`. Known:"),
        ("prices show --gpu A30", "no price of `A30`: nobody sells it. List your own under `buy.own`"),
        ("prices show --gpu A100-80GB-MIG-1g.10gb", "no price of `A100-80GB-MIG-1g.10gb`: nobody sells it. List your"),
        ("trace describe missing.csv", "missing.csv: no such file"),
        ("trace import scenarios/data/bursts.csv --rate 5ms", "unknown unit `ms`"),
        ("trace import scenarios/data/bursts.csv -o nowhere/x.csv", "nowhere/x.csv"),
    ],
)
def test_bad_usage_and_input_exit_2_in_words(planner, words, said):
    code, out, err = planner(*words.split())
    assert code == 2, err
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert "internal error" not in err


def test_an_unwritable_output_loses_nothing(planner, answered_once):
    code, out, err = planner(*ON_T4, "-o", "/dev/full")
    assert code == 2
    assert re.match(r"Published, not measured: \d+ x .*: \$[\d.]+/h, ", out)
    assert err == "/dev/full: cannot be written: No space left on device. Name another file with -o.\n"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nowhere/a.json", "folder nowhere is not there"),
        ("scenarios", "it is a folder"),
        pytest.param("/sys/a.json", "(Permission denied|Read-only file system)", marks=NEEDS_SYS),  # to root as well
    ],
)
@pytest.mark.parametrize(
    "words",
    ["plan video", "train lenet", "horizon week", "simulate video --gpu T4 --count 1"],
    ids=lambda w: w.split()[0],
)
def test_where_an_answer_is_kept_is_checked_before_it_is_worked_out(planner, monkeypatch, words, target, why):
    for name in ("serving.plan", "training.train", "serving.horizon", "serving.simulate"):
        monkeypatch.setattr(f"planner.api.{name}", lambda *_, **__: pytest.fail("it was worked out first"))
    code, out, err = planner(*words.split(), "-o", target)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"{re.escape(target)}: cannot be written: {why}\. Name another file with -o\.\n", err)


def test_any_answer_is_kept_where_it_is_said_and_read_back(planner, here):
    code, _, err = planner("train", "lenet", "-o", "lenet.json")
    assert code == 0
    assert err.startswith("Kept in lenet.json.")
    assert planner("train", "lenet", "-q", "-o", "lenet.json")[2] == ""
    assert "LeNet" in planner("explain", "lenet.json")[1]
    code, _, err = planner("simulate", "trace", "--gpu", "T4", "--count", "2", "-o", "lenet.json")
    assert (code, "exists and is no simulation" in err) == (2, True)


@pytest.mark.parametrize("target", [TRACE, "./scenarios/../scenarios/trace.yaml", "notes.json"])
def test_only_plans_are_replaced_by_a_plan(planner, here, target):
    (here / "notes.json").write_text('{"notes": "mine"}')
    before = (here / target).read_bytes()
    code, out, err = planner(*ON_T4, "-o", target)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Name another file with -o" in err
    assert (here / target).read_bytes() == before


def test_a_plan_nobody_named_replaces_no_other_file_either(planner, here):
    for name in ("plan.json", "infeasible.json"):
        (here / name).write_text("[1, 2]")
        code, out, err = planner(*ON_T4)
        assert (code, out) == (2, "")
        assert f"{name}: exists and is no plan" in err
        assert (here / name).read_text() == "[1, 2]"
        (here / name).unlink()
    (here / "plan.json").write_text("")
    assert planner(*ON_T4)[0] == 0
    assert planner(*ON_T4)[0] == 0
    assert read_plan(here / "plan.json").recommendation


def test_a_missed_slo_comes_before_a_threshold(planner, answered_once):
    code, _, err = planner("plan", VIDEO, "--set", "buy.max_gpus=1", "--fail-on", "gpus>=1", "--strict", "-q")
    assert code == 3
    assert "--fail-on gpus>=1: it is" in err


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("cost>5", True),
        ("cost > $6.12/h", False),
        ("cost>=$6.12/h", True),
        (f"cost>{6.12 * (1 - 1e-15)!r}", False),
        ("cost<=$1/h", False),
        ("gpus>=2", True),
        ("gpus<2", False),
        ("p99>80 ms", True),
        ("p99>0.0813 s", False),
        ("attainment<99.5 %", True),
        ("attainment<0.99", False),
    ],
)
def test_conditions(condition, holds):
    assert bool(crossed(PLAN, [parse_condition(condition)])) is holds


def test_several_conditions_are_all_checked():
    said = crossed(PLAN, [*map(parse_condition, ["cost>5", "gpus>5", "p99>=80 ms"])])
    assert said == ["--fail-on cost>5: it is $6.12/h.", "--fail-on p99>=80 ms: it is 81.2 ms."]
    with pytest.raises(InputError):
        parse_condition("cost=5")


def test_a_cost_is_told_for_as_long_as_it_was_asked():
    asked = ["cost>5", "cost>$5/h", "cost>5 USD/month", "cost>$50/year"]
    said = [line.rsplit(" ", 1)[1] for line in crossed(PLAN, [*map(parse_condition, asked)])]
    assert said == ["$6.12/h.", "$6.12/h.", f"${6.12 * 730:,.0f}/month.", f"${6.12 * 8760:,.0f}/year."]


def test_strict_names_what_is_weak():
    assert [line.split(":")[1].strip() for line in weak(PLAN)] == ["yolov3"]
    assert "more than 90 days ago. Give a newer one" in weak(replace(PLAN, created_at="2027-01-01T00:00:00Z"))[-1]
    old = Statement(code=Code.STALE_PRICE, subjects=("L40S-1x", "2026-08-19"), figures={"days": 40, "usual": 30})
    assert "L40S-1x is from 2026-08-19 (40 days ago)" in weak(replace(PLAN, warnings=(PlanWarning(what=old),)))[-1]
    assert weak(replace(PLAN, recommendation=replace(BEST, models=BEST.models[:1]))) == []


def test_explain_reads_only_the_plan(planner, here):
    write_answer(INFEASIBLE, here / "old.json")
    code, out, _ = planner("explain", "old.json")
    assert code == 0
    assert all(model.name in out for model in INFEASIBLE.recommendation.models)
    (here / "cut.json").write_text((here / "old.json").read_text()[:2000])
    code, out, err = planner("explain", "cut.json")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"cut.json:\d+:\d+: is not JSON: .*\n", err)


def test_an_internal_error_is_one_line(planner, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by\nzero")

    monkeypatch.setattr("planner.io.load.load_scenario", broken)
    code, _, err = planner("plan", VIDEO)
    assert code == 1
    assert err.startswith("planner: internal error: ZeroDivisionError: division by zero. PLANNER_DEBUG=1")
    assert err.count("\n") == 1
    monkeypatch.setenv("PLANNER_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["planner", "plan", VIDEO])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_reader_that_leaves_is_no_error(here):
    write_answer(PLAN, here / "plan.json")
    run = Forked([*PLANNER, "explain", "plan.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.close()
    assert run.wait(LONG_S) == 0
    assert run.stderr is not None
    assert run.stderr.read() == b""
    run.stderr.close()


def test_a_full_disk_is_said_and_an_answer_is_kept_before_it_is_shown(here):
    words = ("train", "lenet", "-o", "kept.json")
    with Path("/dev/full").open("w") as full, forking():
        run = subprocess.run([*PLANNER, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "standard output: cannot be written: No space left on device.\n")
    assert json.loads((here / "kept.json").read_text())["schema"] == "planner.training/v1"


@pytest.mark.parametrize("words", [("--help",), ("plan", "--help"), ("prices", "show")])
def test_a_full_disk_is_said_of_help_too(words):
    with Path("/dev/full").open("w") as full, forking():
        run = subprocess.run([*PLANNER, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "standard output: cannot be written: No space left on device.\n")


def test_plain_ascii_where_nothing_else_is_known(here):
    run = apart(*ON_T4, *QUICK, "-v", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert " +- " in run.stdout  # shares have intervals where nothing is drawn
    assert run.stdout.isascii()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_exits_130(here, number):
    changes = ("buy.gpus=[T4]", "replications=1000", "horizon=10000")
    words = ("plan", VIDEO, *(word for change in changes for word in ("--set", change)))
    written = read_terminal(run := in_terminal(*words), until="trying")
    run.process.send_signal(number)
    written += read_terminal(run)
    assert run.process.wait(LONG_S) == 130
    assert "Traceback" not in written
    assert "Interrupted before any fleet met every SLO" in written
    assert "/month" not in written  # no answer, nor a part of one
    assert not Path("plan.json").exists()


@dataclass
class Terminal:
    """A command that runs in a terminal of 80 columns."""

    process: subprocess.Popen[bytes]
    screen: int


def in_terminal(*words, **variables):
    """Start a command in a terminal, which knows its width by itself: shells do not export COLUMNS."""
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": "xterm"} | variables
    run = Forked([*PLANNER, *words], stdout=terminal, stderr=terminal, env=env, start_new_session=True)
    os.close(terminal)
    return Terminal(run, main)


def read_terminal(run, until=None):
    """What it writes: all, or up to a word."""
    written = ""
    with suppress(OSError):  # Linux says so where the other end has closed
        while until is None or until not in written:
            written += os.read(run.screen, 65536).decode(errors="replace")
    return written


@pytest.mark.parametrize(
    "words",
    [
        f"plan {TRACE} --set models[tagging].precision=fp8",
        "train scenarios/training/resnet50.yaml --set train.precision=fp8",
        "profile resnet50 --precision fp8",
        "profiles table resnet50 --precision fp8",
        "profiles import t.csv --model resnet50 --gpu V100 --runtime pytorch --input 224 --precision fp8",
    ],
)
def test_a_precision_that_a_command_does_not_know_is_refused_in_the_same_words(planner, here, words):
    (here / "t.csv").write_text("batch,latency_ms\n1,5\n", encoding="utf-8")
    code, out, err = planner(*words.split())
    assert (code, out) == (2, "")
    said = r"must be one of fp32, .*16.*, got `fp8`\. Only `planner predict` knows fp8, by published times of batches\."
    assert re.search(said, " ".join(err.split()))


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("report", "plan.json", "-o", "plan.json"), ".html"),
        (("trace", "import", "scenarios/data/bursts.csv", "-o", VIDEO), ".csv"),
        (("horizon", "scenarios/horizon/week.yaml", "--plot", VIDEO), ".png"),
        (("merge", "analyze", "resnet50", "--plot", VIDEO), ".png"),
        (("merge", "breakeven", "scenarios/city.yaml", "--plot", VIDEO), ".png"),
        (("study", "scenarios/studies/deadline.yaml", "-o", "s", "--plot", VIDEO), ".png"),
        (("train", "scenarios/training/resnet50.yaml", "--plot", VIDEO), ".png or .svg"),
    ],
)
def test_nothing_is_written_over_what_is_something_else(planner, here, words, ends):
    write_answer(PLAN, here / "plan.json")
    kept = {name: (here / name).read_bytes() for name in ("plan.json", VIDEO)}
    code, _, err = planner(*words)
    assert code == 2
    assert f"must end in {ends}" in " ".join(err.split())
    assert {name: (here / name).read_bytes() for name in kept} == kept


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("report plan.json -o page.html", "page.html"),
        ("export plan.json --to kubernetes -o out", "out/README.md"),
        ("profile resnet18 --plot it.svg", "it.svg"),
        ("merge analyze resnet18 resnet34 --plot it.png", "it.png"),
        ("profiles plot resnet50_v2 --gpu V100 -o it.png", "it.png"),
    ],
)
def test_what_was_written_is_not_said_to_who_asks_for_quiet(planner, here, words, written):
    write_answer(PLAN, here / "plan.json")
    (code, told, note), (quiet_code, answer, silence) = (planner(*words.split(), *more) for more in ((), ("-q",)))
    assert (code, quiet_code, silence) == (0, 0, "")
    assert (here / written).exists()
    said = [line for line in (told + note).splitlines() if line not in answer.splitlines()]
    assert said[0].startswith("Wrote")


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("init mine.yaml", "mine.yaml"),
        ("init --from app.txt mine.yaml", "mine.yaml"),
        ("from-triton models", "scenario.yaml"),
        ("trace import scenarios/data/bursts.csv", "trace.csv"),
        ("profiles export resnet50_v2 --gpu V100 -o it.csv", "it.csv"),
        (
            "profiles import plain.csv --model m --gpu T4 --precision fp16 --runtime tensorrt --weights 1MB "
            "--input 224",
            "profiles",
        ),
        (
            "gpus add My-GPU --memory-gb 8 --memory-bandwidth-gb-per-s 200 --fp32-tflops 5 --tdp-w 100 --idle-w 10 "
            "--pcie-gb-per-s 12 --source here",
            "catalog/gpus.yaml",
        ),
    ],
)
def test_what_is_written_once_is_not_said_either(planner, here, words, written):
    (here / "app.txt").write_text("[primary-gie]\nenable=1\nbatch-size=1\n")
    (here / "models/resnet50/1").mkdir(parents=True)
    (here / "models/resnet50/config.pbtxt").write_text('backend: "onnxruntime"\n')
    (here / "models/resnet50/1/model.onnx").write_bytes(b"")
    shutil.copy(ROOT / "tests/data/imports/plain.csv", here)
    code, answer, note = planner(*words.split(), "-q")
    assert (code, note) == (0, "")
    assert "Wrote" not in answer
    assert (here / written).exists()


@pytest.mark.parametrize(
    ("words", "doing"),
    [
        ((*ON_T4, *QUICK), "confirming 1 x"),
        (("simulate", TRACE, "--gpu", "V100", "--count", "1"), "replaying 1 x V100"),
    ],
)
def test_a_terminal_gets_colours_and_progress(here, words, doing):
    text = read_terminal(run := in_terminal(*words))
    assert run.process.wait(LONG_S) == 0
    assert "\x1b[1m" in text
    assert re.search(rf"\d:\d\d:\d\d {doing}", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))


def test_answers_and_notes_are_as_wide_as_the_terminal_and_plain_with_no_color(here):
    write_answer(PLAN, here / "plan.json")
    for words in (("explain", "plan.json"), ("prices", "status"), ("gpus", "show", "no-such-gpu")):
        text = read_terminal(run := in_terminal(*words, NO_COLOR="1"))
        run.process.wait(LONG_S)
        assert 60 < max(map(len, text.split("\r\n"))) <= 80, words
        assert "\x1b" not in text


@pytest.mark.parametrize(
    "words", ["report plan.json -o nowhere/a.html", "trace import t.csv -o nowhere/a.csv", "init nowhere/a.yaml"]
)
def test_a_folder_that_is_not_there_is_named(planner, words):
    """Before files are read: neither `plan.json` nor `t.csv` is there."""
    code, _, err = planner(*words.split())
    assert code == 2
    assert re.search(r"nowhere/a\.\w+: cannot be written: folder nowhere is not there\. Name another file", err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("simulate video --gpu T4 --count 0", "--count 0: must be at least 1."),
        ("simulate video --gpu T4 --count=1.5", "--count 1.5: must be a whole number."),
        ("study video --workers 99999", "--workers 99999: must be at most"),
        ("whatif plan.json --load 130", "--load must be at most 100 times, got 130. Write e.g. `1.3` or `130 %`."),
        ("plan video --set buy.price=reserved", "Did you mean `reserved-1y` or `reserved-3y`?"),
        ("plan video --set buy.providers=[google]", "Did you mean `gcp`?"),
    ],
)
def test_rules_of_values_are_in_our_words(planner, words, said):
    code, _, err = planner(*words.split())
    assert code == 2
    assert said in " ".join(err.split())
    assert "Input should" not in err


def test_a_misspelt_model_has_its_hint_whatever_its_runtime(planner, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "models: [{name: a, model: bert-bse-uncased, runtime: tensorrt, slo: {latency: 1 s, attainment: 95 %}}]\n"
        "streams: [{model: a, rate: 1 fps}]\nbuy: {gpus: [T4]}\n"
    )
    code, _, err = planner("plan", file)
    assert (code, err.count("\n")) == (2, 1)
    assert "Did you mean `hf:bert-base-uncased`?" in err


def test_ctrl_c_before_there_is_anything_to_say_is_a_line(planner, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.api.serving.plan", stopped)
    assert planner("plan", "video", "-q") == (130, "", "Interrupted before there was an answer.\n")


def test_ctrl_c_while_the_command_line_is_imported_is_a_line(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.cli.main", stopped)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert (end.value.code, capsys.readouterr().err) == (130, "Interrupted before there was an answer.\n")
