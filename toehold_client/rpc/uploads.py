"""Long streams to a frontier: seeds, and imports of URIs, read as the stream takes them.

gRPC would lose an exception of the items' iterator. So the stream ends there, and `raise_failure` raises it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from google.protobuf.message import Message

from toehold.frontier.v1.admin_pb2 import AddSeedsRequest, ImportEntry, ImportUrisRequest
from toehold_client.errors import sendable

from .batches import batches_of, split_texts

SEEDS_TIMEOUT_S = 3600.0
"""The default deadline of a whole stream of seeds."""

IMPORT_TIMEOUT_S = 86_400.0
"""The default deadline of a whole import."""

_Q = TypeVar("_Q", bound=Message)


class Upload(ABC, Generic[_Q]):
    """The messages of one stream. It ends if reading the items fails."""

    def __init__(self) -> None:
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[_Q]:
        try:
            yield from self._messages()
        except Exception as failure:
            self._failure = failure

    def raise_failure(self) -> None:
        """Raises the error of reading the items, if there was one."""
        if self._failure is not None:
            with sendable():
                raise self._failure

    @abstractmethod
    def _messages(self) -> Iterator[_Q]:
        """The messages, made as they are needed."""


class SeedBatches(Upload[AddSeedsRequest]):
    """Seeds as the messages of one AddSeeds stream.

    If reading them fails, the seeds so far are stored, which is harmless.
    """

    def __init__(self, crawl: str, uris: Iterable[str]) -> None:
        super().__init__()
        self._crawl = crawl
        self._uris = iter(uris)

    def has_any(self) -> bool:
        """Whether there is a seed at all. Reads the first."""
        for first in self._uris:
            self._uris = chain((first,), self._uris)
            return True
        return False

    def _messages(self) -> Iterator[AddSeedsRequest]:
        for batch in split_texts(self._uris, envelope=AddSeedsRequest(crawl=self._crawl)):
            yield AddSeedsRequest(crawl=self._crawl, uris=batch)


class ImportBatches(Upload[ImportUrisRequest]):
    """URIs as the messages of one ImportUris stream. The first one names the crawl, the last one says
    `complete`.

    If reading them fails, the last message is missing, and the frontier imports nothing.
    """

    def __init__(self, crawl: str, entries: Iterable[ImportEntry], force: bool) -> None:
        super().__init__()
        self._first = ImportUrisRequest(crawl=crawl, force=force)
        self._entries = entries

    def _messages(self) -> Iterator[ImportUrisRequest]:
        yield self._first
        for batch in batches_of(self._entries, envelope=ImportUrisRequest()):
            yield ImportUrisRequest(entries=batch)
        yield ImportUrisRequest(complete=True)
