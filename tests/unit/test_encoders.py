"""The charsets of queries: what is written in them, and that it is read as it was."""

import pytest
from node_doubles.extracting import fetch, find, pairs

from crawler_node.extraction import encoders
from crawler_node.extraction.encoders import encoder_of

ALIKE = {"euc-jp": {"\u00a5": "\\", "\u203e": "~", "\u2212": "\uff0d"}}
"""Characters that the standard writes as others."""


def encoder(charset: str) -> str:
    found = encoder_of(f"whatwg-{charset}")
    assert found is not None
    return found


def test_every_charset_that_pages_are_read_in_can_be_written() -> None:
    for codec, encoder in encoders._ENCODERS.items():
        letters = bytes(range(256)).decode(codec, "ignore") if "8859" in codec or "windows" in codec else "a"
        assert letters.encode(encoder, "ignore").decode(codec) != ""


@pytest.mark.parametrize("charset", ["euc-jp", "big5", "euc-kr", "gbk", "macintosh", "koi8-r"])
def test_each_encoder_writes_what_its_decoder_reads(charset: str) -> None:
    written = 0
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x30000)]):
        octets = character.encode(encoder(charset), "ignore")
        if octets:
            expected = ALIKE.get(charset, {}).get(character, character)
            assert octets.decode(f"whatwg-{charset}") == expected
            written += 1
    assert written >= 256


@pytest.mark.parametrize(
    ("charset", "text", "written"),
    [
        ("euc-jp", "\u65e5", "%C6%FC"),
        ("euc-jp", "\uff5e\uff0d\u2225", "%A1%C1%A1%DD%A1%C2"),
        ("euc-jp", "\u2460\u2167\u3231\u2116", "%AD%A1%AD%BC%AD%EA%AD%E2"),
        ("euc-jp", "\uff71", "%8E%B1"),
        ("euc-jp", "\u00e9", "%26%23233%3B"),  # what EUC-JP has in three bytes is only read
        ("big5", "\u65e5", "%A4%E9"),
        ("big5", "\u0436", "%C8\\"),
        ("big5", "\u3042\u2460", "%C6%E8%C6%A1"),
        ("big5", "\u5341\u5345\u2550", "%A4Q%A4%CA%F9%F9"),
        ("big5", "\u00e9", "%26%23233%3B"),  # one of Hong Kong's additions, which are only read
        ("big5", "\U0001f600", "%26%23128512%3B"),
        ("shift_jis", "\u65e5\u672c\uff5e\u2460", "%93%FA%96{%81`%87@"),
    ],
)
def test_a_query_is_written_as_browsers_write_it(charset: str, text: str, written: str) -> None:
    page = fetch(f"<meta charset={charset}><a href='?{text}'>".encode(encoder(charset), "xmlcharrefreplace"))
    page.headers[:] = [(b"Content-Type", b"text/html")]
    assert pairs(find(page)) == [("L", f"page?{written}")]
