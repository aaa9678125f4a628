"""Links in HTML: which elements link and how, what holds for the whole page, and hostile pages."""

import time
from collections.abc import Callable, Iterator

import pytest
import turbohtml
from hypothesis import given
from hypothesis import strategies as st
from node_doubles.extracting import PAGE, fetch, find, html, pairs

from crawler_node.extraction.links import Outlink
from crawler_node.fetching.fetch import ExtractSettings
from crawler_node.fetching.references import MAX_URI_BYTES

# Which elements link


SVG = [("L", "x"), ("E", "y"), ("E", "z")]
ROOT_Y = ("E", "http://a.example/y")


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<a href=x>", [("L", "x")]),
        ("<A HREF='x'>", [("L", "x")]),
        ('<a name=x href=" x ">', [("L", "x")]),
        ("<area href=x>", [("L", "x")]),
        ("<a href='x?a=1&amp;b=2'>", [("L", "x?a=1&b=2")]),
        ("<a>text</a><a href>", []),
        ("<a href='#top'>", [("L", "page")]),
        ("<iframe src=x>", [("E", "x")]),
        ("<frame src=x>", [("E", "x")]),
        ("<img src=x>", [("E", "x")]),
        ("<img src=a srcset='b 1x, c 2x'>", [("E", "a"), ("E", "b"), ("E", "c")]),
        ("<img srcset='a, b 100w,c,,d,'>", [("E", "a"), ("E", "b"), ("E", "c,,d")]),
        ("<img srcset=' , x,y 1x , z'>", [("E", "x,y"), ("E", "z")]),
        ("<picture><source srcset='a 1x'></picture>", [("E", "a")]),
        ("<video src=a poster=b><source src=c><track src=d></video>", [("E", c) for c in "abcd"]),
        ("<audio src=x>", [("E", "x")]),
        ("<embed src=x>", [("E", "x")]),
        ("<object data=x>", [("E", "x")]),
        ("<script src=x>var a = '<a href=y>';</script>", [("E", "x")]),
        ("<input type=IMAGE src=x><input type=text src=y>", [("E", "x")]),
        ("<body background=a><table background=b><td background=c>", [("E", c) for c in "abc"]),
        ("<link rel=stylesheet href=x>", [("E", "x")]),
        ("<link rel='alternate stylesheet' href=x>", [("E", "x")]),
        ("<link rel='Shortcut Icon' href=x>", [("E", "x")]),
        ("<link rel=preload imagesrcset='a 1x' href=b>", [("E", "a"), ("E", "b")]),
        ("<link rel=canonical href=x>", [("L", "x")]),
        ("<link rel=next href=x><link rel=prev href=y>", [("L", "x"), ("L", "y")]),
        ("<link rel=alternate hreflang=de href=x>", [("L", "x")]),
        ("<link rel=preconnect href=x><link rel=dns-prefetch href=y><link rel=nothing href=z>", []),
        # It means nothing to a browser, but it names a document of the page's author, and nothing else.
        ("<link href=x><link rel href=y><link rel=' ' href=z><link>", [("L", c) for c in "xyz"]),
        ("<img srcset='a (1,2), b'>", [("E", "a"), ("E", "b")]),
        ("<img srcset='a\u3000b 1x,\f\rc\u00a0'>", [("E", "a%E3%80%80b"), ("E", "c%C2%A0")]),
        ("<img srcset='a 1x (b, c) 2x, d (e'>", [("E", "a"), ("E", "d")]),
        ("<img srcset='a (1,2),b 2x,c'>", [("E", "a"), ("E", "b"), ("E", "c")]),
        ("<img srcset='a 1x), b (2(3,4), c'>", [("E", "a"), ("E", "b"), ("E", "c")]),
        ("<!-- <a href=x> --><textarea><a href=y></textarea><title><a href=z></title>", []),
        ("<noscript><a href=x></noscript><template><a href=y></template>", [("L", "x"), ("L", "y")]),
        (
            "<noscript><img src='x?a&amp;b'>text<a href=y></noscript><a href=z>",
            [("E", "x?a&b"), ("L", "y"), ("L", "z")],
        ),
        ("<frameset><frame src=x></frameset><noframes>or <a href=y></noframes>", [("E", "x"), ("L", "y")]),
        ("<a href=javascript:void(0)><a href=mailto:b@c.example><img src='data:image/png;base64,'>", []),
        ("<img src=a lowsrc=b><input type=image src=c><input src=d>", [("E", c) for c in "abc"]),
        ("<my-player src=x poster=y></my-player><portal src=z></portal>", [("E", c) for c in "xyz"]),
        ("<blockquote cite=x></blockquote><img longdesc=y>", [("L", "x"), ("L", "y")]),
        ("<svg><a xlink:href=x /><image href=y /><use xlink:href=z#part /><use href='#part'/></svg>", SVG),
        ("<a href=x ping=y><a href=mailto:a@b.example ping=z>", [("L", "x")]),
        ("<param name=Movie value=x.swf><param name=quality value=high.swf>", [("E", "x.swf")]),
        (
            "<iframe srcdoc='<a href=x><img src=&quot;y&quot;>'></iframe><a href=z>",
            [("L", "x"), ("E", "y"), ("L", "z")],
        ),
        (
            "<link rel=nothing itemprop=image href=x><meta itemprop=contentUrl content=/y>",
            [("E", "x"), ROOT_Y],
        ),
    ],
)
def test_elements_link_as_they_should(body: str, links: list[tuple[str, str]]) -> None:
    assert html(body) == links


