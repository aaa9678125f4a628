"""A crawl's spec as the core uses it: in milliseconds, with all defaults filled in.

This is the table of settings (`table.py`), the only place with the name, type, default and bounds of each.
`make generate` derives comments in the contract, the client's spec file and docs/settings.md from it.
`spec_problems.py` has the rules that need several fields or a parser.
"""

from dataclasses import dataclass
from typing import Annotated

from .table import Fixed, GivesWay, Items, NotBelow, OneOf, Text, Within

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
MAX_HOSTS = 10_000
MAX_COUNT = 1 << 62
MAX_INT32 = (1 << 31) - 1
TIB = 1 << 40

_Count = Annotated[int, Within(0, MAX_COUNT)]
_Patterns = Annotated[tuple[str, ...], Items(1_000, "patterns")]
_IdentityRule = Annotated[
    str,
    OneOf(
        "lower-case",
        "strip-www",
        "strip-session-ids",
        "strip-cf-ids",
        "strip-extra-slashes",
        "fix-query",
        "percent-encoding",
        "heritrix",
    ),
]
_MediaType = Annotated[
    str,
    Text(r"[\w!#$&^.+-]{1,60}/(?:\*|[\w!#$&^.+-]{1,100})", "a media type such as text/html or text/*"),
]
_MediaTypes = Annotated[tuple[_MediaType, ...], Items(100, "media types")]
_RequestHeader = Annotated[
    str,
    Text(
        r"[!#$%&'*+.^`|~\w-]{1,64}: {0,8}[!-~](?:[ -~]{0,925}[!-~])?",
        "a header of at most 1000 characters, such as Accept-Language: de",
    ),
]
_FORM = "of the characters a-z, 0-9, ., _ and -, beginning with a letter or digit"
FETCHER_KIND = Text(r"[a-z0-9][a-z0-9._-]{0,63}", f"1 to 64 {_FORM}")
_KindOrAny = Annotated[str, Text(f"(?:{FETCHER_KIND.pattern})?", f"empty, or 1 to 64 {_FORM}")]
_Rest = Annotated[int, Within(0, DAY_MS)]
_Wait = Annotated[int, Within(1_000, DAY_MS)]
_Fetching = Annotated[int, Within(1, DAY_MS)]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """See the contract's RewriteRule."""

    pattern: str
    replacement: str


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """See the contract's IdentitySpec."""

    rules: Annotated[tuple[_IdentityRule, ...], Items(100, "rules")] = ()
    rewrites: Annotated[tuple[Rewrite, ...], Items(100, "rewrites")] = ()
    keep_uris: bool = False


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """See the contract's ScopeSpec."""

    hosts: Annotated[tuple[str, ...], Items(MAX_HOSTS, "hosts"), Fixed.GROWS] = ()
    max_link_hops: Annotated[int, Within(0, 10_000)] = 20
    max_embed_hops: Annotated[int, Within(0, 100)] = 5
    max_redirect_hops: Annotated[int, Within(0, 100)] = 10
    surt_prefixes: Annotated[tuple[str, ...], Items(10_000, "prefixes")] = ()
    accept_patterns: _Patterns = ()
    reject_patterns: _Patterns = ()
    schemes: Annotated[tuple[Annotated[str, OneOf("http", "https")], ...], Items(2, "schemes", least=1)] = (
        "http",
        "https",
    )
    max_path_repetitions: Annotated[int, Within(0, 10_000)] = 2
    max_path_segments: Annotated[int, Within(0, 10_000)] = 20
    page_requisites: bool = False
    required_patterns: _Patterns = ()
    recheck: bool = True
    seed_redirects_within_domain: bool = False


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """See the contract's QueueSpec."""

    partition: Annotated[str, OneOf("host", "registered-domain"), Fixed.FOR_LIFE, Fixed.FOR_ALL_URIS] = "host"
    assignment: Annotated[
        str, OneOf("surt-authority", "host", "registered-domain", "buckets"), Fixed.FOR_ALL_URIS
    ] = "surt-authority"
    buckets: Annotated[int, Within(1, 1_000_000), Fixed.FOR_ALL_URIS] = 100
    parallel_queues: Annotated[int, Within(1, 1_000)] = 1
    queue_key: Annotated[str, Text(r"[!-~]{0,256}", "at most 256 ASCII characters without spaces")] = ""
    retire: bool = False
    cost: Annotated[str, OneOf("unit", "zero", "wag", "anti-calendar")] = "unit"
    uri_precedence: Annotated[str, OneOf("cost", "base", "hops")] = "cost"
    queue_precedence: Annotated[str, OneOf("base", "highest-uri", "success-counts")] = "base"
    base_precedence: Annotated[int, Within(0, 255)] = 3
    success_thresholds: Annotated[
        tuple[Annotated[int, Within(1, MAX_INT32)], ...], Items(100, "thresholds")
    ] = (100, 1000)
    precedence_floor: Annotated[int, Within(0, 256)] = 255
    session_budget: Annotated[int, Within(-1, MAX_INT32)] = 3000
    total_budget: Annotated[int, Within(-1, MAX_COUNT)] = -1
    error_penalty: Annotated[int, Within(0, 1_000_000)] = 100
    max_leases_per_queue: Annotated[int, Within(1, 1_000)] = 1
    min_gap_ms: _Rest = 0
    uri_order: Annotated[str, OneOf("arrival", "due-time")] = "arrival"


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """See the contract's QuotaSpec."""

    max_successes: _Count = 0
    max_success_bytes: _Count = 0
    max_responses: _Count = 0
    max_response_bytes: _Count = 0

    def __bool__(self) -> bool:
        """Whether the quota sets any limit."""
        return bool(
            self.max_successes or self.max_success_bytes or self.max_responses or self.max_response_bytes
        )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """See the contract's LimitSpec."""

    max_documents: _Count = 0
    max_bytes: _Count = 0
    max_elapsed_ms: Annotated[int, Within(0, 10 * YEAR_MS)] = 0
    host_quota: QuotaSettings = QuotaSettings()
    source_quota: QuotaSettings = QuotaSettings()
    fail_over_quota: bool = False


