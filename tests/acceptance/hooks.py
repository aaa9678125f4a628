"""Functions for `--hook`, as a user would write them."""

import hashlib

from crawler_node.output.hook import HookPage


def fails_at(url: str) -> bool:
    """Whether `digests` fails at a page: at a few of them."""
    return len(url) % 7 == 0


def digests(page: HookPage) -> dict[str, str]:
    """What the page says, as a digest; an error at some pages."""
    if fails_at(page.url):
        raise LookupError(f"no page of that name: {page.url}")
    return {"sha1": hashlib.sha1(page.body).hexdigest()}
