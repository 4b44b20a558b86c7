"""OpenMetrics: the figures of a plan as gauges, to be drawn and alarmed on beside what is measured."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from operator import attrgetter
from pathlib import Path

from planner.model.plan import Plan
from planner.words.candidates import candidate_name

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric, and the figures of a plan's part that it shows."""

    name: str
    help: str
    unit: str = ""
    figure: str = ""
    """Name of the only figure; a tuple counts as its length."""
    label: str = ""
    """Tells several figures apart."""
    figures: Mapping[str, str] = field(default_factory=dict)
    """Name of each by the value of that label."""

    def samples(self, labels: Labels, part: object) -> Iterator[Sample]:
        """The figures of a part that exist."""
        for value, name in (self.figures or {"": self.figure}).items():
            found = attrgetter(name)(part)
            number = float(len(found) if isinstance(found, tuple) else nan if found is None else found)
            if isfinite(number):
                yield {**labels, **({self.label: value} if self.label else {})}, number


GAUGES = {
    part: [Gauge(**gauge) for gauge in listed]
    for part, listed in tomllib.loads(Path(__file__).with_name("gauges.toml").read_text(encoding="utf-8")).items()
}
"""By the part of a plan that they are of."""
INFO = Gauge("planner_plan_info", "Which plan these figures are of.")


def metrics(plan: Plan) -> str:
    """The whole text."""
    best = plan.recommendation
    about = {
        "scenario": plan.scenario,
        "scenario_sha256": plan.scenario_sha256,
        "fleet": candidate_name(best.candidate),
        "created_at": plan.created_at,
        "prices_as_of": plan.prices_as_of,
    }
    machines = [
        ({"provider": one.provider, "region": one.region, "instance": one.instance, "gpu": one.gpu}, one)
        for one in best.instances
    ]
    models = [({"model": model.name}, model) for model in best.models]
    gpus = [({"gpu": gpu.id, "kind": gpu.kind, "machine": gpu.host}, gpu) for gpu in best.gpus]
    lines = [
        *lines_of(INFO, [(about, 1.0)]),
        *group(GAUGES["plan"], [({}, best)]),
        *group(GAUGES["machine"], machines),
        *group(GAUGES["model"], models),
        *group(GAUGES["gpu"], gpus),
    ]
    return "\n".join([*lines, "# EOF", ""])


def group(gauges: Sequence[Gauge], parts: Sequence[tuple[Labels, object]]) -> Iterator[str]:
    """Metrics of parts that are alike."""
    for gauge in gauges:
        yield from lines_of(gauge, [sample for labels, part in parts for sample in gauge.samples(labels, part)])


def lines_of(gauge: Gauge, samples: Sequence[Sample]) -> Iterator[str]:
    """A metric as text; nothing where it has no samples."""
    if not samples:
        return
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    yield f"# HELP {gauge.name} {gauge.help}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        yield f"{gauge.name}{{{inside}}} {value:.9g}" if inside else f"{gauge.name} {value:.9g}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
