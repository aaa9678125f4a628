"""`toehold pause`, `resume`, `hold`, `stop` and `teardown`: bring a crawl into another state."""

from collections.abc import Collection

import click

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold_cli import output
from toehold_cli.numbers import Real
from toehold_client.controller import CrawlController
from toehold_client.errors import CrawlFinished, DeadlineExceeded, WaitTimedOut
from toehold_client.spec.plain import to_plain
from toehold_client.waits import TEARDOWN_S

from .options import json_option, wait_option, with_crawl


@click.command()
@wait_option
@json_option
@with_crawl
def pause(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Pause a crawl.

    The crawl is PAUSED when its last fetch has ended, or after its pause_timeout. `toehold resume` continues
    it. Pausing a held crawl releases it, but it stays PAUSED.
    """
    _tell(crawl, _reached(crawl, crawl.pause(), {CrawlState.CRAWL_STATE_PAUSED}, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def resume(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Resume a crawl that is pausing, paused or held."""
    running = {CrawlState.CRAWL_STATE_RUNNING, CrawlState.CRAWL_STATE_EMPTY}
    _tell(crawl, _reached(crawl, crawl.resume(), running, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def hold(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Pause a crawl, and stop all writes to its data.

    The frontier refuses all changes to a held crawl. `toehold resume` continues the crawl; `toehold pause`
    only allows changes again.
    """
    status = crawl.hold()
    _tell(crawl, status if wait_s is None or status.held else _held(crawl, wait_s), as_json)


@click.command()
@wait_option
@json_option
@with_crawl
def stop(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """End a crawl.

    The crawl is FINISHED when its last fetch has ended, or after its stop_timeout. A second `toehold stop`
    interrupts the fetches, and the crawl is FINISHED within 15 s. `toehold reopen` lets it run
    again. Its data stay until `toehold delete`.
    """
    _tell(crawl, _reached(crawl, crawl.stop(), {CrawlState.CRAWL_STATE_FINISHED}, wait_s), as_json)


@click.command()
@click.option(
    "--wait",
    "wait_s",
    type=Real(min=0, max=31_536_000),
    metavar="SECONDS",
    help=f"Wait up to this long for the teardown, and fail if it is not complete then.  [default: wait up to "
    f"{TEARDOWN_S:g} s, without failing]",
)
@json_option
@with_crawl
def teardown(crawl: CrawlController, wait_s: float | None, as_json: bool) -> None:
    """Stop a crawl, and remove it from the frontier's memory.

    You can read its stored data until `toehold delete`. If the teardown is not complete when this command
    ends, the frontier completes it. If the crawl is stopping already, its fetches are interrupted.
    """
    complete = crawl.teardown(TEARDOWN_S if wait_s is None else wait_s)
    if wait_s is not None and not complete:
        raise WaitTimedOut(
            f"{crawl.crawl} was not torn down within {wait_s:g} s; the frontier completes the teardown"
        )
    output.result(
        {"crawl": crawl.crawl, "complete": complete},
        f"{crawl.crawl}: {'torn down' if complete else 'being torn down; the frontier completes it'}",
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
        raise WaitTimedOut(f"{crawl.crawl} was not held within {wait_s:g} s; its state is {state}") from None
    raise CrawlFinished(f"{crawl.crawl} has ended, so it will not be held")


def _tell(crawl: CrawlController, status: CrawlStatus, as_json: bool) -> None:
    output.result(
        {"crawl": crawl.crawl, "status": to_plain(status)},
        f"{crawl.crawl}: {output.status_and_reason(status)}",
        as_json=as_json,
    )
