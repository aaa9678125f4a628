"""What operators ask of whole crawls: launch, steer, hold, tear down, delete; and of all of them at once.

Several of them ask, of the same crawl, one after the other, and again after a crash.
"""

from collections.abc import Callable

from core_doubles.codec import candidate
from core_doubles.machine.base import Base, Lost, step
from core_doubles.machine.choices import NODES, controllers, mostly, picks
from core_doubles.machine.nodes import Nodes
from core_doubles.model import life, settling
from core_doubles.model.things import Crawl
from hypothesis import strategies as st
from hypothesis.stateful import precondition

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.machines.target import Target
from frontier_server.core.rows import errors
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import CrawlView

S = CrawlState
INPUTS = (Input.RESUME, Input.PAUSE, Input.HOLD)
IN_FLIGHT = (
    (Input.PAUSE,),
    (Input.PAUSE, Input.HOLD),
    (Input.HOLD,),
    (Input.HOLD, Input.RESUME),
    (Input.STOP,),
    (Input.STOP, Input.STOP),
)
BEAT_MS = 20_000
SELDOM = st.sampled_from([False] * 7 + [True])  # else most crawls would soon have ended
wishes = st.sampled_from([*INPUTS * 4, Input.STOP])
TROUBLES = (None, None, ("disk-reserve", "the disk is nearly full"))


