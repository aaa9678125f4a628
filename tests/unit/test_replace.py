"""Candidates and notes that replace what a crawl has of their URIs, wherever these are; and forced keys."""

from dataclasses import replace

import pytest
from core_doubles.codec import candidate
from core_doubles.keeping import SETTINGS, A, B, crawl
from core_doubles.shell import START_MS, Shell

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows.errors import InvalidRequest, NoSeeds, UnknownCrawl
from frontier_server.core.rows.store import Changes
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import (
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
)
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, Grant, Report, UriState, UriStory, Verdict

SECOND = 1_000


def anew(shell: Shell, *offered: Candidate | str) -> list[Verdict]:
    """Offer candidates that replace."""
    made = [candidate(offer) if isinstance(offer, str) else offer for offer in offered]
    return shell.do(lambda core, now: core.frontier.schedule("crawl", made, now, replace=True))


def note(shell: Shell, *uris: str, keys: tuple[str, ...] = (), replaces: bool = True) -> int:
    def noted(core: Core, now: int) -> tuple[int, Changes]:
        return core.administration.record_seen("crawl", uris, now, replace=replaces, queue_keys=keys)

    return shell.do(noted)


def story(shell: Shell, uri: str) -> UriStory:
    return shell.core.administration.story("crawl", uri, shell.now_ms)


def fetch(shell: Shell, most: int = 100) -> list[Grant]:
    return shell.grants("crawl", most=most)


def agrees(shell: Shell) -> None:
    """Rows, counts and indexes agree, in memory and after a restart."""
    job = shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, {}, now))
    shell.work()
    ended = shell.core.administration.job("crawl", job.number)
    assert (ended.changed, ended.findings) == (0, ())
    shell.restart()


# Candidates.


def test_a_uri_that_waits_waits_as_it_is_offered_now() -> None:
    shell = crawl(candidate(f"{A}/1", annotations=b"old"), f"{A}/2")
    assert anew(shell, candidate(f"{A}/1", annotations=b"new")) == [Verdict.QUEUED]
    assert shell.count("crawl", "queued_count") == shell.count("crawl", "discovered_count") == 2
    (first,) = fetch(shell)
    assert first.uri == f"{A}/2", "it came again, and is behind"
    shell.finish(Report(first.token, fetch_status=200))
    (second,) = fetch(shell)
    assert second.candidate.annotations == b"new"
    agrees(shell)


def test_a_uri_that_waits_may_be_put_off_and_brought_forward() -> None:
    shell = crawl(f"{A}/1")
    later = shell.now_ms + 60 * SECOND
    assert anew(shell, candidate(f"{A}/1", not_before_ms=later)) == [Verdict.QUEUED]
    assert (story(shell, f"{A}/1").state, story(shell, f"{A}/1").due_ms) == (UriState.FUTURE, later)
    assert fetch(shell) == []
    assert anew(shell, candidate(f"{A}/1", not_before_ms=later + SECOND)) == [Verdict.QUEUED]
    assert story(shell, f"{A}/1").due_ms == later + SECOND
    assert anew(shell, f"{A}/1") == [Verdict.QUEUED]
    assert len(fetch(shell)) == 1 and shell.count("crawl", "future_count") == 0
    agrees(shell)


def test_the_lease_of_a_uri_that_is_replaced_ends_and_its_report_is_stale() -> None:
    shell = crawl(f"{A}/1")
    (out,) = fetch(shell)
    assert anew(shell, f"{A}/1") == [Verdict.QUEUED]
    (result,) = shell.finish(Report(out.token, fetch_status=200))
    assert (result.disposition, result.repeated) == (Disposition.STALE, False)
    (again,) = fetch(shell)
    (result,) = shell.finish(Report(again.token, fetch_status=200))
    assert result.disposition is Disposition.SUCCEEDED and shell.count("crawl", "succeeded_count") == 1
    agrees(shell)


