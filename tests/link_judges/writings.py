"""References and pages as people and their programs write them, wrong ones included, from a seed."""

from random import Random

BASES = (
    *("http://a.example/dir/page", "https://u:p@b.example:8443/a/b;c/?q#f", "http://a.example"),
    *("http://[::1]:81/x/", "http://1.2.3.4/a/../b", "http://b\u00fccher.example/\u00e9/"),
    *("http://a.example/?x/y", "http://a.example//x//y", "https://my_site.example/%2e/"),
    "http://a.example/a b|{}^/c",
)

_PARTS = (
    *("a", "b.html", "/", "//", "///", "\\", "\\\\", "?", "#", ":", "@", "%", "%2", "%41", "%2e", "%2E%2e"),
    *(".", "..", "./", "../", "http:", "https:", "HTTP:", "httpS://", "file:", "C:", "C|", "mailto:"),
    *("javascript:", "data:", " ", "\t", "\n", "\r", "\v", "\f", "\0", "\x1f", "\x7f", "\u00a0", "\u3000"),
    *("\u200b", "\u00ad", "\u00e9", "\u00fc", "\u00df", "\u0130", "\u017f", "\u212a", "\u3002", "\uff0e"),
    *("\u65e5", "\U0001f600", "\ufffe", "[", "]", "[::1]", "[1:2::", "{", "}", "|", "^", "`", "'", '"'),
    *("<", ">", "&", "=", "+", ";", ",", "$", "!", "*", "(", ")", "~", "_", "-", "xn--a"),
    *("xn--bcher-kva", "0x7f", "1.2.3", "256", "0", "999999", "80", "443", ":80", ":443", ":0", ":65536"),
    *(":8x", "example", ".example", "B.Example", "user", "pw", "%zz", "%C3%A9", "%FF", "localhost"),
    *(
        "EXAMPLE.COM",
        "a..b",
        ".a",
        "/.b/",
        "/../",
        "/./",
        "-a-",
        "--",
        "%00",
        "%20",
        "%09",
        "&#x41;",
        "&amp;",
    ),
)


def reference(chance: Random) -> str:
    """A reference of some parts."""
    return "".join(chance.choice(_PARTS) for _ in range(chance.randint(1, 6)))


_REFERENCES = (
    *("x", "/x/y", "../x", "?q=1", "x?a=1&b=2", "x?a=1&amp;b=2", "x?a&copy=1", "x?a&copy;", "x?a&reg"),
    *("x?lt&lt", "x&#x2F;y", "x&#47y", "x&#0;y", "x&#128;y", "x&#xD800;", "x&notit;y", "&#32;x&#10;", "a b"),
    *("a\tb", "a\nb", " x ", "x\\y", "\\\\b.example\\x", "//b.example/x", "http:x", "http:/x", "https:x"),
    *("http:///b.example/x", "HTTP://B.example:80/x", "a|b", "{x}", "%zz", "%", "%41", "a%2fb", "\u00e9"),
    *("\u00e9?\u00e9", "x#\u00e9", "?", "javascript:x", "mailto:x", "data:,x", "x'y", 'x"y', "x`y", "x<y"),
    *("x>y", "a^b", "[x]", "http://[::1]/x", "http://[::1", "http://b.example:99999/", "http://1.2.3/"),
    *("http://u:p@b.example/x", "http://b.example%2f/x", "http://b exam/x", "\0x", "x\0y", "\vx", "\fx\f"),
    *("\u00a0x", "x\u3000", "\u200bx", "http://\uff42.example/x", "http://b\u00fccher.example/x", "./.././x"),
    *("%2e%2e/x", "..\\x", "C:/x", "ftp://b.example/x", "x;y", "x:y", "./x:y", "//", "///x", "http://"),
    *("http:\\\\b.example\\x", "/\\b.example/x", "x?\\y", "x?'y", 'x?"y', "x?<y>", "{{x}}", "$x", "~x"),
    *("@x", "http://b.example.", "http://B_c.example/x", "http://b..example/", "wss://b.example/", "x\r\ny"),
)

_PLACES = (
    *(("a", "href"), ("area", "href"), ("img", "src"), ("img", "srcset"), ("link rel='stylesheet'", "href")),
    *(
        ("link rel='icon'", "href"),
        ("script", "src"),
        ("iframe", "src"),
        ("frame", "src"),
        ("form", "action"),
    ),
    *(("input type='image'", "src"), ("button", "formaction"), ("source", "srcset"), ("video", "poster")),
    *(("object", "data"), ("embed", "src"), ("blockquote", "cite"), ("body", "background")),
    *(("td", "background"), ("image", "src"), ("base", "href"), ("track", "src"), ("q", "cite")),
    *(("div", "style"), ("A", "HREF"), ("meta http-equiv=refresh content='1' id=x", "content")),
    *(("table", "background"), ("meta http-equiv='refresh'", "content")),
)
_BETWEEN = (" ", " ", " ", "\n", "/", "\t", "\f", " class=y ", " href ", " data-x='>' ", " id=1 ")
_EQUALS = ("=", "=", "=", " = ", "\n=\n")
_ENDS = (">", ">", "/>", " >", " />", " x>", "\n>", "")

_MARKUP = (
    *("<!-- ", "-->", "<!-->", "<!--->", "<!--x--!>", "<!doctype html>", "<?xml version='1.0'?>"),
    *("<![CDATA[", "]]>", "<title>", "</title>", "<textarea>", "</textarea>", "<style>", "</style>"),
    *("<script>", "</script>", "<script><!--", "</script ", "<xmp>", "</xmp>", "<noembed>", "</noembed>"),
    *("<noframes>", "</noframes>", "<iframe>", "</iframe>", "<template>"),
    *("</template>", "<table>", "</table>", "<tr>", "<td>", "<head>", "</head>", "<body>", "</body>"),
    *("</html>", "<p>", "</p>", "<div>", "</div>", "<b>", "</b>", "</a>", "<form>", "</form>"),
    *("<form method=q>", "<button>", "<", "</", "<a", "&", "text", "\n", " ", "\0"),
    *("\u00e9", "<br/>", "</br>", "<!", "<!x>", "</ x>", "<?", "url(", '"', "'"),
    *("<style>@import 'z';a{b:url(y)}</style>", "<div style=\"a:url('w')\">", "<svg/>"),
    *("<svg><a xlink:href=v /><image href=u /></svg>", "<math><mi>a</math>"),
    *("<noscript><a href=s></noscript>", "<svg><desc><img src=t></desc></svg>"),
)


def page(chance: Random) -> str:
    """A page of some tags and pieces of markup, which need not fit."""
    return "".join(
        _tag(chance) if chance.random() < 0.5 else chance.choice(_MARKUP) for _ in range(chance.randint(1, 8))
    )


def _tag(chance: Random) -> str:
    tag, name = chance.choice(_PLACES)
    name = chance.choice((name, name, name.upper(), name.title()))
    attribute = name + chance.choice(_EQUALS) + _quoted(chance.choice(_REFERENCES), chance)
    return f"<{tag}{chance.choice(_BETWEEN)}{attribute}{chance.choice(_ENDS)}"


def _quoted(text: str, chance: Random) -> str:
    how = chance.randrange(3)
    if how == 0:
        return '"' + text.replace('"', "&quot;") + '"'
    return "'" + text.replace("'", "&#39;") + "'" if how == 1 else text
