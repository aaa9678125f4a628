"""Crawls of the practice web by the fetchers in examples/, judged by its access log.

The web's hosts have addresses for names, as these fetchers have no table of names.
"""

import random
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from acceptance.judging import BRISK, in_flight, slow_spec
from acceptance.parts import CRAWL, Parts
from acceptance.programs import Program, Programs, pass_time
from example_fetchers.languages import Example
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from practice_web.practice import PracticeWeb

HOSTS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "nu", "omicron", "pi")
"""Hosts without TLS whose links are in HTML. Their robots.txt are missing, empty, forbidden, sent as gzip
unasked, longer than a crawler must read, redirected, or ask for a delay.
"""

TOES = 6
OWN = "toehold-node"
GOODBYE_S = 20.0
"""How long a fetcher may take to end: it finishes the pages that it has started."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one crawl."""

    pages: int
    seconds: float
    kills: int
    complaints: list[str]


def alone(example: Example, folder: Path, hosts: Iterable[str] = HOSTS) -> Verdict:
    """A crawl by one fetcher. In the middle it is asked to end, and started again: that costs nothing."""
    with (
        PracticeWeb(folder / "web", by_address=True) as web,
        Programs(_made(folder / "programs")) as programs,
    ):
        parts = Parts(web, programs, folder)
        began_s = time.monotonic()
        parts.launch(hosts)
        start = partial(_start, example, parts, programs, example.language)
        fetcher = start()
        _until_asked(parts, 40)
        faults = _goodbye(fetcher, parts)
        fetcher = start()
        parts.until_finished()
        seconds = time.monotonic() - began_s
        faults += _goodbye(fetcher, parts)
        faults += parts.complaints()
        lapsed = parts.status()["statistics"]["lapsed_count"]
        if lapsed:
            faults.append(f"{lapsed} leases lapsed")
        return Verdict(len(parts.pages), seconds, 0, faults)


def mixed(examples: Sequence[Example], folder: Path, kills: int, seed: int) -> Verdict:
    """A crawl by all fetchers and our own node. Every few seconds one of them or the frontier is killed."""
    chance = random.Random(seed)
    with (
        PracticeWeb(folder / "web", by_address=True) as web,
        Programs(_made(folder / "programs")) as programs,
    ):
        parts = Parts(web, programs, folder)
        starts = {
            example.language: partial(_start, example, parts, programs, example.language, toes=2)
            for example in examples
        }
        starts[OWN] = partial(parts.node, OWN, "--toes", "2")
        began_s = time.monotonic()
        parts.launch(HOSTS, slow_spec())
        running = {name: start() for name, start in starts.items()}
        moments: list[float] = []
        for number in range(kills):
            asked = len(web.log()) + chance.randrange(5, 40)
            _until_asked(parts, asked)
            pass_time(chance.uniform(0.5, 2.0))
            if parts.has_finished():
                break
            if number % 3 == 2:
                moments.append(parts.frontier.kill())
                parts.start_frontier()
            else:
                name = chance.choice([*starts])
                moments.append(running[name].kill())
                running[name] = starts[name]()
        if not parts.has_finished():
            parts.set(BRISK)
        parts.until_finished()
        seconds = time.monotonic() - began_s
        again = in_flight(web.log(), *moments)
        faults = [f"{name} has ended by itself" for name, program in running.items() if not program.runs]
        faults += [f"{name} has fetched nothing" for name in running if not parts.pages_of(name)]
        faults += parts.complaints(again, unruly=again)
        return Verdict(len(parts.pages), seconds, len(moments), faults)


def _start(example: Example, parts: Parts, programs: Programs, name: str, *, toes: int = TOES) -> Program:
    return programs.start(name, *example.command(parts.address, CRAWL, name, toes))


def _goodbye(fetcher: Program, parts: Parts) -> list[str]:
    """Asks a fetcher to end; what is wrong with how it does."""
    fetcher.signal(signal.SIGTERM)
    code = fetcher.wait(GOODBYE_S)
    held = parts.leased(fetcher.name)
    return [
        *([f"ended with {code} after SIGTERM: {fetcher.complaints[-500:]}"] if code else []),
        *([f"held {held} leases after its goodbye"] if held else []),
    ]


def _until_asked(parts: Parts, count: int) -> None:
    eventually(
        lambda: parts.has_finished() or len(parts.web.log()) >= count, f"{count} requests", WHOLE_CRAWL_S
    )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
