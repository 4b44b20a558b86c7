"""Reports in a real browser: figures are the file's, nobody is asked for anything, nothing complains."""

import json
import math
import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from support.answers import INFEASIBLE, PLAN
from support.browser import NAMES, browser, find_browser
from support.paths import ROOT

import planner
from calibrate.library.lookup import find_profiles
from planner import cli
from planner.catalog.catalog import load_catalog
from planner.io.load import load_scenario
from planner.io.store import StoreError, read_plan, to_json, write_answer
from planner.model.plan import NOTHING_TRIED, Plan
from planner.questions.studies.engine import Ask
from planner.questions.studies.results import (
    AxisAnswer,
    OutputAnswer,
    PointAnswer,
    SearchAnswer,
    StudyAnswer,
    sensitivity,
)
from planner.search.plan import plan
from planner.show.charts.kit.axes import log_steps, steps
from planner.show.documents.studies import document
from planner.show.kept import document_of, explained, read_kept
from planner.show.page.render import code, pieces, whole
from planner.show.page.render import page as page_of
from planner.units.writing import Screen
from simulator.errors import InputError

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&"
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0, "GB": 1e9, "%": 0.01}
SMALL = """
name: small
models: [{name: resnet50_v2, slo: {latency: 200 ms, attainment: 95 %}}]
streams: [{model: resnet50_v2, count: 40, rate: 15 fps}]
buy: {providers: [aws], instances: [p3.2xlarge], retired: true, max_gpus: 6}
horizon: 5 s
replications: 2
calendar:
  {days: 1, representatives: 3, rates_are: mean,
   hourly: [1, 1, 1, 1, 1, 1, 3, 5, 6, 6, 5, 5, 5, 5, 5, 5, 6, 6, 5, 4, 3, 2, 1, 1]}
"""
ANSWERS = ["plan", "infeasible", "nothing", "hostile", "study", "simulation", "training", "horizon", "whatif"]
QUICK = ["horizon=10 s", "replications=2"]


def report_page(file):
    """The page of a kept answer."""
    return page_of(document_of(read_kept(file)))


@pytest.fixture(scope="session")
def edge_box():
    """A box whose models take turns in memory, so that something is loaded."""
    catalog = load_catalog()
    asked = load_scenario(ROOT / "scenarios" / "edge-box.yaml", QUICK)
    return plan(asked, catalog, find_profiles([], catalog.gpus), created_at="2026-11-22T00:00:00+00:00")


@pytest.fixture(scope="session")
def folder(tmp_path_factory, edge_box):
    """Answers and their reports."""
    home = tmp_path_factory.mktemp("reports")
    write_answer(edge_box, home / "plan.json")
    write_answer(INFEASIBLE, home / "infeasible.json")
    write_answer(replace(PLAN, recommendation=NOTHING_TRIED, alternatives=(), pareto=()), home / "nothing.json")
    (home / "hostile.json").write_text(hostile(to_json(edge_box)), encoding="utf-8")
    (home / "small.yaml").write_text(SMALL, encoding="utf-8")
    others = {
        "study": STUDY,
        "simulation": planner.simulate(ROOT / "scenarios" / "edge-box.yaml", plan=edge_box, overrides=QUICK),
        "training": planner.train(ROOT / "scenarios" / "training" / "resnet50.yaml"),
        "horizon": planner.horizon(home / "small.yaml"),
        "whatif": planner.whatif(edge_box, lose=1),
    }
    for name, answer in others.items():
        write_answer(answer, home / f"{name}.json")
    for answer in home.glob("*.json"):
        answer.with_suffix(".html").write_text(report_page(answer), encoding="utf-8")
    return home


