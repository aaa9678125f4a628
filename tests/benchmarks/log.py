"""What the log under a shard costs, on the real core, beside a frontier without one, in one run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.growth import Size, figures
from benchmarks.measuring import SERVER, Figure, Limit, waits_ms

SIZE = Size(300_000, 15_000)
PROGRAM = Path(__file__).with_name("logged_frontier.py")
MOST_US = {"a new URI": 9.0, "a lease, 1 client": 20.0, "a lease, 4 clients": 20.0}
"""How many microseconds of CPU more an item may cost with a log; a lease is a pair of Next and Finished."""


def log(folder: Path) -> Iterator[Figure]:
    """The figures of a frontier without a log, and those of one whose log is in a directory."""
    alone: dict[str, Figure] = {}
    for what, figure in figures(folder / "alone", SIZE):
        alone[what] = figure
        yield figure
    appends = folder / "appends.json"
    program = str(PROGRAM), f"file://{folder}/bucket", str(appends)
    for what, figure in figures(folder / "logged", SIZE, program=program):
        named = replace(figure, name=f"{figure.name}; with a log", wait_ms=figure.wait_ms)
        if what not in MOST_US:
            yield named
            continue
        more_us = figure.scaled_us(SERVER) - alone[what].scaled_us(SERVER)
        yield replace(named, limit=Limit(f"µs of CPU more for {what} with a log", more_us, MOST_US[what]))
    waits = waits_ms(json.loads(appends.read_text()))
    print(f"append to a directory: p50 {waits['p50']:.1f} ms, p99 {waits['p99']:.1f} ms")
