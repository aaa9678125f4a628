"""The logs of crawls in a bucket, in pieces, so that they outlive the machine that wrote them.

A log is what its store remembers of it, so many bytes; and what it remembers is in pieces, as a piece is kept
before the store hears of it. The name of a piece has the place of its first byte, and the epoch of its
writer. A writer that was fenced in the middle may have left a piece that the store does not know: its
successor begins at the same place, and the later epoch counts.
"""

from pathlib import Path

import structlog

from ..replicated.buckets import Bucket

FOLDER = "logs/"

_log = structlog.get_logger()


class LogArchive:
    """The archive of one member's logs. Its methods may block, and raise BucketFailed."""

    def __init__(self, bucket: Bucket, member: str, epoch: int) -> None:
        self._bucket = bucket
        self._folder = f"{FOLDER}{member}/"
        self._epoch = epoch

    def keep(self, crawl: str, log: Path, start: int, end: int) -> None:
        """Keep these bytes of a log. Raises OSError, too."""
        with log.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) < end - start:
            raise OSError(f"{log.name} lacks its last {end - start - len(data)} bytes")
        self._bucket.put(f"{self._place(crawl, log)}{start:016}-{self._epoch:016}", data)

    def restore(self, crawl: str, log: Path, size: int) -> None:
        """Let a file have the bytes of a log up to a size, if it is shorter. Raises OSError, too."""
        if log.exists() and log.stat().st_size >= size:
            return
        pieces: dict[int, str] = {}
        for found in self._bucket.found(self._place(crawl, log)):
            start = int(found.name.rpartition("/")[2].partition("-")[0])
            pieces[start] = found.name  # in the order of names: of several, the latest epoch's
        log.parent.mkdir(parents=True, exist_ok=True)
        part = log.with_name(f"{log.name}.part")
        at = 0
        with part.open("wb") as file:
            while at < size:
                data = self._bucket.get(pieces[at]) if at in pieces else None
                if not data:
                    _log.error(
                        "log_archive", crawl=crawl, log=log.name, problem=f"the piece at byte {at} is missing"
                    )
                    break
                file.write(data[: size - at])
                at += len(data)
        part.replace(log)

    def forget(self, crawl: str, log: Path) -> None:
        """Remove the pieces of a log."""
        self._bucket.delete([found.name for found in self._bucket.found(self._place(crawl, log))])

    def _place(self, crawl: str, log: Path) -> str:
        return f"{self._folder}{crawl}/{log.name}/"
