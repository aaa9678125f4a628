"""Finds all problems of a crawl's settings, each with its path in the spec.

A problem follows its path in an error: `scope.max_link_hops` and `must be between 0 and 10000, got 10001`.
The table (`settings.py`) has the bounds of single fields, and this module the rules that need a parser or
several fields.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_network
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..rules.disposition import RULED
from ..spec.settings import (
    MAX_HOSTS,
    CrawlSettings,
    Credential,
    FetchSettings,
    GroupSettings,
    IdentitySettings,
    QueueSettings,
    ReseedSettings,
    RetrySettings,
    RevisitSettings,
    ScopeSettings,
)
from ..spec.table import MAX_SHOWN, Fixed, rows_of, shown
from ..uri.assign import group_members
from ..uri.canonical import MAX_URI_BYTES, Malformed
from ..uri.pattern_slips import slip
from ..uri.patterns import BadPattern, BadReplacement, compile_pattern, compile_rewrite
from ..uri.scope import parse_authority, parse_prefix
from ..uri.surt import surt_prefix

MAX_CONTACT_CHARACTERS = 500
MAX_NETWORK_CHARACTERS = 64
OVERRIDABLE = ("politeness", "retry", "fetch", "extract", "queues", "revisit")  # and limits.host_quota
FIXED_FOR_LIFE = "cannot change after the crawl was created"

_CONTACT = re.compile(
    r"https?://[^\s/()]+\.[^\s()]*|https?://localhost[^\s()]*|[^\s@()]+@[^\s@()]+\.[^\s@()]+"
)
_PRINTABLE = re.compile(r"[!-~]{1,500}")
_NODES_OWN = frozenset(
    (
        *("accept-encoding", "authorization", "connection", "cookie", "cookie2", "expect", "host"),
        *("keep-alive", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    )
)
_NODES_OWN_START = ("if-", "proxy-", "content-", "sec-")
"""Headers of requests that nodes send by themselves, or that a request without a body cannot have."""
_HOST = "must be HOST or HOST:PORT"
_PREFIX = "must be a host, an http(s) URL or a SURT prefix such as http://(com,example,www,)/folder/"

T = TypeVar("T")


def problems(settings: CrawlSettings) -> dict[str, str]:
    """The problems of a crawl's settings: path in the spec → problem."""
    found = _Problems()
    _contact(found, settings)
    found.check("", settings)
    _addresses(found, settings.allowed_addresses)
    identity = settings.identity
    if any(path.startswith("identity.") for path in found):
        identity = IdentitySettings()  # invalid rules make no two hosts the same
    _groups(found, settings.groups, identity)
    return found


def override_problems(settings: CrawlSettings) -> dict[str, str]:
    """The problems of the settings that an override makes: path in the override → problem.

    Only settings that an override can have are checked. The crawl's own settings are valid, but an override
    may contradict them.
    """
    found = _Problems()
    for part in OVERRIDABLE:
        found.check(f"{part}.", getattr(settings, part))
    found.check("host_quota.", settings.limits.host_quota)
    return found


def fixed_problems(before: CrawlSettings, after: CrawlSettings) -> dict[str, str]:
    """The changes of settings that an existing crawl cannot take: path in the spec → problem."""
    found = dict.fromkeys(_changed("", before, after), FIXED_FOR_LIFE)
    if _members(after.groups) != _members(before.groups):
        found["groups"] = f"{FIXED_FOR_LIFE}, except for max_parallel and min_gap"
    if not set(before.scope.hosts) <= set(after.scope.hosts):
        gone = min(set(before.scope.hosts) - set(after.scope.hosts))
        found["scope.hosts"] = f"can only grow, but {gone[:MAX_SHOWN]!r} is missing"
    return found


def _changed(path: str, before: object, after: object) -> Iterator[str]:
    """The paths of settings that are fixed for a crawl's life and differ."""
    kind: type = type(before)
    for row in rows_of(kind):
        old, new = getattr(before, row.name), getattr(after, row.name)
        if Fixed.FOR_LIFE in row.fixed:
            if old != new:
                yield f"{path}{row.contract_name}"
        elif row.is_part:
            yield from _changed(f"{path}{row.contract_name}.", old, new)


def _members(groups: tuple[GroupSettings, ...]) -> dict[str, tuple[str, ...]]:
    return {group.name: group.hosts for group in groups}


