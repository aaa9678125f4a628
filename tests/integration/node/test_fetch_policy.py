"""HttpFetcher obeys its policy: patience, media types and lengths, bandwidth, cookies, credentials."""

import base64
import gzip
import socket
import threading
import time
from typing import Any

import pytest
from frontier_harness.waiting import PATIENCE_S
from node_doubles.loopback import (
    LONG_MS,
    SHORT_MS,
    Fetching,
    Site,
    body_of,
    header_lines,
    ok,
    policy,
    redirect,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.authentication import challenged
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.cookies import NO_COOKIES, CookieHeader
from crawler_node.fetching.fetch import FetchPolicy, Validators, header_of
from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.fetching.shared_cookies import CookiesUnavailable

NOTHING = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # the digest of no bytes


# Patience


def test_a_connection_is_waited_for_no_longer_than_the_policy_says(fetcher: Fetching) -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        uri = f"http://127.0.0.1:{full.getsockname()[1]}/"
        fetch = fetcher.fetch(uri, policy(connect_timeout_ms=100))
    assert fetch.status == Status.CONNECT_FAILED
    assert 100 <= fetch.duration_ms < LONG_MS


# Media types and lengths


def typed(media_type: str, body: bytes = b"hello") -> bytes:
    return ok(body, b"Content-Type: " + media_type.encode())


@pytest.mark.parametrize(
    ("accept", "reject", "media_type", "is_read"),
    [
        ((), ("image/*",), "text/html", True),
        ((), ("image/*",), "Image/PNG; x=y", False),
        ((), ("image/png",), "image/jpeg", True),
        (("text/*",), (), "text/html", True),
        (("text/*",), (), "texty/html", False),
        (("TEXT/HTML",), (), "text/html", True),
        (("text/*",), ("text/css",), "text/css", False),
        (("text/*",), ("Text/CSS",), "text/css", False),
        (("application/octet-stream",), (), "", True),
        (("text/*",), (), "", False),
        (("text/*",), (), "nonsense", False),
    ],
)
def test_a_body_is_read_if_its_media_type_is_wanted(
    site: Site,
    fetcher: Fetching,
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    media_type: str,
    is_read: bool,
) -> None:
    site.answers["/"] = typed(media_type)
    selective = policy(accept_media_types=accept, reject_media_types=reject)
    fetch = fetcher.fetch(site.url("/"), selective)
    assert fetch.status == 200
    if is_read:
        assert (body_of(fetch), fetch.truncation, fetch.annotations) == (b"hello", Truncation.NONE, ())
    else:
        assert (fetch.body_bytes, body_of(fetch), fetch.digest) == (0, b"", NOTHING)
        assert (fetch.truncation, fetch.annotations) == (Truncation.FILTER, ())
        assert fetch.response_head.startswith(b"HTTP/1.1 200 OK\r\n"), "the head is kept"


def test_a_body_that_is_not_wanted_is_not_read(site: Site, fetcher: Fetching) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n"
    site.answers["/"] = lambda client: site.drip(client, head, b"x" * 100_000)
    fetch = fetcher.fetch(site.url("/"), policy(reject_media_types=("video/*",)))
    assert (fetch.status, fetch.truncation) == (200, Truncation.FILTER)
    assert site.hung_up.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("body", "is_read"),
    [(b"x" * 10, True), (b"x" * 11, False), (b"", True)],
    ids=["as long", "longer", "empty"],
)
def test_a_body_that_is_announced_too_long_is_not_read(
    site: Site, fetcher: Fetching, body: bytes, is_read: bool
) -> None:
    site.answers["/"] = ok(body)
    fetch = fetcher.fetch(site.url("/"), policy(max_content_length=10))
    assert fetch.truncation is (Truncation.NONE if is_read else Truncation.FILTER)
    assert fetch.body_bytes == (len(body) if is_read else 0)


