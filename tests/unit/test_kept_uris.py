"""Crawls that keep their URIs list, count and forget what was seen, by host, queue, pattern and time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.keeping import SETTINGS, A, B, crawl
from core_doubles.recount import Recount
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.kept import SeenFilter
from frontier_server.core.operators import seen
from frontier_server.core.rows.errors import InvalidRequest, UnknownQueue, UrisNotKept
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import (
    IdentitySettings,
)
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import JobView, Report, SeenCounts, UriState, UriStory, Verdict

SECOND = 1_000


def listed(shell: Shell, size: int = 100, **wanted: Any) -> list[UriStory]:
    """The stories of all that is chosen, over all pages."""
    stories: list[UriStory] = []
    cursor = b""
    while True:
        page, cursor = shell.core.administration.seen_uris(
            "crawl", SeenFilter(**wanted), size, cursor, shell.now_ms
        )
        assert len(page) <= size
        stories += page
        if not cursor:
            return stories


def uris(stories: Sequence[UriStory]) -> set[str]:
    assert len({story.uri for story in stories}) == len(stories), "each once"
    return {story.uri for story in stories}


def counted(shell: Shell, **wanted: Any) -> SeenCounts:
    total, cursor = SeenCounts(), b""
    while True:
        found, cursor = shell.core.administration.seen_counts("crawl", SeenFilter(**wanted), cursor)
        total = total + found
        if not cursor:
            return total


def forget(shell: Shell, waiting: bool = False, dry_run: bool = False, **wanted: Any) -> JobView:
    """Run a job that forgets; its end."""
    parameters = SeenFilter(**wanted).parameters()
    parameters |= {name: "true" for name, on in (("waiting", waiting), ("dry_run", dry_run)) if on}
    view = shell.do(
        lambda core, now: core.administration.start_job("crawl", JobKind.FORGET_URIS, parameters, now)
    )
    shell.work()
    return shell.core.administration.job("crawl", view.number)


def fetched(shell: Shell) -> str:
    """One page is fetched; its URI."""
    (grant,) = shell.grants("crawl", most=1)
    shell.finish(Report(grant.token, fetch_status=200))
    return grant.uri


def agrees(shell: Shell) -> None:
    """Rows, counts and indexes agree."""
    job = shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, {}, now))
    shell.work()
    ended = shell.core.administration.job("crawl", job.number)
    assert (ended.changed, ended.findings) == (0, ())


# Listed and counted.


def test_all_that_was_seen_is_listed_wherever_it_is() -> None:
    shell = crawl(f"{A}/1", f"{A}/2", f"{B}/1")
    shell.now_ms += SECOND
    done = fetched(shell)
    (out,) = shell.grants("crawl", most=1)
    shell.schedule("crawl", candidate(f"{B}/later", not_before_ms=shell.now_ms + 60 * SECOND))
    shell.do(lambda core, now: core.administration.record_seen("crawl", [f"{A}/noted"], now))
    stories = {story.uri: story for story in listed(shell)}
    assert {uri: story.state for uri, story in stories.items()} == {
        **{f"{A}/1": UriState.QUEUED, f"{A}/2": UriState.QUEUED, f"{B}/1": UriState.QUEUED},
        **{done: UriState.DONE, out.uri: UriState.LEASED},
        **{f"{B}/later": UriState.FUTURE, f"{A}/noted": UriState.DONE},
    }
    assert stories[f"{A}/1"].discover_ms == shell.now_ms - SECOND
    assert stories[f"{A}/noted"].discover_ms == shell.now_ms
    assert stories[out.uri].waiting is not None, "its candidate, also while it is out"
    assert stories[f"{B}/later"].waiting is not None and stories[f"{B}/later"].due_ms
    assert counted(shell) == SeenCounts(queued=1, leased=1, future=1, done=2)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pages_of_any_size_have_each_uri_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [f"http://h{host}.example/{page}" for host in range(4) for page in range(5)]
    shell = crawl(*offered)
    assert uris(listed(shell, size)) == set(offered)
    monkeypatch.setattr(seen, "ROWS_PER_PAGE", 3)
    monkeypatch.setattr(seen, "ROWS_PER_COUNT", 3)
    assert uris(listed(shell, size)) == set(offered)
    assert uris(listed(shell, size, uri_pattern=".*/4")) == {uri for uri in offered if uri.endswith("/4")}
    assert counted(shell).queued == 20


def test_seen_uris_are_chosen_by_host_queue_pattern_and_time() -> None:
    shell = crawl(f"{A}/1", f"{B}/1", candidate(f"{A}/keyed", queue_key="own"))
    shell.now_ms += 60 * SECOND
    shell.schedule("crawl", f"{A}:8080/port", f"{B}/2")
    assert uris(listed(shell, host="a.example")) == {f"{A}/1", f"{A}/keyed", f"{A}:8080/port"}
    assert uris(listed(shell, host="A.Example.")) == uris(listed(shell, host="a.example"))
    assert uris(listed(shell, queue_key="example,a,")) == {f"{A}/1"}
    assert uris(listed(shell, queue_key="own")) == {f"{A}/keyed"}
    assert uris(listed(shell, queue_key="none")) == set()
    assert uris(listed(shell, uri_pattern=r".*/\d")) == {f"{A}/1", f"{B}/1", f"{B}/2"}
    assert uris(listed(shell, before_ms=shell.now_ms)) == {f"{A}/1", f"{B}/1", f"{A}/keyed"}
    assert uris(listed(shell, host="b.example", uri_pattern=".*2", before_ms=shell.now_ms + 1)) == {f"{B}/2"}
    assert counted(shell, host="b.example") == SeenCounts(queued=2)


def test_a_crawl_that_keeps_only_fingerprints_says_so() -> None:
    shell = crawl(f"{A}/1", settings=replace(SETTINGS, identity=IdentitySettings()))
    with pytest.raises(UrisNotKept, match=r"create a crawl with identity\.keep_uris"):
        listed(shell)
    with pytest.raises(UrisNotKept):
        counted(shell)
    with pytest.raises(UrisNotKept):
        forget(shell, uri_pattern=".*")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"uri_pattern": "a(?=b)"}, "uri_pattern"),
        ({"host": "a b"}, "host must be a host name or an IP address, got 'a b'"),
        ({"host": "a.example:8080"}, "host must have no port"),
        ({"queue_key": "k" * 513}, "queue_key must have at most 512 characters, got 513"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(wanted: dict[str, Any], told: str) -> None:
    shell = crawl(f"{A}/1")
    for ask in (listed, counted, forget):
        with pytest.raises(InvalidRequest, match=told.replace("(", r"\(")):
            ask(shell, **wanted)


# Forgotten.


def test_forgotten_uris_are_new_again_and_waiting_ones_stay_unless_they_are_meant_too() -> None:
    shell = crawl(f"{A}/1", f"{A}/2")
    done = fetched(shell)
    ended = forget(shell, host="a.example")
    assert (ended.state, ended.changed, ended.findings) == ("DONE", 1, (done,))
    assert uris(listed(shell)) == {f"{A}/1", f"{A}/2"} - {done}
    assert shell.schedule("crawl", done) == [Verdict.QUEUED]
    ended = forget(shell, host="a.example", waiting=True)
    assert ended.changed == 2 and not listed(shell)
    assert shell.count("crawl", "queued_count") == shell.count("crawl", "discovered_count") == 0
    agrees(shell)


def test_uris_that_are_out_are_counted_and_stay() -> None:
    shell = crawl(f"{A}/1", f"{A}/2")
    (out,) = shell.grants("crawl")
    ended = forget(shell, uri_pattern=".*", waiting=True)
    assert (ended.changed, ended.counts) == (1, {"leased": 1})
    shell.finish(Report(out.token, fetch_status=200))
    assert uris(listed(shell)) == {out.uri}
    agrees(shell)


def test_future_uris_are_forgotten_with_their_time() -> None:
    shell = crawl(candidate(f"{A}/later", not_before_ms=Shell().now_ms + 60 * SECOND))
    assert forget(shell, uri_pattern=".*").changed == 0
    assert forget(shell, uri_pattern=".*", waiting=True).changed == 1
    assert shell.count("crawl", "future_count") == 0
    agrees(shell)


def test_a_dry_run_only_counts() -> None:
    shell = crawl(f"{A}/1", f"{A}/2")
    done = fetched(shell)
    assert forget(shell, uri_pattern=".*", waiting=True, dry_run=True).changed == 2
    assert uris(listed(shell)) == {f"{A}/1", f"{A}/2"} and shell.schedule("crawl", done) == [
        Verdict.ALREADY_SEEN
    ]


def test_uris_that_were_taken_in_before_a_time_are_forgotten() -> None:
    shell = crawl(f"{A}/old")
    shell.now_ms += 60 * SECOND
    shell.schedule("crawl", f"{A}/new")
    forget(shell, before_ms=shell.now_ms, waiting=True)
    assert uris(listed(shell)) == {f"{A}/new"}


def test_a_queue_that_is_forgotten_whole_is_gone_unless_an_operator_has_changed_it() -> None:
    shell = crawl(f"{A}/1", f"{B}/1")
    fetched(shell), fetched(shell)
    forget(shell, queue_key="example,a,", waiting=True)
    with pytest.raises(UnknownQueue):
        shell.core.administration.queue("crawl", "example,a,")
    (left,) = shell.core.administration.queues("crawl", None, 10, b"")[0]
    assert left.key == "example,b,"
    assert sum(shell.core.views.statistics("crawl", shell.now_ms).queue_states.values()) == 1
    Recount(shell, shell.core.shard.registry.named("crawl")).run()
    shell.schedule("crawl", f"{A}/1")
    assert fetched(shell) == f"{A}/1"
    agrees(shell)


def test_a_queue_that_an_operator_has_changed_stays_when_its_uris_are_forgotten() -> None:
    shell = crawl(f"{A}/1")
    change = QueueChange(min_gap_ms=SECOND)
    shell.do(lambda core, now: core.administration.change_queue("crawl", "example,a,", change, now))
    forget(shell, queue_key="example,a,", waiting=True)
    (queue,) = shell.core.administration.queue("crawl", "example,a,")
    assert (queue.queued, queue.min_gap_ms) == (0, SECOND)


def test_forgetting_goes_on_after_a_restart_slice_by_slice() -> None:
    shell = crawl(*(f"{A}/{number}" for number in range(450)))
    parameters = SeenFilter(uri_pattern=".*").parameters() | {"waiting": "true"}
    shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.FORGET_URIS, parameters, now))
    shell.do(lambda core, now: core.upkeep.work(now))
    assert counted(shell).queued == 250
    shell.restart()
    shell.work()
    assert counted(shell) == SeenCounts()
    agrees(shell)


def test_a_job_without_a_condition_is_refused() -> None:
    shell = crawl(f"{A}/1")
    with pytest.raises(InvalidRequest, match="filter must have at least one condition"):
        forget(shell)


def test_a_deleted_crawl_leaves_no_kept_uris() -> None:
    shell = crawl(f"{A}/1")
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now, force=True))
    shell.work()
    assert not list(shell.store.scan(Family.KEPT_URIS, b"", b""))


def test_a_uri_that_is_fetched_anew_is_listed_by_the_queue_where_it_waits_now() -> None:
    shell = crawl(candidate(f"{A}/page", queue_key="before"))
    (out,) = shell.grants("crawl")
    shell.finish(Report(out.token, fetch_status=200))
    shell.now_ms += SECOND
    again = candidate(f"{A}/page", queue_key="after", refetch_before_ms=shell.now_ms)
    assert shell.schedule("crawl", again) == [Verdict.QUEUED]
    assert uris(listed(shell, queue_key="after")) == {f"{A}/page"}
    assert uris(listed(shell, queue_key="before")) == set()
