"""A robots.txt that several crawls need: they share what was seen of it, and each judges that for itself."""

import pytest
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, RobotsSettings
from frontier_server.core.state.model import Report, Verdict

HOST = "http://alpha.example"
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0, overload_delay_ms=0)
STRICT = RobotsSettings(max_attempts=3, retry_delay_ms=10_000)
LENIENT = RobotsSettings(allow_unreachable=True, max_attempts=3, retry_delay_ms=0)
HASTY = RobotsSettings(max_attempts=1)


def crawls(**robots: RobotsSettings) -> Shell:
    """Crawls by name that run, each with two pages of the one host."""
    shell = Shell()
    for name, its in robots.items():
        settings = CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK, robots=its)
        shell.create(name, settings)
        shell.launch(name, f"{HOST}/{name}", f"{HOST}/private/{name}")
    return shell


def asks(shell: Shell, crawl: str, status: int, body: bytes = b"") -> None:
    """A crawl asks for the robots.txt, and gets this."""
    (grant,) = shell.grants(crawl)
    assert grant.robots, grant.uri
    empty = 200 <= status < 300 and not body
    shell.finish(Report(grant.token, fetch_status=status, robots_body=body, robots_empty=empty))


def pages(shell: Shell, crawl: str) -> list[str]:
    """What a crawl fetches now, one page after the other."""
    fetched = []
    while grants := shell.grants(crawl):
        (grant,) = grants
        if grant.robots:
            shell.take_back([grant.token])
            break
        shell.finish(Report(grant.token, fetch_status=200))
        fetched.append(grant.uri)
    return fetched


def failed(shell: Shell, crawl: str) -> int:
    """How many URIs of a crawl have ended with -61."""
    return sum(row.fetch_status == -61 for row in shell.outcomes(crawl))


@pytest.mark.parametrize("restart", [False, True])
def test_a_lenient_crawl_lets_no_strict_one_fetch(restart: bool) -> None:
    """RFC 9309, 2.3.1.4: an unreachable robots.txt forbids, whatever another crawl makes of it."""
    shell = crawls(lenient=LENIENT, strict=STRICT)
    for _ in range(3):
        asks(shell, "lenient", 503)
    if restart:
        shell.restart()
    assert pages(shell, "strict") == []
    assert shell.schedule("strict", f"{HOST}/another") == [Verdict.QUEUED]
    assert pages(shell, "lenient") == [f"{HOST}/lenient", f"{HOST}/private/lenient"]
    assert pages(shell, "strict") == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_crawl_that_tries_once_fails_no_uris_of_one_that_tries_again(restart: bool) -> None:
    shell = crawls(hasty=HASTY, strict=STRICT)
    asks(shell, "hasty", 503)
    if restart:
        shell.restart()
    assert shell.grants("hasty") == [] and failed(shell, "hasty") == 2
    assert shell.grants("strict") == [] and failed(shell, "strict") == 0
    shell.now_ms += STRICT.retry_delay_ms
    asks(shell, "strict", 404)
    assert pages(shell, "strict") == [f"{HOST}/strict", f"{HOST}/private/strict"]


def test_an_eager_crawl_does_not_use_up_the_tries_of_a_patient_one() -> None:
    """Ten tries at once are one to a crawl that would have made one by then."""
    shell = crawls(eager=RobotsSettings(max_attempts=10, retry_delay_ms=0), patient=STRICT)
    for _ in range(10):
        asks(shell, "eager", -2)
    assert shell.grants() == [] and (failed(shell, "eager"), failed(shell, "patient")) == (2, 0)
    for tried in (1, 2):
        shell.now_ms += STRICT.retry_delay_ms * tried
        asks(shell, "patient", -2)
    assert shell.grants() == [] and failed(shell, "patient") == 2


def test_tries_that_another_crawl_makes_when_they_are_due_count() -> None:
    """A host that cannot be reached is not asked again by each crawl that comes."""
    shell = crawls(first=STRICT, second=STRICT)
    for tried in range(3):
        asks(shell, "first", -2)
        assert failed(shell, "second") == 0
        shell.now_ms += STRICT.retry_delay_ms << tried
    assert shell.grants() == [] and (failed(shell, "first"), failed(shell, "second")) == (2, 2)


def test_an_answer_that_one_crawl_got_counts_for_all() -> None:
    shell = crawls(lenient=LENIENT, strict=STRICT)
    asks(shell, "strict", -2)
    asks(shell, "lenient", 200, b"User-agent: *\nDisallow: /private/\n")
    shell.now_ms += STRICT.retry_delay_ms
    assert pages(shell, "strict") == [f"{HOST}/strict"]
    assert pages(shell, "lenient") == [f"{HOST}/lenient"]


def test_each_crawl_holds_an_answer_valid_as_long_as_it_says() -> None:
    """The one that asks again does not shorten the other's validity, nor end it where asking fails."""
    long, short = RobotsSettings(validity_ms=100_000), RobotsSettings(validity_ms=1_000, retry_delay_ms=5_000)
    shell = crawls(long=long, short=short)
    asks(shell, "long", 404)
    shell.now_ms += 50_000
    asks(shell, "short", 503)
    assert pages(shell, "long") == [f"{HOST}/long", f"{HOST}/private/long"]


def test_a_later_crawl_judges_anew_what_an_earlier_one_gave_up() -> None:
    """One that tries more often does so."""
    shell = crawls(crawl=HASTY)
    asks(shell, "crawl", 503)
    assert shell.grants("crawl") == [] and failed(shell, "crawl") == 2
    assert shell.state("crawl") is CrawlState.FINISHED
    shell.create("later", CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK, robots=STRICT))
    shell.launch("later", f"{HOST}/later")
    assert shell.grants("later") == []
    shell.now_ms += STRICT.retry_delay_ms
    asks(shell, "later", 404)
    assert pages(shell, "later") == [f"{HOST}/later"]
