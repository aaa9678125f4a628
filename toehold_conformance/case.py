"""A case: what is right, where the contract says so, and a function that judges what a fetcher did.

Cases are collected per module. To add one, write a function that takes the evidence and raises `Fails`, and
decorate it:

    @CASES.add(
        "Report a 418 as it is.",
        "Report.fetch_status",
        hosts={"": {"/": text("Tea", status="418 I'm a teapot")}},
    )
    def teapot(seen: Evidence) -> None:
        seen.must_report(418)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, OverrideSettings

from .answers import Pages
from .evidence import Evidence
from .stage import Stage

Judge: TypeAlias = Callable[[Evidence], None]

NO_HOSTS: Mapping[str, Pages] = {}


class Level(Enum):
    """Whether a fetcher that fails a case conforms."""

    REQUIRED = "required"
    ADVISED = "advised"


@dataclass(frozen=True, slots=True, eq=False)
class Play:
    """A course of events while the fetcher crawls the hosts of the cases. Several cases may judge a play."""

    name: str
    direct: Callable[[Stage], None]
    hosts: Mapping[str, Pages] = field(default_factory=dict)
    """Its own hosts, besides those of its cases."""
    spec: CrawlSpec = field(default_factory=CrawlSpec)
    """Settings of its crawl besides the kit's usual ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One thing that a fetcher must do."""

    name: str
    right: str
    """The right way, as an instruction to the fetcher."""
    contract: str
    """The place in the contract that says so."""
    play: Play
    level: Level
    judge: Judge
    hosts: Mapping[str, Pages]
    """Its hosts. The `/` of the first is a seed, and the others are reached by links."""
    settings: OverrideSettings | None
    """Settings for its hosts that differ from the crawl's."""


class Cases:
    """The cases of a module."""

    def __init__(self, title: str, play: Play) -> None:
        self.title = title
        self._play = play
        self._cases: list[Case] = []

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases)

    def add(
        self,
        right: str,
        contract: str,
        *,
        hosts: Mapping[str, Pages] = NO_HOSTS,
        settings: OverrideSettings | None = None,
        level: Level = Level.REQUIRED,
        play: Play | None = None,
    ) -> Callable[[Judge], Judge]:
        """Adds the case whose judge is decorated; the function's name is the case's."""

        def decorate(judge: Judge) -> Judge:
            name = judge.__name__.replace("_", "-")
            self._cases.append(Case(name, right, contract, play or self._play, level, judge, hosts, settings))
            return judge

        return decorate