IMPOSSIBLE = {
    "days": ("horizon", lambda kept: kept | {"days": 0}),
    "requests_by_hour": ("horizon", lambda kept: kept | {"requests_by_hour": []}),
    "strategies: must not": ("horizon", lambda kept: kept | {"strategies": []}),
    "strategies: must each": (
        "horizon",
        lambda kept: kept | {"strategies": [s | {"slos": []} for s in kept["strategies"]]},
    ),
    "strategies: .* same models": (
        "horizon",
        lambda kept: kept | {"strategies": [kept["strategies"][0] | {"slos": []}, *kept["strategies"][1:]]},
    ),
    "best": ("horizon", lambda kept: kept | {"best": "x"}),
    "cases": ("whatif", lambda kept: kept | {"cases": []}),
    "models: must not": ("simulation", lambda kept: kept | {"models": []}),
    "models.*: runs on": ("simulation", lambda kept: kept | {"gpus": []}),
    "gpus.*memory_bytes": ("simulation", lambda kept: kept | {"gpus": [g | {"memory_bytes": 0} for g in kept["gpus"]]}),
    "models.*slo_s": ("simulation", lambda kept: kept | {"models": [m | {"slo_s": 0} for m in kept["models"]]}),
}


@pytest.mark.parametrize("said", IMPOSSIBLE)
def test_an_answer_that_no_command_can_have_written_is_refused_in_one_line(folder, tmp_path, said):
    name, change = IMPOSSIBLE[said]
    file = tmp_path / "kept.json"
    file.write_text(json.dumps(change(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))))
    with pytest.raises(InputError, match=rf"kept\.json: {said}.*Make it again\.$"):
        read_kept(file)


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """A browser."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with browser(program, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def hostile(text: str) -> str:
    """The same plan of a model, and a scenario, with names made to break out of a page."""
    return text.replace('"doors"', json.dumps(HOSTILE)).replace('"Edge box"', json.dumps(HOSTILE))


def points() -> tuple[PointAnswer, ...]:
    """Kinds of GPU by load; the old one carries no double load."""
    found = []
    for gpu, usd in (("T4", 0.5), ("V100", 3.0), ("<b>", 2.0)):
        for load in (1, 2, 4):
            feasible = gpu != "T4" or load == 1
            p99 = 0.1 * load / usd
            values = {"cost_usd_per_hour": usd * load, "p99_s": {"low": 0.9 * p99, "mid": p99, "high": 1.1 * p99}}
            found.append(
                PointAnswer(
                    axes={"gpu": gpu, "load": load},
                    threshold={"low": 1.0, "mid": 1.0 * load, "high": None} if feasible else None,
                    values=values | {"fleet": f"{load} x {gpu}"},
                    evidence="fitted",
                    predicted=gpu == "T4",
                    speed_evidence="predicted" if gpu == "T4" else "published",
                    uncertain=gpu != "V100",
                    feasible=feasible,
                    failed=False,
                    reason="" if feasible else "too slow",
                    tried=1,
                    key="0" * 64,
                )
            )
    return tuple(found)


AXES = (
    AxisAnswer(name="gpu", values=("T4", "V100", "<b>"), numbers=None, unit="", log=False, reference=1),
    AxisAnswer(name="load", values=(1, 2, 4), numbers=(1.0, 2.0, 4.0), unit="", log=True, reference=0),
)
OUTPUTS = (
    OutputAnswer(name="fleet", unit="", better="", interval=False),
    OutputAnswer(name="cost_usd_per_hour", unit="USD/h", better="low", interval=False),
    OutputAnswer(name="p99_s", unit="s", better="low", interval=True),
)
STUDY = StudyAnswer(
    name="What a <kind> of GPU carries",
    ask=Ask.PLAN,
    base="video.yaml",
    seed=1,
    versions={"planner": "0.1.0"},
    fingerprint="f" * 64,
    prices_as_of="2026-06-18",
    on="",
    changes=("buy.max_gpus=8",),
    design="grid",
    axes=AXES,
    search=SearchAnswer(path="load", between=(1, 8), unit="", find="largest", where=("feasible",), tolerance=0.05),
    outputs=OUTPUTS,
    points=points(),
    sensitivity=sensitivity(AXES, ["cost_usd_per_hour", "p99_s"], points(), Ask.PLAN),
)


def at(data, key):
    """What stands in a JSON under `recommendation.models.0.p99_s`."""
    for step in key.split("."):
        data = data[int(step)] if isinstance(data, list) else data[step]
    return data


def read(key: str, text: str) -> tuple[float, float]:
    """The first figure of a text a person reads, and what it may be off by for being rounded.

    `25.2 ± 6.4 / 200 ms` is 0.0252, `8 %` is 0.08, `$8,935` is 8935.
    """
    number = re.search(r"[\d,]+(?:\.(\d+))?", text)
    unit = re.search(r"(?<![/\w])(ms|GB|%|s|min|h|days)(?!\w)", text)
    assert number, text
    scale = 0.01 if "attainment" in key else 1.0
    scale = UNITS[unit.group(1)] if unit else scale
    return float(number.group().replace(",", "")) * scale, scale * 10.0 ** -len(number.group(1) or "")


KEYED = (
    """[...document.querySelectorAll("[data-key]")].map(e => [e.dataset.key, e.dataset.value, e.textContent.trim()])"""
)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_opens_without_complaint_and_asks_nobody(page, folder, name, width, dark):
    file = folder / f"{name}.html"
    assert file.stat().st_size < 1_000_000
    page.open(file, width, dark=dark)
    assert page.run("document.querySelectorAll('h1, h2').length") >= (3 if name == "whatif" else 4)
    assert page.complaints == []
    assert [url for url in page.asked if not url.startswith("data:")] == [file.as_uri()]
    assert page.run("document.documentElement.scrollWidth") <= width
    light = page.run("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(255, 255, 255)") is not dark


def test_the_table_of_a_training_is_seen_whole(page, folder):
    page.open(folder / "training.html", 1280)
    hidden = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('#options .scroll'))"
    assert page.run(hidden) == 0


@pytest.mark.parametrize("width", [1280, 360])
def test_tables_are_seen_whole(page, folder, width):
    page.open(folder / "plan.html", width)
    hidden = (
        "(name => { const box = document.querySelector(`#${name} .scroll`); return box.scrollWidth - box.clientWidth })"
    )
    named = ("cost", "models", "gpus", "kinds")
    assert {name: page.run(f"{hidden}('{name}')") for name in named} == dict.fromkeys(named, 0)
    last = page.run("document.querySelector('#models tbody tr').lastElementChild.getBoundingClientRect().right")
    assert last <= width
    page.open(folder / "study.html", width)
    assert page.run(f"{hidden}('points')") == 0


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in ("nothing", "whatif")])
def test_figures_are_those_of_the_file(page, folder, name):
    page.open(folder / f"{name}.html")
    told, shown = json.loads((folder / f"{name}.json").read_text()), page.run(KEYED)
    assert len(shown) > 20
    for key, value, text in shown:
        assert float(value) == at(told, key), key
        rounded, off = read(key, text)
        assert abs(rounded - float(value)) <= off, (key, text)


def test_the_first_screen_has_the_answer(page, folder, edge_box):
    page.open(folder / "plan.html", 360, 740)
    best = edge_box.recommendation
    assert f"${best.cost_usd_per_hour:.3f}/h" in page.run("document.querySelector('h1').textContent")
    assert page.run("document.querySelector('.stats').getBoundingClientRect().top") < 740
    costs = page.run("[...document.querySelectorAll('#cost tfoot [data-value]')].map(e => Number(e.dataset.value))")
    assert costs == [best.cost_usd_per_hour, best.cost_usd_per_month]
    sections = page.run("[...document.querySelectorAll('section')].map(s => s.id)")
    assert {"cost", "models", "latency", "gpus", "time", "depends", "evidence", "scenario", "made"} <= set(sections)
    assert page.run("[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))")
    assert page.run("document.querySelectorAll('#time rect.pale').length") > 0
    assert page.run("[...document.querySelectorAll('svg[role=img]')].every(s => s.getAttribute('aria-label'))")
    assert page.run("document.querySelector('#scenario pre:last-of-type').textContent") == edge_box.scenario_text


@pytest.mark.parametrize(("name", "width"), [("plan", 1280), ("simulation", 360)])
def test_every_gpu_is_drawn_with_what_it_holds(page, folder, name, width):
    page.open(folder / f"{name}.html", width)
    kept = json.loads((folder / f"{name}.json").read_text())
    gpus = kept.get("recommendation", kept)["gpus"]
    boxes = page.run(
        "[...document.querySelectorAll('#fleet .gpu')].map(f => ({title: f.querySelector('.name').firstChild.data,"
        " models: [...f.querySelectorAll('li')].map(e => e.textContent),"
        " parts: [...f.querySelectorAll('.strip')].map(s => s.querySelector('rect').getBoundingClientRect().width"
        " / s.getBoundingClientRect().width)}))"
    )
    counts = [int(number[1]) if (number := re.match(r"(\d+) x ", box["title"])) else 1 for box in boxes]
    assert sum(counts) == len(gpus)
    assert {tuple(box["models"]) for box in boxes} == {tuple(gpu["models"]) for gpu in gpus}
    most = max(gpu["peak_memory_bytes"] / gpu["memory_bytes"] for gpu in gpus)
    assert max(box["parts"][1] for box in boxes) == pytest.approx(most, abs=0.01)


def test_histograms_hold_every_request(page, folder, edge_box):
    page.open(folder / "plan.html")
    bars = page.run(
        "[...document.querySelectorAll('#latency figure')].map(f => [...f.querySelectorAll('rect title')]"
        ".map(t => Number(t.textContent.match(/: ([\\d,]+) requests/)[1].replaceAll(',', ''))))"
    )
    assert [sum(one) for one in bars] == [sum(one.counts) for one in edge_box.latency]


def test_tables_sort_by_figure_and_by_word(page, folder, edge_box):
    page.open(folder / "plan.html")
    heads = page.run("[...document.querySelectorAll('#models th button')].map(b => b.textContent)")
    column = "[...document.querySelectorAll('#models tbody tr')].map(r => {cell})"
    for title, cell, wanted in (
        ("p99 / SLO", f"Number(r.children[{heads.index('p99 / SLO')}].dataset.value)", None),
        ("model", "r.children[0].textContent", sorted(m.name for m in edge_box.recommendation.models)),
    ):
        for order, down in (("ascending", False), ("descending", True)):
            page.run(f"document.querySelectorAll('#models th button')[{heads.index(title)}].click()")
            seen = page.run(column.replace("{cell}", cell))
            assert seen == sorted(wanted or seen, reverse=down)
            sorts = "[...document.querySelectorAll('#models [aria-sort]')].map(h => h.getAttribute('aria-sort'))"
            assert page.run(sorts) == [order]


def test_names_cannot_break_out(page, folder):
    page.open(folder / "hostile.html")
    assert page.run("document.title") == HOSTILE
    assert page.run("document.querySelectorAll('script').length") == 1
    assert page.run("document.querySelectorAll('img').length") == 0
    assert HOSTILE in page.run("document.querySelector('#models').textContent")


def test_a_script_that_is_not_ours_does_not_run(page, folder):
    """Were something not escaped, the page's own policy would stop it."""
    broken = folder / "broken.html"
    ours = (folder / "plan.html").read_text(encoding="utf-8")
    broken.write_text(ours.replace("<footer>", "<script>document.title = 'taken'</script><footer>"), encoding="utf-8")
    page.open(broken)
    assert page.run("document.title") == "Edge box"
    assert any("Content Security Policy" in said for said in page.complaints)


