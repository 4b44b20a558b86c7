"""Files of others: damaged, hostile or endless, they end in one clear line and exit code 2, and change nothing."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.answers import BEST, PLAN
from support.commands import planner
from support.forks import forking
from support.paths import ROOT
from typer.testing import CliRunner

from benchmarks.fuzz import FUNCTIONS, RECORDING, STATE, STUDY, TASKS, TRAINING, TRITON
from calibrate.joint.spec import read_spec
from calibrate.sweep.journal import JournalError, open_journal
from planner import cli
from planner.console import output
from planner.exports.skypilot import comments
from planner.io.store import write_answer
from planner.placing.merging.accuracy import read_table
from planner.placing.merging.layers import MergeError

SERVING = """\
name: small
models:
  - {name: a, profile: nvidia_resnet50, precision: fp32, slo: {latency: 150 ms}}
streams:
  - {model: a, poisson: 20 rps}
buy: {own: [{name: box, gpu: T4, price: $0.3/h, count: 2}]}
horizon: 5 s
replications: 2
confidence: 50 %
"""


def asked(*words: str) -> tuple[int, str]:
    """Exit code, and what went to standard error, of a command that reads files of the folder."""
    with forking():
        done = CliRunner().invoke(cli.app, list(words))
    if done.exception is None or isinstance(done.exception, SystemExit):
        return done.exit_code, done.stderr
    return (2 if isinstance(done.exception, ValueError) else 1), str(done.exception)


def refused(*words: str) -> str:
    """The one line with which a command refuses; it keeps within a line and speaks to no terminal."""
    return the_line(words, *planner(*words))


RUN_EACH = """\
import json, resource, sys
from pathlib import Path
from support.commands import planner
had = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (had + 10**9, had + 10**9))
print(json.dumps([planner(*words) for words in json.loads(sys.argv[1])]))
"""


def refused_soon(*commands: tuple[str, ...]) -> list[str]:
    """The same, of what might ask for all memory and all time: one process that gets little of both runs them all."""
    with forking():
        done = subprocess.run(
            [sys.executable, "-c", RUN_EACH, json.dumps(commands)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        )
    return [the_line(words, *answer) for words, answer in zip(commands, json.loads(done.stdout), strict=True)]


def the_line(words: tuple[str, ...], code: int, out: str, err: str) -> str:
    assert code == 2, (words, err[-500:])
    assert out == ""
    (line,) = err.splitlines()
    assert line.isprintable()
    assert len(line) < 600
    return line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("small.yaml").write_text(SERVING)
    return tmp_path


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A plan, a study, a training and a recording as commands write them."""
    folder = tmp_path_factory.mktemp("answers")
    for name, text in (("small.yaml", SERVING), ("training.yaml", TRAINING), ("study.yaml", STUDY)):
        (folder / name).write_text(text)

    def run(*words: str) -> str:
        code, out, err = planner(*words)
        assert code in (0, 3), err
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        run("plan", "small.yaml", "-o", "plan.json")
        run("study", "study.yaml", "-o", "st", "--workers", "1")
        trained = run("train", "training.yaml", "--format", "json")
    return {
        "plan.json": json.loads((folder / "plan.json").read_text()),
        "study.json": json.loads((folder / "st" / "study.json").read_text()),
        "train.json": json.loads(trained),
        "run.json": json.loads(gzip.decompress(RECORDING.read_bytes())),
    }


