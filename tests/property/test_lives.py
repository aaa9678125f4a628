"""Any history of requests and faults, and what a crawl promises from wherever that has led to.

Some controllers ask of two crawls whatever they may, while nodes fetch, hang and go, time jumps, and the
server is restarted or loses a write. Then, each on a copy of what has come of it: a crawl that is asked to
end, to pause, to be held or to be torn down comes there, at the latest at its bound, though nothing happens
any more but what the timer and the crawl log do.
"""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from core_doubles.audit import POSSIBLE
from core_doubles.codec import spec_of
from core_doubles.lives import SEEDS, quick
from core_doubles.rebuilt import as_rebuilt
from core_doubles.replay import Watcher
from core_doubles.shell import CheckedShell, Operation
from frontier_harness.soaking import Soak
from hypothesis import given, settings
from hypothesis import strategies as st

from frontier_server.core import upkeep
from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings, ReseedSettings
from frontier_server.core.state.model import CrawlView, Report

A = TypeVar("A")

S = CrawlState
NAMES = ("one", "two")
NODES = ("north", "south")
STEERABLE = (S.RUNNING, S.EMPTY, S.PAUSING, S.PAUSED)
HEARTBEAT_MS = 20_000
INTERRUPT_WAIT_MS = 15_000
MOST_TICKS = 2_000
LAPSES_PER_TICK = 2  # so that one tick is not enough


class History:
    """A frontier, and those who use it."""

    def __init__(self) -> None:
        self.shell = CheckedShell()
        self.doomed = False  # the next write is lost
        self.tokens: dict[str, list[bytes]] = {node: [] for node in NODES}
        self.watchers = {name: Watcher() for name in NAMES}
        self.read = Counter[str]()  # events
        self.begun = Counter[str]()  # teardowns
        self.ended: dict[str, ExitStatus] = {}

    def do(self, operation: Operation[A]) -> A | None:
        """An operation and its answer; None if that was refused, or lost with what was changed."""
        doomed, self.doomed = self.doomed, False
        try:
            if not doomed:
                return self.shell.do(operation)
            self.shell.lose(operation)
        except FrontierError:
            self.doomed = doomed
        return None

    # What happens. `name` is a crawl, `by` a controller.

    def launch(self, name: str, by: str) -> None:
        self.do(lambda f, now: f.control.launch(name, now, by))

    def steer(self, name: str, wish: Input, by: str) -> None:
        self.do(lambda f, now: f.control.request_state(name, wish, now, by))

    def tear_down(self, name: str, by: str) -> None:
        answer = self.do(lambda f, now: f.control.tear_down(name, now, by))
        self.begun[name] += answer is not None and answer[1]

    def add_seeds(self, name: str, by: str) -> None:
        self.do(lambda f, now: f.control.add_seeds(name, SEEDS, now, by))

    def update(self, name: str, chosen: CrawlSettings, by: str) -> None:
        spec = spec_of(chosen)
        self.do(lambda f, now: f.control.update_crawl(name, lambda _: (spec, ()), now, by))

    def begin_import(self, name: str, by: str) -> None:
        """Whoever brings it never says another word."""
        self.do(lambda f, now: f.administration.begin_import(name, False, now, by))

    def ask(self, node: str, most: int) -> None:
        answer = self.do(lambda f, now: f.frontier.next(node, "1", Want(most), None, now))
        self.tokens[node] += [grant.token for grant in answer.grants] if answer is not None else []

    def finish(self, node: str, status: int, all_of_them: bool) -> None:
        tokens = self.tokens[node] if all_of_them else self.tokens[node][:1]
        reports = [Report(token, fetch_status=status) for token in tokens]
        if self.do(lambda f, now: f.frontier.finished(reports, node, "1", now)) is not None:
            self.tokens[node] = self.tokens[node][len(tokens) :]

    def heartbeat(self, node: str, leaving: bool) -> None:
        tokens = self.tokens[node]
        self.do(lambda f, now: f.frontier.heartbeat(node, "1", tokens, [], now, leaving))

    def record_trouble(self, there_is: bool) -> None:
        trouble = ("disk-reserve", "the disk is nearly full") if there_is else None
        self.do(lambda f, now: f.upkeep.record_trouble(trouble, now))

    def pass_time(self, length_ms: int) -> None:
        self.shell.now_ms += length_ms

    def tick(self) -> None:
        self.do(lambda f, now: f.upkeep.tick(now))

    def work(self) -> None:
        self.do(lambda f, now: f.upkeep.work(now))

    def work_all(self) -> None:
        self.shell.work()

    def log(self) -> None:
        self.shell.log()

    def restart(self) -> None:
        self.shell.restart()

    def crash(self) -> None:
        self.doomed = True

    # What must hold after each.

    def view(self, name: str) -> CrawlView:
        """A crawl as it is described."""
        return self.shell.core.views.crawl(name)

    def check(self) -> None:
        """Events come without gap, and tell what is; that can be; an end is an end."""
        for name, watcher in self.watchers.items():
            rows = self.shell.core.history.events_after(name, self.read[name])
            assert [number for number, _ in rows] == [
                self.read[name] + place for place in range(1, len(rows) + 1)
            ]
            self.read[name] += len(rows)
            for _, row in rows:
                watcher.hear(row)
            view, crawl = self.view(name), self.shell.core.shard.registry.named(name)
            watcher.check(view, crawl.state_row.nodes)
            statuses, targets = POSSIBLE[view.state]
            assert view.exit_status in statuses, view
            assert (crawl.target if crawl.state_row.request else None) in targets, view
            assert self.begun[name] == view.tearing_down, (
                f"{self.begun[name]} have begun the teardown of {name}"
            )
            if view.state is S.FINISHED:
                assert view.exit_status is self.ended.setdefault(name, view.exit_status)

    # What may be waited for.

    def until(self, limit_ms: int, come: Callable[[], bool], hangs: bool = False) -> None:
        """Nobody does anything but the timer (and nodes that hang: they say so), up to a time."""
        beat_ms = self.shell.now_ms
        for _ in range(MOST_TICKS):
            if come():
                return
            if hangs and beat_ms <= self.shell.now_ms:
                beat_ms += HEARTBEAT_MS
                for node in NODES:
                    self.heartbeat(node, leaving=False)
            due = [limit_ms + 1, beat_ms if hangs else limit_ms + 1, self.shell.core.upkeep.next_due_ms()]
            next_ms = min(moment for moment in due if moment is not None)
            if next_ms > limit_ms:
                break
            self.shell.now_ms = max(self.shell.now_ms, next_ms)
            self.tick()
            self.check()
        assert come(), f"it has not come by {limit_ms - self.shell.now_ms} ms from now"


