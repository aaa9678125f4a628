"""A host's rests by its own count, while two nodes with kept connections fetch it for two crawls."""

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from frontier_harness.calls import spec
from frontier_harness.nodes import node_of
from frontier_harness.process import ServerProcess
from frontier_harness.small_site import small_site

from toehold.frontier.v1.crawl_pb2 import CRAWL_STATE_FINISHED

PAGES = 5
CRAWLS = ("one", "two")
ANSWER_S = 0.02


@pytest.mark.parametrize(("robots", "rest_s"), [("", 0.2), ("User-agent: *\nCrawl-delay: 0.4\n", 0.4)])
def test_a_host_rests_between_the_requests_of_all_nodes_and_crawls(
    tmp_path: Path, robots: str, rest_s: float
) -> None:
    with ExitStack() as stack:
        site = stack.enter_context(small_site(PAGES))
        site.answer_s = ANSWER_S
        if robots:
            site.robots["127.0.0.1"] = robots
        frontier = stack.enter_context(ServerProcess(tmp_path / "data"))
        for name in ("a", "b"):
            options = "--name", name, "--toes", "6", "--processes", "2", "--pages", str(tmp_path / name)
            stack.enter_context(node_of(frontier, *options))
        for crawl in CRAWLS:
            frontier.stubs.launch(crawl, site.url(), of=spec(min_delay_s=0.2))
        for crawl in CRAWLS:
            frontier.stubs.until(crawl, CRAWL_STATE_FINISHED)
        kept = sum(frontier.stubs.statistics(crawl).kept_connection_count for crawl in CRAWLS)
    spans_s = sorted(site.spans_s)
    assert len(spans_s) == len(CRAWLS) * (1 + PAGES)
    assert kept > 0
    assert site.most_at_once == 1
    assert min(came_s - ended_s for (_, ended_s), (came_s, _) in pairwise(spans_s)) >= rest_s
