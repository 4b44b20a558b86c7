"""Closed forms of training time: operations, steps, links, pipelines, loaders, epochs, interruptions.

The tests run the same job as processes: that agrees where a formula here has an answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median

import numpy as np

from planner.model.ranges import Range, ranged
from simulator.grouping import grouped

SECONDS_PER_YEAR = 365.25 * 86_400
SECONDS_PER_DAY = 86_400
BACKWARD_SHARE = 2 / 3
"""Share of the backward pass in a step's operations: it has one product for weights and one for inputs."""
FORWARD_SHARE = 1 / 3
"""Share of the forward pass: it has one product."""
FLOPS_PER_PARAM_TOKEN = 6.0
"""Operations for each parameter and token: 2 forward, 4 backward."""
STEP_OVER_INFERENCE = ranged(3.0, 3.5, 4.9)
"""A training step over an inference batch of the same size: tenth, half, nine tenths of timm's networks, RTX 3090."""
DEPTHWISE_STEP_OVER_INFERENCE = 4.6
"""The middle for networks of depthwise convolutions, which bandwidth limits both ways."""
END_TO_END = ranged(0.135, 0.29, 0.52)
"""Share of peak operations that long runs of language models reach, restarts included: published are 14 to 51 %."""
RUN_OVER_STEPS = ranged(1.0, 1.15, 1.55)
"""A run over its steps alone: evaluation, start and stalls add 8 to 55 % in NVIDIA's DeepLearningExamples; none is
the best that MLPerf's runs come near to."""
ALIKE = 5e-7
"""Angle between batches and ones, in radians, below which they are one batch, or nearly: no slope can be seen."""
SIGMAS_80 = 1.2816
"""Half the width, in standard deviations, that contains 80 % of a normal distribution."""
HOPELESS = 30
"""Times between failures, from which a run that needs so many in a row without one never ends: once in e^30 tries."""


# Operations


def training_flops(params: float, tokens: float, per_param_token: float = 6.0) -> float:
    """Operations of a training run: 6 x parameters x tokens. 175e9 x 300e9 tokens: 3.15e23. Kaplan et al. (2020).

    Of a mixture of experts the active parameters count: DeepSeek-V3's 671B with 37B active is an 18x error otherwise.
    """
    return per_param_token * params * tokens


def step_from_inference(latency_s: float, depthwise: bool) -> Range:
    """A training step from an inference batch of the same size: 10 ms becomes 35 ms, 30 to 49."""
    over = STEP_OVER_INFERENCE
    if depthwise:
        over = replace(over, mid=DEPTHWISE_STEP_OVER_INFERENCE)
    return over * latency_s


# A step on several GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLink:
    """The connection of two neighbours of a ring."""

    bytes_per_s: float
    latency_s: float

    def ring_s(self, size_bytes: float, members: int) -> float:
        """All-reduce: 2 (n-1)/n x bytes / bandwidth + 2 (n-1) x latency. Thakur et al. (2005); Patarasuk, Yuan (2009).

        100 MB over 8 members at 100 GB/s and 5 us: 1.75 ms + 0.07 ms.
        """
        if members < 2:
            return 0.0
        return 2 * (members - 1) * (size_bytes / members / self.bytes_per_s + self.latency_s)


def all_reduce_s(size_bytes: float, in_machine: int, machines: int, inside: NetworkLink, between: NetworkLink) -> float:
    """A ring in each machine, then rings between machines, one for each GPU of a machine with its share of the bytes.

    `between.bytes_per_s` is a machine's; its GPUs share it, so that what passes between machines passes it once.
    """
    return inside.ring_s(size_bytes, in_machine) + between.ring_s(size_bytes, machines)


def exposed_s(communication_s: float, compute_step_s: float, overlap: bool) -> float:
    """Communication that the backward pass does not hide: gradients travel while earlier layers are still at work.

    30 ms beside a step of 30 ms: 10 ms, for two thirds of the step are its backward pass.
    """
    if not overlap:
        return communication_s
    return max(0.0, communication_s - BACKWARD_SHARE * compute_step_s)


def pipeline_s(micro_batch_s: float, stages: int, micro_batches: int, hand_over_s: float = 0.0) -> float:
    """GPipe: (m + p - 1) x t/p, with t the whole model's time for a micro-batch. Huang et al. (2019).

    4 stages, 8 micro-batches of 40 ms: 11 x 10 ms = 110 ms, where 80 would do without the bubble. Each link between two
    stages is at work like a stage: the first micro-batch passes p stages and p - 1 links, and the others follow in the
    time of the slower of the two, forward and then backward. With 1 ms to hand over: 116 ms.
    """
    forward_s = (1 - BACKWARD_SHARE) * micro_batch_s / stages
    backward_s = BACKWARD_SHARE * micro_batch_s / stages
    first_s = stages * (forward_s + backward_s) + 2 * (stages - 1) * hand_over_s
    if stages > 1:
        forward_s, backward_s = max(forward_s, hand_over_s), max(backward_s, hand_over_s)
    return first_s + (micro_batches - 1) * (forward_s + backward_s)


