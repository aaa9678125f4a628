"""What a node tells of a fetch, within the contract's limits."""

import pytest
from node_doubles.leases import lease
from node_doubles.stages import page

from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.leases.report import (
    MAX_ANNOTATIONS,
    MAX_REASON_CHARS,
    annotate,
    failed,
    fetched,
    killed,
    put_off,
    released,
)
from crawler_node.meter import ConnectionUse
from toehold.frontier.v1 import frontier_pb2


def test_a_report_says_what_was_fetched_when_and_how_long_it_took() -> None:
    report = fetched(lease("http://h/"), page("http://h/", body=b"12345"), 7)
    assert (report.token, report.outcome, report.fetch_status) == (
        b"http://h/",
        frontier_pb2.OUTCOME_FETCHED,
        200,
    )
    assert report.start_time.ToMilliseconds() == 1_700_000_000_123
    assert report.fetch_duration.ToMilliseconds() == 7
    assert (report.body_bytes, report.digest, report.media_type) == (5, "sha1:ABC", "text/html")
    assert report.toe_number == 7 and list(report.annotations) == []
    assert not report.HasField("retry_after_duration")


def test_a_report_counts_the_connections_of_a_fetch_and_of_its_redirects() -> None:
    hops = (
        page("http://h/a", 302, connections=(ConnectionUse.NEW,)),
        page("https://h/b", 302, connections=(ConnectionUse.NEW,), handshakes=1),
        page("https://h/c", 302, connections=(ConnectionUse.KEPT, ConnectionUse.NEW), handshakes=1),
    )
    report = fetched(lease("http://h/"), page("https://h/d", connections=(ConnectionUse.KEPT,), hops=hops), 1)
    counts = report.connection_count, report.tls_handshake_count, report.kept_connection_count
    assert counts == (3, 2, 2)
    without = fetched(lease("http://h/"), page("http://h/", Status.DOMAIN_UNRESOLVABLE), 1)
    assert (without.connection_count, without.kept_connection_count) == (0, 0)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (None, ""),
        ("http://h/login", "/login"),
        ("http://h/", "/"),
        ("https://h/login", "https://h/login"),
        ("http://h:81/login", "http://h:81/login"),
        ("http://h.example/", "http://h.example/"),
    ],
)
def test_the_report_of_a_redirect_names_its_target(target: str | None, told: str) -> None:
    """Without the origin if that is the same."""
    assert fetched(lease("http://h/"), page("http://h/", 302, redirect_target=target), 1).reason == told


@pytest.mark.parametrize(
    ("truncation", "told"),
    [
        (Truncation.NONE, frontier_pb2.TRUNCATION_UNSPECIFIED),
        (Truncation.LENGTH, frontier_pb2.TRUNCATION_LENGTH),
        (Truncation.TIME, frontier_pb2.TRUNCATION_TIME),
        (Truncation.DISCONNECT, frontier_pb2.TRUNCATION_DISCONNECT),
        (Truncation.FILTER, frontier_pb2.TRUNCATION_FILTER),
    ],
)
def test_a_cut_body_is_told(truncation: Truncation, told: int) -> None:
    assert fetched(lease("a"), page("a", truncation=truncation), 1).truncation == told


@pytest.mark.parametrize(
    ("header", "rest_ms"),
    [
        (b"120", 120_000),
        (b"Tue, 14 Nov 2023 22:13:50 GMT", 29_870),  # the fetch ended at 22:13:20.130
        (b"Tue, 14 Nov 2023 22:00:00 GMT", 0),
        (b"9999999999", 366 * 86_400_000),
    ],
)
def test_retry_after_is_reckoned_from_the_end_of_the_fetch(header: bytes, rest_ms: int) -> None:
    report = fetched(lease("a"), page("a", 503, headers=[(b"Retry-After", header)]), 1)
    assert report.retry_after_duration.ToMilliseconds() == rest_ms


def test_a_retry_after_that_makes_no_sense_is_left_out() -> None:
    report = fetched(lease("a"), page("a", 503, headers=[(b"Retry-After", b"soon")]), 1)
    assert not report.HasField("retry_after_duration")


VALIDATORS = [(b"ETag", b'W/"7"'), (b"Last-Modified", b"Tue, 14 Nov 2023 22:13:50 GMT")]


def test_the_validators_of_an_answer_are_told_as_they_were_sent() -> None:
    report = fetched(lease("a", etag="old", last_modified="old"), page("a", headers=VALIDATORS), 1)
    assert (report.etag, report.last_modified) == ('W/"7"', "Tue, 14 Nov 2023 22:13:50 GMT")
    report = fetched(lease("a", etag="old", last_modified="old"), page("a"), 1)
    assert (report.etag, report.last_modified) == ("", ""), "the page that was there is gone"


