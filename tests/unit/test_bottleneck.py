"""Why a crawl that runs is not going faster: a true sentence for each thing that can be in the way."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import PERIOD_MS, START_MS, Shell
from scenarios.player import STEP, Player

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.operators.idle import ASKED_LATELY_MS
from frontier_server.core.spec.settings import (
    CrawlSettings,
    LimitSettings,
    PolitenessSettings,
    ReseedSettings,
    RetrySettings,
)
from frontier_server.core.state import operation
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Grant, Report

POLITENESS = PolitenessSettings(delay_factor=0, min_delay_ms=2_000, max_delay_ms=2_000)
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), politeness=POLITENESS)


def crawl(*seeds: str, **parts: Any) -> Shell:
    """A crawl that runs, whose hosts have rested since their robots.txt was fetched."""
    shell = Shell()
    shell.create("crawl", replace(SETTINGS, **parts))
    shell.launch("crawl", *(f"http://{seed}" for seed in seeds))
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
    shell.now_ms += 2_000
    shell.tick()
    return shell


def limited_by(shell: Shell, name: str = "crawl") -> str:
    """Why it is not going faster."""
    return shell.core.views.statistics(name, shell.now_ms).limited_by


def beat(shell: Shell, grants: list[Grant], node: str = "node", /, **steps: int) -> None:
    """A node's heartbeat: its leases, and its toe threads by step."""
    tokens = [grant.token for grant in grants]
    shell.do(lambda core, now: core.frontier.heartbeat(node, "1", tokens, list(steps.items()), now))


def hosts(number: int) -> list[str]:
    """So many seeds, each on a host of its own."""
    return [f"h{each}/" for each in range(number)]


# Nobody is there to fetch.


def test_no_node_has_asked_yet() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    shell.launch("crawl", "http://a/")
    assert limited_by(shell) == "No node has asked for leases since the server started"


def test_no_node_has_asked_for_a_while() -> None:
    """Also while queues rest: rested, they would wait all the same."""
    shell = crawl("a/", "b/")
    shell.now_ms = START_MS + ASKED_LATELY_MS
    assert limited_by(shell).startswith("Limited by leasing")
    shell.now_ms += 10_000
    assert limited_by(shell) == "No node asks for leases (last asked 70 s ago)"


def test_nodes_without_toe_threads() -> None:
    shell = crawl("a/")
    shell.now_ms += ASKED_LATELY_MS
    beat(shell, [])
    assert limited_by(shell) == "No toe thread: no node asks for leases (last asked 62 s ago)"


# Queues are ready, and wait for those who fetch.


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({"FETCHING": 2}, "Limited by toe threads: 2 of 2 are busy, and 3 queues are ready"),
        (
            {"FETCHING": 18, "ABOUT_TO_GET_URI": 2},
            "Limited by toe threads: 18 of 20 are busy, and 3 queues are ready",
        ),
        (
            {"FETCHING": 17, "ABOUT_TO_GET_URI": 3},
            "Limited by leasing: 3 of 20 toe threads are waiting for a URI, and 3 queues are ready",
        ),
        (
            {"WRITING": 2, "FETCHING": 1},
            "Limited by writing: 2 of 3 toe threads are writing pages, and 3 queues are ready",
        ),
        (
            {"FINISHING": 2, "FETCHING": 1},
            "Limited by reports: 2 of 3 toe threads are waiting to hand pages over, and 3 queues are ready",
        ),
        (
            {"EXTRACTING": 2, "FETCHING": 1},
            "Limited by extraction: 2 of 3 toe threads are looking for links, and 3 queues are ready",
        ),
        (
            {"EXTRACTING": 1, "WRITING": 1, "FETCHING": 1},
            "Limited by toe threads: 3 of 3 are busy, and 3 queues are ready",
        ),
        ({}, "Limited by leasing: 3 queues are ready, and nodes ask for leases"),
    ],
)
def test_toe_threads_are_at_work(steps: dict[str, int], told: str) -> None:
    """And at what, if most are at the same; foreign fetchers may tell of none."""
    shell = crawl(*hosts(5))
    beat(shell, shell.grants(most=2), **steps)
    assert limited_by(shell) == told


def test_one_queue_is_ready() -> None:
    shell = crawl(*hosts(2))
    beat(shell, shell.grants(most=1), FETCHING=1)
    assert limited_by(shell) == "Limited by toe threads: 1 of 1 is busy, and 1 queue is ready"


def test_toe_threads_are_at_work_for_other_crawls_too() -> None:
    """Queues that wait for activation count as ready."""
    shell = crawl(*hosts(2))
    grants = shell.grants()
    shell.create("other", SETTINGS)
    shell.launch("other", "http://n/", "http://m/")
    grants += shell.grants("other", most=1)
    beat(shell, grants, FETCHING=3)
    told = (
        "Limited by toe threads: 3 of 3 are busy, and 1 queue is ready; 2 URIs of other crawls being fetched"
    )
    assert limited_by(shell, "other") == told


