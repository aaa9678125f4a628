"""A frontier in parts: a coordinator, several shards, fetchers, and messages between them that go astray.

A message is late, comes twice, overtakes others or is lost, as chance has it. Coordinator and shards start
anew between any two steps: what they had in memory is gone, what they had written stays. A shard hears orders
of a coordinator that is no more; what a former start of a shard has said reaches nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from core_doubles.codec import PlainCodec, candidate, settings_of, spec_of
from core_doubles.errands import ShardLink, see_to_jobs
from core_doubles.memory_store import MemoryStore
from core_doubles.placing import PLACES
from core_doubles.shell import START_MS, CheckedShell, Shell

from frontier_server.coordinator.coordinator import Announcement, Coordinator
from frontier_server.coordinator.doubling import doubled_row
from frontier_server.coordinator.jobs import PartedJobs
from frontier_server.coordinator.parking import Parked, Parking
from frontier_server.coordinator.whole import Feed, WholeCrawl, whole_crawls
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.machines.target import Target
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.rows.store import Family, Store, WritableStore
from frontier_server.core.salvage.division import Division
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Candidate, Grant, Report, Verdict
from frontier_server.core.state.order import Order, Progress
from frontier_server.router.places import Placing

CRAWL = "whole"
CHECKPOINT = "cp00001-20261128090807"
SLOTS = 4096


class Head(Shell):
    """The coordinator's store, and its core."""

    def __init__(self, parts: int, store: WritableStore | None = None, now_ms: int = START_MS) -> None:
        self.make = whole_crawls(parts)
        self._parts = parts
        super().__init__(store, now_ms=now_ms)
        self.restart()

    def restart(self) -> None:
        super().restart()
        self.coordinator = Coordinator(self.core.shard, self._parts)
        self.parking = Parking(self.core.shard)
        self.jobs = PartedJobs(self.core.shard, self._parts)
        self.do(lambda core, now: self.coordinator.begin_term(now))

    @property
    def crawl(self) -> WholeCrawl:
        """The crawl, in memory."""
        found = self.core.shard.registry.named(CRAWL)
        assert isinstance(found, WholeCrawl)
        return found


@dataclass
class Fetch:
    """A page that a fetcher works on: its links are offered first, then it is reported."""

    part: int
    grant: Grant
    links: list[str]


@dataclass
class Rounds:
    """Two rounds of questions whether a crawl has anything left."""

    feed: Feed
    answers: list[dict[int, Progress]] = field(default_factory=lambda: [{}])
    offers: list[dict[int, int]] = field(default_factory=lambda: [{}])  # that the parts had got by then
    left_between: list[int] = field(default_factory=list)  # parts that had something left at that moment


