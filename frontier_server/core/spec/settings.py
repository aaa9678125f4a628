"""A crawl's spec as the core uses it: milliseconds, every default filled in."""

from dataclasses import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Rewrite:
    """See the contract's RewriteRule."""

    pattern: str
    replacement: str


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """See the contract's IdentitySpec."""

    rules: tuple[str, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """See the contract's ScopeSpec."""

    hosts: tuple[str, ...] = ()
    max_link_hops: int = 20
    max_embed_hops: int = 5
    max_redirect_hops: int = 10
    surt_prefixes: tuple[str, ...] = ()
    accept_patterns: tuple[str, ...] = ()
    reject_patterns: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("http", "https")
    max_path_repetitions: int = 2
    max_path_segments: int = 20


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """See the contract's QueueSpec."""

    partition: str = "host"
    assignment: str = "surt-authority"
    buckets: int = 100
    parallel_queues: int = 1
    queue_key: str = ""
    retire: bool = False
    cost: str = "unit"
    uri_precedence: str = "cost"
    queue_precedence: str = "base"
    base_precedence: int = 3
    success_thresholds: tuple[int, ...] = (100, 1000)
    precedence_floor: int = 255
    session_budget: int = 3000
    total_budget: int = -1
    error_penalty: int = 100


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """See the contract's QuotaSpec."""

    max_successes: int = 0
    max_success_bytes: int = 0
    max_responses: int = 0
    max_response_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """See the contract's LimitSpec."""

    max_documents: int = 0
    max_bytes: int = 0
    max_elapsed_ms: int = 0
    host_quota: QuotaSettings = QuotaSettings()
    source_quota: QuotaSettings = QuotaSettings()
    fail_over_quota: bool = False


@dataclass(frozen=True, slots=True)
class RevisitSettings:
    """See the contract's RevisitSpec."""

    policy: str = "none"
    interval_ms: int = 7 * DAY_MS
    min_interval_ms: int = DAY_MS
    max_interval_ms: int = 30 * DAY_MS
    growth: float = 1.5
    shrink: float = 0.5


@dataclass(frozen=True, slots=True)
class ReseedSettings:
    """See the contract's ReseedSpec."""

    max_rounds: int = 0
    min_interval_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """See the contract's HostGroup."""

    name: str
    hosts: tuple[str, ...]
    max_parallel: int = 1
    min_gap_ms: int = 0


@dataclass(frozen=True, slots=True)
class AddressGroupSettings:
    """See the contract's AddressGroupSpec."""

    max_parallel: int = 0
    min_gap_ms: int = 0


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """See the contract's PolitenessSpec."""

    delay_factor: float = 5.0
    min_delay_ms: int = 3_000
    max_delay_ms: int = 30_000
    max_crawl_delay_ms: int = 300_000
    overload_delay_ms: int = 30_000
    max_overload_delay_ms: int = 3_600_000
    max_parallel: int = 1
    across_crawls: bool = True
    max_bytes_per_second: int = 0


@dataclass(frozen=True, slots=True)
class RobotsSettings:
    """See the contract's RobotsSpec."""

    allow_unreachable: bool = False
    max_attempts: int = 5
    retry_delay_ms: int = 30_000
    validity_ms: int = DAY_MS


@dataclass(frozen=True, slots=True)
class RetryRule:
    """See the contract's RetryRule."""

    fetch_status: int
    max_attempts: int = 30
    delay_ms: int = 900_000
    growth: float = 1.0
    max_delay_ms: int = 14_400_000


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """See the contract's RetrySpec."""

    max_attempts: int = 30
    delay_ms: int = 900_000
    growth: float = 1.0
    max_delay_ms: int = 14_400_000
    statuses: tuple[RetryRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Credential:
    """See the contract's CredentialSpec."""

    surt_prefix: str
    user: str
    password: str = ""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """See the contract's FetchSpec."""

    timeout_ms: int = 1_200_000
    max_bytes: int = 100 * 1024 * 1024
    product_token: str = "toehold"
    connect_timeout_ms: int = 20_000
    read_timeout_ms: int = 20_000
    accept_media_types: tuple[str, ...] = ()
    reject_media_types: tuple[str, ...] = ()
    max_content_length: int = 0
    cookies: bool = False
    proxy: str = ""
    credentials: tuple[Credential, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """See the contract's ExtractSpec."""

    max_links: int = 6_000
    javascript: bool = False
    obey_nofollow: bool = False
    obey_robots_meta: bool = True
    sitemap_lastmod: bool = False


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """See the contract's CrawlSpec."""

    contact: str = ""
    allowed_addresses: tuple[str, ...] = ("public",)
    scope: ScopeSettings = ScopeSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    robots: RobotsSettings = RobotsSettings()
    retry: RetrySettings = RetrySettings()
    fetch: FetchSettings = FetchSettings()
    limits: LimitSettings = LimitSettings()
    identity: IdentitySettings = IdentitySettings()
    queues: QueueSettings = QueueSettings()
    revisit: RevisitSettings = RevisitSettings()
    reseed: ReseedSettings = ReseedSettings()
    groups: tuple[GroupSettings, ...] = ()
    address_group: AddressGroupSettings = AddressGroupSettings()
    run_while_empty: bool = False
    pause_with_uris_left: bool = False
    weight: int = 1
    outcomes_kept: int = 100_000
    pause_at_start: bool = False
    max_toes: int = 0
    pause_timeout_ms: int = 120_000
    stop_timeout_ms: int = 120_000
    statistics_interval_ms: int = 20_000
    resume_after_trouble: bool = False
    extract: ExtractSettings = ExtractSettings()
