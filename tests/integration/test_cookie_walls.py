"""`toehold crawl` of pages that are shown only to those who send back the cookie that they set."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from frontier_harness.divided import log_lines
from frontier_harness.embedded import BRISK, Run
from frontier_harness.session_site import Request, SessionSite
from frontier_harness.small_site import serving
from frontier_harness.waiting import eventually

WWW, LOGIN = "www.site.test", "login.site.test"
OTHER = "consent.test"
HOSTS = (WWW, LOGIN, OTHER)

Wall = Callable[[Request, Callable[..., str]], bool]
"""Answers a request; the function makes URLs of the site."""


def shows(request: Request, *names: str) -> bool:
    return request.path != "/wall" or all(name in request.cookies for name in names)


def to_itself(status: int) -> Wall:
    def wall(request: Request, url: Callable[..., str]) -> bool:
        if not shows(request, "c"):
            request.status, request.location = status, "/wall"
            request.sets.append("c=1; Path=/")
        return True

    return wall


def several(count: int) -> Wall:
    """One cookie after the other."""

    def wall(request: Request, url: Callable[..., str]) -> bool:
        missing = [f"c{number}" for number in range(count) if f"c{number}" not in request.cookies]
        if request.path == "/wall" and missing:
            request.location = "/wall"
            request.sets.append(f"{missing[0]}=1")
        return True

    return wall


def over_a_page(request: Request, url: Callable[..., str]) -> bool:
    """`?cookieSet=1` finds out whether the cookie comes back."""
    if not shows(request, "c"):
        request.location = "/wall?cookieSet=1"
        request.sets.append("c=1")
    elif request.path == "/wall?cookieSet=1":
        request.location = "/wall"
    return True


def set_by_a_page(request: Request, url: Callable[..., str]) -> bool:
    if not shows(request, "c"):
        request.location = "/agree?to=/wall"
    elif request.path.startswith("/agree"):
        request.location = "/wall"
        request.sets.append("c=1; Path=/wall")
    return True


def over_a_host(request: Request, url: Callable[..., str]) -> bool:
    """The other host sets a cookie of its own, and gives a ticket, for which the page sets another."""
    if not shows(request, "c"):
        request.location = url(OTHER, "/consent?to=wall")
    elif request.host == OTHER:
        request.location = url(WWW, "/back?ticket=7")
        request.sets.append("own=1")
    elif request.path.startswith("/back"):
        request.location = "/wall"
        request.sets.append("c=1; Path=/")
    return True


def of_the_domain(request: Request, url: Callable[..., str]) -> bool:
    """The host of the logins sets a cookie for the whole domain."""
    if not shows(request, "c"):
        request.location = url(LOGIN, "/login?to=wall")
    elif request.host == LOGIN:
        request.location = url(WWW, "/wall")
        request.sets.append("c=1; Domain=site.test; Path=/")
    return True


def set_before_another_host(request: Request, url: Callable[..., str]) -> bool:
    if not shows(request, "c"):
        request.location = url(OTHER, "/consent?to=wall")
        request.sets.append("c=1; Path=/")
    elif request.host == OTHER:
        request.location = url(WWW, "/wall")
    return True


def by_meta(request: Request, url: Callable[..., str]) -> bool:
    if not shows(request, "c"):
        request.refresh = "/wall"
        request.sets.append("c=1")
    return True


def by_meta_over_a_page(request: Request, url: Callable[..., str]) -> bool:
    if not shows(request, "c"):
        request.refresh = "/set"
    elif request.path == "/set":
        request.refresh = "/wall"
        request.sets.append("c=1; Path=/")
    return True


def wants_another_value(request: Request, url: Callable[..., str]) -> bool:
    """The cookie that opens it replaces the one that it set first."""
    if request.path == "/wall" and request.cookies.get("c") != "2":
        request.location = "/wall"
        request.sets.append(f"c={2 if request.cookies else 1}")
    return True


OPENING: dict[str, tuple[Wall, dict[str, int]]] = {
    **{f"{status} to itself": (to_itself(status), {"/wall": 2}) for status in (301, 302, 303, 307, 308)},
    "two cookies, one after the other": (several(2), {"/wall": 3}),
    "three cookies, one after the other": (several(3), {"/wall": 4}),
    "over another page": (over_a_page, {"/wall": 2, "/wall?cookieSet=1": 1}),
    "set by another page": (set_by_a_page, {"/wall": 2, "/agree?to=/wall": 1}),
    "over another host": (over_a_host, {"/wall": 2, "/consent?to=wall": 1, "/back?ticket=7": 1}),
    "by another host of the domain": (of_the_domain, {"/wall": 2, "/login?to=wall": 1}),
    "set before another host": (set_before_another_host, {"/wall": 2, "/consent?to=wall": 1}),
    "by a meta refresh": (by_meta, {"/wall": 2}),
    "by a meta refresh over another page": (by_meta_over_a_page, {"/wall": 2, "/set": 1}),
    "another value": (wants_another_value, {"/wall": 3}),
}


def always(*lines: str) -> Wall:
    """Sets the same cookies again and again."""

    def wall(request: Request, url: Callable[..., str]) -> bool:
        if request.path == "/wall":
            request.location = "/wall"
            request.sets.extend(lines)
        return True

    return wall


def anew(request: Request, url: Callable[..., str]) -> bool:
    """Gives each request another session."""
    if request.path == "/wall":
        request.location = "/wall"
        request.sets.append(f"session={request.number}")
    return True


def for_the_other_host(request: Request, url: Callable[..., str]) -> bool:
    if request.host == OTHER:
        request.location = url(WWW, "/wall")
        request.sets.append(f"own={request.number}")
    elif request.path == "/wall":
        request.location = url(OTHER, "/consent?to=wall")
    return True


CLOSED: dict[str, tuple[Wall, dict[str, int]]] = {
    "no cookie": (always(), {"/wall": 1}),
    "the same cookie": (always("c=1"), {"/wall": 2}),
    "a cookie that has ended": (always("c=1; Max-Age=0"), {"/wall": 1}),
    "a cookie for another path": (always("c=1; Path=/other"), {"/wall": 1}),
    "a cookie for https": (always("c=1; Secure"), {"/wall": 1}),
    "a cookie that breaks a rule": (always("c=1; Domain=consent.test"), {"/wall": 1}),
    "more cookies than are kept": (always(*(f"c{n}={n}" for n in range(60))), {"/wall": 2}),
    "another value each time": (anew, {"/wall": 4}),
    "a cookie of another host": (for_the_other_host, {"/wall": 1, "/consent?to=wall": 1}),
}


@contextmanager
def crawling(
    directory: Path, wall: Wall, cookies: bool, *further: str, more: str = "", hosts: Sequence[str] = HOSTS
) -> Iterator[tuple[Run, SessionSite]]:
    """A crawl of a site with a wall, from the first page of each host that begins like WWW; `more` is in its
    spec."""
    domains = sorted({f"+{host.removeprefix('www.').removeprefix('login.')}" for host in hosts})
    (directory / "spec.toml").write_text(
        f'allowed_addresses = ["loopback"]\n[scope]\nsurt_prefixes = {json.dumps(domains)}\n'
        f"[fetch]\ncookies = {str(cookies).lower()}\n{more}"
    )
    with SessionSite(lambda request: wall(request, site.at), 0) as site, serving(site):
        where = [f"--resolve={host}:{site.server_port}:127.0.0.1" for host in hosts]
        site.page = b'<a href="/wall">wall</a> <a href="/page">page</a>'
        seeds = [site.at(host) for host in hosts if host.startswith("www.")]
        contact = ("--contact", "me@site.test")
        spec = ("--spec", "spec.toml")
        run = Run(*seeds, "--dir", "it", *BRISK, *spec, *where, *contact, *further, cwd=directory)
        try:
            yield run, site
        finally:
            run.close()


class Walls:
    """A crawl of many walls, each of which has hosts of its own: with a number in the names that it knows."""

    def __init__(
        self, walls: Mapping[str, tuple[Wall, dict[str, int]]], cookies: bool, directory: Path
    ) -> None:
        self._walls = [wall for wall, _ in walls.values()]
        self._numbers = {name: number for number, name in enumerate(walls)}
        self._asked = [Counter[str]() for _ in walls]
        hosts = [_numbered(number, host) for number in range(len(walls)) for host in HOSTS]
        with crawling(directory, self._answer, cookies, hosts=hosts) as (run, _):
            code, _, stderr = run.end()
        assert (code, stderr) == (0, "")
        self._log = log_lines(directory / "it" / "frontier" / "crawls" / "crawl" / "crawl.log")

    def _answer(self, request: Request, url: Callable[..., str]) -> bool:
        found = re.search("[0-9]+", request.host)
        assert found is not None
        number = int(found[0])
        self._asked[number][request.path] += 1
        request.host = request.host.replace(found[0], "")
        shown = self._walls[number](request, lambda host, path: url(_numbered(number, host), path))
        request.sets = [_numbered(number, line) for line in request.sets]
        return shown

    def asked(self, name: str) -> Counter[str]:
        """How often each path was asked for."""
        return self._asked[self._numbers[name]]

    def annotations(self, name: str, path: str) -> list[str]:
        """Those of the lines of a path in crawl.log."""
        url = re.compile(rf"http://[a-z.]+{self._numbers[name]}\.test:[0-9]+{re.escape(path)}")
        return [line.split()[-1] for line in self._log if url.fullmatch(line.split()[3])]


def _numbered(number: int, text: str) -> str:
    return text.replace("site.test", f"site{number}.test").replace("consent.test", f"consent{number}.test")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Walls:
    """All walls, with cookies."""
    return Walls(OPENING | CLOSED, True, tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def ignored(tmp_path_factory: pytest.TempPathFactory) -> Walls:
    """The walls that cookies open, without any."""
    return Walls(OPENING, False, tmp_path_factory.mktemp("ignored"))


@pytest.mark.parametrize("name", OPENING)
def test_a_page_behind_a_cookie_wall_is_fetched(kept: Walls, name: str) -> None:
    _, asked = OPENING[name]
    assert kept.asked(name) == Counter({"/": 1, "/page": 1, **asked})
    lines = kept.annotations(name, "/wall")
    assert lines and "redirectLoop" not in str(lines)


@pytest.mark.parametrize("name", CLOSED)
def test_a_cookie_wall_that_does_not_open_ends_as_a_redirect_loop(kept: Walls, name: str) -> None:
    """A page whose cookies have not changed since its last visit is not asked for again."""
    _, asked = CLOSED[name]
    assert kept.asked(name) == Counter({"/": 1, "/page": 1, **asked})
    assert sum("redirectLoop" in line for path in asked for line in kept.annotations(name, path)) == 1


@pytest.mark.parametrize("name", OPENING)
def test_a_crawl_that_keeps_no_cookies_annotates_pages_whose_cookies_it_ignored(
    ignored: Walls, name: str
) -> None:
    _, asked = OPENING[name]
    assert ignored.asked(name) == Counter({"/": 1, "/page": 1, **dict.fromkeys(asked, 1)})
    if "meta" not in name:  # a page, not a redirect
        assert (
            sum("cookiesIgnored" in line for path in asked for line in ignored.annotations(name, path)) >= 1
        )


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_wall_before_each_of_many_pages_opens_for_each(tmp_path: Path, processes: str) -> None:
    """Also for a seed; by many toe threads, in several processes; and for more pages than a host may have
    cookies."""

    def wall(request: Request, url: Callable[..., str]) -> bool:
        name = "c" + request.path.replace("/", "_")
        if name not in request.cookies:
            request.location = request.path
            request.sets.append(f"{name}=1; Path=/")
        return True

    paths = [f"/page/{number}" for number in range(120)]
    with crawling(tmp_path, wall, True, "--processes", processes) as (run, site):
        site.page = "".join(f'<a href="{path}">page</a>' for path in paths).encode()
        code, _, stderr = run.end()
    assert (code, stderr, site.asked) == (0, "", Counter(dict.fromkeys(["/", *paths], 2)))


def test_pages_that_are_asked_for_at_once_find_the_cookie_of_the_first(tmp_path: Path) -> None:
    """The rule compares cookies with those that a page was asked with, so an answer that sets none counts,
    too."""
    without: list[str] = []

    def wall(request: Request, url: Callable[..., str]) -> bool:
        if "sid" not in request.cookies and request.path != "/":
            without.append(request.path)
            request.location = request.path
            request.sets.append("sid=1; Path=/")
        return True

    def await_another(number: int) -> None:
        eventually(lambda: len(without) != 1, "another page that is asked for meanwhile")

    overlapping = "[politeness]\nmax_parallel = 4\n[queues]\nmax_leases_per_queue = 4\n"
    paths = [f"/page/{number}" for number in range(30)]
    with crawling(tmp_path, wall, True, more=overlapping) as (run, site):
        site.when_asked = await_another
        site.page = "".join(f'<a href="{path}">page</a>' for path in paths).encode()
        code, _, stderr = run.end()
    assert (code, stderr, 2 <= len(without) <= 4) == (0, "", True)
    assert site.asked == Counter(["/", *paths, *without]), "once with the cookie, and before without"
