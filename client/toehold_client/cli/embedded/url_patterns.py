"""The URL patterns of `--include` and `--exclude`: beginnings of paths or URLs, or globs over whole URLs."""

from __future__ import annotations

import re
from urllib.parse import quote

from toehold_client.cli.exits import BadPlan

_ANY_HOST = "https?://[^/]*"
_BEGINS_AS_URL = re.compile(r"(https?://)([^/?*]*)(.*)", re.IGNORECASE | re.DOTALL)
_SPECIAL = re.compile(r"[\\.+()|\[\]{}^$]")


def expression(pattern: str) -> str:
    """A pattern as a regular expression (RE2), for URLs as a whole.

    `/docs/` and `https://example.org/docs/` stand for all URLs that begin so; `/docs/` is the beginning of
    the path, on any host. Anything else is a glob over the whole URL: `*.pdf`. Everywhere `*` stands for any
    text, and `?` for one character. Raises BadPlan for a text that is none of these.
    """
    text = pattern.strip()
    url = _BEGINS_AS_URL.fullmatch(text)
    if text.startswith("/"):
        found = f"{_ANY_HOST}{_glob(text)}.*"
    elif url is not None:
        found = f"{_glob(url[1].lower() + url[2].lower() + url[3])}.*"
    elif "*" in text:
        found = _glob(text)
    else:
        near = f"; did you mean /{text.strip('/')}/ or *{text}*?" if text else ""
        raise BadPlan(
            f"{pattern!r:.200} must be the beginning of a path (/docs/) or URL, or a glob (*.pdf){near}"
        )
    return re.sub(r"(\.\*){2,}", ".*", found)


def _glob(text: str) -> str:
    ascii_text = quote(text, safe="".join(map(chr, range(0x21, 0x7F))))  # as URLs have it
    return _SPECIAL.sub(r"\\\g<0>", ascii_text).replace("*", ".*").replace("?", ".")
