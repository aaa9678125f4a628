"""Cookies: which are kept, for whom, and how many."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching import cookies
from crawler_node.fetching.cookies import (
    MAX_COOKIE_BYTES,
    MAX_COOKIES,
    MAX_HEADER_BYTES,
    MAX_KEPT_BYTES,
    CookieJars,
)

NOW_S = 1_700_000_000.0


class Browser:
    """Jars with a clock that is set by hand; URLs instead of their parts."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.jars = CookieJars(lambda: self.now_s)

    def told(self, url: str, *lines: str, crawl: str = "c") -> None:
        scheme, host, path = parts(url)
        encoded = [line.encode("latin-1") for line in lines]
        self.jars.take(crawl, host, path, encoded, https=scheme == "https")

    def says(self, url: str, crawl: str = "c") -> str:
        scheme, host, path = parts(url)
        return self.jars.header(crawl, host, path, https=scheme == "https").text.decode("latin-1")

    def mark(self, url: str) -> bytes:
        scheme, host, path = parts(url)
        return self.jars.header("c", host, path, https=scheme == "https").mark


def parts(url: str) -> tuple[str, str, str]:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return scheme, host, slash + path


@pytest.fixture
def browser() -> Browser:
    return Browser()


def test_a_cookie_goes_back_to_its_host_and_to_no_other(browser: Browser) -> None:
    browser.told("http://www.alpha.example/", "a=b")
    assert browser.says("http://www.alpha.example/") == "a=b"
    assert browser.says("http://WWW.Alpha.example./") == "a=b"
    for host in ("alpha.example", "sub.www.alpha.example", "beta.example", "xwww.alpha.example"):
        assert browser.says(f"http://{host}/") == "", host


def test_each_crawl_has_its_own(browser: Browser) -> None:
    browser.told("http://www.alpha.example/", "a=b", crawl="one")
    assert browser.says("http://www.alpha.example/", crawl="one") == "a=b"
    assert browser.says("http://www.alpha.example/", crawl="two") == ""


def test_a_cookie_for_a_domain_goes_to_all_hosts_of_it(browser: Browser) -> None:
    browser.told("http://www.alpha.example/", "a=b; Domain=.Alpha.Example")
    for host in ("alpha.example", "www.alpha.example", "x.y.alpha.example"):
        assert browser.says(f"http://{host}/") == "a=b", host
    for host in ("notalpha.example", "example", "beta.example"):
        assert browser.says(f"http://{host}/") == "", host


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.alpha.example", "beta.example"),
        ("www.alpha.example", "sub.www.alpha.example"),
        ("www.alpha.example", "lpha.example"),
        ("www.alpha.example", "example"),
        ("www.alpha.com", "com"),
        ("www.alpha.co.uk", "co.uk"),
        ("somebody.github.io", "github.io"),
        ("www.alpha.example", "caf\xe9.example"),
        ("127.0.0.1", "0.0.1"),
        ("127.0.0.1", "127.0.0.2"),
        ("::1", "1"),
    ],
)
def test_a_cookie_for_somebody_elses_domain_is_refused(browser: Browser, host: str, domain: str) -> None:
    browser.told(f"http://{host}/", f"a=b; Domain={domain}")
    assert browser.says(f"http://{host}/") == ""
    assert browser.says(f"http://{domain}/") == ""


@pytest.mark.parametrize("host", ["com", "github.io", "localhost", "127.0.0.1", "::1"])
def test_a_suffix_or_an_address_may_name_itself(browser: Browser, host: str) -> None:
    browser.told(f"http://{host}/", f"a=b; Domain={host}")
    assert browser.says(f"http://{host}/") == "a=b"
    assert browser.says(f"http://sub.{host}/") == ""


@pytest.mark.parametrize(
    ("page", "attribute", "fits", "fits_not"),
    [
        ("/a/b", "", ["/a", "/a/", "/a/c/d"], ["/", "/ab", "/b"]),
        ("/a", "", ["/", "/x"], []),
        ("/a/b", "Path=/", ["/", "/x"], []),
        ("/", "Path=/a", ["/a", "/a/b", "/a/"], ["/", "/ab", "/A"]),
        ("/", "Path=/a/", ["/a/", "/a/b"], ["/a"]),
        ("/", "Path=/a", ["/a?b", "/a/?b", "/a?/b"], ["/?/a", "/b?/a"]),
        ("/a/b?c=/d/e", "", ["/a", "/a/x?y"], ["/"]),
        ("/?/a/b", "", ["/", "/x"], []),
        ("/a/b", "Path=nonsense", ["/a", "/a/b"], ["/"]),
        ("/a/b", "Path=/x; Path=/y", ["/y"], ["/x", "/a/b"]),
    ],
)
def test_a_cookie_is_for_its_path(
    browser: Browser, page: str, attribute: str, fits: list[str], fits_not: list[str]
) -> None:
    browser.told(f"http://h.example{page}", f"a=b; {attribute}")
    assert {path: browser.says(f"http://h.example{path}") for path in fits} == dict.fromkeys(fits, "a=b")
    assert {path: browser.says(f"http://h.example{path}") for path in fits_not} == dict.fromkeys(fits_not, "")


