"""Queueing formulas: the yardstick by which the tests judge the simulator.

Rates are per second, times in seconds, loads in erlangs (rate x mean service time).
"""

from cmath import exp as complex_exp
from collections.abc import Callable
from functools import partial
from math import exp, inf, pi

import numpy as np
from scipy import stats

ROOT_STEPS = 100_000
"""Most iterations of a root search; each brings the error down by about the utilization."""


def erlang_b(servers: int, load: float) -> float:
    """Share of requests lost by M/M/c/c. 10 servers, 4.461 erlangs: 0.0100. Erlang (1917), by recursion."""
    inverse = 1.0
    for n in range(1, servers + 1):
        inverse = 1.0 + inverse * n / load
    return 1.0 / inverse


def erlang_c(servers: int, load: float) -> float:
    """Share of requests that wait in M/M/c. 3 servers, 2 erlangs: 4/9. Erlang (1917)."""
    if load >= servers:
        return 1.0
    lost = erlang_b(servers, load)
    return lost / (1 - load / servers * (1 - lost))


def mmc_wait_s(servers: int, rate_rps: float, service_s: float) -> float:
    """Mean wait in M/M/c: C s / (c - load). 6 arrivals an hour, 3 servers, 1/3 hour each: 4/27 hour.

    Gross, Shortle, Thompson and Harris, Fundamentals of Queueing Theory (2008), sec. 2.3.
    """
    load = rate_rps * service_s
    return erlang_c(servers, load) * service_s / (servers - load) if load < servers else inf


def mmc_late(servers: int, rate_rps: float, service_s: float, wait_s: float) -> float:
    """Share that waits longer than `wait_s` in M/M/c: C exp(-(c - load) wait / s). M/M/1, load 0.5, s 1: 0.303."""
    load = rate_rps * service_s
    return erlang_c(servers, load) * exp(-max(0.0, servers - load) * wait_s / service_s)


def mdc_wait_s(servers: int, rate_rps: float, service_s: float) -> float:
    """Mean wait in M/D/c. One server, load 0.8, s 1: 2, as of M/D/1.

    After one service time all that were served are gone and a Poisson number has come, whenever one looks (Crommelin,
    1932). So the number there is the fixed point of that step, and the wait that of those without a server (Little).
    """
    load, most = rate_rps * service_s, 400
    came = stats.poisson.pmf(np.arange(most), load)
    step = np.zeros((most, most))
    for there in range(most):
        left = max(0, there - servers)
        step[there, left:] = came[: most - left]
    step /= step.sum(axis=1, keepdims=True)
    number = np.linalg.matrix_power(step, 1 << 14)[0]
    return float(number @ np.maximum(0, np.arange(most) - servers)) / rate_rps


def mg1_wait_s(rate_rps: float, service_s: float, cv: float) -> float:
    """Mean wait in M/G/1: load s (1 + cv^2) / (2 (1 - load)). Load 0.8, s 1: 2 at cv 0 (M/D/1), 4 at cv 1 (M/M/1).

    Pollaczek (1930), Khinchine (1932).
    """
    load = rate_rps * service_s
    return load * service_s * (1 + cv * cv) / (2 * (1 - load)) if load < 1 else inf


def markov_bulk_wait_s(rate_rps: float, service_s: float, most: int) -> float:
    """Mean wait in M/M[1,b]/1: batches of up to b, exponential time whatever their size, none joins half-way.

    While busy, n wait with a probability in proportion to r^n, where (load + 1) r = load + r^(b + 1), r in (0, 1).
    b 1 is M/M/1. Load 1, s 1, b 2: r = 0.618 and the wait is 1.171 s. Medhi, Stochastic Models in Queueing Theory
    (2003), sec. 4.2.
    """
    load = rate_rps * service_s
    if load >= most:
        return inf
    r = _fixed_point(lambda z: (load + z ** (most + 1)) / (load + 1)).real
    return load * r / ((load + 1 - r) * (1 - r)) / rate_rps


def fixed_bulk_wait_s(rate_rps: float, service_s: float, most: int) -> float:
    """Mean wait in M/D[1,b]/1: batches of up to b, one fixed time whatever their size.

    b 1 is M/D/1. Load 1, s 1, b 2: 0.511 s. The number left when a batch ends has mean
    sum 1/(1 - z) + (b - (b - load)^2) / (2 (b - load)) over the roots of z^b = exp(load (z - 1)) inside the unit
    circle: Bailey, J. R. Stat. Soc. B 16 (1954). A cycle is a service and, if nobody is left, the wait for an arrival;
    during the service those beyond its batch wait, and half of those that come.
    """
    load = rate_rps * service_s
    if load >= most:
        return inf
    unit_roots = [complex_exp(2j * pi * k / most) for k in range(1, most)]
    roots = [_fixed_point(partial(_bailey, unit, load / most)) for unit in unit_roots]
    left = sum(1 / (1 - z) for z in roots).real + (most - (most - load) ** 2) / (2 * (most - load))
    none_left: complex = most - load
    for z in roots:
        none_left *= -z / (1 - z)
    cycle_s = service_s + none_left.real / rate_rps
    return service_s * (left - load / 2) / cycle_s / rate_rps


def bulk_arrivals_wait_s(rate_rps: float, mean: float, second_moment: float, service_s: float) -> float:
    """Mean wait in M[X]/M/1: bursts of X, `rate_rps` of them a second; the mean of X and that of its square.

    The mean number there is load / (1 - load) x (E[X^2] + E[X]) / (2 E[X]). Bursts of 3 once a second, 0.2 s each: 3
    there, so 1 s each, of which 0.8 s is the wait. Gross, Shortle, Thompson and Harris (2008), sec. 3.1.
    """
    load = rate_rps * mean * service_s
    number = load / (1 - load) * (second_moment + mean) / (2 * mean) if load < 1 else inf
    return number / (rate_rps * mean) - service_s


def fork_join_s(rate_rps: float, service_s: float) -> float:
    """Mean time until both halves of a request are done at two M/M/1 queues: (12 - load) / 8 of that at one.

    Once a second, 0.5 s each: 1.4375 s, where one alone takes 1 s. Flatto and Hahn (1984); Nelson and Tantawi (1988).
    """
    load = rate_rps * service_s
    return (12 - load) / 8 * service_s / (1 - load) if load < 1 else inf


def _bailey(unit: complex, utilization: float, z: complex) -> complex:
    return unit * complex_exp(utilization * (z - 1))


def _fixed_point(step: Callable[[complex], complex]) -> complex:
    z = 0j
    for _ in range(ROOT_STEPS):
        z, before = step(z), z
        if abs(z - before) < 1e-14:
            break
    return z