def test_pages_are_slow() -> None:
    shell = crawl(*hosts(5))
    grants = shell.grants(most=2)
    shell.now_ms += 12_000
    beat(shell, grants, FETCHING=2)
    assert limited_by(shell) == (
        "Limited by slow pages: 2 URIs being fetched for 12 s on average, and 3 queues are ready"
    )


def test_max_toes_is_reached() -> None:
    shell = crawl(*hosts(5), max_toes=2)
    grants = shell.grants()
    assert len(grants) == 2
    beat(shell, grants, FETCHING=2, ABOUT_TO_GET_URI=6)
    assert limited_by(shell) == "Limited by max_toes = 2: 3 queues are ready"


def test_the_document_limit_is_filled_by_what_is_out() -> None:
    shell = crawl(*hosts(5), limits=LimitSettings(max_documents=2))
    first, _ = shell.grants()
    shell.finish(Report(first.token, fetch_status=200))
    assert limited_by(shell) == "Page limit: 1 page fetched and 1 being fetched fill limits.max_documents = 2"


def test_what_a_silent_node_did_does_not_count() -> None:
    shell = crawl(*hosts(5))
    beat(shell, shell.grants(most=2, node="silent"), "silent", WRITING=2)
    shell.now_ms += PERIOD_MS // 2
    beat(shell, shell.grants(most=1), WRITING=1)
    assert limited_by(shell).startswith("Limited by writing: 3 of 3 toe threads")
    shell.now_ms += PERIOD_MS // 2 + 1
    assert limited_by(shell).startswith("Limited by writing: 1 of 1 toe thread")


# No queue is ready.


def test_politeness() -> None:
    shell = crawl(*hosts(5))
    grants = shell.grants()
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in grants[:3]))
    shell.schedule("crawl", *(f"http://h{host}/2" for host in range(5)))
    beat(shell, grants[3:], FETCHING=2, ABOUT_TO_GET_URI=1)
    assert limited_by(shell) == "Limited by politeness: 3 hosts wait 2 s"
    shell.now_ms += 2_000
    assert limited_by(shell).startswith("Limited by leasing"), "it is about to wake"


def test_fewer_hosts_than_toe_threads() -> None:
    shell = crawl(*hosts(2))
    grants = shell.grants()
    shell.schedule("crawl", "http://h0/2", "http://h1/2")
    beat(shell, grants, FETCHING=2, ABOUT_TO_GET_URI=2)
    assert limited_by(shell) == "Limited by few hosts: 2 queues being fetched from, and no other is ready"
    shell.finish(Report(grants[0].token, fetch_status=404))
    assert limited_by(shell) == "Limited by politeness: h0 waits 2 s"
    shell.now_ms += 1
    shell.finish(Report(grants[1].token, fetch_status=404))
    assert limited_by(shell) == "Limited by politeness: 2 hosts wait 2 s"


def test_all_queues_are_fetched_from_and_pages_are_slow() -> None:
    shell = crawl("a/")
    grants = shell.grants()
    shell.now_ms += 40_000
    beat(shell, grants, FETCHING=1, ABOUT_TO_GET_URI=3)
    told = (
        "Limited by slow pages: 1 URI being fetched for 40 s on average; "
        "1 queue being fetched from, and no other is ready"
    )
    assert limited_by(shell) == told


def test_a_long_rest() -> None:
    """Why the first of those that rest does so."""
    shell = crawl("a/", retry=RetrySettings(delay_ms=600_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=-2))
    told = "Limited by rests: 1 queue rests, none is being fetched from; the next wakes in 10 min"
    assert limited_by(shell) == f"{told}; a rests (retry after fetch status -2: connection failed)"


def test_a_long_rest_is_not_what_limits_a_crawl_of_few_hosts_that_are_fetched_from() -> None:
    shell = crawl("a/", "b/", retry=RetrySettings(delay_ms=600_000))
    first, second = shell.grants()
    shell.finish(Report(first.token, fetch_status=-2))
    beat(shell, [second], FETCHING=1, ABOUT_TO_GET_URI=3)
    told = "1 queue rests, 1 is being fetched from; the next wakes in 10 min"
    assert limited_by(shell) == f"Limited by few hosts: {told}"
    beat(shell, [second], FETCHING=1, ABOUT_TO_GET_URI=1)
    assert limited_by(shell) == (
        f"Limited by rests: {told}; a rests (retry after fetch status -2: connection failed)"
    )


