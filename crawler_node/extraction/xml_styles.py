"""The style sheets that XML names before its root: `<?xml-stylesheet href="a.xsl"?>` (W3C, Associating Style
Sheets with XML documents). Takes time in proportion to the length.
"""

import html
import re
from collections.abc import Iterator

_PROLOG = re.compile(
    r"""
    \s*+
    (?: <\?(?P<instruction>[^?]*+(?:\?(?!>)[^?]*+)*+)\?>
      | <!--(?:[^-]++|-(?!->))*+-->
      | <![^>\[]*+(?:\[(?:[^\]]++|\](?!\s*+>))*+\]\s*+)?>
    )
    """,
    re.VERBOSE,
)
_STYLE = re.compile(r"xml-stylesheet\s")
_HREF = re.compile(r"""\shref\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


def xml_styles(xml: str) -> Iterator[str]:
    """The references of the style sheets, in CSS or XSLT, alternate ones included. `xml` is a document's
    beginning."""
    at = 1 if xml.startswith("\ufeff") else 0
    while part := _PROLOG.match(xml, at):
        at = part.end()
        instruction = part["instruction"] or ""
        if _STYLE.match(instruction) and (href := _HREF.search(instruction)):
            yield html.unescape(href[1] or href[2] or "")
