"""`toehold pause`, `resume` and `stop`: ask a crawl to reach a state and, if wanted, wait until it has."""

from __future__ import annotations

from collections.abc import Collection

import click

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold_client import show
from toehold_client.controller import CrawlController
from toehold_client.plain import to_plain

from .options import json_option, wait_option, with_crawl


@click.command()
@wait_option
@json_option
@with_crawl
def pause(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Pause a crawl: no more URIs are given out.

    It is PAUSED when the fetches under way have ended. `toehold resume` lets it go on.
    """
    _tell(crawl, _reached(crawl, crawl.pause(), {CrawlState.CRAWL_STATE_PAUSED}, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def resume(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Let a crawl go on that pauses or is paused."""
    running = {CrawlState.CRAWL_STATE_RUNNING, CrawlState.CRAWL_STATE_EMPTY}
    _tell(crawl, _reached(crawl, crawl.resume(), running, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def stop(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """End a crawl for good.

    It is FINISHED when the fetches under way have ended. It cannot be resumed; what it found out stays until
    `toehold delete`.
    """
    _tell(crawl, _reached(crawl, crawl.stop(), {CrawlState.CRAWL_STATE_FINISHED}, wait_s), as_json)


def _reached(
    crawl: CrawlController,
    status: CrawlStatus,
    states: Collection[CrawlState.ValueType],
    wait_s: float | None,
) -> CrawlStatus:
    if wait_s is None or status.state in states:
        return status
    return crawl.wait_for(states, wait_s)


def _tell(crawl: CrawlController, status: CrawlStatus, as_json: bool) -> None:
    if as_json:
        show.record({"crawl": crawl.crawl, "status": to_plain(status)})
    else:
        show.line(f"{crawl.crawl}: {show.status_words(status)}")