def test_queues_that_rest_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "MAX_SNOOZED_IN_MEMORY", 0)
    shell = crawl("a/", retry=RetrySettings(delay_ms=600_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=-2))
    assert (
        limited_by(shell)
        == "Limited by rests: 1 queue rests, none is being fetched from; the next wakes in 10 min"
    )


def test_queues_of_a_host_that_answers_others() -> None:
    shell = crawl("a/", "a:81/", "a:82/")
    for _ in range(2):  # a robots.txt for each port
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
        shell.now_ms += 2_000
        shell.tick()
    beat(shell, shell.grants(), FETCHING=1, ABOUT_TO_GET_URI=1)
    assert limited_by(shell) == "Limited by busy hosts: 2 queues wait for others of the same host or group"


# No queue has a URI to give.


def test_paused_queues() -> None:
    shell = crawl("a/")
    change = QueueChange(paused=True)
    shell.do(lambda core, now: core.administration.change_queue("crawl", "a,", change, now))
    shell.tick()
    shell.next()
    assert limited_by(shell) == "1 URI left, only in queues that an operator has paused"


def test_uris_that_wait_for_their_time() -> None:
    """S2.7."""
    shell = crawl("a/")
    shell.schedule("crawl", candidate("http://a/later", not_before_ms=START_MS + 3 * 3_600_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=404))
    shell.now_ms += 2_000
    shell.tick()
    shell.next()
    assert limited_by(shell) == "1 URI to be fetched later, the first in 2 h"


def test_a_job_is_all_that_is_left() -> None:
    shell = crawl("a/")
    shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, {}, now))
    shell.finish(Report(shell.grants()[0].token, fetch_status=404))
    shell.now_ms += 2_000
    shell.tick()
    shell.next()
    assert shell.state("crawl") is CrawlState.RUNNING
    assert limited_by(shell) == "No URI waits, and job 2 is under way"


def test_the_next_round_of_seeds() -> None:
    shell = crawl("a/", reseed=ReseedSettings(max_rounds=1, min_interval_ms=60_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=404))
    shell.now_ms += 2_000
    shell.tick()
    shell.next()
    assert shell.state("crawl") is CrawlState.RUNNING
    assert limited_by(shell) == "The seeds are announced again in 56 s"


# The setting that limits a crawl.


@pytest.mark.parametrize(
    ("parts", "setting"),
    [
        ({}, "politeness.min_delay_seconds"),
        ({"politeness": PolitenessSettings(1_000, 0, 50)}, "politeness.max_delay_seconds"),
        ({"politeness": PolitenessSettings(5, 0, 30_000)}, "politeness.delay_factor"),
        ({"max_toes": 1}, "max_toes"),
        ({"limits": LimitSettings(max_documents=2)}, "limits.max_documents"),
    ],
)
def test_the_setting_is_named_as_a_spec_file_names_it(parts: dict[str, Any], setting: str) -> None:
    shell = crawl("a/", "b/", **parts)
    grants = shell.grants()
    shell.schedule("crawl", "http://a/2", "http://b/2")
    if "max_toes" not in parts:
        shell.finish(*(Report(each.token, fetch_status=200, duration_ms=90) for each in grants[:1]))
    if "politeness" in parts or not parts:
        shell.finish(*(Report(each.token, fetch_status=200, duration_ms=90) for each in grants[1:]))
    assert shell.core.views.statistics("crawl", shell.now_ms).limiting_setting == setting
    assert setting.rpartition(".")[2] in [*_fields(CrawlSettings())]


def _fields(settings: CrawlSettings) -> list[str]:
    """The names of settings in a spec file."""
    parts: tuple[Any, ...] = (settings, settings.politeness, settings.limits)
    return [each.name.replace("_ms", "_seconds") for part in parts for each in fields(part)]


# At any moment.


def test_a_crawl_that_does_not_run_is_limited_by_nothing() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    assert limited_by(shell) == ""
    shell = crawl("a/")
    shell.request("crawl", Input.PAUSE)
    assert limited_by(shell) == ""
    shell.request("crawl", Input.STOP)
    assert shell.state("crawl") is CrawlState.FINISHED
    assert limited_by(shell) == ""


TRANSCRIPTS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_something_is_told_in_one_line_at_every_moment_of_a_crawl_that_runs(transcript: Path) -> None:
    """After each step of each transcript; and it is never that nothing is left, as the crawl would end."""
    player = Player()
    for line in transcript.read_text().splitlines():
        if match := STEP.match(line):
            player.play(match["second"], match["command"], match["rest"] or "")
            for name in player.crawls:
                told = limited_by(player.shell, name)
                runs = player.shell.state(name) is CrawlState.RUNNING
                assert bool(told) is runs and "\n" not in told and "nothing" not in told
