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
MOST = {"a new URI": 1.15, "a known URI": 1.3, "a lease, 1 client": 1.15, "a lease, 4 clients": 1.15}
"""How many times the CPU of one frontier an item may cost with two shards and a front. A known URI costs so
little that what the front does for it shows."""


def shards(folder: Path) -> Iterator[Figure]:
    """The figures of one frontier, and those of several shards with a front."""
    alone: dict[str, float] = {}
    for what, figure in figures(folder / "one", SIZE):
        alone[what] = figure.scaled_us(SERVER)
        yield figure
    for number in SHARDS:
        for what, figure in figures(folder / str(number), SIZE, "--shards", str(number)):
            named = replace(figure, name=f"{figure.name}; {number} shards")
            if number != SHARDS[0]:
                yield named
                continue
            words = f"times the CPU of one frontier for {what}, with {number} shards and a front"
            yield replace(named, limit=Limit(words, figure.scaled_us(SERVER) / alone[what], MOST[what]))
