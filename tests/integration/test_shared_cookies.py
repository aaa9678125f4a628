"""Cookies of a node of several processes: each process sends what a page set that another one fetched."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from frontier_harness.calls import spec
from frontier_harness.embedded import BRISK, Run, children_of
from frontier_harness.nodes import node_of
from frontier_harness.process import ServerProcess
from frontier_harness.session_site import Request, Rule, SessionSite
from frontier_harness.small_site import serving

from toehold.frontier.v1.crawl_pb2 import CRAWL_STATE_FINISHED, FetchSpec

PAGES = 60
SPEC = "[fetch]\ncookies = true\n"


def session(request: Request) -> bool:
    """The first page sets a cookie, which all others want."""
    if request.path == "/":
        request.sets.append("sid=1; Path=/")
        return True
    return request.cookies.get("sid") == "1"


def rotating(request: Request) -> bool:
    """Each page sets a token, which the next request wants."""
    request.sets.append(f"token={request.number}; Path=/")
    return request.number == 0 or request.cookies.get("token") == str(request.number - 1)


def deleted(request: Request) -> bool:
    """Every second page ends the session, and the next one begins another one."""
    if request.number % 2:
        request.sets.append("sid=gone; Path=/; Max-Age=0")
        return request.cookies.get("sid") == str(request.number - 1)
    request.sets.append(f"sid={request.number}; Path=/")
    return not request.cookies


def ended(request: Request) -> bool:
    """A day that has passed ends a cookie as well."""
    request.sets.append("a=1; Path=/; Expires=Thu, 01 Jan 2015 00:00:00 GMT")
    request.sets.append(f"b{request.number}=1; Path=/page")
    return len(request.cookies) == (min(50, request.number) if request.path != "/" else 0)


@contextmanager
def session_site(rule: Rule) -> Iterator[SessionSite]:
    with SessionSite(rule, PAGES) as site, serving(site):
        yield site


@contextmanager
def crawling(directory: Path, site: SessionSite, *further: str) -> Iterator[Run]:
    directory.mkdir(exist_ok=True)
    (directory / "spec.toml").write_text(SPEC)
    run = Run(site.url, "--dir", "it", *BRISK, "--spec", "spec.toml", *further, cwd=directory)
    try:
        yield run
    finally:
        run.close()


@pytest.mark.sampled("processes", ["1", "2", "4"])
@pytest.mark.sampled("rule", [session, rotating, deleted, ended])
def test_the_processes_of_a_node_send_each_others_cookies(tmp_path: Path, rule: Rule, processes: str) -> None:
    with session_site(rule) as site, crawling(tmp_path, site, "--processes", processes) as run:
        code, _, stderr = run.end()
    assert (code, stderr, site.refused, site.asked.total()) == (0, "", [], PAGES + 1)


@pytest.mark.parametrize("count", [1, 2])
def test_cookies_outlive_the_process_that_got_them(tmp_path: Path, count: int) -> None:
    """The supervisor starts another process, which has them too."""
    with session_site(session) as site, crawling(tmp_path, site, "--processes", "2") as run:
        killed: list[int] = []

        def kill(number: int) -> None:
            if number == 20:
                _, node = run.children()
                killed.extend(children_of(node)[:count])
                for worker in killed:
                    os.kill(worker, signal.SIGKILL)

        site.when_asked = kill
        code = run.end()[0]
    # The page that a killed process was fetching is asked for again.
    assert (code, site.refused, len(killed)) == (0, [], count)
    assert len(site.asked) == PAGES + 1 and site.asked.total() <= PAGES + 2


def test_two_crawls_of_a_host_have_cookies_of_their_own(tmp_path: Path) -> None:
    given: dict[str, str] = {}

    def own(request: Request) -> bool:
        sid = given.setdefault(request.agent, str(len(given)))
        request.sets.append(f"sid={sid}; Path=/")
        return request.path == "/" or request.cookies == {"sid": sid}

    node = "--toes", "4", "--processes", "2", "--pages", str(tmp_path / "pages")
    with session_site(own) as site, ServerProcess(tmp_path / "data") as frontier, node_of(frontier, *node):
        for crawl in ("one", "two"):
            own_agent = FetchSpec(cookies=True, product_token=crawl)
            frontier.stubs.launch(crawl, site.url, of=spec(fetch=own_agent))
        for crawl in ("one", "two"):
            frontier.stubs.until(crawl, CRAWL_STATE_FINISHED)
    assert (len(given), site.refused, site.asked.total()) == (2, [], 2 * (PAGES + 1))
