"""The command line's options for a crawl's spec, as `toehold crawl` and `toehold init` have them."""

from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass
from ipaddress import ip_address

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_cli.exits import BadPlan
from toehold_client.rpc.contract import duration
from toehold_client.spec.plain import seconds_of

from .url_patterns import expression

_CONTRACT_MAX_DELAY_S = 30.0
_CONTRACT_MAX_RETRY_DELAY_S = 14_400.0


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Options for the spec, under their names on the command line; None leaves the spec file's value."""

    min_delay: float | None = None
    delay_factor: float | None = None
    parallel: int | None = None
    adaptive: bool = False
    max_pages: int | None = None
    max_hops: int | None = None
    seeds_only: bool = False
    max_time: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    subdomains: bool = False
    page_requisites: bool = False
    max_attempts: int | None = None
    retry_delay: float | None = None
    fetch_timeout: float | None = None
    contact: str | None = None
    operator: str | None = None
    user_agent: str | None = None


def apply(options: SpecOptions, spec: CrawlSpec, seed_hosts: Iterable[str]) -> None:
    """Sets what the options say in a spec. Those that may be repeated add to the spec's lists.

    Raises BadPlan for a URL pattern that is none, and for options that contradict each other.
    """
    if options.contact is not None:
        spec.contact = options.contact
    if options.operator is not None:
        spec.operator = options.operator
    _apply_scope(options, spec, seed_hosts)
    _apply_pace(options, spec)
    _apply_retries(options, spec)
    if options.max_pages is not None:
        spec.limits.max_documents = options.max_pages
    if options.max_time is not None:
        spec.limits.max_elapsed.CopyFrom(duration(options.max_time))
    if options.fetch_timeout is not None:
        spec.fetch.timeout.CopyFrom(duration(options.fetch_timeout))
    if options.user_agent is not None:
        spec.fetch.product_token = options.user_agent


def _apply_scope(options: SpecOptions, spec: CrawlSpec, seed_hosts: Iterable[str]) -> None:
    scope = spec.scope
    if options.seeds_only:
        if options.max_hops or options.page_requisites:
            other = "--page-requisites" if options.page_requisites else "--max-hops"
            raise BadPlan(f"--seeds-only fetches nothing but the URLs, so {other} does nothing; remove one")
        scope.max_link_hops = scope.max_embed_hops = 0
    if options.max_hops is not None:
        scope.max_link_hops = options.max_hops
    if options.page_requisites:
        scope.page_requisites = True
    _extend(scope.required_patterns, map(expression, options.include))
    _extend(scope.reject_patterns, map(expression, options.exclude))
    if options.subdomains:
        domains = (host.removeprefix("www.") for host in seed_hosts if not _is_address(host))
        _extend(scope.surt_prefixes, (f"+{domain}" for domain in domains))


def _apply_pace(options: SpecOptions, spec: CrawlSpec) -> None:
    politeness = spec.politeness
    if options.delay_factor is not None:
        politeness.delay_factor = options.delay_factor
    if options.min_delay is not None:
        politeness.min_delay.CopyFrom(duration(options.min_delay))
        longest = (
            seconds_of(politeness.max_delay) if politeness.HasField("max_delay") else _CONTRACT_MAX_DELAY_S
        )
        if longest < options.min_delay:
            politeness.max_delay.CopyFrom(politeness.min_delay)
    if options.adaptive:
        politeness.adaptive = True
    if options.parallel is not None:
        # A host may have only one queue, so that queue must give several leases, too.
        politeness.max_parallel = options.parallel
        spec.queues.max_leases_per_queue = options.parallel


def _apply_retries(options: SpecOptions, spec: CrawlSpec) -> None:
    """Both options count for robots.txt as well, unless the spec file sets that itself."""
    own_attempts, own_delay = (spec.robots.HasField(name) for name in ("max_attempts", "retry_delay"))
    if options.max_attempts is not None:
        spec.retry.max_attempts = options.max_attempts
        if not own_attempts:
            spec.robots.max_attempts = options.max_attempts
    if options.retry_delay is not None:
        retry = spec.retry
        retry.delay.CopyFrom(duration(options.retry_delay))
        longest = seconds_of(retry.max_delay) if retry.HasField("max_delay") else _CONTRACT_MAX_RETRY_DELAY_S
        if longest < options.retry_delay:
            retry.max_delay.CopyFrom(retry.delay)
        if not own_delay:
            spec.robots.retry_delay.CopyFrom(retry.delay)


def _extend(values: MutableSequence[str], further: Iterable[str]) -> None:
    """Adds values that a list does not have."""
    for value in further:
        if value not in values:
            values.append(value)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
