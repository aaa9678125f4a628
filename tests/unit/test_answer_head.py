"""Heads of answers, as sloppy as servers write them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.answer_head import ProtocolError, check_beginning, end_of_head, parse_head


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200 OK", 200),
        (b"HTTP/1.1 200", 200),
        (b"HTTP/1.1 200 ", 200),
        (b"HTTP/1.1  404   Not  Found", 404),
        (b"HTTP/1.0\t301\tMoved", 301),
        (b"http/1.1 200 ok", 200),
        (b"HTTP/2 200", 200),
        (b"HTTP/1.1 999 \xff\xfe", 999),
    ],
)
def test_a_status_line_has_a_protocol_and_three_digits(line: bytes, status: int) -> None:
    for line_end in (b"\r\n", b"\n", b" \r\r\n"):
        assert parse_head(line + line_end * 2).status == status


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"HTTP/1.1", b"HTTP/1.1 OK", b"HTTP/1.1 099 X", b"HTTP/1.1 2000", b"HTTP/1.1 200OK"),
        *(b"HTTP 200", b"x"),
    ],
)
def test_anything_else_is_none(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_head(line + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("lines", "headers"),
    [
        (b"A: b", [(b"A", b"b")]),
        (b"A:b", [(b"A", b"b")]),
        (b"A\t : \tb \t", [(b"A", b"b")]),
        (b"A:", [(b"A", b"")]),
        (b": b", []),
        (b" : b", []),
        (b"A b", []),
        (b"\xc3\x9c[ ]: \xff", [(b"\xc3\x9c[ ]", b"\xff")]),
        (b"A: b\rC: d", [(b"A", b"b C: d")]),
        (b"A\rB: c", [(b"A B", b"c")]),
        (b"A: b\r\n c\r\n\td \r\nE: f", [(b"A", b"b c d"), (b"E", b"f")]),
        (b"A b\r\n c: d\r\nE: f", [(b"E", b"f")]),
        (b"A: b\r\r\nC: d", [(b"A", b"b"), (b"C", b"d")]),
    ],
)
def test_headers_are_names_and_values_of_any_bytes(lines: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    raw = b"HTTP/1.1 200 OK\r\n%s\r\n\r\n" % lines
    head = parse_head(raw)
    assert (head.headers, head.raw) == (headers, raw)
    assert not any(b"\r" in text or b"\n" in text for header in head.headers for text in header)


def test_a_head_ends_with_a_blank_line_wherever_it_is_cut() -> None:
    for blank in (b"\r\n\r\n", b"\n\n", b"\r\n\n", b"\n\r\n"):
        answer = b"HTTP/1.1 200 OK\r\nA: b" + blank + b"body\n\n"
        end = len(answer) - len(b"body\n\n")
        for seen in range(end):
            assert end_of_head(answer[:seen]) == -1
            assert end_of_head(answer, seen) == end, seen


def test_lines_of_a_header_are_left_out_with_what_belongs_to_them() -> None:
    raw = b"HTTP/1.1 200 OK\nA: b\r\n c\r\nX : y\r\n\tz\nx:\r\nB: x\r\n\r\n"
    assert parse_head(raw).raw_without(b"x") == b"HTTP/1.1 200 OK\nA: b\r\n c\r\nB: x\r\n\r\n"


def test_other_protocols_are_told_by_their_first_bytes() -> None:
    for beginning in (b"", b"H", b"http/", b"HTTP/1.1 200"):
        check_beginning(beginning)
    for beginning in (b"S", b"\x15", b"HTML", b"<", b"\r\nHTTP/1.1"):
        with pytest.raises(ProtocolError):
            check_beginning(beginning)


@given(st.binary(max_size=500))
def test_any_bytes_are_a_head_or_a_protocol_error(data: bytes) -> None:
    for raw in (data, b"HTTP/1.1 200 OK\r\n" + data):
        try:
            head = parse_head(raw)
        except ProtocolError:
            continue
        assert head.raw == raw
        assert all(name for name, _ in head.headers)


@pytest.mark.parametrize("line", [b" \n", b"\n", b"a:\n", b"a\n", b":\r", b" ", b"a: b\n c\n", b"\r"])
def test_a_head_takes_time_in_proportion_to_its_length(line: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\n" + line * (300_000 // len(line))
    started_s = time.thread_time()
    parse_head(raw).raw_without(b"a")
    parse_head(raw).listed(b"a")
    assert time.thread_time() - started_s < 5
