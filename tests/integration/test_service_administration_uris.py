"""Operators list URIs, look one up, note, forget and export them, over real gRPC."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import (
    FINISH,
    INVALID,
    PAUSE,
    PRECONDITION,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    refused,
    seed_of,
)
from frontier_harness.hosted import hosted
from google.protobuf.timestamp_pb2 import Timestamp

from frontier_server.core.operators.administration import Administration
from frontier_server.core.rows.store import Changes
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

FOUR_MIB = 4 * 1024 * 1024
TOMORROW = Timestamp(seconds=int(time.time()) + 86_400)


def listed(stubs: Stubs, crawl: str, **fields: Any) -> list[admin_pb2.WaitingUri]:
    pages = stubs.pages_of("ListUris", crawl, "uris", **fields)
    return [uri for page in pages for uri in page]


def offer(stubs: Stubs, crawl: str, *candidates: frontier_pb2.Candidate) -> None:
    request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=candidates)
    answer = stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    assert set(answer.verdicts) == {crawl_pb2.VERDICT_QUEUED}


def story(stubs: Stubs, crawl: str, uri: str) -> admin_pb2.UriStory:
    found: admin_pb2.UriStory = stubs.ask("GetUri", crawl, uri=uri).story
    return found


# Listing and exporting.


def test_uris_of_a_queue_are_listed_in_the_order_of_their_turns(stubs: Stubs, crawl: str) -> None:
    seed = seed_of(crawl)
    offered = [
        frontier_pb2.Candidate(uri=f"{seed}normal", via=seed, path="L", annotations=b"mine"),
        frontier_pb2.Candidate(uri=f"{seed}urgent", path="L", directive=frontier_pb2.DIRECTIVE_HIGH),
        frontier_pb2.Candidate(uri=f"{seed}first", path="L", precedence=0, cost=7),
    ]
    offer(stubs, crawl, *offered)
    found = listed(stubs, crawl, queue_key=f"example,{crawl},")
    assert [uri.candidate.uri for uri in found] == [f"{seed}urgent", seed, f"{seed}first", f"{seed}normal"]
    assert [uri.candidate for uri in found if not uri.candidate.seed] == [offered[1], offered[2], offered[0]]
    assert {uri.queue_key for uri in found} == {f"example,{crawl},"}
    assert [(uri.cost, uri.precedence) for uri in found] == [(1, 1), (1, 1), (7, 0), (1, 1)]
    assert not any(uri.HasField("due_time") for uri in found)


def test_future_uris_come_last_with_their_times_and_in_no_queue(stubs: Stubs, crawl: str) -> None:
    """S2.7: futureUris."""
    later = frontier_pb2.Candidate(uri=f"{seed_of(crawl)}later", path="L", not_before_time=TOMORROW)
    offer(stubs, crawl, later)
    *_, last = listed(stubs, crawl)
    assert (last.candidate, last.queue_key, last.due_time) == (later, "", TOMORROW)
    assert [uri.candidate.uri for uri in listed(stubs, crawl, queue_key=f"example,{crawl},")] == [
        seed_of(crawl)
    ]
    assert stubs.statistics(crawl).future_count == 1


@pytest.mark.parametrize("page_size", [1, 10])
def test_pages_of_any_size_have_every_uri_once_and_in_order(stubs: Stubs, page_size: int) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *(seed_of(crawl, f"h{number}.") for number in range(3)))
    for number in range(3):
        stubs.schedule(crawl, *(f"{seed_of(crawl, f'h{number}.')}{page}" for page in range(5)))
    future = frontier_pb2.Candidate(uri=f"{seed_of(crawl, 'h0.')}f", path="L", not_before_time=TOMORROW)
    offer(stubs, crawl, future)
    pages = stubs.pages_of("ListUris", crawl, "uris", page_size=page_size)
    assert all(len(page) <= page_size for page in pages)
    assert [uri for page in pages for uri in page] == listed(stubs, crawl)
    assert len({uri.candidate.uri for page in pages for uri in page}) == 19


def heavy(stubs: Stubs) -> tuple[str, set[str]]:
    """A crawl whose waiting URIs are far more than a message may have."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    offered = [
        frontier_pb2.Candidate(
            uri=f"{seed_of(crawl)}{number}?{'q' * 8000}",
            via=f"{seed_of(crawl)}{'v' * 8000}",
            path="L",
            annotations=b"a" * 1024,
        )
        for number in range(300)
    ]
    for start in range(0, 300, 100):
        offer(stubs, crawl, *offered[start : start + 100])
    return crawl, {candidate.uri for candidate in offered} | {seed_of(crawl)}


def test_a_page_stays_below_what_a_client_takes_by_default(stubs: Stubs) -> None:
    """4 MiB, gRPC's own limit, which the test's client has."""
    crawl, uris = heavy(stubs)
    request = admin_pb2.ListUrisRequest(crawl=crawl, page_size=1000)
    sizes = []
    told: list[str] = []
    while True:
        answer = stubs.admin.ListUris(request, timeout=TIMEOUT_S)
        sizes.append(answer.ByteSize())
        told += [uri.candidate.uri for uri in answer.uris]
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token
    assert max(sizes) < FOUR_MIB and sum(sizes) > FOUR_MIB
    assert sorted(told) == sorted(uris)
    exported = stubs.ask("ExportUris", crawl)
    assert max(message.ByteSize() for message in exported) < FOUR_MIB
    assert sorted(uri.candidate.uri for message in exported for uri in message.uris) == sorted(uris)


