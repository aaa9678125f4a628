"""The estimate of the time that a crawl still needs."""

import pytest
from core_doubles.lives import NAME, fetch, launched
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import LimitSettings, PolitenessSettings, RobotsSettings

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


def remaining_s(shell: Shell) -> tuple[int, int] | None:
    """The estimate in seconds."""
    remaining = shell.core.views.statistics(NAME, shell.now_ms).remaining_ms
    return None if remaining is None else (remaining[0] // 1000, remaining[1] // 1000)


def test_too_few_pages_allow_no_estimate() -> None:
    assert remaining_s(crawl(4)) is None


def test_a_crawl_needs_what_its_rate_says() -> None:
    shell = crawl(100)  # 2 pages every 10 s, 100 URIs left
    estimate = remaining_s(shell)
    assert estimate is not None
    assert 490 <= estimate[0] <= 510 and estimate[0] <= estimate[1] <= 1_000


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
    assert told.startswith("politeness: min_delay_seconds = 10 on 2 hosts; at this rate about ")
    assert told.endswith(" for 98 URIs")