class _Problems(dict[str, str]):
    """Path → problem."""

    def check(self, path: str, part: object) -> None:
        """Check each field of the part at `path` against the table, then the part as a whole."""
        kind: type = type(part)
        for row in rows_of(kind):
            name, value = f"{path}{row.contract_name}", getattr(part, row.name)
            if row.is_part:
                self.check(f"{name}.", value)
            elif row.bound is not None and (problem := row.bound.problem(value, row.ms)):
                self[name] = problem
            elif row.not_below and value < (least := getattr(part, row.not_below)):
                other = f"{path}{row.not_below.removesuffix('_ms')} ({shown(least, row.ms)})"
                self[name] = f"must be at least {other}, got {shown(value, row.ms)}"
            elif row.element_is_part:
                for at, each in self.each(name, value):
                    self.check(f"{at}.", each)
            elif row.element_bound is not None:
                for at, each in self.each(name, value):
                    if problem := row.element_bound.problem(each, row.ms):
                        self[at] = problem
        if kind in _WHOLES:
            _WHOLES[kind](self, path, part)

    def each(self, path: str, items: Sequence[T]) -> Iterator[tuple[str, T]]:
        """The items of a list with their paths; none if the list itself has a problem."""
        if path not in self:
            for place, item in enumerate(items):
                yield f"{path}[{place}]", item


def _contact(found: _Problems, settings: CrawlSettings) -> None:
    right = "must be an http(s) URL or an e-mail address"
    if settings.contact:
        contact = settings.contact[: MAX_CONTACT_CHARACTERS + 1]
        if len(contact) > MAX_CONTACT_CHARACTERS:
            found["contact"] = f"must have at most {MAX_CONTACT_CHARACTERS} characters"
        elif not _CONTACT.fullmatch(contact) or not contact.isascii():
            found["contact"] = f"{right}, got {contact!r}"
    elif settings.allowed_addresses != ("loopback",):
        found["contact"] = f"{right} unless allowed_addresses is only loopback, got nothing"


def _addresses(found: _Problems, addresses: tuple[str, ...]) -> None:
    for path, address in found.each("allowed_addresses", addresses):
        if address in ("loopback", "public"):
            if len(addresses) > 1:
                found[path] = f"must stand alone, got {address!r} among {len(addresses)} addresses"
            continue
        told = address[:MAX_NETWORK_CHARACTERS]
        network = _network(told) if told == address else None
        if network is None:
            found[path] = f"must be loopback, public or a network such as 10.1.0.0/16, got {told!r}"
        elif network != told and "/" in told and _network(told, strict=True) is None:
            found[path] = f"must be the network {network}, with all host bits 0, got {told!r}"


def _network(text: str, strict: bool = False) -> str | None:
    """A network in its usual spelling; None if the text is none. `strict` refuses bits of a host."""
    try:
        return str(ip_network(text, strict=strict))
    except ValueError:
        return None


def _scope(found: _Problems, path: str, scope: ScopeSettings) -> None:
    for at, host in found.each(f"{path}hosts", scope.hosts):
        if not _parses(parse_authority, host):
            found[at] = f"{_HOST}, got {host[:MAX_SHOWN]!r}"
    known: dict[str, str] = {}
    for at, text in found.each(f"{path}surt_prefixes", scope.surt_prefixes):
        try:
            _, prefix = parse_prefix(text)
        except Malformed:
            found[at] = f"{_PREFIX}, got {text[:MAX_SHOWN]!r}"
            continue
        if known.setdefault(prefix, at) != at:
            found[at] = f"must differ from {known[prefix]}, but both are {prefix[:MAX_SHOWN]}"
    for name, patterns in (
        ("accept_patterns", scope.accept_patterns),
        ("reject_patterns", scope.reject_patterns),
        ("required_patterns", scope.required_patterns),
    ):
        for at, pattern in found.each(f"{path}{name}", patterns):
            try:
                compile_pattern(pattern)
            except BadPattern as bad:
                found[at] = f"must be a valid RE2 pattern: {bad}"
                continue
            problem = slip(pattern)
            if problem:
                found[at] = problem


def _retry(found: _Problems, path: str, retry: RetrySettings) -> None:
    known: dict[int, str] = {}
    for at, rule in found.each(f"{path}statuses", retry.statuses):
        if rule.fetch_status not in RULED:
            found[f"{at}.fetch_status"] = f"must be -10, -5 to -1 or 400 to 999, got {rule.fetch_status}"
        elif known.setdefault(rule.fetch_status, at) != at:
            found[f"{at}.fetch_status"] = (
                f"must differ from that of {known[rule.fetch_status]}, got {rule.fetch_status}"
            )