def test_an_export_has_what_a_listing_has_and_can_be_taken_up_at_every_cursor(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *(seed_of(crawl, f"h{number}.") for number in range(4)))
    for number in range(4):
        stubs.schedule(crawl, *(f"{seed_of(crawl, f'h{number}.')}{page}" for page in range(400)))
    whole = stubs.ask("ExportUris", crawl)
    assert [uri for message in whole for uri in message.uris] == listed(stubs, crawl)
    assert len(whole) > 2
    for place, message in enumerate(whole):
        assert stubs.ask("ExportUris", crawl, cursor=message.cursor) == whole[place + 1 :]


def test_an_export_of_nothing_ends_at_once(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    (only,) = stubs.ask("ExportUris", crawl)
    assert not only.uris
    assert stubs.ask("ExportUris", crawl, cursor=only.cursor) == []


@pytest.mark.parametrize("cursor", ["x", "00"])
def test_a_cursor_of_an_export_that_is_none_is_refused(stubs: Stubs, crawl: str, cursor: str) -> None:
    refused(
        lambda: stubs.ask("ExportUris", crawl, cursor=cursor), INVALID, "INVALID_ARGUMENT_VALUE", "cursor"
    )


# Stories.


@pytest.mark.parametrize("uri", ["", "ftp://a.example/"])
def test_what_is_no_uri_is_refused_and_named(stubs: Stubs, crawl: str, uri: str) -> None:
    for rpc in ("GetUri", "Explain"):
        refused(
            lambda rpc=rpc: stubs.ask(rpc, crawl, uri=uri),  # type: ignore[misc]
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            uri[:20],
        )


# The seen-set by hand.


@pytest.mark.parametrize("rpc", ["NoteUris", "ForgetUris"])
def test_batches_of_none_and_of_more_than_a_thousand_are_refused(stubs: Stubs, crawl: str, rpc: str) -> None:
    refused(lambda: stubs.ask(rpc, crawl, uris=[]), INVALID, "BATCH_EMPTY", "1000")
    uris = [f"{seed_of(crawl)}{number}" for number in range(1001)]
    refused(lambda: stubs.ask(rpc, crawl, uris=uris), INVALID, "BATCH_TOO_LARGE", "1001")


def test_a_crawl_that_has_finished_can_be_looked_at_but_not_changed(stubs: Stubs, crawl: str) -> None:
    stubs.request(crawl, PAUSE)
    stubs.request(crawl, FINISH)
    uri = seed_of(crawl)
    assert len(listed(stubs, crawl)) == 1
    assert story(stubs, crawl, uri).state == admin_pb2.URI_STATE_QUEUED
    override = {"surt_prefix": "a.example", "settings": {"retry": {"max_attempts": 3}}}
    for rpc, more in (
        ("NoteUris", {"uris": [uri]}),
        ("ForgetUris", {"uris": [uri]}),
        ("PutOverride", {"override": override}),
        ("DeleteOverride", {"surt_prefix": "x"}),
    ):
        refused(
            lambda rpc=rpc, more=more: stubs.ask(rpc, crawl, **more),  # type: ignore[misc]
            PRECONDITION,
            "CRAWL_FINISHED",
            crawl,
        )
    entry = admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=uri))
    refused(lambda: stubs.bring(crawl, entry), PRECONDITION, "CRAWL_FINISHED", crawl)


def test_many_uris_are_noted_and_forgotten_in_slices_and_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others go in between; one that is no URI keeps all from being noted."""
    sizes: list[int] = []
    note = Administration.record_seen

    def record_seen(self: Administration, name: str, uris: Sequence[str], *more: Any) -> tuple[int, Changes]:
        sizes.append(len(uris))
        return note(self, name, uris, *more)

    monkeypatch.setattr(Administration, "record_seen", record_seen)
    with hosted(MemoryStore(), tmp_path) as host:
        host.stubs.launch("t", "http://t.example/")
        uris = [f"http://t.example/{number}" for number in range(250)]
        refused(
            lambda: host.stubs.ask("NoteUris", "t", uris=[*uris, "nope"]), INVALID, "INVALID_ARGUMENT_VALUE"
        )
        assert sizes == []
        assert host.stubs.ask("NoteUris", "t", uris=uris).noted_count == 250
        assert sizes == [100, 100, 50]
        assert host.stubs.ask("ForgetUris", "t", uris=uris).forgotten_count == 250
        told = [event.operator_acted for event in host.stubs.events_so_far("t")]
        acted = [(each.action, each.detail) for each in told if each.action.endswith("-uris")]
        assert acted == [("note-uris", "250 URIs"), ("forget-uris", "250 URIs")]
