"""The play of all cases that only need hosts: the fetcher crawls them from beginning to end, and then one
page a second time.
"""

import time
from collections.abc import Mapping

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, RetrySpec, RobotsSpec
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_conformance.answers import LEAF, Pages, page
from toehold_conformance.case import Play
from toehold_conformance.stage import Stage

REVISITED = "revisit"
"""The case whose first page is fetched twice."""

TARGETS = "/robots/"
"""The folder of what a robots.txt redirects to: requests there need no lease."""

_IDLE_S = 1.5


def _direct(stage: Stage) -> None:
    stage.fetch()
    stage.wait_for_state(CrawlState.CRAWL_STATE_EMPTY)
    if stage.has(REVISITED):
        again = Candidate(uri=stage.uri(REVISITED))
        again.refetch_before_time.GetCurrentTime()
        stage.schedule(again)
        stage.wait_for_state(CrawlState.CRAWL_STATE_EMPTY)
    stage.note("idle")
    time.sleep(_IDLE_S)


_SPEC = CrawlSpec(
    run_while_empty=True, retry=RetrySpec(max_attempts=1), robots=RobotsSpec(max_attempts=1)
)  # nothing is tried twice

_HOSTS: Mapping[str, Pages] = {"": {"/": page("/leaf"), "/leaf": LEAF}}  # for cases without hosts

SITE = Play("site", _direct, _HOSTS, _SPEC)
