"""Fields, RPCs and events of a later version of the contract, as docs/operating.md says."""

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S, fresh_name, seed_of, spec
from frontier_harness.process import ServerProcess

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_client.events import Event

LATER = b"\xba\x3e\x05later"
"""Field 999, a text, as it goes over the wire."""


def test_a_frontier_ignores_fields_that_it_does_not_know(server: ServerProcess) -> None:
    crawl = fresh_name()
    asked = crawl_pb2.CrawlSpec.FromString(spec().SerializeToString() + LATER)
    server.stubs.launch(crawl, seed_of(crawl), of=asked)
    assert LATER not in server.stubs.describe(crawl).spec.SerializeToString()
    candidate = frontier_pb2.Candidate(uri=f"{seed_of(crawl)}page", path="L").SerializeToString() + LATER
    request = frontier_pb2.ScheduleRequest.FromString(
        frontier_pb2.ScheduleRequest(
            crawl=crawl, candidates=[frontier_pb2.Candidate.FromString(candidate)]
        ).SerializeToString()
        + LATER
    )
    answer = server.stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    assert list(answer.verdicts) == [crawl_pb2.VERDICT_QUEUED]
    # A candidate comes back as it was offered.
    (kept,) = [each.candidate for each in server.stubs.waiting(crawl) if each.candidate.path == "L"]
    assert LATER in kept.SerializeToString()


def test_an_rpc_that_a_frontier_lacks_is_unimplemented(server: ServerProcess) -> None:
    later: grpc.UnaryUnaryMultiCallable[bytes, bytes] = server.stubs.channel.unary_unary(
        "/toehold.frontier.v1.FrontierService/Later"
    )
    with pytest.raises(grpc.RpcError) as caught:
        later(b"", timeout=TIMEOUT_S)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_an_event_of_a_later_version_has_no_kind_and_a_sentence() -> None:
    event = Event(crawl_pb2.Event.FromString(crawl_pb2.Event(sequence=7).SerializeToString() + LATER))
    assert event.kind is None
    assert str(event)
