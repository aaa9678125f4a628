"""What a document is by its first bytes, and which media types leave that open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.sniff import HEADER_BYTES, says_nothing, sniffed

TAGS = (
    *("<!DOCTYPE HTML", "<HTML", "<HEAD", "<SCRIPT", "<IFRAME", "<H1", "<DIV", "<FONT", "<TABLE", "<A"),
    *("<STYLE", "<TITLE", "<B", "<BODY", "<BR", "<P", "<!--"),
)
"""Those of the table in section 7.1."""


@pytest.mark.sampled("tag", TAGS)
@pytest.mark.sampled("blanks", ["", " ", "\n", "\t\x0c\r\n "])
def test_a_tag_of_the_table_and_its_end_are_html(tag: str, blanks: str) -> None:
    for written in (tag, tag.lower(), tag.title()):
        for end in (" ", ">"):
            assert sniffed(f"{blanks}{written}{end}".encode()) == "text/html"
        for end in ("", "\n", "/", "x1"):
            assert sniffed(f"{blanks}{written}{end}".encode()) == "text/plain"
        assert sniffed(f"x{blanks}{written}>".encode()) == "text/plain"


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (b"<?xml version='1.0'?><html>", "text/xml"),
        (b" \n<?xml", "text/xml"),
        (b"<?XML", "text/plain"),
        (b"%PDF-1.7\n\xe2\xe3\0", "application/pdf"),
        (b" %PDF-1.7", "text/plain"),
        (b"%!PS-Adobe-3.0", "application/postscript"),
        (b"\xef\xbb\xbfx\0", "text/plain"),
        (b"\xff\xfex\0", "text/plain"),
        (b"\xfe\xff\0x", "text/plain"),
        (b"\xef\xbb\xbf", "text/plain"),
        (b"\xfe\xff\0", "application/octet-stream"),
        (b"", "text/plain"),
        (b"<ul>", "text/plain"),
        (b"caf\xe9 \x1b[0m\t\x0c\r\n", "text/plain"),
        (b"\x89PNG\r\n\x1a\n\0", "application/octet-stream"),
        (b"\x1f\x8b\x08\0", "application/octet-stream"),
        (b"PK\x03\x04", "application/octet-stream"),
        *((bytes([byte]), "application/octet-stream") for byte in (0, 8, 0x0B, 0x0E, 0x1A, 0x1C, 0x1F)),
    ],
)
def test_other_beginnings(header: bytes, media_type: str) -> None:
    assert sniffed(header) == media_type


def test_only_the_first_bytes_count() -> None:
    assert sniffed(b" " * (HEADER_BYTES - 3) + b"<p>") == "text/html"
    assert sniffed(b" " * (HEADER_BYTES - 2) + b"<p>") == "text/plain"
    assert sniffed(b"x" * HEADER_BYTES + b"\0") == "text/plain"


@given(st.binary(max_size=3000))
def test_every_beginning_is_something(header: bytes) -> None:
    assert sniffed(header) == sniffed(header[:HEADER_BYTES])


@pytest.mark.parametrize(
    "media_type",
    [
        *("", "application/octet-stream", "binary/octet-stream", "unknown/unknown", "application/unknown"),
        *("text/hmtl", "text/htm", "text/html5", "test/html", "htlm/text", "application/html", "text/x-html"),
    ],
)
def test_a_media_type_may_say_nothing(media_type: str) -> None:
    assert says_nothing(media_type)


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/html", "text/plain", "text/css", "text/csv", "text/xml", "text/x-python", "text/vnd.a"),
        *("text/a+xml", "image/png", "image/unknown", "application/pdf", "application/json", "video/mp4"),
        *("application/zip", "application/vnd.ms-excel", "font/woff2", "multipart/mixed", "message/rfc822"),
    ],
)
def test_a_media_type_that_says_something_counts(media_type: str) -> None:
    assert not says_nothing(media_type)
