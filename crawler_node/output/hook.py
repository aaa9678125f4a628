"""Hook: calls a function of the user's own with each page.

    from crawler_node.output.hook import HookPage

    def page(page: HookPage) -> dict | None:
        if page.status == 200:
            return {"words": len((page.text or "").split())}

`--hook package.module:page` names it. Many threads call it at once. It is called once for each page that was
answered, whatever its status, and again if the page is fetched again because the node died or could not store
it. It returns a mapping, which goes into the page's JSON line, or None. If it raises, the error is logged,
the page is marked `hookFailed` in the crawl log, and nothing else happens.
"""

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from ..extraction.links import Outlink
from ..extraction.page_text import MAX_PAGE_BYTES
from .content import Content
from .logs import NodeLogs
from .visit import PageVisit

HOOK_FAILED = "hookFailed"

MAX_EXTRA_CHARS = 1_000_000
"""The longest value of a hook, as JSON."""


@dataclass(frozen=True, slots=True)
class HookPage:
    """A page, as a hook gets it. Usable until the hook returns."""

    url: str
    crawl: str
    status: int
    """The HTTP status."""
    headers: Sequence[tuple[str, str]]
    """The headers of the answer, as sent."""
    media_type: str
    """The media type of its Content-Type, in lower case; empty if there is none."""
    links: Sequence[Outlink]
    """The links in it. Each has a `uri` (absolute), a `hop` (a letter) and a `context`."""
    via: str
    """The URI of the page that links to it; empty for a seed."""
    path: str
    """The hops that led to it, one letter for each."""
    seed: bool
    """Whether it is a seed."""
    truncated: str
    """Why the body is not whole, in the values of WARC-Truncated; empty if it is whole."""
    _content: Content

    @property
    def body(self) -> bytes:
        """The first 8 MiB of the body, without its Content-Encoding if that can be undone. Each use decodes
        it again."""
        return self.read(MAX_PAGE_BYTES)

    def read(self, limit: int) -> bytes:
        """The first `limit` bytes of the body, as in `body`."""
        return self._content.body(limit)

    @property
    def title(self) -> str | None:
        """Its title; None if it is not HTML or plain text, its status is outside 200 to 299, or its
        Content-Encoding cannot be undone (the crawl log then says `unknownCoding:` or similar)."""
        text = self._content.text
        return None if text is None else text.title

    @property
    def text(self) -> str | None:
        """Its text as a reader sees it; None where `title` is."""
        text = self._content.text
        return None if text is None else text.text


class Hook:
    """Calls a function with pages, and contains its errors."""

    def __init__(self, function: Callable[[HookPage], object], logs: NodeLogs) -> None:
        self._function = function
        self._logs = logs

    def __call__(self, visit: PageVisit) -> tuple[str, ...]:
        """Sets the function's value as the visit's `extra`. Returns annotations for the crawl log."""
        try:
            extra = self._function(_page(visit))
            visit.extra = "" if extra is None else _json(extra)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            self._logs.runtime_error(visit.fetch.uri, error)
            return (HOOK_FAILED,)
        return ()


def load(path: str) -> Callable[[HookPage], object]:
    """Imports the function that `package.module:function` names, from Python's path or the present directory.
    Raises ValueError.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ValueError(f"hook {path!r} must have the form 'package.module:function'")
    try:
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # last, so that no file there can stand in for a module of the node's
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"hook {path!r}: {module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        function = attrgetter(name)(module)
    except AttributeError as error:
        raise ValueError(f"hook {path!r}: module {module_name} has no {name}") from error
    if not callable(function):
        raise ValueError(
            f"hook {path!r}: {name} must be a function, got one of type {type(function).__name__}"
        )
    found: Callable[[HookPage], object] = function
    return found


def _page(visit: PageVisit) -> HookPage:
    lease, fetch = visit.lease, visit.fetch
    return HookPage(
        url=fetch.uri,
        crawl=lease.crawl,
        status=fetch.status,
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in fetch.headers],
        media_type=fetch.media_type,
        links=visit.links,
        via=lease.via,
        path=lease.path,
        seed=lease.seed,
        truncated=fetch.truncation.value,
        _content=visit.content,
    )


def _json(extra: object) -> str:
    if not isinstance(extra, Mapping):
        raise TypeError(f"a hook must return a mapping or None, got a {type(extra).__name__}")
    text = json.dumps(dict(extra), allow_nan=False, separators=(",", ":"))
    if len(text) > MAX_EXTRA_CHARS:
        raise ValueError(
            f"a hook's value must have at most {MAX_EXTRA_CHARS} characters as JSON, got {len(text)}"
        )
    return text
