"""Where a body ends, however it is framed and however it comes in pieces."""

import re
import time
from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.answer_head import ProtocolError, end_of_head, parse_head
from crawler_node.fetching.framing import MAX_LINE_BYTES, Chunked, framing

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(answer: bytes, cuts: list[int] | None = None, *, has_body: bool = True) -> tuple[bytes, str]:
    """The body of an answer that comes in pieces, and how it ended: whole, cut, or with nonsense."""
    end = end_of_head(answer)
    body, _ = framing(parse_head(answer[:end]), has_body=has_body)
    bounds = [end, *sorted(end + cut % (len(answer) - end + 1) for cut in cuts or []), len(answer)]
    data = b""
    try:
        for start, stop in pairwise(bounds):
            if body.complete:
                break
            for piece in body.feed(answer[start:stop]):
                data += piece
    except ProtocolError:
        return data, "nonsense"
    return data, "whole" if body.complete or body.may_end() else "cut"


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=50), max_size=5),
    line_end=st.sampled_from([b"\r\n", b"\n"]),
    extension=st.sampled_from([b"", b";x=y", b" ", b" ; \xff"]),
    lost=st.integers(0, 400),
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
def test_chunks_are_taken_away_wherever_they_are_cut(
    chunks: list[bytes], line_end: bytes, extension: bytes, lost: int, cuts: list[int]
) -> None:
    coded = b"".join(b"%x%s%s%s%s" % (len(each), extension, line_end, each, line_end) for each in chunks)
    last = b"0" + line_end
    whole = CHUNKED + coded + last
    assert read(whole + b"whatever comes behind", cuts) == (b"".join(chunks), "whole")
    broken = whole[: max(len(CHUNKED), len(whole) - 1 - lost)]
    data, ended = read(broken, cuts)
    assert ended == "cut" and b"".join(chunks).startswith(data)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"zzz\r\n", b""),
        (b"<p>no chunk", b""),
        (b"\r\n5\r\nhello\r\n", b""),
        (b"-1\r\n", b""),
        (b"0x5\r\nhello", b""),
        (b"5, 6\r\nhello", b""),
        (b"f" * 17, b""),
        (b"0" * (MAX_LINE_BYTES + 1), b""),
        (b"5;" + b"x" * MAX_LINE_BYTES, b""),
        (b"3\r\nhello\r\n0\r\n\r\n", b"hel"),
        (b"5\r\nhello\r\n\r\n0\r\n\r\n", b"hello"),
    ],
)
def test_chunks_that_make_no_sense_are_told_after_what_came_before(sent: bytes, kept: bytes) -> None:
    assert read(CHUNKED + sent) == (kept, "nonsense")


@given(st.binary(max_size=300))
def test_no_bytes_break_a_reader_of_chunks(data: bytes) -> None:
    assert read(CHUNKED + data)[1] in ("whole", "cut", "nonsense")


def test_a_size_of_a_chunk_may_be_any_that_a_number_of_64_bits_can_tell() -> None:
    assert read(CHUNKED + b"000ffffffffffffffff\r\nhello") == (b"hello", "cut")


