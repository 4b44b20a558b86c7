"""Listings, spreadsheets and figures in people's units: every thing has its row, every figure is the thing's own."""

import csv
import io
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import PLAN
from support.calibrated import session
from support.paths import SCENARIOS
from typer.testing import CliRunner

from calibrate.library.lookup import find_profiles
from planner import cli
from planner.catalog.catalog import load_catalog
from planner.catalog.choosing import choose, choose_instances, folders_near
from planner.model.choices import PriceKind
from planner.prediction.learnt import learnt
from planner.prediction.queries import QueryAnswer, QueryKnowledge
from planner.questions.studies.results import OutputAnswer
from planner.questions.training.closed_forms import Range
from planner.show.spreadsheet import CSV_COLUMNS, answers_csv, to_csv
from planner.show.text import studies, training
from planner.show.text.listings.devices import device_show
from planner.show.text.listings.predictions import predictions_table
from planner.show.text.listings.prices import hourly, per_gpu, price_list, price_status
from planner.show.text.listings.profiles import best_rate, model_list, profile_list, profile_show
from planner.show.text.plan import in_unit
from planner.units.reading import duration
from planner.units.writing import Screen
from simulator.errors import InputError
from simulator.world.profile import Evidence

CATALOG = load_catalog()
LIBRARY = find_profiles((), CATALOG.gpus)
WIDE = Screen(400)
FIGURES = st.floats(1e-4, 1e7)


def rows(text: str) -> list[str]:
    """All lines of a table but its head."""
    return text.splitlines()[1:]


# Profiles and devices


def test_every_profile_has_its_line():
    profiles = LIBRARY.for_model("nvidia_resnet50")
    lines = rows(profile_list(profiles, WIDE))
    assert [line.split()[:3] for line in lines] == [[p.model, p.gpu, p.precision] for p in profiles]


def test_a_model_has_one_line_in_the_short_list():
    profiles = [*LIBRARY.for_model("resnet50"), *LIBRARY.for_model("yolov3")]
    lines = rows(model_list(profiles, Screen(80)))
    assert [line.split()[0] for line in lines] == sorted({one.model for one in profiles})
    assert sum(int(line.split()[1]) for line in lines) == len(profiles)
    (found,) = (line.split() for line in lines if line.startswith("nvidia_resnet50 "))
    assert found[2:] == [str(len({one.gpu for one in profiles if one.model == "nvidia_resnet50"})), "published"]


def test_the_best_rate_is_reached_and_beaten_by_no_batch():
    for profile in LIBRARY.for_model("nvidia_resnet50"):
        rates = [n / profile.latency(n) for n in range(1, profile.largest_batch + 1)]
        assert best_rate(profile) in rates
        assert best_rate(profile) == max(rates)


def test_a_profile_is_shown_batch_by_batch():
    profile = LIBRARY.for_model("nvidia_resnet50")[0]
    lines = profile_show(profile, WIDE).splitlines()
    batches = [line.split()[0] for line in lines[2 : 2 + len(profile.latency.x)]]
    assert batches == [f"{x:g}" for x in profile.latency.x]


def test_what_was_measured_of_a_model_is_shown(tmp_path):
    """Rates in a row and of host and kernels, energy, long load, unloading and doubts of training."""
    session(tmp_path, 1.0, 1)
    (profile,) = find_profiles([tmp_path], CATALOG.gpus).for_model("net")
    values = {"sustained_s": 0.0091, "host_s": 0.0042, "busy_s": 0.0083, "cold_s": 0.0115, "energy_j": 0.51}
    raw = {
        "points": {
            "latency": {"1": {"values": values, "samples": {"wall_s": [0.01, 0.01]}}},
            "soak": {"16": {"values": {"first_s": 0.060, "sustained_s": 0.072}}},
            "load": {"0": {"samples": {"unload_s": [0.002]}, "details": {"allocating_s": [0.03]}}},
        },
        "training_doubts": {"sgd": ["too few runs"]},
    }
    shown = profile_show(profile, WIDE, raw)
    for figure in ("9.10 ms", "4.20 ms", "8.30 ms", "11.5 ms", "0.51 J", "72.0 ms", "60.0 ms", "2.00 ms", "30.0 ms"):
        assert figure in shown
    assert "too few runs" in shown


@pytest.mark.parametrize(("all_s", "title"), [(1.0, "measured"), (3.0, "with hiccups")])
def test_a_mean_of_all_runs_is_told_from_one_without_hiccups(tmp_path, all_s, title):
    session(tmp_path, 1.0, 1)
    (profile,) = find_profiles([tmp_path], CATALOG.gpus).for_model("net")
    runs_s = [all_s * profile.latency.y[0]]
    raw = {"points": {"latency": {f"{profile.latency.x[0]:g}": {"samples": {"wall_s": runs_s}}}}}
    assert title in profile_show(profile, WIDE, raw).splitlines()[1]


@pytest.mark.parametrize("odd", [{}, {"gpu": 3, "probes": []}, {"probes": {"copy": None, "knees": {"samples": 1}}}])
def test_a_device_is_shown_as_far_as_its_file_goes(odd):
    assert device_show(odd, WIDE)


