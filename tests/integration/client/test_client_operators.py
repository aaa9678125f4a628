"""The operators' methods of both clients, with a frontier that answers and fails by a script."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from client_doubles.blocking import Connect, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, FakeFrontier, Refusal
from frontier_harness.waiting import PATIENCE_S, eventually
from google.protobuf import message_factory
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2
from toehold.frontier.v1.admin_pb2 import (
    DeleteUrisJob,
    FetchStatistics,
    ForgetUrisJob,
    ImportEntry,
    ImportUrisRequest,
    Job,
    KeptOutcomes,
    QueueChange,
    Reason,
    RefusalRule,
    RetireQueuesJob,
    Seed,
    SeenFilter,
    SeenUri,
    UnretireQueuesJob,
    UriOutcome,
    UriStory,
    VerifyJob,
    WaitingUri,
    WakeQueuesJob,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Override, OverrideSettings, QueueState, RetrySpec
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_client.errors import (
    ClientClosed,
    CrawlFinished,
    CursorTooOld,
    InvalidArgument,
    InvalidSpec,
    Overloaded,
    ToeholdError,
    UnknownCrawl,
    UnknownJob,
    UnknownOverride,
    UnknownQueue,
)

SERVICE = admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"]
FOUND = admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c"))
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
READY = QueueState.QUEUE_STATE_READY
QUEUE, JOB = WorkQueue(queue_key="q"), Job(job=3, kind="verify")
RULE = RefusalRule(rule="scope.hosts", refused_count=2)
STORY, REASON = UriStory(uri="http://a.example/"), Reason(message="it is paused")
SETTINGS = OverrideSettings(retry=RetrySpec(max_attempts=3))
OVERRIDE = Override(surt_prefix="http://(example,a,", settings=SETTINGS)
CHANGE = QueueChange(precedence=0, paused=False)


def request(rpc: str, **fields: Any) -> Any:
    return message_factory.GetMessageClass(SERVICE.methods_by_name[rpc].input_type)(crawl="c", **fields)


def response(rpc: str, **fields: Any) -> Any:
    return message_factory.GetMessageClass(SERVICE.methods_by_name[rpc].output_type)(**fields)


Call = tuple[str, tuple[Any, ...], dict[str, Any], str, Message, Message, object]
"""Method, arguments, named ones, RPC, request, answer, result."""


def job_call(field: str, asked: Message) -> Call:
    """A call of `start_job`."""
    return (
        "start_job",
        (asked,),
        {},
        "StartJob",
        request("StartJob", **{field: asked}),
        response("StartJob", job=JOB),
        JOB,
    )


CALLS: list[Call] = [
    ("get_queue", ("q",), {}, "GetQueue", request("GetQueue", queue_key="q"),
     response("GetQueue", queues=[QUEUE, QUEUE]), [QUEUE, QUEUE]),
    ("update_queue", ("q", CHANGE), {}, "UpdateQueue", request("UpdateQueue", queue_key="q", change=CHANGE),
     response("UpdateQueue", queues=[QUEUE]), [QUEUE]),
    ("largest_queues", (), {}, "ListLargestQueues", request("ListLargestQueues"),
     response("ListLargestQueues", queues=[QUEUE]), [QUEUE]),
    ("slowest_queues", (), {}, "ListSlowestQueues", request("ListSlowestQueues"),
     response("ListSlowestQueues", queues=[QUEUE]), [QUEUE]),
    ("get_uri", ("u",), {}, "GetUri", request("GetUri", uri="u"), response("GetUri", story=STORY), STORY),
    ("note_uris", (["a", "b"],), {}, "NoteUris", request("NoteUris", uris=["a", "b"]),
     response("NoteUris", noted_count=2), 2),
    ("forget_uris", (["a"],), {}, "ForgetUris", request("ForgetUris", uris=["a"]),
     response("ForgetUris", forgotten_count=1), 1),
    job_call("delete_uris", DeleteUrisJob(queue_pattern="q", uri_pattern="u", dry_run=True)),
    job_call("retire_queues", RetireQueuesJob(queue_pattern="q")),
    job_call("unretire_queues", UnretireQueuesJob(queue_pattern="q")),
    job_call("wake_queues", WakeQueuesJob(queue_pattern="q")),
    job_call("verify", VerifyJob()),
    job_call("forget_uris", ForgetUrisJob(filter=SeenFilter(host="h"), waiting=True)),
    ("note_uris", (["a"],), {"replace": True}, "NoteUris", request("NoteUris", uris=["a"], replace=True),
     response("NoteUris", noted_count=1), 1),
    ("count_seen_uris", (SeenFilter(host="h"),), {}, "CountSeenUris",
     request("CountSeenUris", filter=SeenFilter(host="h")), response("CountSeenUris", done_count=2),
     response("CountSeenUris", done_count=2)),
    ("get_job", (3,), {}, "GetJob", request("GetJob", job=3), response("GetJob", job=JOB), JOB),
    ("cancel_job", (3,), {}, "CancelJob", request("CancelJob", job=3), response("CancelJob", job=JOB), JOB),
    ("put_override", ("a.example", SETTINGS), {}, "PutOverride",
     request("PutOverride", override=Override(surt_prefix="a.example", settings=SETTINGS)),
     response("PutOverride", override=OVERRIDE), OVERRIDE),
    ("delete_override", ("p",), {}, "DeleteOverride", request("DeleteOverride", surt_prefix="p"),
     response("DeleteOverride"), None),
    ("list_refusals", ("scope.hosts",), {}, "ListRefusals", request("ListRefusals", rule="scope.hosts"),
     response("ListRefusals", rules=[RULE]), [RULE]),
    ("explain", (), {}, "Explain", request("Explain"), response("Explain", reasons=[REASON]), [REASON]),
    ("explain", (), {"uri": "u"}, "Explain", request("Explain", uri="u"),
     response("Explain", reasons=[REASON]), [REASON]),
    ("explain", (), {"queue_key": ""}, "Explain", request("Explain", queue_key=""), response("Explain"), []),
]  # fmt: skip

LISTINGS: list[tuple[str, tuple[Any, ...], str, str, list[Any], dict[str, Any]]] = [
    ("list_queues", (), "ListQueues", "queues", [WorkQueue(queue_key=key) for key in "abc"], {}),
    ("list_queues", (READY,), "ListQueues", "queues", [QUEUE] * 3, {"state": READY}),
    ("list_uris", (), "ListUris", "uris", [WaitingUri(queue_key=key) for key in "abc"], {}),
    ("list_uris", ("q",), "ListUris", "uris", [WaitingUri(cost=n) for n in (1, 2, 3)], {"queue_key": "q"}),
    ("list_seen_uris", (), "ListSeenUris", "uris", [UriStory(uri=uri) for uri in "abc"], {}),
    (
        "list_seen_uris",
        (SeenFilter(host="h"),),
        "ListSeenUris",
        "uris",
        [STORY] * 3,
        {"filter": SeenFilter(host="h")},
    ),
    ("list_jobs", (), "ListJobs", "jobs", [Job(job=number) for number in (1, 2, 3)], {}),
    ("list_overrides", (), "ListOverrides", "overrides", [Override(surt_prefix=p) for p in "abc"], {}),
    ("list_hosts", (), "ListHosts", "hosts", [FetchStatistics(name=name) for name in "abc"], {}),
    ("list_sources", (), "ListSources", "sources", [FetchStatistics(name=name) for name in "abc"], {}),
    ("list_seeds", (), "ListSeeds", "seeds", [Seed(uri=uri) for uri in "abc"], {}),
]


def test_each_rpc_of_operators_has_a_method() -> None:
    covered = {call[3] for call in CALLS} | {listing[2] for listing in LISTINGS}
    rest = {"ImportUris", "ExportUris", "StreamOutcomes"}  # below
    rest |= {"AddSeedBatch"}  # AddSeeds takes any number
    crawls = {"CreateCrawl", "AddSeeds", "LaunchCrawl", "GetCrawl", "ListCrawls", "DeleteCrawl"}
    crawls |= {"UpdateCrawl", "TearDownCrawl", "GetStatistics", "GetFrontier", "SetPoolSize", "DrainNode"}
    crawls |= {"ReopenCrawl", "ForgetNode", "GetCaller"}
    crawls |= {"CreateCheckpoint", "ListCheckpoints", "DeleteCheckpoint"}
    assert covered | rest | crawls == set(SERVICE.methods_by_name)


@pytest.mark.parametrize(
    ("method", "arguments", "named", "rpc", "asked", "answer", "result"),
    CALLS,
    ids=[f"{call[0]}-{number}" for number, call in enumerate(CALLS)],
)
def test_each_method_says_what_it_was_given_and_returns_what_it_was_told(
    frontier: FakeFrontier,
    address: str,
    connect: Connect,
    method: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    rpc: str,
    asked: Message,
    answer: Message,
    result: object,
) -> None:
    frontier.will(rpc, answer)
    assert getattr(connect(address), method)("c", *arguments, **named) == result
    assert frontier.asked[rpc] == [asked]


@pytest.mark.parametrize(
    ("method", "arguments", "rpc", "items", "found", "fields"),
    LISTINGS,
    ids=[f"{listing[0]}-{number}" for number, listing in enumerate(LISTINGS)],
)
def test_all_pages_of_a_listing_are_read_as_they_are_needed(
    frontier: FakeFrontier,
    address: str,
    connect: Connect,
    method: str,
    arguments: tuple[Any, ...],
    rpc: str,
    items: str,
    found: list[Any],
    fields: dict[str, Any],
) -> None:
    frontier.will(
        rpc,
        response(rpc, next_page_token="1", **{items: found[:2]}),
        UNAVAILABLE,
        response(rpc, next_page_token="2"),
        response(rpc, **{items: found[2:]}),
    )
    listing = getattr(connect(address, patience_s=PATIENCE_S), method)("c", *arguments)
    assert next(listing) == found[0]
    assert len(frontier.asked[rpc]) == 1
    assert list(listing) == found[1:]
    asked = [request(rpc, page_size=100, page_token=token, **fields) for token in ("", "1", "1", "2")]
    assert frontier.asked[rpc] == asked


@pytest.mark.parametrize(
    ("method", "arguments", "rpc", "refusal", "kind"),
    [
        ("get_queue", ("q",), "GetQueue", ("UNKNOWN_QUEUE", grpc.StatusCode.NOT_FOUND), UnknownQueue),
        ("get_job", (9,), "GetJob", ("UNKNOWN_JOB", grpc.StatusCode.NOT_FOUND), UnknownJob),
        ("delete_override", ("p",), "DeleteOverride", ("UNKNOWN_OVERRIDE", grpc.StatusCode.NOT_FOUND),
         UnknownOverride),
        ("put_override", ("p", SETTINGS), "PutOverride", ("INVALID_SPEC", grpc.StatusCode.INVALID_ARGUMENT),
         InvalidSpec),
        ("start_job", (VerifyJob(),), "StartJob",
         ("INVALID_ARGUMENT_VALUE", grpc.StatusCode.INVALID_ARGUMENT), InvalidArgument),
        ("note_uris", (["u"],), "NoteUris", ("CRAWL_FINISHED", grpc.StatusCode.FAILED_PRECONDITION),
         CrawlFinished),
        ("note_uris", (["u"],), "NoteUris", ("DISK_RESERVE", grpc.StatusCode.RESOURCE_EXHAUSTED), Overloaded),
    ],
)  # fmt: skip
def test_a_refusal_has_its_own_class_and_the_frontiers_words(
    frontier: FakeFrontier,
    address: str,
    connect: Connect,
    method: str,
    arguments: tuple[Any, ...],
    rpc: str,
    refusal: tuple[str, grpc.StatusCode],
    kind: type[ToeholdError],
) -> None:
    reason, code = refusal
    frontier.will(rpc, Refusal(code, "in its own words", reason, {"retry.growth": "0 is too small"}))
    with pytest.raises(kind, match="in its own words") as caught:
        getattr(connect(address), method)("c", *arguments)
    assert (type(caught.value).__mro__.index(kind), caught.value.reason) in ((0, reason), (1, reason))
    assert caught.value.metadata == {"retry.growth": "0 is too small"}


@pytest.mark.parametrize(
    ("method", "rpc", "field"),
    [("note_uris", "NoteUris", "noted_count"), ("forget_uris", "ForgetUris", "forgotten_count")],
)
def test_any_number_of_uris_goes_in_batches_and_is_counted_together(
    frontier: FakeFrontier, address: str, connect: Connect, method: str, rpc: str, field: str
) -> None:
    def counted(asked: Any) -> Message:
        answer: Message = response(rpc, **{field: len(asked.uris)})
        return answer

    frontier.will(rpc, counted, counted, counted)
    uris = (f"http://a.example/{number}" for number in range(2500))
    assert getattr(connect(address), method)("c", uris) == 2500
    assert [len(asked.uris) for asked in frontier.asked[rpc]] == [1000, 1000, 500]
    assert getattr(connect(address), method)("c", []) == 0


# Imports.


def entries(count: int) -> Iterator[ImportEntry]:
    for number in range(count):
        uri = f"http://a.example/{number}"
        if number % 2:
            yield ImportEntry(seen=SeenUri(uri=uri, fetch_status=200))
        else:
            yield ImportEntry(candidate=Candidate(uri=uri, annotations=b"mine"))


@of_both_clients
@pytest.mark.parametrize("force", [False, True])
def test_any_number_of_uris_is_imported_in_one_stream(
    frontier: FakeFrontier, address: str, connect: Connect, force: bool
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("ImportUris", response("ImportUris", job=JOB))
    assert connect(address).import_uris("c", entries(2500), force=force) == JOB
    ((first, *others, last),) = frontier.asked["ImportUris"]
    assert first == ImportUrisRequest(crawl="c", force=force)
    assert last == ImportUrisRequest(complete=True)
    assert [len(message.entries) for message in others] == [1000, 1000, 500]
    assert [entry for message in others for entry in message.entries] == list(entries(2500))
    assert not any(message.crawl or message.force or message.complete for message in others)


def test_an_import_of_large_uris_is_cut_by_bytes(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("ImportUris", response("ImportUris", job=JOB))
    large = ImportEntry(candidate=Candidate(uri="http://a.example/", via="v" * 100_000))
    connect(address).import_uris("c", itertools.repeat(large, 200))
    ((_, *others, _),) = frontier.asked["ImportUris"]
    assert sum(len(message.entries) for message in others) == 200
    assert all(message.ByteSize() <= 8 * 1024 * 1024 for message in others) and len(others) == 3


def test_an_import_of_nothing_still_names_its_crawl(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("ImportUris", response("ImportUris", job=JOB))
    assert connect(address).import_uris("c", []) == JOB
    assert frontier.asked["ImportUris"] == [[ImportUrisRequest(crawl="c"), ImportUrisRequest(complete=True)]]


def test_an_import_whose_uris_cannot_be_read_is_never_complete(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    """The frontier must not take a part for the whole."""

    def unreadable() -> Iterator[ImportEntry]:
        yield from entries(1500)
        raise InvalidArgument("the file is damaged")

    frontier.will("GetCrawl", FOUND)
    incomplete = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "not complete", "INVALID_ARGUMENT_VALUE")
    frontier.will("ImportUris", incomplete)
    with pytest.raises(InvalidArgument, match="the file is damaged"):
        connect(address).import_uris("c", unreadable())
    (messages,) = frontier.asked["ImportUris"]
    assert [len(message.entries) for message in messages] == [0, 1000]
    assert not any(message.complete for message in messages)


def test_an_import_that_is_refused_under_way_is_not_read_to_its_end(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    finished = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "it has finished", "CRAWL_FINISHED")
    frontier.will_refuse_stream("ImportUris", finished)
    endless = (ImportEntry(seen=SeenUri(uri=str(number))) for number in itertools.count())
    with pytest.raises(CrawlFinished):
        connect(address).import_uris("c", endless)


def test_an_import_into_a_crawl_that_is_held_is_sent_once_when_it_is_released(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    held = admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", status=CrawlStatus(held=True)))
    frontier.will("GetCrawl", held, held, FOUND)
    frontier.will("ImportUris", response("ImportUris", job=JOB))
    assert connect(address, patience_s=PATIENCE_S).import_uris("c", entries(1)) == JOB
    assert len(frontier.asked["ImportUris"]) == 1


def test_uris_are_not_read_for_a_crawl_that_is_not_there(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", UNAVAILABLE, UNKNOWN)
    unread = entries(1)
    with pytest.raises(UnknownCrawl):
        connect(address, patience_s=PATIENCE_S).import_uris("c", unread)
    assert len(list(unread)) == 1


@of_both_clients
def test_closing_a_client_ends_an_import_that_waits(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("ImportUris", SILENCE)
    client = connect(address)
    failures: list[Exception] = []

    def bring() -> None:
        try:
            client.import_uris("c", entries(5))
        except ClientClosed as failure:
            failures.append(failure)

    bringing = threading.Thread(target=bring)
    bringing.start()
    eventually(lambda: frontier.asked["ImportUris"])
    client.close()
    bringing.join(PATIENCE_S)
    assert len(failures) == 1


# Streams of outcomes and exports.

KEPT = response("StreamOutcomes", kept=KeptOutcomes(outcome_count=3), cursor="o0")


def told(*numbers: int) -> Any:
    """Outcomes in one message."""
    found = [UriOutcome(cursor=f"o{number}") for number in numbers]
    return response("StreamOutcomes", outcomes=found, cursor=found[-1].cursor)


@of_both_clients
def test_outcomes_go_on_through_restarts_without_gap_or_repeat(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    alive = response("StreamOutcomes", cursor="o2")
    frontier.will(
        "StreamOutcomes",
        [KEPT, told(1, 2), alive, UNAVAILABLE],
        UNAVAILABLE,
        [KEPT, told(3)],
    )
    stream = connect(address).stream_outcomes("c", "start", reconnect_s=PATIENCE_S)
    assert list(stream) == [KEPT, told(1, 2), alive, told(3)]
    asked = [request("StreamOutcomes", cursor=cursor, follow=True) for cursor in ("start", "o2", "o2")]
    assert frontier.asked["StreamOutcomes"] == asked
    assert stream.cursor == "o3"


def test_outcomes_that_are_there_can_be_had_without_following(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("StreamOutcomes", [KEPT, told(1)])
    assert list(connect(address).stream_outcomes("c", follow=False)) == [KEPT, told(1)]
    assert frontier.asked["StreamOutcomes"] == [request("StreamOutcomes")]


@of_both_clients
def test_outcomes_that_are_no_longer_kept_are_an_error_after_the_range(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    too_old = Refusal(grpc.StatusCode.OUT_OF_RANGE, "they are not kept", "CURSOR_TOO_OLD")
    frontier.will("StreamOutcomes", [KEPT, too_old])
    stream = connect(address).stream_outcomes("c", "o1")
    assert next(stream) == KEPT
    with pytest.raises(CursorTooOld, match="they are not kept"):
        next(stream)


@of_both_clients
def test_closing_a_client_ends_its_streams(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StreamOutcomes", [KEPT, SILENCE])
    frontier.will("ExportUris", [response("ExportUris", cursor="x"), SILENCE])
    client = connect(address)
    outcomes, export = client.stream_outcomes("c"), client.export_uris("c")
    next(outcomes)
    next(export)
    client.close()
    assert list(outcomes) == list(export) == []
    with pytest.raises(ClientClosed):
        next(client.export_uris("c"))


@of_both_clients
def test_an_export_goes_on_through_restarts_without_gap_or_repeat(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    parts = [
        response("ExportUris", uris=[WaitingUri(queue_key=key)], cursor=cursor)
        for key, cursor in (("a", "1"), ("b", "2"), ("c", "end"))
    ]
    frontier.will("ExportUris", [parts[0], UNAVAILABLE], [parts[1], UNAVAILABLE], [parts[2]])
    stream = connect(address).export_uris("c", reconnect_s=PATIENCE_S)
    assert list(stream) == parts
    assert [asked.cursor for asked in frontier.asked["ExportUris"]] == ["", "1", "2"]


def test_an_export_from_a_cursor_begins_there(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("ExportUris", [])
    assert list(connect(address).export_uris("c", "1")) == []
    assert frontier.asked["ExportUris"] == [request("ExportUris", cursor="1")]


def test_a_stream_of_a_crawl_that_is_not_there_is_refused(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("ExportUris", [UNKNOWN])
    frontier.will("StreamOutcomes", [UNKNOWN])
    for stream in (connect(address).export_uris("c"), connect(address).stream_outcomes("c")):
        with pytest.raises(UnknownCrawl):
            next(stream)
