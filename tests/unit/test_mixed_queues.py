"""Queues that hold URIs of several hosts: each host is treated by itself all the same."""

from collections import Counter

import pytest
from core_doubles.codec import override_of
from core_doubles.shell import Shell

from frontier_server.core.spec.settings import (
    AddressGroupSettings,
    CrawlSettings,
    PolitenessSettings,
    QueueSettings,
)
from frontier_server.core.state import host
from frontier_server.core.state.model import Grant, Report

A, B = "http://a.site.example", "http://b.site.example"
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
WIDE = QueueSettings(partition="registered-domain", assignment="registered-domain")


def settings(queues: QueueSettings, politeness: PolitenessSettings = QUICK) -> CrawlSettings:
    """Of a crawl."""
    return CrawlSettings(allowed_addresses=("loopback",), politeness=politeness, queues=queues)


def fetch(shell: Shell, *grants: Grant, peer_address: str = "") -> list[str]:
    """Report 404 for leases; what was fetched."""
    for grant in grants:
        shell.finish(Report(grant.token, fetch_status=404, peer_address=peer_address))
    return [grant.uri for grant in grants]


def fetched_at_most(shell: Shell, leases: int) -> list[str]:
    """What one node fetches, one lease after the other."""
    fetched: list[str] = []
    for _ in range(leases):
        fetched += fetch(shell, *shell.grants())
    return fetched


def test_each_host_of_a_queue_has_its_robots_txt_fetched_once() -> None:
    shell = Shell()
    shell.create("crawl", settings(WIDE))
    shell.launch("crawl", f"{A}/1", f"{B}/1", f"{A}/2", f"{B}/2")
    assert fetched_at_most(shell, 8) == [
        f"{A}/robots.txt",
        f"{A}/1",
        f"{B}/robots.txt",
        f"{B}/1",
        f"{A}/2",
        f"{B}/2",
    ]


def test_a_host_that_another_crawls_queue_has_out_is_not_leased_again() -> None:
    """One host shared by two crawls is still one host, whatever queues they make of it."""
    shell = Shell()
    shell.create("wide", settings(WIDE))
    shell.launch("wide", f"{A}/1", f"{B}/1")
    fetch(shell, *shell.grants("wide"))
    fetch(shell, *shell.grants("wide"))  # the head is of B from now on
    shell.create("narrow", settings(QueueSettings()))
    shell.launch("narrow", f"{B}/2")
    (out,) = shell.grants("narrow")
    assert shell.grants("wide") == []
    fetch(shell, out)
    assert [grant.uri for grant in shell.grants("wide")] == [f"{B}/1"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_queue_of_busy_hosts_goes_on_with_the_first_host_that_becomes_free(first: int) -> None:
    """It waited for the one that it had looked at first, however long that took."""
    shell = Shell()
    for name, site in (("a", A), ("b", B)):
        shell.create(name, settings(QueueSettings()))
        shell.launch(name, f"{site}/1")
        fetch(shell, *shell.grants(name))
    out = [shell.grants(name)[0] for name in ("a", "b")]
    shell.create("wide", settings(WIDE))
    shell.launch("wide", f"{A}/2", f"{B}/2")
    assert shell.grants("wide") == []
    fetch(shell, out.pop(first))
    assert [grant.uri for grant in shell.grants("wide")] == [f"{(A, B)[first]}/2"]


def test_a_host_that_rests_is_not_leased_from_a_queue_that_another_host_began() -> None:
    shell = Shell()
    shell.create("wide", settings(WIDE))
    shell.launch("wide", f"{A}/1", f"{B}/1")
    fetch(shell, *shell.grants("wide"))
    fetch(shell, *shell.grants("wide"))
    shell.create("narrow", settings(QueueSettings(), POLITE))
    shell.launch("narrow", f"{B}/2")
    fetch(shell, *shell.grants("narrow"))
    shell.now_ms += 999
    assert shell.grants("wide") == []
    shell.now_ms += 1
    assert [grant.uri for grant in shell.grants("wide")] == [f"{B}/1"]


def test_parallel_queues_that_share_their_hosts_make_one_request_to_each() -> None:
    """Without max_parallel: though the one queue began with another host than the other."""
    shell = Shell()
    queues = QueueSettings(partition="registered-domain", assignment="registered-domain", parallel_queues=2)
    shell.create("crawl", settings(queues))
    shell.launch("crawl", f"{A}/one/1", f"{B}/three/1")
    shell.schedule("crawl", f"{A}/one/2", f"{A}/three/2")
    heads = [fetch(shell, *shell.grants()) for _ in range(5)]
    assert heads == [
        [f"{A}/robots.txt", f"{B}/robots.txt"],
        [f"{A}/one/1", f"{B}/three/1"],
        [f"{A}/one/2"],
        [f"{A}/three/2"],
        [],
    ]


def test_a_lease_counts_for_its_own_host_across_a_restart() -> None:
    shell = Shell()
    shell.create("wide", settings(WIDE))
    shell.launch("wide", f"{A}/1", f"{B}/1")
    for _ in range(3):
        fetch(shell, *shell.grants("wide"))
    assert [grant.uri for grant in shell.grants("wide")] == [f"{B}/1"]
    shell.restart()
    assert shell.core.shard.hosts.in_flight() == {"b.site.example": 1}
    shell.create("narrow", settings(QueueSettings()))
    shell.launch("narrow", f"{A}/3", f"{B}/3")
    assert [grant.uri for grant in shell.grants("narrow")] == [f"{A}/3"]


def test_an_override_of_requests_at_once_holds_for_its_hosts_only() -> None:
    """PolitenessSpec.max_parallel: requests that take longer than the rest may overlap."""
    shell = Shell()
    shell.create("crawl", settings(QueueSettings(), POLITE))
    shell.do(
        lambda core, now: core.administration.put_override(
            "crawl", f"{A}/", override_of(politeness={"max_parallel": 2}), now
        )
    )
    sites = [host.replace("http", scheme) for host in (A, B) for scheme in ("http", "https")]
    shell.launch("crawl", *(f"{site}/" for site in sites))
    shell.schedule("crawl", *(f"{site}/{number}" for site in sites for number in range(4)))
    at_once, out = [], [shell.grants(), [], []]
    for _ in range(12):
        out.append(shell.grants())
        at_once.append(Counter(grant.uri.split("/")[2] for grants in out for grant in grants))
        fetch(shell, *out.pop(0))
        shell.now_ms += 1_000
    assert max(pages["a.site.example"] for pages in at_once) == 2
    assert max(pages["b.site.example"] for pages in at_once) == 1


@pytest.mark.parametrize("hosts", [1, 3])
def test_hosts_that_memory_lets_go_of_are_not_those_of_leases_that_are_being_given(
    hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle hosts go between two operations: one that goes while it is leased would be leased twice."""
    shell = Shell()
    crawl = CrawlSettings(
        allowed_addresses=("loopback",), politeness=QUICK, address_group=AddressGroupSettings(max_parallel=2)
    )
    shell.create("crawl", crawl)
    seeds = [f"{scheme}://host{number}.example/" for number in range(hosts) for scheme in ("http", "https")]
    shell.launch("crawl", *seeds)
    fetch(shell, *shell.grants(), peer_address="192.0.2.1")
    fetch(shell, *shell.grants(), peer_address="192.0.2.1")
    monkeypatch.setattr(host, "MAX_IDLE_IN_MEMORY", 1)
    shell.restart()
    out = [grant.uri.split("/")[2] for _ in range(3) for grant in shell.grants()]
    assert len(out) == min(hosts, 2) and len(set(out)) == len(out)
