"""The settings of a spec file: CrawlSpec's fields, in the contract's order, with the contract's defaults.

`make generate` writes this module. The contract says of `…Spec` what a table means. A length of time is a
number of seconds, and its name ends with the unit (`plain.key_of`). The bounds are those of protobuf's types;
the frontier checks all others.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=315_576_000_000)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_LargeCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_LargeInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table of a spec file."""


class AddressGroup(Table, frozen=True):
    max_parallel: _Count = 0
    min_gap_seconds: _Seconds = 0.0


class HostGroup(Table, frozen=True):
    name: str = ""
    hosts: tuple[str, ...] = ()
    max_parallel: _Count = 1
    min_gap_seconds: _Seconds = 0.0


class Reseed(Table, frozen=True):
    max_rounds: _Integer = 0
    min_interval_seconds: _Seconds = 0.0


class Revisit(Table, frozen=True):
    policy: _Name = "none"
    interval_seconds: _Seconds = 604800.0
    min_interval_seconds: _Seconds = 86400.0
    max_interval_seconds: _Seconds = 2592000.0
    growth: float = 1.5
    shrink: float = 0.5
    conditional: bool = True


class Queue(Table, frozen=True):
    partition: _Name = "host"
    assignment: _Name = "surt-authority"
    buckets: _Count = 100
    parallel_queues: _Count = 1
    queue_key: str = ""
    retire: bool = False
    cost: _Name = "unit"
    uri_precedence: _Name = "cost"
    queue_precedence: _Name = "base"
    base_precedence: _Count = 3
    success_thresholds: Annotated[tuple[_Count, ...], msgspec.Meta(min_length=1)] = (100, 1000)
    precedence_floor: _Count = 255
    session_budget: _Integer = 3000
    total_budget: _LargeInteger = -1
    error_penalty: _Count = 100
    max_leases_per_queue: _Count = 1
    min_gap_seconds: _Seconds = 0.0
    uri_order: _Name = "arrival"


class RewriteRule(Table, frozen=True):
    pattern: str = ""
    replacement: str = ""


class Identity(Table, frozen=True):
    rules: tuple[str, ...] = ()
    rewrites: tuple[RewriteRule, ...] = ()
    keep_uris: bool = False


class Quota(Table, frozen=True):
    max_successes: _LargeCount = 0
    max_success_bytes: _LargeCount = 0
    max_responses: _LargeCount = 0
    max_response_bytes: _LargeCount = 0


class Limit(Table, frozen=True):
    max_documents: _LargeCount = 0
    max_bytes: _LargeCount = 0
    max_elapsed_seconds: _Seconds = 0.0
    host_quota: Quota = Quota()
    source_quota: Quota = Quota()
    fail_over_quota: bool = False


class Extract(Table, frozen=True):
    max_links: _Count = 6000
    javascript: bool = False
    obey_nofollow: bool = False
    obey_robots_meta: bool = True
    sitemap_lastmod: bool = False


class Credential(Table, frozen=True):
    surt_prefix: str = ""
    user: str = ""
    password: str = ""


class Fetch(Table, frozen=True):
    timeout_seconds: _Seconds = 1200.0
    max_bytes: _LargeCount = 104857600
    product_token: _Name = "toehold"
    connect_timeout_seconds: _Seconds = 20.0
    read_timeout_seconds: _Seconds = 20.0
    accept_media_types: tuple[str, ...] = ()
    reject_media_types: tuple[str, ...] = ()
    max_content_length: _LargeCount = 0
    cookies: bool = False
    proxy: str = ""
    credentials: tuple[Credential, ...] = ()
    keep_alive: bool = True
    user_agent: str = ""
    headers: tuple[str, ...] = ()
    referer: bool = False


class RetryRule(Table, frozen=True):
    fetch_status: _Integer = 0
    max_attempts: _Count = 30
    delay_seconds: _Seconds = 900.0
    growth: float = 1.0
    max_delay_seconds: _Seconds = 14400.0


