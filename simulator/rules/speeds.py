"""Speeds: what batches of many replicas take and draw, in one world after another of those that may be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from simulator.world.curves import Curve, Interpolated, by_size
from simulator.world.deployment import Replica
from simulator.world.doubt import DrawnTogether
from simulator.world.hardware import GPU
from simulator.world.power import SHORTEST_S, watts_at
from simulator.world.profile import Profile
from simulator.world.workload import Floats

NONE = Interpolated((1.0,), (0.0,))
"""The error of what was measured."""


@dataclass(frozen=True, slots=True)
class Costs:
    """By world, replica and batch size; the first column, of no size, is empty."""

    service_s: Floats
    watts: Floats


class Speeds:
    """Costs of replicas on one GPU each, for all at once: the same to the last bit as of deployments that
    `simulator.world.doubt.drawn` gives."""

    def __init__(self, replicas: Sequence[Replica], gpus: Mapping[str, GPU]) -> None:
        profiles = [replica.profile for replica in replicas]
        self.here = [gpus[replica.devices[0]] for replica in replicas]
        self.caps = np.array([replica.batching.max_batch_size for replica in replicas], dtype=np.int64)
        self.padded = np.flatnonzero([replica.batching.padded for replica in replicas])
        self.row = np.repeat(np.arange(len(replicas)), self.caps)
        self.size = np.concatenate([np.arange(1, cap + 1) for cap in self.caps])
        latencies = [profile.latency for profile in profiles]
        errors = [one.doubt.error_sd if one.doubt else NONE for one in profiles]
        caps = self.caps.tolist()
        self.run_s = _flat(map(by_size, latencies, caps))
        pairs = zip(profiles, self.here, strict=True)
        doubts = [(one.doubt, one.model, gpu.name) if one.doubt else None for one, gpu in pairs]
        self.doubts = list(dict.fromkeys(doubts))
        doubt = np.array([self.doubts.index(one) for one in doubts])
        self.errs = _Factors(doubt[self.row], _flat(map(by_size, errors, caps)))
        self._note_points(profiles, errors, doubt)
        spreads = [(one.profile.session_cv, one.devices[0]) for one in replicas]
        sessions = [(spread, device) if spread else None for spread, device in spreads]
        self.sessions = list(dict.fromkeys(sessions))
        self.session = np.array([self.sessions.index(one) for one in sessions])
        self._note_power(profiles)

    def _note_points(self, profiles: Sequence[Profile], errors: Sequence[Curve], doubt: NDArray[np.int64]) -> None:
        """The points that curves were measured at: the best pace is that of one of them."""
        points = [profile.latency.x for profile in profiles]
        self.point_size = _flat(points)
        self.point_begin = np.cumsum([0, *map(len, points[:-1])])
        self.point_row = np.repeat(np.arange(len(points)), list(map(len, points)))
        self.point_s = _flat(map(_at_its_points, profiles))
        sds = (tuple(map(error, sizes)) for error, sizes in zip(errors, points, strict=True))
        self.point_errs = _Factors(doubt[self.point_row], _flat(sds))

    def _note_power(self, profiles: Sequence[Profile]) -> None:
        """What GPUs draw: idle, at their limit, and with a model where that was measured."""
        self.idle_w = np.array([gpu.idle_w for gpu in self.here])
        self.limit_w = np.array([gpu.tdp_w for gpu in self.here])
        self.known_w = {row: p.busy_w for row, p in enumerate(profiles) if p.busy_w is not None}

    def costs(self, seeds: Sequence[int | None]) -> Costs:
        """In the worlds of these seeds; None: as they are known."""
        run_s, point_s = np.tile(self.run_s, (len(seeds), 1)), np.tile(self.point_s, (len(seeds), 1))
        drawn = [world for world, seed in enumerate(seeds) if seed is not None]
        if drawn:
            errors, sessions = self.drawn([seed for seed in seeds if seed is not None])
            session = sessions[:, self.session]
            run_s[drawn] = run_s[drawn] * self.errs.of(errors) * session[:, self.row]
            point_s[drawn] = point_s[drawn] * self.point_errs.of(errors) * session[:, self.point_row]
        service_s = np.zeros((len(seeds), len(self.caps), int(self.caps.max()) + 1))
        watts = np.zeros(service_s.shape)
        service_s[:, self.row, self.size] = run_s
        best = np.maximum.reduceat(self.point_size / np.maximum(point_s, SHORTEST_S), self.point_begin, axis=1)
        watts[:, self.row, self.size] = watts_at(
            self.idle_w[self.row], self.limit_w[self.row], best[:, self.row], self.size, run_s
        )
        for row, known_w in self.known_w.items():
            watts[:, row, 1:] = known_w
        for row in self.padded.tolist():
            service_s[:, row, 1 : self.caps[row]] = service_s[:, row, self.caps[row], None]
        return Costs(service_s, watts)

    def least_s(self, seeds: Sequence[int]) -> Floats:
        """By world and replica: the least time that a request takes, in the batch that takes it furthest."""
        errors, sessions = self.drawn(seeds)
        each_s = self.run_s / self.size
        each_s[np.isin(self.row, self.padded) & (self.size < self.caps[self.row])] = np.inf
        in_batches_s = each_s * np.exp(errors[:, self.errs.doubt] * self.errs.sd)[:, self.errs.place]
        begin = np.cumsum([0, *self.caps[:-1]])
        return np.minimum.reduceat(in_batches_s, begin, axis=1) * sessions[:, self.session]

    def drawn(self, seeds: Sequence[int]) -> tuple[Floats, Floats]:
        """By world: deviations by which each prediction of `doubts` errs, and the factor of each of `sessions`."""
        draws = DrawnTogether(seeds)
        errors = [draws.error(*pair) if pair else np.zeros(len(seeds)) for pair in self.doubts]
        sessions = [_exp(draws.session(*one)) if one else np.ones(len(seeds)) for one in self.sessions]
        return np.array(errors).T, np.array(sessions).T


class _Factors:
    """By how much predictions err where they have some standard deviation: replicas of one model err alike on GPUs of
    one kind, so each different factor is worked out once."""

    def __init__(self, doubt: NDArray[np.int64], sd: Floats) -> None:
        different, place = np.unique(np.stack([doubt, sd]), axis=1, return_inverse=True)
        self.place = place.ravel()  # NumPy 2.0.0 gives it a second axis
        self.doubt, self.sd = different[0].astype(np.int64), different[1]

    def of(self, errors: Floats) -> Floats:
        """By world, one for each that was named, by the error of each doubt."""
        return _exp(errors[:, self.doubt] * self.sd)[:, self.place]


def _at_its_points(profile: Profile) -> Sequence[float]:
    """Run times at the points of its curve: as fitted where they are drawn, as measured where they are not."""
    latency = profile.latency
    return tuple(map(latency, latency.x)) if profile.doubt or profile.session_cv else latency.y


def _exp(values: Floats) -> Floats:
    """One by one: NumPy's own differs in the last bit."""
    return np.array([exp(value) for value in values.ravel().tolist()]).reshape(values.shape)


def _flat(rows: Iterable[Sequence[float]]) -> Floats:
    return np.array([value for row in rows for value in row], dtype=float)
