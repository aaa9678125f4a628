"""`toehold run`: a crawl from its launch to its end, in one command."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import click
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import GetStatisticsResponse
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold_cli import output
from toehold_cli.exits import ExitCode, exit_code_of_end
from toehold_cli.live.displays import LINE_S, following, new_console
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import (
    CrawlExists,
    CrawlFinished,
    IllegalState,
)
from toehold_client.events import Event
from toehold_client.rpc.retry import RECONNECT_S
from toehold_client.spec.file import SpecFile, differences
from toehold_client.spec.plain import seconds_of, to_plain
from toehold_client.text import bytes_text, count_text, duration_text
from toehold_client.watching.observer import AWAY, Beat, Observer

from .launch import create_crawl
from .options import json_option, with_spec
from .seeds import skip_option
from .which_frontier import CALL_TIMEOUT_S

NASCENT, PAUSED = CrawlState.CRAWL_STATE_NASCENT, CrawlState.CRAWL_STATE_PAUSED
FINISHED = CrawlState.CRAWL_STATE_FINISHED

_LOOK_S = 1.0
"""Between two looks at the crawl."""


@click.command()
@skip_option
@json_option
@with_spec(required=False)
def run(crawl: CrawlController, asked: SpecFile | None, skip: bool, as_json: bool) -> ExitCode:
    """Launch the crawl that the file SPEC describes, and follow it to its end.

    The command prints the crawl's events, and shows the crawl live: on a terminal below the events, elsewhere
    in a line every few seconds. With --json it prints the events and, at the end, the crawl's description and
    statistics. An existing crawl needs no SPEC: the command launches it, follows it from now on, or tells how
    it ended. If the frontier restarts, the command waits up to a minute for it.

    Ctrl-C ends this command, but not the crawl. The exit code tells how the crawl ended: 0 when nothing was
    left to fetch, 4 when no page was fetched, 7 at a limit of the spec, 8 when it was stopped.
    """
    begun = _begin(crawl, asked, skip)
    try:
        _follow(crawl, begun, as_json)
        with FrontierClient(
            crawl.frontier.address,
            timeout_s=CALL_TIMEOUT_S,
            patience_s=RECONNECT_S,
            credentials=crawl.frontier.credentials,
        ) as patient:
            ended = CrawlController(patient, crawl.crawl)
            described, end = ended.describe(), ended.statistics()
    except KeyboardInterrupt:
        output.note(f"The crawl goes on. To stop it: {_command('stop', crawl)}")
        return ExitCode.INTERRUPTED
    if as_json:
        statistics = {"status": to_plain(end.status), "statistics": to_plain(end.statistics)}
        output.record({**to_plain(described), **statistics})
    else:
        output.line(f"{crawl.crawl}: {_ended(end)}")
        if end.status.failure:
            output.line(f"{crawl.crawl} failed: {end.status.failure}")
    return exit_code_of_end(end.status)


def _begin(crawl: CrawlController, file: SpecFile | None, skip: bool) -> bool:
    """Makes sure that the crawl is launched; whether this command did it."""
    try:
        if file is not None:
            create_crawl(crawl, file, skip)
        crawl.launch()
    except (CrawlExists, IllegalState, CrawlFinished):  # launched before, or by somebody else just now
        found = crawl.describe()
        if found.status.state == NASCENT:  # another crawl of this name
            raise
        if file is not None and found.status.state != FINISHED and differences(found.spec, file.spec):
            output.note("The crawl runs with other settings than SPEC's. To change them: toehold update SPEC")
        return False
    return True


def _follow(crawl: CrawlController, from_its_start: bool, as_json: bool) -> None:
    """Prints the events, until the crawl has ended."""
    with crawl.frontier.state_events(crawl.crawl) as stream:
        now = next(stream)
    if now.present.state == FINISHED and not from_its_start:
        return
    cursor = "start" if from_its_start else now.cursor
    if as_json:
        for event in crawl.follow(cursor):
            output.record(to_plain(event.message))
        return
    console = new_console()
    display = following(console, events=False)
    observer, story, beat = Observer(crawl), _Story(crawl, display.say), Beat(LINE_S)

    def tell(event: Event) -> None:
        observer.hear(event)
        story.tell(event)

    with crawl, display:
        if not from_its_start:
            story.tell_status(now.present, now.present.reach_time)
            observer.catch_up()
        listener = crawl.listen(tell, cursor)
        while not listener.join(_LOOK_S):
            with suppress(*AWAY):  # the listener waits for it
                display.show(replace(observer.look(), due=beat.is_due()))


class _Story:
    """The events of a crawl, as lines for people."""

    def __init__(self, crawl: CrawlController, say: Callable[[str], None]) -> None:
        self._crawl = crawl
        self._say = say

    def tell(self, event: Event) -> None:
        """Prints an event, but no statistics: the display has them."""
        if event.HasField("statistics"):
            return
        if event.HasField("status_changed"):
            self.tell_status(event.status_changed, event.event_time)
        else:
            self._say(f"{output.moment(event.event_time)}  {event}")

    def tell_status(self, status: CrawlStatus, time: Timestamp) -> None:
        """Prints the crawl's status, and how to resume it if it is paused."""
        self._say(f"{output.moment(time)}  {output.status_and_reason(status)}")
        if status.state == PAUSED:
            self._say(f"To resume the crawl: {_command('resume', self._crawl)}")


def _ended(end: GetStatisticsResponse) -> str:
    statistics = end.statistics
    elapsed = duration_text(seconds_of(statistics.elapsed_duration))
    status = output.status_and_reason(end.status, statistics)
    return (
        f"{status}; {count_text(statistics.succeeded_count)} succeeded, "
        f"{bytes_text(statistics.bytes_count)}, {count_text(statistics.failed_count)} failed, "
        f"{count_text(statistics.disregarded_count)} disregarded, in {elapsed}"
    )


def _command(word: str, crawl: CrawlController) -> str:
    return f"toehold {word} --crawl {crawl.crawl} --frontier {crawl.frontier.address}"