def test_the_host_of_a_lease_that_is_replaced_rests() -> None:
    """Its node may still be fetching."""
    politeness = PolitenessSettings(delay_factor=0.0, min_delay_ms=5 * SECOND, max_delay_ms=5 * SECOND)
    shell = crawl(f"{A}/1", settings=replace(SETTINGS, politeness=politeness))
    fetch(shell)
    anew(shell, f"{A}/1")
    assert fetch(shell) == []
    shell.now_ms += 5 * SECOND
    assert len(fetch(shell)) == 1


def test_a_uri_whose_robots_txt_is_out_may_be_replaced() -> None:
    shell = crawl(f"{A}/1", settings=replace(SETTINGS, robots=RobotsSettings()))
    (robots,) = fetch(shell)
    assert robots.robots
    anew(shell, f"{A}/1")
    (result,) = shell.finish(Report(robots.token, fetch_status=404))
    assert result.disposition is Disposition.STALE
    (robots,) = fetch(shell)
    shell.finish(Report(robots.token, fetch_status=404))
    (page,) = fetch(shell)
    assert page.uri == f"{A}/1"
    agrees(shell)


def test_a_uri_that_is_done_is_fetched_again() -> None:
    shell = crawl(f"{A}/1")
    (out,) = fetch(shell)
    shell.finish(Report(out.token, fetch_status=200, etag="e"))
    assert anew(shell, f"{A}/1", f"{A}/1") == [Verdict.QUEUED, Verdict.QUEUED]
    (again,) = fetch(shell)
    assert again.etag == "e", "its visits are known"
    assert shell.count("crawl", "queued_count") == 1
    agrees(shell)


def test_candidates_that_replace_are_judged_like_others() -> None:
    shell = crawl(f"{A}/1")
    assert anew(shell, "mailto:x@a.example", candidate(f"{A}/1", path="Z")) == [
        Verdict.UNSUPPORTED_SCHEME,
        Verdict.MALFORMED,
    ]
    assert story(shell, f"{A}/1").state is UriState.QUEUED


# Notes.


@pytest.mark.parametrize("place", ["waits", "out", "future", "robots"])
def test_a_uri_that_is_noted_is_done_wherever_it_was(place: str) -> None:
    due_ms = Shell().now_ms + 60 * SECOND if place == "future" else 0
    robots = RobotsSettings() if place == "robots" else SETTINGS.robots
    shell = crawl(candidate(f"{A}/1", not_before_ms=due_ms), settings=replace(SETTINGS, robots=robots))
    out = [] if place == "waits" else fetch(shell)
    assert note(shell, f"{A}/1", replaces=False) == 0
    assert note(shell, f"{A}/1") == 1 and note(shell, f"{A}/1") == 0
    assert story(shell, f"{A}/1").state is UriState.DONE
    assert shell.count("crawl", "noted_count") == 1 and shell.count("crawl", "queued_count") == 0
    for grant in out:
        (result,) = shell.finish(Report(grant.token, fetch_status=200))
        assert result.disposition is Disposition.STALE
    assert fetch(shell) == [] and shell.schedule("crawl", f"{A}/1") == [Verdict.ALREADY_SEEN]
    agrees(shell)


def test_noted_uris_belong_to_the_queues_that_are_named() -> None:
    shell = crawl(f"{B}/1")
    assert note(shell, f"{A}/1", f"{A}/2", keys=("own", "")) == 2
    assert (story(shell, f"{A}/1").queue_key, story(shell, f"{A}/2").queue_key) == ("own", "example,a,")
    (queue,) = shell.core.administration.queue("crawl", "own")
    assert queue.queued == 0
    check = shell.core.administration.check_uris
    with pytest.raises(InvalidRequest, match="queue_keys must have 1 keys, one for each URI, got 2"):
        check("crawl", [f"{A}/1"], ["a", "b"])
    with pytest.raises(InvalidRequest, match="each of queue_keys must have 1 to 256 ASCII characters"):
        check("crawl", [f"{A}/1"], ["a b"])


# Forced keys.


def test_a_candidate_may_name_its_queue() -> None:
    """Heritrix's forced keys."""
    shell = crawl(candidate(f"{A}/1", queue_key="own"), candidate(f"{A}/2", queue_key="own"), f"{A}/3")
    keys = {view.key: view.queued for view in shell.core.administration.queues("crawl", None, 10, b"")[0]}
    assert keys == {"own": 2, "example,a,": 1}
    assert {grant.queue_key for grant in fetch(shell, most=1)} <= set(keys)
    agrees(shell)


