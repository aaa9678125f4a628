"""The spec and seeds of a `toehold crawl`, from the command line, a spec file and the command's defaults.

It checks only rules that count before a frontier runs. The frontier checks all others.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import can_ada

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_base.serving.addresses import is_loopback
from toehold_cli.exits import BadPlan
from toehold_client.errors import InvalidArgument
from toehold_client.rpc.contract import duration
from toehold_client.spec.file import SpecFile
from toehold_client.spec.listed import normalise_seed

from .crawl_file import CrawlFile
from .node_plan import NodePlan
from .spec_options import SpecOptions, apply
from .url_patterns import expression

DEFAULT_NAME = "crawl"
"""The crawl's name inside its frontier, unless the spec gives one."""

MOST_SEEDS = 100_000
"""Most seeds of an embedded crawl, whose directory lists them all."""

ATTEMPTS, RETRY_DELAY_S, RETRY_GROWTH, FETCH_TIMEOUT_S = 3, 30.0, 2.0, 120.0
"""Without a spec file these replace the contract's defaults: a mistyped host must not cost hours."""

_MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """A crawl to be run, and how its node runs."""

    crawl: str
    """Its name inside its frontier."""
    spec: CrawlSpec
    seeds: tuple[str, ...]
    """Each once."""
    node: NodePlan = field(default_factory=NodePlan)
    """May differ in each run."""
    places: Mapping[str, str] = field(default_factory=dict)
    """See SpecFile.places."""
    skip_bad_seeds: bool = False
    """Whether seeds that the frontier refuses are left out."""
    recrawl: bool = False
    """Whether a crawl that has finished is fetched again."""
    frontier_port: int = 0
    """Where its frontier listens, on loopback; 0 takes a free port."""
    shards: int = 0
    """How many its frontier has; 0: as many as it has, and one if it is new."""
    command: str = ""
    """The command line that runs it, for people."""

    @property
    def asked(self) -> CrawlFile:
        """The same for the directory: what the crawl is asked to be, and by which command."""
        return CrawlFile(self.crawl, self.spec, self.seeds, command=self.command, folder=str(Path.cwd()))


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds from the command line, the seeds file and the spec file, checked."""

    good: tuple[str, ...]
    """Each once, with a scheme."""
    bad: tuple[str, ...]
    """For people: texts that cannot be seeds, and why."""
    hosts: tuple[str, ...]
    """The host of each good seed."""


def sort_out(typed: Iterable[tuple[str, str]], *, skip_bad: bool) -> Seeds:
    """Checks seeds, each with its place for errors, which may be empty.

    BadPlan if one is bad, unless bad ones are to be skipped; and if no good one is left, or too many are.
    """
    hosts: dict[str, str] = {}
    bad = []
    for place, text in typed:
        try:
            seed = normalise_seed(text)
            hosts[seed] = _host_of(seed, text)
        except InvalidArgument as problem:
            bad.append(f"{place}: {problem}" if place else str(problem))
        if len(hosts) > MOST_SEEDS:
            raise BadPlan(f"more than {MOST_SEEDS} seeds; run a frontier for so many (see `toehold init`)")
    if bad and not (skip_bad and hosts):
        raise BadPlan(_refusal(bad, may_skip=bool(hosts)))
    if not hosts:
        raise BadPlan("give at least one URL")
    return Seeds(tuple(hosts), tuple(bad), tuple(hosts.values()))


def hosts_of(seeds: Iterable[str]) -> tuple[str, ...]:
    """The host of each seed. InvalidArgument for a bad one."""
    return tuple(_host_of(seed, seed) for seed in seeds)


def _host_of(seed: str, typed: str) -> str:
    try:
        url = can_ada.parse(seed)
    except (ValueError, TypeError):  # TypeError: bytes of the command line that are no text
        raise InvalidArgument(f"{typed!r:.200} is not a URL") from None
    if url.protocol not in ("http:", "https:"):
        raise InvalidArgument(f"{typed!r:.200} is neither http nor https")
    return url.hostname.strip("[]").removesuffix(".")


def _refusal(bad: list[str], *, may_skip: bool) -> str:
    if len(bad) == 1:
        message = bad[0]
    else:
        message = "\n  ".join([f"{len(bad)} seeds are refused:", *bad[:_MOST_TOLD]])
        more = len(bad) - _MOST_TOLD
        message += f"\n  and {more} more" if more > 0 else ""
    return f"{message}\nTo crawl from the other seeds, add --skip-bad-seeds." if may_skip else message


def make_spec(file: SpecFile | None, options: SpecOptions, seeds: Seeds) -> CrawlSpec:
    """The whole spec. BadPlan if it lacks a contact and needs one, or excludes a seed."""
    spec = CrawlSpec()
    if file is not None:
        spec.CopyFrom(file.spec)
    apply(options, spec, seeds.hosts)
    if file is None:
        _give_up_sooner(spec)
    if not spec.allowed_addresses:
        spec.allowed_addresses.append("loopback" if all(map(is_loopback, seeds.hosts)) else "public")
    if list(spec.allowed_addresses) != ["loopback"] and not spec.contact:
        raise BadPlan(
            "--contact is needed to crawl beyond this machine: a URL or an e-mail address. Every request "
            "carries it, so that site owners can reach you."
        )
    for pattern in options.exclude:
        excluded = re.compile(expression(pattern))
        seed = next((seed for seed in seeds.good if excluded.fullmatch(can_ada.parse(seed).href)), None)
        if seed is not None:
            raise BadPlan(f"--exclude {pattern} excludes the seed {seed}; change the pattern or the seed")
    return spec


def _give_up_sooner(spec: CrawlSpec) -> None:
    """Sets the defaults of a crawl without a spec file."""
    retry, robots, fetch = spec.retry, spec.robots, spec.fetch
    for part in (retry, robots):
        if not part.HasField("max_attempts"):
            part.max_attempts = ATTEMPTS
    if not retry.HasField("delay"):
        retry.delay.CopyFrom(duration(RETRY_DELAY_S))
        robots.retry_delay.CopyFrom(duration(RETRY_DELAY_S))
    retry.growth = RETRY_GROWTH
    if not fetch.HasField("timeout"):
        fetch.timeout.CopyFrom(duration(FETCH_TIMEOUT_S))