@pytest.mark.parametrize(
    ("lengths", "sent", "expected"),
    [
        (b"5", b"hello", (b"hello", "whole")),
        (b"5", b"hell", (b"hell", "cut")),
        (b"5", b"hello!", (b"hello", "whole")),
        (b"0", b"hello", (b"", "whole")),
        (b"3, 5, 5", b"hello!", (b"hello", "whole")),
        (b"3, 5", b"hel", (b"hel", "whole")),
        (b"3, 5", b"hell", (b"hell", "cut")),
        (b"00005", b"hello", (b"hello", "whole")),
        (b"9" * 5000, b"hello", (b"hello", "cut")),
        (b"5 bytes", b"hello!", (b"hello!", "whole")),
        (b" , ", b"hello!", (b"hello!", "whole")),
    ],
)
def test_a_body_has_the_length_that_was_announced(
    lengths: bytes, sent: bytes, expected: tuple[bytes, str]
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: " + lengths + b"\r\n\r\n"
    assert read(answer + sent) == expected
    assert read(answer + sent, has_body=False) == (b"", "whole")


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_some_answers_have_no_body_whatever_they_say(status: bytes) -> None:
    for header in (b"Content-Length: 5", b"Transfer-Encoding: gzip", b"X: y"):
        assert read(b"HTTP/1.1 %s X\r\n%s\r\n\r\nhello" % (status, header)) == (b"", "whole")


def test_many_tiny_chunks_take_time_in_proportion_to_them() -> None:
    body = Chunked()
    started_s = time.thread_time()
    assert sum(len(piece) for piece in body.feed(b"1\r\nx\r\n" * 100_000)) == 100_000
    assert time.thread_time() - started_s < 5


TINY = [
    b"1\r\nx\r\n",
    b"1\nx\n",
    b"01\r\nx\r\n",
    b"1 \r\nx\r\n",
    b"1;a=b\r\nx\r\n",
    b"A\r\n0123456789\r\n",
]


@pytest.mark.parametrize("chunk", TINY, ids=repr)
def test_the_chunks_of_one_read_come_out_as_one_piece(chunk: bytes) -> None:
    """Each piece is hashed, decoded and stored: some 13 microseconds, for a byte."""
    size = len(read(CHUNKED + chunk)[0])
    body = Chunked()
    pieces = list(body.feed(chunk * 1000 + chunk[:-1]))
    assert [len(piece) for piece in pieces] == [size * 1001]
    assert list(body.feed(chunk[-1:] + b"0\r\n")) == [] and body.complete


@given(
    st.lists(st.sampled_from([*TINY, b"3\r\na\r\n\r\n", b"fF\r\n" + b"y" * 255 + b"\r\n"]), max_size=30),
    st.integers(1, 40),
)
def test_small_chunks_are_read_the_same_however_they_are_cut(chunks: list[bytes], step: int) -> None:
    sent = b"".join(chunks) + b"0\r\n"
    body = Chunked()
    cut = b"".join(piece for at in range(0, len(sent), step) for piece in body.feed(sent[at : at + step]))
    assert body.complete and (cut, "whole") == read(CHUNKED + sent)
    assert cut == b"".join(
        re.split(rb"\r?\n", each, maxsplit=1)[1].removesuffix(b"\n").removesuffix(b"\r") for each in chunks
    )


token = st.text("abcXYZ-09", min_size=1, max_size=8).map(str.encode)
value = st.text("ab ,;=\x09", max_size=12).map(lambda text: text.strip().encode())
headers = st.lists(
    st.tuples(token, value)
    | st.sampled_from(
        [
            (b"Content-Length", b"5"),
            (b"Content-Length", b"5, 5"),
            (b"Transfer-Encoding", b"chunked"),
            (b"Connection", b"keep-alive"),
        ]
    ),
    max_size=6,
)


@given(
    status=st.sampled_from([200, 204, 304, 404, 500]),
    headers=headers,
    body=st.sampled_from([b"", b"hello", b"hell", b"5\r\nhello\r\n0\r\n\r\n", b"5\r\nhel"])
    | st.binary(max_size=20),
    fold=st.sampled_from([b"", b"\r\n "]),
    line_end=st.sampled_from([b"\r\n", b"\n"]),
)
def test_what_a_strict_parser_takes_is_understood_as_it_understands_it(
    status: int, headers: list[tuple[bytes, bytes]], body: bytes, fold: bytes, line_end: bytes
) -> None:
    lines = [b"HTTP/1.1 %d OK" % status, *(b"%s:%s %s" % (name, fold, value) for name, value in headers)]
    answer = line_end.join([*lines, b"", b""]) + body
    machine = h11.Connection(h11.CLIENT)
    machine.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    machine.send(h11.EndOfMessage())
    machine.receive_data(answer)
    machine.receive_data(b"")
    data, ended, understood = b"", "whole", None
    try:
        while type(event := machine.next_event()) is not h11.EndOfMessage:
            if isinstance(event, h11.Response):
                understood = [(name.lower(), b" ".join(text.split())) for name, text in event.headers]
            elif isinstance(event, h11.Data):
                data += bytes(event.data)
            elif event is h11.PAUSED:
                break
    except h11.RemoteProtocolError:
        ended = "cut"
    if understood is None:
        return  # it is stricter
    head = parse_head(answer[: end_of_head(answer)])
    assert head.status == status
    said = [(name.lower(), b" ".join(text.split())) for name, text in head.headers]
    assert [each for each in said if each[0] != b"content-length"] == [
        each for each in understood if each[0] != b"content-length"
    ]
    ours = read(answer)
    assert ours[0].startswith(data)
    if ended == "whole":
        assert ours == (data, "whole")