def bubble(stages: int, micro_batches: int) -> float:
    """Share of the time that stages wait: (p-1)/(m+p-1). 4 stages, 8 micro-batches: 3/11."""
    return (stages - 1) / (micro_batches + stages - 1)


def loader_s(samples: float, workers: int, rate_per_worker: float) -> float:
    """Time to load so many samples: samples / (workers x rate). 512 of 2 x 400/s: 0.64 s."""
    return samples / (workers * rate_per_worker)


def workers_enough(samples: float, rate_per_worker: float, step_s: float) -> int:
    """Fewest loader workers that keep up with a step. 512 samples in 0.25 s of 400/s each: 6."""
    workers = samples / (rate_per_worker * step_s)
    return max(1, math.ceil(workers - 1e-9))  # rounding adds no worker


def rescaled_step_s(step_s: float, batch: float, other: float, overhead_s: float) -> Range:
    """A measured step at another batch size: a fixed part, and one that grows with the batch.

    `overhead_s` is the time to issue the operators. At best it is hidden, and time follows the batch; at worst it is
    twice that. 57 ms at 400 samples with 5 ms of overhead: at 50 samples 11.5 ms, between 7.1 and 15.9 ms.
    """

    def at(fixed_s: float) -> float:
        fixed_s = min(fixed_s, step_s)
        return fixed_s + (step_s - fixed_s) * other / batch

    low, _, high = sorted((at(0.0), at(overhead_s), at(2 * overhead_s)))
    return ranged(low, at(overhead_s), high)


# Epochs


@dataclass(frozen=True, slots=True)
class EpochLaw:
    """Epochs to a target by global batch: E = least x (1 + B / critical). McCandlish et al. (2018), equation 2.11."""

    least: float
    """Epochs of very small batches."""
    critical: float
    """Batch at which twice the least epochs are needed; infinite where the batch does not matter."""
    spread: float = 0.0
    """Standard deviation of seeds over their mean."""

    def __call__(self, batch: float) -> float:
        """Mean number of epochs."""
        return self.least * (1 + batch / self.critical)

    def range(self, batch: float) -> Range:
        """Epochs with 80 % of seeds between the ends."""
        epochs = self(batch)
        away = 1 + SIGMAS_80 * self.spread
        return ranged(epochs / away, epochs, epochs * away)


def epoch_law(points: Sequence[tuple[float, float]]) -> EpochLaw:
    """The law through (global batch, epochs), by least squares of shares; points of one batch show the spread of seeds.

    35 epochs at 3,200 and 77 at 57,344 (MLPerf Training v4.0): least 32.5, critical 41,920.
    """
    by_batch = grouped(points)
    means = {batch: sum(epochs) / len(epochs) for batch, epochs in by_batch.items()}
    spread = _spread_of_seeds(by_batch, means)
    least, slope = _line_of_shares(means)
    if slope <= 0:  # nothing is learnt in fewer passes because batches are larger
        return EpochLaw(median(means.values()), math.inf, spread)
    if least <= 0:
        return EpochLaw(min(means.values()), math.inf, spread)
    return EpochLaw(least, least / slope, spread)


def _spread_of_seeds(by_batch: Mapping[float, Sequence[float]], means: Mapping[float, float]) -> float:
    """Pooled standard deviation of epochs over the mean of their batch; 0 where each batch has one run."""
    several = {batch: found for batch, found in by_batch.items() if len(found) > 1}
    errors = [epochs / means[batch] - 1 for batch, found in several.items() for epochs in found]
    freedom = len(errors) - len(several)
    return math.sqrt(sum(error * error for error in errors) / freedom) if freedom > 0 else 0.0


def _line_of_shares(means: Mapping[float, float]) -> tuple[float, float]:
    """Least and slope of epochs = least + slope x batch, each point weighed by its own epochs.

    Divided by its epochs e, each equation is 1 = least x (1 / e) + slope x (b / e): linear in both.
    """
    epochs = np.array(list(means.values()))
    columns = np.column_stack([np.ones(len(epochs)), list(means)]) / epochs[:, None]
    sizes = np.linalg.norm(columns, axis=0)
    found, _, rank, _ = np.linalg.lstsq(columns / sizes, np.ones(len(epochs)), rcond=ALIKE)
    if rank < 2:
        return 0.0, 0.0
    least, slope = (found / sizes).tolist()
    return least, slope


# Interruptions


