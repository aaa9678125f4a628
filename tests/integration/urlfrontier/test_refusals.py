"""Requests that the gateway refuses, and its program's flags and exit codes."""

from typing import Any

import grpc
import pytest
from frontier_harness.gateway import Client, GatewayProcess, code_of, discovered
from frontier_harness.process import run_to_end
from frontier_harness.waiting import PATIENCE_S
from google.protobuf.message import Message

from urlfrontier.urlfrontier_pb2 import (
    DESCRIPTOR,
    BlockQueueParams,
    CountUrlParams,
    CrawlLimitParams,
    DeleteCrawlMessage,
    Empty,
    GetParams,
    ListUrlParams,
    LogLevelParams,
    Long,
    Pagination,
    PurgeUrlParams,
    QueueDelayParams,
    QueueWithinCrawlParams,
    URLStatusRequest,
)

LONG_KEY = "k" * 256
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
PROGRAM = ("-m", "urlfrontier_gateway")


@pytest.mark.parametrize(
    ("rpc", "request_", "code", "message"),
    [
        ("GetURLs", GetParams(key="k"), INVALID, "crawlID must be set when key is"),
        ("GetURLs", GetParams(key=LONG_KEY, crawlID=""), INVALID, "key must have at most 255 characters"),
        ("GetStats", QueueWithinCrawlParams(key=LONG_KEY), INVALID, "key must have at most 255 characters"),
        ("DeleteQueue", QueueWithinCrawlParams(), INVALID, "key must not be empty"),
        ("BlockQueueUntil", BlockQueueParams(time=1), INVALID, "key must not be empty"),
        (
            "SetDelay",
            QueueDelayParams(delay_requestable=86_401),
            INVALID,
            "delay_requestable must be between 0 and 86400, got 86401",
        ),
        ("SetCrawlLimit", CrawlLimitParams(key="none", limit=1), NOT_FOUND, "no queue with the key 'none'"),
        ("GetURLStatus", URLStatusRequest(url="http://none.example/"), NOT_FOUND, "the URL is unknown"),
        ("GetURLStatus", URLStatusRequest(url="mailto:a@b", key="k"), NOT_FOUND, "the URL is unknown"),
        ("GetURLStatus", URLStatusRequest(), INVALID, "key must not be empty"),
        ("ListURLs", ListUrlParams(filter="." * 3000), INVALID, "filter must have at most 4096"),
        ("CountURLs", CountUrlParams(key=LONG_KEY), INVALID, "key must have at most 255 characters"),
        ("PurgeURLs", PurgeUrlParams(key=LONG_KEY), INVALID, "key must have at most 255 characters"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    client: Client, rpc: str, request_: Message, code: grpc.StatusCode, message: str
) -> None:
    client.put(discovered("http://refused.example/"))
    found, told = code_of(getattr(client.stub, rpc), request_)
    assert (found, message in told) == (code, True), told


def test_a_crawl_that_is_not_there_is_empty(client: Client) -> None:
    other = "no such crawl"
    assert client.get(other) == client.urls(crawlID=other) == []
    assert client.stats(crawl_id=other).size == client.stats("k", other).size == 0
    assert list(client.stub.ListQueues(Pagination(crawlID=other)).values) == []
    counts = (
        client.stub.CountURLs(CountUrlParams(crawlID=other)),
        client.stub.PurgeURLs(PurgeUrlParams(crawlID=other)),
        client.stub.DeleteQueue(QueueWithinCrawlParams(crawlID=other, key="k")),
        client.stub.DeleteCrawl(DeleteCrawlMessage(value=other)),
    )
    assert counts == (Long(),) * 4
    assert other not in client.crawl_ids()


@pytest.mark.parametrize(
    "method", list(DESCRIPTOR.services_by_name["URLFrontier"].methods), ids=lambda m: m.name
)
def test_a_message_that_is_broken_is_the_callers_error(gateway: GatewayProcess, method: Any) -> None:
    name, broken = method.name, b"\xff\xff\xff"
    path = f"/urlfrontier.URLFrontier/{name}"
    with grpc.insecure_channel(gateway.address) as opened:
        channel: Any = opened
        answers: Any = (
            channel.stream_stream(path)(iter([broken]), timeout=PATIENCE_S)
            if name.startswith("Put")
            else channel.unary_stream(path)(broken, timeout=PATIENCE_S)
        )
        with pytest.raises(grpc.RpcError) as raised:
            list(answers)
    assert raised.value.code() == INVALID
    assert "Traceback" not in gateway.errors.read_text()


def test_the_log_level_can_be_changed(gateway: GatewayProcess, client: Client, crawl_id: str) -> None:
    client.stub.SetLogLevel(LogLevelParams(package="crawlercommons", level=LogLevelParams.ERROR))
    client.put(discovered("http://quiet.example/", crawl_id=crawl_id))
    client.stub.SetLogLevel(LogLevelParams(level=LogLevelParams.INFO))
    client.put(discovered("http://quiet.example/", crawl_id=f"{crawl_id} loud"))
    log = gateway.errors.read_text()
    assert f'"crawl_id": "{crawl_id}"' not in log
    assert f'"crawl_id": "{crawl_id} loud"' in log


def test_list_nodes_tells_the_address(gateway: GatewayProcess, client: Client) -> None:
    assert list(client.stub.ListNodes(Empty()).values) == [gateway.address]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "0.0.0.0:0"), "0.0.0.0 is not a loopback address"),
        (("--listen", "nowhere"), "must be HOST:PORT, such as 127.0.0.1:7071"),
        (("--listen", "127.0.0.1:70000"), "must be HOST:PORT"),
        (("--frontier", "nowhere"), "the address of a frontier must be HOST:PORT"),
        (("--name", ""), "must have 1 to 128 printable characters"),
    ],
)
def test_an_argument_that_makes_no_sense_ends_the_program(arguments: tuple[str, ...], message: str) -> None:
    ended = run_to_end(*arguments, program=PROGRAM)
    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.split())


def test_a_port_that_is_taken_ends_the_program(gateway: GatewayProcess) -> None:
    ended = run_to_end("--listen", gateway.address, program=PROGRAM)
    assert ended.returncode == 2
    assert "cannot listen on" in ended.stderr