def test_a_device_tells_what_was_probed_and_nothing_else():
    probes = {"copy": {"values": {"host_bytes_per_s": 5e10, "host_t0_s": 0.001}}, "launch": {"values": {}}}
    text = device_show({"gpu": {"name": "mine", "source": "me"}, "probes": probes}, WIDE)
    assert text.splitlines()[0] == "mine"
    assert "50 GB/s within main memory" in text
    assert "launch" not in text.casefold()
    assert "operation" not in text


@pytest.mark.parametrize(("model", "gpu"), [("mine", None), ("mine", "T4"), ("resnet50", "my-card")])
def test_a_folder_that_was_measured_just_now_is_named(tmp_path, monkeypatch, model, gpu):
    monkeypatch.chdir(tmp_path)
    for name, schema in (("mine", "planner.profile/v1"), ("resnet50", "planner.profile/v1"), ("other", "else/v1")):
        (tmp_path / name / "my-card").mkdir(parents=True)
        (tmp_path / name / "my-card" / f"{name}.json").write_text(f'{{"schema": "{schema}", "model": "{name}"}}')
    with pytest.raises(InputError) as refused:
        choose(LIBRARY, model, gpu)
    assert f"Did you mean `--profiles {model}`? It has one on my-card." in str(refused.value)
    assert folders_near(LIBRARY, model, "my-card")
    assert not folders_near(LIBRARY, "other")


def test_what_is_not_known_is_refused_with_what_is():
    with pytest.raises(InputError, match="resnet50"):
        choose(LIBRARY, "resnet5O", None)
    with pytest.raises(InputError, match="Known: T4, "):
        choose(LIBRARY, "nvidia_resnet50", "T5")
    with pytest.raises(InputError, match="aws"):
        choose_instances(CATALOG, "T4", "nobody")


# Prices


@pytest.mark.parametrize(("gpu", "provider"), [("T4", None), (None, "aws"), ("t4", "aws")])
def test_prices_are_of_what_is_asked_the_cheapest_gpu_first(gpu, provider):
    chosen = choose_instances(CATALOG, gpu, provider)
    assert chosen
    assert {i.gpu for i in chosen} == {"T4"} if gpu else {i.provider for i in chosen} == {provider}
    lines = rows(price_list(CATALOG, chosen, WIDE))
    cheapest = min(chosen, key=lambda i: (per_gpu(i), i.name, i.region))
    assert len(lines) == len(chosen)
    assert lines[0].split()[0] == cheapest.name


def test_every_price_is_counted_once():
    prices = [(i.provider, p) for i in CATALOG.instances for p in i.prices.values()]
    newest = max(date.fromisoformat(p.as_of) for _, p in prices)
    lines = rows(price_status(CATALOG, newest, WIDE))
    aws = [line.split() for line in lines if line.startswith("aws ")]
    assert sum(int(words[5]) for words in aws) == sum(provider == "aws" for provider, _ in prices)


def test_prices_grow_stale():
    newest = max(date.fromisoformat(p.as_of) for i in CATALOG.instances for p in i.prices.values())
    now, later = (price_status(CATALOG, newest + timedelta(days), WIDE) for days in (0, 4000))
    assert now.count("STALE") < later.count("STALE")
    assert "fresh" in now
    assert "fresh" not in later


def test_a_range_shows_both_ends_and_no_price_a_dash():
    spot = next(
        price
        for i in CATALOG.instances
        if (price := i.prices.get(PriceKind.SPOT)) and price.usd_per_hour_range is not None
    )
    low, high = spot.usd_per_hour_range
    assert low < high
    assert hourly(replace(spot, usd_per_hour_range=(0.158, 0.21))) == "$0.158-$0.210"
    assert hourly(None) == "-"


# Spreadsheets


def test_a_row_for_each_model_with_its_figures():
    theirs = [replace(m, speed_evidence=Evidence.PUBLISHED, uncertain=True) for m in PLAN.recommendation.models]
    found = list(csv.DictReader(io.StringIO(to_csv(theirs))))
    assert [list(row) for row in found] == [CSV_COLUMNS] * 2
    for row, model in zip(found, PLAN.recommendation.models, strict=True):
        for key in ("batch_size", "slo_s", "p50_s", "p99_s", "throughput_rps", "joules_per_inference"):
            assert float(row[key]) == pytest.approx(getattr(model, key))
        ends = ("slo_attainment_low", "slo_attainment", "slo_attainment_high")
        assert [float(row[key]) for key in ends] == pytest.approx(
            [model.slo_attainment.low, model.slo_attainment.mean, model.slo_attainment.high]
        )
        assert row["gpus"].split() == list(model.gpus)
        assert (row["speed_evidence"], row["uncertain"]) == ("published", "true")
        assert row["accuracy_reuse_last"] == ""


def test_no_answers_are_a_head_alone():
    assert next(csv.reader([answers_csv([])])) == list(QueryAnswer.__dataclass_fields__)


