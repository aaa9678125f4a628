"""The watch over a crawl: what a signal does in which state, and when it gives up waiting.

The frontier is a script of states; time passes only in waits.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_cli.embedded import watch
from toehold_cli.embedded.directory import CrawlDirectory, Locks
from toehold_cli.embedded.watch import Ending, Watch
from toehold_client.client import FrontierClient
from toehold_client.errors import CrawlFinished, FrontierUnavailable, IllegalState
from toehold_client.watching.interruptions import Interruptions
from toehold_client.watching.look import Look

FETCH_S = 20.0
RUNNING, PREPARING = crawl_pb2.CrawlState.CRAWL_STATE_RUNNING, crawl_pb2.CrawlState.CRAWL_STATE_PREPARING
PAUSING, PAUSED = crawl_pb2.CrawlState.CRAWL_STATE_PAUSING, crawl_pb2.CrawlState.CRAWL_STATE_PAUSED
FINISHED = crawl_pb2.CrawlState.CRAWL_STATE_FINISHED
AWAY = None


class Stage:
    """Frontier, clock, signals and screen of one test: at each tick the next state, the last one for ever.

    `signals` are the ticks, counted from 1, after which one comes.
    """

    address = "127.0.0.1:7707"

    def __init__(self, states: list[crawl_pb2.CrawlState.ValueType | None], signals: list[int]) -> None:
        self.states = states
        self.signals = signals
        self.count = 0
        self.ticks = 0
        self.now_s = 1_000.0
        self.requests: list[crawl_pb2.TargetState.ValueType] = []
        self.refusal: Exception | None = None
        self.said: list[str] = []
        self.reason = ""
        self.seen: Look | None = None
        self.shown: list[Look] = []
        self.closed = False

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, seconds: float, readable: int | None = None) -> bool:
        self.now_s += seconds
        self.count += self.signals.count(self.ticks)
        return False

    def look(self) -> Look:
        self.ticks += 1
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is AWAY and self.seen is None:
            raise FrontierUnavailable("no frontier answers")
        if state is AWAY:
            assert self.seen is not None
            return replace(self.seen, away="no frontier answers")
        status = crawl_pb2.CrawlStatus(state=state, reason=self.reason)
        self.seen = Look(self.address, admin_pb2.Crawl(crawl="crawl"), status, crawl_pb2.Statistics(), "")
        return self.seen

    def close(self) -> None:
        self.closed = True

    def request_state(self, crawl: str, target: crawl_pb2.TargetState.ValueType) -> None:
        self.requests.append(target)
        if self.refusal is not None:
            raise self.refusal

    def show(self, look: Look) -> None:
        self.shown.append(look)

    def say(self, text: str) -> None:
        self.said.append(text)

    def watch(self) -> Watch:
        spec = crawl_pb2.CrawlSpec(fetch=crawl_pb2.FetchSpec(timeout=Duration(seconds=int(FETCH_S))))
        directory = CrawlDirectory(Path("nowhere"), Locks(-1, -1), asked=None, made=True, aside=None)
        return Watch(
            cast(FrontierClient, self),
            admin_pb2.Crawl(crawl="crawl", spec=spec),
            directory,
            cast(Any, self),
            cast(Interruptions, self),
            lambda: None,
        )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def make(*states: crawl_pb2.CrawlState.ValueType | None, signals: tuple[int, ...] = ()) -> Stage:
        made = Stage(list(states), list(signals))
        monkeypatch.setattr(watch, "time", made)
        monkeypatch.setattr(watch, "Observer", lambda *_, **__: made)
        return made

    yield make


def test_without_a_signal_it_watches_to_the_end(stage: Any) -> None:
    play = stage(PREPARING, RUNNING, RUNNING, FINISHED)
    assert play.watch().until_end() is Ending.FINISHED
    assert play.requests == []
    assert [look.status.state for look in play.shown] == [PREPARING, RUNNING, RUNNING, FINISHED]
    assert play.closed, "nobody listens to events any more"


def test_the_first_signal_pauses_once_and_waits_until_it_is_paused(stage: Any) -> None:
    play = stage(RUNNING, RUNNING, PAUSING, PAUSING, PAUSED, signals=(1,))
    assert play.watch().until_end() is Ending.PAUSED
    assert play.requests == [crawl_pb2.TargetState.TARGET_STATE_PAUSE]
    assert "Ctrl-C again stops at once" in play.said[0]


def test_the_wait_for_the_pause_ends_soon_after_the_fetch_deadline(stage: Any) -> None:
    play = stage(RUNNING, PAUSING, signals=(1,))
    assert play.watch().until_end() is Ending.STOPPED
    assert FETCH_S < play.now_s - 1_000 < FETCH_S + watch.GRACE_S + 3
    assert "not paused in time" in play.said[-1]


def test_the_second_signal_stops_at_once(stage: Any) -> None:
    play = stage(RUNNING, PAUSING, PAUSING, signals=(1, 3))
    assert play.watch().until_end() is Ending.STOPPED
    assert play.now_s - 1_000 < 3


def test_two_signals_at_the_same_time_stop_at_once(stage: Any) -> None:
    play = stage(RUNNING, signals=(1, 1))
    assert play.watch().until_end() is Ending.STOPPED
    assert play.requests == []


def test_while_the_crawl_cannot_pause_it_is_asked_again_until_it_can(stage: Any) -> None:
    play = stage(PREPARING, signals=(1,))
    play.refusal = IllegalState("it is PREPARING", reason="ILLEGAL_STATE", metadata={"state": "PREPARING"})
    original = play.request_state

    def accepts_the_third(crawl: str, target: crawl_pb2.TargetState.ValueType) -> None:
        if len(play.requests) == 2:
            play.refusal, play.states = None, [RUNNING, PAUSING, PAUSED]
        original(crawl, target)

    play.request_state = accepts_the_third
    assert play.watch().until_end() is Ending.PAUSED
    assert play.requests == [crawl_pb2.TargetState.TARGET_STATE_PAUSE] * 3
    assert len(play.said) == 2, "it says so once, and again when it pauses"


def test_a_crawl_that_can_never_pause_is_stopped_in_the_end(stage: Any) -> None:
    play = stage(PREPARING, signals=(1,))
    play.refusal = IllegalState("it is PREPARING", reason="ILLEGAL_STATE")
    assert play.watch().until_end() is Ending.STOPPED
    assert watch.MOST_PREPARING_S <= play.now_s - 1_000 < watch.MOST_PREPARING_S + 3


def test_a_crawl_that_finishes_while_it_is_to_pause_has_finished(stage: Any) -> None:
    play = stage(RUNNING, RUNNING, FINISHED, signals=(1,))
    play.refusal = CrawlFinished("it has finished", reason="CRAWL_FINISHED")
    assert play.watch().until_end() is Ending.FINISHED


def test_a_crawl_paused_from_elsewhere_is_waited_for_and_a_signal_leaves_it_paused(stage: Any) -> None:
    play = stage(RUNNING, PAUSED, signals=(50,))
    assert play.watch().until_end() is Ending.PAUSED
    assert play.ticks > 50
    assert play.requests == [crawl_pb2.TargetState.TARGET_STATE_PAUSE], "so that nothing resumes it meanwhile"
    assert [text for text in play.said if "toehold resume --dir" in text] == play.said[:1]


def test_a_frontier_that_is_silent_for_a_while_is_waited_for(stage: Any) -> None:
    play = stage(*[AWAY] * 20, RUNNING, *[AWAY] * 20, FINISHED)
    assert play.watch().until_end() is Ending.FINISHED
    assert [bool(look.away) for look in play.shown] == [False, *[True] * 20, False]


def test_a_frontier_that_is_silent_for_too_long_is_given_up(stage: Any) -> None:
    play = stage(RUNNING, AWAY)
    with pytest.raises(FrontierUnavailable):
        play.watch().until_end()
    assert watch.MOST_SILENCE_S <= play.now_s - 1_000 < watch.MOST_SILENCE_S + 3


def test_two_signals_stop_even_while_the_frontier_is_silent(stage: Any) -> None:
    play = stage(RUNNING, AWAY, signals=(2, 3))
    assert play.watch().until_end() is Ending.STOPPED


def test_a_crawl_that_trouble_has_paused_is_told_with_the_reason(stage: Any) -> None:
    play = stage(RUNNING, PAUSED, signals=(3,))
    play.reason = "node-trouble: 100 MB are free"
    assert play.watch().until_end() is Ending.PAUSED
    assert play.said[0].startswith("Paused: node-trouble: 100 MB are free.\nCtrl-C ends this command")
    assert "\nTo resume: toehold resume --dir " in play.said[0]