def test_a_key_of_several_partitions_names_several_queues() -> None:
    shell = crawl(candidate(f"{A}/1", queue_key="own"), candidate(f"{B}/1", queue_key="own"))
    assert len(shell.core.administration.queue("crawl", "own")) == 2
    assert {grant.uri for grant in fetch(shell)} == {f"{A}/1", f"{B}/1"}


def test_uris_of_a_forced_queue_pass_others_whose_authority_waits() -> None:
    """D23 holds for queues that callers share between hosts, too."""
    shell = crawl(
        candidate("http://a.example/1", queue_key="own"),
        candidate("http://a.example/2", queue_key="own"),
        candidate("https://a.example/1", queue_key="own"),
        settings=replace(SETTINGS, robots=RobotsSettings()),
    )
    (robots,) = fetch(shell, most=1)
    assert robots.uri == "http://a.example/robots.txt"
    shell.finish(Report(robots.token, fetch_status=-3))
    (other,) = fetch(shell, most=1)
    assert other.uri == "https://a.example/robots.txt"


def test_a_forced_key_survives_retries_and_revisits() -> None:
    shell = crawl(candidate(f"{A}/1", queue_key="own"))
    (out,) = fetch(shell)
    shell.finish(Report(out.token, fetch_status=200, revisit_ms=shell.now_ms + SECOND))
    shell.now_ms += SECOND
    (again,) = fetch(shell)
    assert again.queue_key == "own"


@pytest.mark.parametrize("key", ["a b", "é", "x" * 257, "a\n"])
def test_a_key_that_cannot_be_is_malformed(key: str) -> None:
    shell = crawl(f"{A}/1")
    assert shell.schedule("crawl", candidate(f"{A}/2", queue_key=key)) == [Verdict.MALFORMED]


# Without seeds, without an end.


def test_a_crawl_whose_candidates_wait_is_launched_without_seeds() -> None:
    shell = crawl(f"{A}/1")
    assert shell.state("crawl") is CrawlState.RUNNING
    shell.create("future", SETTINGS)
    shell.schedule("future", candidate(f"{A}/1", not_before_ms=shell.now_ms + 60 * SECOND))
    shell.do(lambda core, now: core.control.launch("future", now))
    shell.create("empty", SETTINGS)
    with pytest.raises(NoSeeds, match="has no seeds and no waiting URIs"):
        shell.do(lambda core, now: core.control.launch("empty", now))


def test_a_crawl_is_deleted_by_force_while_its_uris_are_out_and_its_hosts_answer_others() -> None:
    shell = crawl(f"{A}/1", f"{A}/2")
    shell.create("other", SETTINGS)
    shell.schedule("other", f"{A}/1")
    shell.do(lambda core, now: core.control.launch("other", now))
    shell.work()
    (out,) = fetch(shell)
    assert shell.grants("other") == [], "the host is busy"
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now, force=True))
    with pytest.raises(UnknownCrawl):
        shell.core.views.crawl("crawl")
    (result,) = shell.finish(Report(out.token, fetch_status=200))
    assert result.disposition is Disposition.STALE
    assert len(shell.grants("other")) == 1
    shell.work()
    shell.restart()
    assert len(shell.core.shard.crawls) == 1
    shell.create("crawl", SETTINGS)


def test_only_nodes_that_name_a_crawl_of_weight_0_fetch_for_it() -> None:
    shell = crawl(f"{A}/1", settings=replace(SETTINGS, weight=0))
    assert shell.grants(None) == [] and not shell.core.frontier.leasable()
    assert shell.core.frontier.leasable("crawl") and len(shell.grants("crawl")) == 1


# robots.txt ignored.


