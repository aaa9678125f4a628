"""How the client cuts lists into messages that a frontier takes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toehold.frontier.v1.admin_pb2 import AddSeedsRequest
from toehold.frontier.v1.frontier_pb2 import Candidate, ScheduleRequest
from toehold_client.errors import BatchTooLarge
from toehold_client.rpc.batches import MAX_ITEMS, MAX_MESSAGE_BYTES, split_messages, split_texts

MEBIBYTE = 1024 * 1024


def candidates(count: int, size: int = 10) -> list[Candidate]:
    return [Candidate(uri=f"{number}:".ljust(size, "x")) for number in range(count)]


def test_a_small_list_is_one_batch() -> None:
    assert split_messages(candidates(3), envelope=ScheduleRequest(crawl="c")) == [candidates(3)]


def test_an_empty_list_is_no_batch() -> None:
    assert split_messages([], envelope=ScheduleRequest(crawl="c")) == []


@pytest.mark.parametrize(
    ("count", "sizes"), [(999, [999]), (1000, [1000]), (1001, [1000, 1]), (2500, [1000, 1000, 500])]
)
def test_no_batch_has_more_than_1000_items(count: int, sizes: list[int]) -> None:
    batches = split_messages(candidates(count), envelope=ScheduleRequest(crawl="c"))
    assert [len(batch) for batch in batches] == sizes
    assert list(itertools.chain(*batches)) == candidates(count)


def test_large_items_fill_messages_to_just_below_the_limit() -> None:
    offered = candidates(20, size=MEBIBYTE)
    batches = split_messages(offered, envelope=ScheduleRequest(crawl="c" * 64))
    assert [len(batch) for batch in batches] == [7, 7, 6]
    for batch in batches:
        assert ScheduleRequest(crawl="c" * 64, candidates=batch).ByteSize() <= MAX_MESSAGE_BYTES


@given(st.lists(st.integers(0, 300_000), max_size=60), st.integers(0, 100_000))
def test_every_message_fits_and_order_is_kept(sizes: list[int], envelope_bytes: int) -> None:
    offered = [Candidate(annotations=bytes(size)) for size in sizes]
    envelope = ScheduleRequest(crawl="c" * envelope_bytes)
    batches = split_messages(offered, envelope=envelope)
    assert list(itertools.chain(*batches)) == offered
    for batch in batches:
        assert 0 < len(batch) <= MAX_ITEMS
        assert ScheduleRequest(crawl=envelope.crawl, candidates=batch).ByteSize() <= MAX_MESSAGE_BYTES


def test_an_item_too_large_for_any_message_is_named() -> None:
    offered = [*candidates(2), Candidate(uri="x" * MAX_MESSAGE_BYTES), *candidates(2)]
    with pytest.raises(BatchTooLarge, match=r"item 3 alone has 83886\d\d bytes"):
        split_messages(offered, envelope=ScheduleRequest(crawl="c"))


def test_texts_are_read_only_as_batches_are_needed() -> None:
    numbers = itertools.count()
    batches = split_texts((str(number) for number in numbers), envelope=AddSeedsRequest(crawl="c"))
    assert len(next(batches)) == MAX_ITEMS
    assert next(numbers) <= MAX_ITEMS + 1


def test_texts_are_measured_in_bytes_not_in_characters() -> None:
    texts = ["é" * MEBIBYTE] * 8  # twice as many bytes
    for batch in split_texts(texts, envelope=AddSeedsRequest(crawl="c")):
        assert AddSeedsRequest(crawl="c", uris=batch).ByteSize() <= MAX_MESSAGE_BYTES
