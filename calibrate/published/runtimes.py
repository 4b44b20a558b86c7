"""Runtimes: the networks, precisions and GPUs that each serves, as its documentation says, in `data/runtimes.csv`."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from calibrate.io.tables import table
from calibrate.published import names
from calibrate.published.points import DATA
from simulator.world.hardware import GPU

TRITON = "triton-"
"""A server around a runtime, which serves what that does."""
QUANTIZED = ("int8", "fp8")
"""Precisions that PyTorch does not compute in on GPUs by itself: without a runtime they mean TensorRT."""
PYTORCHS_OWN = ("torch", "amp", "amp-bf16")
"""Precisions that are ways of PyTorch to compute: another runtime has them where its documentation says so."""
USUAL, USUAL_QUANTIZED = "pytorch", "tensorrt"


class Maker(StrEnum):
    """Whose GPUs a runtime is for."""

    ANY = "any"
    NVIDIA = "nvidia"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a runtime serves on GPUs."""

    name: str
    networks: re.Pattern[str]
    """Names of architectures."""
    called: str
    """How these are called; empty: all."""
    precisions: tuple[str, ...]
    """Empty: all but PyTorch's own."""
    gpus: Maker
    source: str
    """The documentation that says so."""

    def unserved(self, architecture: str, precision: str, gpu: GPU) -> str:
        """Why it does not run a network at a precision on a GPU, in half a sentence; empty where it does.

        Of processors only what is for NVIDIA's GPUs alone is said: else what somebody published counts there.
        """
        if why := self.unserved_network(architecture):
            return why
        is_amds = gpu.compute_capability.startswith("gfx")  # `gfx942` where NVIDIA writes `9.0`
        if self.gpus is Maker.NVIDIA and (is_amds or gpu.is_processor):
            return f"{self.name} does not run on {gpu.name}"
        if self.gpus is Maker.NONE and not gpu.is_processor:
            return f"{self.name} does not run on {gpu.name}"
        if not self.computes_in(precision) and not (gpu.is_processor and precision not in PYTORCHS_OWN):
            return f"{self.name} does not compute in {precision}{'' if precision in PYTORCHS_OWN else ' on GPUs'}"
        return ""

    def computes_in(self, precision: str) -> bool:
        """Whether it has a precision on GPUs."""
        return precision in self.precisions or not (self.precisions or precision in PYTORCHS_OWN)

    def unserved_network(self, architecture: str) -> str:
        """The same of the network alone."""
        if self.networks.search(architecture):
            return ""
        return f"{self.name} runs {self.called} only, and {architecture} is none of them"


def usual(precision: str | None, gpu: GPU | None = None) -> str:
    """The runtime that is meant where none is named: the one that computes in the precision on the GPU."""
    on_processor = gpu is not None and gpu.is_processor
    return USUAL_QUANTIZED if precision in QUANTIZED and not on_processor else USUAL


def serving(architecture: str, precision: str, gpu: GPU) -> list[str]:
    """Known runtimes that run a network at a precision on a GPU, sorted."""
    return sorted(name for name in names.runtimes() if not runtime(name).unserved(architecture, precision, gpu))


@cache
def runtime(name: str) -> Runtime:
    """What is known of a runtime; one that nobody described serves all."""
    plain = name.removeprefix(TRITON)
    row = _rows().get(plain, {})
    alike = _rows().get(row.get("networks", "").removeprefix("as "), row)
    return Runtime(
        name=name,
        networks=re.compile(alike.get("networks", "")),
        called=alike.get("called", ""),
        precisions=tuple(filter(None, row.get("precisions", "").split("|"))),
        gpus=Maker(row.get("gpus", Maker.ANY)),
        source=row.get("source", ""),
    )


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["runtime"]: row for row in table(DATA / "runtimes.csv")}
