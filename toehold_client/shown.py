"""Answers about a crawl as the contract's messages, for people too: their states have names when printed.

    print(crawl.status().state)                # RUNNING
    print(crawl.update({"max_toes": 10}))      # max_toes was 0, is 10

Each is read like its message; its `message` is the message itself.
"""

import json
from typing import Any, ClassVar, cast

from google.protobuf.message import Message

from toehold.frontier.v1.admin_pb2 import Crawl, GetStatisticsResponse
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, ExitStatus

from .spec.file import changes
from .spec.plain import enum_word
from .text import harmless, status_and_reason


def shown_status(message: CrawlStatus) -> CrawlStatus:
    """A crawl's status that prints as a sentence, and its states as names."""
    return cast(CrawlStatus, _Status(message))


def shown_crawl(message: Crawl, before: CrawlSpec | None = None) -> Crawl:
    """A crawl's description, which prints what has changed since a spec, or else the crawl's status."""
    return cast(Crawl, _Crawl(message, before))


def shown_statistics(message: GetStatisticsResponse) -> GetStatisticsResponse:
    """A crawl's statistics, whose status prints as the status does."""
    return cast(GetStatisticsResponse, _Statistics(message))


class _State(int):
    def __str__(self) -> str:
        return enum_word(CrawlState.DESCRIPTOR, int(self))

    def __format__(self, form: str) -> str:
        return format(str(self), form)

    __repr__ = __str__


class _Exit(_State):
    def __str__(self) -> str:
        return enum_word(ExitStatus.DESCRIPTOR, int(self))

    __repr__ = __str__


class _Shown:
    """Reads a message like itself, but for the fields in `made`."""

    made: ClassVar[dict[str, Any]] = {}
    __hash__ = None  # type: ignore[assignment]  # as of a message

    def __init__(self, message: Message) -> None:
        self.message = message

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "message":  # `copy` and `pickle` ask for such
            raise AttributeError(name)
        value = getattr(self.message, name)
        return self.made[name](value) if name in self.made else value

    def __eq__(self, other: object) -> bool:
        return bool(self.message == (other.message if isinstance(other, _Shown) else other))

    def __repr__(self) -> str:
        return repr(self.message)


class _Status(_Shown):
    made: ClassVar[dict[str, Any]] = {"state": _State, "exit_status": _Exit}

    def __str__(self) -> str:
        return harmless(status_and_reason(cast(CrawlStatus, self)))


class _Crawl(_Shown):
    made: ClassVar[dict[str, Any]] = {"status": _Status}

    def __init__(self, message: Crawl, before: CrawlSpec | None) -> None:
        super().__init__(message)
        self._crawl, self._before = message, before

    def __str__(self) -> str:
        if self._before is None:
            return harmless(f"{self._crawl.crawl}: {status_and_reason(self._crawl.status)}")
        sentences = [
            f"{name} was {json.dumps(was)}, is {json.dumps(now)}"
            for name, was, now in changes(self._before, self._crawl.spec)
        ]
        return harmless("; ".join(sentences) or "nothing has changed")


class _Statistics(_Shown):
    made: ClassVar[dict[str, Any]] = {"status": _Status}