def test_a_body_of_unknown_length_is_read(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100
    fetch = fetcher.fetch(site.url("/"), policy(max_content_length=10))
    assert (fetch.body_bytes, fetch.truncation) == (100, Truncation.NONE)


def test_a_redirect_whose_body_is_not_wanted_is_told_all_the_same(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = redirect("/there")
    fetch = fetcher.fetch(site.url("/"), policy(accept_media_types=("text/html",)))
    assert (fetch.status, fetch.redirect_target) == (301, site.url("/there"))
    assert fetch.truncation is Truncation.FILTER


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n"]
)
def test_an_answer_without_body_is_not_cut(site: Site, fetcher: Fetching, head: bytes) -> None:
    site.answers["/"] = head
    fetch = fetcher.fetch(site.url("/"), policy(accept_media_types=("text/html",)))
    assert (fetch.truncation, fetch.annotations) == (Truncation.NONE, ())


def test_a_page_that_has_not_changed_is_so_whatever_is_wanted(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 304 Not Modified\r\nContent-Type: image/png\r\nContent-Length: 99\r\n\r\n"
    selective = policy(accept_media_types=("text/html",), max_content_length=10)
    fetch = fetcher.fetch(site.url("/"), selective, validators=Validators('"7"'))
    assert (fetch.unchanged, fetch.truncation) == (True, Truncation.NONE)


def test_robots_txt_is_read_whatever_it_is(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = typed("image/png", b"User-agent: *")
    selective = policy(accept_media_types=("text/html",), max_content_length=1)
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), selective)
    assert (body_of(fetch), fetch.truncation) == (b"User-agent: *", Truncation.NONE)


# Bandwidth


def test_the_limit_of_bandwidth_acts_on_the_very_fetch(site: Site, fetcher: Fetching) -> None:
    """D15: in Heritrix it acts one fetch late."""
    site.answers["/"] = ok(b"x" * 20_000)
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes_per_second=100_000))
    assert (fetch.body_bytes, fetch.truncation) == (20_000, Truncation.NONE)
    assert 190 <= fetch.duration_ms < LONG_MS


def test_a_server_is_held_back_by_the_limit(site: Site, fetcher: Fetching) -> None:
    """D15: what is not read does not pile up on our side."""
    sent: list[int] = []
    told = threading.Event()

    def answer(client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                sent.append(client.send(b"x" * 4096))
        finally:
            told.set()

    site.answers["/"] = answer
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=SHORT_MS, max_bytes_per_second=20_000))
    assert (fetch.status, fetch.truncation) == (200, Truncation.TIME)
    assert 0 < fetch.body_bytes <= 20 * fetch.duration_ms + 2_000
    assert told.wait(PATIENCE_S)
    assert sum(sent) < 200_000