Change = Callable[[dict[str, Any]], object]
DAMAGED: dict[str, tuple[str, Change, tuple[str, ...], str]] = {
    "a column of a plan is shorter": (
        "plan.json", lambda d: d["timeline"]["batches"]["size"].pop(), ("report", "plan.json"), "as many entries as"),
    "a model on a GPU that is not there": (
        "plan.json", lambda d: d["recommendation"]["models"][0].update(gpus=["x"]), ("report", "plan.json"),
        "runs on `x`, which is not among `gpus`"),
    "a fleet of no machines": (
        "plan.json", lambda d: d["recommendation"].update(instances=[]), ("explain", "plan.json"),
        "recommendation.instances: must not be empty beside models and GPUs"),
    "no machine of a type": (
        "plan.json", lambda d: d["recommendation"]["instances"][0].update(count=0), ("explain", "plan.json"),
        "recommendation.instances[0].count: must be at least 1, got 0"),
    "latency counts without an edge": (
        "plan.json", lambda d: d["latency"][0]["counts"].append(1), ("report", "plan.json"), "one more than `counts`"),
    "fewer than no GPUs": (
        "plan.json", lambda d: d["recommendation"].update(gpu_count=-3), ("explain", "plan.json"),
        "recommendation.gpu_count: must be a whole number from 0"),
    "a time below 0": (
        "plan.json", lambda d: d["policies"].update(horizon_s=-1), ("explain", "plan.json"), "policies.horizon_s"),
    "a name that speaks to the terminal": (
        "plan.json", lambda d: d.update(scenario="\x1b[2J\x1b]0;owned\x07"), ("explain", "plan.json"),
        "scenario: must have no control characters, got `\\x1b[2J"),
    "a machine whose name ends its line": (
        "plan.json", lambda d: d["recommendation"]["instances"][0].update(instance="x\nsetup: touch PWNED"),
        ("export", "plan.json", "--to", "skypilot", "-o", "sky"), "must have no control characters"),
    "a price of no day": (
        "plan.json", lambda d: d["recommendation"]["instances"][0].update(price_as_of="<script>"),
        ("explain", "plan.json"), "must be a date"),
    "a figure that is a text": (
        "study.json", lambda d: d["points"][0]["values"]["p99_s"].update(mid="x"), ("diff", "study.json", "study.json"),
        "points[0].values[p99_s]: must be a number"),
    "a point without its axis": (
        "study.json", lambda d: d["points"][0]["axes"].pop("load"), ("report", "study.json"),
        "points[0].axes: must have each axis"),
    "an axis with fewer numbers than values": (
        "study.json", lambda d: d["axes"][0]["numbers"].pop(), ("report", "study.json"), "as many entries as `values`"),
    "an output that no study has": (
        "study.json", lambda d: d["outputs"][0].update(name="nobody"), ("report", "study.json"), "must be a figure of"),
    "a time of training that is a text": (
        "train.json", lambda d: d["options"][0]["time_s"].update(mid="x"), ("diff", "train.json", "train.json"),
        "options[0].time_s.mid: must be a number"),
    "columns of a recording differ": (
        "run.json", lambda d: d["batches"][0]["count"].pop(), ("validate", "--replay", "run.json"),
        "batches[0].count: must have as many entries as `start`"),
    "a count that no batch has": (
        "run.json", lambda d: d["batches"][0]["count"].__setitem__(0, 10**18), ("validate", "--replay", "run.json"),
        "batches[0].count[0]: must be at most"),
    "an SLO that is a text": (
        "run.json", lambda d: d["deployment"]["services"][0]["slo"].update(latency_s="x"),
        ("validate", "--replay", "run.json"), "slo.latency_s: must be a number, got `x`"),
    "an action of no device": (
        "run.json", lambda d: d["actions"][0].update(device="x"), ("validate", "--replay", "run.json"),
        "must be one of the deployment's"),
    "an action that took no time": (
        "run.json", lambda d: d["rehearsals"][0][0]["actual"].__setitem__(0, 0), ("validate", "--replay", "run.json"),
        "must be above 0 where something was expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_answers_are_refused_by_place_and_rule(name: str, here: Path, answers: dict[str, Any]) -> None:
    file, change, words, said = DAMAGED[name]
    damaged = json.loads(json.dumps(answers[file]))
    change(damaged)
    Path(file).write_text(json.dumps(damaged))
    line = refused(*words)
    assert line.startswith(f"{file}: ")
    assert said in line
    assert sorted(os.listdir()) == sorted(["small.yaml", file])


def test_what_commands_wrote_is_read(here: Path, answers: dict[str, Any]) -> None:
    for file, data in answers.items():
        Path(file).write_text(json.dumps(data))
    for words in (("explain", "plan.json"), ("diff", "study.json", "study.json"), ("diff", "train.json", "train.json")):
        assert asked(*words)[0] == 0


# Endless, and small files that ask for much


def test_devices_and_pipes_are_no_files(here: Path) -> None:
    os.mkfifo("pipe")
    files = ("/dev/zero", "pipe")
    kept = [(command, file) for command in ("explain", "report") for file in files]
    commands = [*kept, *(("diff", file, file) for file in files), *(("validate", "--replay", file) for file in files)]
    for line in refused_soon(*commands):
        assert "is a device or a pipe, and no file" in line


def test_what_unpacks_to_too_much_is_refused_while_it_is_read(here: Path) -> None:
    with gzip.open("bomb.json.gz", "wb", 1) as bomb:
        bomb.write(b'{"schema":"planner.recording/v1","x":[')
        for _ in range(100):
            bomb.write(b"{}," * 200_000)
        bomb.write(b"{}]}")
    with gzip.open("zeros.json.gz", "wb", 1) as bomb:
        for _ in range(300):
            bomb.write(b"0," * 500_000)
    with gzip.open("lines.csv.gz", "wb", 1) as bomb:
        bomb.write(b"arrival_s\n")
        for _ in range(30):
            bomb.write(b"\n" * 1_000_000)
    objects, zeros, lines = refused_soon(
        ("validate", "--replay", "bomb.json.gz"),
        ("explain", "zeros.json.gz"),
        ("trace", "describe", "lines.csv.gz"),
    )
    assert "holds more values than fit into 400 MB" in objects
    assert "holds more than 256 MB" in zeros
    assert "holds more than 15,000,000 rows" in lines


def test_a_small_file_asks_for_no_more_than_its_size(here: Path, answers: dict[str, Any]) -> None:
    """Nothing grows faster than the file: keys that come again, values that are all wrong, one long cell."""
    Path("keys.json").write_text("{" + "".join(f'"{i}":0,' for i in range(150_000)) + '"7":0}')
    wrong = json.dumps({**answers["plan.json"], "warnings": []}).replace('"warnings": []', '"warnings": [HERE]')
    with gzip.open("wrong.json.gz", "wb", 1) as packed:
        packed.write(wrong.replace("HERE", "1," * 2_000_000 + "1").encode())
    many = {"versions": dict.fromkeys(map(str, range(200_000)), 1)}
    Path("many.json").write_text(json.dumps({**answers["plan.json"], **many}))
    Path("dates.csv").write_text("time\n" + "2023-11-16 18:17:03.97\n" * 20_000 + "x" * 100_000 + "\n")
    Path("zone.csv").write_text("time\n2024-01-01T00:00:00.1\n2024-01-01T00:00:10.123456789012345678+00garbage\n")
    Path("comment.csv").write_text("# from 0 s" + " , lasts" * 60_000 + "\n#" + " " * 400_000 + "x\ntime\n1\n")
    said = {
        ("explain", "keys.json"): "keys.json: has the key `7` twice",
        ("explain", "wrong.json.gz"): "warnings[0]: must be a mapping of keys to values, got 1",
        ("explain", "many.json"): "versions: must have at most 100,000 items",
        ("trace", "describe", "dates.csv"): "dates.csv:20002: must be a date",
        ("trace", "describe", "zone.csv"): "zone.csv:3: must be a date",
        ("trace", "describe", "comment.csv"): "holds 1 arrival",
    }
    for line, expected in zip(refused_soon(*said), said.values(), strict=True):
        assert expected in line


def test_counts_that_ask_for_terabytes(here: Path) -> None:
    header = FUNCTIONS.split("\n")[0].split(",")[:4]
    said = {
        "300000," * 1439 + "300000": "432,000,000 calls, more than 15,000,000",
        "9" * 16: "must be whole numbers from 0 to 15,000,000",
        "9" * 30: "must be whole numbers from 0 to 15,000,000",
    }
    for number, counts in enumerate(said):
        minutes = [str(i) for i in range(1, counts.count(",") + 2)]
        Path(f"{number}.csv").write_text(",".join([*header, *minutes]) + "\no,a,f,http," + counts + "\n")
    commands = [("trace", "describe", f"{number}.csv") for number in range(len(said))]
    for line, expected in zip(refused_soon(*commands), said.values(), strict=True):
        assert expected in line


def test_rows_of_other_lengths_are_named(here: Path) -> None:
    Path("f.csv").write_text(FUNCTIONS.rstrip("\n").rpartition(",")[0] + "\n")
    assert "f.csv:3: has counts of 29 minutes" in refused("trace", "import", "f.csv", "--function", "2", "-o", "q.csv")


def test_the_first_line_of_a_private_file_is_not_shown(here: Path) -> None:
    Path("secret").write_text("root:x:0:0:hunter2\n")
    Path("small.yaml").write_text(SERVING.replace("poisson: 20 rps", "trace: {file: secret}"))
    assert "hunter2" not in refused("plan", "small.yaml")


# Values


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "poisson: 20 rps",
            "gamma: {rate: 20 rps, cv: 1e-160}",
            "small.yaml:5:42: streams[0].gamma.cv: must be",
        ),
        ("$0.3/h", "1e300", "buy.own[0].price: must be at most 1 million $/h"),
        ("model: a,", f"model: {'a' * 5000},", "`aaa"),
        ("gpu: T4", "gpu: T4, memory: 900 GB", "small.yaml:6:42: buy.own[0].memory"),
        ("buy: {", "buy: {regions: [mars], ", "small.yaml:6:17: buy.regions[0]: `mars` is not in the catalog"),
    ],
)
def test_values_that_nobody_can_mean(old: str, new: str, said: str, here: Path) -> None:
    Path("small.yaml").write_text(SERVING.replace(old, new))
    code, error = asked("plan", "small.yaml", "-o", "p.json")
    assert (code, said in error) == (2, True), error
    assert not Path("p.json").exists()