class Retry(Table, frozen=True):
    max_attempts: _Count = 30
    delay_seconds: _Seconds = 900.0
    growth: float = 1.0
    max_delay_seconds: _Seconds = 14400.0
    statuses: tuple[RetryRule, ...] = ()
    max_lapses: _Count = 3


class Robots(Table, frozen=True):
    unreachable: Literal["forbid", "allow"] = "forbid"
    max_attempts: _Count = 5
    retry_delay_seconds: _Seconds = 30.0
    validity_seconds: _Seconds = 86400.0
    policy: _Name = "obey"


class Politeness(Table, frozen=True):
    delay_factor: float = 5.0
    min_delay_seconds: _Seconds = 3.0
    max_delay_seconds: _Seconds = 30.0
    max_crawl_delay_seconds: _Seconds = 300.0
    overload_delay_seconds: _Seconds = 30.0
    max_overload_delay_seconds: _Seconds = 3600.0
    max_parallel: _Count = 1
    across_crawls: bool = True
    max_bytes_per_second: _LargeCount = 0
    adaptive: bool = False


class Scope(Table, frozen=True):
    hosts: tuple[str, ...] = ()
    max_link_hops: _Count = 20
    max_embed_hops: _Count = 5
    max_redirect_hops: _Count = 10
    surt_prefixes: tuple[str, ...] = ()
    accept_patterns: tuple[str, ...] = ()
    reject_patterns: tuple[str, ...] = ()
    schemes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("http", "https")
    max_path_repetitions: _Count = 2
    max_path_segments: _Count = 20
    page_requisites: bool = False
    required_patterns: tuple[str, ...] = ()
    recheck: bool = True
    seed_redirects_within_domain: bool = False


class Spec(Table, frozen=True):
    contact: str = ""
    allowed_addresses: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("public",)
    scope: Scope = Scope()
    politeness: Politeness = Politeness()
    robots: Robots = Robots()
    retry: Retry = Retry()
    fetch: Fetch = Fetch()
    extract: Extract = Extract()
    limits: Limit = Limit()
    identity: Identity = Identity()
    queues: Queue = Queue()
    revisit: Revisit = Revisit()
    reseed: Reseed = Reseed()
    groups: tuple[HostGroup, ...] = ()
    address_group: AddressGroup = AddressGroup()
    run_while_empty: bool = False
    pause_with_uris_left: bool = False
    weight: _Count = 1
    outcomes_kept: _LargeCount = 100000
    pause_at_start: bool = False
    max_toes: _Count = 0
    pause_timeout_seconds: _Seconds = 120.0
    stop_timeout_seconds: _Seconds = 120.0
    statistics_interval_seconds: _Seconds = 20.0
    resume_after_trouble: bool = False
    description: str = ""
    fetcher: str = ""
    operator: str = ""


class Override(Table, frozen=True):
    politeness: Politeness = Politeness()
    retry: Retry = Retry()
    fetch: Fetch = Fetch()
    queues: Queue = Queue()
    host_quota: Quota = Quota()
    revisit: Revisit = Revisit()
    extract: Extract = Extract()


LISTS: dict[str, Table] = {
    "statuses": RetryRule(),
    "credentials": Credential(),
    "rewrites": RewriteRule(),
    "groups": HostGroup(),
}
"""The fields that are lists of tables: name → a table of the list with its defaults."""

GIVING_WAY: tuple[tuple[str, str, str, Callable[[Any, Any], Any]], ...] = (
    ("politeness", "max_delay_seconds", "min_delay_seconds", max),
    ("politeness", "max_overload_delay_seconds", "overload_delay_seconds", max),
    ("retry", "max_delay_seconds", "delay_seconds", max),
    ("revisit", "min_interval_seconds", "interval_seconds", min),
    ("revisit", "max_interval_seconds", "interval_seconds", max),
)
"""Defaults that give way to another value: table, key, the other key, which value counts."""