B = [("E", "http://a.example/b.jpg")]


@pytest.mark.sampled(
    ("value", "links"),
    [
        ("url(/b.jpg)", B),
        ("URL( /b.jpg )", B),
        ("url('/b.jpg')", B),
        ("url(&quot;/b.jpg&quot;)", B),
        (" url(/b.jpg);", B),
        ("url(//a.example/b.jpg)", B),
        ("url(http://a.example/b.jpg)", B),
        ("url(/b.jpg)no-repeat", B),
        ("url(/b.jpg) center/cover", B),
        ("url(/b.jpg", B),
        ("url(/b.jpg),url(c.jpg)", [*B, ("E", "c.jpg")]),
        ("url(/b.jpg), url('c.jpg')", [*B, ("E", "c.jpg")]),
        ("background-image:url(/b.jpg)", B),
        ("background: url(/b.jpg);color:red", B),
        ("image-set(url(/b.jpg)1x,'c.jpg'2x)", [*B, ("E", "c.jpg")]),
        ("-webkit-image-set(url(/b.jpg)1x)", B),
        ("linear-gradient(#000,#fff),url(/b.jpg)", B),
        ("-webkit-linear-gradient(left,#000,#fff),url(/b.jpg)", B),
        ("src('/b.jpg')", B),
        ("url()", []),
        ("url(#a)", []),
        ("url(data:image/gif;base64,R0lGOD/lh)", []),
        ("linear-gradient(rgba(0,0,0,.5),#fff/2)", []),
        # These only resemble a style.
        ("/b.jpg?url(c.jpg)", [("E", "http://a.example/b.jpg?url(c.jpg)")]),
        ("b(1).jpg", [("E", "b(1).jpg")]),
        ("url/(b).jpg", [("E", "url/(b).jpg")]),
        ("my-url(b).jpg", [("E", "my-url(b).jpg")]),
    ],
)
@pytest.mark.sampled(
    "name", ["data-bg", "data-src", "data-background-image", "data-bg-multi", "data-lazy-bg"]
)
def test_lazy_attribute_written_as_a_style_gives_its_images(
    name: str, value: str, links: list[tuple[str, str]]
) -> None:
    assert html(f'<div {name}="{value}">') == links


