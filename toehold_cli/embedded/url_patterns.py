"""The URL patterns of `--include` and `--exclude`: beginnings of paths or URLs, or globs over whole URLs.

People write them as they write URLs: with `bücher.example`, a default port, `~joe` or `%7Ejoe`. The frontier
compares canonical URIs, so hosts take their canonical form here, and other characters match raw and escaped.
"""

import re

import can_ada

from toehold_cli.exits import BadPlan

_ANY_HOST = "https?://[^/]*"
_BEGINS_AS_URL = re.compile(r"(https?|\*)://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)
_BEGINS_WITH_HOST = re.compile(r"\*+([^/?*@]*\.[^/?*@]*)(/.*)", re.DOTALL)
_WILD = "*?"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_SPECIAL = frozenset(r"\.+()|[]{}^$*?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

# Letters, digits and delimiters: with an escape they would mean something else, or nobody writes it.
_ONE_FORM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/&=+%")
# An escape that stands for one of these is no such delimiter.
_DELIMITERS = frozenset("/?#&=+%")


def expression(pattern: str) -> str:
    """A pattern as a regular expression (RE2), for canonical URLs as a whole.

    `/docs/` and `https://example.org/docs/` stand for all URLs that begin so; `/docs/` is the beginning of
    the path, on any host. Anything else is a glob over the whole URL: `*.pdf`. Everywhere `*` stands for any
    text, and `?` for one character. Raises BadPlan for a text that is none of these, and for one that no
    canonical URL can match.
    """
    text = pattern.strip()
    url = _BEGINS_AS_URL.fullmatch(text)
    if "#" in text:
        raise BadPlan(f"{pattern!r:.200} must have no fragment (#), as URLs are compared without; # is %23")
    if text.startswith("/"):
        found = f"{_ANY_HOST}{_glob(text)}.*"
    elif url is not None:
        scheme = url[1].lower()
        begins = "https?" if scheme == "*" else scheme
        found = f"{begins}://{_host(url[2], scheme, pattern)}{_glob(url[3])}{'' if scheme == '*' else '.*'}"
    elif "*" in text:
        found = _glob(text)
        host = _BEGINS_WITH_HOST.fullmatch(text)
        if host is not None and (host[1] != host[1].lower() or not host[1].isascii()):
            found = f"(?:{found}|{_ANY_HOST}{_host(host[1], '', pattern)}{_glob(host[2])})"
    else:
        near = f"; did you mean /{text.strip('/')}/ or *{text}*?" if text else ""
        raise BadPlan(
            f"{pattern!r:.200} must be the beginning of a path (/docs/) or URL, or a glob (*.pdf){near}"
        )
    return re.sub(r"(\.\*){2,}", ".*", found)


def _host(authority: str, scheme: str, pattern: str) -> str:
    """The expression of a host and port, canonical as far as they have no wildcards."""
    host = authority.rpartition("@")[2]
    port = re.search(r":[0-9*?]*\Z", host)
    name, end = (host[: port.start()], port[0]) if port is not None else (host, "")
    if end in ("", ":", _DEFAULT_PORTS.get(scheme)):
        end = ""
    if not any(mark in name for mark in _WILD):
        name = _canonical_host(name, pattern).rstrip(".")
    else:
        name = ".".join(
            label if label.isascii() else _canonical_host(label, pattern) for label in name.split(".")
        )
    return "".join(map(_wild_or_literal, name.lower() + end))


def _canonical_host(name: str, pattern: str) -> str:
    if not name:
        return name
    if not name.isascii() and any(mark in name for mark in _WILD):
        raise BadPlan(
            f"{pattern!r:.200} must have wildcards beside whole names of a host, but {name!r:.80} mixes them "
            "with letters beyond ASCII, which URLs have in punycode"
        )
    try:
        return can_ada.parse(f"http://{name}/").hostname
    except (ValueError, TypeError):
        raise BadPlan(f"{pattern!r:.200} must have a valid host, got {name!r:.80}") from None


def _wild_or_literal(character: str) -> str:
    if character == "*":
        return ".*"
    if character == "?":
        return "."
    return f"\\{character}" if character in _SPECIAL else character


def _glob(text: str) -> str:
    """The expression of a glob over paths and queries, or over URLs."""
    parts: list[str] = []
    end = 0
    for escape in _ESCAPE.finditer(text):
        parts += map(_either, text[end : escape.start()])
        octet = chr(int(escape[1], 16))
        both = octet.isascii() and octet not in _DELIMITERS
        parts.append(_both(octet) if both else _escaped(ord(octet)))
        end = escape.end()
    parts += map(_either, text[end:])
    return "".join(parts)


def _either(character: str) -> str:
    """A character of a glob, as canonical URLs may have it."""
    if character in _WILD or character in _ONE_FORM:
        return _wild_or_literal(character)
    if character.isascii():
        return _both(character)
    return "".join(map(_escaped, character.encode("utf-8", "replace")))


def _both(character: str) -> str:
    """An ASCII character, raw or escaped; only escaped, if canonical URLs never have it raw."""
    escaped = _escaped(ord(character))
    if not "!" <= character <= "~" or character in '"<>':
        return escaped
    literal = f"\\{character}" if character in _SPECIAL else character
    return f"(?:{literal}|{escaped})"


def _escaped(octet: int) -> str:
    """An escape, with digits in either case."""
    return "%" + "".join(
        digit if digit.isdigit() else f"[{digit}{digit.lower()}]" for digit in f"{octet:02X}"
    )
