"""Scenarios and answers as objects that are made, asked and shown in Python: `from planner import Scenario`.

They are the classes of `planner.model` with what other rooms can do with them as methods.
"""

import html
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex, overload

from planner.console.shipped import shipped
from planner.io.load import load_data, load_scenario
from planner.io.store import write_answer
from planner.model import plan as plans
from planner.model import scenario as scenarios
from planner.model import simulation as simulations
from planner.model.checked import plain, stated, values_of
from planner.model.plan import ModelAnswer
from planner.show.kept import document_of, explained, render
from planner.units.errors import shown
from planner.units.reading import did_you_mean
from planner.units.writing import Format, Screen
from simulator.errors import InputError


class Scenario(scenarios.Scenario):
    """A question that is checked when it is made, by all rules that a YAML file is held to.

    Values are in people's units or SI: `models=[{"name": "yolov3", "slo": {"latency": "100 ms"}}]`. InputError lists
    all that is wrong, a line each, with the path of the field. Names of files count from where the program runs.
    """

    __slots__ = ()
    __signature__ = inspect.signature(scenarios.Scenario)

    def __init__(self, **values: Any) -> None:
        made = load_data(stated(scenarios.Scenario, values)).scenario
        super().__init__(**values_of(made))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The scenario that a YAML file with these values would hold."""
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            raise InputError(f"data: must be a mapping of keys to values, got {shown(data)}.")
        return cls(**data)

    @classmethod
    def from_file(cls, file: str | Path, overrides: Sequence[str] = ()) -> Self:
        """The scenario in a YAML file, after `--set` overrides: `["headroom=20 %"]`."""
        path = shipped(Path(file))
        data = plain(load_scenario(path, overrides).scenario, path.parent)
        return cls(**{"name": path.stem, **data})


class ModelsByName(tuple[ModelAnswer, ...]):
    """Models in their order; `models["yolov3"]` is one by its name."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> ModelAnswer: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[ModelAnswer, ...]: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> ModelAnswer | tuple[ModelAnswer, ...]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for model in self:
            if model.name == key:
                return model
        raise InputError(f"models: no model is called `{key}`.{did_you_mean(key, [model.name for model in self])}")


class Shown:
    """What every answer can do that is kept: `print` shows it as the command does, a notebook as a page."""

    __slots__ = ()

    @classmethod
    def of(cls, answer: Any) -> Self:
        """The same answer with these methods."""
        return cls(**values_of(answer))

    def written(self, form: Format = Format.TABLE) -> str:
        """As the command writes it into a file: a table, JSON, Markdown; CSV of what is served."""
        return render(self, form, Screen())

    def save(self, file: str | Path) -> None:
        """Keep it as JSON, from which `planner report` and others go on. InputError where the file holds another."""
        write_answer(self, Path(file), option="")

    def explain(self) -> str:
        """Why the answer is what it is, and what would change it."""
        return explained(self, Screen())

    def __str__(self) -> str:
        return self.written()

    def _repr_markdown_(self) -> str:
        return self.written(Format.MD)

    def _repr_html_(self) -> str:
        """The page of `planner report` in a frame, which keeps its styles apart from those of the notebook."""
        from planner.show.page.render import page

        escaped = html.escape(page(document_of(self)))
        return f'<iframe srcdoc="{escaped}" width="100%" height="700" frameborder="0"></iframe>'


class Plan(Shown, plans.Plan):
    """The answer to a scenario."""

    __slots__ = ()

    @property
    def feasible(self) -> bool:
        """True where every SLO is surely met."""
        return self.recommendation.feasible

    @property
    def cost_usd_per_hour(self) -> float:
        """The recommendation's; NaN where nothing could be replayed."""
        return self.recommendation.cost_usd_per_hour

    @property
    def models(self) -> ModelsByName:
        """The recommendation's."""
        return ModelsByName(self.recommendation.models)

    def export(self, target: str, folder: str | Path, *, force: bool = False) -> Mapping[str, str]:
        """Write files that deploy, watch or draw it: triton, skypilot, ...; their texts by path in the folder."""
        from planner.exports.targets import export

        return export(self, target, Path(folder), force)


class Simulation(Shown, simulations.Simulation):
    """A deployment that was replayed."""

    __slots__ = ()

    @classmethod
    def of(cls, answer: Any) -> Self:
        """The same answer with these methods."""
        values = values_of(answer)
        return cls(**{**values, "models": ModelsByName(values["models"])})
