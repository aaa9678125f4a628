"""The relay of the conformance kit between a fetcher and the frontier."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import frontier_pb2 as pb
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub
from toehold_conformance.tap import Tap


class SlowFrontier(grpc.GenericRpcHandler):
    """A frontier that takes reports, and answers when it is told to."""

    def __init__(self) -> None:
        self.has_report = threading.Event()
        self.answers = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, pb.FinishedResponse]:
        return grpc.unary_unary_rpc_method_handler(
            self._finished, response_serializer=pb.FinishedResponse.SerializeToString
        )

    def _finished(self, request: bytes, context: grpc.ServicerContext) -> pb.FinishedResponse:
        self.has_report.set()
        assert self.answers.wait(PATIENCE_S)
        return pb.FinishedResponse(results=[pb.ReportResult()])


@pytest.fixture
def slow() -> SlowFrontier:
    return SlowFrontier()


@pytest.fixture
def tap(slow: SlowFrontier) -> Iterator[Tap]:
    server, tap = grpc.server(ThreadPoolExecutor(2), [slow]), Tap()
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tap.open(f"127.0.0.1:{port}")
    yield tap
    slow.answers.set()
    tap.end()
    server.stop(None).wait()


REPORT = pb.FinishedRequest(reports=[pb.Report()])


def test_a_call_without_a_deadline_is_handed_on(slow: SlowFrontier, tap: Tap) -> None:
    slow.answers.set()
    with grpc.insecure_channel(tap.address) as channel:
        assert FrontierServiceStub(channel).Finished(REPORT).results


def test_the_result_of_a_report_is_seen_although_its_fetcher_hangs_up(slow: SlowFrontier, tap: Tap) -> None:
    with grpc.insecure_channel(tap.address) as channel:
        reporting = FrontierServiceStub(channel).Finished.future(REPORT, timeout=PATIENCE_S)
        assert slow.has_report.wait(PATIENCE_S)
        reporting.cancel()
    slow.answers.set()
    eventually(lambda: not tap.calls[0].is_under_way)
    assert tap.calls[0].response.results