def test_a_number_of_ten_thousand_digits(here: Path) -> None:
    Path("repo/a").mkdir(parents=True)
    Path("repo/a/config.pbtxt").write_text(TRITON.replace("16", "9" * 10_000))
    assert "config.pbtxt:3:17: must be a number of at most 100 digits" in refused("from-triton", "repo", "-o", "s.yaml")


def test_an_axis_of_pictures(here: Path) -> None:
    Path("study.yaml").write_text('base: small.yaml\naxes: {name: ["\U0001f697", "b"]}\noutputs: [gpu_count]\n')
    assert asked("study", "study.yaml", "-o", "st", "--workers", "1")[0] == 0


def test_points_of_a_study_are_not_trusted(here: Path) -> None:
    Path("study.yaml").write_text(STUDY)
    Path("st").mkdir()
    outcome = {"key": "0", "values": {"p99_s": {"low": 1}}, "feasible": True, "evidence": None, "predicted": False}
    Path("st/points.jsonl").write_text(json.dumps(outcome | {"reason": "", "failed": False}) + "\n")
    assert refused("study", "study.yaml", "-o", "st", "--resume").startswith("st/points.jsonl:1: is no point")


@pytest.mark.parametrize("text", ["somebody's", "somebody's\n", '{"x": 1', "1\n2"])
def test_only_what_begins_like_ours_is_cut(text: str, here: Path) -> None:
    """A line that a kill cut short goes; a file of somebody else stays as it is."""
    Path("study.yaml").write_text(STUDY)
    Path("st").mkdir()
    Path("st/points.jsonl").write_text(text)
    refused("study", "study.yaml", "-o", "st", "--resume")
    assert Path("st/points.jsonl").read_text() == text
    Path("journal.jsonl").write_text(text)
    with pytest.raises(JournalError, match="Move the file away"):
        open_journal(Path("journal.jsonl"), {"gpu": "cpu"}, 0, resume=True)
    assert Path("journal.jsonl").read_text() == text


