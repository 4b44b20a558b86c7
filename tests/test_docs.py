"""The documents hold: blocks run, every metric and choice is defined, and the numbers of docstrings are right."""

import csv
import doctest
import json
import os
import re
import shlex
from dataclasses import fields, is_dataclass
from enum import StrEnum
from itertools import takewhile
from math import inf, isnan
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from support import scenario_keys
from support.commands import planner
from support.figures import LEDGER, digits, digits_of, held_elsewhere, not_printed, not_shown
from support.paths import ROOT
from support.shown import UNRUN, WALKED

from calibrate import cli as calibrating
from calibrate.library.lookup import find_profiles
from calibrate.library.reading import PRECISIONS
from calibrate.published.points import points
from planner import cli
from planner.catalog.catalog import load_catalog
from planner.catalog.files import ENTRIES, SaleStatus
from planner.catalog.offers import Offer
from planner.compare.diff import Diff
from planner.compare.reprice import Repriced
from planner.model import plan as plans
from planner.model.choices import MeasurementFormat, Picture, PriceKind, PriceListFormat, PublicList, Target
from planner.model.parts.merging import Merging, SharingRule
from planner.model.parts.rules import AccuracyRule
from planner.model.plan import Plan
from planner.model.scenario import Objective
from planner.model.simulation import Simulation
from planner.placing import sizing
from planner.placing.duty import Portion, Rules, duty_cycle
from planner.placing.fleets import cost_usd_per_hour
from planner.questions.horizons.answer import Horizon
from planner.questions.merging.breakeven import Breakeven
from planner.questions.readiness.answer import WhatIf
from planner.questions.studies.results import StudyAnswer
from planner.questions.training.answer.option import TrainingPlan
from planner.questions.training.check import Check
from planner.questions.validation.answer import Validation
from planner.search.simulation import POLICIES
from planner.units.reading import HOURS_PER_MONTH, HOURS_PER_YEAR
from simulator.clock import metrics
from simulator.clock.link import fair_rates
from simulator.clock.records import Outcome, Requests, SimulationResult
from simulator.rules.batching import close_at, first_kept
from simulator.rules.memory import Residency
from simulator.rules.routing import split
from simulator.world import deployment, profile
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Service
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile, WeightSource
from simulator.world.workload import SLO, FixedRate, Poisson, Stream

CONCEPTS = ROOT / "docs" / "concepts.md"
PUBLISHED = ROOT / "calibrate" / "published" / "data"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

DEFINED = [
    *metrics.ModelMetrics._fields,
    *metrics.DeviceMetrics._fields,
    *(
        choice.value
        for kind in (
            deployment.Drop,
            deployment.Scheduling,
            deployment.Eviction,
            deployment.Routing,
            metrics.Verdict,
            plans.Bottleneck,
            profile.Evidence,
            AccuracyRule,
            Merging,
            Objective,
            PriceKind,
            SharingRule,
        )
        for choice in kind
    ),
]


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("kind", POLICIES)
def test_every_policy_that_can_be_named_is_on_the_page_of_commands(kind: str) -> None:
    names = ", ".join(f"`{name}`" for name in POLICIES[kind].names)
    assert f"| `{kind}` | {names} |" in (ROOT / "docs" / "cli.md").read_text()


