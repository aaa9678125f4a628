"""What is wrong with a crawl's settings: all of it at once, each by its path in the spec."""

import re
from collections.abc import Collection
from ipaddress import ip_network
from typing import TypeVar
from urllib.parse import urlsplit

from ..rules.cost import POLICIES
from ..rules.disposition import RULED
from ..rules.precedence import MAX_QUEUE_PRECEDENCE, QUEUE_POLICIES, URI_POLICIES
from ..uri.assign import ASSIGNMENTS, PARTITIONS, group_members
from ..uri.canonical import MAX_URI_BYTES, SCHEMES, Malformed
from ..uri.identity import RULES
from ..uri.patterns import BadPattern, BadReplacement, compile_pattern, compile_rewrite
from ..uri.scope import parse_authority, parse_prefix
from ..uri.surt import surt_prefix
from .settings import (
    DAY_MS,
    CrawlSettings,
    Credential,
    ExtractSettings,
    FetchSettings,
    GroupSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    QuotaSettings,
    ReseedSettings,
    RetrySettings,
    RevisitSettings,
    RobotsSettings,
    ScopeSettings,
)

REVISIT_POLICIES = ("none", "fixed", "adaptive")
MAX_STATUSES = 200
MAX_HOSTS, MAX_PREFIXES, MAX_PATTERNS, MAX_GROUPS, MAX_NETWORKS = 10_000, 10_000, 1_000, 1_000, 1_000
MAX_RULES, MAX_REWRITES, MAX_THRESHOLDS = 100, 100, 100
MAX_MEDIA_TYPES, MAX_CREDENTIALS = 100, 100
MAX_CONTACT_CHARACTERS = 500
MAX_NETWORK_CHARACTERS = 64
MAX_COUNT = 1 << 62
YEAR_MS = 365 * DAY_MS

_CONTACT = re.compile(
    r"https?://[^\s/()]+\.[^\s()]*|https?://localhost[^\s()]*|[^\s@()]+@[^\s@()]+\.[^\s@()]+"
)
_PRODUCT_TOKEN = re.compile(r"[A-Za-z_-]{1,64}")
_QUEUE_KEY = re.compile(r"[!-~]{1,256}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,60}/(?:\*|[\w!#$&^.+-]{1,100})", re.ASCII)
_PRINTABLE = re.compile(r"[!-~]{1,500}")
_GROUP_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

T = TypeVar("T")


def problems(settings: CrawlSettings) -> dict[str, str]:
    """What is wrong with a crawl's settings: path in the spec → what would be right. Empty is good."""
    found = _Problems()
    _contact(found, settings)
    _addresses(found, settings.allowed_addresses)
    _scope(found, settings.scope)
    _politeness(found, settings.politeness)
    _robots(found, settings.robots)
    _retry(found, settings.retry)
    _fetch(found, settings.fetch)
    _extract(found, settings.extract)
    _limits(found, settings.limits)
    _identity(found, settings.identity)
    _queues(found, settings.queues)
    _revisit(found, settings.revisit)
    _reseed(found, settings.reseed)
    identity = settings.identity
    if any(path.startswith("identity.") for path in found):
        identity = IdentitySettings()  # what makes no sense makes no hosts the same
    _groups(found, settings.groups, identity)
    found.within("address_group.max_parallel", settings.address_group.max_parallel, 0, 1_000)
    found.within_ms("address_group.min_gap", settings.address_group.min_gap_ms, 0, DAY_MS)
    found.within("weight", settings.weight, 1, 1_000)
    found.within("outcomes_kept", settings.outcomes_kept, 0, 1_000_000_000)
    found.within("max_toes", settings.max_toes, 0, 1_000_000)
    found.within_ms("pause_timeout", settings.pause_timeout_ms, 1_000, DAY_MS)
    found.within_ms("stop_timeout", settings.stop_timeout_ms, 1_000, DAY_MS)
    found.within_ms("statistics_interval", settings.statistics_interval_ms, 1_000, DAY_MS)
    return found


def fixed_problems(before: CrawlSettings, after: CrawlSettings) -> dict[str, str]:
    """What a change of settings may not do to a crawl that there is: what a URI's place depends on."""
    fixed = "it is fixed when the crawl is created"
    found = {}
    if after.identity != before.identity:
        found["identity"] = fixed
    if after.queues.partition != before.queues.partition:
        found["queues.partition"] = fixed
    if _members(after.groups) != _members(before.groups):
        found["groups"] = "which hosts there are in a group is fixed when the crawl is created"
    if not set(before.scope.hosts) <= set(after.scope.hosts):
        gone = min(set(before.scope.hosts) - set(after.scope.hosts))
        found["scope.hosts"] = f"hosts can only be added, and {gone[:80]!r} is missing"
    if after.politeness.across_crawls != before.politeness.across_crawls:
        found["politeness.across_crawls"] = fixed
    return found