@pytest.mark.sampled("name", ["data-bgset", "data-srcset", "data-style", "data-lazy-style", "data-thumb"])
@pytest.mark.sampled(
    "value", ["url(/b.jpg)", "background-image:url(/b.jpg)", "background: url('/b.jpg') 0 0"]
)
def test_any_attribute_for_a_script_may_be_written_as_a_style(name: str, value: str) -> None:
    assert html(f'<div {name}="{value}">') == B


@pytest.mark.parametrize(
    ("rel", "hop"),
    [
        *((rel, "M") for rel in ("sitemap", "SiteMap", "nofollow sitemap", "alternate sitemap")),
        *((rel, "L") for rel in ("item", "collection", "describedby", "describes", "about", "via")),
        *((rel, "L") for rel in ("prev-archive", "next-archive", "current", "replies", "cite-as")),
        *((rel, "L") for rel in ("home", "parent", "child", "begin", "end", "origin", "made")),
        *((rel, "L") for rel in ("latest-version", "predecessor-version", "successor-version")),
        *((rel, "L") for rel in ("version-history", "original", "memento", "service-doc", "linkset")),
        *((rel, "E") for rel in ("video_src", "audio_src", "thumbnail", "stylesheet/less")),
        *((rel, None) for rel in ("hub", "self", "edit", "EditURI", "pingback", "webmention", "next2")),
    ],
)
def test_relations_say_how_a_link_is_followed(rel: str, hop: str | None) -> None:
    links = [] if hop is None else [(hop, "x")]
    assert html(f"<link rel='{rel}' href=x>") == links
    assert pairs(find(fetch("", link=f'<x>; rel="{rel}"'))) == links


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<img src=x.gif data-src=y.jpg>", [("E", "x.gif"), ("E", "y.jpg")]),
        (
            "<img data-srcset='a.jpg 1x, b.jpg 2x' data-lazy-srcset='c.jpg 1x'>",
            [("E", f"{c}.jpg") for c in "abc"],
        ),
        ("<iframe data-src=x/y></iframe><video data-poster=z.jpg>", [("E", "x/y"), ("E", "z.jpg")]),
        ("<img data-original=x.jpg><img data-lazy-src=y.jpg>", [("E", "x.jpg"), ("E", "y.jpg")]),
        ("<div data-bg=x.jpg></div><div data-bg='url(y.jpg)'></div>", [("E", "x.jpg"), ("E", "y.jpg")]),
        ("<tr data-href=x/y><tr data-href=true>", [("L", "x/y")]),
        ("<div data-src=true data-bg=#fff data-lazy=1.5 data-image='two words.jpg'>", []),
        # Blanks and quotes are no mark of a phrase behind a root, but those of templates and srcsets are.
        (
            "<img data-src='/two words.jpg' data-original=\"./Murphy's law.jpg\">",
            [("E", "http://a.example/two%20words.jpg"), ("E", "Murphy's%20law.jpg")],
        ),
        ("<img data-src='/{{ image }}.jpg' data-bg='/${image}.jpg' data-original='/<% image %>'>", []),
        ("<img data-src='/a.jpg 1x, /b.jpg 2x' data-bg='/a.jpg http://b.example/b.jpg'>", []),
        ("<img data-src='{{ image }}' data-bg='rgba(0,0,0,.5)' data-original='<b>/'>", []),
        ("<a data-url=x.html data-link=y.html>", []),
    ],
)
def test_what_scripts_load_later_is_found_if_it_looks_like_a_uri(
    body: str, links: list[tuple[str, str]]
) -> None:
    assert html(body) == links


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<div style='background: url(x)'>", [("E", "x")]),
        ('<p style="background: url(&quot;x&quot;)">', [("E", "x")]),
        ("<style>@import 'a'; b { c: url(d) }</style>", [("E", "a"), ("E", "d")]),
        ("<svg><style>a { b: url(c) url(#d) }</style><rect style='fill: url(#d)'/></svg>", [("E", "c")]),
        ("<style></style>@import 'a'; b { c: url(d) }", []),
        ("<noscript><style>a { b: url(c) }</style></noscript>", [("E", "c")]),
        ("<noscript><img src=a><NOSCRIPT><img src=b></noscript><img src=c>", [("E", c) for c in "abc"]),
    ],
)
def test_styles_in_a_page_embed(body: str, links: list[tuple[str, str]]) -> None:
    assert html(body) == links


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<form action=x>", [("L", "x")]),
        ("<form action=x method=GET>", [("L", "x")]),
        ("<form action=x method=post><button formaction=y><input formaction=z>", []),
        ("<form action=x method=dialog>", []),
        (
            "<form action=x method=put><form action=y method><button formaction=z formmethod=q>",
            [("L", c) for c in "xyz"],
        ),
        ("<form method=post><button formaction=y formmethod=get>", [("L", "y")]),
        ("<form><button formaction=y><button formaction=z formmethod=post>", [("L", "y")]),
        ("<form>", []),
    ],
)
def test_forms_link_if_they_get(body: str, links: list[tuple[str, str]]) -> None:
    """Heritrix: extractOnlyFormGets."""
    assert html(body) == links


