"""Queues in line at a host or a group: a free place costs one turn, and nobody is forgotten."""

from collections import Counter
from functools import partial

import pytest
from core_doubles.codec import PlainCodec
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import (
    CrawlSettings,
    GroupSettings,
    PolitenessSettings,
    QueueSettings,
)
from frontier_server.core.state.model import Candidate, Grant, Report

MANY = 300
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
HOSTS = tuple(f"h{number:03d}.example" for number in range(MANY))


def group(max_parallel: int = 2, min_gap_ms: int = 0) -> CrawlSettings:
    """A crawl whose hosts are all of one group."""
    return CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=QUICK,
        groups=(GroupSettings("site", HOSTS, max_parallel, min_gap_ms),),
    )


def crawl(settings: CrawlSettings, seeds: int = MANY) -> Shell:
    """A crawl with a URI of each host."""
    shell = Shell()
    shell.create("crawl", settings)
    shell.launch("crawl", *(f"http://{host}/" for host in HOSTS[:seeds]))
    return shell


def fetch(shell: Shell, *grants: Grant) -> list[str]:
    """Report leases; what was fetched."""
    for grant in grants:
        shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))
    return [grant.uri for grant in grants]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the head of a queue has been looked at."""
    counted: Counter[str] = Counter()
    decode = PlainCodec.decode

    def counting(codec: PlainCodec, record: bytes) -> Candidate:
        counted["heads"] += 1
        return decode(codec, record)

    monkeypatch.setattr(PlainCodec, "decode", counting)
    return counted


@pytest.mark.parametrize("gap_ms", [0, 1_000])
def test_one_free_place_of_a_group_costs_one_turn_however_many_wait(looks: Counter[str], gap_ms: int) -> None:
    shell = crawl(group(min_gap_ms=gap_ms))
    out = shell.grants()
    while shell.next().again:
        pass
    for _ in range(50):
        looks.clear()
        shell.now_ms += gap_ms
        fetch(shell, out.pop(0))
        out += shell.grants()
        assert 1 <= len(out) <= 2 and looks["heads"] <= 6


@pytest.mark.parametrize("gap_ms", [0, 1_000])
def test_whoever_waits_in_line_has_its_turn(gap_ms: int) -> None:
    shell = crawl(group(min_gap_ms=gap_ms), seeds=20)
    fetched: list[str] = []
    for _ in range(60):
        fetched += fetch(shell, *shell.grants())
        shell.now_ms += gap_ms
        shell.tick()
    assert sorted(fetched) == sorted(f"http://{h}/{p}" for h in HOSTS[:20] for p in ("", "robots.txt"))


def test_a_queue_that_leaves_the_line_keeps_its_place_for_nobody() -> None:
    """An operator pauses it, or another host holds it: the next one in line goes."""
    shell = crawl(group(max_parallel=1), seeds=4)
    (first,) = shell.grants()
    for key in ("example,h001,", "example,h002,"):
        change = partial(shell.core.administration.change_queue, "crawl", key, QueueChange(paused=True))
        shell.do(lambda _, now: change(now))  # noqa: B023  # called at once
    fetch(shell, first)
    # The one whose lease ended comes behind those in line.
    assert fetch(shell, *shell.grants()) == ["http://h003.example/robots.txt"]
    assert fetch(shell, *shell.grants()) == ["http://h000.example/"]


def test_a_crawl_that_nobody_asks_for_does_not_hold_up_others_at_a_host() -> None:
    shell = Shell()
    for name in ("one", "two", "three"):
        shell.create(name, CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK))
        shell.launch(name, "http://h.example/")
    (out,) = shell.grants("one")
    assert shell.grants("two") == [] and shell.grants("three") == []
    fetch(shell, out)
    shell.request("two", Input.PAUSE)
    assert fetch(shell, *shell.grants("three")) == ["http://h.example/"]
    assert fetch(shell, *shell.grants("one")) == ["http://h.example/"]
    shell.request("two", Input.RESUME)
    assert fetch(shell, *shell.grants("two")) == ["http://h.example/"]


def test_a_released_lease_is_the_first_to_be_given_again() -> None:
    shell = crawl(group(max_parallel=1), seeds=3)
    (out,) = shell.grants()
    shell.grants()
    shell.take_back([out.token])
    assert [grant.uri for grant in shell.grants()] == [out.uri]


def test_while_a_group_rests_its_queues_say_so_and_until_when() -> None:
    shell = crawl(group(max_parallel=2, min_gap_ms=5_000), seeds=3)
    fetch(shell, *shell.grants())
    shell.grants()
    views = shell.do(lambda f, now: (f.administration.queues("crawl", None, 10, b"")[0], {}))
    waiting = {view.key: (view.wake_ms - shell.now_ms, view.reason) for view in views if view.reason}
    assert set(waiting.values()) == {(5_000, "group site: gap")}
    assert shell.core.upkeep.next_due_ms() == shell.now_ms + 5_000


def test_queues_of_one_host_that_rests_are_not_all_looked_at_when_it_has_rested(
    looks: Counter[str],
) -> None:
    queues = QueueSettings(parallel_queues=100)
    polite = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
    settings = CrawlSettings(allowed_addresses=("loopback",), politeness=polite, queues=queues)
    shell = Shell()
    shell.create("crawl", settings)
    shell.launch("crawl", *(f"http://h.example/{folder}/" for folder in range(200)))
    for _ in range(5):
        fetch(shell, *shell.grants())
        shell.now_ms += 1_000
    for _ in range(10):
        looks.clear()
        assert len(fetch(shell, *shell.grants())) == 1
        shell.now_ms += 1_000
        shell.tick()
        assert looks["heads"] <= 6


def test_hosts_that_only_a_crawl_which_is_gone_waited_for_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = crawl(group(max_parallel=1), seeds=30)
    shell.grants()
    while shell.next().again:
        pass
    shell.request("crawl", Input.STOP)
    shell.request("crawl", Input.STOP)
    shell.now_ms += 10 * 60_000
    shell.tick()
    shell.work()
    assert shell.state("crawl").value == "FINISHED"
    monkeypatch.setattr(shell.core.shard.hosts, "_let_go_at", 0)
    shell.tick()
    assert shell.core.shard.hosts._hosts == {}
