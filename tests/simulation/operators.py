"""What operators wish, as a plan says; and at the end of the faults, that everything goes on."""

from collections.abc import Callable
from random import Random
from typing import Any

from simulation.book import Book
from simulation.calls import Call, Offer
from simulation.draws import OVERRIDES, QUEUE_CHANGES, fitted
from simulation.loop import Loop
from simulation.network import Network
from simulation.plan import CrawlPlan, Event, Plan
from simulation.server import Server
from simulation.world import World

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.errors import FrontierError

S = CrawlState
LATER_MS = 3_000
MOST_TRIES = 4
WANTED = {"pause": Input.PAUSE, "resume": Input.RESUME, "hold": Input.HOLD, "stop": Input.STOP}


class Operators:
    """Two people who share a frontier, and know from answers alone what is there."""

    def __init__(
        self, loop: Loop, rng: Random, network: Network, server: Server, world: World, plan: Plan
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.network = network
        self.server = server
        self.world = world
        self.plan = plan
        self.names = [crawl.name for crawl in plan.crawls]
        self.created: set[str] = set()
        self.jobs: dict[str, list[int]] = {}
        for crawl in plan.crawls:
            loop.after(crawl.launch_ms, self._begin, crawl)
        for wish in plan.wishes:
            loop.after(wish.at_ms, self._wish, wish)

    def ask(
        self,
        kind: str,
        name: str,
        said: tuple[Any, ...] = (),
        then: Callable[[Any], None] = lambda answer: None,
        tries: int = MOST_TRIES,
    ) -> None:
        """Ask, and again if there is no answer."""
        call = Call(kind, name, said, self.rng.choice(("ada", "bob")))

        def failed(left: int) -> None:
            if left:
                self.loop.after(LATER_MS, self.network.call, call, then, lambda: failed(left - 1))

        self.network.call(call, then, lambda: failed(tries))

    def _begin(self, crawl: CrawlPlan) -> None:
        """Create, seed, launch: each step once the one before was answered."""
        seeds = tuple(dict.fromkeys(self._page(*seed) for seed in crawl.seeds))

        def created(answer: Any) -> None:
            self.created.add(crawl.name)
            self.ask("seeds", crawl.name, (seeds,), seeded, 20)

        def seeded(answer: Any) -> None:
            self.ask("launch", crawl.name, (), tries=20)

        self.ask("create", crawl.name, (crawl.settings,), created, 20)

    def _page(self, site: int, page: int) -> str:
        return self.world._uri(self.plan, site, page)

    def _some_page(self, pick: int) -> str:
        pages = list(self.world.pages)
        return pages[pick % len(pages)]

    # Wishes.

    def _wish(self, wish: Event) -> None:
        name = self.names[wish.picks[0] % len(self.names)]
        kind, picks = wish.kind, wish.picks
        if kind in WANTED:
            self.ask("steer", name, (WANTED[kind].value,))
        elif kind in ("teardown", "delete", "forget", "note", "seeds", "schedule"):
            self._plain(kind, name, picks)
        elif kind == "update":
            book = self.server.ledger.books.get(name)
            if book is not None:
                self.ask("update", name, fitted(book.settings, wish.given, picks))
        elif kind in ("override", "no-override"):
            site = list(self.world.pages)[picks[1] % len(self.world.pages)]
            prefix = "http://(example," + site.split("//")[1].split(".example")[0].split(".")[-1] + ","
            said = (prefix, OVERRIDES[picks[2] % len(OVERRIDES)]) if kind == "override" else (prefix,)
            self.ask(kind, name, said)
        elif kind == "queue":
            self._queue(name, picks)
        elif kind in ("delete-uris", "retire-queues", "unretire-queues", "wake-queues", "verify"):
            self._job(kind, name, picks)
        elif kind == "cancel-job":
            numbers = self.jobs.get(name) or [2]
            self.ask("cancel-job", name, (numbers[picks[1] % len(numbers)],))
        elif kind == "import":
            self._import(name, picks)
        elif kind == "anew":
            seeds = ((picks[1], 0), (picks[2], picks[3]))
            self._begin(CrawlPlan(name, wish.given, seeds, 0))
        elif kind == "checkpoint":
            self._checkpoint(f"checkpoint{len(self.server.checkpoints)}")
        elif kind == "copy":
            self._copy(name, picks)
        elif kind == "pool-size":
            node = ("", "north", "south")[picks[1] % 3]
            self.ask("pool-size", node, ((None, 0, 1, 3)[picks[2] % 4],))
        else:
            self.ask("drain", ("north", "south", "west", "east")[picks[1] % 4])

    def _plain(self, kind: str, name: str, picks: tuple[int, ...]) -> None:
        pages = tuple(dict.fromkeys(self._some_page(pick) for pick in picks[1:4]))
        if kind == "schedule":
            urgent, again = (4, 2, 1)[picks[4] % 3], picks[5] % 4 == 0
            delay_ms = (0, 0, 20_000)[picks[5] % 3]
            offers = tuple(
                Offer(page, directive=urgent, again=again, delay_ms=delay_ms) for page in (*pages, pages[0])
            )
            self.ask("schedule", name, (offers,))
        elif kind in ("teardown", "delete"):
            self.ask(kind, name)
        else:
            self.ask(kind, name, (pages,))

    def _queue(self, name: str, picks: tuple[int, ...]) -> None:
        """A queue of the crawl, as an operator sees it in a listing."""
        try:
            queues, _ = self.server.core.administration.queues(name, None, 50, b"")
        except FrontierError:
            return
        if queues:
            key = sorted(queue.key for queue in queues)[picks[1] % len(queues)]
            change = QUEUE_CHANGES[picks[2] % len(QUEUE_CHANGES)]
            self.ask("queue", name, (key, tuple(change.items())))

    def _job(self, kind: str, name: str, picks: tuple[int, ...]) -> None:
        parameters: dict[str, str] = {}
        if kind != "verify":
            parameters["queue_pattern"] = (".*", "example,alpha,.*", ".*a.*")[picks[1] % 3]
        if kind == "delete-uris":
            parameters["uri_pattern"] = (".*/private/.*", ".*[135]", ".*beta.*")[picks[2] % 3]
            if picks[3] % 3 == 0:
                parameters["dry_run"] = "true"

        def started(answer: Any) -> None:
            if not isinstance(answer, FrontierError):
                self.jobs.setdefault(name, []).append(answer.number)

        self.ask("job", name, (kind, tuple(parameters.items())), started, 0)

    def _import(self, name: str, picks: tuple[int, ...]) -> None:
        pages = tuple(self._some_page(pick) for pick in picks[1:6])

        def begun(answer: Any) -> None:
            if not isinstance(answer, FrontierError):
                self.ask("import", name, (answer, pages), lambda _: received(answer), 0)

        def received(number: int) -> None:
            self.ask("end-import", name, (number,))

        self.ask("begin-import", name, (), begun, 0)

    def _checkpoint(self, name: str) -> None:
        """Everything that is durable, as it is now; then crawls are told."""
        if self.server.checkpoint(name):
            self.ask("checkpoint", name)

    def _copy(self, source: str, picks: tuple[int, ...]) -> None:
        """A new crawl goes on where another was at a checkpoint."""
        names = list(self.server.checkpoints)
        if not names:
            return
        checkpoint = names[picks[1] % len(names)]
        book: Book | None = self.server.ledger.copies[checkpoint].books.get(source)
        if book is None:
            return
        name = f"{source}-{len(self.names)}"
        self.names.append(name)

        def created(answer: Any) -> None:
            self.created.add(name)
            self.ask("launch", name, (checkpoint, source), lambda _: None, 20)

        self.ask("create", name, (book.settings,), created, 20)

    # The end of all faults.

    def calm_all(self) -> None:
        """Let nodes have as many toes as they were started with, and nothing trouble the frontier."""
        for node in list(self.server.ledger.pool_sizes):
            self.ask("pool-size", node, (None,))
        if self.server.up and self.server.core.shard.trouble is not None:
            self.ask("trouble", "", (None,))

    def calm(self, book: Book) -> None:
        """Let a crawl go on that somebody holds back; stop it if it would go on for ever."""
        name, state = book.name, book.watcher.state
        endless = book.settings.run_while_empty or book.settings.revisit.policy != "none"
        if state is S.NASCENT:
            self.ask("launch" if book.seeds else "steer", name, () if book.seeds else (Input.STOP.value,))
        elif endless and state is not S.FINISHED:
            self.ask("steer", name, (Input.STOP.value,))
        elif state in (S.PAUSED, S.PAUSING):
            left = "only URIs of retired" in book.watcher.reason
            self.ask("steer", name, ((Input.STOP if left else Input.RESUME).value,))
        else:
            self._let_queues_go(name)

    def _let_queues_go(self, name: str) -> None:
        if not self.server.up or name not in self.server.core.shard.registry.names:
            return
        queues, _ = self.server.core.administration.queues(name, None, 100, b"")
        for key in sorted({queue.key for queue in queues if queue.paused}):
            self.ask("queue", name, (key, (("paused", False),)))
        for job in self.server.core.administration.jobs(name):
            if job.state == "RECEIVING":
                self.ask("cancel-job", name, (job.number,))