def test_a_study_follows_no_link(here: Path) -> None:
    Path("study.yaml").write_text(STUDY)
    Path("keep.txt").write_text("keep")
    assert asked("study", "study.yaml", "-o", "st", "--workers", "1")[0] == 0
    for name in ("study.json", "results.csv"):
        Path("st", name).unlink()
        Path("st", name).symlink_to("../keep.txt")
    assert asked("study", "study.yaml", "-o", "st", "--resume")[0] == 0
    assert not Path("st/study.json").is_symlink()
    Path("st/points.jsonl").unlink()
    Path("st/points.jsonl").symlink_to("../keep.txt")
    assert "st/points.jsonl: is a link" in refused("study", "study.yaml", "-o", "st", "--resume")
    assert Path("keep.txt").read_text() == "keep"


JOINT: dict[str, Change] = {
    "flight.stage: is missing": lambda d: d["flight"].pop("stage"),
    "is not a key": lambda d: d["flight"].update(x=1),
    "flight.history: is empty": lambda d: d["flight"].update(history=[]),
    "flight.file: must be a file of weights in this folder, got `../x.pt`": lambda d: d["flight"].update(
        file="../x.pt"
    ),
    f"alone.{'z' * 60}": lambda d: d["alone"].update({"z" * 10_000: 1}),
    "alone.z: is no model of the spec": lambda d: d["alone"].update(z=1),
    "attempts[0].accuracy.b: is missing": lambda d: d["attempts"][0]["accuracy"].pop("b"),
    "attempts[0].groups[0].copy: must be a whole number": lambda d: d["attempts"][0]["groups"][0].update(copy=0.5),
    "attempts[0].accepted: must be true or false": lambda d: d["attempts"][0].update(accepted="x"),
    "was begun on `\\x1b[2J`": lambda d: d.update(device="\x1b[2J"),
    "seed was `\\x1b`": lambda d: d["spec"].update(seed="\x1b"),
}