# Figures


@given(FIGURES)
def test_a_length_of_time_is_read_back(time_s):
    text = training.length(time_s)
    year_s = 365 * 86_400
    seen = float(text.split()[0].replace(",", "")) * year_s if "years" in text else duration(text.replace(",", ""))
    assert seen == pytest.approx(time_s, rel=0.006)


def test_what_has_no_end_is_said():
    assert training.length(float("inf")) == "never"
    assert training.usd(float("inf")) == "no end"


@given(FIGURES)
def test_a_band_without_width_is_one_figure(value):
    assert training.between(Range(low=value, mid=value, high=value)) == training.length(value)
    assert training.between(Range(low=value, mid=value, high=2 * value)) != training.length(value)


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", 0.0812, "81.2 ms"),
        ("s", 36_000, "10.0 h"),
        ("USD", 9.18, "$9.18"),
        ("USD/h", 6701, "$6,701"),
        ("fraction", 0.98999, "98.99 %"),
        ("bytes", 14.2e9, "14.20 GB"),
        ("J", 3.6e6, "1.00 kWh"),
        ("W", 187.4, "187 W"),
        ("kg", 1.234, "1.23 kg"),
        ("/s", 7.5, "7.50/s"),
        ("", 0.51512, "0.5151"),
    ],
)
def test_a_figure_of_a_study_in_its_unit(unit, value, text):
    output = OutputAnswer(name="any", unit=unit, better="", interval=False)
    assert studies.number(value, output) == text
    assert studies.number(None, output) == studies.number(float("nan"), output) == "-"
    wide = {"low": value, "mid": 2 * value, "high": 3 * value}
    assert studies.shown(wide, output).startswith(f"{studies.number(2 * value, output)} [{text}, ")


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("s", "1.50 s"),
        ("bytes", "0.00 GB"),
        ("fraction", "150.0 %"),
        ("USD/h", "$1.50/h"),
        ("", ""),
        ("GPUs", "1.5 GPUs"),
    ],
)
def test_a_figure_of_a_rejected_candidate_in_its_unit(unit, text):
    assert in_unit(1.5, unit) == text


def test_predictions_stand_beside_what_was_asked_and_refusals_have_their_row():
    asked = [{"gpu": "T4", "model": "resnet50", "batch": "8"}, {"gpu": "T9", "model": "resnet50"}]
    told = QueryAnswer(latency_s=0.0224, latency_low_s=0.0197, latency_high_s=0.0255, memory_bytes=190_000_000,
                       rule="published")  # fmt: skip
    text = predictions_table(asked, [told, QueryAnswer(reason="GPU T9 is not known.")], WIDE)
    assert ["T4", "resnet50", "fp32", "pytorch", "8", "22.4", "ms"] in [line.split()[:7] for line in text.splitlines()]
    assert "19.7 to 25.5 ms" in text
    assert "row 2: GPU T9 is not known." in text


def test_an_empty_runtime_is_shown_as_the_one_that_is_meant():
    known = QueryKnowledge(learnt(), CATALOG.gpus)
    asked = [{"gpu": "A10G", "model": "resnet50", "precision": precision} for precision in ("int8", "amp")]
    text = predictions_table(asked, list(map(known.answer, asked)), WIDE)
    assert [line.split()[2:4] for line in text.splitlines() if "A10G" in line] == [
        ["int8", "tensorrt"],
        ["amp", "pytorch"],
    ]
    assert known.answer(asked[0]) == known.answer(asked[0] | {"runtime": "tensorrt"})


@pytest.mark.parametrize(("name", "written"), [("amp-bf16", "AMP-BF16"), ("torch", "TORCH"), ("fp16", "Fp16")])
def test_precisions_of_a_table_are_known_in_any_case(name, written):
    known = QueryKnowledge(learnt(), CATALOG.gpus)
    row = {"gpu": "A10G", "model": "resnet50", "runtime": "PyTorch"}
    told = known.answer(row | {"precision": written})
    assert told.latency_s
    assert told == known.answer(row | {"precision": name, "runtime": "pytorch"})


def test_a_batch_that_the_gpu_does_not_hold_has_its_time_and_says_so():
    known = QueryKnowledge(learnt(), CATALOG.gpus)
    asked = [{"gpu": "T4", "model": "resnet50", "batch": batch} for batch in ("8", "4096")]
    fits, large = map(known.answer, asked)
    assert not fits.reason
    assert "the GPU has 16.00 GB" in large.reason
    assert large.latency_s > fits.latency_s
    text = predictions_table(asked, [fits, large], WIDE)
    assert "Without an answer" not in text
    assert f"row 2: {large.reason}"[:60] in text


def test_a_pipe_gets_predictions_as_csv_and_who_asks_for_it_a_table():
    cases = str(SCENARIOS / "cases.csv")
    piped = CliRunner().invoke(cli.app, ["predict", cases]).stdout
    table = CliRunner().invoke(cli.app, ["predict", cases, "--format", "table"]).stdout
    assert piped.startswith("latency_s,")
    assert "80 % band" in table
