"""Opens what a power cut has left, as a server does, and holds it against the ledger.

The frontier's clock stands at the moment of the cut: rests and leases are as they were.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import structlog
from core_doubles.recount import Recount
from core_doubles.shell import Shell
from faults.power.ledger import SLACK_MS, Crawl, Ledger, host_of
from faults.power.load import LEASE_S, REST_S
from frontier_harness.waiting import WHOLE_CRAWL_S

from frontier_server import wire
from frontier_server.config import Config
from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.opening import opening
from frontier_server.core.operators.history import events_after
from frontier_server.core.rows.errors import CrawlFinished, IllegalState, SessionSuperseded
from frontier_server.core.rows.keys import encode_token
from frontier_server.core.rows.records import EventRow, OutcomeRow
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.crawl import Crawl as Live
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, JobView, Report
from frontier_server.logs.crawl_log import CrawlLogs
from frontier_server.program import data_directory
from frontier_server.shell.clock import Clock
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.runner import Runner
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore
from toehold_base.serving.addresses import Address

SAID_AGAIN = 20  # reports and URIs that are handed in once more
WISHED_BY = "operator"
JOBS_KEPT = 90  # for sure, of the last ones


@dataclass(slots=True)
class Findings:
    """What is wrong, by kind."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    violated: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        """Each with its kind."""
        kinds = (("lost", self.lost), ("doubled", self.doubled), ("violated", self.violated))
        return [f"{kind}: {text}" for kind, texts in kinds for text in texts]


class _Stopped(Clock):
    """A clock that stands."""

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self._at_ms = at_ms

    def now_ms(self) -> int:
        return self._at_ms

    def ahead_ms(self) -> int:
        return 0


def judge(data: Path, ledger: Ledger, checkpoint: bool = True, lease_s: int = LEASE_S) -> Findings:
    """What is wrong with a data directory after a cut, given what was acknowledged before it.

    `checkpoint`: whether the last checkpoint is to be opened, too, which takes as long as opening the store.
    """
    found = Findings()
    config = Config(data, Address("127.0.0.1", 0), lease_s * 1000, 3000, 0, sync=True)
    with _quiet():
        try:
            store, _ = data_directory.open_data(config, b"s" * 16)
        except Exception as problem:
            found.violated.append(f"it does not open: {problem!r}")
            return found
        try:
            asyncio.run(_judge(config, store, ledger, found))
            _checkpoints(data, ledger, found, checkpoint)
        except Exception as problem:
            found.violated.append(f"it does not serve: {problem!r}")
        finally:
            store.close()
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


async def _judge(config: Config, store: RocksStore, ledger: Ledger, found: Findings) -> None:
    # Marks end before the server does, which then notes its time for the last time.
    clock = _Stopped(max(ledger.ms, opening.server_row(store).time_ms))
    checkpoints = Checkpoints(config.data, store)
    core, feed = data_directory.recover(config, store, clock, checkpoints)
    runner = Runner(core, store, clock, config.data, 0, 3000, feed, True, checkpoints.close_readers)
    logs = CrawlLogs(runner, feed.logs, config.data)
    try:
        async with asyncio.timeout(WHOLE_CRAWL_S):
            await _Trial(config.data, core, runner, logs, ledger, found).run()
    finally:
        await runner.close()
    if runner.failed.done():
        found.violated.append(f"the server has failed: {runner.failed.result()}")


class _Trial:
    """One recovered frontier, asked."""

    def __init__(
        self,
        data: Path,
        core: Core,
        runner: Runner,
        logs: CrawlLogs,
        ledger: Ledger,
        found: Findings,
    ) -> None:
        self.data = data
        self.core = core
        self.runner = runner
        self.exchange = Exchange(runner)
        self.logs = logs
        self.ledger = ledger
        self.found = found

    async def run(self) -> None:
        """Find what is wrong."""
        for aside in self.data.rglob("*.cut-*"):
            if aside.parent.name in self.ledger.deleting:
                continue  # its logs were still there when it was not in the store any more
            self.found.violated.append(f"{aside.parent.name}: a log was ahead of the store: {aside.name}")
        self.found.violated += self.ledger.wrong
        self.found.violated += [
            f"crawl {name} is back" for name in self.ledger.deleted if name in self.core.shard.registry
        ]
        for name in self.ledger.created:
            if name not in self.core.shard.registry:
                self.found.lost.append(f"crawl {name}")
        self._recount("as it was opened")
        for name in self._names():
            self._crawl(name, self.ledger.crawls[name])
        self._leases()
        await self._sessions()
        await self._politeness()
        await self._again()
        await self._forged()
        await self._verified()
        for name in self._names():
            self._jobs(name)
        self._recount("after it went on")
        await self.logs.drain()
        await self.runner.read(lambda core, now_ms: None)  # what followed from that is in the job logs, too
        for name in self._names():
            self._crawl_log(name)
            self._job_log(name)

    def _names(self) -> list[str]:
        return self.core.shard.registry.names_after("", 1_000_000)

    # What was acknowledged of a crawl.

    def _crawl(self, name: str, told: Crawl) -> None:
        outcomes = self._outcomes(name)
        pages = Counter(row.uri for row in outcomes if not row.path.endswith("P"))
        self.found.doubled += [
            f"{name}: {uri} ended {count} times" for uri, count in pages.items() if count > 1
        ]
        self._uris(name, told, outcomes, set(pages))
        self._events(name, told)
        self._operators(name, told)

    def _uris(self, name: str, told: Crawl, outcomes: list[OutcomeRow], ended: set[str]) -> None:
        lost = self.found.lost
        waiting = self._waiting(name)
        lost += [f"{name}: {uri} was taken in" for uri in told.known - ended - waiting]
        self.found.doubled += [f"{name}: {uri} has ended, and waits" for uri in ended & waiting]
        last = {row.uri: row for row in outcomes}
        for uri, (disposition, status) in told.final.items():
            row = last.get(uri)
            if row is None:
                lost.append(f"{name}: {uri} was {disposition}")
            elif (row.disposition, row.fetch_status) != (disposition, status):
                lost.append(
                    f"{name}: {uri} was {disposition} {status}, is {row.disposition} {row.fetch_status}"
                )
        robots = Counter(row.uri for row in outcomes if row.path.endswith("P"))
        lost += [f"{name}: {uri}" for uri, count in told.robots.items() if robots[uri] < count]
        there = {(row.uri, row.time_ms): row.disposition for row in outcomes}
        for (uri, at_ms), disposition in told.outcomes.items():
            if there.get((uri, at_ms)) != disposition:
                lost.append(f"{name}: the outcome of {uri}, {disposition}, which was told")
        order = [(row.uri, row.time_ms) for row in outcomes]
        for by, read in told.read.items():
            if read != order[: len(read)]:
                self.found.violated.append(f"{name}: {by} was told outcomes with a gap or a repeat")

    def _outcomes(self, name: str) -> list[OutcomeRow]:
        return [row for _, row in self.core.history.outcomes(name, 0, 1_000_000_000)]

    def _waiting(self, name: str) -> set[str]:
        found: set[str] = set()
        cursor = b""
        while True:
            page, cursor = self.core.administration.uris(name, "", 1000, cursor)
            found |= {view.candidate.uri for view in page}
            if not cursor:
                return found

    def _events(self, name: str, told: Crawl) -> None:
        rows = self._event_rows(name)
        if [number for number, _ in rows] != list(range(1, len(rows) + 1)):
            self.found.violated.append(f"{name}: events with gaps")
        there = dict(rows)
        for sequence, (at_ms, kind) in told.events.items():
            row = there.get(sequence)
            if row is None:
                self.found.lost.append(f"{name}: event {sequence}, {kind}, which was told")
            elif (row.time_ms, row.kind) != (at_ms, kind):
                self.found.lost.append(f"{name}: event {sequence} was {kind}, is {row.kind}")
        acted = Counter(
            (str(row.fields[WISHED_BY]), str(row.fields["action"]))
            for _, row in rows
            if row.kind == "operator_acted"
        )
        for by, action in told.wishes.items():
            if acted[by, action] != 1:
                where = self.found.doubled if acted[by, action] else self.found.lost
                where.append(f"{name}: {by} asked for {action}: {acted[by, action]} events")
        for asked in self.ledger.asked.values():
            if asked.get("crawl") == name and acted[asked.get("by", ""), asked.get("wish", "")] > 1:
                self.found.doubled.append(f"{name}: {asked['by']} asked for {asked['wish']}")

    def _event_rows(self, name: str) -> list[tuple[int, EventRow]]:
        crawl = self.core.shard.registry.named(name)
        rows: list[tuple[int, EventRow]] = []
        while more := events_after(self.core.shard.store, crawl, len(rows)):
            rows += more
        return rows

    def _operators(self, name: str, told: Crawl) -> None:
        ask = self.core.administration
        seeds = Counter(self._seeds(name))
        self.found.lost += [f"{name}: seed {uri}" for uri in told.seeds if not seeds[uri]]
        self.found.doubled += [f"{name}: seed {uri}" for uri in seeds if seeds[uri] > told.offered[uri]]
        kept = {_prefix(prefix): settings.hex() for prefix, settings in ask.overrides(name)}
        for prefix, possible in told.overrides.items():
            is_now = kept.get(_prefix(prefix), "")
            if is_now not in possible:
                self.found.lost.append(f"{name}: override of {prefix} is {is_now}, of {possible}")
        if told.torn_down and name not in self.core.shard.registry.torn:
            self.found.lost.append(f"{name}: it was torn down")

    def _seeds(self, name: str) -> Iterator[str]:
        """All of a crawl, page by page."""
        cursor = 0
        while True:
            page, cursor = self.core.administration.seeds(name, 1_000_000, cursor, self.ledger.ms)
            yield from (view.uri for view in page)
            if not cursor:
                return

    def _jobs(self, name: str) -> None:
        """All have ended by now, as a verification that came after them has."""
        told = self.ledger.crawls[name]
        views = {view.number: view for view in self.core.administration.jobs(name)}
        kept = max(views, default=0) - JOBS_KEPT
        for number, kind in told.jobs.items():
            if number > kept and (number not in views or views[number].kind != kind):
                self.found.lost.append(f"{name}: job {number}, {kind}")
        for number in told.done & views.keys():
            if views[number].state != "DONE":
                self.found.lost.append(f"{name}: job {number} was done, is {views[number].state}")
        there = self._waiting(name) | {row.uri for row in self._outcomes(name)}
        for number, uris in told.imports.items():
            self.found.lost += [f"{name}: {uri} of import {number}" for uri in set(uris) - there]

    # Leases and rests.

    def _leases(self) -> None:
        out = {lease.token(self.core.shard.server.secret).hex() for lease in self.core.shard.leases}
        for token, lease in self.ledger.leases.items():
            live = self.core.shard.crawls.get(self._number(lease.crawl))
            is_over = lease.expire_ms <= self.runner.now_ms()
            if token not in out and live is not None and not live.state_row.finish_ms and not is_over:
                self.found.lost.append(f"{lease.crawl}: lease of {lease.uri} at {lease.node}")

    def _number(self, name: str) -> int:
        return self.core.views.crawl(name).number if name in self.core.shard.registry else 0

    async def _sessions(self) -> None:
        """A process whose name another has taken is told so."""
        for node, sessions in self.ledger.accepted.items():
            for replaced in sessions[:-1]:
                with suppress(SessionSuperseded):
                    answer = await self.exchange.next(node, replaced, Want(1), None, 0)
                    await self.exchange.take_back(answer)
                    self.found.lost.append(f"the session that took the name of {node} from {replaced}")

    async def _politeness(self) -> None:
        """Nobody is given a host that rests, or that answers somebody else."""
        now_ms = self.runner.now_ms()
        busy = {host_of(lease.uri) for lease in self.ledger.leases.values() if lease.expire_ms > now_ms}
        answer = await self.exchange.next("judge", "judge", Want(1000), None, 0)
        for grant in answer.grants:
            host = host_of(grant.uri)
            left_ms = self.ledger.rests.get(host, 0) - now_ms
            if left_ms > SLACK_MS:
                self.found.violated.append(f"{host} is asked {left_ms} ms too early")
            if host in busy:
                self.found.violated.append(f"{host} is asked by two at once")
        await self.exchange.take_back(answer)

    # What goes on.

    async def _again(self) -> None:
        """A report that counted gets the same answer again; a URI that is known is not taken in again."""
        for name, told in self.ledger.crawls.items():
            if name not in self.core.shard.registry or name in self.core.shard.registry.torn:
                continue
            tokens = list(told.tokens.items())[-SAID_AGAIN:]
            if tokens:
                reports = [Report(bytes.fromhex(token), fetch_status=200) for token, _ in tokens]
                results = await self.exchange.finished(reports, "judge", "judge")
                for (_, before), result in zip(tokens, results, strict=True):
                    now = result.disposition.name
                    if now not in (before, "STALE") or (now == before and not result.repeated):
                        self.found.doubled.append(f"{name}: a report that was {before} is {now}, again")
            codec, uris = wire.ContractCodec(), sorted(told.known)[-SAID_AGAIN:]
            if uris and self.core.views.crawl(name).state.name in ("RUNNING", "PAUSED", "EMPTY"):
                verdicts = await self.exchange.schedule(
                    name, [Candidate(uri, codec.seed(uri).record) for uri in uris]
                )
                self.found.doubled += [
                    f"{name}: {uri} is taken in again"
                    for uri, verdict in zip(uris, verdicts, strict=True)
                    if verdict.name != "ALREADY_SEEN"
                ]

    async def _forged(self) -> None:
        """A token of another life of the store, which gave the number of a lease to another URI, is STALE."""
        for lease in list(self.core.shard.leases)[:SAID_AGAIN]:
            other = lease.said._replace(fingerprint=bytes(len(lease.said.fingerprint)))
            token = encode_token(other, self.core.shard.server.secret)
            (result,) = await self.exchange.finished([Report(token, fetch_status=200)], "judge", "judge")
            if result.disposition.name != "STALE":
                self.found.violated.append(f"a lease of {lease.said} ends with a report of {other}")

    async def _verified(self) -> None:
        """The server's own verification finds nothing."""
        for live in list(self.core.shard.crawls.values()):
            with suppress(CrawlFinished, IllegalState):  # then nothing of it goes on
                job = await self._verification(live.name)
                self.found.violated += [f"{live.name}: verification: {text}" for text in job.findings]

    async def _verification(self, name: str) -> JobView:
        def start(core: Core, now_ms: int) -> tuple[JobView, Changes]:
            return core.administration.start_job(name, JobKind.VERIFY, {}, now_ms)

        number = (await self.runner.run(start)).number
        while True:
            happened = self.runner.next_change()
            job = self.core.administration.job(name, number)
            if job.finish_ms:
                return job
            await happened

    def _recount(self, when: str) -> None:
        shell = cast(Shell, SimpleNamespace(store=self.core.shard.store, core=self.core))
        for live in self.core.shard.crawls.values():
            self._recounted(shell, live, when)

    def _recounted(self, shell: Shell, live: Live, when: str) -> None:
        try:
            Recount(shell, live).run()
        except AssertionError as problem:
            self.found.violated.append(f"{live.name}: recount {when}: {problem}")

    # Files.

    def _crawl_log(self, name: str) -> None:
        path = self.logs.path(name)
        lines = path.read_text().splitlines() if path.exists() else []
        logged = [(line.split()[3], int(line.split()[1])) for line in lines if len(line.split()) == 12]
        if len(logged) != len(lines):
            self.found.violated.append(f"{name}: crawl.log has lines that are none")
        outcomes = [(row.uri, row.fetch_status) for row in self._outcomes(name)]
        if logged != outcomes:
            missing, double = Counter(outcomes) - Counter(logged), Counter(logged) - Counter(outcomes)
            self.found.lost += [f"{name}: line of crawl.log: {line}" for line in missing]
            self.found.doubled += [f"{name}: line of crawl.log: {line}" for line in double]
            if not missing and not double:
                self.found.violated.append(f"{name}: crawl.log is not in the order of the outcomes")

    def _job_log(self, name: str) -> None:
        path = self.data / "crawls" / name / "job.log"
        lines = path.read_text().splitlines() if path.exists() else []
        logged = [(int(line.split()[1]), line.split()[2]) for line in lines]
        expected = [number for number, row in self._event_rows(name) if row.kind != "statistics"]
        numbers = [number for number, _ in logged]
        if numbers != expected:
            missing, double = Counter(expected) - Counter(numbers), Counter(numbers) - Counter(expected)
            self.found.lost += [f"{name}: line {number} of job.log" for number in missing]
            self.found.doubled += [f"{name}: line {number} of job.log" for number in double]
            if not missing and not double:
                self.found.violated.append(f"{name}: job.log is not in the order of events")


def _checkpoints(data: Path, ledger: Ledger, found: Findings, opened: bool) -> None:
    """Those that were acknowledged are there, and the last one can be opened."""
    paths = [data / "checkpoints" / name for name in ledger.checkpoints]
    found.lost += [f"checkpoint {path.name}" for path in paths if not path.is_dir()]
    if not opened or not paths or not paths[-1].is_dir():
        return
    try:
        store = RocksStore(paths[-1], read_only=True)
        row = opening.server_row(store)
        store.close()
    except Exception as problem:
        found.violated.append(f"checkpoint {paths[-1].name} does not open: {problem}")
    else:
        if row.next_crawl <= len(REST_S):
            found.violated.append(f"checkpoint {paths[-1].name} lacks crawls")


def _prefix(text: str) -> str:
    """However a SURT prefix is written."""
    return text.lstrip("+-").rstrip("/")