class Lives(Nodes):
    """Crawls from launch to deletion."""

    def launch(self, crawl: Crawl, by: str = "") -> None:
        """Launch a crawl."""
        self.run(lambda core, now: core.control.launch(crawl.name, now, by))
        life.launched(self.model, crawl, by)
        self.check()

    def steer(self, crawl: Crawl, wish: Input, by: str = "") -> None:
        """Ask a crawl to run, pause, hold or stop, possible or not (S0.13, S0.15, S0.23; D3)."""

        def request(core: Core, now_ms: int) -> tuple[CrawlView, Changes]:
            return core.control.request_state(crawl.name, wish, now_ms, by)

        if not life.is_legal(crawl, wish):
            self.refused(errors.IllegalState, request)
            return
        view = self.run(request)
        life.asked(self.model, crawl, wish, by)
        self.check()
        assert (view.state, view.held) == (crawl.state, crawl.held)

    def tear_down(self, crawl: Crawl, by: str) -> None:
        """Let a crawl end and leave memory; exactly one request has begun that."""
        view, begun = self.run(lambda core, now: core.control.tear_down(crawl.name, now, by))
        assert begun == life.teardown_asked(self.model, crawl, by)
        self.check()
        assert view.state is crawl.state and view.tearing_down
        assert view.torn_down == (crawl.name in self.model.torn_down)

    def log_all(self, crawl: Crawl) -> None:
        """All outcomes of a crawl get into its log."""
        if crawl.logged < crawl.stored:
            self.log(crawl, crawl.stored)

    def log(self, crawl: Crawl, upto: int) -> None:
        """Outcomes up to one are in the crawl log for good, and forgotten here."""
        self.run(lambda core, now: core.upkeep.record_logged(crawl.number, upto, 100 * upto, now))
        crawl.logged = upto
        self.check()

    # One by one.

    @precondition(Base.has_crawl)
    @step(pick=picks, by=controllers)
    def launch_one(self, pick: int, by: str) -> None:
        """A launch, possible or not."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.NASCENT and (crawl.seeds or crawl.queued() or crawl.future()):
            self.launch(crawl, by)
        else:
            error = errors.NoSeeds if crawl.state is S.NASCENT else errors.IllegalState
            self.refused(error, lambda core, now: core.control.launch(crawl.name, now, by))

    @precondition(Base.has_crawl)
    @step(pick=picks, wish=wishes, by=controllers)
    def steer_one(self, pick: int, wish: Input, by: str) -> None:
        """A request, possible or not."""
        self.steer(self.some_crawl(pick), wish, by)

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        asked=st.lists(st.tuples(wishes, controllers), min_size=2, max_size=4),
    )
    def steer_often(self, pick: int, asked: list[tuple[Input, str]]) -> None:
        """Within one moment, with leases out or not, several at once (D2)."""
        for wish, by in asked:
            self.steer(self.some_crawl(pick), wish, by)

    @precondition(Base.has_crawl)
    @step(pick=picks, wish=wishes, tears_down=SELDOM, dies=st.booleans())
    def second_takes_over(self, pick: int, wish: Input, tears_down: bool, dies: bool) -> None:
        """Somebody asks, perhaps without ever hearing an answer; and somebody else asks the same again."""
        crawl = self.some_crawl(pick)

        def ask(by: str) -> None:
            if crawl.name not in self.model.crawls:
                assert tears_down and crawl.name in self.model.torn_down
            elif tears_down:
                self.tear_down(crawl, by)
            else:
                self.steer(crawl, wish, by)

        self.doomed |= dies
        try:
            ask("ada")
        except Lost:
            self.check_events()
        ask("bob")

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        node=st.sampled_from(NODES),
        patience=st.integers(0, 3),
        asked=st.sampled_from(IN_FLIGHT),
        by=controllers,
        beats=st.integers(0, 8),
    )
    def steer_in_flight(
        self, pick: int, node: str, patience: int, asked: tuple[Input, ...], by: str, beats: int
    ) -> None:
        """A crawl is asked for something while a node that says it is there goes on and on with its URIs."""
        crawl = self.some_crawl(pick)
        while not self.ask(node, self.session(node), crawl.name, 3) and patience:
            self.tick_when_due()
            patience -= 1
        for wish in asked:
            self.steer(crawl, wish, by)
        for _ in range(beats):
            tokens = [lease.token for lease in self.model.leases.values() if lease.node == node]
            if not tokens:
                break
            self.beat(node, tokens)
            due_ms = self.shell.core.upkeep.next_due_ms()
            if due_ms is not None and due_ms <= self.now_ms + BEAT_MS:
                self.tick_when_due()
            else:
                self.shell.now_ms += BEAT_MS

    @precondition(Base.has_crawl)
    @step(pick=picks, logs=st.booleans(), by=controllers)
    def hold(self, pick: int, logs: bool, by: str) -> None:
        """A crawl is to stand still, and perhaps its log is written at once."""
        crawl = self.some_crawl(pick)
        self.steer(crawl, Input.HOLD, by)
        if logs:
            self.log_all(crawl)

    @precondition(Base.has_crawl)
    @step(pick=picks, by=controllers.filter(bool), certainly=SELDOM)
    def tear_one_down(self, pick: int, by: str, certainly: bool) -> None:
        """A teardown, from any state; more often of a crawl that ends anyway."""
        crawl = self.some_crawl(pick)
        if certainly or crawl.state in (S.STOPPING, S.FINISHED):
            self.tear_down(crawl, by)

    @precondition(Base.has_crawl)
    @step(pick=picks, pauses=st.booleans(), by=controllers)
    def reopen(self, pick: int, pauses: bool, by: str) -> None:
        """A crawl is to run again after its end, possible or not."""
        ended = [crawl for crawl in self.model.crawls.values() if crawl.state is S.FINISHED]
        crawl = ended[pick % len(ended)] if ended else self.some_crawl(pick)

        def reopen(core: Core, now_ms: int) -> tuple[CrawlView, Changes]:
            return core.control.reopen(crawl.name, lambda spec: (spec, ()), pauses, now_ms, by)

        if crawl.tearing_down and crawl.state is S.FINISHED:
            self.refused(errors.CrawlTornDown, reopen)
        elif crawl.held:
            self.refused(errors.CrawlHeld, reopen)
        elif crawl.state is not S.FINISHED or settling.limit_reached(self.model, crawl):
            self.refused(errors.IllegalState, reopen)
        else:
            self.run(reopen)
            life.reopened(self.model, crawl, Target.PAUSE if pauses else Target.RUN, by)
            self.check()

    @precondition(Base.has_crawl)
    @step(pick=picks, back=st.integers(0, 3))
    def record_logged(self, pick: int, back: int) -> None:
        """Outcomes are in the crawl log for good, and forgotten here."""
        crawl = self.some_crawl(pick)
        upto = max(crawl.stored - back, crawl.logged)
        self.log(crawl, upto)
        if crawl.name in self.model.crawls and not crawl.held:
            told = self.shell.core.upkeep.log_positions().get(crawl.number)
            assert told == ((crawl.name, upto, 100 * upto) if upto < crawl.stored else None)

    @precondition(Base.has_crawl)
    @step(pick=picks)
    def delete_crawl(self, pick: int) -> None:
        """A deletion, possible or not."""
        crawl = self.some_crawl(pick)
        if crawl.state in (S.NASCENT, S.FINISHED):
            self.delete(crawl)
        else:
            self.refused(errors.CrawlActive, lambda core, now: core.control.delete_crawl(crawl.name, now))

    def delete(self, crawl: Crawl) -> None:
        """Delete a crawl, torn down or not."""

        def delete(core: Core, now_ms: int) -> tuple[None, Changes]:
            return core.control.delete_crawl(crawl.name, now_ms)

        self.run(delete)
        self.model.crawls.pop(crawl.name, None)
        self.model.torn_down.pop(crawl.name, None)
        self.frozen.pop(crawl.number, None)
        self.deleted.add(crawl.number)
        self.refused(errors.UnknownCrawl, delete)
        self.check()

    # What was torn down.

    @precondition(lambda self: self.model.torn_down)
    @step(pick=picks, wish=st.sampled_from((*INPUTS, Input.STOP)), deletes=mostly(False, True))
    def disturb_the_dead(self, pick: int, wish: Input, deletes: bool) -> None:
        """A crawl that was torn down can be read and deleted; nothing else changes it."""
        torn = list(self.model.torn_down.values())
        crawl = torn[pick % len(torn)]
        name, by = crawl.name, "ada"
        refusals: tuple[Callable[[Core, int], tuple[object, Changes]], ...] = (
            lambda core, now: core.control.add_seeds(name, ["http://alpha.example/"], now, by),
            lambda core, now: core.frontier.schedule(name, [candidate("http://alpha.example/")], now),
            lambda core, now: core.administration.start_job(name, JobKind.VERIFY, {}, now, by),
            lambda core, now: core.control.update_crawl(name, lambda spec: (spec, ()), now, by),
        )
        for refusal in refusals:
            self.refused(errors.CrawlTornDown, refusal)
        if wish is Input.STOP:
            view = self.run(lambda core, now: core.control.request_state(name, wish, now, by))
            assert view.torn_down and view.exit_status is crawl.exit_status
        else:
            self.refused(
                errors.IllegalState, lambda core, now: core.control.request_state(name, wish, now, by)
            )
        (view, begun) = self.run(lambda core, now: core.control.tear_down(name, now, by))
        assert view.torn_down and not begun
        self.check()
        if deletes:
            self.delete(crawl)

    # Of all crawls and nodes.

    @step(trouble=st.sampled_from(TROUBLES))
    def record_trouble(self, trouble: tuple[str, str] | None) -> None:
        """Something keeps every crawl from running, or does not any more."""
        self.trouble(trouble)

    def trouble(self, trouble: tuple[str, str] | None) -> None:
        """Note what keeps crawls from running."""
        self.run(lambda core, now: core.upkeep.record_trouble(trouble, now))
        over, self.model.trouble = self.model.trouble, trouble
        if trouble is None:
            for crawl in self.model.crawls.values():
                life.trouble_over(crawl, over[0] if over is not None else "disk-reserve")
        else:
            for crawl in self.model.crawls.values():
                life.paused_for(self.model, crawl, *trouble, passes=True)
        self.check()

    @step(node=st.sampled_from(("", *NODES)), size=st.sampled_from([None, 0, 8, 10_000]), by=controllers)
    def set_pool_size(self, node: str, size: int | None, by: str) -> None:
        """How many toe threads a node should have, or any."""
        self.run(lambda core, now: core.nodes.set_pool_size(node, size, now, by))
        if size is None:
            self.model.pool_sizes.pop(node, None)
        else:
            self.model.pool_sizes[node] = size
        for crawl in self.model.crawls.values():
            if crawl.running_since_ms is not None:
                told = f"{node or 'all nodes'}: {'default' if size is None else size}"
                life.acted(crawl, by, "resize-pool", told)
        self.check()

    @step()
    def record_checkpoint(self) -> None:
        """A checkpoint was made; crawls that live hear of it, but those that are held."""
        self.run(lambda core, now: core.control.record_checkpoint("monday", now))
        for crawl in self.model.crawls.values():
            if not crawl.held and crawl.state is not S.FINISHED:
                crawl.events.append(("checkpointed", "monday"))
        self.check()
