"""The settings of a spec file as dicts that a type checker knows: `fields` as programs write them.

`make generate` writes this module. The contract says of `…Spec` what a table means.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict


class AddressGroupDict(TypedDict, total=False):
    max_parallel: int
    min_gap_seconds: float


class HostGroupDict(TypedDict, total=False):
    name: str
    hosts: Sequence[str]
    max_parallel: int
    min_gap_seconds: float


class ReseedDict(TypedDict, total=False):
    max_rounds: int
    min_interval_seconds: float


class RevisitDict(TypedDict, total=False):
    policy: Literal["none", "fixed", "adaptive"]
    interval_seconds: float
    min_interval_seconds: float
    max_interval_seconds: float
    growth: float
    shrink: float
    conditional: bool


class QueueDict(TypedDict, total=False):
    partition: Literal["host", "registered-domain"]
    assignment: Literal["surt-authority", "host", "registered-domain", "buckets"]
    buckets: int
    parallel_queues: int
    queue_key: str
    retire: bool
    cost: Literal["unit", "zero", "wag", "anti-calendar"]
    uri_precedence: Literal["cost", "base", "hops"]
    queue_precedence: Literal["base", "highest-uri", "success-counts"]
    base_precedence: int
    success_thresholds: Sequence[int]
    precedence_floor: int
    session_budget: int
    total_budget: int
    error_penalty: int
    max_leases_per_queue: int
    min_gap_seconds: float
    uri_order: Literal["arrival", "due-time"]


class RewriteRuleDict(TypedDict, total=False):
    pattern: str
    replacement: str


class IdentityDict(TypedDict, total=False):
    rules: Sequence[
        Literal[
            "lower-case",
            "strip-www",
            "strip-session-ids",
            "strip-cf-ids",
            "strip-extra-slashes",
            "fix-query",
            "percent-encoding",
            "heritrix",
        ]
    ]
    rewrites: Sequence[RewriteRuleDict]
    keep_uris: bool


class QuotaDict(TypedDict, total=False):
    max_successes: int
    max_success_bytes: int
    max_responses: int
    max_response_bytes: int


class LimitDict(TypedDict, total=False):
    max_documents: int
    max_bytes: int
    max_elapsed_seconds: float
    host_quota: QuotaDict
    source_quota: QuotaDict
    fail_over_quota: bool


class ExtractDict(TypedDict, total=False):
    max_links: int
    javascript: bool
    obey_nofollow: bool
    obey_robots_meta: bool
    sitemap_lastmod: bool


class CredentialDict(TypedDict, total=False):
    surt_prefix: str
    user: str
    password: str


class FetchDict(TypedDict, total=False):
    timeout_seconds: float
    max_bytes: int
    product_token: str
    connect_timeout_seconds: float
    read_timeout_seconds: float
    accept_media_types: Sequence[str]
    reject_media_types: Sequence[str]
    max_content_length: int
    cookies: bool
    proxy: str
    credentials: Sequence[CredentialDict]
    keep_alive: bool
    user_agent: str
    headers: Sequence[str]
    referer: bool


class RetryRuleDict(TypedDict, total=False):
    fetch_status: int
    max_attempts: int
    delay_seconds: float
    growth: float
    max_delay_seconds: float


class RetryDict(TypedDict, total=False):
    max_attempts: int
    delay_seconds: float
    growth: float
    max_delay_seconds: float
    statuses: Sequence[RetryRuleDict]
    max_lapses: int


class RobotsDict(TypedDict, total=False):
    unreachable: Literal["forbid", "allow"]
    max_attempts: int
    retry_delay_seconds: float
    validity_seconds: float
    policy: Literal["obey", "ignore"]


class PolitenessDict(TypedDict, total=False):
    delay_factor: float
    min_delay_seconds: float
    max_delay_seconds: float
    max_crawl_delay_seconds: float
    overload_delay_seconds: float
    max_overload_delay_seconds: float
    max_parallel: int
    across_crawls: bool
    max_bytes_per_second: int
    adaptive: bool


class ScopeDict(TypedDict, total=False):
    hosts: Sequence[str]
    max_link_hops: int
    max_embed_hops: int
    max_redirect_hops: int
    surt_prefixes: Sequence[str]
    accept_patterns: Sequence[str]
    reject_patterns: Sequence[str]
    schemes: Sequence[Literal["http", "https"]]
    max_path_repetitions: int
    max_path_segments: int
    page_requisites: bool
    required_patterns: Sequence[str]
    recheck: bool
    seed_redirects_within_domain: bool


class SpecDict(TypedDict, total=False):
    contact: str
    allowed_addresses: Sequence[str]
    scope: ScopeDict
    politeness: PolitenessDict
    robots: RobotsDict
    retry: RetryDict
    fetch: FetchDict
    extract: ExtractDict
    limits: LimitDict
    identity: IdentityDict
    queues: QueueDict
    revisit: RevisitDict
    reseed: ReseedDict
    groups: Sequence[HostGroupDict]
    address_group: AddressGroupDict
    run_while_empty: bool
    pause_with_uris_left: bool
    weight: int
    outcomes_kept: int
    pause_at_start: bool
    max_toes: int
    pause_timeout_seconds: float
    stop_timeout_seconds: float
    statistics_interval_seconds: float
    resume_after_trouble: bool
    description: str
    fetcher: str
    operator: str


class OverrideDict(TypedDict, total=False):
    politeness: PolitenessDict
    retry: RetryDict
    fetch: FetchDict
    queues: QueueDict
    host_quota: QuotaDict
    revisit: RevisitDict
    extract: ExtractDict