@pytest.mark.parametrize(
    ("meta", "links"),
    [
        ("property=og:image content=/x.jpg", [("E", "http://a.example/x.jpg")]),
        ("name=twitter:image content=http://b.example/x", [("E", "http://b.example/x")]),
        ("property=og:url content=http://a.example/", [("L", "http://a.example/")]),
        ("name=msapplication-TileImage content=x.png", [("E", "x.png")]),
        ("property=og:image content='a picture'", []),
        ("property=og:image:width content=600", []),
        ("name=description content=http://b.example/x", []),
    ],
)
def test_metas_name_pictures(meta: str, links: list[tuple[str, str]]) -> None:
    assert html(f"<meta {meta}>") == links


def test_linked_data_is_read_and_relative_to_the_base() -> None:
    data = '{"@type": "Article", "url": "x", "image": ["/y.jpg"], "sameAs": "z.html"}'
    script = f'<script type="Application/LD+JSON; charset=utf-8">{data}</script>'
    page = f"<base href=/b/>{script}<script>{data}</script>"
    assert html(page) == [("E", "http://a.example/y.jpg")]
    page = page.replace('"x"', '"./x"')
    assert html(page) == [("L", "http://a.example/b/x"), ("E", "http://a.example/y.jpg")]


def test_scripts_are_searched_only_if_asked_for() -> None:
    page = (
        "<script>go('/x.html')</script><a onclick=\"go('/y.html')\" href=\"javascript:go('/z.html')\">"
        "<script type=module>import '/m.js'</script><script type=text/template>'/no.html'</script>"
    )
    assert html(page) == []
    expected = [("X", f"http://a.example/{name}") for name in ("x.html", "y.html", "z.html", "m.js")]
    assert html(page, javascript=True) == expected


# What a page asks robots for


@pytest.mark.sampled("content", ["nofollow", "noindex, NoFollow", "none", " nofollow ,x"])
@pytest.mark.sampled("name", ["robots", "ROBOTS", "toehold"])
def test_a_page_may_forbid_to_follow_its_links(name: str, content: str) -> None:
    meta = f"<meta name={name} content='{content}'>"
    refresh = "<meta http-equiv=refresh content='0;z'>"
    body = f"<a href=x><img src=x><link rel=next href=y>{refresh}<script>'/s'</script>"
    for page in (meta + body, body + meta):
        found = find(fetch(page), javascript=True)
        assert pairs(found) == [("E", "x"), ("R", "z")] and found.notes == ("nofollow",)
    assert find(fetch(meta + body), obey_robots_meta=False).notes == ()
    assert html(meta + body, obey_robots_meta=False)[0] == ("L", "x")


@pytest.mark.parametrize(
    "meta",
    ["name=robots content=noindex", "name=otherbot content=nofollow", "name=robots", "content=nofollow"],
)
def test_other_wishes_leave_the_links_alone(meta: str) -> None:
    found = find(fetch(f"<meta {meta}><a href=x>"))
    assert pairs(found) == [("L", "x")] and found.notes == ()


