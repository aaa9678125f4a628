"""What is wrong with a crawl's settings: all of it at once, each by its path in the spec."""

import re
from ipaddress import ip_network

from .canonical import Malformed
from .scope import parse_authority
from .settings import DAY_MS, CrawlSettings

_CONTACT = re.compile(
    r"https?://[^\s/()]+\.[^\s()]*|https?://localhost[^\s()]*|[^\s@()]+@[^\s@()]+\.[^\s@()]+"
)
_PRODUCT_TOKEN = re.compile(r"[A-Za-z_-]{1,64}")
MAX_HOSTS, MAX_NETWORKS = 10_000, 1_000
MAX_CONTACT_CHARACTERS = 500


def problems(settings: CrawlSettings) -> dict[str, str]:
    """What is wrong with the settings: path in the spec → what would be right. Empty is good."""
    found: dict[str, str] = {}

    def within(path: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:  # also catches NaN
            found[path] = f"{value} is not within {least} and {most}"

    def within_ms(path: str, value: int, least: int, most: int) -> None:
        least = min(max(least, 0), most)  # which may be another field, wrong itself
        if not least <= value <= most:
            found[path] = f"{value / 1000:g} s is not within {least / 1000:g} s and {most / 1000:g} s"

    addresses = settings.allowed_addresses
    if settings.contact:
        contact = settings.contact[: MAX_CONTACT_CHARACTERS + 1]
        if len(contact) > MAX_CONTACT_CHARACTERS:
            found["contact"] = (
                f"it is longer than {MAX_CONTACT_CHARACTERS} characters, and part of every request"
            )
        elif not _CONTACT.fullmatch(contact) or not contact.isascii():
            found["contact"] = f"{contact!r} is neither an http(s) URL nor an e-mail address"
    elif addresses != ("loopback",):
        found["contact"] = (
            "a contact (http(s) URL or e-mail address) is needed to fetch from addresses beyond loopback"
        )
    if len(addresses) > MAX_NETWORKS:
        found["allowed_addresses"] = f"{len(addresses)} networks; at most {MAX_NETWORKS} are taken"
        addresses = ()
    for place, address in enumerate(addresses):
        if address in ("loopback", "public"):
            if len(addresses) > 1:
                found[f"allowed_addresses[{place}]"] = f"{address!r} stands alone, or not at all"
            continue
        try:
            ip_network(address)
        except ValueError as problem:
            found[f"allowed_addresses[{place}]"] = (
                f"{address!r} is not loopback, public or a network: {problem}"
            )
    hosts = settings.scope.hosts
    if len(hosts) > MAX_HOSTS:
        found["scope.hosts"] = f"{len(hosts)} hosts; at most {MAX_HOSTS} are taken (seeds add their own)"
        hosts = ()
    for place, host in enumerate(hosts):
        try:
            parse_authority(host)
        except Malformed as problem:
            found[f"scope.hosts[{place}]"] = str(problem)
    scope, politeness, robots = settings.scope, settings.politeness, settings.robots
    retry, fetch = settings.retry, settings.fetch
    within("scope.max_link_hops", scope.max_link_hops, 0, 10_000)
    within("scope.max_embed_hops", scope.max_embed_hops, 0, 100)
    within("scope.max_redirect_hops", scope.max_redirect_hops, 0, 100)
    within("politeness.delay_factor", politeness.delay_factor, 0, 1_000)
    within_ms("politeness.min_delay", politeness.min_delay_ms, 0, DAY_MS)
    within_ms("politeness.max_delay", politeness.max_delay_ms, politeness.min_delay_ms, DAY_MS)
    within_ms("politeness.max_crawl_delay", politeness.max_crawl_delay_ms, 0, DAY_MS)
    within_ms("politeness.overload_delay", politeness.overload_delay_ms, 0, DAY_MS)
    within_ms(
        "politeness.max_overload_delay",
        politeness.max_overload_delay_ms,
        politeness.overload_delay_ms,
        DAY_MS,
    )
    within("robots.max_attempts", robots.max_attempts, 1, 1_000)
    within_ms("robots.retry_delay", robots.retry_delay_ms, 0, DAY_MS)
    within_ms("robots.validity", robots.validity_ms, 1_000, 365 * DAY_MS)
    within("retry.max_attempts", retry.max_attempts, 1, 10_000)
    within_ms("retry.delay", retry.delay_ms, 0, DAY_MS)
    within("retry.growth", retry.growth, 1, 100)
    within_ms("retry.max_delay", retry.max_delay_ms, retry.delay_ms, 30 * DAY_MS)
    within_ms("fetch.timeout", fetch.timeout_ms, 1, DAY_MS)
    within("fetch.max_bytes", fetch.max_bytes, 1, 1 << 40)
    if not _PRODUCT_TOKEN.fullmatch(fetch.product_token):
        found["fetch.product_token"] = f"{fetch.product_token[:80]!r} is not 1 to 64 of A-Z a-z - _"
    within("limits.max_documents", settings.limits.max_documents, 0, 1 << 62)
    return found
