"""What was measured of one model under one setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrate.io.points import PointOutcome, Settings, Status, What
from calibrate.layers.naming import profile_name
from calibrate.zoo.sources import RUNTIMES


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured of one model under one setting, and the probes of the device it ran on."""

    model: str
    settings: Settings
    provenance: Mapping[str, Any]
    outcomes: Mapping[str, PointOutcome]
    """By the point's key."""
    probes: Mapping[str, PointOutcome]
    """By the probe's name."""

    @property
    def name(self) -> str:
        """As profiles name it: `resnet50.448px`, `my.package.factory.3x64x64`."""
        return profile_name(self.model, self.input_shape or (), self.settings.suffix)

    @property
    def runtime(self) -> str:
        """The software that ran it: a file's own, or what the settings say."""
        return RUNTIMES.get(self.model.partition(":")[0], self.settings.runtime)

    def one(self, what: What) -> PointOutcome | None:
        """The outcome of a kind that is measured once, if it went well."""
        return next((o for o in self.outcomes.values() if o.point.what is what and o.status is Status.OK), None)

    def by_batch(self, what: What, optimizer: str = "") -> dict[int, PointOutcome]:
        """Outcomes of a kind that went well, by ascending batch size."""
        found = {
            o.point.batch: o
            for o in self.outcomes.values()
            if o.point.what is what and o.point.optimizer == optimizer and o.status is Status.OK
        }
        return dict(sorted(found.items()))

    @property
    def input_shape(self) -> list[int] | None:
        """One sample of a user's own model; None for the zoo's, which have theirs."""
        return next((o.details["input_shape"] for o in self.outcomes.values() if "input_shape" in o.details), None)

    @property
    def optimizers(self) -> list[str]:
        """Those a training step was measured with."""
        return sorted({o.point.optimizer for o in self.outcomes.values() if o.point.optimizer})

    def probe(self, name: str, value: str) -> float | None:
        """A value of a device probe, None where it was not measured or is 0."""
        return (self.probes[name].values.get(value) or None) if name in self.probes else None