class Parted:
    """All of it. `links_of` says which URIs a page links to. Given the stores of a checkpoint set, those of
    the shards and then the coordinator's, its crawl may be launched from it, and has another number."""

    def __init__(
        self,
        parts: int,
        random: Random,
        links_of: Callable[[str], list[str]],
        settings: CrawlSettings,
        checkpoint: Sequence[Store] = (),
    ) -> None:
        self.random = random
        self.links_of = links_of
        self.head = Head(parts)
        self.shards = [CheckedShell(incarnation=100 * part) for part in range(parts)]
        self.met = [0] * parts  # the incarnations that the coordinator has met
        self.heard: dict[int, int] = {}  # part → the newest moment that the coordinator has heard of
        self.messages: list[Callable[[], None]] = []
        self.fetches: list[Fetch] = []
        self.announced: Announcement | None = None
        self.rounds: Rounds | None = None
        self.delivering: set[int] = set()  # parts that take in parked links, and have not said so yet
        self.fetched: list[str] = []
        self.lossy = True
        self.park_chance = random.choice((0.0, 0.2, 0.9))  # that a link's shard seems to be away
        self.is_fed = False  # URIs come from elsewhere, too
        self.offers = Counter[int]()  # part → how often it was offered something
        self._placing = Placing(settings, PLACES, self._shard_of)
        if random.random() < 0.5:
            for part in range(parts):
                self.meet(part)
        self.works = bool(checkpoint)  # jobs are done
        for shell, kept in zip((*self.shards, self.head), checkpoint, strict=False):
            shell.kept = kept
        if checkpoint:
            self.head.create("another", settings)
        self.head.create(CRAWL, settings)

    def keep(self) -> list[Store]:
        """The stores of a checkpoint set of this moment."""
        return [copied(shell.store) for shell in (*self.shards, self.head)]

    def part_of(self, uri: str) -> int:
        """The shard that a URI belongs to, as the router finds it."""
        return self._placing.shard(uri)

    def _shard_of(self, partition: bytes) -> int:
        return part_of(partition, len(self.shards))

    # Messages.

    def talk(self) -> None:
        """Let the coordinator and all parts hear all of each other."""
        for _ in range(6):
            for part in range(len(self.shards)):
                self.meet(part)
                self.order(part)
                self.tell(part)
            self.announce()
            while self.messages:
                self.deliver()

    def send(self, message: Callable[[], None]) -> None:
        """Let a message be on its way."""
        chance = self.random.random() if self.lossy else 0.5
        if chance < 0.1:
            return
        self.messages += [message] * (2 if chance > 0.9 else 1)

    def deliver(self) -> None:
        """Let a message arrive: any of them."""
        if self.messages:
            self.messages.pop(self.random.randrange(len(self.messages)))()

    # The coordinator, as its leader drives it.

    def meet(self, part: int) -> None:
        """The coordinator notices that a shard, or itself, has started."""
        shard = self.shards[part]
        if self.met[part] == shard.incarnation:
            return
        names = self.head.coordinator.hear_anew(part, shard.incarnation)
        self.heard[part] = 0
        self._record(part, shard.core.orders.progress(names))
        self.met[part] = shard.incarnation
        known = self.head.coordinator.known_numbers()
        shard.do(lambda core, now: core.orders.delete_others(known, now))

    def tell(self, part: int) -> None:
        """A shard says how its parts are."""
        told, incarnation = self.shards[part].core.orders.progress([CRAWL]), self.shards[part].incarnation
        self.send(lambda: self._hear(part, incarnation, told))

    def _hear(self, part: int, incarnation: int, told: list[Progress]) -> None:
        if self.met[part] == incarnation:
            self._record(part, told)

    def _record(self, part: int, told: Sequence[Progress]) -> None:
        coordinator = self.head.coordinator
        self.heard[part] = max([self.heard[part], *(progress.moment for progress in told)])
        for progress in told:
            after = coordinator.unheard(part, progress)
            if after is not None:
                self._hear_events(part, progress, after)
        self.head.do(lambda core, now: coordinator.record(part, told, now))

    def _hear_events(self, part: int, progress: Progress, after: int) -> None:
        events = self.shards[part].core.orders.events_after(progress.crawl, after)
        coordinator = self.head.coordinator
        self.head.do(lambda core, now: coordinator.hear(part, progress, after, events, now))

    def order(self, part: int) -> None:
        """The coordinator gives a shard its order, if it needs one."""
        if self.met[part] != self.shards[part].incarnation:
            return
        order = self.head.coordinator.order(CRAWL, part)
        if order is not None:
            self.send(lambda: self._obey(part, order))

    def _obey(self, part: int, order: Order) -> None:
        shard = self.shards[part]
        told = shard.do(lambda core, now: core.orders.obey(order, now))
        incarnation = shard.incarnation
        self.send(lambda: self._hear(part, incarnation, [told]))

    def announce(self) -> None:
        """The coordinator offers the next seeds; whoever announces waits for all verdicts."""
        coordinator = self.head.coordinator
        if not coordinator.announcing():
            return
        found = self.head.do(lambda core, now: coordinator.next_seeds(CRAWL, now))
        if found is None:
            return
        verdicts = []
        for seed in found.seeds:
            try:
                (verdict,) = self._offer(candidate(seed, directive=3, seed=True))
            except FrontierError:
                return  # it has no part yet; again later
            verdicts.append(verdict)
        self.send(lambda: self._announced(found, verdicts))

    def _announced(self, announcement: Announcement, verdicts: list[Verdict]) -> None:
        coordinator = self.head.coordinator
        self.head.do(lambda core, now: coordinator.announced(announcement, verdicts, now))

    def offer_parked(self, part: int) -> None:
        """The coordinator offers a shard the links that wait for it; whoever offers waits for the answer."""
        parked = self.head.parking.next_for(part)
        if parked is None or part in self.delivering:
            return
        for record in parked.records:
            link = PlainCodec().decode(record)
            try:
                self._offer(link)
            except FrontierError:
                return  # it has no part yet; again later
        if self.lossy and self.random.random() < 0.2:
            return  # the answer is lost
        self.delivering.add(part)
        head = self.head
        self.messages.append(lambda: self._delivered(head.parking, parked))

    def _delivered(self, parking: Parking, parked: Parked) -> None:
        if parking is self.head.parking:
            self.delivering.discard(parked.part)
            self.head.do(lambda core, now: parking.delivered(parked, now))

    def see_to_jobs(self, part: int) -> None:
        """The coordinator begins the parts of jobs in a shard, or asks how far they have come."""
        shard, random = self.shards[part], self.random
        see_to_jobs(
            self.head,
            self.head.jobs,
            ShardLink(part, shard, self.met[part] != shard.incarnation, random if self.lossy else None),
        )

    def work(self, part: int) -> None:
        """The coordinator, or a shard, does a slice of its jobs."""
        shell = self.random.choice((self.head, self.shards[part]))
        if shell.core.upkeep.has_work:
            shell.do(lambda core, now: core.upkeep.work(now))

    def look_for_the_end(self) -> None:
        """The coordinator begins two rounds, if all parts say that they have nothing left."""
        feed = self.head.coordinator.may_have_ended(CRAWL)
        if feed is not None and self.rounds is None:
            self.rounds = Rounds(feed)
            self._ask_all(self.rounds)

    def _ask_all(self, rounds: Rounds) -> None:
        for part in range(len(self.shards)):
            self._ask(rounds, part)

    def _ask(self, rounds: Rounds, part: int) -> None:
        number = len(rounds.answers)

        def asked() -> None:
            (told,) = self.shards[part].core.orders.progress([CRAWL])
            offers = self.offers[part]
            self.messages.append(lambda: self._answered(rounds, number, part, told, offers))

        self.messages.append(asked)

    def _answered(self, rounds: Rounds, number: int, part: int, told: Progress, offers: int) -> None:
        if self.rounds is not rounds or len(rounds.answers) != number:
            return
        rounds.answers[-1][part], rounds.offers[-1][part] = told, offers
        if len(rounds.answers[-1]) < len(self.shards):
            return
        if len(rounds.answers) == 1:
            rounds.answers.append({})
            rounds.offers.append({})
            rounds.left_between = self._parts_with_something_left()
            self._ask_all(rounds)
            return
        self.rounds = None
        first, second = ([answers[part] for part in range(len(self.shards))] for answers in rounds.answers)
        coordinator, feed = self.head.coordinator, rounds.feed
        ended = self.head.do(lambda core, now: coordinator.conclude(CRAWL, feed, first, second, now))
        if ended:
            self.check_ended(rounds)

    def check_ended(self, rounds: Rounds) -> None:
        """Nothing was left anywhere between the rounds when the coordinator finds the end; nor now, unless it
        came from elsewhere since then."""
        between = rounds.left_between
        assert not between, f"part {between[0]} had something left between the rounds"
        before, after = rounds.offers
        assert before == after, f"parts were offered something unseen: {before} offers, then {after}"
        if self.is_fed:
            return
        left = self._parts_with_something_left()
        assert not left, f"part {left[0]} has something left"
        assert not self.fetches, f"pages are being worked on: {self.fetches}"
        assert not self.head.crawl.parked, "links are parked"

    def _parts_with_something_left(self) -> list[int]:
        told = [shard.core.orders.progress([CRAWL])[0] for shard in self.shards]
        return [part for part, progress in enumerate(told) if progress.left]

    # Fetchers.

    def lease(self, part: int) -> None:
        """A fetcher asks a shard for a page."""
        shard = self.shards[part]
        shard.tick()
        if CRAWL in shard.core.shard.registry:
            for grant in shard.grants(CRAWL, most=2):
                links = [] if grant.robots else self.links_of(grant.uri)
                self.fetches.append(Fetch(part, grant, links))

    def fetch(self) -> None:
        """A fetcher goes on with a page: it offers a link, or reports."""
        if not self.fetches:
            return
        work = self.random.choice(self.fetches)
        if work.links:
            offered = candidate(work.links[-1], via=work.grant.uri, path="L")
            away = self.lossy and self.random.random() < self.park_chance
            try:
                if away:
                    part = self.part_of(offered.uri)
                    self.head.do(lambda core, now: self.head.parking.park(CRAWL, part, [offered], now))
                else:
                    self._offer(offered)
            except FrontierError:
                return
            if self.random.random() < 0.8 or not self.lossy:  # else it has not heard the answer
                work.links.pop()
            return
        self.fetches.remove(work)
        status = 404 if work.grant.robots else 200
        (result,) = self.shards[work.part].finish(Report(work.grant.token, fetch_status=status))
        if not work.grant.robots and result.disposition.value == "SUCCEEDED":
            self.fetched.append(work.grant.uri)

    def offer(self, uri: str) -> None:
        """Somebody else offers a URI. It is refused by a part that is not there yet, or has ended."""
        with suppress(FrontierError):
            self._offer(candidate(uri))

    def _offer(self, offered: Candidate) -> list[Verdict]:
        part = self.part_of(offered.uri)
        verdicts = self.shards[part].schedule(CRAWL, offered)
        self.offers[part] += 1
        return verdicts

    # Time and failures.

    def wait(self, milliseconds: int) -> None:
        """Time passes for all."""
        for shell in (self.head, *self.shards):
            shell.now_ms += milliseconds
            shell.tick()

    def restart_shard(self, part: int) -> None:
        """A shard starts anew. Its leases are in its store."""
        self.shards[part].restart()

    def restart_head(self) -> None:
        """The coordinator starts anew. Orders of the former one may still be on their way."""
        self.head.restart()
        self.met = [0] * len(self.shards)
        self.rounds = None
        self.delivering.clear()

    def split(self) -> None:
        """All stand still, and start anew with twice as many shards. Fetchers keep their leases."""
        halves: list[CheckedShell] = []
        for number, shard in enumerate(self.shards):
            stores = divided(shard.store, number, 2 * len(self.shards))
            halves += [
                CheckedShell(store, now_ms=shard.now_ms, incarnation=1_000 * (2 * number + half))
                for half, store in enumerate(stores)
            ]
        store = MemoryStore()
        for family in Family:
            for key, value in self.head.store.scan(family, b"", b""):
                new_key, new_value = doubled_row(family, key, value)
                store.write({(family, new_key): new_value})
        self.shards, self.met = halves, [0] * len(halves)
        self.head = Head(len(halves), store, self.head.now_ms)
        self._placing = Placing(self.head.crawl.settings, PLACES, self._shard_of)
        self.messages, self.rounds = [], None
        self.delivering.clear()
        for work in self.fetches:
            work.part = self._shard_of(work.grant.token[4:12])

    def request(self, target: Input) -> None:
        """An operator asks for a state."""
        try:
            self.head.request(CRAWL, target)
        except FrontierError:
            return

    def fetch_all(self) -> None:
        """Fetch everything that is due, and look whether a part has anything left to do."""
        for _ in range(50):
            for part in range(len(self.shards)):
                self.lease(part)
            while self.fetches:
                self.fetch()
            self.wait(5_000)
            self.talk()
            self.look_for_the_end()
            while self.messages:
                self.deliver()

    def hear_all(self) -> None:
        """Each shard tells once more, and all that is on its way arrives, in any order."""
        for part in range(len(self.shards)):
            self.meet(part)
            self.tell(part)
        while self.messages:
            self.deliver()

    # What always holds.

    def check(self) -> None:
        """Shares of limits are never exceeded; what the coordinator says of its parts has happened, and is
        the newest that it has heard."""
        settings = self.head.crawl.settings
        parts = [
            shard.core.shard.registry.names[CRAWL]
            for shard in self.shards
            if CRAWL in shard.core.shard.registry.names
        ]
        runs = (CrawlState.RUNNING, CrawlState.EMPTY)
        early = bool(self.head.crawl.restoring) and any(part.state in runs for part in parts)
        assert not early, "a part runs before all have their rows"
        most = settings.limits.max_documents
        taken = sum(part.documents + part.pages_out for part in parts)
        assert not most or taken <= most, f"{taken} documents of at most {most}"

        toes = sum(part.leases_out for part in parts)
        assert not settings.max_toes or toes <= settings.max_toes, f"{toes} toes of {settings.max_toes}"
        for number, shard in enumerate(self.shards):
            crawl = shard.core.shard.registry.names.get(CRAWL)
            if crawl is None:
                continue
            ends = self.head.crawl.target is Target.FINISH
            assert ends or crawl.state is not CrawlState.FINISHED, f"part {number} has ended by itself"
            for queue in crawl.queues.active:
                assert self._shard_of(queue) == number, f"a queue of another shard is in {number}"
        for number, known in self.head.coordinator.last_known(CRAWL).items():
            assert known.moment >= self.heard[number], f"older news of part {number} than it has told"
        state = self.head.state(CRAWL)
        if state is CrawlState.PAUSED and not self.head.crawl.state_row.trouble:
            assert not any(part.running for part in parts), "a part of a paused crawl runs"

    def step(self) -> None:
        """Something happens, as chance has it."""
        part = self.random.randrange(len(self.shards))
        acts: list[tuple[int, Callable[[], None]]] = [
            (30, self.deliver),
            (6, lambda: self.meet(part)),
            (10, lambda: self.tell(part)),
            (10, lambda: self.order(part)),
            (4, self.announce),
            (1, lambda: self.offer_parked(part)),
            (4, self.look_for_the_end),
            (10, lambda: self.lease(part)),
            (20, self.fetch),
            (4, lambda: self.wait(self.random.choice((10, 1_000, 5_000)))),
        ]
        if self.works:
            acts += [(6, lambda: self.see_to_jobs(part)), (12, lambda: self.work(part))]
        self.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()
        self.check()

    def settle(self, most_steps: int = 60_000) -> CrawlState:
        """Everything works from now on; the crawl's state when it has finished, or after so many steps."""
        self.lossy = False
        for _ in range(most_steps):
            self.step()
            if self.head.state(CRAWL) is CrawlState.FINISHED:
                break
        return self.head.state(CRAWL)


