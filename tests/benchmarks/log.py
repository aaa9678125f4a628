"""What the log under a shard costs, on the real core, beside a frontier without one, in one run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.growth import Size, figures
from benchmarks.measuring import SERVER, Figure, Limit, waits_ms

SIZE = Size(300_000, 15_000)
TURNS = 3
PROGRAM = Path(__file__).with_name("logged_frontier.py")
MOST_US = {"a new URI": 9.0, "a lease, 1 client": 20.0, "a lease, 4 clients": 20.0}
"""How many microseconds of CPU more an item may cost with a log; a lease is a pair of Next and Finished."""


def log(folder: Path) -> Iterator[Figure]:
    """The figures of a frontier without a log, and those of one whose log is in a directory, in turns: of
    each the cheapest counts."""
    alone: dict[str, Figure] = {}
    logged: dict[str, Figure] = {}
    took_s: list[float] = []
    for turn in range(TURNS):
        for what, figure in figures(folder / f"alone-{turn}", SIZE):
            alone[what] = _cheaper(figure, alone.get(what))
        appends = folder / f"appends-{turn}.json"
        program = str(PROGRAM), f"file://{folder}/bucket-{turn}", str(appends)
        for what, figure in figures(folder / f"logged-{turn}", SIZE, program=program):
            logged[what] = _cheaper(figure, logged.get(what))
        took_s += json.loads(appends.read_text())
    yield from alone.values()
    for what, figure in logged.items():
        named = replace(figure, name=f"{figure.name}; with a log")
        if what in MOST_US:
            more_us = figure.scaled_us(SERVER) - alone[what].scaled_us(SERVER)
            words = f"µs of CPU more for {what} with a log"
            named = replace(named, limit=Limit(words, more_us, MOST_US[what]))
        yield named
    waits = waits_ms(took_s)
    print(f"append to a directory: p50 {waits['p50']:.1f} ms, p99 {waits['p99']:.1f} ms")


def _cheaper(figure: Figure, other: Figure | None) -> Figure:
    return figure if other is None or figure.scaled_us(SERVER) < other.scaled_us(SERVER) else other
