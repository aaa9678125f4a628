"""Refusals are in plain English: they never quote Python or a library of it."""

import re
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S, Refusal, Stubs
from frontier_harness.every_rpc import OF_A_CRAWL, OF_NO_CRAWL, RPCS, request
from frontier_harness.odd_values import put, texts
from frontier_harness.process import ServerProcess

GARBAGE = ("", "x", "\n", "é", "[[", "\\", "10.0.0.1/8", "http://[", "http://h:x/")
PYTHON = re.compile(
    r"<class|Traceback|\w(Error|Exception)\b|\[Errno|object has no|invalid literal|codec can't|out of range"
    r"|does not appear|has host bits|\b(None|True|False|NoneType|int|str|float|bytes|dict)\b"
)
BRIEF_S = 0.2  # of calls that wait


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for these tests alone: they take other tests' nodes over, and drain them."""
    with ServerProcess(tmp_path_factory.mktemp("plain") / "data") as server:
        yield server


@pytest.fixture
def stubs(own_server: ServerProcess) -> Stubs:
    """Both its services."""
    return own_server.stubs


@pytest.mark.parametrize("rpc", sorted({*OF_A_CRAWL, *OF_NO_CRAWL}))
def test_no_text_is_refused_in_the_words_of_python(stubs: Stubs, crawl: str, rpc: str) -> None:
    method = RPCS[rpc]
    service = stubs.frontier if method.containing_service.name == "FrontierService" else stubs.admin
    wait_s = BRIEF_S if rpc in ("Next", "StateEvents", "StreamOutcomes") else TIMEOUT_S
    for path, of_bytes in texts(method.input_type):
        if path == ("crawl",):
            continue
        for text in GARBAGE:
            made: Any = request(rpc, crawl)
            put(made, path, text.encode() if of_bytes else text)
            try:
                sent = iter((made,)) if method.client_streaming else made
                answer = getattr(service, rpc)(sent, timeout=wait_s)
                if method.server_streaming:
                    next(iter(answer))
            except grpc.RpcError as problem:
                told = Refusal.of(problem)
                for message in (told.message, *told.metadata.values()):
                    assert not PYTHON.search(message), (path, text, message)
