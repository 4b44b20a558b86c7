"""Random scenarios: small questions near the edge of what one GPU carries, the same for the same seed.

`python -m benchmarks.random_scenarios FOLDER --count 3 --first-seed 7` writes them to look at.
"""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import yaml

from benchmarks.outside import each
from calibrate.layers.facts import facts

GPUS = {"T4": (1.0, 0.5), "L4": (0.6, 0.9), "V100": (0.4, 1.5)}
"""Run times over those on a T4, and dollars an hour, about; cheapest first."""
BATCHES = (1, 2, 4, 8, 16)
CONTEXT_BYTES = 0.8e9
"""What a scenario takes for granted where it does not say."""
CUT_MEMORY_BYTES = 6e9
"""Of each GPU where one model is larger than that."""
LOAD_BYTES_PER_S = 12e9
ZOO = ("resnet34", "resnet50", "resnet101")
"""Networks with equal layers, for what is merged."""
SLO_MIN, SLO_MAX = 3.0, 200.0
"""Times what one request takes alone, its weights included where they come and go."""
SLO_MAX_S = 20.0
"""Longer ones take hours to replay."""
RECORDED_S = 60.0
HEAD = "  seed  kind        traffic   load"


class Kind(StrEnum):
    """What makes a scenario hard."""

    RESIDENT = "resident"
    PREFETCHED = "prefetched"
    """Models take turns in memory; the next one loads while another runs."""
    SWAPPED = "swapped"
    """Models take turns in memory, without prefetch."""
    CUT = "cut"
    """One model is larger than a GPU's memory."""
    MIXED = "mixed"
    """Two or three kinds of GPU."""
    MERGED = "merged"
    """Models may share equal layers."""


class Traffic(StrEnum):
    """How requests arrive."""

    CAMERAS = "cameras"
    POISSON = "poisson"
    GAMMA = "gamma"
    TRACE = "trace"
    MIXTURE = "mixture"
    """Each model is asked in two ways."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One random scenario, as files."""

    seed: int
    kind: Kind
    traffic: Traffic
    load: float
    """Erlangs of one of the cheapest GPUs at its best batches that what must run takes, as was aimed at."""
    folder: Path

    @property
    def files(self) -> tuple[object, ...]:
        """As the planner's commands take them."""
        return self.folder / "scenario.yaml", "--profiles", self.folder / "profiles"

    def __str__(self) -> str:
        return f"{self.seed:>6}  {self.kind:<10}  {self.traffic:<8}  {self.load:4.2f}"


@dataclass(slots=True)
class Net:
    """One model as it is drawn."""

    name: str
    zoo: str
    """Network whose layers it has; empty where those are made up."""
    layer_bytes: list[int]
    workspace_bytes: int
    """Of each sample."""
    run_s: dict[str, tuple[float, float]]
    """By GPU: of a batch, and of each sample in it besides."""
    slo_s: float = 0.0
    attainment: float = 1.0
    rate_rps: float = 0.0

    @property
    def weight_bytes(self) -> int:
        """All layers."""
        return sum(self.layer_bytes)

    def batch_s(self, batch: int, gpu: str) -> float:
        """Time of one batch."""
        fixed_s, sample_s = self.run_s[gpu]
        return fixed_s + sample_s * batch

    def profile(self, gpu: str) -> dict[str, Any]:
        """As a profile's file has it."""
        return {
            "schema": "planner.profile/v1",
            "model": self.name,
            "gpu": gpu,
            "precision": "fp32",
            "layers": [{"key": f"{self.name} {i}", "weight_bytes": size} for i, size in enumerate(self.layer_bytes)],
            "latency_s": {str(b): self.batch_s(b, gpu) for b in BATCHES},
            "workspace_bytes": {str(b): self.workspace_bytes * b for b in BATCHES},
            "load": {"t0_s": 1e-5, "bytes_per_s": LOAD_BYTES_PER_S},
            **dict.fromkeys(("latency_evidence", "memory_evidence", "load_evidence"), "measured"),
            "source": "drawn at random",
            "as_of": "2026-07-20",
        }


