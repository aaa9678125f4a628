"""Controllers that die in the middle of what they do, and controllers that do the same thing at once."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from faults import controllers
from faults.blade import Blade
from faults.controllers import SEED_COUNT
from faults.load import told
from frontier_harness.calls import TIMEOUT_S, report, seed_of, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import frontier_pb2
from toehold_client import CrawlController, FrontierClient

FIRST, SECOND = "first", "second"
SOON_ENDED = pytest.mark.undivided("a crawl ends a moment after its last report")
CREATED = ["create", "NASCENT"]
LAUNCHED = ["launch", "PREPARING", "seeds_concluded", "RUNNING"]

ASK: Mapping[str, Callable[[CrawlController], object]] = {
    "pause": CrawlController.pause,
    "stop": CrawlController.stop,
    "teardown": lambda controller: controller.teardown(0),
}
"""A step without the wait for its end."""


class Controllers:
    """The program of controllers, within a `with` block."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, controllers.__file__, *arguments]

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._child.kill()
        self._child.communicate(timeout=TIMEOUT_S)

    def take(self, step: str, crawl: str) -> None:
        """Has one take a step."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{step} {crawl}\n")

    def said(self) -> str:
        """The next line."""
        assert self._child.stdout is not None
        return self._child.stdout.readline().rstrip("\n")


class Scene:
    """A frontier, a first controller that may die, and a second one."""

    def __init__(
        self, server: ServerProcess, blade: Blade, first: Controllers, client: FrontierClient
    ) -> None:
        self.stubs = server.stubs
        self.address = server.address
        self.client = client
        self._blade = blade
        self._first = first

    @property
    def passed(self) -> list[str]:
        """What the first controller has sent and got so far."""
        return self._blade.passed

    @property
    def fallen(self) -> bool:
        """It was killed."""
        return self._blade.fallen

    def second(self, crawl: str) -> CrawlController:
        """The second controller."""
        return CrawlController(self.client, crawl)

    def begin(self, step: str, crawl: str, number: int) -> Callable[[], bool]:
        """Has the first controller take a step, to be killed at its message of this number; tells whether it
        has ended.
        """
        self._blade.arm(number)
        self._first.take(step, crawl)
        pid = int(self._first.said())
        self._blade.victim.set_result(pid)
        return lambda: not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stage:
        server = stage.enter_context(ServerProcess(tmp_path_factory.mktemp("controllers") / "data"))
        blade = stage.enter_context(Blade(server.address))
        first = stage.enter_context(Controllers(blade.address, FIRST, "--fork"))
        client = stage.enter_context(FrontierClient(server.address, patience_s=PATIENCE_S, operator=SECOND))
        yield Scene(server, blade, first, client)


def test_a_launch_is_completed_by_another_whenever_the_first_is_killed(scene: Scene) -> None:
    """D4: seeds are announced once, however often they are sent."""
    ended = scene.begin("launch", "launch", 0)
    eventually(ended, "the launch")
    messages = list(scene.passed)
    assert messages.count("AddSeeds request") == 2 and "LaunchCrawl answer" in messages
    for number in range(1, len(messages) + 1):
        crawl = f"launch-{number}"
        ended = scene.begin("launch", crawl, number)
        eventually(ended, "the first controller's end")
        second = scene.second(crawl)
        assert controllers.launch(second)
        moment = f"killed at {number}, {messages[number - 1]}"
        assert scene.fallen or "StateEvents" in moment, moment
        _check_launched(second, moment)


def _check_launched(crawl: CrawlController, moment: str) -> None:
    events = list(crawl.events())
    words = told(events).words
    seeded = words.count("add-seeds")
    assert words == [*CREATED, *["add-seeds"] * seeded, *LAUNCHED], moment
    assert 1 <= seeded <= 2, moment
    (concluded,) = (event.seeds_concluded for event in events if event.HasField("seeds_concluded"))
    description, statistics = crawl.describe(), crawl.statistics().statistics
    assert description.announced_seed_count == description.seed_count == concluded.seed_count, moment
    assert concluded.queued_count == statistics.discovered_count == SEED_COUNT, moment
    assert statistics.queued_count == SEED_COUNT, moment


@pytest.mark.parametrize(
    ("step", "first", "second", "ended"),
    [
        ("pause", ["pause", "PAUSING"], [], ["PAUSED"]),
        pytest.param("stop", ["stop", "STOPPING"], ["interrupt"], ["FINISHED"], marks=SOON_ENDED),
        pytest.param(
            *("teardown", ["teardown", "STOPPING"], ["interrupt"], ["FINISHED", "torn_down"]),
            marks=SOON_ENDED,
        ),
    ],
)
def test_what_one_has_asked_is_completed_by_another_whenever_the_first_is_killed(
    scene: Scene, step: str, first: list[str], second: list[str], ended: list[str]
) -> None:
    """S0.25 to S0.30. A page is out, so that what is asked takes its time. `first` is what happens when it is
    asked for the first time, `second` what happens when that is repeated before it is reached.
    """
    messages = _messages(scene, step)
    waits = messages.index("StateEvents answer") + 1  # with the present state
    assert waits == 4 < len(messages)
    for number in range(1, len(messages) + 1):
        crawl, moment = scene.second(f"{step}-{number}"), f"killed at {number}, {messages[number - 1]}"
        lease = _with_a_page_out(scene, crawl)
        gone = scene.begin(step, crawl.crawl, number)
        asked, out = number > 1, number <= waits
        if not out:
            eventually(lambda: len(scene.passed) >= waits, "the first controller to wait")
            scene.stubs.finish(report(lease))
        eventually(gone, "the first controller's end")
        assert scene.fallen, moment
        happened = _since_launch(crawl)
        if out:
            assert happened == (first if asked else []), moment
        else:
            assert happened[:3] == [*first, *ended[:1]], moment

        ASK[step](crawl)
        if out:
            scene.stubs.finish(report(lease))
        assert controllers.STEPS[step](crawl), moment
        assert _since_launch(crawl) == [*first, *(second if asked and out else []), *ended], moment
        assert _who(crawl, step) == (FIRST if asked else SECOND), moment


def _messages(scene: Scene, step: str) -> list[str]:
    """What comes by of a first controller that is left alone."""
    crawl = scene.second(f"{step}-0")
    lease = _with_a_page_out(scene, crawl)
    gone = scene.begin(step, crawl.crawl, 0)
    eventually(lambda: "StateEvents answer" in scene.passed, "the first controller to wait")
    scene.stubs.finish(report(lease))
    eventually(gone, "the first controller's end")
    return list(scene.passed)


def _with_a_page_out(scene: Scene, crawl: CrawlController) -> frontier_pb2.Lease:
    """Launches a crawl and takes its only page."""
    crawl.create(spec(run_while_empty=True), [seed_of(crawl.crawl)])
    crawl.launch()
    (lease,) = scene.stubs.pages(crawl.crawl)
    return lease


def _who(crawl: CrawlController, action: str) -> str:
    """Who has done something that was done once."""
    (acted,) = (event.operator_acted for event in crawl.events() if event.operator_acted.action == action)
    return acted.operator


def _since_launch(crawl: CrawlController) -> list[str]:
    """What has happened since a crawl was launched, in words."""
    words = told(crawl.events(), "statistics", "node_joined").words
    begin = [*CREATED, "add-seeds", *LAUNCHED]
    assert words[: len(begin)] == begin
    return words[len(begin) :]


def test_of_two_who_tear_a_crawl_down_at_once_one_does_it_and_both_see_it_done(scene: Scene) -> None:
    """S0.25 to S0.30."""
    _race(scene, rounds=8)  # each kind of crawl, begun by either one first


@pytest.mark.soak("overload")
def test_of_two_who_tear_many_crawls_down_at_once_one_does_it_and_both_see_it_done(scene: Scene) -> None:
    _race(scene, rounds=1000)


def _race(scene: Scene, *, rounds: int) -> None:
    """Crawls that were never launched, that are paused, that run, and that have a page out."""
    with Controllers(scene.address, FIRST) as one, Controllers(scene.address, SECOND) as other:
        assert (one.said(), other.said()) == ("ready", "ready")
        for number in range(rounds):
            crawl = scene.second(f"race-{rounds}-{number}")
            leases = _prepare(scene, crawl, ("created", "paused", "running", "out")[number % 4])
            first, second = (one, other) if number // 4 % 2 else (other, one)
            first.take("teardown", crawl.crawl)
            second.take("teardown", crawl.crawl)
            if leases:
                eventually(lambda crawl=crawl: crawl.status().tearing_down, "the teardown")  # type: ignore[misc]
                scene.stubs.finish(*map(report, leases))
            answers = [one.said(), other.said()]
            assert sorted(answers) == [f"{crawl.crawl} False True", f"{crawl.crawl} True True"]
            began = (FIRST, SECOND)[answers.index(f"{crawl.crawl} True True")]
            words = told(crawl.events()).words
            assert words.count("FINISHED") == words.count("torn_down") == 1
            assert words[-1] == "torn_down"
            assert _who(crawl, "teardown") == began


def _prepare(scene: Scene, crawl: CrawlController, how: str) -> list[frontier_pb2.Lease]:
    """A crawl to be torn down, and its leases that are out."""
    if how == "created":
        crawl.create(spec(), [seed_of(crawl.crawl)])
        return []
    lease = _with_a_page_out(scene, crawl)
    if how == "out":
        return [lease]
    scene.stubs.finish(report(lease))
    if how == "paused":
        crawl.pause()
    return []
