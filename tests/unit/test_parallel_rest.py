"""A host that may answer several requests at once has one rest all the same, between their starts."""

from itertools import pairwise

from core_doubles.shell import Shell

from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings, RetrySettings
from frontier_server.core.state.model import Report

SECOND = 1_000
FOLDERS = tuple(f"http://h.example/{folder}/{page}" for page in range(20) for folder in range(20))


def settings(**politeness: float) -> CrawlSettings:
    """Four requests at once, from many queues."""
    shown = {"delay_factor": 0.0, "min_delay_ms": SECOND, "max_delay_ms": 30 * SECOND, "max_parallel": 4}
    return CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=PolitenessSettings(**(shown | politeness)),  # type: ignore[arg-type]  # as it is declared
        queues=QueueSettings(parallel_queues=20),
        retry=RetrySettings(delay_ms=1),
    )


def starts(shell: Shell, seconds: int, duration_ms: int, status: int = 200, body: bytes = b"") -> list[int]:
    """The seconds at which requests begin, when each takes as long."""
    begun: list[int] = []
    out: list[tuple[int, bytes, bool]] = []
    for second in range(seconds):
        while out and out[0][0] <= shell.now_ms:
            _, token, robots = out.pop(0)
            told = 200 if robots else status
            shell.finish(
                Report(
                    token,
                    fetch_status=told,
                    duration_ms=duration_ms,
                    robots_body=body if robots else b"",
                    robots_empty=robots and not body,
                )
            )
        grants = shell.grants()
        begun += [second] * len(grants)
        out += [(shell.now_ms + duration_ms, grant.token, grant.robots) for grant in grants]
        shell.now_ms += SECOND
        shell.tick()
    return begun


def crawl(*names: str, **politeness: float) -> Shell:
    shell = Shell(period_ms=10 * 60 * SECOND)
    for name in names:
        shell.create(name, settings(**politeness))
        shell.launch(name, *FOLDERS)
    return shell


def test_a_crawl_delay_is_kept_between_the_starts_of_requests_that_overlap() -> None:
    """RFC 9309 leaves Crawl-delay to us: Heritrix's, 2.8, for the host, whatever its queues."""
    shell = crawl("crawl")
    begun = starts(shell, 125, 0, body=b"User-agent: *\nCrawl-delay: 20\n")
    assert begun == [0, 20, 40, 60, 80, 100, 120]


def test_requests_overlap_when_they_take_longer_than_the_rest() -> None:
    shell = crawl("crawl")
    begun = starts(shell, 30, 5 * SECOND)
    assert begun[:2] == [0, 5] and begun[2:6] == [6, 7, 8, 10], "four at once, a second apart"


def test_the_rest_follows_the_duration_of_the_last_fetch() -> None:
    shell = crawl("crawl", delay_factor=2)
    begun = starts(shell, 60, 4 * SECOND)
    gaps = {later - earlier for earlier, later in pairwise(begun[4:])}
    assert gaps == {8}


def test_two_crawls_of_one_host_share_its_rest() -> None:
    shell = crawl("one", "two")
    begun = starts(shell, 20, 0)
    assert begun == sorted(set(begun)), "no two requests in one second"


def test_a_shorter_rest_before_a_retry_does_not_end_the_rest_of_the_host() -> None:
    """S1.6, S1.8: what is tried again waits for its own time and for the host's."""
    shell = crawl("crawl", min_delay_ms=7 * SECOND)
    begun = starts(shell, 60, 0, status=-2)
    assert all(later - earlier >= 7 for earlier, later in pairwise(begun))


def test_after_a_restart_the_rest_between_starts_goes_on() -> None:
    """D9: rests outlive restarts."""
    shell = crawl("crawl", min_delay_ms=5 * SECOND)
    starts(shell, 1, 3 * SECOND)
    assert len(shell.grants()) == 0
    shell.restart()
    assert shell.grants() == []
