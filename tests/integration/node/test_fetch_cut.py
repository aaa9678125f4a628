"""A fetch can be cut from another thread, wherever it waits."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from frontier_harness.waiting import PATIENCE_S
from node_doubles.loopback import (
    LONG_MS,
    Fetching,
    Site,
    policy,
    redirect,
    wait_for_hang_up,
)

from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.outcome import Status
from toehold_client.worker.addresses import Address


def cancel_when(started: threading.Event, cancellation: Cancellation) -> threading.Thread:
    def run() -> None:
        started.wait(PATIENCE_S)
        cancellation.cancel()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_fetch_that_waits_for_its_answer_can_be_cut(site: Site, fetcher: Fetching) -> None:
    started, cancellation = threading.Event(), Cancellation()

    def answer(client: socket.socket) -> None:
        started.set()
        wait_for_hang_up(client)

    site.answers["/"] = answer
    cancel_when(started, cancellation)
    fetch = fetcher.fetch(site.url("/"), policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


def test_a_fetch_can_be_cut_within_its_body(site: Site, fetcher: Fetching) -> None:
    started, cancellation = threading.Event(), Cancellation()

    def answer(client: socket.socket) -> None:
        started.set()
        site.drip(client, b"HTTP/1.1 200 OK\r\n\r\n", b"x")

    site.answers["/"] = answer
    cancel_when(started, cancellation)
    assert fetcher.fetch(site.url("/"), policy(), cancellation).status == Status.PROCESSING_THREAD_KILLED


def test_a_fetch_that_waits_for_a_name_can_be_cut() -> None:
    started, over, cancellation = threading.Event(), threading.Event(), Cancellation()

    def lookup(host: str) -> list[Address]:
        started.set()
        over.wait()
        return []

    fetcher = Fetching(Resolver(lookup=lookup))
    cancel_when(started, cancellation)
    fetch = fetcher.fetch("http://slow.example/", policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS
    over.set()
    fetcher.close()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port where connections are neither accepted nor refused: its listener's queue is full."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def test_a_fetch_that_connects_can_be_cut(
    fetcher: Fetching, deaf_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, cancellation = threading.Event(), Cancellation()
    watch = Cancellation.watch

    def watched(self: Cancellation, cut: Callable[[], None] | None) -> None:
        watch(self, cut)
        connecting.set()

    monkeypatch.setattr(Cancellation, "watch", watched)
    cancel_when(connecting, cancellation)
    fetch = fetcher.fetch(f"http://127.0.0.1:{deaf_port}/", policy(), cancellation)
    assert fetch.status == Status.PROCESSING_THREAD_KILLED
    assert fetch.duration_ms < LONG_MS


def test_a_fetch_that_shakes_hands_can_be_cut(fetcher: Fetching) -> None:
    cancellation = Cancellation()
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def cut() -> None:
            client, _ = silent.accept()
            client.recv(1)  # the handshake has begun
            cancellation.cancel()
            client.close()

        thread = threading.Thread(target=cut)
        thread.start()
        fetch = fetcher.fetch(f"https://127.0.0.1:{silent.getsockname()[1]}/", policy(), cancellation)
        thread.join()
    assert fetch.status == Status.PROCESSING_THREAD_KILLED


def test_a_fetch_cut_before_it_starts_does_not_start(site: Site, fetcher: Fetching) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    for uri in (site.url("/"), site.url("/", "www.alpha.example")):
        assert fetcher.fetch(uri, policy(), cancellation).status == Status.PROCESSING_THREAD_KILLED
    assert site.connections == 0


def test_a_robots_txt_can_be_cut_at_any_of_its_redirects(site: Site, fetcher: Fetching) -> None:
    started = threading.Event()

    def answer(client: socket.socket) -> None:
        started.set()
        wait_for_hang_up(client)

    cancellation = Cancellation()

    def cut() -> None:
        started.wait(PATIENCE_S)
        cancellation.cancel()

    site.answers["/robots.txt"] = redirect("/slow")
    site.answers["/slow"] = answer
    thread = threading.Thread(target=cut)
    thread.start()
    fetch = fetcher.fetch_robots(site.url("/robots.txt"), policy(), cancellation)
    thread.join()
    assert (fetch.status, len(fetch.hops)) == (Status.PROCESSING_THREAD_KILLED, 1)