def test_a_secure_cookie_is_set_and_sent_over_https_only(browser: Browser) -> None:
    browser.told("http://h.example/", "a=b; Secure")
    assert browser.says("https://h.example/") == ""
    browser.told("https://h.example/", "a=b; Secure")
    assert (browser.says("https://h.example/"), browser.says("http://h.example/")) == ("a=b", "")
    browser.told("http://h.example/", "a=evil")
    browser.told("http://h.example/", "a=; Max-Age=0")
    assert browser.says("https://h.example/") == "a=b", "nobody on the way replaces it"


@pytest.mark.parametrize(
    ("attribute", "lives_s"),
    [
        ("Max-Age=10", 10),
        ("Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 10),
        ("Expires=Tue, 14 Nov 2023 22:13:50 GMT", 30),
        ("Expires=Tuesday, 14-Nov-23 22:13:50 GMT", 30),
        ("Expires=Tue Nov 14 22:13:50 2023", 30),
    ],
)
def test_a_cookie_ends_when_it_said(browser: Browser, attribute: str, lives_s: int) -> None:
    browser.told("http://h.example/", f"a=b; {attribute}")
    browser.now_s = NOW_S + lives_s - 1
    assert browser.says("http://h.example/") == "a=b"
    browser.now_s = NOW_S + lives_s
    assert browser.says("http://h.example/") == ""


@pytest.mark.parametrize(
    "attribute",
    ["Max-Age=0", "Max-Age=-1", "Max-Age=00", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
)
def test_a_cookie_is_removed_by_one_that_has_ended(browser: Browser, attribute: str) -> None:
    browser.told("http://h.example/", "a=b", "c=d")
    browser.told("http://h.example/", f"a=; {attribute}")
    assert browser.says("http://h.example/") == "c=d"
    browser.told("http://h.example/", f"c=; {attribute}")
    assert not browser.jars._hosts and browser.jars._kept_bytes == 0


@pytest.mark.parametrize(
    "attribute",
    [
        *("Expires=soon", "Expires=", "Expires=Tue, 14 Nov 99999999 22:13:50 GMT", "Max-Age=soon"),
        *("Max-Age=\u00b2", "Max-Age="),
    ],
)
def test_an_end_that_makes_no_sense_is_none(browser: Browser, attribute: str) -> None:
    browser.told("http://h.example/", f"a=b; {attribute}")
    browser.now_s = NOW_S + 10**9
    assert browser.says("http://h.example/") == "a=b"


def test_longer_paths_go_first_then_older_cookies(browser: Browser) -> None:
    browser.told("http://h.example/a/b", "one=1; Path=/", "two=2; Path=/a", "three=3; Path=/")
    browser.told("http://h.example/", "one=4; Path=/")
    assert browser.says("http://h.example/a") == "two=2; one=4; three=3"


@pytest.mark.parametrize(
    "line", ["", "a", "=b", ";", "a\0=b", "a=b\x01", "a=b\x7f", f"a={'x' * MAX_COOKIE_BYTES}", " ; a=b"]
)
def test_what_is_no_cookie_is_left_out(browser: Browser, line: str) -> None:
    browser.told("http://h.example/", line)
    assert browser.says("http://h.example/") == ""


def test_the_largest_cookie_is_kept_byte_for_byte(browser: Browser) -> None:
    value = '"caf\xe9" = x' + "y" * (MAX_COOKIE_BYTES - 13)
    browser.told("http://h.example/", f" a = {value} ;HttpOnly;;SameSite=None")
    assert browser.says("http://h.example/") == f"a={value}"


def test_a_host_has_at_most_so_many_the_newest(browser: Browser) -> None:
    for n in range(MAX_COOKIES + 10):
        browser.told("http://h.example/", f"n{n}={n}")
    assert browser.says("http://h.example/").split("; ") == [f"n{n}={n}" for n in range(10, MAX_COOKIES + 10)]


def test_a_cookie_in_use_stays_however_many_others_are_set(browser: Browser) -> None:
    """RFC 6265 5.3: the one that was used least recently goes. A session outlives the cookies of pages."""
    browser.told("http://h.example/", "session=1; Path=/")
    for n in range(3 * MAX_COOKIES):
        browser.told(f"http://h.example/page/{n}", f"seen=1; Path=/page/{n}")
        assert browser.says("http://h.example/next") == "session=1"
    browser.told("http://h.example/", "session=2; Path=/")
    assert browser.says(f"http://h.example/page/{3 * MAX_COOKIES - 1}") == "seen=1; session=2"


def test_cookies_that_have_ended_go_before_others(browser: Browser) -> None:
    browser.told("http://h.example/", "login=1; Path=/members")
    for n in range(MAX_COOKIES - 1):
        browser.told("http://h.example/", f"brief{n}=1; Max-Age=10")
    browser.now_s += 10
    for n in range(MAX_COOKIES - 1):
        browser.told("http://h.example/", f"n{n}=1; Path=/")
    assert browser.says("http://h.example/members").startswith("login=1; n0=1; ")


def test_a_mark_tells_of_the_cookies_over_https_too(browser: Browser) -> None:
    """A page over http may send on to https, and be sent back once that has set its cookie."""
    plain, safe = browser.mark("http://h.example/"), browser.mark("https://h.example/")
    browser.told("https://h.example/", "session=1; Secure")
    assert (plain, safe, browser.says("http://h.example/")) == (b"", b"", "")
    assert browser.mark("http://h.example/") == browser.mark("https://h.example/") != b""
    assert browser.mark("http://other.example/") == b""


def test_a_request_carries_no_more_than_servers_take(browser: Browser) -> None:
    browser.told("http://h.example/", *(f"n{n}={'x' * 1000}" for n in range(MAX_COOKIES)))
    assert MAX_HEADER_BYTES - 1100 < len(browser.says("http://h.example/")) <= MAX_HEADER_BYTES


def test_hosts_that_were_not_asked_for_longest_are_forgotten(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cookies, "MAX_KEPT_BYTES", 10_000)
    for n in range(20):
        browser.told(f"http://h{n}.example/", "a=" + "x" * 1000)
        assert browser.says("http://h0.example/") != ""
    assert browser.says("http://h1.example/") == ""
    assert browser.says("http://h19.example/") != ""
    assert 8000 < browser.jars._kept_bytes <= 10_000


def test_a_bomb_of_cookies_costs_bounded_memory_and_linear_time(browser: Browser) -> None:
    bomb = [f"n{n}={'x' * 4000}; Path=/{n}; {'a=b; ' * 20}" for n in range(5000)]
    started_s = time.thread_time()
    for host in range(4):
        browser.told(f"http://{host}.alpha.example/", *bomb)
    assert time.thread_time() - started_s < 5
    assert sum(len(each) for each in browser.jars._hosts.values()) <= 4 * MAX_COOKIES
    assert browser.jars._kept_bytes <= 4 * MAX_COOKIES * 5000 < MAX_KEPT_BYTES


@given(lines=st.lists(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: b"a=b;" + tail)))
def test_nothing_that_is_sent_is_an_error_and_the_count_of_bytes_is_right(lines: list[bytes]) -> None:
    browser = Browser()
    browser.jars.take("c", "www.alpha.example", "/a/b", lines, https=True)
    browser.jars.header("c", "www.alpha.example", "/a/b", https=True)
    kept = [each for host in browser.jars._hosts.values() for each in host.values()]
    assert browser.jars._kept_bytes == sum(each.size_bytes for each in kept)
    assert all(browser.jars._hosts.values()), "nothing is kept of a host without cookies"


def test_many_threads_may_use_it_at_once(browser: Browser) -> None:
    def work(thread: int) -> None:
        for n in range(200):
            browser.told(f"http://h{n % 7}.example/", f"n{thread}-{n}={n}")
            browser.says(f"http://h{n % 5}.example/")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [each for host in browser.jars._hosts.values() for each in host.values()]
    assert browser.jars._kept_bytes == sum(each.size_bytes for each in kept)


@pytest.mark.parametrize(
    ("line", "https", "is_kept"),
    [
        (b"__Secure-a=1; Secure", True, True),
        (b"__Secure-a=1; Secure; Domain=example.com", True, True),
        (b"__Secure-a=1", True, False),
        (b"__Secure-a=1", False, False),
        (b"__SECURE-a=1", True, False),
        (b"__Host-a=1; Secure; Path=/", True, True),
        (b"__Host-a=1; Secure", True, False),
        (b"__Host-a=1; Path=/", True, False),
        (b"__Host-a=1; Secure; Path=/x", True, False),
        (b"__Host-a=1; Secure; Path=/; Domain=www.example.com", True, False),
        (b"__Host-a=1; Secure; Path=/; Domain=example.com", True, False),
        (b"__host-a=1; Path=/", True, False),
        (b"__Host-a=1; Path=/", False, False),
        (b"_Host-a=1", False, True),
    ],
)
def test_a_cookie_without_the_attributes_that_its_name_prefix_requires_is_dropped(
    line: bytes, https: bool, is_kept: bool
) -> None:
    """RFC 6265bis, 4.1.3: or a host below, or somebody on the way, could set the cookie of another one."""
    jars = CookieJars()
    jars.take("crawl", "www.example.com", "/x/y", [line], https=https)
    assert bool(jars.header("crawl", "www.example.com", "/x/y", https=https).text) is is_kept
