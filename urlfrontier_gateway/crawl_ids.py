"""URLFrontier's crawl ids, which may be any text, and the names of Toehold's crawls for them."""

import hashlib
import re
from functools import lru_cache

DEFAULT = "DEFAULT"
"""The id of the crawl that a client means by a blank id."""

SETTINGS_CRAWL = "urlfrontier"
"""The crawl that is never launched, whose spec is the pattern for new crawls."""

MAX_ID_CHARS = 1000
"""As long as a crawl's description, which holds the id."""

_PREFIX = f"{SETTINGS_CRAWL}-"
_SLUG_CHARS = 24
_HASH_CHARS = 16


def normalised(crawl_id: str) -> str:
    """The id that a client means."""
    return crawl_id if crawl_id.strip() else DEFAULT


@lru_cache(maxsize=1024)
def crawl_name(crawl_id: str) -> str:
    """The name of the crawl with this normalised id: a part that people can read, and a hash that tells ids
    apart.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", crawl_id.lower()).strip("-")[:_SLUG_CHARS]
    digest = hashlib.sha256(crawl_id.encode()).hexdigest()[:_HASH_CHARS]
    return f"{_PREFIX}{slug}-{digest}" if slug else f"{_PREFIX}{digest}"


def crawl_id(name: str, description: str) -> str | None:
    """The id of a crawl with this name and description; None if the crawl is not the gateway's."""
    is_ours = name.startswith(_PREFIX) and name == crawl_name(description)
    return description if is_ours else None