def _fetch(found: _Problems, path: str, fetch: FetchSettings) -> None:
    try:
        parts = urlsplit(fetch.proxy)
        good = parts.scheme == "http" and parts.hostname and parts.port
    except ValueError:
        good = False
    if fetch.proxy and (
        not good
        or not _PRINTABLE.fullmatch(fetch.proxy)
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        # The error must not show the proxy's password.
        told = fetch.proxy.rpartition("@")[2][:MAX_SHOWN]
        found[f"{path}proxy"] = f"must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, got {told!r}"
    if problem := _template_problem(fetch.user_agent):
        found.setdefault(f"{path}user_agent", problem)
    known: dict[str, str] = {}
    for at, header in found.each(f"{path}headers", fetch.headers):
        name = header.partition(":")[0].lower()
        if at in found:
            continue
        if name in _NODES_OWN or name.startswith(_NODES_OWN_START):
            found[at] = f"must be a header that nodes do not send by themselves, got {name}"
        elif known.setdefault(name, at) != at:
            found[at] = f"must have another name than {known[name]}, got {name}"


def _template_problem(template: str) -> str:
    """What is wrong with a template of user agents."""
    names = re.findall(r"\{([^{}]*)\}", template)
    rest = re.sub(r"\{[^{}]*\}", "", template)
    right = "must have {product} and {contact}, and may have {version}"
    if "{" in rest or "}" in rest:
        return f"{right}, got a single bracket in {template[:MAX_SHOWN]!r}"
    if unknown := sorted(set(names) - {"product", "version", "contact"}):
        return f"{right}, got {{{unknown[0][:MAX_SHOWN]}}}"
    if template and not {"product", "contact"} <= set(names):
        return f"{right}, got {template[:MAX_SHOWN]!r}"
    return ""


def _credential(found: _Problems, path: str, credential: Credential) -> None:
    user, password = credential.user, credential.password
    if not _parses(surt_prefix, credential.surt_prefix):
        found[f"{path}surt_prefix"] = f"{_PREFIX}, got {credential.surt_prefix[:MAX_SHOWN]!r}"
    if not 1 <= len(user) <= 256 or ":" in user or not user.isprintable():
        found[f"{path}user"] = (
            f"must have 1 to 256 characters, without colons or control characters, got {user[:MAX_SHOWN]!r}"
        )
    if len(password) > 256 or not (password.isprintable() or not password):
        found[f"{path}password"] = "must have at most 256 characters, without control characters"


def _identity(found: _Problems, path: str, identity: IdentitySettings) -> None:
    for at, rewrite in found.each(f"{path}rewrites", identity.rewrites):
        try:
            compile_rewrite(rewrite.pattern, rewrite.replacement, MAX_URI_BYTES)
        except BadPattern as problem:
            found[f"{at}.pattern"] = f"must be a valid RE2 pattern: {problem}"
        except BadReplacement as bad:
            found[f"{at}.replacement"] = f"must be a valid replacement: {bad}"


def _queues(found: _Problems, path: str, queues: QueueSettings) -> None:
    if queues.queue_precedence == "success-counts" and not queues.success_thresholds:
        found[f"{path}success_thresholds"] = "must have at least 1 threshold for success-counts, got 0"


def _revisit(found: _Problems, path: str, revisit: RevisitSettings) -> None:
    least, most = revisit.min_interval_ms, revisit.max_interval_ms
    if revisit.policy == "adaptive" and least <= most and not least <= revisit.interval_ms <= most:
        # A problem of the interval itself comes first.
        found.setdefault(
            f"{path}interval",
            f"must be between min_interval ({shown(least, True)}) and max_interval ({shown(most, True)}),"
            f" got {shown(revisit.interval_ms, True)}",
        )


def _reseed(found: _Problems, path: str, reseed: ReseedSettings) -> None:
    # Otherwise seeds that answer at once would be fetched again and again without a rest.
    if reseed.max_rounds == -1 and reseed.min_interval_ms < 1_000:
        told = shown(reseed.min_interval_ms, True)
        found.setdefault(f"{path}min_interval", f"must be at least 1 s for rounds without end, got {told}")


_WHOLES: dict[type, Callable[[_Problems, str, Any], None]] = {
    ScopeSettings: _scope,
    RetrySettings: _retry,
    FetchSettings: _fetch,
    Credential: _credential,
    IdentitySettings: _identity,
    QueueSettings: _queues,
    RevisitSettings: _revisit,
    ReseedSettings: _reseed,
}


def _groups(found: _Problems, groups: tuple[GroupSettings, ...], identity: IdentitySettings) -> None:
    together = sum(len(group.hosts) for group in groups)
    if "groups" not in found and together > MAX_HOSTS:
        found["groups"] = f"must have at most {MAX_HOSTS} hosts in all, got {together}"
    names: dict[str, str] = {}  # → path of the group
    hosts: dict[str, str] = {}  # → path of the group
    for path, group in found.each("groups", groups):
        if f"{path}.name" not in found and names.setdefault(group.name, path) != path:
            found[f"{path}.name"] = f"must differ from that of {names[group.name]}, got {group.name!r}"
        for at, host in found.each(f"{path}.hosts", group.hosts):
            try:
                bare, authority = parse_authority(host)
            except Malformed:
                found[at] = f"{_HOST}, got {host[:MAX_SHOWN]!r}"
                continue
            if bare != authority:
                found[at] = f"must be a host without port, got {host!r}"
                continue
            for member in group_members(bare, identity):
                if hosts.setdefault(member, path) != path:
                    found[at] = f"must be in one group only, but {member} is also in {hosts[member]}"


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except Malformed:
        return False
    return True
