"""What an item costs a frontier of several shards, front included, beside a frontier of one, in one run.

On a machine of two cores the load takes one of them: the CPU of all processes tells more than items a second.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.growth import Size, figures
from benchmarks.measuring import SERVER, Figure, Limit

SIZE = Size(500_000, 25_000)
SHARDS = (2, 4)
MOST = 1.15
"""How many times the CPU of one frontier a new URI and a pair may cost with two shards and a front."""

LIMITED = ("a new URI", "a lease, 1 client", "a lease, 4 clients")


def shards(folder: Path) -> Iterator[Figure]:
    """The figures of one frontier, and those of several shards with a front."""
    alone: dict[str, float] = {}
    for what, figure in figures(folder / "one", SIZE):
        alone[what] = figure.scaled_us(SERVER)
        yield figure
    for number in SHARDS:
        for what, figure in figures(folder / str(number), SIZE, "--shards", str(number)):
            named = replace(figure, name=f"{figure.name}; {number} shards")
            if number != SHARDS[0] or what not in LIMITED:
                yield named
                continue
            words = f"times the CPU of one frontier for {what}, with {number} shards and a front"
            yield replace(named, limit=Limit(words, figure.scaled_us(SERVER) / alone[what], MOST))
