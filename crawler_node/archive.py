"""Archive: what the node does when WARC files cannot be written. The writing itself is warc's business.

A page counts as stored only when a sync has succeeded after it was appended. After an error the node
takes no more leases until the directory takes data again.
"""

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from .visit import Stored, Visit

PROBE_BYTES = 1024 * 1024
"""What must find room in the directory before writing is tried again."""

log = structlog.get_logger()


class Writer(Protocol):
    """What an archive needs of warc.WarcWriter; all its errors are OSErrors."""

    def append(self, visit: Visit) -> object | None:
        """Stores a visit, whole or not at all; None if there is nothing to store."""
        ...

    def sync(self) -> None:
        """Makes what was appended durable; if it fails, nothing since the last success counts."""
        ...

    def close(self) -> None:
        """Ends the writing."""
        ...


class Archive:
    """The node's WARC files, and whether they can be written. Used by many threads at once."""

    def __init__(self, writer: Writer, directory: Path) -> None:
        self._writer = writer
        self._directory = directory
        self._lock = threading.Lock()
        self._epoch = 0
        self._failing = False
        self._closed = False
        self._on_failure: Callable[[], None] = lambda: None

    def when_failing(self, act: Callable[[], None]) -> None:
        """Sets what is done at each error."""
        self._on_failure = act

    def append(self, visit: Visit) -> Stored:
        """Stores a visit. Raises OSError when it is not stored."""
        epoch = self._epoch
        try:
            stored = self._writer.append(visit)
        except OSError as error:
            self._fail(error)
            raise
        return Stored(None if stored is None else epoch)

    def sync(self) -> int | None:
        """Makes durable what was appended so far; the answer names its stretch, None if that failed."""
        epoch = self._epoch
        try:
            self._writer.sync()
        except OSError as error:
            with self._lock:
                self._epoch += 1
            self._fail(error)
            return None
        return epoch

    def probe(self) -> bool:
        """Whether the directory takes data again."""
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                file.write(os.urandom(PROBE_BYTES))  # not zeros, which some file systems do not store
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return False
        with self._lock:
            self._failing = False
        log.info("WARC files can be written again", directory=str(self._directory))
        return True

    def close(self) -> None:
        """Closes the files; what is appended later is refused. Raises OSError."""
        self._closed = True
        self._writer.close()

    def _fail(self, error: OSError) -> None:
        with self._lock:
            first, self._failing = not (self._failing or self._closed), True
        if first:
            log.error("WARC files cannot be written; no leases are taken until they can", error=str(error))
        self._on_failure()
