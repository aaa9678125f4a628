"""The meter of a node: it is told what the node does, while the node does it. This one forgets all of it; the
one in `metrics` keeps it for Prometheus."""

from collections.abc import Iterable
from enum import StrEnum


class PageStage(StrEnum):
    """The stages of a page that take time, in their order. A fetch leaves some of them out."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    HEAD = "head"
    """From the request to the end of the answer's head."""
    BODY = "body"
    EXTRACT = "extract"
    WRITE = "write"
    SYNC = "sync"
    """Making the pages of a batch durable, all together."""


class ConnectionUse(StrEnum):
    """Where a request's connection comes from."""

    NEW = "new"
    KEPT = "kept"
    """An earlier request has left it."""


class Purpose(StrEnum):
    """The purpose of a fetch."""

    PAGE = "page"
    ROBOTS = "robots"


class NodePart(StrEnum):
    """The parts of a node that may fail at a page without losing it."""

    EXTRACTOR = "extractor"
    HOOK = "hook"


class Meter:
    """Is told what a node does. Many threads use it at once."""

    def took(self, stage: PageStage, seconds: float) -> None:
        """A stage of a page has ended."""

    def fetched(self, purpose: Purpose, seconds: float, received_bytes: int) -> None:
        """A fetch has ended, however it did."""

    def connected(self, uses: Iterable[ConnectionUse], handshakes: int) -> None:
        """A fetch has got these connections, and so often TLS began on one."""

    def worked(self, purpose: Purpose, status: int) -> None:
        """A toe is done with a lease, whose report has this status."""

    def failed(self, part: NodePart) -> None:
        """A part failed at a page."""

    def called(self, method: str, outcome: str, seconds: float) -> None:
        """A call of the frontier has ended."""


UNMEASURED = Meter()