@pytest.mark.parametrize("said", JOINT)
def test_states_of_joint_trainings_are_not_trusted(said: str, here: Path) -> None:
    pytest.importorskip("torch")
    from calibrate.joint.state import JointError, JointWork

    state = {"spec": read_spec(TASKS).to_json(), **json.loads(json.dumps(STATE))}
    JOINT[said](state)
    Path("state.json").write_text(json.dumps(state))
    with pytest.raises(JointError) as error:
        JointWork(Path(), read_spec(TASKS), "cpu", resume=True)
    assert said in str(error.value)
    assert len(str(error.value)) < 600
    Path("state.json").unlink()
    with pytest.raises(JointError, match="holds other files, and no training"):
        JointWork(Path(), read_spec(TASKS), "cpu", resume=False)


def test_weights_of_a_person_stay(here: Path) -> None:
    pytest.importorskip("torch")
    from calibrate.joint.state import JointError, JointWork

    Path("weights-2024-01-01.pt").write_text("mine")
    with pytest.raises(JointError, match="holds other files"):
        JointWork(Path(), read_spec(TASKS), "cpu", resume=False)
    with JointWork(Path("out"), read_spec(TASKS), "cpu", resume=False) as work:
        Path("out/weights-best.pt").write_text("mine")
        work.keep_weights({})
        work.finish()
        assert Path("out/weights-best.pt").exists()
        Path("out", work.state.weights).unlink()
        os.mkfifo(Path("out", work.state.weights))
        with pytest.raises(JointError, match="is a device or a pipe"):
            work.weights()


@pytest.mark.parametrize("text", ["\0\n", "model,shared_fraction,accuracy\n" + '"' + "x" * 200_000])
def test_a_table_that_is_none(text: str, here: Path) -> None:
    Path("table.csv").write_text(text)
    with pytest.raises(MergeError, match=r"table\.csv: (is not CSV|must have the columns)"):
        read_table(Path("table.csv"))


# Exports


def test_no_name_ends_a_comment_of_an_export() -> None:
    (bought, *others) = BEST.instances
    named = replace(bought, instance="x\nsetup: touch PWNED")
    plan = replace(PLAN, recommendation=replace(BEST, instances=(named, *others)))
    lines = list(comments(plan, named, None))
    assert all(line.startswith("#") and "\n" not in line for line in lines)