def test_a_crawl_that_ignores_robots_txt_neither_fetches_nor_heeds_it_and_says_so() -> None:
    """Heritrix's policy `ignore`; what another crawl knows of the file is not heeded either."""
    shell = Shell()
    obeying = replace(SETTINGS, robots=RobotsSettings())
    for name, settings in (("obeying", obeying), ("ignoring", SETTINGS)):
        shell.create(name, settings)
        shell.schedule(name, f"{A}/private")
    shell.do(lambda core, now: core.control.launch("obeying", now))
    shell.do(lambda core, now: core.control.launch("ignoring", now))
    shell.work()
    (robots,) = shell.grants("obeying")
    body = b"User-agent: *\nDisallow: /private\nCrawl-delay: 100"
    shell.finish(Report(robots.token, fetch_status=200, robots_body=body))
    assert shell.grants("obeying") == []
    shell.now_ms += 200 * SECOND
    (page,) = shell.grants("ignoring")
    assert page.uri == f"{A}/private"
    assert shell.schedule("ignoring", f"{A}/private/2") == [Verdict.QUEUED]
    shell.finish(Report(page.token, fetch_status=200))
    assert len(shell.grants("ignoring")) == 1, "nor is its Crawl-delay"
    told = [row.fields["kind"] for row in shell.events("ignoring") if row.kind == "problem"]
    assert told == ["robots-ignored"]
    assert not [row for row in shell.events("obeying") if row.kind == "problem"]


@pytest.mark.parametrize("status", [-2, -3])
def test_a_uri_that_was_deferred_and_is_taken_back_is_not_said_to_be_tried_again(status: int) -> None:
    shell = crawl(f"{A}/noted", f"{A}/later")
    for _ in range(2):
        (out,) = shell.grants("crawl")
        report = Report(out.token, fetch_status=status)
        shell.finish(report)
        shell.now_ms += 3_600 * SECOND
        if story(shell, f"{A}/noted").state is not UriState.DONE:
            note(shell, f"{A}/noted")
            (result,) = shell.finish(report)
            assert result.disposition is Disposition.STALE
    anew(shell, candidate(f"{A}/later", not_before_ms=shell.now_ms + SECOND))
    for uri in (f"{A}/noted", f"{A}/later"):
        assert (story(shell, uri).disposition, story(shell, uri).fetch_status) == ("", 0)


def test_a_host_rests_after_the_deletion_of_a_crawl_whose_node_may_still_be_fetching() -> None:
    polite = PolitenessSettings(delay_factor=0.0, min_delay_ms=5 * SECOND, max_delay_ms=5 * SECOND)
    shell = crawl(f"{A}/1", settings=replace(SETTINGS, politeness=polite))
    assert len(shell.grants("crawl")) == 1
    shell.create("other", replace(SETTINGS, politeness=polite))
    shell.launch("other", f"{A}/other")
    assert shell.grants("other") == []
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now, force=True))
    assert shell.grants("other") == []
    shell.now_ms += 5 * SECOND
    assert len(shell.grants("other")) == 1


def test_a_queue_whose_key_a_caller_chose_is_there_before_its_uri_is_due() -> None:
    shell = crawl(candidate(f"{A}/later", queue_key="own", not_before_ms=START_MS + 60 * SECOND))
    (view,) = shell.do(
        lambda core, now: core.administration.change_queue("crawl", "own", QueueChange(min_gap_ms=1), now)
    )
    assert (view.key, view.min_gap_ms) == ("own", 1)


def test_leases_that_lapse_as_often_as_the_settings_say_fail_their_uri() -> None:
    for most in (1, 4):
        shell = crawl(f"{A}/1", settings=replace(SETTINGS, retry=RetrySettings(max_lapses=most)))
        for _ in range(most):
            assert len(shell.grants("crawl")) == 1
            shell.now_ms += shell.period_ms + 1
            shell.tick()
        assert shell.grants("crawl") == [] and story(shell, f"{A}/1").disposition == "FAILED"


def test_a_uri_that_is_noted_keeps_the_time_of_its_discovery_and_ends_now() -> None:
    shell = crawl(f"{A}/1")
    found_ms = shell.now_ms
    shell.now_ms += 5 * SECOND
    note(shell, f"{A}/1", keys=("own",))
    told = story(shell, f"{A}/1")
    assert (told.discover_ms, told.finish_ms, told.queue_key) == (found_ms, shell.now_ms, "own")