def test_marked_links_are_left_out_only_if_asked_for() -> None:
    body = (
        "<a rel='external NOFOLLOW' href=a><area rel=nofollow href=b><link rel='next nofollow' href=c>"
        "<form rel=nofollow action=d><a href=e><img rel=nofollow src=f>"
    )
    assert html(body) == [*(("L", c) for c in "abcde"), ("E", "f")]
    assert html(body, obey_nofollow=True) == [("L", "e"), ("E", "f")]


# What holds for all links of a page


CLOSED = ["<title/>", "<style media=all />", "<SCRIPT/>", "<textarea a='b'/>", "<xmp/>"]


@pytest.mark.parametrize("element", CLOSED)
def test_an_element_that_closes_itself_hides_nothing_in_svg_and_xml(element: str) -> None:
    for tag in ("svg", "math", "SVG", "Math", "sVg"):
        page = f"<{tag}>{element}</{tag}><a href=x><{tag} a>{element}<b>{element}</{tag}><a href=y>"
        assert html(page) == [("L", "x"), ("L", "y")]
    page = f"<html xmlns='http://www.w3.org/1999/xhtml'>{element}<a href='x'/>{element}<a href='y'/></html>"
    assert pairs(find(fetch(page, "application/xhtml+xml"))) == [("L", "x"), ("L", "y")]
    assert html(f"{element}<a href=x>") == html(f"<svg></svg>{element}<a href=x>") == []


@pytest.mark.sampled(
    "element",
    [
        *("<title>", "<title>a</title>", "<TITLE id=b>", "<style>", "<style>a {}"),
        *("<script>", "<script>a</script>"),
        *("<textarea>", "<xmp>", "<iframe>", "<noscript>", "<noembed>", "<noframes>", "<style><title>"),
    ],
)
@pytest.mark.sampled("tag", ["svg", "math", "SVG"])
def test_an_element_that_is_not_closed_ends_with_the_svg_around_it(tag: str, element: str) -> None:
    assert html(f"<{tag}>{element}</{tag}><a href=x>") == [("L", "x")]
    assert html(f"<{tag}>{element}</{tag}<a href=no><a href=x>") == [("L", "x")]


def test_markup_in_the_title_of_a_picture_is_markup() -> None:
    links = [("L", "x"), ("E", "y"), ("L", "z")]
    assert html("<svg><title><a href=x></a></title><desc><img src=y></desc></svg><a href=z>") == links


def test_a_tag_ends_behind_the_quotes_of_its_attributes() -> None:
    for page in (
        "<svg><title a='>' b=\"/>\"></title><style c='d/>'>e</style></svg><a href=x>",
        "<svg/><iframe src='x>y'></iframe><svg></svg><a href=x>",
        "<svg a='/'/><title>b</title><textarea><a href=no></textarea><svg></svg><a href=x>",
        "<svg a=b><title>c</title></svg><a href=x>",
    ):
        assert [link for link in html(page) if link[0] == "L"] == [("L", "x")]
    assert html("<svg/><iframe src='x>y'></iframe><svg></svg>") == [("E", "x%3Ey")]


def test_a_picture_in_a_script_does_not_end_the_script() -> None:
    script = "var a = '<svg><title>b</title><style>c{}</style></svg>', d = '<a href=no>';"
    assert html(f"<script>{script}</script><a href=x>") == [("L", "x")]


@pytest.mark.parametrize(
    ("content", "links"),
    [
        ("5; url=x", [("R", "x")]),
        ("0;URL='x y'z", [("R", "x%20y")]),
        ('0, url = "x"', [("R", "x")]),
        ("0 x", [("R", "x")]),
        ("1.5;x", [("R", "x")]),
        ("5", []),
        ("5;", []),
        ("5; url=", []),
        ("soon; url=x", []),
        ("", []),
    ],
)
def test_a_meta_refresh_is_a_redirect(content: str, links: list[tuple[str, str]]) -> None:
    quoted = content.replace('"', "&quot;")
    assert html(f'<meta HTTP-EQUIV=Refresh content="{quoted}">') == links
    assert html(f'<meta name=refresh content="{quoted}">') == []


