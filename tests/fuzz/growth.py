"""How the time of a parser grows with its input: by doubling what an input is made of, again and again."""

import time
from collections.abc import Callable
from random import Random

from .mutating import Stock, part
from .target import Target

STEP = 4
STEPS = (64, 16, 4, 1)  # parts of the longest input
RATIO = 9.0
"""Of the times of two sizes, one four times the other: 4 where time is in proportion to the size, 16 where it
is to its square."""
HALF_RATIO = 2.5
"""Of the times of two sizes, one twice the other, likewise: 2 or 4. A step, as where an input does not fit
into the processor's caches any more, lies between two sizes and not between the next two as well."""
TELLING_S = 0.08
"""Of the larger one; shorter times tell more of the machine."""
ENOUGH_S = 0.6
TRIES = 9
MAX_S = 20.0
"""Of the largest size: whatever it grows with, this is a hang."""


def superlinear(target: Target, chance: Random, stock: Stock, note: Callable[[bytes], None]) -> str:
    """Pump a part of an input up; what is wrong with the times that it takes, or nothing."""
    shape = _shape(chance, stock)
    last_s = 0.0
    for size in (target.most_bytes // step for step in STEPS):
        data = _pumped(shape, size)
        note(data)
        took_s = _took_s(target, data)
        if took_s > MAX_S:
            return f"takes {took_s:.1f} s for {size} bytes of {shape!r}"
        if took_s > TELLING_S and last_s and took_s > RATIO * last_s:
            sizes = [data, _pumped(shape, size // 2), _pumped(shape, size // STEP)]
            # By turns: a machine that is slow for a while is so for all.
            rounds = [[_took_s(target, each) for each in sizes] for _ in range(TRIES)]
            largest_s, half_s, least_s = (min(times) for times in zip(*rounds, strict=True))
            is_steady = largest_s > HALF_RATIO * half_s and half_s > HALF_RATIO * least_s
            if is_steady and largest_s > TELLING_S and largest_s > RATIO * least_s:
                return (
                    f"takes {least_s * 1000:.0f} ms for {len(sizes[-1])} bytes and "
                    f"{largest_s * 1000:.0f} ms for {len(data)}, of {shape!r}"
                )
        if took_s > ENOUGH_S:
            break
        last_s = took_s
    return ""


def _shape(chance: Random, stock: Stock) -> tuple[bytes, bytes, bytes, bytes]:
    """What comes first, what is repeated, what follows and is repeated as often, and what comes last."""

    def piece(most: int) -> bytes:
        if chance.random() < 0.4:
            return chance.choice(stock.words)[:most]
        data = stock.some(chance)
        start, end = part(chance, data, most)
        return data[start:end]

    whole = stock.some(chance)
    start, end = part(chance, whole, 24)
    pumps = (piece(24), piece(24) if chance.random() < 0.5 else b"")
    if chance.random() < 0.5:
        return whole[:start], whole[start:end] + pumps[0], b"", whole[end:]
    return piece(300), *pumps, piece(300)


def _pumped(shape: tuple[bytes, bytes, bytes, bytes], size: int) -> bytes:
    before, first, second, after = shape
    # The same remainders: whether quotes are closed in the end must not depend on the size.
    count = size // max(1, len(first) + len(second)) // 12 * 12 + 1
    return before + first * count + second * count + after


def _took_s(target: Target, data: bytes) -> float:
    """Time of the processor: others who use the machine do not count."""
    began_s = time.thread_time()
    try:
        target.said(data)
    except Exception:
        return 0.0  # `campaign` tells of errors
    return time.thread_time() - began_s
