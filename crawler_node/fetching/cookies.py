"""CookieJars: keeps cookies and sends them back as RFC 6265 says, for each crawl by itself, within bounds.

The standard library's jar does not know public suffixes, sends the cookies of a host to those below it, and
grows as large as servers like. What servers send is read apart from what is kept (`cookies_in`), so that the
process that keeps the cookies of others need not read it.
"""

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from email.utils import mktime_tz, parsedate_tz
from functools import cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec
from publicsuffixlist import PublicSuffixList

from .addresses import literal

MAX_COOKIES = 50
"""The most cookies of a host; one more pushes out one that has ended, or the one that was set or sent least
recently (RFC 6265 5.3)."""

MAX_COOKIE_BYTES = 4096
"""The most bytes of a cookie's name and value; longer ones are dropped (RFC 6265 6.1)."""

MAX_ATTRIBUTE_BYTES = 1024
"""Longer attributes are ignored, as browsers do."""

MAX_HEADER_BYTES = 8000
"""The longest Cookie header: common servers refuse lines of more than 8 KiB."""

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""The most bytes of all cookies of all crawls; the host whose last use is longest ago goes first."""

OVERHEAD_BYTES = 300
"""The memory of a cookie in addition to its text."""


class Cookie(msgspec.Struct, array_like=True, gc=False):
    """A cookie of a domain."""

    name: bytes
    value: bytes
    path: str
    host_only: bool
    secure: bool
    expires_s: float  # since the epoch; infinite for one that lasts as long as the jar
    serial: int = 0  # the lower, the older

    @property
    def size_bytes(self) -> int:
        return len(self.name) + len(self.value) + len(self.path) + OVERHEAD_BYTES


_OF_HTTPS, _OF_THIS_HOST = b"__secure-", b"__host-"

_Key = tuple[bytes, str]  # name and path
_Host = tuple[str, str]  # crawl and domain


class CookieHeader(NamedTuple):
    """A Cookie header, empty if no cookie fits. And the mark of the header over https, which is the same for
    the same header and tells nothing of it: a page over http may redirect there, and be redirected to."""

    text: bytes
    mark: bytes


NO_COOKIES = CookieHeader(b"", b"")

MARK_BYTES = 8


class Cookies(Protocol):
    """The cookies of all crawls of a node. Thread-safe. Paths may include a query."""

    def header(self, crawl: str, host: str, path: str, *, https: bool) -> CookieHeader:
        """The Cookie header for a request."""

    def take(self, crawl: str, host: str, path: str, lines: Iterable[bytes], *, https: bool) -> None:
        """Takes in the Set-Cookie headers of an answer, without those that break a rule. The next `header`
        has them, in whichever process of the node."""


class CookieJars:
    """Cookies, kept in this process. `clock` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._hosts: OrderedDict[_Host, dict[_Key, Cookie]] = OrderedDict()  # least recently used first, both
        self._kept_bytes = 0
        self._serial = 0
        self._key = secrets.token_bytes(16)

    def header(self, crawl: str, host: str, path: str, *, https: bool) -> CookieHeader:
        if not self._hosts:
            return NO_COOKIES
        host, path, now_s = _canonical(host), path.partition("?")[0], self._clock()
        fitting: list[Cookie] = []
        with self._lock:
            for domain in _domains(host):
                cookies = self._hosts.get((crawl, domain))
                if cookies is None:
                    continue
                self._hosts.move_to_end((crawl, domain))
                used = [
                    (key, each)
                    for key, each in cookies.items()
                    if (domain == host or not each.host_only)
                    and each.expires_s > now_s
                    and _path_matches(path, each.path)
                ]
                for key, each in used:
                    del cookies[key]
                    cookies[key] = each
                    fitting.append(each)
        if not fitting:
            return NO_COOKIES
        fitting.sort(key=lambda each: (-len(each.path), each.serial))
        mark = blake2b(_joined(fitting), digest_size=MARK_BYTES, key=self._key).digest()
        return CookieHeader(_joined([each for each in fitting if https or not each.secure]), mark)

    def take(self, crawl: str, host: str, path: str, lines: Iterable[bytes], *, https: bool) -> None:
        self.keep(crawl, cookies_in(lines, host, path, self._clock(), https=https), https=https)

    def keep(self, crawl: str, cookies: Iterable[tuple[str, Cookie]], *, https: bool) -> None:
        """Takes in cookies of an answer, with their domains. One that has ended removes its predecessor."""
        now_s = self._clock()
        with self._lock:
            for domain, cookie in cookies:
                self._keep((crawl, domain), cookie, now_s, https)

    def _keep(self, host: _Host, cookie: Cookie, now_s: float, https: bool) -> None:
        cookies = self._hosts.setdefault(host, {})
        key = (cookie.name, cookie.path)
        old = cookies.get(key)
        if old is not None and old.secure and not https:
            return  # nobody on the way may change a cookie that only https may see
        if old is not None:
            self._kept_bytes -= cookies.pop(key).size_bytes
        if cookie.expires_s > now_s:
            if old is not None:
                cookie.serial = old.serial  # a replaced cookie keeps its age (RFC 6265 5.3, 11.3)
            else:
                self._serial += 1
                cookie.serial = self._serial
                if len(cookies) >= MAX_COOKIES:
                    self._kept_bytes -= cookies.pop(_dispensable(cookies, now_s)).size_bytes
            cookies[key] = cookie
            self._kept_bytes += cookie.size_bytes
        self._hosts.move_to_end(host)
        if not cookies:
            del self._hosts[host]
        while self._kept_bytes > MAX_KEPT_BYTES:
            _, dropped = self._hosts.popitem(last=False)
            self._kept_bytes -= sum(each.size_bytes for each in dropped.values())


