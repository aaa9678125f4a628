"""A node that waits for a lease gets it as soon as changed settings allow it."""

from typing import Any

import pytest
from frontier_harness.calls import TIMEOUT_S, released, seconds, seed_of, spec
from frontier_harness.hosted import Hosted
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2


def test_who_waits_for_a_lease_gets_one_when_more_toes_are_allowed(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t", "a."), seed_of("t", "b."), of=spec(max_toes=1))
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 1
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner.waiting, "a node that waits")
    stubs.update("t", max_toes=2)
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 1


@pytest.mark.parametrize("how", ["politeness", "groups", "override"])
def test_more_requests_at_once_are_made_at_once(at: Hosted, how: str) -> None:
    """They do not wait for the one that is out, which may be slow."""
    stubs = at.stubs
    group = crawl_pb2.HostGroup(name="g", hosts=["a.t.example", "b.t.example", "c.t.example"])
    first = spec(queues=crawl_pb2.QueueSpec(parallel_queues=9))
    seeds = [f"{seed_of('t')}{folder}/" for folder in range(20)]
    if how == "groups":
        first, seeds = spec(groups=[group]), [f"http://{host}/" for host in group.hosts]
    stubs.launch("t", *seeds, of=first)
    (slow,) = stubs.pages("t")
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner.waiting, "a node that waits")
    parallel = crawl_pb2.PolitenessSpec(max_parallel=3)
    if how == "override":
        stubs.ask(
            "PutOverride", "t", override={"surt_prefix": "t.example", "settings": {"politeness": parallel}}
        )
    elif how == "politeness":
        stubs.update("t", politeness=parallel)
    else:
        group.max_parallel = 3
        stubs.update("t", groups=[group])
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 2
    assert stubs.statistics("t").leased_count == 3
    stubs.finish(released(slow))