def test_the_first_base_holds_for_all_links() -> None:
    body = "<a href=x><base target=_top><base href='/other/'><base href='/third/'><a href=y>"
    expected = [("L", "http://a.example/other/x"), ("L", "http://a.example/other/y")]
    assert html(body) == expected
    assert html("<base href='//b.example'><a href=x>") == [("L", "http://b.example/x")]
    assert html("<iframe srcdoc='<base href=/no/>'></iframe><a href=x>") == [("L", "x")]
    for useless in ("", "javascript:x", "http://[", "data:,x"):
        assert html(f"<base href='{useless}'><base href='/ignored/'><a href=x>") == [("L", "x")]


def test_a_link_counts_once_where_it_is_first() -> None:
    assert html("<img src=x><a href=x><a href='x#part'><a href=./x><a href=y>") == [("E", "x"), ("L", "y")]


def test_a_link_says_where_it_stood() -> None:
    body = (
        "<img srcset=x><a href=y><link rel=next href=z><style>@import 'w'</style><x-" + "y" * 100 + " src=v>"
    )
    contexts = [link.context for link in find(fetch(body)).links]
    assert contexts == ["img/@srcset", "a/@href", "link/@href", "style", "x-" + "y" * 30 + "/@src"]


def test_links_are_bounded_in_number_and_length() -> None:
    body = "".join(f"<a href={n}>" for n in range(10_000))
    assert len(html(body)) == ExtractSettings().max_links
    assert html(body, max_links=2) == [("L", "0"), ("L", "1")]
    assert html(f"<a href={'x' * 9000}><a href=y>") == [("L", "y")]


# Hostile documents

MUCH = 300_000


REPEATED = (
    *("<div>", "<a><div>", "<!--", "<!-- ", "<a", "<a b='", "<a href=", "<a b=c ", "<![CDATA["),
    *("<script>", "</p>"),
    *("<svg><desc>", "<table><a href=x>", "&", "&amp;", "&#x110000;", "<?", "<!DOCTYPE ", "\0"),
    *("<textarea>", '"'),
    *("<base href=x>", "<a href=javascript:>", "<img srcset=' '>", "<meta http-equiv=refresh content='0;'>"),
    *("<noscript>", "<noscript></noscript>", "<noframes><noscript>", "<noscript></noframes>"),
    *("<svg", "<svg><svg>", "<svg><style/>", "<svg></svg>", "<svg><math>", "<title/>", "<svg><title "),
    *("<style>", "<style>@import '", "<a style='url(", "<a style='url(x)'>", "<meta name=robots content=x>"),
    *(
        "<meta name=robots content=nofollow>",
        "<iframe srcdoc='",
        "<iframe srcdoc=x>",
        "<object data=y>",
    ),
    *("<script type=application/ld+json>", "<script type=application/ld+json>[</script>", "<a data-src=x>"),
)
PARTS = (
    *("<a href=", "<base href=", "<img srcset='", "<meta http-equiv=refresh content=", "'", '"', ">"),
    *("x", ";"),
    *(" ", "&#0;", "\ud7ff", "<!--", "-->", "http://", "//[", "%", "<svg>", "<urlset>", "<loc>", "\0"),
    *("=", "/"),
    *("<noscript>", "</noscript>", "<style>", "</style>", "<script type=application/ld+json>", "</script>"),
    *("url(", ")", "@import ", "{", "}", '"url":', "\\", "<div style=", "<iframe srcdoc=", "<script>"),
    *("<meta name=robots content=nofollow>", "<a rel=nofollow href=", "<form action=", "<img data-src="),
)


def joined(parts: list[str]) -> bytes:
    return "".join(parts).encode()


