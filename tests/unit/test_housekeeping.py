"""What does not grow for ever: memory of crawls that have finished, rows of hosts that nobody asks for."""

import pytest
from core_doubles.codec import candidate
from core_doubles.rows import rows
from core_doubles.shell import Shell

from frontier_server.core.jobs.housekeeping import EVERY_MS, KEPT_MS
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Report

SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
)
HOSTS = 20


def crawl(name: str = "crawl", hosts: int = HOSTS) -> Shell:
    """A crawl that has fetched a page of each host."""
    shell = Shell()
    shell.create(name, SETTINGS)
    shell.launch(name, *(f"http://h{number}.example/" for number in range(hosts)))
    shell.schedule(name, *(candidate(f"http://h{number}.example/page") for number in range(hosts)))
    fetch(shell, 2)
    return shell


def fetch(shell: Shell, rounds: int) -> None:
    for _ in range(rounds):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))


@pytest.mark.parametrize("stops", [True, False])
def test_a_crawl_that_has_finished_keeps_nothing_that_only_made_it_faster(stops: bool) -> None:
    shell = crawl()
    known = shell.core.shard.registry.names["crawl"]
    assert known.known_texts and known.scope_cache
    if stops:
        shell.request("crawl", Input.STOP)
    else:
        fetch(shell, 5)
    shell.work()
    assert shell.state("crawl") is CrawlState.FINISHED
    assert not (
        known.known_texts
        or known.scope_cache
        or known.queues.recent
        or known.queues.active
        or known.queues.ready
    )


def _stored(shell: Shell) -> tuple[int, int]:
    return len(rows(shell.store, Family.HOSTS, b"")), len(rows(shell.store, Family.ROBOTS, b""))


def test_rows_of_hosts_and_robots_txt_files_go_when_nobody_has_needed_them_for_long() -> None:
    shell = crawl()
    assert _stored(shell) == (HOSTS, HOSTS) and not shell.core.upkeep.has_work
    shell.now_ms += EVERY_MS
    shell.tick()
    assert shell.work() and _stored(shell) == (HOSTS, HOSTS)
    shell.now_ms += KEPT_MS
    shell.schedule("crawl", "http://h3.example/new")
    out = shell.grants(most=3)
    shell.tick()
    assert shell.work() and not shell.core.upkeep.has_work
    left = {key[8:].decode() for key, _ in rows(shell.store, Family.HOSTS, b"")}
    assert left == set(shell.core.shard.hosts.in_flight()), "requests to them are out"
    assert len(left) == len(out) == 3 and _stored(shell)[1] == 0


def test_a_host_that_must_rest_for_long_is_not_forgotten() -> None:
    shell = crawl(hosts=1)
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=503, retry_after_ms=3_600_000))
    shell.now_ms += EVERY_MS
    shell.tick()
    shell.work()
    assert _stored(shell) == (1, 1)


def test_many_rows_are_gone_through_in_slices() -> None:
    shell = crawl(hosts=700)
    fetch(shell, 20)
    assert _stored(shell) == (700, 700)
    shell.now_ms += KEPT_MS + EVERY_MS
    shell.tick()
    assert 4 <= shell.work() <= 6 and _stored(shell) == (0, 0)


def test_a_deletion_passes_queues_that_do_not_match_by_the_slice() -> None:
    shell = crawl(hosts=200)
    shell.request("crawl", Input.PAUSE)
    for number in range(200):
        shell.schedule("crawl", f"http://h{number}.example/more", f"http://h{number}.example/still")
    patterns = {"queue_pattern": "example,h7,", "uri_pattern": ".*"}
    shell.do(lambda f, now: f.administration.start_job("crawl", JobKind.DELETE_URIS, patterns, now))
    slices = shell.work()
    (job,) = [job for job in shell.core.administration.jobs("crawl") if job.kind == "delete-uris"]
    assert job.changed >= 2 and slices <= 8