@dataclass(frozen=True, slots=True)
class RevisitSettings:
    """See the contract's RevisitSpec."""

    policy: Annotated[str, OneOf("none", "fixed", "adaptive")] = "none"
    interval_ms: Annotated[int, Within(1_000, 10 * YEAR_MS)] = 7 * DAY_MS
    min_interval_ms: Annotated[int, Within(1_000, 10 * YEAR_MS), GivesWay(min, "interval_ms")] = DAY_MS
    max_interval_ms: Annotated[
        int, Within(1_000, 10 * YEAR_MS), NotBelow("min_interval_ms"), GivesWay(max, "interval_ms")
    ] = 30 * DAY_MS
    growth: Annotated[float, Within(1, 100)] = 1.5
    shrink: Annotated[float, Within(0, 1, above=True)] = 0.5
    conditional: bool = True


@dataclass(frozen=True, slots=True)
class ReseedSettings:
    """See the contract's ReseedSpec."""

    max_rounds: Annotated[int, Within(-1, 1_000_000)] = 0
    min_interval_ms: Annotated[int, Within(0, YEAR_MS)] = 0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """See the contract's HostGroup."""

    name: Annotated[
        str,
        Text(
            r"[a-z0-9][a-z0-9._-]{0,63}",
            "1 to 64 of the characters a-z, 0-9, ., _ and -, beginning with a letter or digit",
        ),
        Fixed.FOR_LIFE,
    ]
    hosts: Annotated[tuple[str, ...], Items(MAX_HOSTS, "hosts", least=1), Fixed.FOR_LIFE]
    max_parallel: Annotated[int, Within(1, 1_000)] = 1
    min_gap_ms: _Rest = 0


@dataclass(frozen=True, slots=True)
class AddressGroupSettings:
    """See the contract's AddressGroupSpec."""

    max_parallel: Annotated[int, Within(0, 1_000)] = 0
    min_gap_ms: _Rest = 0


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """See the contract's PolitenessSpec."""

    delay_factor: Annotated[float, Within(0, 1_000)] = 5.0
    min_delay_ms: _Rest = 3_000
    max_delay_ms: Annotated[_Rest, NotBelow("min_delay_ms"), GivesWay(max, "min_delay_ms")] = 30_000
    max_crawl_delay_ms: _Rest = 300_000
    overload_delay_ms: _Rest = 30_000
    max_overload_delay_ms: Annotated[
        _Rest, NotBelow("overload_delay_ms"), GivesWay(max, "overload_delay_ms")
    ] = 3_600_000
    max_parallel: Annotated[int, Within(1, 1_000)] = 1
    across_crawls: Annotated[bool, Fixed.FOR_LIFE, Fixed.FOR_ALL_URIS] = True
    max_bytes_per_second: Annotated[int, Within(0, TIB)] = 0
    adaptive: bool = False