MARKS = (
    "[]", "5", '{"schema":"S"}', '{"schema":"S","target":"openmetrics"}',
    '{"schema":"S","target":"openmetrics","files":[1,2]}', '{"schema":"S","target":"openmetrics","files":{"":"x"}}',
    '{"schema":"S","target":"openmetrics","files":{"a\\u0000b":"x"}}',
    '{"schema":"S","target":"openmetrics","files":{"../victim.txt":"x"}}',
    '{"schema":"S","target":"openmetrics","files":{"/etc/hostname":"x"}}',
    '{"schema":"S","target":"openmetrics","files":{"a/../../victim.txt":"x"}}',
    '{"schema":"S","target":"openmetrics","files":{"d":"x"}}',
)  # fmt: skip


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_leads_nowhere_else(mark: str, here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    Path("out/d").mkdir(parents=True)
    Path("victim.txt").write_text("keep")
    Path("out/.planner-export.json").write_text(mark.replace("S", "planner.exports/v1"))
    code, error = asked("export", "plan.json", "--to", "openmetrics", "-o", "out", "--force")
    assert (code, error.count("\n")) == (2, 0)
    assert Path("victim.txt").read_text() == "keep"
    assert sorted(os.listdir("out")) == [".planner-export.json", "d"]


def test_an_export_that_was_broken_off_can_be_made_again(here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    Path("out").mkdir()
    Path("out/..planner-export.json.12.part").write_text("{")
    assert asked("export", "plan.json", "--to", "openmetrics", "-o", "out")[0] == 0


def test_a_link_is_not_followed(here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    words = ("export", "plan.json", "--to", "openmetrics", "-o", "out", "--force")
    assert asked(*words)[0] == 0
    Path("target.txt").write_text("keep")
    Path("out/plan.prom").unlink()
    Path("out/plan.prom").symlink_to("../target.txt")
    code, error = asked(*words)
    assert (code, "out/plan.prom: is a link" in error) == (2, True)
    assert Path("target.txt").read_text() == "keep"


# Outputs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pre.csv", ("trace", "import", "sent.csv", "-o", "pre.csv")),
        ("pre.html", ("report", "plan.json", "-o", "pre.html")),
        ("x.png", ("profiles", "plot", "nvidia_resnet50", "--gpu", "T4", "-o", "x.png")),
        ("p.json", ("plan", "small.yaml", "-o", "p.json")),
    ],
)
def test_only_files_of_ones_own_kind_are_replaced(name: str, words: tuple[str, ...], here: Path) -> None:
    Path("sent.csv").write_text("arrival_s\n0.5\n1.5\n")
    write_answer(PLAN, Path("plan.json"))
    Path(name).write_text("somebody's")
    code, error = asked(*words)
    assert (code, "exists and is no" in error) == (2, True), error
    assert Path(name).read_text() == "somebody's"
    Path(name).unlink()
    for _ in range(2):  # its own it may replace
        assert asked(*words)[0] == 0


def test_a_page_that_speaks_of_the_planner_is_not_its_own(here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    Path("notes.html").write_text("<!doctype html>\n<p>See the page made by the planner.</p>\n")
    assert "exists and is no report" in refused("report", "plan.json", "-o", "notes.html")


def test_pipes_and_links_that_a_person_names(here: Path) -> None:
    """A pipe is written into, a link is followed, and a circle of links is one clear line or a file."""
    Path("sent.csv").write_text("arrival_s\n0.5\n1.5\n")
    os.mkfifo("pipe.csv")
    words = [sys.executable, "-m", "planner", "trace", "import", "sent.csv", "-o", "pipe.csv"]
    with forking(), subprocess.Popen(words, stdout=subprocess.DEVNULL):
        assert "arrival_s" in Path("pipe.csv").read_text()
    assert Path("pipe.csv").is_fifo()
    Path("link.csv").symlink_to("target.csv")
    assert asked("trace", "import", "sent.csv", "-o", "link.csv")[0] == 0
    assert (Path("link.csv").is_symlink(), Path("target.csv").is_file()) == (True, True)
    write_answer(PLAN, Path("plan.json"))
    Path("a.html").symlink_to("b.html")
    Path("b.html").symlink_to("a.html")
    assert asked("report", "plan.json", "-o", "a.html")[0] in (0, 2)
    wide = "\u6a21" * 82 + ".html"
    assert asked("report", "plan.json", "-o", wide)[0] == 0


def test_names_that_no_system_takes(here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    Path("sent.csv").write_text("arrival_s\n0.5\n1.5\n")
    for words in (
        ("report", "plan.json", "-o", f"{'a' * 300}.html"),
        ("export", "plan.json", "--to", "openmetrics", "-o", "a" * 300),
        ("plan", "small.yaml", "-o", f"{'a' * 300}.json"),
        ("trace", "import", "sent.csv", "-o", f"{'a' * 300}.csv"),
        ("explain", f"{'a' * 300}.json"),
    ):
        assert "File name too long" in refused(*words)


def test_an_answer_that_cannot_be_written_is_an_error(here: Path) -> None:
    write_answer(PLAN, Path("plan.json"))
    closed = b"standard output: is closed. Send it to a file, or to /dev/null.\n"
    for where, expected in ((">&-", (2, closed)), ("2>&-", (0, b"")), (">&- 2>&-", (2, b""))):
        command = f"{sys.executable} -m planner explain plan.json {where}"
        done = subprocess.run(command, shell=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == expected


def test_control_characters_are_shown_and_not_sent() -> None:
    shown = output.harmless("a\x1b[2Jb\x1b]0;t\x07 \x1b[1mbold\x1b[0m\r\n\u202e")
    assert shown == "a\\x1b[2Jb\\x1b]0;t\\x07 \x1b[1mbold\x1b[0m\r\n\\u202e"


def test_a_word_without_end_is_cut() -> None:
    assert output.shortened(f"s.yaml: `{'a' * 5000}` is unknown") == f"s.yaml: `{'a' * 59}... is unknown"


# Chance


def test_damaged_files_of_every_kind() -> None:
    """A small part of `python -m benchmarks fuzz`."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--count", "60", "--jobs", "1"]
    with forking():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
