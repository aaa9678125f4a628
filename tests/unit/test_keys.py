"""The key of every row, and the token of a lease."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import (
    CrawlRow,
    FetchStatisticsOf,
    IndexSet,
    Token,
    decode_token,
    encode_token,
)

crawls = st.integers(0, 2**32 - 1)
serials = st.integers(0, 2**64 - 1)
counts = st.integers(0, 2**48 - 1)
hashes = st.binary(min_size=8, max_size=8)
queues = st.binary(min_size=16, max_size=16)
directives = st.integers(1, 4)
precedences = st.integers(0, 255)
ranks = st.integers(0, 511)
ordinals = st.integers(0, 2**48 - 1)
times = st.integers(0, 2**63 - 1)
MEMBERS = (IndexSet.ACTIVE, IndexSet.RETIRED, IndexSet.INELIGIBLE)


def place(directive: int, precedence: int, ordinal: int) -> bytes:
    """A URI's place in its queue."""
    return keys.level_position(directive << 8 | precedence, ordinal)


positions = st.builds(place, directives, precedences, ordinals)


@given(st.tuples(crawls, serials), st.tuples(crawls, serials))
def test_numbered_rows_are_in_the_order_of_their_numbers(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    assert (keys.serial_key(*one) < keys.serial_key(*other)) == (one < other)
    assert keys.serial_of(keys.serial_key(*one)) == one[1]
    assert keys.serial_key(*one).startswith(keys.crawl_prefix(one[0]))


@given(*[st.tuples(directives, precedences, ordinals)] * 2)
def test_uris_of_a_queue_are_in_the_order_of_directive_precedence_ordinal(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    """Heritrix 2.3: directive dominates, then precedence, then first come first served."""
    assert (place(*one) < place(*other)) == (one < other)
    assert len(place(*one)) == keys.POSITION_BYTES


@given(directives, precedences, ordinals)
def test_a_level_and_an_ordinal_are_a_place_and_are_read_from_it(
    directive: int, precedence: int, ordinal: int
) -> None:
    position = place(directive, precedence, ordinal)
    level = keys.level_of(position)
    assert level == directive << 8 | precedence and keys.ordinal_of(position) == ordinal
    assert keys.level_position(level, ordinal) == position


@given(crawls, queues, positions)
def test_the_uris_of_a_queue_are_found_by_its_row_key(crawl: int, queue: bytes, position: bytes) -> None:
    """And not those of another: row keys of queues have one length."""
    assert keys.pending_key(crawl, queue, position) == keys.queue_row_key(crawl, queue) + position
    assert len(keys.queue_row_key(crawl, queue)) == 20


@given(st.tuples(ranks, counts, queues), st.tuples(ranks, counts, queues), crawls)
def test_inactive_queues_are_in_the_order_of_activation(
    one: tuple[int, int, bytes], other: tuple[int, int, bytes], crawl: int
) -> None:
    """S2.3, S2.17: by rank, and first come first served within one."""
    first, second = keys.inactive_key(crawl, *one), keys.inactive_key(crawl, *other)
    assert (first < second) == (one < other)
    assert first.startswith(keys.rank_prefix(crawl, one[0])) and first[-16:] == one[2]


@given(st.tuples(times, queues), st.tuples(times, queues), crawls)
def test_what_waits_for_its_time_is_in_the_order_of_times(
    one: tuple[int, bytes], other: tuple[int, bytes], crawl: int
) -> None:
    """S2.6, S2.7: snoozed queues on disk, and future URIs. S2.10: by time, then by key."""
    first, second = (keys.timed_key(crawl, IndexSet.FAR, *each) for each in (one, other))
    assert (first < second) == (one < other)
    assert keys.due_of(first) == one[0] and first[-16:] == one[1]


@given(crawls, queues, precedences, serials, times, hashes)
def test_no_row_of_one_index_set_is_taken_for_one_of_another(
    crawl: int, queue: bytes, precedence: int, serial: int, due_ms: int, some_hash: bytes
) -> None:
    rows = {index: keys.member_key(crawl, index, queue) for index in MEMBERS}
    rows |= {index: keys.timed_key(crawl, index, due_ms, queue) for index in (IndexSet.FAR, IndexSet.FUTURE)}
    rows[IndexSet.INACTIVE] = keys.inactive_key(crawl, precedence, serial, queue)
    rows[IndexSet.SCOPE] = keys.scope_key(crawl, queue[:8], some_hash)
    rows[IndexSet.NAME] = keys.name_prefix(crawl, some_hash) + queue[:8]
    rows[IndexSet.REFUSED] = keys.refusal_key(crawl, "scope.hosts", precedence)
    rows[IndexSet.LED] = keys.led_key(crawl, some_hash)
    rows[IndexSet.LANDED] = keys.landed_prefix(crawl, some_hash) + some_hash
    rows[IndexSet.LANE] = keys.lane_prefix(crawl, queue, some_hash) + keys.LAST_POSITION
    rows[IndexSet.LANE_HEAD] = keys.lane_head_prefix(crawl, queue) + keys.LAST_POSITION + some_hash
    assert set(rows) == set(IndexSet)
    for index_set, key in rows.items():
        assert key.startswith(keys.set_prefix(crawl, index_set))
        assert not any(key.startswith(keys.set_prefix(crawl, other)) for other in set(IndexSet) - {index_set})


@given(crawls, hashes, hashes, serials)
def test_rows_of_a_crawl_lie_together_and_within_it_those_of_a_partition(
    crawl: int, partition: bytes, fingerprint: bytes, serial: int
) -> None:
    """So a range of partitions is one range of keys for each crawl and family."""
    prefix = keys.crawl_prefix(crawl) + partition
    assert keys.seen_key(crawl, partition, fingerprint) == prefix + fingerprint
    assert keys.lease_key(crawl, partition, serial).startswith(prefix)
    assert [keys.crawl_key(crawl, row)[:4] for row in CrawlRow] == [keys.crawl_prefix(crawl)] * len(CrawlRow)
    assert len({keys.crawl_key(crawl, row) for row in CrawlRow}) == len(CrawlRow)


names = st.text(max_size=20)


@given(hashes, st.tuples(names, names), st.tuples(names, names))
def test_any_text_in_a_key_is_safe(partition: bytes, one: tuple[str, str], other: tuple[str, str]) -> None:
    """Variable text stands last; two texts in one key are told apart where they may meet."""
    assert (keys.host_key(partition, one[0]) == keys.host_key(partition, other[0])) == (one[0] == other[0])
    assert keys.host_key(partition, one[0]).startswith(partition)
    own = [keys.own_host_key(7, partition, name) for name in (one[0], other[0])]
    assert (own[0] == own[1]) == (one[0] == other[0])
    clean = [(authority.replace("\0", ""), agent) for authority, agent in (one, other)]
    first, second = (keys.robots_key(partition, "http", *each) for each in clean)
    assert (first == second) == (clean[0] == clean[1])


@given(crawls, hashes, names, st.sampled_from(FetchStatisticsOf))
def test_statistics_of_hosts_and_of_sources_lie_apart(
    crawl: int, partition: bytes, name: str, kind: FetchStatisticsOf
) -> None:
    key = keys.statistics_key(crawl, kind, partition, name)
    (other,) = set(FetchStatisticsOf) - {kind}
    assert key.startswith(keys.statistics_prefix(crawl, kind)) and key.endswith(name.encode())
    assert not key.startswith(keys.statistics_prefix(crawl, other))


@given(crawls, *[st.tuples(serials, serials)] * 2)
def test_what_is_imported_is_in_the_order_in_which_it_came(
    crawl: int, one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Job by job, and within a job by place."""
    first, second = keys.import_key(crawl, *one), keys.import_key(crawl, *other)
    assert (first < second) == (one < other)
    assert first.startswith(keys.import_prefix(crawl, one[0]))


# Tokens.

SECRET = bytes(range(16))
tokens = st.builds(Token, crawls, hashes, serials, hashes, st.booleans())


@given(tokens, st.binary(min_size=1, max_size=64))
def test_a_token_says_what_was_put_in_to_who_has_the_secret(token: Token, secret: bytes) -> None:
    assert decode_token(encode_token(token, secret), secret) == token


@given(tokens)
def test_another_secret_makes_another_token(token: Token) -> None:
    assert decode_token(encode_token(token, SECRET), SECRET[::-1]) is None


@given(tokens, st.integers(0, 1_000), st.integers(1, 255))
def test_a_token_with_one_byte_changed_is_refused(token: Token, place: int, change: int) -> None:
    forged = bytearray(encode_token(token, SECRET))
    forged[place % len(forged)] ^= change
    assert decode_token(bytes(forged), SECRET) is None


@given(tokens, st.integers(0, 60), st.binary(max_size=9))
def test_a_token_cut_or_lengthened_is_refused(token: Token, length: int, more: bytes) -> None:
    data = encode_token(token, SECRET)
    changed = data[:length] + more
    assert changed == data or decode_token(changed, SECRET) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_no_token(data: bytes) -> None:
    assert decode_token(data, SECRET) is None


@given(tokens)
def test_a_tag_without_the_secret_does_not_do(token: Token) -> None:
    body = encode_token(token, SECRET)[:-8]
    assert decode_token(body + blake2b(body, digest_size=8).digest(), SECRET) is None


def test_tokens_stay_readable() -> None:
    """Nodes hold them across a restart with a newer server."""
    token = Token(7, b"partitio", 42, b"subject.", True)
    data = bytes.fromhex("00000007" + b"partitio".hex() + "000000000000002a" + b"subject.".hex() + "01")
    assert encode_token(token, SECRET)[:-8] == data


@pytest.mark.parametrize("flag", [2, 255])
def test_every_token_has_one_spelling(flag: int) -> None:
    """A flag that reads as true in another byte has another tag."""
    data = bytearray(encode_token(Token(1, b"p" * 8, 1, b"s" * 8, True), SECRET))
    data[-9] = flag
    assert decode_token(bytes(data), SECRET) is None


numbers = st.integers(0, 2**32 - 1)


@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers))
def test_a_lease_has_a_number_that_none_of_another_start_has(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    """In the order in which a server gives them, and always such that a key has room for it."""
    first, second = keys.lease_serial(*one), keys.lease_serial(*other)
    assert (first < second) == (one < other) and 0 <= first < 2**64
    assert keys.lease_serial(one[0], 2**32 + one[1]) < 2**64
