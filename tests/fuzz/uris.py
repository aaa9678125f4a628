"""URIs and what is said of them: canonical forms, SURTs, places, rules of scope, references, patterns."""

from dataclasses import replace

import httpx
from core_doubles.placing import PLACES

from crawler_node.extraction.encoders import encoder_of
from crawler_node.fetching.addresses import parse_resolve
from crawler_node.fetching.proxy import Proxy
from crawler_node.fetching.references import MAX_URI_BYTES, Base
from crawler_node.fetching.transport import FetchTarget as FetchTarget
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, ScopeSettings
from frontier_server.core.uri import assign, scope, surt
from frontier_server.core.uri.canonical import (
    CanonicalUri,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    parsed,
)
from frontier_server.core.uri.identity import RULES, identity_of
from frontier_server.core.uri.patterns import (
    BadPattern,
    BadReplacement,
    PatternList,
    compile_pattern,
    compile_rewrites,
    full_match,
)
from toehold_client.worker.addresses import AddressRule

from .target import Said, Target, encodable, text_of

_REFUSED = (Malformed, TooLong, UnsupportedScheme)
_IDENTITIES = (IdentitySettings(), *(IdentitySettings(rules=(name,)) for name in RULES))
_PLACES = tuple(
    replace(
        CrawlSettings(),
        queues=QueueSettings(partition=partition, assignment=assignment, parallel_queues=count),
    )
    for partition in assign.PARTITIONS
    for assignment in assign.ASSIGNMENTS
    for count in (1, 7)
)
_SCOPE = scope.ScopeRules(
    ScopeSettings(
        hosts=("a.example",),
        surt_prefixes=("+http://(example,a,", "-http://(example,a,)/private/"),
        accept_patterns=(r".*\.pdf",),
        reject_patterns=(r".*calendar.*",),
    )
)


def _canonical(data: bytes) -> Said:
    """A canonical URI is one that stays as it is, and all that is derived from it can be."""
    uri = canonical(text_of(data))
    assert parsed(text_of(data)) == uri, uri
    assert canonical(uri.uri) == uri, uri
    assert uri.uri == f"{uri.scheme}://{uri.authority}{uri.target}", uri
    assert uri.uri.isascii() and len(uri.uri) <= MAX_URI_BYTES, uri
    surt.surt_of(uri)
    for identity in _IDENTITIES:
        same = identity_of(uri, identity)
        assert canonical(same.uri) == same, (identity, uri, same)
        for settings in _PLACES:
            place = PLACES.of_uri(uri, same, settings, {})
            assert len(place.partition) == 8 and len(place.queue) == 16, place
    return uri.scheme, surt.is_address(uri.host), _judged(uri)


def _judged(uri: CanonicalUri) -> tuple[str, ...]:
    return tuple(
        _SCOPE.judge(uri, path, seed, inside)
        for path, seed, inside in (("", True, True), ("L", False, True), ("LLE", False, False))
    )


def _prefix(data: bytes) -> Said:
    """A SURT prefix stands for itself, and a host is in the prefix that it makes."""
    prefix = surt.surt_prefix(text_of(data))
    assert surt.surt_prefix(prefix) == prefix, prefix
    table: surt.SurtPrefixes[bool] = surt.SurtPrefixes()
    table.put(prefix, True)
    assert table.longest(prefix) == (prefix, True)
    return min(prefix.count(","), 3), ")" in prefix


def _seed(data: bytes) -> Said:
    authority = scope.parse_authority(text_of(data))
    return str(authority).count(".") > 1


_ENCODERS = (
    None,
    *(encoder_of(f"whatwg-{name}") for name in ("gb18030", "shift_jis", "iso-2022-jp", "euc-jp", "big5")),
)


def _reference(data: bytes) -> Said:
    """What a reference resolves to resolves to itself."""
    base, _, reference = text_of(data).partition("\n")
    found: list[str | None] = []
    for encoder in _ENCODERS:
        try:
            known = Base(base, encoder)
        except ValueError:
            return "no base"
        uri = known.resolve(reference)
        found.append(uri)
        if uri is not None:
            assert len(uri) <= MAX_URI_BYTES and uri.isascii(), uri
            assert Base(base).resolve(uri) == uri, uri
            known.moved(reference)
    return tuple(uri is None for uri in found)


def _asked_for(data: bytes) -> Said:
    target = FetchTarget.of(text_of(data))
    assert target.path.startswith("/") and target.path.isascii() and 0 <= target.port < 65536, target
    assert not set(target.path + target.authority) & set(" \r\n\0"), target
    return target.scheme, target.port


def _pattern(data: bytes) -> Said:
    """Either one is refused, or it can be asked; alone and among others it says the same."""
    text, _, subject = encodable(data).partition("\n")
    pattern = compile_pattern(text)
    matched = full_match(pattern, subject)
    assert PatternList([text, "nothing"]).first(subject) == (
        0 if matched else None if subject != "nothing" else 1
    )
    return matched


