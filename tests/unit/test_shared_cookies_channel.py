"""The channel between a process of a node and the cookies that its supervisor keeps."""

import socket
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from frontier_harness.waiting import PATIENCE_S
from structlog.testing import capture_logs

from crawler_node.fetching import shared_cookies
from crawler_node.fetching.cookies import MAX_COOKIE_BYTES, MAX_COOKIES, CookieHeader, CookieJars
from crawler_node.fetching.outcome import Status, status_of
from crawler_node.fetching.shared_cookies import (
    CookiesUnavailable,
    SharedCookies,
    channel_ends,
    channel_of,
    serve_cookies,
)

HOST = "www.alpha.example"


class Node:
    """A supervisor, and its processes."""

    def __init__(self) -> None:
        self.jars = CookieJars()
        self.threads: list[threading.Thread] = []

    def process(self) -> tuple[SharedCookies, socket.socket]:
        """A process, and its end of the channel."""
        own, its = channel_ends()
        self.serve(own)
        return SharedCookies(its), its

    def serve(self, own: socket.socket) -> None:
        thread = threading.Thread(target=serve_cookies, args=(own, self.jars))
        thread.start()
        self.threads.append(thread)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    for thread in made.threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "it ends with its process"


def take(cookies: SharedCookies, *lines: bytes, crawl: str = "one", https: bool = False) -> None:
    cookies.take(crawl, HOST, "/a/b?c", lines, https=https)


def header(cookies: SharedCookies, crawl: str = "one", path: str = "/a/b", https: bool = False) -> bytes:
    return cookies.header(crawl, HOST, path, https=https).text


def test_a_process_sends_the_cookies_that_another_one_took(node: Node) -> None:
    (one, its_one), (two, its_two) = node.process(), node.process()
    with its_one, its_two:
        take(one, b"a=1", b"b=2; Path=/; Domain=alpha.example")
        assert header(two) == b"a=1; b=2"
        assert (header(two, crawl="two"), header(two, path="/")) == (b"", b"b=2")
        take(two, b"a=; Max-Age=0", b"s=3; Secure", b'c=\xff"')
        assert header(one) == b'c=\xff"; b=2', "longer paths go first"
        take(one, b"s=4; Secure; Path=/", https=True)
        assert b"s=4" in header(two, https=True) and b"s=4" not in header(two)


def test_cookies_outlive_their_process(node: Node) -> None:
    one, its_one = node.process()
    take(one, b"a=1")
    its_one.close()
    two, its_two = node.process()
    with its_two:
        assert header(two) == b"a=1"


def test_many_long_cookies_of_one_answer_get_through(node: Node) -> None:
    one, its_one = node.process()
    with its_one:
        long = [b"n%d=%s; Path=/%s" % (n, b"x" * (MAX_COOKIE_BYTES - 5), b"p" * 1000) for n in range(100)]
        take(one, *long)
        (kept,) = node.jars._hosts.values()
        assert [cookie.name for cookie in kept.values()] == [
            b"n%d" % n for n in range(100 - MAX_COOKIES, 100)
        ]


def test_the_longest_uri_sets_and_gets_cookies(node: Node) -> None:
    one, its_one = node.process()
    deep = "/" + "p" * 8000 + "/"
    with its_one:
        one.take("crawl", HOST, deep + "x", [b"%d=%s" % (n, b"x" * 4000) for n in range(4)], https=True)
        assert one.header("crawl", HOST, deep + "?" + "q" * 100_000, https=True).text.startswith(b"0=x")


def test_an_answer_without_cookies_asks_nobody() -> None:
    own, its_end = channel_ends()
    own.close()
    with its_end:
        take(SharedCookies(its_end))
        take(SharedCookies(its_end), b"no cookie")


def test_a_silent_supervisor_is_waited_for_only_so_long(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is put off. What the supervisor says later is not taken for the answer to another question."""
    monkeypatch.setattr(shared_cookies, "WAIT_S", 0.05)
    own, its_end = channel_ends()
    with its_end, capture_logs() as lines:
        one = SharedCookies(its_end)
        for _ in range(2):
            with pytest.raises(CookiesUnavailable) as failure:
                header(one)
            with pytest.raises(CookiesUnavailable):
                take(one, b"late=1")
        assert status_of(failure.value) is Status.DEFERRED
        assert (
            failure.value.reason
            == "the node's supervisor, which keeps the cookies, did not answer for 0.05 s"
        )
        monkeypatch.setattr(shared_cookies, "WAIT_S", PATIENCE_S)
        node.serve(own)
        assert header(one) == b"", "nobody waited for what was asked before"
        take(one, b"a=1")
        assert header(one) == b"a=1"
    assert [line["event"] for line in lines] == ["cookies_unavailable", "cookies_back"]


def test_an_answer_that_comes_late_is_dropped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    own, its_end = channel_ends()
    go = threading.Event()

    def slow(crawl: str, host: str, path: str, *, https: bool) -> CookieHeader:
        if path == "/slow":
            go.wait(PATIENCE_S)
        return CookieHeader(path.encode(), b"markmark")

    monkeypatch.setattr(node.jars, "header", slow)
    node.serve(own)
    with its_end:
        one = SharedCookies(its_end)
        monkeypatch.setattr(shared_cookies, "WAIT_S", 0.05)
        with pytest.raises(CookiesUnavailable):
            header(one, path="/slow")
        monkeypatch.setattr(shared_cookies, "WAIT_S", PATIENCE_S)
        go.set()
        assert header(one, path="/next") == b"/next"


def test_a_process_without_its_supervisor_does_not_wait() -> None:
    own, its_end = channel_ends()
    own.close()
    with its_end, capture_logs() as lines:
        one = SharedCookies(its_end)
        for _ in range(2):
            with pytest.raises(CookiesUnavailable, match="is gone"):
                header(one)
    assert lines == [{"event": "cookies_unavailable", "cause": "is gone", "log_level": "error"}]


def test_a_process_that_reads_no_answers_holds_up_no_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, its_one = node.process()
    _, its_stuck = node.process()
    take(one, *(b"n%d=%s; Path=/" % (n, b"x" * 300) for n in range(20)))
    its_stuck.setblocking(False)
    question = shared_cookies._Question(1, time.monotonic() + PATIENCE_S, "one", False, HOST, "/")
    with its_one:
        with pytest.raises(BlockingIOError):
            while True:  # until no more fit, as the answers are not read
                its_stuck.send(msgspec.msgpack.encode(question))
        assert header(one).startswith(b"n0=")
    its_stuck.close()


def test_threads_of_several_processes_lose_no_cookie(node: Node) -> None:
    processes = [node.process() for _ in range(3)]

    def work(cookies: SharedCookies, thread: int) -> None:
        for n in range(50):
            cookies.take("crawl", f"h{thread}-{n}.example", "/", [b"a=%d" % n], https=False)

    threads = [threading.Thread(target=work, args=(each, n)) for n in range(4) for each, _ in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        for asked, _ in processes:
            assert asked.header("crawl", f"h{n}-7.example", "/", https=False).text == b"a=7"
    for _, its_end in processes:
        its_end.close()


def test_the_end_of_a_process_is_not_for_the_programs_that_it_starts() -> None:
    own, its_end = channel_ends()
    with own:
        its_end.set_inheritable(True)
        with channel_of(str(its_end.detach())) as channel:
            assert not channel.get_inheritable() and not own.get_inheritable()
