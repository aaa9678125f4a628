"""`toehold events`: a sentence for each event, or an object, and how it is followed."""

from client_doubles.command_line import (
    RUNNING,
    STOPPED,
    TIME,
    WHEN,
    message,
    present,
    said,
    status,
)
from client_doubles.fake_frontier import UNAVAILABLE, FakeFrontier
from frontier_harness.command_line import Toehold
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.crawl_pb2 import (
    Checkpointed,
    Event,
    FlightsCancelled,
    Held,
    IntervalStatistics,
    JobEnded,
    LimitReached,
    NodeJoined,
    NodeLeft,
    OperatorActed,
    Problem,
    Released,
    RoundBegun,
    SeedsConcluded,
    TornDown,
    UrisLeft,
)

WORDS = [
    (
        Event(seeds_concluded=SeedsConcluded(seed_count=3, queued_count=2)),
        "3 seeds announced, 2 queued",
    ),
    (
        Event(limit_reached=LimitReached(limit="max_bytes", value=9, reached=12, leased_count=4)),
        "limit reached: max_bytes = 9; the crawl has 12, and 4 URIs being fetched",
    ),
    (
        Event(limit_reached=LimitReached(limit="max_elapsed", value=60_000, reached=61_000)),
        "limit reached: max_elapsed = 1 min 00 s; the crawl has run for 1 min 01 s",
    ),
    (Event(round_begun=RoundBegun(round=2)), "round 2 begins with the seeds"),
    (
        Event(uris_left=UrisLeft(retired_count=5, ineligible_count=6)),
        "URIs left: 5 in retired queues, 6 in ineligible queues",
    ),
    (Event(job_ended=JobEnded(job=7, kind="deletion", outcome="done")), "job 7 (deletion): done"),
    (
        Event(
            statistics=IntervalStatistics(
                interval_duration=Duration(seconds=20),
                succeeded_count=1200,
                failed_count=3,
                bytes_count=2_000_000,
                queued_count=40,
            )
        ),
        "in 20.0 s: 1 200 succeeded, 2.0 MB, 3 failed, 40 queued",
    ),
    (Event(node_joined=NodeJoined(node="n1", session="s")), "node n1 joined"),
    (
        Event(node_left=NodeLeft(node="n1", session="s", reason="silent")),
        "node n1 is lost: it does not call any more",
    ),
    (Event(node_left=NodeLeft(node="n1", session="s", reason="left")), "node n1 left"),
    (
        Event(node_left=NodeLeft(node="n1", session="s", reason="replaced")),
        "node n1 is replaced by another process of its name",
    ),
    (Event(operator_acted=OperatorActed(operator="ann@desk", action="pause")), "ann@desk requested: pause"),
    (
        Event(operator_acted=OperatorActed(operator="a", action="update", detail="weight")),
        "a requested: update, weight",
    ),
    (Event(problem=Problem(kind="disk-reserve", detail="1 MB left")), "problem: 1 MB left (disk-reserve)"),
    (Event(held=Held()), "held: the frontier writes nothing about the crawl until its release"),
    (Event(released=Released()), "released"),
    (Event(checkpointed=Checkpointed(checkpoint="cp1")), "saved in checkpoint cp1"),
    (
        Event(flights_cancelled=FlightsCancelled(leased_count=4, bound="stop_timeout")),
        "stop_timeout is over: 4 leases cancelled",
    ),
    (
        Event(flights_cancelled=FlightsCancelled(leased_count=1, bound="interrupt")),
        "interrupted: 1 lease cancelled",
    ),
    (Event(status_changed=status("PAUSED", reason="1 MB left")), "PAUSED: 1 MB left"),
    (Event(status_changed=STOPPED), "Finished: stopped"),
    (Event(torn_down=TornDown()), "torn down"),
    (Event(), "an event that this version does not know"),
]
EVENTS: list[Event] = []
for number, (unnumbered, _) in enumerate(WORDS, 1):
    EVENTS.append(Event(sequence=number, cursor=f"e{number}", event_time=TIME))
    EVENTS[-1].MergeFrom(unnumbered)


def test_events_for_people(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    last = EVENTS[-1].cursor
    frontier.will("StateEvents", [present(STOPPED, last)], [present(STOPPED, "e0"), *map(message, EVENTS)])
    code, output, _ = toehold_at("events", "--crawl", "c")
    assert code == 0
    assert output.splitlines() == [
        f"{WHEN}  {event.cursor}  {words}" for event, (_, words) in zip(EVENTS, WORDS, strict=True)
    ]
    assert frontier.asked["StateEvents"][1].cursor == "start"


def test_every_kind_of_event_has_words_for_people() -> None:
    kinds = {field.name for field in Event.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert {event.WhichOneof("kind") for event in EVENTS} == kinds | {None}


def test_events_for_programs_are_followed_through_a_restart(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    first, *rest = map(message, EVENTS)
    frontier.will(
        "StateEvents", [present(RUNNING, "e0"), first, UNAVAILABLE], [present(RUNNING, "e1"), *rest]
    )
    code, output, _ = toehold_at("events", "--crawl", "c", "--follow", "--from", "e0", "--json")
    assert code == 0
    told = said(output)
    assert [event["cursor"] for event in told] == [event.cursor for event in EVENTS]
    assert "ABORTED" in [
        event["status_changed"]["exit_status"] for event in told if "status_changed" in event
    ]
    assert [request.cursor for request in frontier.asked["StateEvents"]] == ["e0", "e1"]


def test_events_from_now_on(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("StateEvents", [present(STOPPED, "e3")])
    assert toehold_at("events", "--crawl", "c", "--follow", "--from", "now") == (0, "", "")
    assert frontier.asked["StateEvents"][0].cursor == ""
