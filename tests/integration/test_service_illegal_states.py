"""What a crawl's state does not allow, and streams of seeds that are none, over real gRPC."""

from collections.abc import Callable, Iterator

import pytest
from frontier_harness.calls import (
    FINISH,
    HOLD,
    INVALID,
    PAUSE,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    refused,
    seed_of,
)

from toehold.frontier.v1 import admin_pb2, crawl_pb2

MIB = 1024 * 1024


def launched(stubs: Stubs, crawl: str) -> Callable[[], object]:
    return lambda: stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)


def test_a_crawl_without_seeds_is_not_launched(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    refused(launched(stubs, crawl), PRECONDITION, "NO_SEEDS", crawl)
    assert stubs.describe(crawl).status.state == crawl_pb2.CRAWL_STATE_NASCENT


def in_state(stubs: Stubs, state: str) -> str:
    """A crawl in a state."""
    crawl = fresh_name()
    if state == "NASCENT":
        stubs.create(crawl)
        stubs.seed(crawl, seed_of(crawl))
        return crawl
    stubs.launch(crawl, seed_of(crawl))
    if state == "STOPPING":
        stubs.next(crawl, wait_s=TIMEOUT_S)
    if state in ("STOPPING", "FINISHED"):
        stubs.request(crawl, FINISH)
    assert crawl_pb2.CrawlState.Name(stubs.describe(crawl).status.state) == f"CRAWL_STATE_{state}"
    return crawl


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ("NASCENT", RUN),
        ("STOPPING", PAUSE),
        ("FINISHED", HOLD),
    ],
)
def test_what_a_state_does_not_allow_is_refused_naming_the_state(
    stubs: Stubs, state: str, target: crawl_pb2.TargetState.ValueType
) -> None:
    crawl = in_state(stubs, state)
    before, events = stubs.describe(crawl), stubs.events_so_far(crawl)
    problem = refused(lambda: stubs.request(crawl, target), PRECONDITION, "ILLEGAL_STATE", state, crawl)
    assert problem.metadata == {"crawl": crawl, "state": state}
    assert (stubs.describe(crawl), stubs.events_so_far(crawl)) == (before, events)


# Streams of seeds.


def seeds_of(*parts: tuple[str, list[str]]) -> Iterator[admin_pb2.AddSeedsRequest]:
    return iter([admin_pb2.AddSeedsRequest(crawl=crawl, uris=uris) for crawl, uris in parts])


def test_seeds_of_two_crawls_in_one_stream_are_refused(stubs: Stubs, crawl: str) -> None:
    uri = seed_of(crawl)
    stream = seeds_of((crawl, [f"{uri}1"]), ("other", [f"{uri}2"]))
    refused(
        lambda: stubs.admin.AddSeeds(stream, timeout=TIMEOUT_S),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        "'other'",
        crawl,
    )
    assert stubs.describe(crawl).seed_count in (1, 2)  # whole messages may have been stored


def test_a_message_without_seeds_in_a_stream_is_refused(stubs: Stubs, crawl: str) -> None:
    stream = seeds_of((crawl, [f"{seed_of(crawl)}1"]), (crawl, []))
    refused(lambda: stubs.admin.AddSeeds(stream, timeout=TIMEOUT_S), INVALID, "BATCH_EMPTY")


def test_seeds_that_are_none_are_told_with_their_place_in_the_stream(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    good, long = seed_of(crawl), seed_of(crawl) + "x" * MIB
    several = [f"{good} # home", f"{good}\t{good}", f"{good}\n{good}"]
    stream = seeds_of((crawl, [good, "nope", "ftp://a.example/"]), (crawl, [long, good, "", *several]))
    answer = stubs.admin.AddSeeds(stream, timeout=TIMEOUT_S)
    assert (answer.added_count, answer.rejected_count) == (2, 7)
    told = [(seed.number, crawl_pb2.Verdict.Name(seed.verdict), seed.uri) for seed in answer.rejected]
    assert told == [
        (2, "VERDICT_MALFORMED", "nope"),
        (3, "VERDICT_UNSUPPORTED_SCHEME", "ftp://a.example/"),
        (4, "VERDICT_TOO_LONG", long[:200]),
        (6, "VERDICT_MALFORMED", ""),
        *((number, "VERDICT_MALFORMED", uri) for number, uri in enumerate(several, 7)),
    ]
    assert stubs.describe(crawl).seed_count == 2


def test_only_the_first_hundred_of_many_bad_seeds_are_told(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    stream = seeds_of(*((crawl, ["\N{PILE OF POO}" * 1000] * 700) for _ in range(3)))
    answer = stubs.admin.AddSeeds(stream, timeout=TIMEOUT_S)
    assert (answer.added_count, answer.rejected_count, len(answer.rejected)) == (0, 2100, 100)
    assert answer.rejected[-1].number == 100
    assert answer.rejected[0].uri == "\N{PILE OF POO}" * 200


def test_a_long_stream_of_seeds_is_taken_whole(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    stream = seeds_of(*((crawl, [f"{seed_of(crawl)}{part}/{n}" for n in range(1000)]) for part in range(12)))
    assert stubs.admin.AddSeeds(stream, timeout=TIMEOUT_S).added_count == 12_000
    assert stubs.describe(crawl).seed_count == 12_000
