"""URLFrontier's queue keys, which may be any text, and the keys of Toehold's queues for them."""

import re
from urllib.parse import quote, unquote

MAX_KEY_CHARS = 255
"""URLFrontier's own limit."""

_MAX_ENCODED_CHARS = 256
_PLAIN = re.compile(r"[!-$&-~]+")  # printable ASCII without blanks and %
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
_HOST = re.compile(r"(?:.*?://)?([^:/?&]*)", re.DOTALL)


def default_key(url: str) -> str:
    """The key of a URL that comes without one: its host, as URLFrontier cuts it out; empty if there is none.

    A URL with a user name has the user name for a key, as in URLFrontier.
    """
    match = _HOST.match(url)
    return match[1] if match else ""


def encoded(key: str) -> str:
    """The key of Toehold's queue; empty if the key is too long for either side."""
    if len(key) > MAX_KEY_CHARS:
        return ""
    if _PLAIN.fullmatch(key):
        return key
    text = quote(key, safe=_SAFE)
    return text if len(text) <= _MAX_ENCODED_CHARS else ""


def decoded(queue_key: str) -> str:
    """The key that `encoded` made this of."""
    return unquote(queue_key) if "%" in queue_key else queue_key