@pytest.mark.parametrize("pattern", REPEATED)
def test_repetition_takes_time_in_proportion(pattern: str) -> None:
    body = (pattern * (MUCH // len(pattern))).encode()
    assert taken_s(lambda: find(fetch(body))) < 1


@pytest.mark.parametrize(
    "body",
    [
        "<a " + "".join(f"a{n}=1 " for n in range(100_000)) + "href=x>",
        "<a href='" + "x" * MUCH + "'><a href=x>",
        "<img srcset='" + "," * MUCH + "'><a href=x>",
        "<img srcset='" + " " * MUCH + "'><a href=x>",
        "<img srcset='" + "x " * (MUCH // 2) + "'><a href=x>",
        "<meta http-equiv=refresh content='" + "0" * MUCH + "'><a href=x>",
        "<meta http-equiv=refresh content='0;" + " " * MUCH + "'><a href=x>",
        "<meta http-equiv=refresh content='0;" + "url=" * (MUCH // 4) + "'><a href=x>",
        "<link rel='" + "x " * (MUCH // 2) + "' href=y><a href=x>",
        "<a href='" + "../" * 2700 + "'><a href=x>",
        "<a style='" + "url(" * (MUCH // 4) + "'><a href=x>",
        "<a data-bg='" + "\\" * MUCH + "'><a href=x>",
        "<a rel='" + "x " * (MUCH // 2) + "' href=x>",
        "<meta name=robots content='" + "x," * (MUCH // 2) + "'><a href=x>",
        "<script type=application/ld+json>" + "[" * MUCH + "</script><a href=x>",
        "<script type=application/ld+json>" + '{"url":' * (MUCH // 8) + "</script><a href=x>",
        "<style>" + "calc(" * (MUCH // 5) + "</style><a href=x>",
        "<style>/*" + "* " * (MUCH // 2) + "</style><a href=x>",
    ],
    ids=lambda body: body[:30],
)
def test_huge_values_take_time_in_proportion(body: str) -> None:
    links: list[Outlink] = []
    assert taken_s(lambda: links.extend(find(fetch(body)).links)) < 1
    assert "http://a.example/dir/x" in {link.uri for link in links}


@pytest.mark.parametrize(
    "body",
    [
        "<iframe srcdoc=" * 3000,
        "<iframe/srcdoc=" * 3000,
        "<iframe srcdoc='" + "<noscript>" * 3000,
        "<noscript>" + "<iframe srcdoc=" * 3000,
        "<noscript><noframes>" * 3000,
    ],
)
def test_no_text_is_tokenized_more_than_twice(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chars: list[int] = []
    tokenize = turbohtml.tokenize

    def counting(text: str) -> Iterator[turbohtml.Token]:
        chars.append(len(text))
        return iter(tokenize(text))

    monkeypatch.setattr(turbohtml, "tokenize", counting)
    find(fetch(body))
    assert len(body) <= sum(chars) <= 2 * len(body)


@given(
    body=st.binary(max_size=2000) | st.lists(st.sampled_from(PARTS), max_size=60).map(joined),
    uri=st.sampled_from([PAGE, "https://a.example/"]),
    max_links=st.integers(0, 5),
    javascript=st.booleans(),
    obey_nofollow=st.booleans(),
)
def test_no_page_is_an_error_or_has_too_many_links(
    body: bytes, uri: str, max_links: int, javascript: bool, obey_nofollow: bool
) -> None:
    page = fetch(body, "text/html", uri)
    found = find(page, max_links=max_links, javascript=javascript, obey_nofollow=obey_nofollow)
    assert found.error is None and len(found.links) <= max_links
    for link in found.links:
        assert link.uri.startswith(("http://", "https://")) and len(link.uri) <= MAX_URI_BYTES


def taken_s(work: Callable[[], object]) -> float:
    """CPU time of this thread, so that a busy machine does not count."""
    start = time.thread_time()
    work()
    return time.thread_time() - start