def reliable(settings: CrawlSettings, parts: int = 2) -> Parted:
    """A crawl in parts that loses no message, of pages without links."""
    parted = Parted(parts, Random(5), lambda uri: [], settings)
    parted.lossy = False
    return parted


def running(settings: CrawlSettings) -> Parted:
    """The same, launched with four hosts: both parts have some."""
    parted = reliable(settings)
    begin(parted, *(f"http://{host}.example/" for host in "abcd"))
    parted.talk()
    parted.talk()
    return parted


def copied(source: Store) -> MemoryStore:
    """A store with the same rows."""
    kept = MemoryStore()
    for family in Family:
        kept.write({(family, key): value for key, value in source.scan(family, b"", b"")})
    return kept


def divided(source: Store, number: int, parts: int, undivided: bool = False) -> list[MemoryStore]:
    """The stores of the two halves of a shard, of so many parts in the end, and of the coordinator of what
    was undivided."""
    stores = [MemoryStore() for _ in range(3 if undivided else 2)]
    division = Division(
        source, lambda partition: part_of(partition, parts) - 2 * number, settings_of, PlainCodec(), undivided
    )
    division.check()
    for rows in (division.rows(), division.crawl_rows(stores)):
        for owner, family, key, value in rows:
            stores[owner].write({(family, key): value})
    division.compare(stores)
    return stores


def of_undivided(shell: Shell, fetches: Sequence[tuple[Grant, list[str]]], parted: Parted) -> None:
    """Let a frontier in two parts go on with what was an undivided one, whose fetchers keep their leases."""
    *halves, whole = divided(shell.store, 0, 2, undivided=True)
    parted.shards = [
        CheckedShell(store, now_ms=shell.now_ms, incarnation=1_000 * (part + 1))
        for part, store in enumerate(halves)
    ]
    parted.head, parted.met = Head(2, whole, shell.now_ms), [0, 0]
    parted.fetches = [Fetch(part_of(grant.token[4:12], 2), grant, links) for grant, links in fetches]


def part_of(partition: bytes, parts: int) -> int:
    """The part that has a partition."""
    return ((int.from_bytes(partition[:2]) >> 4) * parts) // SLOTS


def begin(parted: Parted, *seeds: str) -> None:
    """Add seeds, and launch."""
    parted.head.do(lambda core, now: core.control.add_seeds(CRAWL, seeds, now))
    parted.head.do(lambda core, now: core.control.launch(CRAWL, now))


__all__ = ["CRAWL", "Fetch", "Head", "Parted", "begin", "of_undivided", "spec_of"]
