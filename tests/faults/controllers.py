"""Controllers as programs: each line on standard input, `STEP CRAWL`, has one take a step of a crawl's life.

    controllers.py ADDRESS OPERATOR [--fork]

One after the other they are this very process, which says that it is `ready`, and then of each step that is
done `CRAWL BEGUN DONE`: whether it began the crawl's teardown, and what it returned. With `--fork` each is a
process of its own, whose id is said when it starts, and nothing else.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping

from frontier_harness.calls import seed_of, spec
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1.admin_pb2 import TearDownCrawlResponse
from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import UnknownCrawl

SEED_COUNT = 1_100
"""More than one message takes."""


def launch(controller: CrawlController) -> bool:
    """Launches the crawl, or goes on with its launch where another controller has left it."""
    try:
        state = controller.status().state
    except UnknownCrawl:
        state = CrawlState.CRAWL_STATE_NASCENT
    if state == CrawlState.CRAWL_STATE_NASCENT:
        seeds = (f"{seed_of(controller.crawl)}{number}" for number in range(SEED_COUNT))
        controller.create(spec(), seeds)
        controller.launch()
    return bool(controller.wait_for({CrawlState.CRAWL_STATE_RUNNING}, PATIENCE_S))


def pause(controller: CrawlController) -> bool:
    """Pauses the crawl."""
    controller.pause()
    return bool(controller.wait_for({CrawlState.CRAWL_STATE_PAUSED}, PATIENCE_S))


def stop(controller: CrawlController) -> bool:
    """Stops the crawl."""
    controller.stop()
    return bool(controller.wait_for({CrawlState.CRAWL_STATE_FINISHED}, PATIENCE_S))


def teardown(controller: CrawlController) -> bool:
    """Tears the crawl down."""
    return controller.teardown(PATIENCE_S)


STEPS: Mapping[str, Callable[[CrawlController], bool]] = {
    step.__name__: step for step in (launch, pause, stop, teardown)
}


class Noting(FrontierClient):
    """A client that notes whether it began a teardown."""

    begun = False

    def tear_down_crawl(self, crawl: str) -> TearDownCrawlResponse:
        """See FrontierClient."""
        answer = super().tear_down_crawl(crawl)
        self.begun = answer.begun
        return answer


def main() -> None:
    """The program."""
    address, operator = sys.argv[1:3]
    if "--fork" in sys.argv:
        _fork(address, operator)
        return
    with Noting(address, patience_s=PATIENCE_S, operator=operator) as frontier:
        frontier.get_frontier()
        print("ready", flush=True)
        for line in sys.stdin:
            step, crawl = line.split()
            frontier.begun = False
            done = STEPS[step](CrawlController(frontier, crawl))
            print(crawl, frontier.begun, done, flush=True)


def _fork(address: str, operator: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who is killed leaves nothing behind
    for line in sys.stdin:
        step, crawl = line.split()
        pid = os.fork()
        if not pid:
            with FrontierClient(address, patience_s=PATIENCE_S, operator=operator) as frontier:
                STEPS[step](CrawlController(frontier, crawl))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