def test_paper_shows_what_is_folded_away(page, folder, tmp_path):
    page.open(folder / "plan.html")
    page.print(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.querySelectorAll('details[open]').length") == 0


A4_WIDTH, A4_HEIGHT = 703, 1016
"""CSS pixels of a sheet within its margins: 186 x 269 mm."""


def test_the_first_sheet_of_a_plan_stands_alone(page, folder):
    page.open(folder / "plan.html", width=A4_WIDTH, height=A4_HEIGHT)
    first = "document.querySelector('.first-page')"
    assert page.run(f"getComputedStyle({first}).display") == "none"
    try:
        page.call("Emulation.setEmulatedMedia", media="print")
        titles = page.run(f"[...{first}.querySelectorAll('h3')].map(h => h.textContent).join('; ')")
        assert titles == "What runs where; Each kind of GPU alone; What is uncertain"
        assert page.run(f"getComputedStyle({first}).breakAfter") == "page"
        assert 0 < page.run(f"{first}.getBoundingClientRect().bottom + scrollY") <= A4_HEIGHT
    finally:
        page.call("Emulation.setEmulatedMedia", media="")


def test_a_headline_does_not_break_inside_a_name(page, folder):
    """Names with hyphens, such as that of an instance."""
    page.open(folder / "plan.html", width=400)
    names = whole("g2-standard-4 n1-standard-8 ") * 5
    page.run(f"document.querySelector('h1').innerHTML = '1 x {names}'")
    lines = "[...document.querySelectorAll('h1 .whole')].map(e => e.getClientRects().length)"
    assert page.run(lines) == [1] * 10
    assert '<span class="whole">g2-standard-4</span>' in whole("1 x g2-standard-4 (L4)")
    assert whole("<b-c>") == '<span class="whole">&lt;b-c&gt;</span>'


def test_a_training_and_a_horizon_show_every_option_and_way(page, folder):
    page.open(folder / "training.html")
    shown = page.run("document.querySelectorAll('#options tbody tr').length")
    assert 10 < page.run("document.querySelectorAll('#chart circle').length") <= shown
    page.open(folder / "horizon.html")
    ways = len(json.loads((folder / "horizon.json").read_text())["strategies"])
    assert page.run("document.querySelectorAll('#ways tbody tr').length") == ways
    assert page.run("document.querySelectorAll('#hours .lane').length") == ways + 1  # the load


def test_a_study_shows_every_point(page, folder):
    page.open(folder / "study.html")
    assert page.run("document.querySelectorAll('#points tbody tr').length") == len(STUDY.points)
    assert page.run("document.querySelectorAll('#lines circle').length") >= 2 * len(STUDY.points)
    assert page.run("document.querySelectorAll('#heat tbody td').length") == 3 * len(STUDY.points)
    # Of cost against p99: T4 at load 1; V100 at 1 and the unnamed at 1 cost more and answer sooner.
    assert page.run("document.querySelectorAll('#pareto circle.best').length") == 3
    assert "too slow" in page.run("document.querySelector('#refused').textContent")


def test_sliders_show_every_point_of_a_study(page, folder):
    page.open(folder / "study.html", 400)
    for i, gpu in enumerate(AXES[0].values):
        for j, load in enumerate(AXES[1].values):
            page.run(
                f"document.querySelectorAll('.sliders input').forEach((slider, i) => {{ slider.value = [{i}, {j}][i];"
                " slider.dispatchEvent(new Event('input')) })"
            )
            chosen = page.run("[...document.querySelectorAll('.sliders output')].map(e => e.textContent)")
            assert chosen == [gpu, str(load)]
            point = next(p for p in STUDY.points if p.axes == {"gpu": gpu, "load": load})
            shown = page.run(
                "Object.fromEntries([...document.querySelectorAll('.sliders .stat')]"
                ".map(e => [e.children[0].textContent, e.children[1].textContent]))"
            )
            assert shown["fleet"] == point.values["fleet"]
            assert float(shown["cost an hour"].strip("$")) == pytest.approx(point.values["cost_usd_per_hour"])
            assert shown["feasible"] == ("yes" if point.feasible else "no")
    assert page.complaints == []


# In a browser, what is seen

LABELS = """
(() => {
  const faults = [];
  for (const chart of document.querySelectorAll("svg.chart")) {
    const frame = chart.getBoundingClientRect();
    const shown = [...chart.querySelectorAll("text")].filter(t => t.textContent);
    const boxes = shown.map(t => [t.textContent, t.getBoundingClientRect(), t.getAttribute("class")]);
    for (const [text, box] of boxes)
      if (box.left < frame.left - 1 || box.right > frame.right + 1) faults.push(`${text} is clipped`);
    const ticks = boxes.filter(([, , style]) => !style);
    ticks.forEach(([text, a], i) => {
      for (const [other, b] of ticks.slice(i + 1))
        if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
          faults.push(`${text} lies on ${other}`);
    });
  }
  for (const axis of document.querySelectorAll(".ticks")) {
    const boxes = [...axis.children].map(t => [t.textContent, t.getBoundingClientRect(), t]);
    boxes.forEach(([text, a, label], i) => {
      const words = document.createRange();
      words.selectNodeContents(label);
      if (words.getBoundingClientRect().top < a.top + parseFloat(getComputedStyle(label, "::before").height))
        faults.push(`${text} lies on its tick`);
      if (a.left < 0 || a.right > innerWidth) faults.push(`${text} is clipped`);
      if (i && boxes[i - 1][1].right > a.left) faults.push(`${text} lies on ${boxes[i - 1][0]}`);
    });
  }
  for (const card of document.querySelectorAll(".stat"))
    if (card.scrollWidth > card.clientWidth) faults.push(`${card.textContent} leaves its card`);
  return faults;
})()
"""
CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = colour => {
    const [r, g, b] = rgba(colour).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const below = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const faults = new Set();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || e.closest("script, title") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const colour = e.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(colour), light(below(e))].sort((x, y) => y - x);
    const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5))
      faults.add(`${e.tagName}.${e.className}: ${colour} on ${below(e)}`);
  }
  return [...faults];
})()
"""
"""WCAG 2.1, success criterion 1.4.3: 4.5 to 1, of large text 3 to 1."""


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)])
def test_labels_are_whole_and_texts_stand_out(page, folder, name, width, dark):
    page.open(folder / f"{name}.html", width, dark=dark)
    assert page.run(LABELS) == []
    assert page.run(CONTRAST) == []


@pytest.mark.parametrize("name", ANSWERS)
def test_the_keyboard_reaches_all_that_can_be_used(page, folder, name):
    """Every control takes the focus, in the order of the page; what scrolls does too."""
    page.open(folder / f"{name}.html", 400)
    page.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    wanted = page.run(
        "(window.wanted = [...document.querySelectorAll('a[href], button, summary, input')]"
        ".filter(e => e.getClientRects().length)).length"
    )
    assert wanted >= (2 if name == "whatif" else 3)  # on a narrow screen no title of a column sorts
    assert page.run("window.wanted.every(e => { e.focus(); return document.activeElement === e && e.tabIndex === 0 })")
    scrolls = (
        "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1"
        " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX))"
    )
    assert page.run(f"{scrolls}.filter(e => e.tabIndex !== 0).map(e => e.outerHTML.slice(0, 80))") == []


# Without a browser


def test_the_command_writes_a_page(folder, tmp_path, capsys, monkeypatch):
    assert report(monkeypatch, folder / "plan.json", "-o", tmp_path / "page.html") == 0
    assert f"Wrote {tmp_path / 'page.html'}" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report_page(folder / "plan.json")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "has no `schema`"),
        ('{"schema": "planner.validation/v2"}', "has schema `planner.validation/v2`"),
        ('{"schema": "planner.plan/v3"}', "Run `planner plan` again"),
        ('{"schema": "planner.plan/v2"}', "Another version of the planner kept it: make it again."),
        ('{"schema": "planner.study/v2"}', "Run `planner study` again"),
        ("[1", "is not JSON"),
    ],
)
def test_what_is_no_answer_is_refused_in_one_line(tmp_path, text, told, capsys, monkeypatch):
    (tmp_path / "answer.json").write_text(text)
    assert report(monkeypatch, tmp_path / "answer.json", "-o", tmp_path / "page.html") == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def report(monkeypatch, *words) -> int:
    """`planner report ...` and its exit code."""
    monkeypatch.setattr(sys, "argv", ["planner", "report", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


def test_plans_of_older_versions_have_a_page(folder, tmp_path):
    data = json.loads((folder / "plan.json").read_text())
    for key in ("scenario_text", "scenario_overrides", "latency", "timeline"):
        del data[key]
    (tmp_path / "old.json").write_text(json.dumps(data))
    page = report_page(tmp_path / "old.json")
    assert "made by an older version" in page
    assert 'id="latency"' not in page
    assert 'id="time"' not in page


def test_another_text_than_the_one_planned_is_said(folder, tmp_path):
    data = json.loads((folder / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(data | {"scenario_text": data["scenario_text"] + "# more\n"}))
    assert "it was changed since" in report_page(tmp_path / "plan.json")
    assert "it was changed since" not in report_page(folder / "plan.json")


def test_the_same_answer_makes_the_same_page(folder):
    assert report_page(folder / "plan.json") == report_page(folder / "plan.json")
    assert page_of(document(STUDY)) == (folder / "study.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("~99.52 [98.38, 99.94] / 99 %", ["~99.52 [98.38, 99.94]", "/ 99 %"]),
        ("10.5 ms (8.1 to 12 ms)", ["10.5 ms", "(8.1 to 12 ms)"]),
        ("2.10 h [1.83 h, 3.87 h]", ["2.10 h", "[1.83 h, 3.87 h]"]),
        ("120/s", []),
    ],
)
def test_a_figure_breaks_before_its_band_and_its_slo(text, parts):
    assert re.findall(r'<span class="piece">(.*?)</span>', pieces(text)) == parts
    assert re.sub("<.*?>", "", pieces(text)) == text


def test_figures_keep_their_units_but_for_code():
    assert code("in 10 ms: `horizon: 10 s`") == "in 10\u00a0ms: <code>horizon: 10 s</code>"


def test_code_and_steps():
    assert code("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert code("a ` <b>") == "a ` &lt;b&gt;"
    assert steps(0, 0.83, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert log_steps(0.002, 0.02) == pytest.approx([0.002, 0.005, 0.01, 0.02])
    assert log_steps(0.0011, 0.2) == pytest.approx([0.003, 0.01, 0.03, 0.1])


# Explanations of the same answers


def explanation(folder, name):
    """What `planner explain` says of a kept answer, in one line."""
    return " ".join(explained(read_kept(folder / f"{name}.json"), Screen()).split())


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_explained(folder, name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["planner", "explain", str(folder / f"{name}.json")])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    said = capsys.readouterr().out
    assert len(said.splitlines()) > 3
    assert " ".join(said.split()) == explanation(folder, name)


def test_a_swap_is_as_long_as_rate_and_share_of_time_say(folder):
    """At 27.3 a second, 31.6 ms each are 86.2 % of the time."""
    gpu = json.loads((folder / "simulation.json").read_text())["gpus"][0]
    swap = r"at ([\d.]+)/s each swap waits ([\d.]+) ms, for ([\d.]+) ms of batches"
    said = re.search(swap, explanation(folder, "simulation"))
    rate, wait_ms, run_ms = map(float, said.groups())
    assert gpu["swaps_per_s"] > 0
    assert rate * wait_ms / 1e3 == pytest.approx(gpu["load_share"], rel=0.02)
    assert rate * run_ms / 1e3 == pytest.approx(gpu["utilization"], rel=0.02)


def test_a_training_is_its_steps(folder):
    plan = json.loads((folder / "training.json").read_text())
    said = explanation(folder, "training")
    fast, cheap = plan["fastest"], plan["cheapest"]
    assert f"{cheap['steps']:,.0f} steps of" in said
    assert f"{cheap['time_s']['mid'] / fast['time_s']['mid']:.3g} times as fast" in said
    held = {limit: int(count) for limit, count in re.findall(r"- (\w+), (\d+) options?:", said)}
    assert held == Counter(option["bottleneck"] for option in plan["options"])


def test_a_study_says_what_moves_what(folder):
    said = explanation(folder, "study")
    assert "too slow" in said
    assert "cost an hour by load: $3.00 at 1, $12.00 at 4." in said  # of a V100
    assert "gpu=V100, load=1: largest load 1 [not tried]" in said


def test_a_horizon_says_what_each_way_pays_and_what_the_load_asks(folder):
    answer = json.loads((folder / "horizon.json").read_text())
    said = explanation(folder, "horizon")
    assert all(f"- {one['way']}, " in said for one in answer["strategies"])
    hours = [float(hours.replace(",", "")) for hours in re.findall(r"for ([\d,.]+) h, \d+ % of the time", said)]
    assert sum(hours) == pytest.approx(24 * answer["days"], abs=0.05 * len(hours))


# What plan.json keeps for reports


def test_requests_ran_in_the_batches_that_are_shown(edge_box):
    seen = edge_box.timeline
    b, r = seen.batches, seen.requests
    room = {(g, m, s, e): n for g, m, s, e, n in zip(b.gpu, b.model, b.start_s, b.end_s, b.size, strict=True)}
    end_s = seen.end_s - seen.start_s
    ran = [row for row in zip(r.gpu, r.model, r.start_s, r.finish_s, strict=True) if row[0] >= 0 and row[2] < end_s]
    assert len(ran) > 100
    for row in ran:
        room[row] -= 1
    assert min(room.values()) >= 0
    inside = {row: left for row, left in room.items() if 1 < row[2] < end_s - 1}  # nobody came before the window
    assert set(inside.values()) == {0}


def test_the_window_is_short_and_has_loads(edge_box, folder):
    seen = edge_box.timeline
    assert len(seen.requests.arrival_s) <= 2000
    assert seen.loads.gpu
    assert (folder / "plan.json").stat().st_size < 300_000
    assert all(0 <= at < seen.end_s - seen.start_s for at in seen.requests.arrival_s)
    for start_s, end_s in zip(seen.loads.start_s, seen.loads.end_s, strict=True):
        assert start_s < end_s
    one = [(s, e) for g, s, e in zip(seen.batches.gpu, seen.batches.start_s, seen.batches.end_s, strict=True) if g == 0]
    assert all(before[1] <= after[0] + 2e-6 for before, after in pairwise(one))
    limit = edge_box.recommendation.gpus[0].memory_bytes
    assert max(seen.memory.bytes) <= limit


def test_queues_are_arrivals_less_starts(edge_box):
    """Counted anew from the requests, in the middle of the window."""
    seen = edge_box.timeline
    middle_s = (seen.end_s - seen.start_s) / 2
    r, q = seen.requests, seen.queue
    for model in range(len(seen.models)):
        steps_of = [(at, n) for m, at, n in zip(q.model, q.time_s, q.length, strict=True) if m == model]
        before = [(at, n) for at, n in steps_of if at <= middle_s]
        last_s, length = before[-1]
        waiting = sum(
            m == model and a <= last_s + 5e-7 < s for m, a, s in zip(r.model, r.arrival_s, r.start_s, strict=True)
        )
        assert length == waiting


def test_histograms_agree_with_the_percentiles(edge_box):
    runs = edge_box.recommendation.replications
    judged_s = edge_box.policies.horizon_s - edge_box.policies.warmup_s
    for one, model in zip(edge_box.latency, edge_box.recommendation.models, strict=True):
        assert len(one.edges_s) == len(one.counts) + 1
        assert sum(one.counts) == round(model.throughput_rps * judged_s * runs)
        late = sum(n for left_s, n in zip(one.edges_s[:-1], one.counts, strict=True) if left_s >= one.slo_s)
        assert late / sum(one.counts) <= 1 - model.slo_attainment.mean + 1e-9
        middles = [math.sqrt(a * b) for a, b in zip(one.edges_s[:-1], one.edges_s[1:], strict=True)]
        mean_s = sum(n * at for n, at in zip(one.counts, middles, strict=True)) / sum(one.counts)
        assert mean_s == pytest.approx(model.mean_s, rel=0.06)


def test_plans_come_back_as_they_were(edge_box, folder):
    back = read_plan(folder / "plan.json")
    assert isinstance(back, Plan)
    assert json.loads(to_json(back)) == json.loads(to_json(edge_box))


def test_a_study_that_is_none_is_refused(tmp_path):
    (tmp_path / "study.json").write_text('{"schema": "planner.study/v2", "name": 3}')
    with pytest.raises(StoreError, match=r"study\.json: name: "):
        report_page(tmp_path / "study.json")