def _rewrite(data: bytes) -> Said:
    pattern, _, rest = encodable(data).partition("\n")
    replacement, _, subject = rest.partition("\n")
    rewritten = compile_rewrites([(pattern, replacement)], MAX_URI_BYTES)(subject)
    assert rewritten == subject or len(rewritten) <= MAX_URI_BYTES
    return rewritten == subject


def _addresses(data: bytes) -> Said:
    text = text_of(data)
    said: list[object] = []
    for read in (
        lambda: AddressRule.parse(text.split("\n")),
        lambda: parse_resolve(text),
        lambda: Proxy.parse(text),
    ):
        try:
            read()
            said.append(True)
        except ValueError as problem:
            said.append(type(problem).__name__)
    return tuple(said)


_URIS = (
    b"http://www.example.com/a/b;jsessionid=0123456789abcdef0123456789abcdef?x=1&sid=2#top",
    b"https://user:word@example.co.uk:8443/a//b/../c?q=%e4%b8%ad&&",
    b"http://[2001:db8::1]:80/",
    b"http://0x7f.1/index.html",
    "http://bücher.example/straße?ä=ö".encode(),
    b"http://a.example./x.?",
    b"http://www2.a.example/CFIDE?CFID=1&CFTOKEN=2",
    b"ftp://a.example/",
    b"//a.example/calendar/a/a/a/a/b.pdf",
)
_WORDS = (
    *(
        b"http://",
        b"https://",
        b"http:/",
        b"www.",
        b"//",
        b"/../",
        b"/./",
        b"%2e%2e",
        b"xn--",
        b"xn--a.",
        b"[::1]",
    ),
    *(b":80", b":443", b":0", b":65536", b"0x", b"127.1", b"user@", b"?sid=", b";jsessionid=", "ä".encode()),
    *(
        "。".encode(),
        b"%ff",
        b"%00",
        b"..",
        b"...",
        b"calendar",
        b".pdf",
        b"javascript:",
        b"data:,",
        b"file:///",
    ),
)
_PATTERN_WORDS = (
    *(
        b"(?:",
        b"(?i)",
        b"[^",
        b"[[:alpha:]]",
        rb"\Q",
        rb"\E",
        rb"\pL",
        rb"\x{10ffff}",
        b"{1,1000}",
        b"{0}",
        b"*?",
    ),
    *(b"(?P<n>", rb"\1", rb"\9", rb"\\", b".*", b"|", b"^", b"$", b"(?=", b"(a*)*", rb"\b", rb"\C"),
)

_TARGETS = (
    Target("canonical", _canonical, _URIS, _WORDS, _REFUSED),
    Target(
        "surt-prefix",
        _prefix,
        (
            b"example.com",
            b"http://(com,example,www,)/a/",
            b"https://a.example:81/b/c?d",
            b"10.0.0.1",
            b"[::1]:80",
        ),
        (*_WORDS, b"http://(", b"(com,", b",)", b",", b"*"),
        (Malformed,),
    ),
    Target(
        "scope-host",
        _seed,
        (b"a.example", b"http://a.example:81/", b"[::1]", b"https://b.example"),
        _WORDS,
        (Malformed,),
    ),
    Target(
        "reference",
        _reference,
        (
            b"http://a.example/b/c?d\n../e?f#g",
            "http://a.example/\n?q=中文&ß=İ".encode(),
            *(_URIS[0] + b"\n" + each for each in _URIS),
        ),
        _WORDS,
    ),
    Target("asked-for", _asked_for, _URIS, _WORDS, (httpx.UnsupportedProtocol,)),
    Target(
        "pattern",
        _pattern,
        (
            rb"https?://[^/]+/(a|b)*\.html" + b"\nhttp://a.example/ab.html",
            b"(?i).*X{2,5}\nxxx",
            rb"\Qa.b\E" + b"\na.b",
        ),
        _PATTERN_WORDS,
        (BadPattern,),
    ),
    Target(
        "rewrite",
        _rewrite,
        (rb"^https?://m\.(.*)" + b"\n" + rb"http://\1" + b"\nhttp://m.a.example/", b"a*\nbb\naaa"),
        _PATTERN_WORDS,
        (BadPattern, BadReplacement),
    ),
    Target(
        "addresses",
        _addresses,
        (
            b"loopback",
            b"10.0.0.0/8\n2001:db8::/32",
            b"a.example:80:127.0.0.1,[::1]",
            b"http://u:p@proxy.example:3128",
        ),
        (*_WORDS, b"/8", b"/129", b"public", b"::ffff:1.2.3.4", b"%eth0"),
    ),
)

TARGETS = tuple(replace(target, most_bytes=MAX_URI_BYTES) for target in _TARGETS)
"""Longer ones are refused, or cut, by whoever reads them."""
