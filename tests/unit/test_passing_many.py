"""Queues that very many hosts share: those that wait cost the others nothing."""

from collections import Counter

import pytest
from core_doubles.codec import PlainCodec
from core_doubles.shell import Shell

from frontier_server.core.spec.settings import (
    CrawlSettings,
    GroupSettings,
    PolitenessSettings,
    QueueSettings,
    RobotsSettings,
)
from frontier_server.core.state.model import Candidate, Grant, Report

NO_REST = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
HOSTS = [f"http://h{number:04}.site.example/" for number in range(500)]


def crawl(queues: QueueSettings, **settings: object) -> Shell:
    """A crawl without robots.txt files and rests."""
    shell = Shell()
    given = {"politeness": NO_REST, "robots": RobotsSettings(policy="ignore"), **settings}
    settings_of_all = CrawlSettings(allowed_addresses=("loopback",), queues=queues, **given)  # type: ignore[arg-type]
    shell.create("crawl", settings_of_all)
    return shell


def given(shell: Shell, most: int = 100) -> list[Grant]:
    """All leases that a node gets which asks until there is no more."""
    out: list[Grant] = []
    for _ in range(100):
        answer = shell.next("crawl", most)
        out += answer.grants
        if not answer.grants and not answer.again:
            return out
    raise AssertionError(f"{len(out)} leases, and asked for more without end")


def test_a_queue_shared_by_300_hosts_leases_a_uri_of_each_at_once() -> None:
    """QueueSpec.max_leases_per_queue: 200 hosts that were busy hid all behind them."""
    queues = QueueSettings(partition="registered-domain", queue_key="all", max_leases_per_queue=500)
    shell = crawl(queues)
    shell.launch("crawl", *(f"{host}{page}" for page in (1, 2) for host in HOSTS[:300]))
    assert Counter(grant.uri for grant in given(shell)) == Counter(f"{host}1" for host in HOSTS[:300])


def test_next_comes_to_an_end_when_the_group_of_all_hosts_is_busy() -> None:
    """GroupSpec.max_parallel: a queue of 250 such hosts got turn after turn, each in vain."""
    names = tuple(host[7:-1] for host in HOSTS)
    groups = (GroupSettings("all", names, 1, 0),)
    shell = crawl(QueueSettings(assignment="buckets", buckets=2), groups=groups)
    shell.launch("crawl", *HOSTS)
    (out,) = given(shell)
    shell.finish(Report(out.token, fetch_status=200))
    assert len(given(shell)) == 1


def test_a_lease_reads_no_heads_of_busy_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[str] = Counter()
    decode = PlainCodec.decode

    def counting(codec: PlainCodec, record: bytes) -> Candidate:
        looks["heads"] += 1
        return decode(codec, record)

    queues = QueueSettings(partition="registered-domain", queue_key="all", max_leases_per_queue=500)
    shell = crawl(queues)
    shell.launch("crawl", *(f"{host}{page}" for page in (1, 2) for host in HOSTS[:300]))
    monkeypatch.setattr(PlainCodec, "decode", counting)
    assert len(given(shell)) == 300 and looks["heads"] <= 300 * 8
