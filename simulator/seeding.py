"""Seeding: the first random numbers of very many generators at once, the same as NumPy gives one by one.

`numpy.random.default_rng(SeedSequence(seed, spawn_key=(key,))).random(count)` takes 20 microseconds a key, most of it
to make objects: a second for fifty thousand cameras, in each draw of their phases; and half of a short replay. The
steps are those of `SeedSequence` (O'Neill's seed_seq_fe) and of PCG64 with the output XSL-RR (2014), on columns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Words = NDArray[np.uint32]
Longs = NDArray[np.uint64]
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_LEFT, MIX_RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
POOL = 4
MULT_HIGH, MULT_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


class Wide(NamedTuple):
    """Whole numbers of 128 bits."""

    high: Longs
    low: Longs

    def plus(self, other: "Wide") -> "Wide":
        """Their sum, without what is above 128 bits."""
        low = self.low + other.low
        return Wide(self.high + other.high + (low < self.low), low)

    def stepped(self, increment: "Wide") -> "Wide":
        """The next state of a generator."""
        high = _high_of_product(self.low, MULT_LOW) + self.high * MULT_LOW + self.low * MULT_HIGH
        return Wide(high, self.low * MULT_LOW).plus(increment)


class Generators(NamedTuple):
    """PCG64 of many seeds, before they draw anything."""

    state: Wide
    increment: Wide

    def begin(self, rng: np.random.Generator, place: int) -> np.random.Generator:
        """Let a generator be one of them: to make another takes ten times as long."""
        state, increment = (int(wide.high[place]) << 64 | int(wide.low[place]) for wide in self)
        inner = {"state": state, "inc": increment}
        rng.bit_generator.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}
        return rng


def entropy_of(*numbers: int) -> list[int]:
    """The words that `SeedSequence` makes of such entropy, where a spawn key follows them."""
    lengths = [max(1, -(-number.bit_length() // 32)) for number in numbers]
    words = [
        number >> 32 * place & 0xFFFFFFFF
        for number, length in zip(numbers, lengths, strict=True)
        for place in range(length)
    ]
    return words + [0] * (POOL - len(words))


def spawned(words: Words) -> Generators:
    """Generators of `SeedSequence`s, one a row: words of the entropy, and of the spawn key."""
    high, low, high_of_sequence, low_of_sequence = _states(np.ascontiguousarray(words.T))
    one = np.uint64(1)
    increment = Wide(high_of_sequence << one | low_of_sequence >> np.uint64(63), low_of_sequence << one | one)
    return Generators(increment.plus(Wide(high, low)).stepped(increment), increment)


def first_numbers(seeds: Sequence[int], keys: Sequence[int], counts: Sequence[int]) -> Floats:
    """Uniform numbers from 0 to 1, a row for each seed: so many of each key's generator, one key after another."""
    entropy = np.array([entropy_of(seed) for seed in seeds], dtype=np.uint32)
    by_key = np.tile(np.array(keys, dtype=np.uint32), len(seeds))
    state, increment = spawned(np.column_stack([np.repeat(entropy, len(keys), axis=0), by_key]))
    drawn = np.empty((len(by_key), max(counts)))
    for place in range(max(counts)):
        state = state.stepped(increment)
        mixed, turn = state.high ^ state.low, state.high >> np.uint64(58)
        turned = mixed >> turn | mixed << (np.uint64(64) - turn & np.uint64(63))
        drawn[:, place] = (turned >> np.uint64(11)) * 2.0**-53
    wanted = np.arange(max(counts)) < np.array(counts)[:, None]
    return drawn.reshape(len(seeds), *wanted.shape)[:, wanted]


def _high_of_product(left: Longs, right: np.uint64) -> Longs:
    """The upper 64 bits of products of numbers of 64 bits, from those of their halves."""
    a, b, c, d = left >> HALF, left & LOW_HALF, right >> HALF, right & LOW_HALF
    middle = a * d + (b * d >> HALF)
    lower = b * c + (middle & LOW_HALF)
    high: Longs = a * c + (middle >> HALF) + (lower >> HALF)
    return high


def _states(entropy: Words) -> list[Longs]:
    """Four numbers of 64 bits by column of words: what `SeedSequence.generate_state` makes of it."""
    constant = INIT_A

    def hashed(value: Words) -> Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * MULT_A & 0xFFFFFFFF
        value = value * np.uint32(constant)
        return np.asarray(value ^ value >> SHIFT)

    def mixed(left: Words, right: Words) -> Words:
        result = MIX_LEFT * left - MIX_RIGHT * right
        return np.asarray(result ^ result >> SHIFT)

    pool = list(map(hashed, entropy[:POOL]))
    for source in range(POOL):
        for place in range(POOL):
            if place != source:
                pool[place] = mixed(pool[place], hashed(pool[source]))
    for word in entropy[POOL:]:
        pool = [mixed(one, hashed(word)) for one in pool]
    return _numbers_of(pool)


def _numbers_of(pool: Sequence[Words]) -> list[Longs]:
    found, constant = [], INIT_B
    for place in range(2 * POOL):
        value = pool[place % POOL] ^ np.uint32(constant)
        constant = constant * MULT_B & 0xFFFFFFFF
        value = value * np.uint32(constant)
        found.append((value ^ value >> SHIFT).astype(np.uint64))
    return [low | high << HALF for low, high in zip(found[::2], found[1::2], strict=True)]
