"""The estimate of the time that a crawl still needs."""

from typing import Any

import pytest
from core_doubles.lives import NAME, fetch, launched
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.operators import resting
from frontier_server.core.operators.resting import sampled
from frontier_server.core.spec.settings import LimitSettings, PolitenessSettings, RobotsSettings
from frontier_server.core.state.model import Grant, Remaining, Report

POLITENESS = PolitenessSettings(delay_factor=0, min_delay_ms=10_000, max_delay_ms=10_000)


def crawl(pages: int, limits: LimitSettings | None = None) -> Shell:
    """A crawl of 100 pages at each of two hosts, one page of a host every 10 s; so many were fetched."""
    seeds = [f"http://{host}.example/{page}" for page in range(100) for host in ("a", "b")]
    settings = {
        "politeness": POLITENESS,
        "robots": RobotsSettings(policy="ignore"),
        "limits": limits or LimitSettings(),
    }
    shell = launched(*seeds, **settings)
    for _ in range(pages // 2):
        fetch(shell, *shell.grants(NAME))
        shell.now_ms += 10_000
        shell.tick()
    return shell


def remaining(shell: Shell) -> Remaining | None:
    """The estimate."""
    return shell.core.views.statistics(NAME, shell.now_ms).remaining


def remaining_s(shell: Shell) -> tuple[int, int] | None:
    """The estimate in seconds."""
    found = remaining(shell)
    return None if found is None else (found.least_ms // 1000, found.most_ms // 1000)


def test_too_few_pages_allow_no_estimate() -> None:
    assert remaining_s(crawl(4)) is None


def test_a_crawl_needs_what_its_rate_says() -> None:
    shell = crawl(100)  # 2 pages every 10 s, 100 URIs left
    estimate = remaining_s(shell)
    assert estimate is not None
    assert 490 <= estimate[0] <= 510 and estimate[0] <= estimate[1] <= 1_000


def test_it_is_not_shorter_than_the_rest_of_a_uri_that_rests_alone() -> None:
    shell = crawl(198)
    first, second = shell.grants(NAME)
    shell.finish(Report(first.token, fetch_status=-3), Report(second.token, fetch_status=200))
    assert remaining_s(shell) == (900, 900)
    shell.now_ms += 10_000
    assert remaining_s(shell) == (890, 890)
    shell.request(NAME, Input.PAUSE)
    assert remaining_s(shell) == (0, 0), "a paused crawl has an estimate from when it runs again"


@pytest.mark.parametrize(
    ("limits", "most_s"),
    [(LimitSettings(max_documents=110), 110), (LimitSettings(max_elapsed_ms=520_000), 20)],
)
def test_limits_shorten_it(limits: LimitSettings, most_s: int) -> None:
    estimate = remaining_s(crawl(100, limits))
    assert estimate is not None and estimate[1] <= most_s


def test_a_paused_crawl_has_the_estimate_of_its_average_rate_however_long_it_is_paused() -> None:
    shell = crawl(100)
    shell.request(NAME, Input.PAUSE)
    estimate = remaining_s(shell)
    assert estimate is not None and estimate[0] == estimate[1] and 490 <= estimate[0] <= 510
    shell.now_ms += 3_600_000
    assert remaining_s(shell) == estimate


def test_a_crawl_that_has_ended_has_none() -> None:
    shell = crawl(100)
    shell.request(NAME, Input.STOP)
    assert remaining_s(shell) is None


def test_nobody_fetches_and_so_there_is_none() -> None:
    shell = crawl(100)
    shell.now_ms += 3_600_000
    assert remaining_s(shell) is None


def test_what_limits_a_polite_crawl_says_how_long_it_takes() -> None:
    shell = crawl(100)
    fetch(shell, *shell.grants(NAME))
    told = shell.core.views.statistics(NAME, shell.now_ms).limited_by
    assert told == "Limited by politeness: 2 hosts wait 10 s. About 8 min for 98 URLs"


# Hosts that differ.

SLOW = "127.0.11.3"
FAST = ("127.0.11.1", "127.0.11.2")
ASKS_FOR_5_S = b"User-agent: *\nCrawl-delay: 5\n"


def mixed(seconds: int, pages: int = 300, hosts: tuple[str, ...] = (*FAST, SLOW), **settings: Any) -> Shell:
    """A crawl of so many pages of each host, at most one every 0.3 s, but every 5 s at SLOW, as its
    robots.txt asks for; after it has run for so long."""
    politeness = PolitenessSettings(delay_factor=0, min_delay_ms=300, max_delay_ms=300)
    seeds = [f"http://{host}/{page}" for page in range(pages) for host in hosts]
    shell = launched(*seeds, **{"politeness": politeness, **settings})
    end_ms = shell.now_ms + seconds * 1000
    while shell.now_ms < end_ms:
        shell.finish(*map(answer, shell.grants(NAME)))
        shell.now_ms += 100
        shell.tick()
    shell.finish(*map(answer, shell.grants(NAME)))
    return shell


def answer(grant: Grant) -> Report:
    """A page of 1000 bytes, or the robots.txt of a host."""
    body = ASKS_FOR_5_S if grant.robots and SLOW in grant.uri else b""
    return Report(grant.token, fetch_status=200, robots_body=body, body_bytes=1_000)


def why(shell: Shell) -> str:
    """Why it is not going faster."""
    return shell.core.views.statistics(NAME, shell.now_ms).limited_by


def test_limited_by_counts_hosts_by_what_they_wait_for() -> None:
    told = "Limited by politeness: 2 hosts wait 0.3 s, 127.0.11.3 waits its Crawl-delay of 5 s. "
    assert why(mixed(30)).startswith(told)


def test_the_slowest_host_decides_the_time_left_and_is_named() -> None:
    """264 pages at 5 s each are 22 min, though the others are done in a minute."""
    shell = mixed(180)
    found = remaining(shell)
    assert found is not None and found.last == SLOW and not found.limit
    left = 300 - 180 // 5
    assert left * 5 - 5 <= found.least_ms / 1000 <= found.most_ms / 1000 <= left * 5 + 5
    assert why(shell).endswith(f"About 22 min for {left} URLs, 127.0.11.3 last")


def test_the_slowest_host_is_named_from_the_beginning_of_a_crawl() -> None:
    """When the crawl's rate alone would say that a minute or two are left."""
    found = remaining(mixed(20))
    assert found is not None and found.last == SLOW
    assert found.least_ms >= 296 * 5_000


def test_the_time_left_names_no_host_if_hosts_are_alike_or_there_is_one() -> None:
    for hosts in (FAST, (SLOW,)):
        found = remaining(mixed(60, hosts=hosts))
        assert found is not None and found.last == ""


def test_a_host_that_rests_for_an_hour_decides_the_time_left() -> None:
    """It has asked for an hour's rest (Retry-After)."""
    shell = mixed(20, hosts=(*FAST, "c.example"))
    shell.now_ms += 1_000
    shell.tick()
    for grant in shell.grants(NAME):
        status, asked_ms = (503, 3_600_000) if "c.example" in grant.uri else (200, 0)
        shell.finish(Report(grant.token, fetch_status=status, retry_after_ms=asked_ms))
    found = remaining(shell)
    assert found is not None and found.last == "c.example" and found.least_ms >= 3_590_000
    assert "c.example rests (fetch status 503)" in why(shell)


@pytest.mark.parametrize(
    ("limits", "limit", "most_s", "words"),
    [
        ({"max_documents": 33}, "limits.max_documents", 6, "Page limit in about"),
        ({"max_bytes": 33_000}, "limits.max_bytes", 6, "Limit of bytes in about"),
        ({"max_elapsed_ms": 5_000}, "limits.max_elapsed_seconds", 5, "Time limit in about"),
    ],
)
def test_the_time_left_near_a_limit_is_the_limits_and_counts_the_uris_it_leaves(
    limits: dict[str, int], limit: str, most_s: int, words: str
) -> None:
    """33 pages, or as much as they take, are left to the limit, of 600 and more URIs."""
    shell = mixed(20)
    statistics = shell.core.views.statistics(NAME, shell.now_ms)
    now = {
        "max_documents": statistics.counts["succeeded_count"],
        "max_bytes": statistics.counts["bytes_count"],
        "max_elapsed_ms": statistics.elapsed_ms,
    }
    least: dict[str, Any] = {field: now[field] + more for field, more in limits.items()}
    raised = LimitSettings(**least)
    limited = mixed(20, limits=raised)
    found, queued = remaining(limited), statistics.counts["queued_count"]
    assert found is not None and found.limit == limit and found.last == ""
    assert found.most_ms <= (most_s + 1) * 1_000
    assert queued - 40 <= found.left <= queued - 30
    assert f". {words} " in why(limited) and why(limited).endswith(f"; {found.left} URLs would be left")


def test_a_limit_that_only_the_slow_host_reaches_takes_that_hosts_time() -> None:
    """Both fast hosts are done with 20 pages each; the page limit takes 10 more of the slow one."""
    shell = mixed(40, pages=20, limits=LimitSettings(max_documents=40 + 9 + 10))
    found = remaining(shell)
    assert found is not None and found.limit == "limits.max_documents"
    assert 45_000 <= found.least_ms <= 56_000 and found.left == 1


def test_the_estimate_samples_a_bounded_number_of_resting_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs no more than so many queues, however many rest. The others are estimated."""
    monkeypatch.setattr(resting, "MOST_LOOKED_AT", 10)
    shell = mixed(1, pages=20, hosts=tuple(f"h{each}.example" for each in range(35)))
    queues, each = sampled(shell.core.shard.registry.named(NAME))
    assert len(queues) <= 10 and each == 4
    assert why(shell).startswith("Limited by politeness: about 36 hosts wait 0.3 s")