class Draft:
    """A scenario while it is drawn."""

    def __init__(self, random: Random, kind: Kind, traffic: Traffic, load: float) -> None:
        self.random, self.kind, self.traffic = random, kind, traffic
        self.drop = random.choice(["late", "never"])
        self.takes_turns = kind in (Kind.PREFETCHED, Kind.SWAPPED, Kind.MERGED)
        several = {Kind.MIXED: random.randint(2, 3), Kind.CUT: random.randint(1, 2)}
        chosen = random.sample(list(GPUS), several.get(kind, 1))
        self.gpus = [gpu for gpu in GPUS if gpu in chosen]
        self.nets = [self._net(number) for number in range(random.randint(1 + self.takes_turns, 4))]
        self.memory_bytes = self._memory_bytes()
        self._promise()
        self._ask(load)

    def _promise(self) -> None:
        """SLOs: all short or all long, more or less."""
        usual = log_uniform(self.random, SLO_MIN, SLO_MAX)
        for net in self.nets:
            alone_s = net.batch_s(1, self.gpus[0]) + self.takes_turns * net.weight_bytes / LOAD_BYTES_PER_S
            times = min(SLO_MAX, max(SLO_MIN, usual * log_uniform(self.random, 0.5, 2.0)))
            net.slo_s = min(SLO_MAX_S, times * alone_s)
            net.attainment = self.random.randint(90, 99) / 100

    def _ask(self, load: float) -> None:
        """Rates: parts of the load, of which less must run where requests may be dropped."""
        parts = [0.1 + self.random.expovariate(1.0) for _ in self.nets]
        for net, part in zip(self.nets, parts, strict=True):
            needed_rps = load * part / sum(parts) * self._best_rps(net)
            net.rate_rps = needed_rps if self.drop == "never" else needed_rps / net.attainment

    def _net(self, number: int) -> Net:
        random = self.random
        fixed_s, sample_s = log_uniform(random, 0.005, 0.05), log_uniform(random, 0.002, 0.015)
        factors = {gpu: GPUS[gpu][0] * random.uniform(0.8, 1.25) for gpu in self.gpus}
        zoo = random.choice(ZOO) if self.kind is Kind.MERGED else ""
        return Net(
            name=f"m{number}",
            zoo=zoo,
            layer_bytes=self._layer_bytes(number, zoo),
            workspace_bytes=round(random.uniform(1e7, 4e7)),
            run_s={gpu: (factor * fixed_s, factor * sample_s) for gpu, factor in factors.items()},
        )

    def _layer_bytes(self, number: int, zoo: str) -> list[int]:
        random = self.random
        if zoo:
            return [sum(layer.weight_bytes for layer in facts(zoo).layers)]
        if self.kind is Kind.CUT and number == 0:
            # One layer may be halved; of eight or more none is above a fifth. So either half fits beside the context.
            parts = [random.uniform(0.5, 1.0) for _ in range(random.choice([1, 8, 14, 20]))]
            total = random.uniform(6e9, 8e9)
            return [round(total * part / sum(parts)) for part in parts]
        return [round(random.uniform(3e8, 1.5e9) if self.takes_turns else random.uniform(5e7, 6e8))]

    def _memory_bytes(self) -> float:
        """Room for all at some batch, or for the largest and a part of the others."""
        if self.kind is Kind.CUT:
            return CUT_MEMORY_BYTES
        all_bytes, most = sum(net.weight_bytes for net in self.nets), max(net.weight_bytes for net in self.nets)
        work = max(net.workspace_bytes for net in self.nets)
        if self.takes_turns:
            held = most + work + self.random.uniform(0.0, 0.9) * (all_bytes - most)
        else:
            held = all_bytes + work * self.random.choice(BATCHES[1:])
        return ceil((CONTEXT_BYTES + held) / 1e7) * 1e7

    def _best_rps(self, net: Net) -> float:
        """What one of the cheapest GPUs serves in the largest batches that fit and run in half of the SLO."""
        beside = net.weight_bytes if self.takes_turns else sum(other.weight_bytes for other in self.nets)
        room = CUT_MEMORY_BYTES if self.kind is Kind.CUT else self.memory_bytes - CONTEXT_BYTES - beside
        fitting = [b for b in BATCHES if b * net.workspace_bytes <= room and self._turn_s(net, b) <= net.slo_s / 2]
        batch = max(fitting, default=1)
        return batch / self._turn_s(net, batch)

    def _turn_s(self, net: Net, batch: int) -> float:
        """Time that one batch takes of a cheapest GPU."""
        run_s, load_s = net.batch_s(batch, self.gpus[0]), net.weight_bytes / LOAD_BYTES_PER_S
        match self.kind:
            case Kind.PREFETCHED:
                return max(run_s, load_s)
            case Kind.SWAPPED:
                return run_s + load_s
        return run_s / 2 if net.weight_bytes > self.memory_bytes else run_s

    def scenario(self, folder: Path) -> dict[str, Any]:
        """As the scenario's file has it; recordings are written to `folder`."""
        data = {
            "name": f"{self.kind} {self.traffic}",
            "models": [self._model(net) for net in self.nets],
            "streams": [stream for net in self.nets for stream in self._streams(net, folder)],
            "buy": {"own": [machine for gpu in self.gpus for machine in self._machines(gpu)]},
            "drop": self.drop,
            "swap": {"prefetch": self.kind is not Kind.SWAPPED},
            "predict": "never",
        }
        if self.kind is Kind.MERGED:
            data |= {"merging": self.random.choice(["stem", "layers"]), "sharing": {"rule": "harmless"}}
        return data

    def _model(self, net: Net) -> dict[str, Any]:
        slo = {"latency": f"{net.slo_s * 1e3:.0f} ms", "attainment": f"{net.attainment:.0%}"}
        return {"name": net.name, "slo": slo} | ({"layers": net.zoo} if net.zoo else {})

    def _machines(self, gpu: str) -> list[dict[str, Any]]:
        """Four with one GPU; where a model is to be cut, two with two GPUs besides."""
        usd = GPUS[gpu][1] * self.random.uniform(0.8, 1.2)
        memory = f"{self.memory_bytes / 1e9:.2f} GB"
        single = {"name": gpu.lower(), "gpu": gpu, "memory": memory, "price": f"${usd:.2f}/h", "count": 4}
        double = {"name": f"{gpu.lower()}x2", "gpu_count": 2, "price": f"${1.9 * usd:.2f}/h", "count": 2}
        return [single, single | double] if self.kind is Kind.CUT else [single]

    def _streams(self, net: Net, folder: Path) -> list[dict[str, Any]]:
        if self.traffic is not Traffic.MIXTURE:
            return [self._stream(net.name, self.traffic, net.rate_rps, folder)]
        two = self.random.sample([t for t in Traffic if t is not Traffic.MIXTURE], 2)
        part = self.random.uniform(0.3, 0.7)
        rates_rps = part * net.rate_rps, (1 - part) * net.rate_rps
        return [self._stream(net.name, t, rate, folder) for t, rate in zip(two, rates_rps, strict=True)]

    def _stream(self, model: str, traffic: Traffic, rate_rps: float, folder: Path) -> dict[str, Any]:
        random = self.random
        count = min(8, max(1, round(rate_rps / random.uniform(1, 15)))) if traffic is Traffic.CAMERAS else 1
        rate = f"{rate_rps / count:.4g} rps"
        match traffic:
            case Traffic.CAMERAS:
                how: dict[str, Any] = {"count": count, "rate": rate}
            case Traffic.GAMMA:
                how = {"gamma": {"rate": rate, "cv": random.choice([2, 2.5, 3])}}
            case Traffic.TRACE:
                how = {"trace": {"file": f"{model}.csv", "rate": rate}}
                (folder / f"{model}.csv").write_text(recording(random, rate_rps), encoding="utf-8")
            case _:
                how = {"poisson": rate}
        return {"model": model, **how}


