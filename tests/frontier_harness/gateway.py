"""The program `python -m urlfrontier_gateway`, and a client of URLFrontier's API, as tests use them."""

import contextlib
import itertools
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import grpc

from urlfrontier.urlfrontier_pb2 import (
    AckMessage,
    DeleteCrawlMessage,
    DiscoveredURLItem,
    GetParams,
    KnownURLItem,
    ListUrlParams,
    Local,
    QueueWithinCrawlParams,
    Stats,
    StringList,
    URLInfo,
    URLItem,
)
from urlfrontier.urlfrontier_pb2_grpc import URLFrontierStub

from .waiting import PATIENCE_S

OK, SKIPPED, FAIL = AckMessage.OK, AckMessage.SKIPPED, AckMessage.FAIL
_READY = "toehold-urlfrontier serving on "


class Client:
    """A client of URLFrontier's API."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.stub = URLFrontierStub(self._channel)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def put(self, *items: URLItem) -> list[int]:
        """Put URLs; their statuses, in order."""
        return [ack.status for ack in self.stub.PutURLs(iter(items), timeout=PATIENCE_S)]

    def get(self, crawl_id: str | None = "DEFAULT", **params: Any) -> list[str]:
        """URLs that are due, of one crawl, or of any with None."""
        return [info.url for info in self.infos(crawl_id, **params)]

    def infos(self, crawl_id: str | None = "DEFAULT", **params: Any) -> list[URLInfo]:
        """The same, with all that is told of them."""
        request = GetParams(**params)
        if crawl_id is not None:
            request.crawlID = crawl_id
        return list(self.stub.GetURLs(request, timeout=PATIENCE_S))

    def stats(self, key: str = "", crawl_id: str = "") -> Stats:
        """Counts of a crawl or a queue."""
        return self.stub.GetStats(QueueWithinCrawlParams(key=key, crawlID=crawl_id), timeout=PATIENCE_S)

    def urls(self, **params: Any) -> list[URLItem]:
        """The URLs of a crawl or a queue."""
        return list(self.stub.ListURLs(ListUrlParams(**params), timeout=PATIENCE_S))

    def crawl_ids(self) -> list[str]:
        """The ids of all crawls."""
        return list(self.stub.ListCrawls(Local(), timeout=PATIENCE_S).values)

    def delete_all(self) -> None:
        """Delete all crawls."""
        for crawl_id in self.crawl_ids():
            self.stub.DeleteCrawl(DeleteCrawlMessage(value=crawl_id), timeout=PATIENCE_S)


class GatewayProcess:
    """A gateway within a `with` block, on a free port of loopback unless told otherwise."""

    client: Client
    address: str

    def __init__(self, frontier: str, errors: Path, *flags: str, listen: str = "127.0.0.1:0") -> None:
        self.errors = errors
        program = (sys.executable, "-m", "urlfrontier_gateway")
        self._command = (*program, "--frontier", frontier, "--listen", listen, *flags)

    def __enter__(self) -> Self:
        with self.errors.open("a") as errors:
            self.child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S), "the gateway is silent"
        line = self.child.stdout.readline()
        assert line.startswith(_READY), f"{line!r}: {self.errors.read_text()}"
        self.address = line.removeprefix(_READY).partition(",")[0]
        self.client = Client(self.address)
        return self

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(PATIENCE_S)

    def kill(self) -> None:
        """`kill -9`."""
        self.child.kill()
        self.child.wait(PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.child.poll() is None:
            self.kill()
        assert self.child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.child.stdout.close()


def discovered(url: str, key: str = "", crawl_id: str = "", **metadata: Iterable[str]) -> URLItem:
    """A URL that was found."""
    return URLItem(discovered=DiscoveredURLItem(info=info(url, key, crawl_id, metadata)))


def known(url: str, date_s: int = 0, key: str = "", crawl_id: str = "", **metadata: Iterable[str]) -> URLItem:
    """A URL that is to be fetched again from a time on; 0 for never."""
    return URLItem(known=KnownURLItem(info=info(url, key, crawl_id, metadata), refetchable_from_date=date_s))


def info(url: str, key: str, crawl_id: str, metadata: Mapping[str, Iterable[str]]) -> URLInfo:
    """What is stored with a URL."""
    return URLInfo(
        url=url,
        key=key,
        crawlID=crawl_id,
        metadata={name: StringList(values=values) for name, values in metadata.items()},
    )


_numbers = itertools.count(1)


def fresh_id() -> str:
    """The id of a crawl that no other test has."""
    return f"crawl {next(_numbers)}"


def code_of(call: Any, request: Any) -> tuple[grpc.StatusCode, str]:
    """Why a call is refused: gRPC's code and the sentence."""
    try:
        answer = call(request, timeout=PATIENCE_S)
        told: Sequence[Any] = list(answer) if hasattr(answer, "__iter__") else [answer]
    except grpc.RpcError as error:
        return error.code(), str(error.details())
    raise AssertionError(f"it was not refused: {told}")