def _dispensable(cookies: dict[_Key, Cookie], now_s: float) -> _Key:
    """The cookie to push out: one that has ended, else the least recently used one."""
    for key, cookie in cookies.items():
        if cookie.expires_s <= now_s:
            return key
    return next(iter(cookies))


def cookies_in(
    lines: Iterable[bytes], host: str, path: str, now_s: float, *, https: bool
) -> list[tuple[str, Cookie]]:
    """The cookies of an answer's Set-Cookie headers, with their domains, without those that break a rule."""
    host, path = _canonical(host), path.partition("?")[0]
    read = [pair for line in lines if (pair := _read(line, host, path, now_s)) is not None]
    return [
        (domain, cookie)
        for domain, cookie in read
        if (https or not cookie.secure) and _keeps_its_prefix(cookie, https)
    ]


def _read(line: bytes, host: str, request_path: str, now_s: float) -> tuple[str, Cookie] | None:
    """The cookie of a Set-Cookie header, and its domain (RFC 6265 5.2 and 5.3)."""
    pair, _, rest = line.partition(b";")
    name, equals, value = pair.partition(b"=")
    name, value = name.strip(b" \t"), value.strip(b" \t")
    if not (equals and name) or len(name) + len(value) > MAX_COOKIE_BYTES or _CONTROL.search(pair):
        return None
    attributes = _attributes(rest)
    domain = _domain_of(attributes.get("domain", ""), host)
    if domain is None:
        return None
    path = attributes.get("path", "")
    if name[:7].lower() == _OF_THIS_HOST and (path != "/" or attributes.get("domain")):
        return None
    if not path.startswith("/"):
        path = request_path.rpartition("/")[0] or "/"
    expires_s = _expires_s(attributes, now_s)
    return domain[0], Cookie(name, value, path, domain[1], "secure" in attributes, expires_s)


def _keeps_its_prefix(cookie: Cookie, https: bool) -> bool:
    """Whether a cookie is as its name promises (RFC 6265bis, 4.1.3); `_read` has looked at paths and
    domains."""
    named = cookie.name.lower()
    promises = named.startswith((_OF_HTTPS, _OF_THIS_HOST))
    return not promises or (cookie.secure and https)


def _domain_of(named: str, host: str) -> tuple[str, bool] | None:
    """The domain of a cookie whose Domain attribute is `named`, and whether it is for this host only. None if
    the host may not set cookies for that domain (RFC 6265 5.3, 4 to 6)."""
    named = named.removeprefix(".").lower()
    if not named or (named == host and (literal(host) is not None or _is_suffix(host))):
        return host, True
    if literal(host) is not None or _is_suffix(named) or not _domain_matches(host, named):
        return None
    return named, False


def _attributes(text: bytes) -> dict[str, str]:
    """The attributes, with names in lower case. The last one of a name counts."""
    attributes = {}
    for each in text.split(b";"):
        name, _, value = each.partition(b"=")
        if len(value) <= MAX_ATTRIBUTE_BYTES and not _CONTROL.search(each):
            attributes[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
    return attributes


def _expires_s(attributes: dict[str, str], now_s: float) -> float:
    max_age = attributes.get("max-age", "")
    if re.fullmatch(r"-?[0-9]+", max_age, re.ASCII):
        return now_s + int(max_age[:12]) if int(max_age[:12]) > 0 else -1.0
    date = parsedate_tz(attributes.get("expires", "")[:100])
    try:
        return float("inf") if date is None else float(mktime_tz(date))
    except (ValueError, OverflowError):
        return float("inf")


def _joined(cookies: list[Cookie]) -> bytes:
    parts: list[bytes] = []
    length = 0
    for cookie in cookies[:MAX_COOKIES]:
        part = cookie.name + b"=" + cookie.value
        length += len(part) + 2
        if length > MAX_HEADER_BYTES:
            break
        parts.append(part)
    return b"; ".join(parts)


def _canonical(host: str) -> str:
    return host.lower().rstrip(".")


def _domains(host: str) -> Iterable[str]:
    """A host and all domains above it."""
    yield host
    if literal(host) is None:
        while host:
            host = host.partition(".")[2]
            if host:
                yield host


def _domain_matches(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)


def _path_matches(path: str, cookie_path: str) -> bool:
    """RFC 6265 5.1.4."""
    if not path.startswith(cookie_path):
        return False
    return len(path) == len(cookie_path) or cookie_path.endswith("/") or path[len(cookie_path)] == "/"


def _is_suffix(domain: str) -> bool:
    return bool(_suffixes().is_public(domain))


@cache
def _suffixes() -> PublicSuffixList:
    """The list, read at its first use, as that takes some 60 ms."""
    return PublicSuffixList()


_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