# What is drawn.

crawl_settings = st.builds(
    quick,
    pause_at_start=st.sampled_from([False, False, True]),
    resume_after_trouble=st.booleans(),
    run_while_empty=st.booleans(),
    max_toes=st.sampled_from([0, 0, 1, 3]),
    limits=st.builds(
        LimitSettings,
        max_documents=st.sampled_from([0, 0, 2]),
        max_elapsed_ms=st.sampled_from([0, 0, 10_000]),
    ),
    reseed=st.sampled_from([ReseedSettings(), ReseedSettings(2, 5_000), ReseedSettings(-1, 30_000)]),
    pause_timeout_ms=st.sampled_from([120_000, 5_000]),
    stop_timeout_ms=st.sampled_from([120_000, 5_000]),
    statistics_interval_ms=st.sampled_from([20_000, 1_000]),
)
names, nodes = st.sampled_from(NAMES), st.sampled_from(NODES)
controllers = st.sampled_from(("ada", "bob", "eve"))
wishes = st.sampled_from((*(Input.RESUME, Input.PAUSE, Input.HOLD) * 4, Input.STOP))
lengths_ms = st.sampled_from((1, 1_000, 5_000, 15_000, 60_000, 120_000, 3_600_000))


def action(name: str, *drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    """Something that may happen, with what it takes."""
    return st.tuples(st.just(name), st.tuples(*drawn))


often = (  # else every crawl would soon have ended
    action("ask", nodes, st.integers(1, 4)),
    action("ask", nodes, st.integers(1, 4)),
    action("finish", nodes, st.sampled_from((200, 200, 404, -3000)), st.booleans()),
    action("heartbeat", nodes, st.sampled_from((False, False, False, True))),
    action("steer", names, wishes, controllers),
    action("pass_time", lengths_ms),
)
sometimes = (
    action("launch", names, controllers),
    action("add_seeds", names, controllers),
    action("update", names, crawl_settings, controllers),
    action("begin_import", names, controllers),
    action("work"),
    action("work_all"),
    action("tick"),
    action("log"),
    action("record_trouble", st.sampled_from((False, False, True))),
    action("restart"),
    action("crash"),
    action("tear_down", st.just(NAMES[1]), controllers),
)
happenings = st.one_of(*often, *often, *sometimes)
histories = st.one_of(st.lists(happenings, max_size=10), st.lists(happenings, min_size=15, max_size=60))


def played(
    chosen: tuple[CrawlSettings, CrawlSettings], actions: list[tuple[str, tuple[Any, ...]]]
) -> History:
    """What has come of a history."""
    history = History()
    for name, its in zip(NAMES, chosen, strict=True):
        history.shell.create(name, its)
        history.add_seeds(name, "ada")
        history.launch(name, "ada")
    history.work_all()
    history.check()
    for what, drawn in actions:
        getattr(history, what)(*drawn)
        history.check()
    return history


# The promises.


def ends(history: History, name: str, hangs: bool) -> None:
    """A stop reaches FINISHED within its bound."""
    stop_timeout_ms = history.shell.core.shard.registry.named(name).settings.stop_timeout_ms
    history.steer(name, Input.STOP, "ada")
    view = history.view(name)
    limit_ms = max(view.reach_ms + stop_timeout_ms, history.shell.now_ms)
    history.until(limit_ms, lambda: history.view(name).state is S.FINISHED, hangs)


def ends_soon(history: History, name: str, hangs: bool) -> None:
    """A second stop, within fifteen seconds."""
    for by in ("ada", "bob"):
        history.steer(name, Input.STOP, by)
        history.check()
    limit_ms = history.shell.now_ms + INTERRUPT_WAIT_MS
    history.until(limit_ms, lambda: history.view(name).state is S.FINISHED, hangs)


def pauses(history: History, name: str, hangs: bool) -> None:
    """A pause reaches PAUSED within its bound, where it is possible."""
    if history.view(name).state not in STEERABLE:
        return
    pause_timeout_ms = history.shell.core.shard.registry.named(name).settings.pause_timeout_ms
    history.steer(name, Input.PAUSE, "ada")
    limit_ms = max(history.view(name).reach_ms + pause_timeout_ms, history.shell.now_ms)
    history.until(limit_ms, lambda: history.view(name).state is S.PAUSED, hangs)
    assert not history.view(name).held


def is_held(history: History, name: str, hangs: bool) -> None:
    """A hold within the same bound, once imports have ended and the log is written; and it ends, too."""
    if history.view(name).state not in STEERABLE:
        return
    live = history.shell.core.shard.registry.named(name)
    pause_timeout_ms = live.settings.pause_timeout_ms
    history.steer(name, Input.HOLD, "ada")
    for number in list(live.receiving):
        history.do(partial(cancelled, name, number))
    limit_ms = max(history.view(name).reach_ms + pause_timeout_ms, history.shell.now_ms)

    def held() -> bool:
        history.shell.log()
        return history.view(name).held

    history.until(limit_ms, held, hangs)
    history.steer(name, Input.RESUME, "bob")
    history.check()
    goes_on = history.view(name).state not in (S.PAUSING, S.PAUSED)
    assert goes_on or history.shell.core.shard.trouble is not None


def cancelled(name: str, number: int, f: Core, now_ms: int) -> Any:
    return f.administration.cancel_job(name, number, now_ms)


def is_torn_down(history: History, name: str, hangs: bool) -> None:
    """A teardown, of which several have asked, once the end is there and the log is written."""
    stop_timeout_ms = history.shell.core.shard.registry.named(name).settings.stop_timeout_ms
    for by in ("eve", "bob"):
        history.tear_down(name, by)
        history.check()
    limit_ms = history.shell.now_ms + stop_timeout_ms

    def gone() -> bool:
        history.shell.work()
        history.shell.log()
        return history.view(name).torn_down

    history.until(limit_ms, gone, hangs)
    history.check()


PROMISES = (ends, ends_soon, pauses, is_held, is_torn_down)


def keep_promises(
    chosen: tuple[CrawlSettings, CrawlSettings],
    actions: list[tuple[str, tuple[Any, ...]]],
    name: str,
    hangs: bool,
    again: bool,
) -> None:
    """A history, and each promise on a copy of what has come of it."""
    with patch.object(upkeep, "LAPSES_PER_TICK", LAPSES_PER_TICK):
        history = played(chosen, actions)
        as_rebuilt(history.shell)
        history.doomed = False
        for promise in PROMISES:
            copy = deepcopy(history)
            if again:  # the server was killed just now
                copy.restart()
            promise(copy, name, hangs)
            copy.check()
            as_rebuilt(copy.shell)


def promises(often: settings) -> Callable[[], None]:
    """The test, as often as settings say."""
    drawn = given(
        chosen=st.tuples(crawl_settings, crawl_settings),
        actions=histories,
        name=names,
        hangs=st.booleans(),
        again=st.booleans(),
    )
    return often(drawn(keep_promises))


def profile(examples: int) -> settings:
    """So many histories."""
    return settings(max_examples=examples, report_multiple_bugs=False)


@pytest.mark.interpreted
def test_a_crawl_keeps_its_promises_whatever_has_happened() -> None:
    promises(profile(250))()


@pytest.mark.soak("histories")
@pytest.mark.timeout(0)
@pytest.mark.interpreted
def test_crawls_keep_their_promises_for_long(soak: Soak) -> None:
    examples = soak.cycles(20_000)
    promises(profile(examples))()
    soak.count(checked=examples)