def test_the_fetches_of_a_node_share_its_limit(site: Site, resolver: Resolver) -> None:
    site.answers["/"] = ok(b"x" * 20_000)
    fetcher = Fetching(resolver, max_bytes_per_second=200_000)
    started_s = time.monotonic()
    threads = [
        threading.Thread(target=lambda: fetcher.fetch(site.url("/"), policy(max_bytes_per_second=10**9)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.29 <= time.monotonic() - started_s < LONG_MS / 1_000
    assert all(fetch.body_bytes == 20_000 for fetch in fetcher.fetches)
    fetcher.close()


def test_a_fetch_that_waits_for_bandwidth_ends_at_the_deadline(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"x" * 100_000)
    fetch = fetcher.fetch(site.url("/"), policy(timeout_ms=SHORT_MS, max_bytes_per_second=10))
    assert (fetch.status, fetch.truncation) == (200, Truncation.TIME)
    assert SHORT_MS <= fetcher.took_ms < LONG_MS


def test_a_fetch_that_waits_for_bandwidth_can_be_cut(site: Site, fetcher: Fetching) -> None:
    cancellation, waiting = Cancellation(), threading.Event()

    def answer(client: socket.socket) -> None:
        client.sendall(ok(b"x" * 1000))
        waiting.set()

    site.answers["/"] = answer

    def cut() -> None:
        waiting.wait(PATIENCE_S)
        cancellation.cancel()

    thread = threading.Thread(target=cut)
    thread.start()
    fetch = fetcher.fetch(site.url("/"), policy(max_bytes_per_second=1), cancellation)
    thread.join()
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


# Headers


def sent(site: Site, fetcher: Fetching, via: str = "", **more: Any) -> dict[bytes, list[bytes]]:
    """The headers of a page's request that depend on the policy."""
    site.answers["/"] = ok(b"")
    fetcher.fetch(site.url("/"), policy(**more), via=via)
    names = (b"Accept", b"Accept-Language", b"From", b"Referer")
    return {name: lines for name in names if (lines := header_lines(site.requests[-1], name))}


def test_requests_have_the_headers_of_their_policy(site: Site, fetcher: Fetching) -> None:
    assert sent(site, fetcher, headers=()) == {b"Accept": [b"*/*"]}
    german = (header_of("Accept-Language: de"), header_of("From:me@example.org"))
    assert sent(site, fetcher, headers=german) == {
        b"Accept": [b"*/*"],
        b"Accept-Language": [b"de"],
        b"From": [b"me@example.org"],
    }
    own = (header_of("Accept: text/html;q=1, */*;q=0.1"),)
    assert sent(site, fetcher, headers=own) == {b"Accept": [b"text/html;q=1, */*;q=0.1"]}


@pytest.mark.parametrize(
    ("via", "told"),
    [
        ("http://a.example/page?x", True),
        ("https://a.example/", False),
        ("", False),
        ("dns:a.example", False),
        ("http://a.example/a b\r\nX: y", False),
        ("http://a.example/é", False),
    ],
)
def test_a_request_tells_the_page_that_links_to_it_if_the_policy_says_so(
    site: Site, fetcher: Fetching, via: str, told: bool
) -> None:
    assert b"Referer" not in sent(site, fetcher, via)
    referers = sent(site, fetcher, via, referer=True).get(b"Referer", [])
    assert referers == ([via.encode()] if told else [])


def test_a_site_that_a_robots_txt_redirects_to_gets_no_headers_of_another_ones_policy(
    site: Site, fetcher: Fetching
) -> None:
    other = Site()
    other.answers["/"] = ok(b"")
    site.answers["/robots.txt"] = redirect("/r")
    site.answers["/r"] = redirect(other.url("/"))
    try:
        fetcher.fetch_robots(site.url("/robots.txt"), policy(headers=(header_of("X-Key: secret"),)))
        asked = [[header_lines(each, b"X-Key") for each in served.requests] for served in (site, other)]
    finally:
        other.close()
    assert asked == [[[b"secret"], [b"secret"]], [[]]]


@pytest.mark.parametrize("text", ["", "Name", ": x", "Name: x\r\nOther: y", "Näme: x"])
def test_a_policy_with_a_header_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be `Name: value`"):
        header_of(text)


# Cookies


def cookies_of(site: Site) -> list[list[bytes]]:
    return [header_lines(request, b"Cookie") for request in site.requests]


def test_cookies_are_kept_and_sent_back_by_crawl(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"", b"Set-Cookie: a=b; Path=/", b"set-cookie: c=d")
    for crawl in ("one", "one", "two"):
        fetcher.fetch(site.url("/", "www.alpha.example"), policy(cookies=True), crawl=crawl)
    fetcher.fetch(site.url("/", "www.beta.example"), policy(cookies=True), crawl="one")
    assert cookies_of(site) == [[], [b"a=b; c=d"], [], []]


def test_a_mark_tells_whether_cookies_have_changed_and_nothing_else(site: Site, fetcher: Fetching) -> None:
    keeps = policy(cookies=True)
    site.answers["/"] = ok(b"", b"Set-Cookie: a=b; Path=/")
    site.answers["/x"] = ok(b"", b"Set-Cookie: x=y; Path=/x")
    first = fetcher.fetch(site.url("/"), keeps, crawl="one")
    now = fetcher.cookie_mark(site.url("/"), keeps, "one")
    assert (first.cookie_mark, len(now)) == (b"", 8)
    assert fetcher.fetch(site.url("/x"), keeps, crawl="one").cookie_mark == now
    assert fetcher.fetch(site.url("/"), keeps, crawl="one").cookie_mark == now, "those of /x are not for it"
    assert fetcher.cookie_mark(site.url("/x"), keeps, "one") not in (now, b"")
    assert fetcher.cookie_mark(site.url("/"), keeps, "two") == b""
    assert fetcher.cookie_mark(site.url("/"), policy(), "one") == b""
    other = Fetching(Resolver())
    other.fetch(site.url("/"), keeps, crawl="one")
    assert other.cookie_mark(site.url("/"), keeps, "one") != now, "nobody can find the cookie by trying"
    other.close()


@pytest.mark.parametrize(
    ("cookies", "answer", "notes"),
    [
        (False, b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /r\r\n\r\n", ("cookiesIgnored",)),
        (False, b"HTTP/1.1 302 Found\r\nLocation: /r\r\n\r\n", ()),
        (False, ok(b"", b"Set-Cookie: a=b"), ()),
        (True, b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /r\r\n\r\n", ()),
    ],
)
def test_a_redirect_that_sets_a_cookie_in_vain_says_so(
    site: Site, fetcher: Fetching, cookies: bool, answer: bytes, notes: tuple[str, ...]
) -> None:
    site.answers["/"] = answer
    assert fetcher.fetch(site.url("/"), policy(cookies=cookies)).annotations == notes


def test_a_robots_txt_behind_a_cookie_wall_is_read(site: Site, fetcher: Fetching) -> None:
    def wall(client: socket.socket) -> None:
        is_open = header_lines(site.requests[-1], b"Cookie") == [b"a=b"]
        moved = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /robots.txt\r\n\r\n"
        client.sendall(ok(b"User-agent: *") if is_open else moved)

    site.answers["/robots.txt"] = wall
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy(cookies=True))
    assert (fetch.status, body_of(fetch), len(fetch.hops)) == (200, b"User-agent: *", 1)


class AbsentCookies:
    """Cookies that cannot be had at one moment: for a request (`header`), or after an answer (`take`)."""

    def __init__(self, moment: str) -> None:
        self._moment = moment

    def header(self, *_: object, https: bool) -> CookieHeader:
        self._reached("header")
        return NO_COOKIES

    def take(self, *_: object, https: bool) -> None:
        self._reached("take")

    def _reached(self, moment: str) -> None:
        if moment == self._moment:
            raise CookiesUnavailable("the supervisor is gone")


@pytest.mark.parametrize(("moment", "requests"), [("header", 0), ("take", 1)])
def test_a_fetch_whose_cookies_cannot_be_had_is_put_off(
    site: Site, resolver: Resolver, moment: str, requests: int
) -> None:
    """Also a redirect: it would be followed without the cookie that it sets."""
    site.answers["/"] = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /r\r\n\r\n"
    fetcher = Fetching(resolver, cookies=AbsentCookies(moment))
    for fetch in (fetcher.fetch, fetcher.fetch_robots):
        got = fetch(site.url("/"), policy(cookies=True))
        assert (got.status, got.reason) == (Status.DEFERRED, "the supervisor is gone")
        assert got.redirect_target is None
    assert len(site.requests) == 2 * requests
    assert fetcher.fetch(site.url("/"), policy()).status == 302, "a crawl without cookies asks for none"
    fetcher.close()


def test_cookies_of_redirects_robots_and_errors_count_too(site: Site, fetcher: Fetching) -> None:
    site.answers["/robots.txt"] = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /r\r\n\r\n"
    site.answers["/r"] = b"HTTP/1.1 404 Not Found\r\nSet-Cookie: c=d\r\n\r\n"
    site.answers["/"] = b"HTTP/1.1 304 Not Modified\r\nSet-Cookie: e=f\r\n\r\n"
    fetcher.fetch_robots(site.url("/robots.txt"), policy(cookies=True))
    for _ in range(2):
        fetch = fetcher.fetch(site.url("/"), policy(cookies=True), validators=Validators('"7"'))
        assert fetch.unchanged
    assert cookies_of(site) == [[], [b"a=b"], [b"a=b; c=d"], [b"a=b; c=d; e=f"]]
    assert fetch.request_head == site.requests[-1]


def test_no_cookies_are_kept_or_sent_without_the_setting(site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = ok(b"", b"Set-Cookie: a=b")
    for cookies in (False, True, False):
        fetcher.fetch(site.url("/"), policy(cookies=cookies))
    assert cookies_of(site) == [[], [], []]


# Credentials


def with_credentials(**more: Any) -> FetchPolicy:
    return policy(user="somebody", password="s3cret", **more)


BASIC = b"Basic " + base64.b64encode(b"somebody:s3cret")


class Guard:
    """Answers 401 until it is told what it wants to hear."""

    def __init__(
        self, site: Site, path: str, challenge: bytes = b'Basic realm="r"', answer: bytes = b""
    ) -> None:
        self.refusal = b"HTTP/1.1 401 No\r\nWWW-Authenticate: %s\r\nContent-Length: 4\r\n\r\nwho?" % challenge
        self.answer = answer or ok(b"hello")
        self._site = site
        site.answers[path] = self._serve

    def _serve(self, client: socket.socket) -> None:
        said = header_lines(self._site.requests[-1], b"Authorization")
        client.sendall(self.answer if said else self.refusal)


def said_to(site: Site) -> list[list[bytes]]:
    return [header_lines(request, b"Authorization") for request in site.requests]


def test_a_page_that_asks_who_we_are_is_asked_for_once_more(site: Site, fetcher: Fetching) -> None:
    """S1.17: in the same fetch."""
    Guard(site, "/a?b=c")
    fetch = fetcher.fetch(site.url("/a?b=c"), with_credentials())
    assert (fetch.status, body_of(fetch)) == (200, b"hello")
    assert said_to(site) == [[], [BASIC]]
    assert (fetch.hops, fetch.annotations) == ((), ("credentialsSent",))


def test_digest_credentials_are_made_for_the_very_request(site: Site, fetcher: Fetching) -> None:
    """S1.17: the target is hashed as it is sent."""
    Guard(site, "/a|b?[c]", b'Basic realm="r", Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256')
    fetch = fetcher.fetch(site.url("/a|b?[c]"), with_credentials())
    assert fetch.status == 200
    (said,) = challenged(said_to(site)[1][0])
    assert (said.scheme, said.parameters["uri"]) == ("digest", "/a|b?[c]")
    assert site.requests[1].startswith(b"GET /a|b?[c] HTTP/1.1\r\n")


def test_a_second_401_is_the_answer(site: Site, fetcher: Fetching) -> None:
    """S1.17."""
    guard = Guard(site, "/")
    guard.answer = guard.refusal
    fetch = fetcher.fetch(site.url("/"), with_credentials())
    assert (fetch.status, fetch.annotations, len(site.requests)) == (401, ("credentialsSent",), 2)


def test_without_credentials_or_an_offer_that_is_understood_a_401_is_the_answer(
    site: Site, fetcher: Fetching
) -> None:
    """S1.17."""
    Guard(site, "/basic")
    Guard(site, "/other", b"Bearer")
    site.answers["/none"] = b"HTTP/1.1 401 No\r\n\r\n"
    site.answers["/forbidden"] = b'HTTP/1.1 403 No\r\nWWW-Authenticate: Basic realm="r"\r\n\r\n'
    assert fetcher.fetch(site.url("/basic"), policy()).status == 401
    for path, status in (("/other", 401), ("/none", 401), ("/forbidden", 403)):
        fetch = fetcher.fetch(site.url(path), with_credentials())
        assert (fetch.status, fetch.annotations) == (status, ())
    assert said_to(site) == [[]] * 4


def test_the_password_is_in_no_record_of_the_fetch(site: Site, fetcher: Fetching) -> None:
    Guard(site, "/basic")
    Guard(site, "/digest", b'Digest realm="r", nonce="n"')
    for path, shown in (("/basic", b"Basic *"), ("/digest", b"Digest *")):
        fetch = fetcher.fetch(site.url(path), with_credentials())
        assert header_lines(fetch.request_head, b"Authorization") == [shown]
        sent, said = site.requests[-1], said_to(site)[-1][0]
        assert fetch.request_head == sent.replace(said, shown), "all else is as it was sent"
    assert "s3cret" not in repr(with_credentials(proxy="http://u:s3cret@127.0.0.1:1"))


def test_a_page_behind_a_password_can_be_unchanged(site: Site, fetcher: Fetching) -> None:
    Guard(site, "/", answer=b'HTTP/1.1 304 Not Modified\r\nETag: "8"\r\n\r\n')
    fetch = fetcher.fetch(site.url("/"), with_credentials(cookies=True), validators=Validators('"7"'))
    assert (fetch.status, fetch.unchanged, fetch.header("etag")) == (304, True, '"8"')
    assert [header_lines(request, b"If-None-Match") for request in site.requests] == [[b'"7"']] * 2


def test_a_cookie_of_the_401_goes_with_the_credentials(site: Site, fetcher: Fetching) -> None:
    Guard(site, "/", b'Basic realm="r"\r\nSet-Cookie: a=b')
    assert fetcher.fetch(site.url("/"), with_credentials(cookies=True)).status == 200
    assert cookies_of(site) == [[], [b"a=b"]]


def test_robots_txt_may_be_behind_a_password(site: Site, fetcher: Fetching) -> None:
    """S1.17."""
    Guard(site, "/robots.txt", answer=redirect("/r"))
    Guard(site, "/r", answer=ok(b"User-agent: *"))
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), with_credentials())
    assert (fetch.status, body_of(fetch)) == (200, b"User-agent: *")
    assert [hop.status for hop in fetch.hops] == [301]
    assert len(site.requests) == 4


def test_nobody_else_is_shown_the_credentials(site: Site, fetcher: Fetching) -> None:
    """S1.17: a robots.txt may be redirected to somebody else."""
    other = Site()
    Guard(site, "/robots.txt", answer=redirect(other.url("/r")))
    Guard(other, "/r")
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), with_credentials())
    assert (fetch.status, said_to(other)) == (401, [[]])
    other.close()


def test_both_requests_share_the_deadline(site: Site, fetcher: Fetching) -> None:
    def answer(client: socket.socket) -> None:
        if said_to(site)[-1]:
            wait_for_hang_up(client)
        else:
            client.sendall(b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")

    site.answers["/"] = answer
    started_s = time.monotonic()
    fetch = fetcher.fetch(site.url("/"), with_credentials(timeout_ms=SHORT_MS))
    assert (fetch.status, len(site.requests)) == (Status.TIMEOUT, 2)
    assert SHORT_MS <= (time.monotonic() - started_s) * 1_000 < LONG_MS


def test_all_settings_at_once_still_give_the_page(site: Site, fetcher: Fetching) -> None:
    packed = gzip.compress(b"hello" * 100)
    page = ok(packed, b"Content-Type: text/html", b"Content-Encoding: gzip", b"Set-Cookie: a=b")
    Guard(site, "/", answer=page)
    everything = with_credentials(
        cookies=True,
        accept_media_types=("text/*",),
        max_content_length=10_000,
        max_bytes_per_second=1_000_000,
        connect_timeout_ms=LONG_MS,
        read_timeout_ms=LONG_MS,
    )
    fetch = fetcher.fetch(site.url("/"), everything)
    assert (fetch.status, body_of(fetch), fetch.truncation) == (200, packed, Truncation.NONE)


@pytest.mark.parametrize(
    "setting",
    [
        {"connect_timeout_ms": 0},
        {"read_timeout_ms": 0},
        {"max_content_length": -1},
        {"max_bytes_per_second": -1},
        {"proxy": "socks5://127.0.0.1:1080"},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        policy(**setting)