@dataclass(frozen=True, slots=True)
class RobotsSettings:
    """See the contract's RobotsSpec."""

    allow_unreachable: bool = False
    max_attempts: Annotated[int, Within(1, 1_000)] = 5
    retry_delay_ms: _Rest = 30_000
    validity_ms: Annotated[int, Within(1_000, YEAR_MS)] = DAY_MS
    policy: Annotated[str, OneOf("obey", "ignore")] = "obey"

    @property
    def ignored(self) -> bool:
        """Whether the crawl neither fetches nor heeds robots.txt."""
        return self.policy == "ignore"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """See the contract's RetryRule."""

    fetch_status: int
    max_attempts: Annotated[int, Within(1, 10_000)] = 30
    delay_ms: _Rest = 900_000
    growth: Annotated[float, Within(1, 100)] = 1.0
    max_delay_ms: Annotated[int, Within(0, 30 * DAY_MS), NotBelow("delay_ms")] = 14_400_000


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """See the contract's RetrySpec."""

    max_attempts: Annotated[int, Within(1, 10_000)] = 30
    delay_ms: _Rest = 900_000
    growth: Annotated[float, Within(1, 100)] = 1.0
    max_delay_ms: Annotated[int, Within(0, 30 * DAY_MS), NotBelow("delay_ms"), GivesWay(max, "delay_ms")] = (
        14_400_000
    )
    max_lapses: Annotated[int, Within(1, 255)] = 3
    statuses: Annotated[tuple[RetryRule, ...], Items(200, "statuses")] = ()


@dataclass(frozen=True, slots=True)
class Credential:
    """See the contract's CredentialSpec."""

    surt_prefix: str
    user: str
    password: str = ""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """See the contract's FetchSpec."""

    timeout_ms: _Fetching = 1_200_000
    max_bytes: Annotated[int, Within(1, TIB)] = 100 * 1024 * 1024
    product_token: Annotated[
        str, Text(r"[A-Za-z_-]{1,64}", "1 to 64 of the characters A-Z, a-z, - and _")
    ] = "toehold"
    connect_timeout_ms: _Fetching = 20_000
    read_timeout_ms: _Fetching = 20_000
    accept_media_types: _MediaTypes = ()
    reject_media_types: _MediaTypes = ()
    max_content_length: Annotated[int, Within(0, TIB)] = 0
    cookies: bool = False
    proxy: str = ""
    credentials: Annotated[tuple[Credential, ...], Items(100, "credentials")] = ()
    keep_alive: bool = True
    user_agent: Annotated[str, Text(r"[ -~]{0,500}", "at most 500 printable ASCII characters")] = ""
    headers: Annotated[tuple[_RequestHeader, ...], Items(20, "headers")] = ()
    referer: bool = False


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """See the contract's ExtractSpec."""

    max_links: Annotated[int, Within(0, 100_000)] = 6_000
    javascript: bool = False
    obey_nofollow: bool = False
    obey_robots_meta: bool = True
    sitemap_lastmod: bool = False


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """See the contract's CrawlSpec."""

    contact: str = ""
    allowed_addresses: Annotated[tuple[str, ...], Items(1_000, "networks")] = ("public",)
    scope: ScopeSettings = ScopeSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    robots: RobotsSettings = RobotsSettings()
    retry: RetrySettings = RetrySettings()
    fetch: FetchSettings = FetchSettings()
    limits: LimitSettings = LimitSettings()
    identity: Annotated[IdentitySettings, Fixed.FOR_LIFE] = IdentitySettings()
    queues: QueueSettings = QueueSettings()
    revisit: RevisitSettings = RevisitSettings()
    reseed: ReseedSettings = ReseedSettings()
    groups: Annotated[tuple[GroupSettings, ...], Items(1_000, "groups")] = ()
    address_group: AddressGroupSettings = AddressGroupSettings()
    run_while_empty: bool = False
    pause_with_uris_left: bool = False
    weight: Annotated[int, Within(0, 1_000)] = 1
    outcomes_kept: Annotated[int, Within(0, 1_000_000_000)] = 100_000
    pause_at_start: bool = False
    max_toes: Annotated[int, Within(0, 1_000_000)] = 0
    pause_timeout_ms: _Wait = 120_000
    stop_timeout_ms: _Wait = 120_000
    statistics_interval_ms: _Wait = 20_000
    resume_after_trouble: bool = False
    extract: ExtractSettings = ExtractSettings()
    description: Annotated[str, Text(r"(?s:.{0,1000})", "at most 1000 characters")] = ""
    fetcher: Annotated[_KindOrAny, Fixed.FOR_ALL_URIS] = ""
    operator: Annotated[str, Text(r"(?s:.{0,200})", "at most 200 characters")] = ""
