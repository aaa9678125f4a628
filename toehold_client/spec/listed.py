"""Files with one seed, URI or SURT prefix a line; and seeds as people type them."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from toehold_client.errors import InvalidArgument, InvalidSpec

_MAX_LINE_CHARS = 1_000_000


def lines(path: Path, what: str = "file") -> Iterator[tuple[str, str]]:
    """The lines of a file (`-` is standard input) that count, each with its place, read lazily.

    Blank lines and comments do not count: lines that begin with `#`, and what follows a blank and `#`.
    Raises InvalidSpec if the file cannot be read.
    """
    try:
        with (
            open(0, encoding="utf-8-sig", closefd=False)
            if str(path) == "-"
            else path.open(encoding="utf-8-sig") as file
        ):
            number = 0
            while line := file.readline(_MAX_LINE_CHARS):
                number += 1
                text = without_comment(line)
                if text:
                    yield f"{path}, line {number}", text
    except OSError as error:
        raise InvalidSpec(f"the {what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSpec(f"the {what} {path} must be UTF-8 text") from None


def read_seeds(path: Path) -> Iterator[str]:
    """The seeds in a file, one per line; lines count as in `lines`.

    Raises InvalidSpec if the file cannot be read; InvalidArgument, which names the line, for a seed that
    `normalise_seed` refuses.
    """
    for place, line in lines(path, "seeds file"):
        try:
            yield normalise_seed(line)
        except InvalidArgument as problem:
            raise InvalidArgument(f"{place}: {problem}") from None


def read_uris(path: Path) -> Iterator[str]:
    """The URIs in a file, unchanged, one per line; lines count as in `lines`.

    Raises InvalidSpec if the file cannot be read; InvalidArgument, which names the line, for one that has
    more than a URI.
    """
    for place, line in lines(path):
        problem = _more_than_a_url(line)
        if problem:
            raise InvalidArgument(f"{place}: {problem}")
        yield line


def without_comment(line: str) -> str:
    """A line without blanks at its ends, byte order mark and comment. A `#` in a URL begins no comment."""
    text = line.strip().lstrip("\ufeff").lstrip()
    return "" if text.startswith("#") else _COMMENT.split(text, 1)[0].rstrip()


def normalise_seed(text: str) -> str:
    """A typed seed with a scheme, and without comment: `example.com/a # ours` becomes `https://example.com/a`.

    Raises InvalidArgument for a text that has more than a URL, for a mistyped scheme, and for a host that
    is none; the message says what was probably meant. Nothing else of the URI is checked.
    """
    seed = without_comment(text)
    problem = _more_than_a_url(seed)
    if problem:
        raise InvalidArgument(problem)
    meant = likely_url(seed)
    if meant:
        raise InvalidArgument(f"{seed!r:.200} is not a URL; did you mean {meant:.200}?")
    if seed.startswith("//"):
        seed = f"https:{seed}"
    elif not _SCHEME.match(seed):
        seed = f"https://{seed}"
    host = _HTTP_HOST.match(seed)
    if host is not None and (odd := _NO_HOST.search(host[1])) is not None:
        raise InvalidArgument(f"{text.strip()!r:.200} is not a URL; a host cannot have {odd[0]!r}")
    return seed


def _more_than_a_url(text: str) -> str:
    """Why a text cannot be one URL, whatever the URL standard would make of it; empty if it can."""
    right = f"must be one URL, got {text!r:.200}"
    if len(text.split()) > 1:
        return f"{right}; in a URL a blank is %20, and a comment begins with #"
    if _SURT.match(text):
        return f"{right}, which looks like a SURT prefix; those belong in scope.surt_prefixes"
    if _SEVERAL.match(text):
        return f"{right}; put each URL on a line of its own, without quotes"
    odd = _INVISIBLE.search(text)
    return f"{right}, which has the invisible character U+{ord(odd[0]):04X}" if odd else ""


def likely_url(seed: str) -> str:
    """The URL that a seed with a mistyped or doubled scheme stands for (`https//a.example`); empty if it has
    none.
    """
    doubled = _DOUBLED_SCHEME.match(seed)
    if doubled is not None:
        return doubled[1]
    typed = _TYPED_SCHEME.match(seed)
    if typed is None or not typed["rest"]:
        return ""
    word, mark = typed["word"].lower(), typed["mark"]
    if word in ("http", "https") and (mark == "://" or (mark == ":" and typed["rest"][0].isdigit())):
        return ""
    if word not in ("http", "https") and "//" not in mark:
        return ""  # `help:me`, or a host and its port
    near = difflib.get_close_matches(word, ("https", "http"), n=1, cutoff=0.75)
    return f"{near[0]}://{typed['rest']}" if near else ""


_COMMENT = re.compile(r"\s#")

# `localhost:8080` and `example.com:80/a` begin with a host and its port, not with a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]{1,5}(?:[/?#]|$))")

# The beginning of a seed that may be a scheme, well or badly typed, with any number of colons and slashes.
_TYPED_SCHEME = re.compile(r"(?P<word>[A-Za-z]{3,7})(?P<mark>[:;.,]*//+|[:;]/?)(?P<rest>.*)", re.DOTALL)

_DOUBLED_SCHEME = re.compile(r"https?:/*+(https?://.+)", re.IGNORECASE | re.DOTALL)

# The directives of Heritrix's seeds files; SURTs without a sign are not URLs either.
_SURT = re.compile(r"[+-]|(?:https?://)?\(", re.IGNORECASE)

# A second URL in a row, or quotes and brackets around one. Behind a `?` it is a value.
_SEVERAL = re.compile(r"[^?#]*[,;|\"'<>]https?://", re.IGNORECASE)

# Control characters, and marks without a glyph that the URL standard drops from hosts. U+200C and U+200D are
# not among them: they have a meaning in some scripts.
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]"
)

_HTTP_HOST = re.compile(r"https?://(?:[^/?#\\@]*@)?([^/?#\\]*)", re.IGNORECASE)
_NO_HOST = re.compile(r"[!\"$&'()*+,;<=>^`{|}]")