def test_a_page_that_has_not_changed_has_the_digest_that_it_had() -> None:
    before = lease("a", etag='"6"', last_digest="sha1:OLD")
    report = fetched(before, page("a", 304, conditional=True), 1)
    assert (report.fetch_status, report.digest, report.etag) == (304, "sha1:OLD", "")
    assert fetched(before, page("a", 304), 1).digest == "sha1:ABC", "nobody asked whether it had"


@pytest.mark.parametrize(
    ("truncation", "etag"),
    [
        (Truncation.LENGTH, 'W/"7"'),
        (Truncation.TIME, ""),
        (Truncation.DISCONNECT, ""),
        (Truncation.FILTER, ""),
    ],
)
def test_a_body_that_was_cut_by_chance_is_fetched_whole_the_next_time(
    truncation: Truncation, etag: str
) -> None:
    assert fetched(lease("a"), page("a", headers=VALIDATORS, truncation=truncation), 1).etag == etag


def test_a_body_that_was_left_unread_is_not_the_same_as_another_that_was() -> None:
    before = lease("a", etag='"6"', last_digest="sha1:ABC")
    report = fetched(before, page("a", truncation=Truncation.FILTER), 1)
    assert (report.fetch_status, report.digest, report.media_type) == (200, "", "text/html")


def test_a_validator_that_is_too_long_is_left_out() -> None:
    def etag_of(value: bytes) -> str:
        return fetched(lease("a"), page("a", headers=[(b"ETag", value)]), 1).etag

    assert etag_of(b"e" * 1024) == "e" * 1024
    assert etag_of(b"e" * 1025) == ""
    assert etag_of(b"\xe9" * 513) == "", "1026 bytes of UTF-8"


def test_the_address_that_was_connected_to_is_told() -> None:
    assert fetched(lease("a"), page("a", peer_address="192.0.2.1"), 1).peer_address == "192.0.2.1"
    assert fetched(lease("a"), page("a", Status.CONNECT_FAILED), 1).peer_address == ""


def test_of_a_robots_txt_that_lies_elsewhere_the_address_of_its_own_host_is_told() -> None:
    hop = page("http://a/robots.txt", 301, peer_address="192.0.2.1")
    answer = page("http://b/robots.txt", peer_address="192.0.2.2", hops=(hop,))
    assert fetched(lease("http://a/robots.txt"), answer, 1).peer_address == "192.0.2.1"


def test_remarks_of_the_fetch_come_before_those_of_the_node() -> None:
    report = fetched(lease("a", attempt=3), page("a", annotations=("status:999",)), 1, notes=("linksCut",))
    assert list(report.annotations) == ["status:999", "linksCut"]


def test_what_is_put_off_tells_only_how_long_its_host_was_asked() -> None:
    whole = fetched(lease("a"), page("a"), 7, notes=("linksCut",), robots_body=b"x")
    report = put_off(whole, "the node ended")
    assert (report.token, report.fetch_status, report.toe_number) == (b"a", -50, 7)
    assert report.fetch_duration == whole.fetch_duration
    assert not report.robots_body and not report.annotations and not report.digest
    assert report.reason == "the node ended"


def test_what_was_broken_off_for_good_tells_that_and_how_long_its_host_was_asked() -> None:
    whole = fetched(lease("a"), page("a", Status.PROCESSING_THREAD_KILLED, annotations=("cut",)), 7)
    report = killed(whole, "its toe thread was killed")
    assert (report.token, report.fetch_status, report.toe_number) == (b"a", -7000, 7)
    assert report.fetch_duration == whole.fetch_duration
    assert not report.annotations and not report.digest and not report.media_type
    assert report.reason == "its toe thread was killed"


def test_annotations_keep_to_the_contracts_limits() -> None:
    notes = ("with blank, comma\nand line", "x" * 1000, "", *["more"] * 20)
    report = failed(lease("a"), -5, 1, *notes, reason="")
    annotate(report, "too late")
    assert len(report.annotations) == MAX_ANNOTATIONS == 16
    assert report.annotations[0] == "with_blank_comma_and_line"
    assert [len(one) for one in report.annotations[1:3]] == [128, 4]


def test_why_there_is_no_answer_is_told_in_a_line_for_people() -> None:
    refused = page("a", Status.CONNECT_FAILED, reason="192.0.2.1:443: connection refused")
    assert fetched(lease("a"), refused, 1).reason == "192.0.2.1:443: connection refused"
    cut = page("a", 200, reason="not done within timeout_seconds = 120")
    assert fetched(lease("a"), cut, 1).reason == "", "there is an answer"
    odd = failed(lease("a"), -5, 1, reason="ValueError: \udc80 two\n\n lines\x1b[1m" + "x" * 1000).reason
    assert odd.startswith("ValueError: two lines [1mxxx") and len(odd) == MAX_REASON_CHARS == 200


def test_a_lease_handed_back_says_nothing_else() -> None:
    assert released(lease("a")) == frontier_pb2.Report(token=b"a", outcome=frontier_pb2.OUTCOME_RELEASED)
