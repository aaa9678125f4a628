"""One answer of several shards': sums, one order, one line for each thing."""

from google.protobuf.timestamp_pb2 import Timestamp

from frontier_server.router.listings import merged_page, place_of_source, shard_and_token, token_of
from frontier_server.router.merges import (
    add_counts,
    by_size,
    by_wake,
    first_queues,
    merged_nodes,
    merged_reasons,
    merged_rules,
)
from frontier_server.router.outcomes import cursors_of, vector_cursor
from frontier_server.service.answers import PAGE_BYTES
from frontier_server.wire import place_of
from toehold.frontier.v1 import admin_pb2

Why = admin_pb2.Why


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=seconds)


def source(name: str, succeeded: int, last_s: int = 0) -> admin_pb2.FetchStatistics:
    made = admin_pb2.FetchStatistics(name=name, succeeded_count=succeeded)
    if last_s:
        made.last_success_time.CopyFrom(at(last_s))
    return made


def reason(why: Why.ValueType, message: str, until_s: int = 0) -> admin_pb2.Reason:
    made = admin_pb2.Reason(why=why, message=message)
    if until_s:
        made.until_time.CopyFrom(at(until_s))
    return made


# Listings.


def test_a_token_names_a_shard_and_has_its_own_token() -> None:
    for shard, own in ((0, ""), (1, "ab12"), (299, "00")):
        place = place_of("queues", token_of("queues", shard, own))
        assert place is not None and shard_and_token(place, 300) == (shard, own)
    place = place_of("queues", token_of("queues", 3, ""))
    assert place is not None and shard_and_token(place, 3) is None
    assert place_of("hosts", token_of("queues", 1, "ab12")) is None


def test_a_source_of_several_shards_is_told_once_with_its_sum() -> None:
    page, following = merged_page(
        [[source("a", 1, 5)], [], [source("a", 2, 9), source("b", 3)]], [False] * 3, 10
    )
    told = {each.name: (each.succeeded_count, each.last_success_time.seconds) for each in page}
    assert (told, following) == ({"a": (3, 9), "b": (3, 0)}, b"")


def test_sources_are_told_no_further_than_all_shards_have_told_them() -> None:
    """What a shard has not told yet may belong to a source that another has."""
    names = sorted((f"source {number}" for number in range(6)), key=place_of_source)
    every = [source(name, 1) for name in names]
    page, following = merged_page([every[:2], every], [True, False], 10)
    assert [(each.name, each.succeeded_count) for each in page] == [(name, 2) for name in names[:2]]
    assert following == place_of_source(names[1])
    page, following = merged_page([every, every], [False, False], 4)
    assert ([each.name for each in page], following) == (names[:4], place_of_source(names[3]))
    assert merged_page([every[4:], every[4:]], [False, False], 4)[1] == b""


def test_a_page_of_sources_is_no_larger_than_clients_receive() -> None:
    names = sorted((f"{number}{'s' * 8_000}" for number in range(800)), key=place_of_source)
    every = [source(name, 1) for name in names]
    page, following = merged_page([every[::2], every[1::2]], [False, False], 1000)
    assert sum(each.ByteSize() for each in page) <= PAGE_BYTES
    assert [each.name for each in page] == names[: len(page)] and len(page) > 300
    assert following == place_of_source(names[len(page) - 1])


def test_the_first_twenty_queues_of_all_shards_are_told() -> None:
    lists = [
        [
            admin_pb2.WorkQueue(queue_key=f"{shard} {count}", queued_count=count)
            for count in range(shard, 60, 3)
        ]
        for shard in range(3)
    ]
    assert [queue.queued_count for queue in first_queues(lists, by_size)] == list(range(59, 39, -1))
    slow = [[admin_pb2.WorkQueue(wake_time=at(7))], [admin_pb2.WorkQueue(wake_time=at(9))]]
    assert [queue.wake_time.seconds for queue in first_queues(slow, by_wake)] == [9, 7]


# Sums.


def test_only_counts_are_added_up() -> None:
    total = admin_pb2.CountSeenUrisResponse(queued_count=1)
    add_counts(total, [admin_pb2.CountSeenUrisResponse(queued_count=2, done_count=5)] * 2)
    assert (total.queued_count, total.done_count, total.leased_count) == (5, 10, 0)


def test_a_rule_of_several_shards_has_all_its_refusals_and_the_latest_examples() -> None:
    def rule(name: str, count: int, *times: int) -> admin_pb2.RefusalRule:
        made = admin_pb2.RefusalRule(rule=name, refused_count=count)
        for time in times:
            made.examples.add(uri=f"uri {time}", refuse_time=at(time))
        return made

    lists = [[rule("a", 5, 9, 2), rule("b", 4, 1)], [rule("b", 3, 8, 1), rule("a", 1, 7, 6)]]
    merged = merged_rules(lists, 3)
    assert [(each.rule, each.refused_count) for each in merged] == [("b", 7), ("a", 6)]
    assert [[example.uri for example in each.examples] for each in merged] == [
        ["uri 8", "uri 1"],
        ["uri 9", "uri 7", "uri 6"],
    ]