def checkpoint_interval_s(write_s: float, mean_time_between_s: float) -> float:
    """Best time between checkpoints, Daly (2006): sqrt(2 d M) (1 + sqrt(d/2M)/3 + d/18M) - d; Young (1974) is its root.

    A write of 60 s, a failure every 24 h: 3,220 s by Young, 3,180 s by Daly.
    """
    if write_s >= 2 * mean_time_between_s:
        return mean_time_between_s
    young_s = math.sqrt(2 * write_s * mean_time_between_s)
    root = math.sqrt(write_s / (2 * mean_time_between_s))
    return young_s * (1 + root / 3 + write_s / (18 * mean_time_between_s)) - write_s


def stretches(work_s: float, mean_time_between_s: float, write_s: float) -> int:
    """Parts of a run between which checkpoints are written, as many as cost least; 1 if none is worth a write.

    Nothing is written at the end. So the last part may last a write longer, and Daly's law is that of so much less
    work: 20 h with a failure every 5 h and writes of 1 min have 51 parts, 3 min have 1.
    """
    divided_s = work_s - write_s
    if divided_s <= 0 or math.isinf(mean_time_between_s) or math.isinf(work_s):
        return 1
    best_s = max(checkpoint_interval_s(write_s, mean_time_between_s), 1e-3)  # a write of 0 s would make it 0
    fewer = max(1, math.floor(divided_s / best_s))

    def attempts(count: int) -> float:
        """What all parts cost, but for a factor that does not depend on their number."""
        exponent = min(attempt_s(work_s, write_s, count) / mean_time_between_s, HOPELESS)
        return count * math.expm1(exponent)

    return min((fewer, fewer + 1), key=attempts)


def attempt_s(work_s: float, write_s: float, parts: int) -> float:
    """Each part of a run with its write, all equally long, for the last has none."""
    return (work_s + (parts - 1) * write_s) / parts


def with_interruptions_s(work_s: float, mean_time_between_s: float, write_s: float, restart_s: float) -> float:
    """Mean time of `work_s` of steps when failures come at random: Daly (2006), M e^(R/M) (e^((t+d)/M) - 1) a part.

    20 h of work, a failure every 5 h, writes of 1 min, restarts of 5 min: 22.1 h. Infinite where writing and restarting
    take so many times the time between failures that no checkpoint is ever reached.
    """
    if math.isinf(mean_time_between_s) or math.isinf(work_s) or not work_s:
        return work_s
    parts = stretches(work_s, mean_time_between_s, write_s)
    attempt = attempt_s(work_s, write_s, parts) / mean_time_between_s
    restart = restart_s / mean_time_between_s
    if restart + attempt > HOPELESS:
        return math.inf
    return mean_time_between_s * math.exp(restart) * (parts * math.expm1(attempt))


def interruptions_spread_s(work_s: float, mean_time_between_s: float, write_s: float, restart_s: float) -> float:
    """Standard deviation of the time whose mean is `with_interruptions_s`: interruptions come at random.

    Of a part that takes `a` mean times between failures, and `b` with its restart, the mean square is
    2 e^b ((1 - e^-a) (e^b - b) - a e^-a), in squares of that time; parts are independent. 20 h of work, a failure every
    5 h, writes of 1 min, restarts of 5 min: 22.1 h, give or take 0.7 h.
    """
    if math.isinf(mean_time_between_s) or math.isinf(work_s) or not work_s:
        return 0.0
    parts = stretches(work_s, mean_time_between_s, write_s)
    attempt = attempt_s(work_s, write_s, parts) / mean_time_between_s
    restart = restart_s / mean_time_between_s
    again = attempt + restart
    if again > HOPELESS:
        return 0.0
    mean = math.exp(restart) * math.expm1(attempt)
    failed, done = -math.expm1(-attempt), math.exp(-attempt)
    square = 2 * math.exp(again) * (failed * (math.exp(again) - again) - attempt * done)
    return mean_time_between_s * math.sqrt(parts * max(0.0, square - mean * mean))


def ended_within_s(share: float, work_s: float, mean_time_between_s: float, write_s: float, restart_s: float) -> float:
    """Time within which a share of runs end whose mean is `with_interruptions_s`.

    Runs without an interruption take work and writes alone, times of the others are normal. 4 h of work, a failure
    every 12 h, writes of 1 min, restarts of 5 min: 4.1 h are enough for 71 %, 4.7 h for 90 %.
    """
    given = work_s, mean_time_between_s, write_s, restart_s
    mean_s, spread_s = with_interruptions_s(*given), interruptions_spread_s(*given)
    if not spread_s:
        return mean_s
    parts = stretches(work_s, mean_time_between_s, write_s)
    least_s = parts * attempt_s(work_s, write_s, parts)
    none = math.exp(-least_s / mean_time_between_s)
    if share <= none:
        return least_s
    some, over_s = 1 - none, mean_s - least_s
    spread_of_some_s = math.sqrt(max(0.0, (spread_s**2 + over_s**2) / some - (over_s / some) ** 2))
    return least_s + max(0.0, over_s / some + NormalDist().inv_cdf((share - none) / some) * spread_of_some_s)
