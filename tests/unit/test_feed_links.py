"""Links of feeds."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.broken_xml import StartTag, broken_tokens
from crawler_node.extraction.feed_links import feed_links
from crawler_node.fetching.references import Base

BASE = Base("http://a.example/dir/feed")
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'"


def found(xml: str) -> list[tuple[str, str]]:
    links = feed_links(BASE, xml)
    return [(link.hop.value, link.uri.removeprefix("http://a.example/dir/")) for link in links]


def rss(inner: str) -> list[tuple[str, str]]:
    return found(f"<rss version='2.0'><channel>{inner}</channel></rss>")


@pytest.mark.parametrize(
    ("inner", "links"),
    [
        ("<link>http://a.example/</link>", [("L", "http://a.example/")]),
        ("<item><title>http://no.example/</title><link> ./x?a&amp;b </link></item>", [("L", "x?a&b")]),
        ("<item><link><![CDATA[./x]]></link><link/></item>", [("L", "x")]),
        ("<item><enclosure url='x.mp3' length='1' type='audio/mpeg'/></item>", [("E", "x.mp3")]),
        ("<item><guid>http://b.example/x</guid></item>", [("L", "http://b.example/x")]),
        (
            "<item><guid isPermaLink='true'>./x</guid><guid isPermaLink='false'>./y</guid></item>",
            [("L", "x")],
        ),
        ("<item><guid>12345</guid><link>none</link></item>", []),
        ("<item><comments>./x</comments><s:comments xmlns:s='urn:s'>7</s:comments></item>", [("L", "x")]),
        ("<image><url>./x.gif</url><link>./y</link></image><url>./no</url>", [("E", "x.gif"), ("L", "y")]),
        ("<textInput><link>./no</link></textInput>", []),
        (
            "<item xmlns:m='urn:m'><m:content url='x.mp4'/><m:thumbnail url='y.jpg'/></item>",
            [("E", "x.mp4"), ("E", "y.jpg")],
        ),
        ("<i:image xmlns:i='http://www.itunes.com/dtds/podcast-1.0.dtd' href='x.jpg'/>", [("E", "x.jpg")]),
        (
            "<a:link xmlns:a='http://www.w3.org/2005/Atom' rel='self' href='no'/>"
            "<a:link xmlns:a='http://www.w3.org/2005/Atom' rel='next' href='x'/>",
            [("L", "x")],
        ),
        ("<item><description>&lt;a href='no'&gt;</description></item>", []),
    ],
)
def test_rss(inner: str, links: list[tuple[str, str]]) -> None:
    assert rss(inner) == links


@pytest.mark.parametrize(
    ("outline", "links"),
    [
        ("<outline type='rss' text='./no' xmlUrl='f' htmlUrl='h'/>", [("L", "f"), ("L", "h")]),
        ("<outline text='a'><outline xmlUrl='f'/></outline><outline xmlUrl='g'/>", [("L", "f"), ("L", "g")]),
        (
            "<outline type='link' url='x y'/><outline type='include' url='z.opml'/>",
            [("L", "x%20y"), ("L", "z.opml")],
        ),
        ("<outline xmlurl='f' htmlurl='h'/>", [("L", "f"), ("L", "h")]),
        ("<outline xmlUrl='f?a&b' text='&nbsp;'/>", [("L", "f?a&b")]),
        ("<outline text='http://no.example/' created='./no'/>", []),
    ],
)
def test_opml(outline: str, links: list[tuple[str, str]]) -> None:
    assert found(f"<?xml version='1.0'?><opml version='2.0'><head/><body>{outline}</body></opml>") == links


def test_rss_1_0() -> None:
    feed = (
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
        "<channel rdf:about='no'><link>./a</link></channel><image><url>./b.png</url></image>"
        "<item rdf:about='no'><link>./c</link></item></rdf:RDF>"
    )
    assert found(feed) == [("L", "a"), ("E", "b.png"), ("L", "c")]


@pytest.mark.parametrize(
    ("inner", "links"),
    [
        ("<entry><link href='x'/></entry>", [("L", "x")]),
        (
            "<entry><link rel='alternate' href='x'/><link rel='enclosure' href='y'/></entry>",
            [("L", "x"), ("E", "y")],
        ),
        ("<link rel='self' href='no'/><link rel='hub' href='no'/><link rel='edit' href='no'/>", []),
        ("<link rel='next' href='x'/><link rel='last' href='y'/>", [("L", "x"), ("L", "y")]),
        (
            "<logo>./x.png</logo><icon>./y.ico</icon><id>http://no.example/</id>",
            [("E", "x.png"), ("E", "y.ico")],
        ),
        ("<entry><content src='x.mp4' type='video/mp4'/></entry>", [("E", "x.mp4")]),
        ("<entry><content type='xhtml'><div><a href='no'/></div></content></entry>", []),
    ],
)
def test_atom(inner: str, links: list[tuple[str, str]]) -> None:
    assert found(f"{ATOM}>{inner}</feed>") == links


def test_xml_base_holds_within_its_element() -> None:
    feed = (
        f"{ATOM} xml:base='/b/'><link href='x'/><entry xml:base='c/'><link href='y' xml:base='d/'/>"
        "<logo>./z</logo></entry><link href='w'/>"
        "<entry xml:base='javascript:no'><link href='v'/></entry></feed>"
    )
    places = ["b/x", "b/c/d/y", "b/c/z", "b/w", "b/v"]
    assert [uri for _, uri in found(feed)] == [f"http://a.example/{place}" for place in places]


@pytest.mark.parametrize(
    "bad",
    [
        # A document type within a document is skipped, as XML for robots is read as far as it can be.
        *("<!DOCTYPE x>", "<!DOCTYPE x [<!ENTITY a 'b'>]>"),
        *("</wrong>", "&nbsp;", "<a" * 1000 + ">", "\x0b", "<br>", "<p><b></p>", "<x:y/>", "<item>", "a < b"),
        "<description>1 <br> 2 & 3</description>",
        "<title>A</b></title>",
    ],
)
def test_broken_xml_is_read_on_after_the_break(bad: str) -> None:
    feed = f"<item><link>./1</link>{bad}</item><item><link>./2</link></item><image><url>./3</url></image>"
    assert rss(feed) == [("L", "1"), ("L", "2"), ("E", "3")]


def test_a_broken_feed_keeps_its_names_and_attributes() -> None:
    feed = (
        f"{ATOM} xml:base='/b/'>&nbsp;<link href='x?a&b&amp;c'/><entry xml:base='c/'><link rel=self href=no/>"
        "<link href=y></link><x:origLink>./z</x:origLink></entry><entry><link href='w'/><entry>"
        "<link href='v'/></feed>"
    )
    places = ["b/x?a&b&c", "b/c/y", "b/c/z", "b/w", "b/v"]
    assert [uri for _, uri in found(feed)] == [f"http://a.example/{place}" for place in places]
    assert rss("&<guid isPermaLink='false'>./no</guid><guid isPermaLink='true'>./x</guid>") == [("L", "x")]


NAMES = st.sampled_from(
    ["link", "x:link", "item", "guid", "title", "image", "url", "a:b", "logo", "enclosure"]
)
TEXTS = st.sampled_from(
    ["./a", " ./b ", "<![CDATA[./c]]>", "./d?e&amp;f&#103;", "\u00e9/", "<!-- > -->", "<?p >?>"]
)
ATTRIBUTES = st.sampled_from(
    [
        *("", " href='h'", ' url="u/&quot;"', " xml:base='b/'", " rel='next' href='&lt;'"),
        *(" xmlns='urn:y'", " a = '1' "),
    ]
)


@given(
    st.recursive(
        TEXTS,
        lambda inner: st.builds(
            lambda name, attributes, inside: (
                f"<{name}{attributes}>{''.join(inside)}</{name}>" if inside else f"<{name}{attributes}/>"
            ),
            NAMES,
            ATTRIBUTES,
            st.lists(inner, max_size=4),
        ),
        max_leaves=20,
    )
)
def test_after_a_break_well_formed_parts_are_read_as_they_would_be_before_it(inner: str) -> None:
    start, end = "<rss xmlns:x='urn:x' xmlns:a='urn:a'><channel>", "</channel></rss>"
    assert found(f"{start}&{inner}{end}") == found(f"{start}{inner}{end}")


def test_what_cannot_be_read_on_ends_the_reading() -> None:
    assert rss("<link>./x</link>") == [("L", "x")]
    assert rss("<link>./x</link>" + "<d>" * 300 + "<link>./y</link>") == [("L", "x")]
    assert found("\n\ufeff <rss><link>./x</link>") == found("\ufeff<rss><link>./x</link>") == [("L", "x")]


EXTERNAL = [
    '<!DOCTYPE rss SYSTEM "http://127.0.0.1:1/evil.dtd">',
    '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN"\n'
    ' "http://my.netscape.com/publish/formats/rss-0.91.dtd">',
    '<?xml version="1.0"?>\n<!-- <!DOCTYPE a [ --> <!DOCTYPE rss SYSTEM "a>b[c">',
]
DECLARING = [
    "<!DOCTYPE rss []>",
    '<!DOCTYPE rss [<!ENTITY a "/x"> <!ENTITY nbsp "&#160;">]>',
    '<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">] >',
    '<!DOCTYPE rss [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
    '<!DOCTYPE rss [<!ENTITY % p SYSTEM "http://127.0.0.1:1/evil.dtd"> %p;]>',
    '<!DOCTYPE rss PUBLIC "a" "b" [<!ENTITY a "/x">]\n>',
    '<!DOCTYPE rss [<!ATTLIST link href CDATA "/no"><!-- ]]] isn\'t > --><?a?><!ELEMENT rss ANY>]>',
    '<!DOCTYPE rdf:RDF [<!ENTITY a "/x"><!ENTITY xsd "http://www.w3.org/2001/XMLSchema#">]>',
    '<!doctype rss [<!ENTITY a "/x">]>',
]
ITEMS = (
    "<rss><channel><title>caf&eacute; &a; &#233;</title><link>./1</link>"
    "<item><title>&a;</title><link>./2</link></item>"
    "<item><link>./&a;</link><enclosure url='./&a;.mp3'/></item>"
    "<item><link>./caf&eacute;?a&amp;b</link></item></channel></rss>"
)


@pytest.mark.parametrize("doctype", [*EXTERNAL, *DECLARING])
def test_a_document_type_is_skipped_and_its_entities_stay_unexpanded(doctype: str) -> None:
    """The parser takes an unknown entity in an attribute as empty if the document type is elsewhere."""
    links = [link for link in found(doctype + ITEMS) if link != ("E", ".mp3")]
    assert links == [("L", "1"), ("L", "2"), ("L", "caf%C3%A9?a&b")]


@pytest.mark.parametrize("doctype", ["<!DOCTYPE rss>", "<!DOCTYPE html>", "<!DOCTYPE\nrdf:RDF >"])
def test_a_document_type_that_says_nothing_changes_nothing(doctype: str) -> None:
    for feed in ("<rss><link>./1</link></rss>", ITEMS):
        assert found(doctype + feed) == found(feed) != []


@pytest.mark.parametrize(
    ("doctype", "notes"), [*((each, 0) for each in EXTERNAL), *((each, 1) for each in DECLARING)]
)
def test_it_is_told_if_declarations_are_not_read(doctype: str, notes: int) -> None:
    heard: list[str] = []
    list(feed_links(BASE, doctype + ITEMS, heard.append))
    assert len(heard) == notes
    if notes and doctype.startswith("<!DOCTYPE"):
        assert heard[0].endswith(", declarations of the document type are not read")


@pytest.mark.sampled("size", [1, 2, 7, 11, 64])
@pytest.mark.sampled("doctype", [*EXTERNAL, *DECLARING])
def test_a_document_type_is_skipped_in_pieces_of_any_size(doctype: str, size: int) -> None:
    data = ("&" + doctype + "<a b='&x;'/>end").encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(broken_tokens(pieces))[-1:] == list(broken_tokens([data]))[-1:]
    tags = [token.name for token in broken_tokens(pieces) if isinstance(token, StartTag)]
    assert tags[-1:] == ["a"]


@pytest.mark.parametrize(
    "again", ["<!ENTITY a 'b'>", "]", "] ", "<!DOCTYPE a [", "<!DOCTYPE", "<!DOCTYPE a>", "&a;"]
)
def test_document_types_take_time_in_proportion(again: str) -> None:
    for start in ("<!DOCTYPE rss [", "<rss><!DOCTYPE rss [", "<!DOCTYPE rss [<!ENTITY a 'b'>]><rss><link>"):
        began = time.thread_time()
        found(start + again * (500_000 // len(again)))
        assert time.thread_time() - began < 1


def test_laughs_stay_few() -> None:
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 15))
    defaults = f"<!ATTLIST item a CDATA '{'x' * 100_000}'>"
    began = time.thread_time()
    feed = (
        f"<!DOCTYPE x [<!ENTITY l0 'ha'>{laughs}{defaults}]><rss>" + "<item a='&l14;'>&l14;</item>" * 10_000
    )
    assert found(feed + "<link>./x</link></rss>") == [("L", "x")]
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "again",
    [
        *("<link>", "<link>./x</link>", "<a xml:base='x/'>", "<link href='x'/>", "<!--", "<![CDATA["),
        *("<a b='", "x"),
        *(
            "&amp;",
            "<a ",
            "</a>",
            "<?",
            "<a b='c' d='e'/>",
            "<link xml:base='" + "x/" * 4000 + "' href='y'/>",
        ),
    ],
)
def test_repetition_takes_time_in_proportion(again: str) -> None:
    feed = "<rss>" + again * (200_000 // len(again))
    began = time.thread_time()
    found(feed)
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("tag", ["<{}>", "</{}>", "<{}/>", "<a b='{}'>"])
def test_long_tags_of_broken_xml_take_time_in_proportion(tag: str) -> None:
    feed = "<rss><item &&>" + 8 * tag.format("name" * 75_000)
    began = time.thread_time()
    found(feed)
    assert time.thread_time() - began < 2


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(["<rss>", "<link>", "</link>", "./x", "<feed xml:base='x'>", "<", ">", "&#1;", "\0"])
    ).map("".join)
)
def test_no_feed_is_an_error(xml: str) -> None:
    found(xml)
    rss(xml)
