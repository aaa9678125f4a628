"""Charsets of documents: which one holds, as seen in a link that is not ASCII."""

import pytest
from node_doubles.extracting import FOLDER, fetch, find


def only(charset: str | None, body: bytes, media_type: str = "text/html") -> str:
    parameter = f"; charset={charset}" if charset else ""
    (link,) = find(fetch(body, media_type + parameter)).links
    return link.uri.removeprefix(FOLDER)


CAFE = "caf%C3%A9"
WORD = "%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"  # привет


def test_the_charset_of_the_content_type_holds() -> None:
    body = "<meta charset=utf-8><a href=привет>"
    assert only("windows-1251", body.encode("cp1251")) == WORD
    assert only("KOI8-R", body.encode("koi8-r")) == WORD
    assert only("UTF-8", body.encode()) == WORD
    assert only("utf-16le", body.encode("utf-16-le")) == WORD
    assert only("gbk", "<a href=中>".encode("gbk")) == "%E4%B8%AD"


def test_a_byte_order_mark_goes_before_everything() -> None:
    assert only("windows-1251", b"\xef\xbb\xbf" + "<a href=привет>".encode()) == WORD
    assert only("utf-8", "\ufeff<a href=привет>".encode("utf-16-le")) == WORD


def test_a_document_may_declare_its_charset() -> None:
    assert only(None, "<meta charset=windows-1251><a href=привет>".encode("cp1251")) == WORD
    declared = "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><a href=привет>"
    assert only(None, declared.encode("koi8-r")) == WORD
    assert only("no-such-charset", declared.encode("koi8-r")) == WORD


FAR = "<!-- <meta charset=gbk> -->" + "<p>" * 400 + "<script>'<meta charset=gbk>'</script>"


@pytest.mark.parametrize(
    "beginning",
    [
        "<?xml version='1.0' encoding='koi8-r'?>",
        '<?xml version="1.0" encoding="KOI8-R" standalone="yes"?><!DOCTYPE html><html>',
        f"{FAR}<meta charset=koi8-r>",
        f"{FAR}<META content='text/html; charset = koi8-r' http-equiv=content-type>",
        f"<?xml version='1.0'?>{FAR}<meta charset='koi8-r'><meta charset=gbk>",
        "<?xml version='1.0' encoding='gbk'?><meta charset=koi8-r>",
        f"<?xml version='1.0' encoding='koi8-r'?>{FAR}<meta charset=gbk>",
    ],
)
def test_a_page_may_declare_its_charset_as_xml_does_or_late(beginning: str) -> None:
    assert only(None, f"{beginning}<a href=привет>".encode("koi8-r")) == WORD
    assert only("windows-1251", f"{beginning}<a href=привет>".encode("cp1251")) == WORD


def test_a_page_that_declares_utf_16_as_xml_does_is_utf_8() -> None:
    assert only(None, "<?xml version='1.0' encoding='UTF-16'?><a href=привет>".encode()) == WORD


def test_an_undeclared_charset_is_guessed() -> None:
    assert only(None, "<a href=café>".encode()) == CAFE
    filler = "<p>" + "x" * 100 + "</p>\n"
    assert only(None, (filler * 1000 + "<a href=café>").encode()) == CAFE
    text = "<p>Съешь же ещё этих мягких французских булок, да выпей чаю</p>" * 20
    assert only(None, (filler * 1000 + text + "<a href=привет>").encode("cp1251")) == WORD


def test_xml_declares_its_charset_first() -> None:
    page = "<?xml version='1.0' encoding=\"koi8-r\"?><html xmlns='urn:x'><a href='привет'/></html>"
    assert only(None, page.encode("koi8-r"), "application/xhtml+xml") == WORD
    assert only("windows-1251", page.encode("cp1251"), "application/xml") == WORD
    feed = (
        "<?xml version='1.0' encoding='windows-1251'?><rss><channel><link>/dir/привет</link></channel></rss>"
    )
    assert only(None, feed.encode("cp1251"), "application/rss+xml") == WORD
    assert only(None, ("\ufeff" + feed).encode("utf-16-le"), "application/rss+xml") == WORD
    assert only("utf-16be", feed.encode("utf-16-be"), "text/xml") == WORD


def test_a_style_sheet_declares_its_charset_first() -> None:
    sheet = '@charset "koi8-r"; a { background: url(привет) }'
    assert only(None, sheet.encode("koi8-r"), "text/css") == WORD
    assert only("windows-1251", sheet.encode("cp1251"), "text/css") == WORD
    assert only(None, b"\xef\xbb\xbf" + sheet.encode(), "text/css") == WORD


@pytest.mark.parametrize(
    "label",
    [
        "punycode",
        "idna",
        "zlib",
        "hex",
        "unicode_escape",
        "utf-7",
        "x" * 100_000,
        "\u00e9",
        '"><a href=y>',
        "\0",
    ],
    ids=lambda label: label[:20],
)
def test_strange_charsets_do_no_harm(label: str) -> None:
    assert only(label, b"<a href=x>") == "x"
    short = label[:90].replace('"', "")
    for media_type, body in (
        ("text/html", f"<meta charset='{short}'><a href=x>"),
        ("text/xml", f"<?xml version='1.0' encoding='{short}'?><html><a href='x'/></html>"),
        ("text/css", f'@charset "{short}"; a {{ b: url(x) }}'),
    ):
        assert FOLDER + "x" in {link.uri for link in find(fetch(body, media_type)).links}