def test_the_latest_refusal_of_a_uri_counts_among_examples() -> None:
    """A URI is an example in two shards if it was refused before they were split, and again afterwards."""

    def rule(*refused: tuple[str, int]) -> admin_pb2.RefusalRule:
        made = admin_pb2.RefusalRule(rule="a", refused_count=len(refused))
        for uri, time in refused:
            made.examples.add(uri=uri, refuse_time=at(time))
        return made

    (merged,) = merged_rules([[rule(("u", 1), ("v", 8), ("w", 5))], [rule(("u", 9))]], 2)
    assert [(each.uri, each.refuse_time.seconds) for each in merged.examples] == [("u", 9), ("v", 8)]


def test_a_node_has_the_state_that_its_last_shard_knows_and_the_leases_of_all() -> None:
    def node(session: str, seen_s: int, leases: int, draining: bool = False) -> admin_pb2.Node:
        return admin_pb2.Node(
            node="n", session=session, last_seen_time=at(seen_s), leased_count=leases, draining=draining
        )

    (merged,) = merged_nodes([[node("new", 5, 2)], [node("new", 9, 3, True)], [node("old", 1, 40)]])
    assert (merged.session, merged.last_seen_time.seconds, merged.leased_count, merged.draining) == (
        "new",
        9,
        5,
        True,
    )
    other = admin_pb2.Node(node="other", last_seen_time=at(12))
    assert [each.node for each in merged_nodes([[node("new", 5, 2)], [other]])] == ["other", "n"]


# Reasons.


def test_a_reason_that_all_shards_give_alike_is_given_once() -> None:
    due = reason(Why.WHY_DUE, "due now")
    assert merged_reasons([], [(0, [due]), (1, [due])], of_all=True) == [due]


def test_a_reason_that_shards_give_differently_names_each_and_holds_until_the_first_ends() -> None:
    told = [(0, [reason(Why.WHY_FUTURE, "2 URIs", 9)]), (1, []), (2, [reason(Why.WHY_FUTURE, "1 URI", 4)])]
    (merged,) = merged_reasons([], told, of_all=True)
    assert (merged.message, merged.until_time.seconds) == ("shard 0: 2 URIs; shard 2: 1 URI", 4)


def test_a_reason_with_a_count_names_each_shard_even_if_the_counts_are_equal() -> None:
    told = [(shard, [reason(Why.WHY_LEASED, "2 URIs being fetched")]) for shard in range(2)]
    (merged,) = merged_reasons([], told, of_all=True)
    assert merged.message == "shard 0: 2 URIs being fetched; shard 1: 2 URIs being fetched"


def test_reasons_that_one_shard_alone_gives_stay_as_they_are() -> None:
    both = [reason(Why.WHY_QUEUE_SNOOZED, "one", 3), reason(Why.WHY_QUEUE_SNOOZED, "another", 4)]
    assert merged_reasons([], [(0, []), (1, both)], of_all=False) == both


def test_reasons_of_a_crawls_life_are_not_taken_from_its_parts() -> None:
    """A part has a share of the limit, and hears a moment later that its crawl is paused."""
    paused = [reason(Why.WHY_PAUSED, "the crawl is paused")]
    told = [
        reason(Why.WHY_LIMIT_REACHED, "2 documents"),
        reason(Why.WHY_DUE, "due now"),
        reason(Why.WHY_URIS_LEFT, "3 URIs"),
        reason(Why.WHY_BEHIND_OTHERS, "behind 1 URI"),
    ]
    assert [each.why for each in merged_reasons(paused, [(0, told)], of_all=True)] == [Why.WHY_URIS_LEFT]
    assert [each.why for each in merged_reasons(paused, [(0, told)], of_all=False)] == [
        Why.WHY_URIS_LEFT,
        Why.WHY_BEHIND_OTHERS,
    ]
    assert [each.why for each in merged_reasons([], [(0, told)], of_all=True)] == [
        Why.WHY_DUE,
        Why.WHY_URIS_LEFT,
        Why.WHY_BEHIND_OTHERS,
    ]


# Outcomes.


def test_a_cursor_of_outcomes_has_the_place_in_each_shard() -> None:
    places = ["o12-1795810000000", "o0", "o7-3"]
    assert cursors_of(vector_cursor(places), 3) == places
    assert cursors_of(vector_cursor(places), 2) is None
    assert (cursors_of("", 2), cursors_of("start", 2)) == (["", ""], ["start", "start"])
    for wrong in ("o12", "end", vector_cursor(places)[:-1], vector_cursor(places) + "00", "ß"):
        assert cursors_of(wrong, 3) is None