def log_uniform(random: Random, least: float, most: float) -> float:
    """As often between 1 and 10 as between 10 and 100."""
    return least * float((most / least) ** random.random())


def recording(random: Random, rate_rps: float) -> str:
    """A CSV of arrivals, for some seconds at half the rate, for some at twice."""
    times_s: list[float] = []
    now_s, busy, until_s = 0.0, False, 0.0
    while now_s < RECORDED_S:
        times_s.append(now_s)
        if now_s >= until_s:
            busy, until_s = not busy, now_s + random.uniform(2, 6)
        now_s += random.expovariate(rate_rps * (2.0 if busy else 0.5))
    return "\n".join([f"# from 0 s, lasts {RECORDED_S:g} s", "arrival_s", *(f"{t:.6f}" for t in times_s), ""])


def options(about: str | None, count: int) -> ArgumentParser:
    """Which scenarios to draw; the options that all benchmarks on them have."""
    ask = ArgumentParser(description=about)
    ask.add_argument("--count", type=int, default=count, help="scenarios")
    ask.add_argument("--first-seed", type=int, default=1, help="of the scenarios; go on here after a break")
    ask.add_argument("--jobs", type=int, default=2, help="scenarios at a time")
    ask.add_argument("--kind", type=Kind, choices=list(Kind), help="of all scenarios; else drawn")
    ask.add_argument("--traffic", type=Traffic, choices=list(Traffic), help="of all scenarios; else drawn")
    ask.add_argument("--load", type=float, help="of all scenarios, in erlangs of a cheapest GPU; else drawn")
    return ask


def write(seed: int, folder: Path, given: Namespace) -> Drawn:
    """Draw a scenario and write it to a folder; kind, traffic and load by the seed where none is asked for."""
    random = Random(seed)
    by_seed = random.choices(list(Kind), weights=[4, 4, 4, 4, 4, 1])[0], random.choice(list(Traffic))
    kind, traffic = given.kind or by_seed[0], given.traffic or by_seed[1]
    drawn_load = random.uniform(0.5, 1.2)
    load = drawn_load if given.load is None else given.load
    draft = Draft(random, kind, traffic, load)
    profiles = folder / "profiles"
    profiles.mkdir(parents=True)
    text = yaml.safe_dump(draft.scenario(folder), sort_keys=False)
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    for net in draft.nets:
        for gpu in draft.gpus:
            (profiles / f"{net.name}-{gpu}.json").write_text(json.dumps(net.profile(gpu)), encoding="utf-8")
    return Drawn(seed, kind, traffic, load, folder)


def kept(seed: int, given: Namespace) -> Drawn:
    """A scenario in a folder of its own."""
    return write(seed, given.folder / str(seed), given)


def main() -> None:
    """Write scenarios to look at."""
    ask = options(__doc__, count=1)
    ask.add_argument("folder", type=Path)
    given = ask.parse_args()
    each(partial(kept, given=given), given, HEAD)


if __name__ == "__main__":
    main()
