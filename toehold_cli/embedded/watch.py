"""Watches a running crawl: shows it, and pauses it when a signal comes."""

import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, TargetState
from toehold_cli.live.displays import LINE_S, Display
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import CrawlFinished, FrontierUnavailable, IllegalState
from toehold_client.text import duration_text
from toehold_client.watching.interruptions import Bell, Interruptions
from toehold_client.watching.observer import AWAY, Beat, Observer

from .directory import CrawlDirectory

GRACE_S = 10.0
"""Time after the fetch deadline for the report of a page to arrive."""

MOST_PREPARING_S = 600.0
"""Longest wait for a crawl that cannot pause yet, because its seeds are being announced."""

MOST_SILENCE_S = 60.0
"""Longest time to wait for a frontier that runs but does not answer."""

_TICK_S = 0.5


class Ending(Enum):
    """Why the watch ended."""

    FINISHED = "finished"
    PAUSED = "paused"
    STOPPED = "stopped"  # at once, with fetches under way


class Watch:
    """The watch over one crawl. Each tick calls `check`, which raises an error if the crawl cannot go on."""

    def __init__(
        self,
        client: FrontierClient,
        crawl: Crawl,
        directory: CrawlDirectory,
        display: Display,
        interruptions: Interruptions,
        check: Callable[[], None],
    ) -> None:
        self._client = client
        self._crawl = crawl
        self._pause_s = crawl.spec.fetch.timeout.ToMilliseconds() / 1000 + GRACE_S
        self._directory = directory
        self._display = display
        self._interruptions = interruptions
        self._check = check
        self._beat = Beat(LINE_S)
        self._pause_accepted = False
        self._give_up_s: float | None = None
        self._told: set[str] = set()

    def until_end(self) -> Ending:
        """Watches until the crawl has finished, has paused because of a signal, or is to be stopped at once.

        FrontierUnavailable or DeadlineExceeded if the frontier has not answered for `MOST_SILENCE_S`.
        """
        controller = CrawlController(self._client, self._crawl.crawl)
        with Bell() as bell:
            observer = Observer(controller, bell.ring, logs=self._directory.crawl_logs(self._crawl.crawl))
            try:
                return self._until_end(observer, bell)
            finally:
                observer.close()

    def _until_end(self, observer: Observer, bell: Bell) -> Ending:
        answered_s = time.monotonic()
        while True:
            self._check()
            try:
                ending = self._tick(observer)
                answered_s = time.monotonic()
            except AWAY:
                if time.monotonic() > answered_s + MOST_SILENCE_S:
                    raise
                ending = Ending.STOPPED if self._interruptions.count >= 2 else None
            if ending is not None:
                return ending
            if self._interruptions.wait(_TICK_S, bell.fileno()):
                bell.silence()

    def _tick(self, observer: Observer) -> Ending | None:
        look = replace(observer.look(), due=self._beat.is_due())
        self._display.show(look)
        if look.away:
            raise FrontierUnavailable(look.away)
        state = look.status.state
        if state == CrawlState.CRAWL_STATE_FINISHED:
            return Ending.FINISHED
        if self._interruptions.count == 0:
            if state == CrawlState.CRAWL_STATE_PAUSED:
                reason = look.status.reason
                self._say_once(
                    f"Paused{f': {reason}' if reason else ' by another command'}.\n"
                    "Ctrl-C ends this command and leaves the crawl paused.\n"
                    f"To resume: toehold resume --dir {self._directory.path}"
                )
            return None
        return self._pause(state)

    def _pause(self, state: CrawlState.ValueType) -> Ending | None:
        if self._interruptions.count >= 2:
            return Ending.STOPPED
        if self._pause_accepted and state == CrawlState.CRAWL_STATE_PAUSED:
            return Ending.PAUSED
        now_s = time.monotonic()
        if self._give_up_s is None:
            self._give_up_s = now_s + MOST_PREPARING_S
        if not self._pause_accepted:
            try:
                self._client.request_state(self._crawl.crawl, TargetState.TARGET_STATE_PAUSE)
            except IllegalState:
                self._say_once("Pausing as soon as the crawl allows it.\nCtrl-C again stops at once.")
            except CrawlFinished:
                return None  # the next tick tells
            else:
                self._pause_accepted = True
                self._give_up_s = now_s + self._pause_s
                self._say_once(
                    "Pausing when the present fetches have ended, in "
                    f"{duration_text(self._pause_s)} at most.\n"
                    "Ctrl-C again stops at once."
                )
                return None
        if now_s > self._give_up_s:
            self._say_once("The crawl has not paused in time. Stopping it at once.")
            return Ending.STOPPED
        return None

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._display.say(text)
