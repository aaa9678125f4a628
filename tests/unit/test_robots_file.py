"""What a fetch of a robots.txt means: rules, none, or that it could not be had."""

import gzip
import time
import zlib

import pytest
from node_doubles.stages import page

from crawler_node.fetching.fetch import MAX_ROBOTS_BYTES
from crawler_node.fetching.outcome import Truncation
from crawler_node.fetching.robots_file import RobotsFile, robots_file

RULES = b"User-agent: *\nDisallow: /closed\n"
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def said(
    body: bytes, coding: str = "", truncation: Truncation = Truncation.NONE, status: int = 200
) -> RobotsFile:
    headers = [(b"Content-Encoding", coding.encode())] if coding else []
    return robots_file(page("http://h/robots.txt", status, body, headers=headers, truncation=truncation))


@pytest.mark.parametrize("coding", ["aws-chunked", "UTF-8", "br", "deflate", "gzip", "gzip, br", "nonsense"])
def test_rules_in_plain_text_are_read_whatever_coding_they_are_said_to_have(coding: str) -> None:
    """RFC 9309 2.3.1.1: what was had is obeyed. An empty body in its place would allow everything."""
    assert said(RULES, coding) == RobotsFile(200, RULES)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (IMAGE, "br"),
        (IMAGE, "gzip"),
        (IMAGE, "deflate"),
        (gzip.compress(RULES, mtime=0), "br"),
        (b"\x1f\x8b" + RULES, "gzip"),
        (gzip.compress(RULES, mtime=0)[:11], "gzip"),
        (gzip.compress(b"", mtime=0)[:-3], "gzip"),
    ],
)
def test_bytes_that_no_coding_explains_are_no_rules(body: bytes, coding: str) -> None:
    file = said(body, coding)
    assert (file.status, file.body, file.reason) == (-10, b"", "the file is no text")


@pytest.mark.parametrize(
    ("trailer", "kept", "note"),
    [
        (bytes(8), RULES + b"Allow: /clo", "codingBroken:checksum"),
        (zlib.crc32(RULES + b"Allow: /clo").to_bytes(4, "little") + b"long", None, "codingBroken:length"),
        (b"", RULES + b"#Allow: /clo", "codingBroken:end"),
    ],
)
def test_rules_in_a_broken_coding_count_and_a_torn_permission_does_not(
    trailer: bytes, kept: bytes | None, note: str
) -> None:
    rules = RULES + b"Allow: /clo"
    body = gzip.compress(rules, mtime=0)[:-8] + trailer
    assert said(body, "gzip") == RobotsFile(200, rules if kept is None else kept, notes=(note,))


def test_codings_that_can_be_undone_are() -> None:
    assert (
        said(gzip.compress(RULES), "gzip") == said(zlib.compress(RULES), "deflate") == RobotsFile(200, RULES)
    )
    assert said(gzip.compress(b""), "gzip") == RobotsFile(200), "and it is empty"
    assert said(gzip.compress(bytes(MAX_ROBOTS_BYTES + 1)), "gzip").body == bytes(MAX_ROBOTS_BYTES)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (RULES + b"Disallow: /oth", RULES + b"Disallow: /oth"),
        (RULES + b"Allow: /clo", RULES + b"#Allow: /clo"),
        (RULES + b" ALLOW:", RULES + b"# ALLOW:"),
        (RULES + b"Allowed: /clo", RULES + b"#Allowed: /clo"),
        (RULES + b"\xef\xbb\xbfAllow /clo", RULES + b"#\xef\xbb\xbfAllow /clo"),
        (RULES + b"Site-map: http://h/ma", RULES + b"#Site-map: http://h/ma"),
        (RULES + b"Disallow: /a$", RULES + b"Disallow: /a"),  # of /a$b
        (RULES + b"Disallow: /a%4", RULES + b"Disallow: /a"),  # of /a%41
        (RULES + b"Sitemap: http://h/ma", RULES + b"#Sitemap: http://h/ma"),
        (b"Allow: /", b"#Allow: /"),
        (RULES + b"Allow: /open\n", RULES + b"Allow: /open\n"),
        (gzip.compress(RULES * 999, 0)[:500], (RULES * 999)[:485]),
    ],
)
def test_of_a_file_that_breaks_off_counts_what_came_and_nothing_that_a_cut_permits(
    sent: bytes, kept: bytes
) -> None:
    """RFC 9309 2.3.1.1: the rules that could be parsed are followed."""
    coding = "gzip" if sent.startswith(b"\x1f") else ""
    assert said(sent, coding, Truncation.DISCONNECT) == RobotsFile(200, kept)


def test_a_robots_txt_beyond_the_size_limit_is_cut() -> None:
    rest = b"\nAllow: /open"
    body = b"#" * (MAX_ROBOTS_BYTES - len(rest)) + rest + b"-house"
    assert said(body[:MAX_ROBOTS_BYTES], truncation=Truncation.LENGTH).body.endswith(b"\n#Allow: /open")
    assert said(gzip.compress(body), "gzip").body.endswith(b"\n#Allow: /open")


def test_a_file_that_breaks_off_is_read_in_time_that_goes_with_its_length() -> None:
    """A long line before the last one, once looked through from each of its places: minutes, for 500 KiB."""
    began_s = time.thread_time()
    for last in (b"Allow: /", b""):
        body = b"a" * (MAX_ROBOTS_BYTES - 50) + b"\r\n" + last
        assert said(body, truncation=Truncation.DISCONNECT).body == body.replace(b"Allow", b"#Allow")
    assert time.thread_time() - began_s < 5


def test_a_file_of_which_nothing_came_could_not_be_had() -> None:
    assert said(b"", truncation=Truncation.DISCONNECT) == RobotsFile(-3)


def test_a_file_that_did_not_end_in_time_could_not_be_had() -> None:
    """RFC 9309 2.3.1.4"""
    assert said(RULES, truncation=Truncation.TIME) == RobotsFile(-4)


@pytest.mark.parametrize(("status", "told"), [(302, -404), (304, -404), (404, 404), (503, 503), (-2, -2)])
def test_an_answer_that_is_no_file_has_no_rules(status: int, told: int) -> None:
    """RFC 9309 2.3.1.2: redirects beyond the fifth, and to nowhere, lead to what is not there."""
    file = said(RULES, status=status)
    assert (file.status, file.body) == (told, b"")


def test_why_there_is_no_file_is_told() -> None:
    def reason(status: int, target: str | None = None, why: str = "") -> str:
        return robots_file(page("http://h/robots.txt", status, redirect_target=target, reason=why)).reason

    assert reason(302, "http://h/6") == "more than 5 redirects"
    assert reason(302) == "status 302 without a target"
    assert reason(-2, why="192.0.2.1:80: connection refused") == "192.0.2.1:80: connection refused"
    assert reason(503) == "", "the status says it"
