"""The whole frontier against a model of it: what nodes, operators, time and crashes may do, in any order.

The rules are in `core_doubles.machine`. What must hold is in `core_doubles.model` (what each answer may be)
and in `core_doubles.audit` (memory, store and model agree after every step). docs/reliability.md lists what
breaks it.
"""

from collections import Counter
from typing import ClassVar

import pytest
from core_doubles.machine.choices import KINDS, Fetch, crawl_settings, spellings
from core_doubles.machine.crawls import Crawls
from core_doubles.machine.faults import Faults
from core_doubles.machine.operators import Operators
from core_doubles.model.things import Crawl
from core_doubles.rows import nothing_is_left_of
from core_doubles.web import OPEN, ROBOTS_FILES, SITES, RobotsFile, Spelled
from frontier_harness.soaking import Soak
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.queue import QueueState

S = CrawlState
MOST_DRAIN_STEPS = 3_000


class FrontierMachine(Crawls, Operators, Faults):
    """Two crawls, three nodes, five hosts."""

    @initialize(
        chosen=crawl_settings,
        seeds=st.lists(spellings, min_size=1, max_size=12),
        files=st.lists(st.sampled_from(ROBOTS_FILES), max_size=len(SITES)),
    )
    def first_crawl(self, chosen: CrawlSettings, seeds: list[Spelled], files: list[RobotsFile]) -> None:
        """A crawl runs from the start, and some robots.txt are known."""
        self.create("first", chosen)
        self.seed(self.model.crawls["first"], seeds)
        self.launch(self.model.crawls["first"])
        self.work_all()
        for file in files:
            for lease in self.ask("north", self.session("north"), None, 1):
                report = self.made_report(lease, 200, file, Fetch())
                self.report([report], "north", self.session("north"))

    def teardown(self) -> None:
        """Every crawl comes to its end if nodes fetch, time passes and nobody holds it back."""
        try:
            if self.sound:
                self.doomed = False
                self.drain()
        finally:
            super().teardown()

    def drain(self) -> None:
        """Fetch with success until nothing is left; what would go on for ever is stopped.

        Then verify, and tear down.
        """
        self.trouble(None)
        for crawl in list(self.model.crawls.values()):
            self.let_go(crawl)
        node, session = "drain", "1"
        for _ in range(MOST_DRAIN_STEPS):
            self.work_all()
            leases = self.ask(node, session, None, 100)
            if leases:
                self.report([self.made_report(lease, 200, OPEN, Fetch()) for lease in leases], node, session)
            elif all(crawl.state is S.FINISHED for crawl in self.model.crawls.values()):
                break
            elif paused := [crawl for crawl in self.model.crawls.values() if crawl.state is S.PAUSED]:
                at_start = paused[0].settings.pause_at_start and not paused[0].reason
                assert at_start or paused[0].settings.pause_with_uris_left
                self.steer(paused[0], Input.RESUME if at_start else Input.STOP)
            elif not self.shell.core.upkeep.has_work:  # a round may just have begun
                chance_ms = self.shell.core.frontier._next_chance_ms(kinds=KINDS)
                assert chance_ms is not None, "a crawl waits for nothing"
                self.shell.now_ms = max(self.now_ms, chance_ms)
                self.tick()
        else:
            left = {crawl.name: crawl.state.value for crawl in self.model.crawls.values()}
            raise AssertionError(f"crawls have not ended after {MOST_DRAIN_STEPS} steps: {left}")
        for crawl in self.model.crawls.values():
            self.start(crawl, JobKind.VERIFY, {})
        self.work_all()
        while self.shell.core.upkeep.next_due_ms() is not None:  # set, perhaps, for leases that have ended
            self.tick_when_due()
        self.everything_agrees()
        assert not self.model.leases
        for crawl in self.model.crawls.values():
            self.check_end(crawl)
        for crawl in list(self.model.crawls.values()):
            self.tear_down(crawl, "ada")
            self.log_all(crawl)
        self.work_all()
        assert not self.model.crawls, "a crawl is not torn down"
        self.everything_agrees()
        for number in self.deleted:
            assert nothing_is_left_of(self.shell.store, number), f"rows of deleted crawl {number} are left"

    def let_go(self, crawl: Crawl) -> None:
        """Nobody holds a crawl back any more; or it is stopped."""
        if crawl.state in (S.PAUSING, S.PAUSED):
            self.steer(crawl, Input.RESUME)
        for job in list(crawl.receiving.values()):
            self.cancel(crawl, job)
        for queue in list(crawl.queues.values()):
            if queue.paused:
                self.change(crawl, queue.key, QueueChange(paused=False))
        if crawl.state is S.NASCENT and crawl.seeds:
            self.launch(crawl)
        elif crawl.state is S.NASCENT:
            self.steer(crawl, Input.STOP)
        if goes_on(crawl) and crawl.state is not S.FINISHED:
            self.steer(crawl, Input.STOP)

    def check_end(self, crawl: Crawl) -> None:
        """What an end leaves behind."""
        counts = self.shell.core.views.statistics(crawl.name, self.now_ms)
        states = Counter(counts.queue_states)
        far = sum(queue.asleep_ms > 0 for queue in crawl.queues.values())
        assert states[QueueState.READY] == states[QueueState.BUSY] == 0
        assert states[QueueState.SNOOZED] == far


def goes_on(crawl: Crawl) -> bool:
    """Whether a crawl goes on for ever, as it should."""
    revisits = crawl.settings.revisit.policy != "none" or b'"revisit"' in b"".join(crawl.overrides.values())
    return revisits or crawl.settings.run_while_empty or crawl.settings.reseed.max_rounds < 0


def profile(examples: int, steps: int) -> settings:
    """Enough for every commit, or for the soak. Explaining a failure would trace, and take minutes."""
    return settings(
        settings(),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


# Some 10 s of CPU: the limit is for a machine with much more to do.
TestFrontier = pytest.mark.timeout(3600)(FrontierMachine.TestCase)
TestFrontier.settings = profile(examples=120, steps=50)


class SoakMachine(FrontierMachine):
    """The same for long, at random."""

    steps: ClassVar[int] = 0

    @invariant()
    def counted(self) -> None:
        """How many steps there were."""
        SoakMachine.steps += 1


@pytest.mark.soak("histories")
@pytest.mark.timeout(0)
def test_the_frontier_for_long(soak: Soak) -> None:
    SoakMachine.steps, examples = 0, soak.cycles(800)
    run_state_machine_as_test(SoakMachine, settings=profile(examples=examples, steps=200))
    soak.count(checked=SoakMachine.steps)
    assert SoakMachine.steps >= 100 * examples
