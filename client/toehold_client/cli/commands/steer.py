"""`toehold pause`, `resume`, `hold`, `stop` and `teardown`: ask a crawl to reach a state and, if wanted, wait
until it has.
"""

from __future__ import annotations

from collections.abc import Collection

import click

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold_client.awaiting import TEARDOWN_S
from toehold_client.cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import CrawlFinished, DeadlineExceeded, WaitTimedOut
from toehold_client.spec.plain import to_plain

from .options import json_option, wait_option, with_crawl


@click.command()
@wait_option
@json_option
@with_crawl
def pause(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Pause a crawl: no more URIs are given out.

    It is PAUSED when the fetches under way have ended, or after its pause_timeout. `toehold resume` lets it
    go on. A crawl that is held may be changed again, and stays PAUSED.
    """
    _tell(crawl, _reached(crawl, crawl.pause(), {CrawlState.CRAWL_STATE_PAUSED}, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def resume(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Let a crawl go on that pauses, is paused or is held."""
    running = {CrawlState.CRAWL_STATE_RUNNING, CrawlState.CRAWL_STATE_EMPTY}
    _tell(crawl, _reached(crawl, crawl.resume(), running, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def hold(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Pause a crawl, and then let it stand still: nothing of it is written.

    Whatever would change it is refused meanwhile. `toehold resume` lets it go on, `toehold pause` only lets
    it be changed again.
    """
    status = crawl.hold()
    _tell(crawl, status if wait_s is None or status.held else _held(crawl, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def stop(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """End a crawl for good.

    It is FINISHED when the fetches under way have ended, or after its stop_timeout. Asked again while it
    stops, it has the fetches interrupted, and is FINISHED 15 s later at the latest. It cannot be resumed;
    what it found out stays until `toehold delete`.
    """
    _tell(crawl, _reached(crawl, crawl.stop(), {CrawlState.CRAWL_STATE_FINISHED}, wait_s), as_json)


@click.command()
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, max=31_536_000),
    metavar="SECONDS",
    help=f"Wait until it is complete, at most this long.  [default: {TEARDOWN_S:g}, and it may be "
    "incomplete then]",
)
@json_option
@with_crawl
def teardown(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Stop a crawl, if need be, and let the frontier's memory go of it.

    What is stored of it can be read until `toehold delete`. What is not complete when this command ends the
    frontier completes by itself. Of a crawl that stops already, the fetches are interrupted.
    """
    complete = crawl.teardown(TEARDOWN_S if wait_s is None else wait_s)
    if wait_s is not None and not complete:
        raise WaitTimedOut(
            f"{crawl.crawl} was not torn down within {wait_s:g} s; the frontier completes it by itself"
        )
    output.result(
        {"crawl": crawl.crawl, "complete": complete},
        f"{crawl.crawl}: {'torn down' if complete else 'being torn down, by the frontier itself'}",
        as_json=as_json,
    )


def _reached(
    crawl: CrawlController,
    status: CrawlStatus,
    states: Collection[CrawlState.ValueType],
    wait_s: float | None,
) -> CrawlStatus:
    if wait_s is None or status.state in states:
        return status
    return crawl.wait_for(states, wait_s)


def _held(crawl: CrawlController, wait_s: float) -> CrawlStatus:
    """Waits until the crawl is held; its status then."""
    stream = crawl.frontier.state_events(crawl.crawl, timeout_s=wait_s, reconnect_s=wait_s)
    try:
        with stream:
            if any(message.present.held or message.event.HasField("held") for message in stream):
                return crawl.status()
    except DeadlineExceeded:
        state = output.status_text(crawl.status())
        raise WaitTimedOut(
            f"{crawl.crawl} is not held after {wait_s:g} s of waiting; its state is {state}"
        ) from None
    raise CrawlFinished(f"{crawl.crawl} has ended, so it will not be held")


def _tell(crawl: CrawlController, status: CrawlStatus, as_json: bool) -> None:
    output.result(
        {"crawl": crawl.crawl, "status": to_plain(status)},
        f"{crawl.crawl}: {output.status_and_reason(status)}",
        as_json=as_json,
    )
