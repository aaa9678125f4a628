"""What goes to a frontier in one long stream: seeds, and imports of URIs.

Read as the stream takes them. gRPC would lose an exception out of the items' own iterator. So the stream just
ends there, and `raise_failure` raises it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toehold.frontier.v1.admin_pb2 import AddSeedsRequest, ImportEntry, ImportUrisRequest

from .batches import batches_of, split_texts
from .errors import unsendable


class SeedBatches:
    """Seeds as the messages of one AddSeeds stream.

    If reading them fails, the stream ends there; the seeds before it are stored, which harms nothing.
    """

    def __init__(self, crawl: str, uris: Iterable[str]) -> None:
        self._crawl = crawl
        self._uris = uris
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[AddSeedsRequest]:
        try:
            for batch in split_texts(self._uris, envelope=AddSeedsRequest(crawl=self._crawl)):
                yield AddSeedsRequest(crawl=self._crawl, uris=batch)
        except Exception as failure:
            self._failure = failure

    def raise_failure(self) -> None:
        """Raises what reading the seeds ended with, if that was not their end."""
        _raise(self._failure)


class ImportBatches:
    """URIs as the messages of one ImportUris stream; the first one names the crawl, the last one is complete.

    If reading them fails, the stream ends without that, and the frontier takes nothing in.
    """

    def __init__(self, crawl: str, entries: Iterable[ImportEntry], force: bool) -> None:
        self._first = ImportUrisRequest(crawl=crawl, force=force)
        self._entries = entries
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[ImportUrisRequest]:
        yield self._first
        try:
            for batch in batches_of(self._entries, envelope=ImportUrisRequest()):
                yield ImportUrisRequest(entries=batch)
        except Exception as failure:
            self._failure = failure
        else:
            yield ImportUrisRequest(complete=True)

    def raise_failure(self) -> None:
        """Raises what reading the URIs ended with, if that was not their end."""
        _raise(self._failure)


def _raise(failure: Exception | None) -> None:
    if isinstance(failure, UnicodeEncodeError):
        unsendable(failure)
    if failure is not None:
        raise failure
