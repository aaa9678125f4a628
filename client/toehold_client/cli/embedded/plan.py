"""The spec and seeds of a `toehold crawl`, from the command line, a spec file and the command's defaults.

It checks only rules that count before a frontier runs. The frontier checks all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

import can_ada

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.cli.exits import BadPlan
from toehold_client.rpc.contract import duration
from toehold_client.spec.file import SpecFile, normalise_seed
from toehold_client.spec.plain import seconds_of

from .node_plan import NodePlan

DEFAULT_NAME = "crawl"
"""The crawl's name inside its frontier, unless the spec gives one."""

MOST_SEEDS = 100_000
"""Most seeds of an embedded crawl, whose directory lists them all."""

ATTEMPTS, RETRY_DELAY_S, RETRY_GROWTH, FETCH_TIMEOUT_S = 3, 30.0, 2.0, 120.0
"""Without a spec file these replace the contract's defaults: a mistyped host must not cost hours."""

_CONTRACT_MAX_DELAY_S = 30.0
_CONTRACT_MAX_RETRY_DELAY_S = 14_400.0


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Options for the spec, under their names on the command line; None leaves the spec file's value."""

    min_delay: float | None = None
    delay_factor: float | None = None
    max_pages: int | None = None
    max_hops: int | None = None
    max_attempts: int | None = None
    retry_delay: float | None = None
    fetch_timeout: float | None = None
    contact: str | None = None


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


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds from the command line and the spec file, checked."""

    good: tuple[str, ...]
    """Each once, with a scheme."""
    left_out: tuple[str, ...]
    """For people: texts that cannot be seeds, and why."""
    hosts: tuple[str, ...]
    """The host of each good seed."""


def sort_out(given: Iterable[str]) -> Seeds:
    """Checks seeds. BadPlan if no good one is left, or too many are."""
    hosts: dict[str, str] = {}
    left_out = []
    for text in given:
        seed = normalise_seed(text)
        try:
            url = can_ada.parse(seed)
        except (ValueError, TypeError):  # TypeError: bytes of the command line that are no text
            left_out.append(f"{text!r:.200} is not a URL")
            continue
        if url.protocol not in ("http:", "https:"):
            left_out.append(f"{text!r:.200} is neither http nor https")
            continue
        hosts[seed] = url.hostname.strip("[]").removesuffix(".")
        if len(hosts) > MOST_SEEDS:
            raise BadPlan(f"more than {MOST_SEEDS} seeds; run a frontier for so many (see `toehold init`)")
    if not hosts:
        told = "".join(f"\n  {line}" for line in left_out[:10])
        raise BadPlan(f"there is no good seed:{told}" if told else "give at least one URL")
    return Seeds(tuple(hosts), tuple(left_out), tuple(hosts.values()))


def make_spec(file: SpecFile | None, options: SpecOptions, seed_hosts: Iterable[str]) -> CrawlSpec:
    """The whole spec. BadPlan if it lacks a contact and needs one."""
    spec = CrawlSpec()
    if file is not None:
        spec.CopyFrom(file.spec)
    else:
        spec.retry.max_attempts = spec.robots.max_attempts = ATTEMPTS
        spec.retry.delay.CopyFrom(duration(RETRY_DELAY_S))
        spec.robots.retry_delay.CopyFrom(duration(RETRY_DELAY_S))
        spec.retry.growth = RETRY_GROWTH
        spec.fetch.timeout.CopyFrom(duration(FETCH_TIMEOUT_S))
    _apply(spec, options, file)
    if not spec.allowed_addresses:
        spec.allowed_addresses.append("loopback" if all(map(_is_loopback, seed_hosts)) else "public")
    if list(spec.allowed_addresses) != ["loopback"] and not spec.contact:
        raise BadPlan(
            "--contact is needed to crawl beyond this machine: a URL or an e-mail address. Every request "
            "carries it, so that site owners can reach you."
        )
    return spec


def _apply(spec: CrawlSpec, options: SpecOptions, file: SpecFile | None) -> None:
    own_robots = file.spec.robots if file is not None else None
    if options.contact is not None:
        spec.contact = options.contact
    if options.max_pages is not None:
        spec.limits.max_documents = options.max_pages
    if options.max_hops is not None:
        spec.scope.max_link_hops = options.max_hops
    if options.fetch_timeout is not None:
        spec.fetch.timeout.CopyFrom(duration(options.fetch_timeout))
    if options.delay_factor is not None:
        spec.politeness.delay_factor = options.delay_factor
    if options.min_delay is not None:
        politeness = spec.politeness
        politeness.min_delay.CopyFrom(duration(options.min_delay))
        longest = (
            seconds_of(politeness.max_delay) if politeness.HasField("max_delay") else _CONTRACT_MAX_DELAY_S
        )
        if longest < options.min_delay:
            politeness.max_delay.CopyFrom(politeness.min_delay)
    # Both of these count for robots.txt as well, unless the spec file sets that itself.
    if options.max_attempts is not None:
        spec.retry.max_attempts = options.max_attempts
        if own_robots is None or not own_robots.HasField("max_attempts"):
            spec.robots.max_attempts = options.max_attempts
    if options.retry_delay is not None:
        retry = spec.retry
        retry.delay.CopyFrom(duration(options.retry_delay))
        longest = seconds_of(retry.max_delay) if retry.HasField("max_delay") else _CONTRACT_MAX_RETRY_DELAY_S
        if longest < options.retry_delay:
            retry.max_delay.CopyFrom(retry.delay)
        if own_robots is None or not own_robots.HasField("retry_delay"):
            spec.robots.retry_delay.CopyFrom(retry.delay)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
