"""Writes pages as JSON Lines, for users who want data and not archives: one object and one line a page."""

import json
import time
from collections.abc import Callable
from enum import StrEnum
from io import BytesIO
from pathlib import Path

from .repair import parts_of_lines, repair
from .rotation import DEFAULT_ROTATION, Piece, RollingFiles, Rotation, Series, utc_text
from .visit import PageVisit

SUFFIX = ".jsonl"


class TextForm(StrEnum):
    """The part of a page's body that goes into its line."""

    TEXT = "text"
    """Its text, as a reader sees it, in `text`."""
    HTML = "html"
    """The page as it is written, in `html`."""
    NONE = "none"
    """No text, and no title."""


class PagesWriter(RollingFiles):
    """Appends pages to the JSON Lines files of one process, a series for each crawl. Thread-safe.

    The members of an object: `url`, `crawl`, `status`, `time` (when its fetch began), `media_type`, `bytes`
    (the number of body bytes, as sent), `digest` (of those), `truncated` (null, or why the body is not whole,
    in the values of WARC-Truncated), `via` (null for a seed), `path` (of hops, empty for a seed), `seed`
    (true for a seed), `links` (objects with `url` and `hop`), `title` and `text` or `html` (null unless the
    page is HTML or plain text with a status from 200 to 299, in a coding that can be undone; see Content),
    and `extra` if the user's own function returned a value.

    Raises OutputError when the directory can be neither created nor written to.
    """

    archives = False

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        text: TextForm = TextForm.TEXT,
        rotation: Rotation = DEFAULT_ROTATION,
        process_id: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(directory, node, SUFFIX, rotation=rotation, process_id=process_id, clock_ms=clock_ms)
        self._text = text

    def append(self, visit: PageVisit) -> bool:
        """Writes the line of a visit, whole or not at all. Returns whether there is one: only pages that were
        answered have lines. Not durable before `sync`. Raises OutputError.
        """
        if visit.is_page:
            line = _line(visit, self._text)
            series = Series(visit.lease.crawl, visit.provenance)
            self.add(series, lambda file_id: Piece(BytesIO(line), len(line)))
        return visit.is_page

    def repair(self) -> None:
        """Repairs the files that dead processes left in the directory; see repair."""
        repair(self.directory, SUFFIX, parts_of_lines)


def _line(visit: PageVisit, text: TextForm) -> bytes:
    lease, fetch = visit.lease, visit.fetch
    page: dict[str, object] = {
        "url": fetch.uri,
        "crawl": lease.crawl,
        "status": fetch.status,
        "time": utc_text(fetch.start_time_ms),
        "media_type": fetch.media_type,
        "bytes": fetch.body_bytes,
        "digest": fetch.digest,
        "truncated": fetch.truncation.value or None,
        "via": lease.via or None,
        "path": lease.path,
        "seed": lease.seed,
        "links": [{"url": link.uri, "hop": link.hop} for link in visit.links],
    }
    if text is not TextForm.NONE:
        content = visit.content
        page["title"] = content.text.title if content.text is not None else None
        if text is TextForm.HTML:
            page["html"] = content.source
        else:
            page["text"] = content.text.text if content.text is not None else None
    line = json.dumps(page, ensure_ascii=False, separators=(",", ":"))
    if visit.extra:
        line = f'{line[:-1]},"extra":{visit.extra}}}'
    return line.encode("utf-8", "replace") + b"\n"
