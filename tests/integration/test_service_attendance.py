"""Which nodes fetch for a crawl: they join with their first lease, and leave, fall silent or are replaced."""

from functools import partial

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S, Stubs, refused, released
from frontier_harness.hosted import Hosted

from toehold.frontier.v1 import admin_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def attendance(stubs: Stubs, crawl: str = "t") -> list[str]:
    """Who joined and left."""
    found = []
    for event in stubs.events_so_far(crawl):
        if event.HasField("node_joined"):
            found.append(f"{event.node_joined.node}/{event.node_joined.session} joins")
        elif event.HasField("node_left"):
            found.append(f"{event.node_left.node}/{event.node_left.session} {event.node_left.reason}")
    return found


def leave(stubs: Stubs, node: str = "node", session: str = "session") -> frontier_pb2.HeartbeatResponse:
    beat = frontier_pb2.HeartbeatRequest(node=node, session=session, leaving=True)
    return stubs.frontier.Heartbeat(beat, timeout=TIMEOUT_S)


def test_a_node_joins_with_its_first_lease_and_leaves_when_it_says_so(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A, B)
    stubs.heartbeat(node="looks")
    assert attendance(stubs) == []
    leases = stubs.next("t", 100, TIMEOUT_S).leases
    assert attendance(stubs) == ["node/session joins"]
    stubs.finish(*(released(lease) for lease in leases))
    stubs.next("t", 100, TIMEOUT_S)
    leave(stubs)
    leave(stubs)
    assert attendance(stubs) == ["node/session joins", "node/session left"]
    leave(stubs, "looks")
    leave(stubs, "never heard of")
    assert attendance(stubs) == ["node/session joins", "node/session left"]


def test_a_node_that_drains_is_told_with_each_heartbeat_and_its_next_process_is_not(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    (lease,) = stubs.next("t", wait_s=TIMEOUT_S).leases
    assert not stubs.heartbeat([lease.token]).drain
    for _ in range(2):
        stubs.admin.DrainNode(admin_pb2.DrainNodeRequest(node="node"), timeout=TIMEOUT_S)
        assert stubs.heartbeat([lease.token]).drain
    told = [event.operator_acted for event in stubs.events_so_far("t") if event.HasField("operator_acted")]
    assert [(each.action, each.detail) for each in told if each.action == "drain-node"] == [
        ("drain-node", "node")
    ]
    assert not stubs.heartbeat(node="node", session="the next").drain


def test_a_node_that_is_not_there_cannot_be_drained(at: Hosted) -> None:
    request = admin_pb2.DrainNodeRequest(node="nobody")
    drain = partial(at.stubs.admin.DrainNode, request, timeout=TIMEOUT_S)
    refused(drain, grpc.StatusCode.NOT_FOUND, "UNKNOWN_NODE", "nobody")


def test_what_a_node_tells_of_itself_is_listed(at: Hosted) -> None:
    pool = frontier_pb2.PoolStatistics(size=4, alive_count=3, died_count=2, killed_count=1, abandoned_count=1)
    beat = frontier_pb2.HeartbeatRequest(node="n", session="1", pool=pool, service_address="127.0.0.1:7708")
    at.stubs.frontier.Heartbeat(beat, timeout=TIMEOUT_S)
    (node,) = at.stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S).nodes
    assert (node.pool, node.service_address, node.draining) == (pool, "127.0.0.1:7708", False)


@pytest.mark.parametrize(
    "address",
    [
        *("unix:/run/x.sock:1", "unix:/x", "dns:///a.example:1", "north", "north:", ":7708", "a b:1"),
        *("a:99999", "a\x1b:1"),
    ],
)
def test_a_service_address_without_host_and_port_is_refused(at: Hosted, address: str) -> None:
    """Operators' clients connect there."""
    beat = frontier_pb2.HeartbeatRequest(node="n", session="1", service_address=address)
    call = partial(at.stubs.frontier.Heartbeat, beat, timeout=TIMEOUT_S)
    refused(
        call, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE", "service_address must be HOST:PORT"
    )


@pytest.mark.parametrize("address", ["north.example:7708", "[::1]:7708", "[fe80::1%eth0]:1", "rack_7-a:0"])
def test_a_service_address_of_name_or_ip_address_with_port_is_accepted(at: Hosted, address: str) -> None:
    beat = frontier_pb2.HeartbeatRequest(node="n", session="1", service_address=address)
    at.stubs.frontier.Heartbeat(beat, timeout=TIMEOUT_S)