@pytest.mark.parametrize(
    ("choices", "page"),
    [
        (PriceListFormat, "importing.md"),
        (MeasurementFormat, "importing.md"),
        (Target, "deploying.md"),
        *((choices, "cli.md") for choices in (PriceListFormat, PublicList, Target, Picture)),
    ],
)
def test_every_form_that_is_read_or_written_is_on_its_page(choices: type[StrEnum], page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert not [one.value for one in choices if f"`{one.value}`" not in text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_as_shown(page: Path, forked: None) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    said: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(shown, out=said.append).failed == 0, "".join(said)


def test_concepts_are_worked() -> None:
    assert CONCEPTS.read_text(encoding="utf-8").count(">>> ") >= 30


SHOWN = re.compile(r"^(?:\$ )?planner ([a-z].*)", re.MULTILINE)
INLINE = re.compile(r"`planner ([a-z][^`]*)`")


def commands_in_blocks(text: str) -> list[str]:
    """Commands of a page's blocks, without their comments."""
    blocks = re.findall(r"^```(?:console|sh|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in SHOWN.findall(block.replace("\\\n", " "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_exist_with_their_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in (*commands_in_blocks(text), *INLINE.findall(text)):
        command: Any = cli.commands()
        words = list(takewhile(lambda word: word not in ("|", ">", "&&"), shlex.split(line)))
        while hasattr(command, "commands") and words:
            if words[0].startswith("-"):
                break
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        options = [option for param in command.params for option in param.opts]
        if command.context_settings.get("ignore_unknown_options"):  # `planner calibrate` hands them on
            options = list(calibrating.parser()._option_string_actions)
        asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert asked <= {"-h", "--help", *options}, line


def test_every_command_of_a_block_is_run_or_it_is_said_why_not() -> None:
    """A page that is walked runs all of its own."""
    walked = {*(path.name for path in WALKED), "README.md", "tour.md", "tutorial.md"}
    elsewhere = [page for page in PAGES if page.name not in walked]
    shown = {command for page in elsewhere for command in commands_in_blocks(page.read_text(encoding="utf-8"))}
    unrun = {command: [why for start, why in UNRUN.items() if command.startswith(start)] for command in shown}
    assert {command for command, why in unrun.items() if len(why) != 1} == set()
    assert {start for start in UNRUN if not any(command.startswith(start) for command in shown)} == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WALKED], ids=lambda page: page.name)
def test_every_figure_of_running_text_is_held_by_something(page: Path) -> None:
    """Of pages that are walked `tests/test_walks.py` asks, which knows what their commands print."""
    elsewhere = held_elsewhere(page.relative_to(ROOT).as_posix())
    assert set(not_shown(page.read_text(encoding="utf-8"))) == {
        figure for _, figures in elsewhere for figure in figures
    }


def test_what_holds_a_figure_has_it() -> None:
    assert set(LEDGER) <= {page.relative_to(ROOT).as_posix() for page in PAGES}
    lacking = []
    for name in LEDGER:
        for place, figures in held_elsewhere(name):
            if place in ("stated", "worked", "measured"):
                continue
            if place.startswith("planner "):
                code, out, _ = planner(*place.split()[1:])
                lacking += not_printed(figures, out) if code == 0 else [place]
            elif place.endswith(" computes"):
                text = (ROOT / place.partition(" ")[0]).read_text(encoding="utf-8")
                lacking += [] if f'"{Path(name).name}"' in text else [place]
            else:
                held = digits_of((ROOT / place).read_text(encoding="utf-8"))
                starts = {figure: digits(figure) for figure in figures}
                lacking += [figure for figure in figures if not any(one.startswith(starts[figure]) for one in held)]
    assert lacking == []


def test_counts_of_published_figures_are_those_of_the_files() -> None:
    accuracies = [
        row for row in rows(PUBLISHED / "accuracy.csv") if row["precision"] == "int8" and "mlperf" not in row["source"]
    ]
    networks = {row["architecture"] for row in accuracies}
    prices = rows(ROOT / "planner" / "catalog" / "data" / "prices.csv")
    counts = {
        "data.md": [
            f"{sum(1 for _ in points()) // 100 * 100:,} measurements",
            f"{len({row['provider'] for row in prices})} providers",
        ],
        "prediction.md": [
            f"{len(accuracies)} figures of {len(networks)} networks at int8",
            f"{len({row['architecture'] for row in rows(PUBLISHED / 'held.csv')})} networks of timm and",
        ],
        "training.md": [f"{len(rows(PUBLISHED / 'trainings.csv'))} published throughputs"],
    }
    for name, said in counts.items():
        text = " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())
        assert [one for one in said if one not in text] == []


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    anchors = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("http"):
            assert (page.parent / target.split("#")[0]).exists(), target


def is_there(name: str) -> bool:
    """True for files and folders of the packages, and for modules with what is defined in them."""
    if "/" in name:
        return any(ROOT.glob(name.rstrip("/")))
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module = path.parent.with_suffix(".py")
    return module.exists() and re.search(rf"^(?:def|class) {path.name}\b", module.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md"])
def test_modules_and_files_that_are_named_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:planner|simulator|calibrate|benchmarks|tests)(?:[./][\w*-]+)+/?(?:\.\w+)?)`", text)
    assert len(named) > 30
    assert [name for name in named if not is_there(name)] == []


LEFT_OUT = {
    "without that model on that GPU": "left out: a model on a GPU",
    "without any of that GPU": "left out: a chip",
    "without that publication": "left out: a publication",
}
"""Rows of README, by those of docs/prediction.md."""


def test_readme_and_the_pages_of_errors_agree() -> None:
    readme, predictions, validation = (
        (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/prediction.md", "docs/validation.md")
    )
    for said, row in LEFT_OUT.items():
        median, band = re.findall(rf"{said} \| (\S+) %, (\S+) % in 80 % bands", readme)[0]
        full, held = re.findall(rf"^\| {row} \| [\d,]+ \| (\S+) % \| \S+ % \| (\S+) % \|", predictions, re.MULTILINE)[0]
        assert (f"{float(full):.2g}", held) == (f"{float(median):.2g}", band), said
    [before] = re.findall(r"on an H200, predicted before \| (\S+) %, (\S+) % in 80 % bands", readme)
    told = " ".join(predictions.split())
    held, half = re.findall(r"(\S+) % lay in the 80 % band, and half were off by (\S+) %", told)[0]
    assert before == (half, held)
    [before] = re.findall(r"on an H100, predicted before \| (\S+) %, (\S+) % in 80 % bands", readme)
    assert before == tuple(reversed(re.findall(r"(\S+) % lie in the 80 % band and half are off by (\S+) %", told)[0]))
    told, _, made = validation.partition("## epyc-2-cores\n")
    _, _, alone = made.partition("The same by profiles alone")
    [median] = re.findall(r"^- p95: median (\S+) %", alone.split("By profiles of")[0], re.MULTILINE)
    [held] = re.findall(r"(\d+ of \d+) measured figures", alone.split("By profiles of")[0])
    assert f"p95 {float(median):.0f} %, {held} figures in 95 % intervals" in readme
    told = " ".join(told.split())
    assert f"{held} figures lie in their intervals" in told
    assert f"p95 by {float(median):.0f} % in the median" in told


def test_what_the_aims_of_prediction_found_stands_in_the_tables() -> None:
    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("| aim | found | result |")
    aims, _, below = rest.partition("\n\n")
    tables = "\n".join(line for line in (page.partition("| aim |")[0] + below).splitlines() if line.startswith("|"))
    stated = set(re.findall(r"(\d+(?:\.\d+)?) %", tables))
    stated |= {f"{float(one):.0f}" for one in stated}
    found = [
        figure for row in aims.splitlines()[2:] for figure in re.findall(r"\d+(?:\.\d+)?(?= %)", row.split("|")[2])
    ]
    assert len(found) > 30
    assert [figure for figure in found if figure not in stated] == []


@pytest.mark.parametrize("word", sorted(set(DEFINED)))
def test_every_metric_and_choice_is_defined(word: str) -> None:
    lines = [line for line in CONCEPTS.read_text(encoding="utf-8").splitlines() if line.startswith(("|", word))]
    assert any(f"`{word}`" in row or row.startswith(word) for row in lines)


def inside(hint: Any) -> set[type]:
    """Dataclasses in a type such as `tuple[ModelSpec, ...]`."""
    own = {hint} if isinstance(hint, type) and is_dataclass(hint) else set()
    return own.union(*map(inside, get_args(hint)))


def keys_of(kind: type) -> set[str]:
    """Keys of a dataclass's JSON, and of those inside it."""
    names = {f.name for f in fields(kind)}
    within = set().union(*(inside(hint) for name, hint in get_type_hints(kind).items() if name in names))
    return names.union(*map(keys_of, within))


ANSWERS = (Plan, Simulation, Diff, Repriced, WhatIf, TrainingPlan, Check, Breakeven, StudyAnswer, Validation)


@pytest.mark.parametrize(("kind", "page"), [*((kind, "cli") for kind in ANSWERS), (Horizon, "horizons")])
def test_every_key_of_the_json_is_explained(kind: type, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    keys = keys_of(kind)
    assert len(keys) > 10
    assert sorted(key for key in keys if f"`{key}`" not in text) == []


def keys_in(answer: Any) -> set[str]:
    """All keys of nested mappings."""
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ()
    return {*(answer if isinstance(answer, dict) else ())}.union(*map(keys_in, parts))


def test_every_key_of_what_models_could_share_is_explained() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    models = ["resnet18", "resnet34"]
    _, out, _ = planner("merge", "analyze", *models, "--format", "json")
    assert sorted(key for key in keys_in(json.loads(out)) - {*models} if f"`{key}`" not in text) == []


def test_percentiles_are_on_a_line_between_neighbours() -> None:
    latency_s = np.array([1.0, 2.0, 4.0, 8.0])  # h = 0.9 x 3 = 2.7: between 4 and 8
    assert np.quantile(latency_s, 0.9) == pytest.approx(4 + 0.7 * (8 - 4))


def test_curves() -> None:
    curve = Interpolated((1, 2, 4), (10, 12, 20))
    assert (curve(3), curve(6)) == (16, 28)
    assert LoadTime(7e-6, 12.29e9)(0.1e9) == pytest.approx(8.14e-3, abs=5e-6)
    assert LoadTime(7e-6, 12.29e9)(0) == 0


def test_batches_close_when_full_or_old() -> None:
    assert close_at([0.0, 0.3], 0, 2, BatchingPolicy(2, 0.2)) == 0.2
    assert close_at([0.0, 0.3], 0, 2, BatchingPolicy(2, 1.0)) == 0.3
    assert close_at([0.0, 0.3], 2, 2, BatchingPolicy(2, 1.0)) == inf


def test_late_frames_go_first() -> None:
    assert first_kept([0.0, 0.05], 0, 2, 0.06, 0.06, Drop.LATE, 0.1, [0.0, 0.05, 0.05]) == 1


def test_links_share_fairly() -> None:
    assert fair_rates([2, 10, 10], 16) == [2, 7, 7]


def test_fewest_layers_give_way() -> None:
    memory = Residency(limit_bytes=10, context_bytes=1)
    memory.add([Layer("a", 4), Layer("b", 3)])
    assert memory.victims(3, 1, frozenset(), ["a", "b"]) == ["a"]


def test_requests_are_split_by_share() -> None:
    assert [list(part) for part in split(6, [1, 1])] == [[0, 2, 4], [1, 3, 5]]
    assert [len(part) for part in split(6, [2, 1])] == [4, 2]


def test_rates_of_cameras_add_up() -> None:
    assert Stream("m", FixedRate(15), 40).rate_rps == 600


def test_intervals() -> None:
    mean, low, high = metrics.confidence_interval([9, 10, 11])
    assert (mean, high - mean, mean - low) == pytest.approx((10, 2.48, 2.48), abs=5e-3)
    assert all(map(isnan, metrics.confidence_interval([9])[1:]))
    assert metrics.attainment_interval([1.0, 1.0], [500, 500])[1] == pytest.approx(0.9962, abs=5e-5)


def need(streams: tuple[Stream, ...], *, slo_s: float = 0.1) -> sizing.Need:
    rate_rps = sum(s.rate_rps for s in streams)
    return sizing.Need("m", rate_rps, SLO(slo_s), 0.0, True, streams)


def test_needed_rate_and_least_work() -> None:
    asked = need((Stream("m", Poisson(100)),))
    assert asked.needed_rps == 99
    assert sizing.least_work(asked, (0.010, 0.016), noisy=False) == pytest.approx(0.792)
    assert sizing.most_arrivals([Stream("m", FixedRate(10), 2)], 0.25) == 2 * 3


def test_a_lost_frame_may_reuse_the_last_result() -> None:
    arrival_s = np.arange(5.0)
    fine = np.isin(arrival_s, [0, 1, 3])
    finish_s = np.where(fine, arrival_s + 0.1, np.nan)
    outcome = np.where(fine, Outcome.FINISHED, Outcome.DROPPED).astype(np.int8)
    requests = Requests(arrival_s, np.zeros(5, dtype=np.int32), arrival_s, finish_s, outcome)
    service = Service(model="m", slo=SLO(0.5), replicas=())
    result = SimulationResult(
        deployment=Deployment(services=(service,), devices=(), hosts=()),
        duration_s=5.0,
        seed=1,
        requests={"m": requests},
        batches=(),
        loads=(),
        stalls=(),
        memory={},
        wall_s=0.0,
    )
    assert metrics.accuracy(result, {"m": 1.0}, 1.0)["m"] == pytest.approx((3 + 0.5 + 0.5) / 5)
    assert metrics.accuracy(result, {"m": 1.0}, None)["m"] == pytest.approx(3 / 5)


def test_duty_cycle_of_two_models() -> None:
    gpu = load_catalog().gpus["T4"]
    device = Profile(
        model="m",
        gpu="T4",
        precision="fp32",
        layers=(Layer("m", 10**8),),
        latency=Interpolated((1, 8), (0.010, 0.010)),
        workspace=Interpolated((1, 8), (10**8, 10**8)),
        load=LoadTime(0.0, 12e9),
        latency_evidence=Evidence.ASSUMED,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="",
        as_of="",
    )
    sized = sizing.Sized(need((Stream("m", Poisson(50)),)), device, (0.010,) * 8, (8,), 0.5, 0.5, 0)
    rules = Rules(headroom=0, swap=False, prefetch=True, source=WeightSource.PINNED)
    duty = duty_cycle([Portion(sized, 1.0)] * 2, sizing.Kind(gpu, gpu.memory_bytes), rules)
    assert duty is not None
    assert duty.batch_sizes == (1, 1)
    assert (duty.cycle_s, *duty.worst_s) == pytest.approx((0.020, 0.030, 0.030))


def test_prices_and_months() -> None:
    def offer(usd_per_hour: float) -> Offer:
        return Offer(
            provider="p",
            region="r",
            instance="i",
            gpu=load_catalog().gpus["T4"],
            gpu_count=1,
            usd_per_hour=usd_per_hour,
            price_kind=PriceKind.ON_DEMAND,
            status=SaleStatus.ACTIVE,
            as_of="2026-07-20",
            source="",
            memory_bytes=16 * 10**9,
            host_memory_bytes=None,
            count_max=None,
            spot_range=None,
        )

    assert cost_usd_per_hour([offer(0.526), offer(3.06)], (2, 1)) == pytest.approx(4.112)
    assert HOURS_PER_MONTH == HOURS_PER_YEAR / 12 == 730


def test_data_files_are_read_as_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```(?:json|yaml)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in zip(("mine.json", "gpus.yaml", "prices.yaml"), shown, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    catalog = load_catalog([tmp_path])
    (found,) = find_profiles([tmp_path], catalog.gpus).for_model("my_detector")
    assert (found.gpu, found.largest_batch, found.latency(8)) == ("T4", 8, 0.0224)
    assert catalog.gpus["T4-half"].memory_bytes == 8_000_000_000
    mine = next(i for i in catalog.instances if i.name == "gpu-4")
    assert mine.prices[PriceKind.ON_DEMAND].usd_per_hour == 1.80
    assert any(p.machine == "box-4" for p in catalog.purchases)


def test_every_key_of_a_data_file_is_explained() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    keys = {f.name for entry in ENTRIES for f in fields(entry)}
    keys |= {key for file in (ROOT / "calibrate" / "profiles").rglob("*.json") for key in json.loads(file.read_text())}
    assert len(keys) > 30
    assert sorted(key for key in keys if not re.search(rf"\b{key}\b", page)) == []
    assert all(f"`{kind}`" in page for kind in Evidence)
    assert all(f"`{kind}`" in page for kind in PRECISIONS)


def test_every_key_of_a_scenario_is_on_its_page() -> None:
    """As the schema has it. UPDATE_DOCS=1 writes it anew."""
    file, made = ROOT / "docs" / "scenario.md", scenario_keys.page()
    if os.environ.get("UPDATE_DOCS"):
        file.write_text(made, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == made


def rooms(depth: int) -> set[str]:
    """Folders with modules in them, so many below a package."""
    packages = (ROOT / name for name in ("simulator", "calibrate", "planner"))
    modules = (path for package in packages for path in package.glob("*/" * depth + "*.py"))
    return {path.parent.name for path in modules}


def test_the_design_names_every_room() -> None:
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert {room for room in rooms(1) if f"{room}/" not in drawn} == set()
    assert {room for room in rooms(1) | rooms(2) if f"{room}/" not in design} == set()
    assert {"world", "placing", "zoo"} <= rooms(1)


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
    names = {path.relative_to(ROOT / "docs").as_posix() for path in pages} - {"index.md"}
    assert sorted(name for name in names if f"]({name})" not in index) == []
