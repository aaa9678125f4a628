"""Both clients as they add seeds: in one stream, once, and as long as the frontier takes them."""

import itertools
import threading
from collections.abc import Iterator

import grpc
import pytest
from client_doubles.blocking import Connect, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, FakeFrontier, Refusal
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, Crawl, GetCrawlResponse, RejectedSeed
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Verdict
from toehold_client import errors

UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
FOUND = GetCrawlResponse(crawl=Crawl(crawl="c"))
HELD = GetCrawlResponse(crawl=Crawl(crawl="c", status=CrawlStatus(held=True)))


@of_both_clients
def test_any_number_of_seeds_goes_in_one_stream_of_batches(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will(
        "AddSeeds", lambda messages: AddSeedsResponse(added_count=sum(len(m.uris) for m in messages))
    )
    seeds = (f"http://www.example.com/{number}" for number in range(2500))
    assert connect(address).add_seeds("c", seeds).added_count == 2500
    (messages,) = frontier.asked["AddSeeds"]
    assert [len(message.uris) for message in messages] == [1000, 1000, 500]
    assert {message.crawl for message in messages} == {"c"}


def test_refused_seeds_raise_an_error_that_has_them_unless_only_the_answer_is_to_list_them(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    typo = RejectedSeed(uri="https//b.example", number=2, verdict=Verdict.VERDICT_MALFORMED)
    answer = AddSeedsResponse(added_count=1, rejected_count=1, rejected=[typo])
    frontier.will("GetCrawl", FOUND, FOUND)
    frontier.will("AddSeeds", answer, answer)
    seeds = ["https://a.example/", "https//b.example"]
    with pytest.raises(errors.SeedsRefused, match=r"1 seed was refused; the other one is stored") as refused:
        connect(address).add_seeds("c", seeds)
    assert refused.value.rejected == [typo]
    assert connect(address).add_seeds("c", seeds, on_refused="report") == answer
    with pytest.raises(errors.InvalidArgument, match="on_refused must be raise or report, got 'ignore'"):
        connect(address).add_seeds("c", seeds, on_refused="ignore")


def test_no_seeds_are_no_message(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    """A frontier refuses a stream without seeds; for a caller there is nothing wrong with none."""
    frontier.will("GetCrawl", FOUND)
    frontier.will("AddSeeds", Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no seeds", "BATCH_EMPTY"))
    assert connect(address).add_seeds("c", []) == AddSeedsResponse()
    assert not frontier.asked["AddSeeds"]


def test_seeds_are_not_read_for_a_crawl_that_is_not_there(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", UNAVAILABLE, UNKNOWN)
    seeds = iter(["http://www.example.com/"])
    with pytest.raises(errors.UnknownCrawl):
        connect(address, patience_s=PATIENCE_S).add_seeds("c", seeds)
    assert next(seeds) == "http://www.example.com/"


def test_seeds_for_a_crawl_that_is_held_are_sent_once_when_it_is_released(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", HELD, UNAVAILABLE, HELD, FOUND)
    frontier.will("AddSeeds", AddSeedsResponse(added_count=1))
    seeds = iter(["http://www.example.com/"])
    assert connect(address, patience_s=PATIENCE_S).add_seeds("c", seeds).added_count == 1
    assert len(frontier.asked["AddSeeds"]) == 1


def test_seeds_for_a_crawl_that_stays_held_are_not_read(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", HELD)
    seeds = iter(["http://www.example.com/"])
    with pytest.raises(errors.CrawlHeld, match="crawl 'c' is held") as caught:
        connect(address).add_seeds("c", seeds)
    assert caught.value.reason == "CRAWL_HELD"
    assert next(seeds) == "http://www.example.com/"
    assert not frontier.asked["AddSeeds"]


def test_what_reading_the_seeds_fails_with_is_raised(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    def seeds() -> Iterator[str]:
        yield from ("http://www.example.com/" for _ in range(1000))
        yield "http://www.example.org/"
        raise errors.InvalidSpec("the seeds file is no text")

    frontier.will("GetCrawl", FOUND)
    frontier.will("AddSeeds", AddSeedsResponse(added_count=1000))
    with pytest.raises(errors.InvalidSpec, match="the seeds file is no text"):
        connect(address).add_seeds("c", seeds())
    (messages,) = frontier.asked["AddSeeds"]
    assert [len(message.uris) for message in messages] == [1000]


def test_a_seed_that_cannot_be_sent_is_told(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("AddSeeds", AddSeedsResponse())
    with pytest.raises(
        errors.InvalidArgument, match=r"'http://www.example.com/\\udcff' is not valid Unicode text"
    ):
        connect(address).add_seeds("c", ["http://www.example.com/\udcff"])


def test_seeds_that_are_refused_under_way_are_not_read_to_their_end(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    finished = Refusal(grpc.StatusCode.ALREADY_EXISTS, "no", "CRAWL_EXISTS")
    frontier.will_refuse_stream("AddSeeds", finished)
    endless = (f"http://www.example.com/{number}" for number in itertools.count())
    with pytest.raises(errors.CrawlExists):
        connect(address).add_seeds("c", endless)


@of_both_clients
def test_closing_a_client_ends_seeds_that_wait(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND)
    frontier.will("AddSeeds", SILENCE)
    client = connect(address)
    failures: list[Exception] = []

    def add() -> None:
        try:
            client.add_seeds("c", ["http://www.example.com/"])
        except errors.ClientClosed as failure:
            failures.append(failure)

    adding = threading.Thread(target=add)
    adding.start()
    eventually(lambda: frontier.asked["AddSeeds"])
    client.close()
    adding.join(PATIENCE_S)
    assert len(failures) == 1