def _members(groups: tuple[GroupSettings, ...]) -> dict[str, tuple[str, ...]]:
    return {group.name: group.hosts for group in groups}


def override_problems(settings: CrawlSettings) -> dict[str, str]:
    """What is wrong with the settings that an override makes: path in it → what would be right.

    Only what an override can say is looked at. The crawl's own settings have been
    found good before, but an override may contradict them.
    """
    found = _Problems()
    _politeness(found, settings.politeness)
    _retry(found, settings.retry)
    _fetch(found, settings.fetch)
    _extract(found, settings.extract)
    _queues(found, settings.queues)
    _quota(found, "host_quota", settings.limits.host_quota)
    _revisit(found, settings.revisit)
    return found


class _Problems(dict[str, str]):
    """Path → problem, and the usual ways to have one."""

    def within(self, path: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:  # also catches NaN
            self[path] = f"{value} is not within {least} and {most}"

    def within_ms(self, path: str, value: int, least: int, most: int) -> None:
        least = min(max(least, 0), most)  # which may be another field, wrong itself
        if not least <= value <= most:
            self[path] = f"{value / 1000:g} s is not within {least / 1000:g} s and {most / 1000:g} s"

    def one_of(self, path: str, name: str, known: Collection[str]) -> None:
        if name not in known:
            self[path] = f"{name[:80]!r} is none of {', '.join(known)}"

    def at_most(self, path: str, items: tuple[T, ...], most: int, what: str) -> tuple[T, ...]:
        """The items, or none if there are too many to look at."""
        if len(items) <= most:
            return items
        self[path] = f"{len(items)} {what}; at most {most} are taken"
        return ()


def _contact(found: _Problems, settings: CrawlSettings) -> None:
    if settings.contact:
        contact = settings.contact[: MAX_CONTACT_CHARACTERS + 1]
        if len(contact) > MAX_CONTACT_CHARACTERS:
            found["contact"] = (
                f"it is longer than {MAX_CONTACT_CHARACTERS} characters, and part of every request"
            )
        elif not _CONTACT.fullmatch(contact) or not contact.isascii():
            found["contact"] = f"{contact!r} is neither an http(s) URL nor an e-mail address"
    elif settings.allowed_addresses != ("loopback",):
        found["contact"] = (
            "a contact (http(s) URL or e-mail address) is needed to fetch from addresses beyond loopback"
        )


def _addresses(found: _Problems, addresses: tuple[str, ...]) -> None:
    addresses = found.at_most("allowed_addresses", addresses, MAX_NETWORKS, "networks")
    for place, address in enumerate(addresses):
        if address in ("loopback", "public"):
            if len(addresses) > 1:
                found[f"allowed_addresses[{place}]"] = f"{address!r} stands alone, or not at all"
            continue
        if len(address) > MAX_NETWORK_CHARACTERS:
            found[f"allowed_addresses[{place}]"] = (
                f"{address[:MAX_NETWORK_CHARACTERS]!r}... has {len(address)} characters;"
                f" a network has at most {MAX_NETWORK_CHARACTERS}"
            )
            continue
        try:
            ip_network(address)
        except ValueError as problem:
            found[f"allowed_addresses[{place}]"] = (
                f"{address!r} is not loopback, public or a network: {problem}"
            )


def _scope(found: _Problems, scope: ScopeSettings) -> None:
    hosts = found.at_most("scope.hosts", scope.hosts, MAX_HOSTS, "hosts (seeds add their own)")
    for place, host in enumerate(hosts):
        try:
            parse_authority(host)
        except Malformed as problem:
            found[f"scope.hosts[{place}]"] = str(problem)
    prefixes: dict[str, int] = {}
    listed = found.at_most("scope.surt_prefixes", scope.surt_prefixes, MAX_PREFIXES, "prefixes")
    for place, text in enumerate(listed):
        try:
            _, prefix = parse_prefix(text)
        except Malformed as problem:
            found[f"scope.surt_prefixes[{place}]"] = str(problem)
            continue
        if prefixes.setdefault(prefix, place) != place:
            found[f"scope.surt_prefixes[{place}]"] = (
                f"{prefix[:80]} is scope.surt_prefixes[{prefixes[prefix]}] already"
            )
    for name, patterns in (
        ("accept_patterns", scope.accept_patterns),
        ("reject_patterns", scope.reject_patterns),
    ):
        for place, pattern in enumerate(found.at_most(f"scope.{name}", patterns, MAX_PATTERNS, "patterns")):
            try:
                compile_pattern(pattern)
            except BadPattern as bad:
                found[f"scope.{name}[{place}]"] = str(bad)
    schemes = [scheme.removesuffix(":") for scheme in SCHEMES]
    if not scope.schemes:
        found["scope.schemes"] = f"there is none; it takes one of {', '.join(schemes)} at least"
    for place, scheme in enumerate(found.at_most("scope.schemes", scope.schemes, len(schemes), "schemes")):
        found.one_of(f"scope.schemes[{place}]", scheme, schemes)
    found.within("scope.max_link_hops", scope.max_link_hops, 0, 10_000)
    found.within("scope.max_embed_hops", scope.max_embed_hops, 0, 100)
    found.within("scope.max_redirect_hops", scope.max_redirect_hops, 0, 100)
    found.within("scope.max_path_repetitions", scope.max_path_repetitions, 0, 10_000)
    found.within("scope.max_path_segments", scope.max_path_segments, 0, 10_000)


def _politeness(found: _Problems, politeness: PolitenessSettings) -> None:
    found.within("politeness.delay_factor", politeness.delay_factor, 0, 1_000)
    found.within_ms("politeness.min_delay", politeness.min_delay_ms, 0, DAY_MS)
    found.within_ms("politeness.max_delay", politeness.max_delay_ms, politeness.min_delay_ms, DAY_MS)
    found.within_ms("politeness.max_crawl_delay", politeness.max_crawl_delay_ms, 0, DAY_MS)
    found.within_ms("politeness.overload_delay", politeness.overload_delay_ms, 0, DAY_MS)
    found.within_ms(
        "politeness.max_overload_delay",
        politeness.max_overload_delay_ms,
        politeness.overload_delay_ms,
        DAY_MS,
    )
    found.within("politeness.max_parallel", politeness.max_parallel, 1, 100)
    found.within("politeness.max_bytes_per_second", politeness.max_bytes_per_second, 0, 1 << 40)


def _robots(found: _Problems, robots: RobotsSettings) -> None:
    found.within("robots.max_attempts", robots.max_attempts, 1, 1_000)
    found.within_ms("robots.retry_delay", robots.retry_delay_ms, 0, DAY_MS)
    found.within_ms("robots.validity", robots.validity_ms, 1_000, YEAR_MS)


def _retry(found: _Problems, retry: RetrySettings) -> None:
    found.within("retry.max_attempts", retry.max_attempts, 1, 10_000)
    found.within_ms("retry.delay", retry.delay_ms, 0, DAY_MS)
    found.within("retry.growth", retry.growth, 1, 100)
    found.within_ms("retry.max_delay", retry.max_delay_ms, retry.delay_ms, 30 * DAY_MS)
    known: set[int] = set()
    for place, rule in enumerate(found.at_most("retry.statuses", retry.statuses, MAX_STATUSES, "statuses")):
        path = f"retry.statuses[{place}]"
        if rule.fetch_status not in RULED:
            found[f"{path}.fetch_status"] = (
                f"{rule.fetch_status} is not -10, -5 to -1 or 400 to 599; others are never tried again"
            )
        elif rule.fetch_status in known:
            found[f"{path}.fetch_status"] = f"{rule.fetch_status} has a rule already"
        known.add(rule.fetch_status)
        found.within(f"{path}.max_attempts", rule.max_attempts, 1, 10_000)
        found.within_ms(f"{path}.delay", rule.delay_ms, 0, DAY_MS)
        found.within(f"{path}.growth", rule.growth, 1, 100)
        found.within_ms(f"{path}.max_delay", rule.max_delay_ms, rule.delay_ms, 30 * DAY_MS)


def _fetch(found: _Problems, fetch: FetchSettings) -> None:
    found.within_ms("fetch.timeout", fetch.timeout_ms, 1, DAY_MS)
    found.within("fetch.max_bytes", fetch.max_bytes, 1, 1 << 40)
    if not _PRODUCT_TOKEN.fullmatch(fetch.product_token):
        found["fetch.product_token"] = f"{fetch.product_token[:80]!r} is not 1 to 64 of A-Z a-z - _"
    found.within_ms("fetch.connect_timeout", fetch.connect_timeout_ms, 1, DAY_MS)
    found.within_ms("fetch.read_timeout", fetch.read_timeout_ms, 1, DAY_MS)
    _media_types(found, "fetch.accept_media_types", fetch.accept_media_types)
    _media_types(found, "fetch.reject_media_types", fetch.reject_media_types)
    found.within("fetch.max_content_length", fetch.max_content_length, 0, 1 << 40)
    if fetch.proxy:
        _proxy(found, fetch.proxy)
    _credentials(found, fetch.credentials)


def _media_types(found: _Problems, path: str, values: tuple[str, ...]) -> None:
    if len(values) > MAX_MEDIA_TYPES:
        found[path] = f"{len(values)} media types; at most {MAX_MEDIA_TYPES} are taken"
        return
    for place, value in enumerate(values):
        if not _MEDIA_TYPE.fullmatch(value):
            found[f"{path}[{place}]"] = f"{value[:80]!r} is no media type such as text/html or text/*"


def _proxy(found: _Problems, proxy: str) -> None:
    wrong = "is not http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT"
    try:
        parts = urlsplit(proxy)
        good = parts.scheme == "http" and parts.hostname and parts.port
    except ValueError:
        good = False
    if not good or not _PRINTABLE.fullmatch(proxy) or parts.path not in ("", "/") or parts.query:
        # Its password is nobody's business who sees the error.
        found["fetch.proxy"] = f"{proxy.rpartition('@')[2][:80]!r} {wrong}"


def _credentials(found: _Problems, credentials: tuple[Credential, ...]) -> None:
    if len(credentials) > MAX_CREDENTIALS:
        found["fetch.credentials"] = f"{len(credentials)} credentials; at most {MAX_CREDENTIALS} are taken"
        return
    for place, each in enumerate(credentials):
        path = f"fetch.credentials[{place}]"
        try:
            surt_prefix(each.surt_prefix)
        except Malformed as problem:
            found[f"{path}.surt_prefix"] = str(problem)
        if not 1 <= len(each.user) <= 256 or ":" in each.user or not each.user.isprintable():
            found[f"{path}.user"] = f"{each.user[:80]!r} is not 1 to 256 characters without colon"
        if len(each.password) > 256 or not (each.password.isprintable() or not each.password):
            found[f"{path}.password"] = "it has control characters, or more than 256 characters"


def _extract(found: _Problems, extract: ExtractSettings) -> None:
    found.within("extract.max_links", extract.max_links, 0, 100_000)


def _limits(found: _Problems, limits: LimitSettings) -> None:
    found.within("limits.max_documents", limits.max_documents, 0, MAX_COUNT)
    found.within("limits.max_bytes", limits.max_bytes, 0, MAX_COUNT)
    found.within_ms("limits.max_elapsed", limits.max_elapsed_ms, 0, 10 * YEAR_MS)
    _quota(found, "limits.host_quota", limits.host_quota)
    _quota(found, "limits.source_quota", limits.source_quota)


def _quota(found: _Problems, path: str, quota: QuotaSettings) -> None:
    found.within(f"{path}.max_successes", quota.max_successes, 0, MAX_COUNT)
    found.within(f"{path}.max_success_bytes", quota.max_success_bytes, 0, MAX_COUNT)
    found.within(f"{path}.max_responses", quota.max_responses, 0, MAX_COUNT)
    found.within(f"{path}.max_response_bytes", quota.max_response_bytes, 0, MAX_COUNT)


def _identity(found: _Problems, identity: IdentitySettings) -> None:
    for place, name in enumerate(found.at_most("identity.rules", identity.rules, MAX_RULES, "rules")):
        found.one_of(f"identity.rules[{place}]", name, RULES)
    rewrites = found.at_most("identity.rewrites", identity.rewrites, MAX_REWRITES, "rewrites")
    for place, rewrite in enumerate(rewrites):
        try:
            compile_rewrite(rewrite.pattern, rewrite.replacement, MAX_URI_BYTES)
        except BadPattern as problem:
            found[f"identity.rewrites[{place}].pattern"] = str(problem)
        except BadReplacement as bad:
            found[f"identity.rewrites[{place}].replacement"] = str(bad)


def _queues(found: _Problems, queues: QueueSettings) -> None:
    found.one_of("queues.partition", queues.partition, PARTITIONS)
    found.one_of("queues.assignment", queues.assignment, ASSIGNMENTS)
    found.within("queues.buckets", queues.buckets, 1, 1_000_000)
    found.within("queues.parallel_queues", queues.parallel_queues, 1, 1_000)
    if queues.queue_key and not _QUEUE_KEY.fullmatch(queues.queue_key):
        found["queues.queue_key"] = (
            f"{queues.queue_key[:80]!r} is not 1 to 256 ASCII characters without spaces"
        )
    found.one_of("queues.cost", queues.cost, POLICIES)
    found.one_of("queues.uri_precedence", queues.uri_precedence, URI_POLICIES)
    found.one_of("queues.queue_precedence", queues.queue_precedence, QUEUE_POLICIES)
    found.within("queues.base_precedence", queues.base_precedence, 0, MAX_QUEUE_PRECEDENCE)
    thresholds = queues.success_thresholds
    if queues.queue_precedence == "success-counts" and not thresholds:
        found["queues.success_thresholds"] = "there is none; success-counts takes one at least"
    thresholds = found.at_most("queues.success_thresholds", thresholds, MAX_THRESHOLDS, "thresholds")
    for place, threshold in enumerate(thresholds):
        found.within(f"queues.success_thresholds[{place}]", threshold, 1, MAX_COUNT)
    found.within("queues.precedence_floor", queues.precedence_floor, 0, MAX_QUEUE_PRECEDENCE + 1)
    found.within("queues.session_budget", queues.session_budget, -1, MAX_COUNT)
    found.within("queues.total_budget", queues.total_budget, -1, MAX_COUNT)
    found.within("queues.error_penalty", queues.error_penalty, 0, 1_000_000)


def _revisit(found: _Problems, revisit: RevisitSettings) -> None:
    found.one_of("revisit.policy", revisit.policy, REVISIT_POLICIES)
    found.within_ms("revisit.min_interval", revisit.min_interval_ms, 1_000, 10 * YEAR_MS)
    found.within_ms("revisit.max_interval", revisit.max_interval_ms, revisit.min_interval_ms, 10 * YEAR_MS)
    least, most = 1_000, 10 * YEAR_MS
    if revisit.policy == "adaptive" and revisit.min_interval_ms <= revisit.max_interval_ms:
        least, most = revisit.min_interval_ms, revisit.max_interval_ms
    found.within_ms("revisit.interval", revisit.interval_ms, least, most)
    found.within("revisit.growth", revisit.growth, 1, 100)
    if not 0 < revisit.shrink <= 1:
        found["revisit.shrink"] = f"{revisit.shrink} is not above 0 and at most 1"


def _reseed(found: _Problems, reseed: ReseedSettings) -> None:
    found.within("reseed.max_rounds", reseed.max_rounds, -1, 1_000_000)
    # Seeds that answer at once would otherwise be fetched round and round without a rest.
    least = 1_000 if reseed.max_rounds == -1 else 0
    found.within_ms("reseed.min_interval", reseed.min_interval_ms, least, YEAR_MS)


def _groups(found: _Problems, groups: tuple[GroupSettings, ...], identity: IdentitySettings) -> None:
    names: dict[str, int] = {}
    hosts: dict[str, str] = {}  # host → path of its group
    groups = found.at_most("groups", groups, MAX_GROUPS, "groups")
    together = sum(len(group.hosts) for group in groups)
    if together > MAX_HOSTS:
        found["groups"] = f"{together} hosts together; at most {MAX_HOSTS} are taken"
        groups = ()
    for place, group in enumerate(groups):
        path = f"groups[{place}]"
        if not _GROUP_NAME.fullmatch(group.name):
            found[f"{path}.name"] = (
                f"{group.name[:80]!r} is not 1 to 64 of a-z 0-9 . _ -, a letter or digit first"
            )
        elif names.setdefault(group.name, place) != place:
            found[f"{path}.name"] = f"{group.name!r} is the name of groups[{names[group.name]}] already"
        if not group.hosts:
            found[f"{path}.hosts"] = "there is none; a group is its hosts"
        for number, host in enumerate(group.hosts):
            try:
                bare, authority = parse_authority(host)
            except Malformed as problem:
                found[f"{path}.hosts[{number}]"] = str(problem)
                continue
            if bare != authority:
                found[f"{path}.hosts[{number}]"] = f"{host!r} has a port; a group is of whole hosts"
                continue
            for member in group_members(bare, identity):
                if hosts.setdefault(member, path) != path:
                    found[f"{path}.hosts[{number}]"] = f"{member} is in {hosts[member]} already"
        found.within(f"{path}.max_parallel", group.max_parallel, 1, 1_000)
        found.within_ms(f"{path}.min_gap", group.min_gap_ms, 0, DAY_MS)
