"""Stand-ins for what a toe works with: a fetcher whose answers can be held back, and a WARC writer."""

import threading
from collections.abc import Callable, Collection, Iterable
from io import BytesIO
from pathlib import Path

from crawler_node.extraction.links import FoundLinks, Hop, Outlink
from crawler_node.fetching.cancellation import Cancellation, Cancelled
from crawler_node.fetching.fetch import NO_VALIDATORS, ExtractSettings, FetchPolicy, FetchResult, Validators
from crawler_node.fetching.outcome import Status
from crawler_node.output.visit import PageVisit
from crawler_node.toes.chain import PageStore, Stages

Answer = Callable[[str], FetchResult]


def page(uri: str, status: int = 200, body: bytes = b"", **more: object) -> FetchResult:
    """A fetch that was answered with HTML; its links are the lines of its body (see `lines`)."""
    fetch = FetchResult(uri, start_time_ms=1_700_000_000_123, duration_ms=7, status=status)
    fetch.headers = [(b"Content-Type", b"text/html; charset=utf-8")]
    fetch.response_head = b"HTTP/1.1 200 OK\r\n\r\n"
    fetch.body, fetch.body_bytes, fetch.digest = BytesIO(body), len(body), "sha1:ABC"
    for name, value in more.items():
        assert hasattr(fetch, name)
        setattr(fetch, name, value)
    return fetch


def lines(fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool) -> FoundLinks:
    """The links of a `page`."""
    fetch.body.seek(0)
    return FoundLinks([Outlink(line.decode(), Hop.LINK, "a/@href") for line in fetch.body.read().split()])


class FakeFetcher:
    """Answers with `answer(uri)`. While it is held, fetches wait, until they are let go or cut."""

    def __init__(self, answer: Answer = page) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.robots_asked: list[str] = []
        self.validators: list[Validators] = []
        self.cuts = True  # whether interrupting a fetch ends it
        self._go = threading.Event()
        self._go.set()

    def hold(self) -> None:
        self._go.clear()

    def let_go(self) -> None:
        self._go.set()

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
        crawl: str = "",
        via: str = "",
    ) -> FetchResult:
        cut = threading.Event()
        if not self._go.is_set() and cancellation is not None and self.cuts:
            try:
                cancellation.watch(cut.set)
            except Cancelled:
                cut.set()
        self.validators.append(validators)
        self.asked.append(uri)  # from here on it can be cut
        while not self._go.wait(0.002):
            if cut.is_set():
                return page(uri, Status.PROCESSING_THREAD_KILLED, response_head=b"")
        return self.answer(uri)

    def close(self) -> None:
        pass

    def cookie_mark(self, uri: str, policy: FetchPolicy, crawl: str) -> bytes:
        return b""

    def fetch_robots(
        self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None, crawl: str = ""
    ) -> FetchResult:
        self.robots_asked.append(uri)
        return self.fetch(uri, policy, cancellation)


class FakeWriter:
    """A WARC writer that remembers what happened to it, and fails when told to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stored: list[str] = []
        self.synced: list[str] = []
        self.idle: list[str] = []
        self.finished: list[str] = []
        self.fail_append = self.fail_sync = self.fail_roll = self.closed = False

    archives = False

    def append(self, visit: PageVisit) -> bool:
        if self.fail_append:
            raise OSError(28, "No space left on device")
        if visit.fetch.status <= 0:
            return False
        self.stored.append(visit.fetch.uri)
        return True

    def sync(self) -> None:
        if self.fail_sync:
            raise OSError(5, "Input/output error")
        self.synced = list(self.stored)

    def roll_if_old(self) -> None:
        if self.fail_roll:
            raise OSError(5, "Input/output error")

    def idle_crawls(self) -> list[str]:
        return self.idle

    def finish_crawls(self, crawls: Collection[str]) -> None:
        self.finished += crawls

    def repair(self) -> None:
        raise AssertionError("nobody left anything")

    def close(self) -> None:
        self.closed = True


def stages(fetcher: FakeFetcher, store: PageStore, sitemaps: Iterable[str] = ()) -> Stages:
    return Stages(fetcher, lines, lambda uri, body: list(sitemaps), store)
