"""The calls of fetchers and feeders, for a frontier with several shards: URIs in, leases out, reports in.

What they need of the coordinator is little (`coordination.Guidance`), so each machine of a cluster serves
them.
"""

import asyncio
import functools
from collections.abc import Iterable, MutableSequence, Sequence
from contextlib import nullcontext, suppress
from hashlib import blake2b

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..core.frontier import check_token_count, check_want
from ..core.journey.dispatch import LEASES_PER_CALL
from ..core.rows.errors import FrontierError, ShardAway, UnknownCrawl
from ..core.state.model import EmptyReason, check_batch
from ..service.answers import CRAWL_NUMBER_KEY, Context
from ..service.fetchers import check_tokens, wait_of, want_of
from ..shards.links import Link, Links, Relayed, check_present, passed_on, time_left_s
from ..shards.pipe import Metadata
from .answers import answer_of, routed
from .candidates import Candidates
from .chances import Chance, Chances, Told, Wish
from .coordination import Guidance, Introducing

SERVICE = "toehold.frontier.v1.FrontierService"
MIN_RETRY_MS, OTHER_RETRY_MS = 50, 2_000
GIVE_BACK_S = 5.0
SHARD_S = 3.0  # a shard that gives no answer for so long is left out
ENOUGH_BYTES = 1 << 20  # then no other shard is asked: by default, clients of gRPC receive 4 MiB
WITH_LEASES = b"\n"  # what an answer of Next with leases begins with: the tag of the first field
PARTITION_AT, PARTITION_BYTES = 4, 8  # in a lease's token
STEER_S = 5.0  # for shards to obey a wish for a crawl's state

# The weakest that a shard gives is the crawl's: another shard may still have something.
_WEAKEST_FIRST = (
    EmptyReason.NOTHING_DUE,
    EmptyReason.LIMIT_REACHED,
    EmptyReason.OTHER_FETCHER,
    EmptyReason.PAUSED,
    EmptyReason.NOT_RUNNING,
    EmptyReason.NO_CRAWL,
    EmptyReason.FINISHED,
)
_WEAKNESS: dict[int, int] = {wire.EMPTY_REASONS[reason]: rank for rank, reason in enumerate(_WEAKEST_FIRST)}

_OF_RUNNING = (EmptyReason.NOTHING_DUE, EmptyReason.LIMIT_REACHED)
_WHILE_RUNNING = [wire.EMPTY_REASONS[reason] for reason in (*_OF_RUNNING, EmptyReason.OTHER_FETCHER)]

_AWAY_RESULT = frontier_pb2.ReportResult(disposition=crawl_pb2.DISPOSITION_AWAY).SerializeToString()


class RoutedFetchers:
    """The RPCs of fetchers and feeders, over all shards, but for those about a crawl as a whole."""

    def __init__(
        self,
        links: Links,
        chances: Chances,
        candidates: Candidates,
        guidance: Guidance,
        introductions: Introducing,
    ) -> None:
        self._links = links
        self._chances = chances
        self._candidates = candidates
        self._guidance = guidance
        self._introductions = introductions

    # Candidates.

    @routed
    async def Schedule(
        self, request: frontier_pb2.ScheduleRequest, context: Context
    ) -> frontier_pb2.ScheduleResponse:
        check_batch(len(request.candidates), "candidates")
        metadata, left_s = passed_on(context), _left_s(context, request.partial or request.park)

        async def ask(link: Link, part: bytes, crawl: int) -> frontier_pb2.ScheduleResponse:
            passed = (*metadata, (CRAWL_NUMBER_KEY, str(crawl))) if crawl else metadata
            answer = await link.pass_on(f"{SERVICE}/Schedule", part, left_s, passed)
            return frontier_pb2.ScheduleResponse.FromString(answer)

        async def offer() -> frontier_pb2.ScheduleResponse:
            await self._guidance.check_unfinished(request.crawl)
            return await self._candidates.split(request, ask, parks=not request.replace)

        try:
            return await offer()
        except Relayed as refusal:
            if refusal.reason != UnknownCrawl.reason:
                raise
        self._guidance.forget(request.crawl)
        return await offer()

    # Leases.

    @routed
    async def Next(
        self, request: frontier_pb2.NextRequest, context: Context
    ) -> frontier_pb2.NextResponse | bytes:
        loop = asyncio.get_running_loop()
        waits_s = wait_of(request, context)
        end_s = loop.time() + waits_s
        metadata = passed_on(context)
        want = want_of(request)
        check_want(want, request.crawl or None)
        await self._introductions.introduce(request.node, request.session, metadata)
        chance = self._chances.of(Wish(request.crawl, want.kinds, want.queues, want.per_queue))
        request.ClearField("wait_duration")  # the wait is here
        with chance.waiter() if waits_s else nullcontext():
            return await self._leases(request, context, chance, waits_s, end_s, metadata)

    async def _leases(
        self,
        request: frontier_pb2.NextRequest,
        context: Context,
        chance: Chance,
        waits_s: float,
        end_s: float,
        metadata: Metadata,
    ) -> frontier_pb2.NextResponse | bytes:
        """Leases, or the reason why there are none when the wait is over."""
        loop = asyncio.get_running_loop()
        first, exactly = 0, not waits_s
        while True:
            changed = chance.changed
            with self._guidance.change(request.crawl) as steered:
                asking = asyncio.ensure_future(self._of_shards(request, chance, exactly, metadata))
                try:
                    answer = await asyncio.shield(asking)
                except asyncio.CancelledError:
                    self._chances.tasks.once(
                        "return of leases", self._give_back_of(asking, request, metadata)
                    )
                    raise
                if isinstance(answer, bytes):
                    if context.done():
                        await self._give_back(answer, request, metadata)
                    return answer
                first = first or answer.empty_reason
                left_s = end_s - loop.time()
                finished = answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
                if left_s <= 0 or finished or answer.empty_reason != first:
                    if waits_s >= 1 and not finished:
                        answer.retry_duration.CopyFrom(wire.duration(MIN_RETRY_MS))
                    return answer
                await asyncio.wait((changed, steered), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                exactly = not waits_s or steered.done()

    async def _of_shards(
        self, request: frontier_pb2.NextRequest, chance: Chance, exactly: bool, metadata: Metadata
    ) -> frontier_pb2.NextResponse | bytes:
        """What the shards have now, one after the other; those only that may have something, unless it must
        be known `exactly`. An answer with leases is in bytes: it is that of one shard, or those of several,
        which are one message.
        """
        if request.crawl:
            reason = await self._guidance.reason(request.crawl, STEER_S if exactly else 0.0)
            if reason not in _OF_RUNNING:
                return _nothing(wire.EMPTY_REASONS[reason], OTHER_RETRY_MS)
        if not self._links.present:
            raise self._guidance.absence() or self._links[0].absence()
        clock = asyncio.get_running_loop().time
        most, most_queues = request.max_leases, request.max_queues
        together = min(most, LEASES_PER_CALL)  # a shard alone keeps to what an answer may have of a crawl
        leases: list[bytes] = []
        given = _Given(bool(most_queues))
        for link in self._in_order(request, chance):
            if link.away:
                self._chances.is_away(chance, link)
            elif exactly or chance.may[link.number]:
                request.max_leases = together - given.count if given.count else most
                request.max_queues = most_queues - len(given.queues) if most_queues else 0
                try:
                    data = await link.pass_on(
                        f"{SERVICE}/Next", request.SerializeToString(), SHARD_S, metadata
                    )
                except ShardAway:
                    self._chances.is_away(chance, link)
                    continue
                except Relayed:
                    if leases:
                        break  # the next call is told
                    raise
                if not data.startswith(WITH_LEASES):
                    answer = frontier_pb2.NextResponse.FromString(data)
                    again_s = clock() + _duration_s(answer.retry_duration)
                    self._chances.gave_nothing(chance, link, Told(answer.empty_reason, again_s))
                    continue
                leases.append(data)
                given.add(data)
                if given.count >= together or given.bytes >= ENOUGH_BYTES:
                    break
                if most_queues and len(given.queues) >= most_queues:
                    break
                self._chances.gave_all(chance, link)
        request.max_leases, request.max_queues = most, most_queues
        if leases:
            chance.turn += 1
            return b"".join(leases)
        return _why_nothing(chance, bool(request.crawl), clock())

    def _in_order(self, request: frontier_pb2.NextRequest, chance: Chance) -> list[Link]:
        """The shards as they are asked: those first whose queues go first."""
        ranks = self._guidance.next_ranks(request.crawl)
        return in_order(self._links.all, ranks, _home(request.node) + chance.turn)

    async def _give_back_of(
        self,
        asking: asyncio.Future[frontier_pb2.NextResponse | bytes],
        request: frontier_pb2.NextRequest,
        metadata: Metadata,
    ) -> None:
        """Release what shards give to a call whose caller has left."""
        with suppress(FrontierError, Relayed):
            answer = await asking
            if isinstance(answer, bytes):
                await self._give_back(answer, request, metadata)

    async def _give_back(self, answer: bytes, request: frontier_pb2.NextRequest, metadata: Metadata) -> None:
        """Release leases whose caller has left."""
        leases = frontier_pb2.NextResponse.FromString(answer).leases
        reports = [
            frontier_pb2.Report(token=lease.token, outcome=frontier_pb2.OUTCOME_RELEASED) for lease in leases
        ]
        released = frontier_pb2.FinishedRequest(
            reports=reports, node=request.node, session=request.session, partial=True
        )
        with suppress(ShardAway, Relayed):  # then they lapse
            await self._finished(released, metadata, GIVE_BACK_S)

    # Reports.

    @routed
    async def Finished(self, request: frontier_pb2.FinishedRequest, context: Context) -> bytes:
        check_batch(len(request.reports), "reports")
        metadata = passed_on(context)
        await self._introductions.introduce(request.node, request.session, metadata)
        return await self._finished(request, metadata, _left_s(context, request.partial))

    async def _finished(
        self, request: frontier_pb2.FinishedRequest, metadata: Metadata, left_s: float
    ) -> bytes:
        places: dict[int, list[int]] = {}
        for index, report in enumerate(request.reports):
            places.setdefault(self._shard_of(report.token), []).append(index)
        links = [self._links[number] for number in places]
        method = f"{SERVICE}/Finished"
        if not request.partial:
            check_present(links)

        async def ask(link: Link, part: bytes) -> bytes | None:
            passed = functools.partial(link.pass_on, method, part, left_s, metadata)
            return await answer_of(link, passed, request.partial)

        data = request.SerializeToString()
        if len(links) == 1:
            return await ask(links[0], data) or _entries([_AWAY_RESULT] * len(request.reports))
        finished = shard_pb2.Entries.FromString(data)
        reports = finished.entries[:]

        async def ask_one(link: Link) -> bytes | None:
            finished.entries[:] = [reports[index] for index in places[link.number]]
            return await ask(link, finished.SerializeToString())

        results = [_AWAY_RESULT] * len(reports)
        for link, answer in zip(links, await self._links.of_all(ask_one, links), strict=True):
            if answer is None:
                continue
            found = shard_pb2.Entries.FromString(answer).entries
            for index, result in zip(places[link.number], found, strict=True):
                results[index] = result
        return _entries(results)

    def _shard_of(self, token: bytes) -> int:
        """The shard whose lease a token names. One that is no token may go to any."""
        partition = token[PARTITION_AT : PARTITION_AT + PARTITION_BYTES]
        return self._links.shard_of(partition) if len(partition) == PARTITION_BYTES else 0

    @routed
    async def Heartbeat(
        self, request: frontier_pb2.HeartbeatRequest, context: Context
    ) -> frontier_pb2.HeartbeatResponse:
        metadata = passed_on(context)
        check_tokens(request.tokens)
        check_token_count(len(request.tokens))
        await self._introductions.introduce(request.node, request.session, metadata)
        left_s = _left_s(context, True)
        tokens: dict[int, list[bytes]] = {}
        for token in request.tokens:
            tokens.setdefault(self._shard_of(token), []).append(token)

        async def ask(link: Link) -> frontier_pb2.HeartbeatResponse | None:
            part = frontier_pb2.HeartbeatRequest()
            part.CopyFrom(request)
            del part.tokens[:]
            part.tokens.extend(tokens.get(link.number, ()))
            method = f"{SERVICE}/Heartbeat"
            return await answer_of(  # if it is away, its leases get a new period when it is back
                link,
                lambda: link.call(method, part, frontier_pb2.HeartbeatResponse, left_s, metadata),
                partial=True,
            )

        answers = await self._links.of_all(ask)
        heard = [answer for answer in answers if answer is not None]
        if not heard:
            raise self._guidance.absence() or self._links[0].absence()
        merged = _one_of(request, heard, len(heard) == len(answers))
        if (size := self._guidance.pool_size_of(request.node)) is not None:
            merged.pool_size = size
        return merged


def _left_s(context: Context, partial: bool) -> float:
    """How long a shard may take to answer a call; less where the others need not wait for it."""
    left_s = time_left_s(context)
    return min(left_s, SHARD_S) if partial else left_s


def _entries(entries: Iterable[bytes]) -> bytes:
    """A message of these entries."""
    return shard_pb2.Entries(entries=entries).SerializeToString()


class _Given:
    """What an answer with leases has so far."""

    def __init__(self, counts_queues: bool) -> None:
        self.count = self.bytes = 0
        self.queues: set[tuple[str, str]] = set()
        self._counts_queues = counts_queues

    def add(self, data: bytes) -> None:
        """Count an answer of a shard."""
        self.bytes += len(data)
        self.count += len(shard_pb2.Entries.FromString(data).entries)
        if self._counts_queues:
            leases = frontier_pb2.NextResponse.FromString(data).leases
            self.queues.update((lease.crawl, lease.queue_key) for lease in leases)


def _why_nothing(chance: Chance, of_running: bool, now_s: float) -> frontier_pb2.NextResponse:
    """The answer when no shard gives anything: the weakest reason, and the earliest time to ask again. Parts
    of a crawl that runs as a whole stand still for a moment only."""
    reason = min((told.reason for told in chance.told), key=lambda each: _WEAKNESS.get(each, 0))
    if of_running and reason not in _WHILE_RUNNING:
        reason = frontier_pb2.EMPTY_REASON_NOTHING_DUE
    again_s = min(told.again_s for told in chance.told)
    return _nothing(reason, max(round((again_s - now_s) * 1000), MIN_RETRY_MS))


def _nothing(reason: int, retry_ms: int) -> frontier_pb2.NextResponse:
    answer = frontier_pb2.NextResponse(retry_duration=wire.duration(retry_ms))
    answer.empty_reason = reason  # type: ignore[assignment]  # a number of the enum
    return answer


def in_order(links: Sequence[Link], ranks: Sequence[int], turn: int) -> list[Link]:
    """Links by the ranks of their shards, and in turn where these are equal. Without ranks all are."""
    different = sorted(set(ranks))
    if len(different) < 2:
        return turned(links, turn)
    equal = ([link for link in links if ranks[link.number] == rank] for rank in different)
    return [link for group in equal for link in turned(group, turn)]


def turned(links: Sequence[Link], by: int) -> list[Link]:
    """Links in order, beginning with another one for each number."""
    start = by % len(links)
    return [*links[start:], *links[:start]]


def _duration_s(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _one_of(
    request: frontier_pb2.HeartbeatRequest, answers: list[frontier_pb2.HeartbeatResponse], complete: bool
) -> frontier_pb2.HeartbeatResponse:
    """One answer to a heartbeat, in its order. A crawl has ended for a node if it has in all shards."""
    merged = answers[0]
    ended = set(merged.ended_crawls)
    for other in answers[1:]:
        merged.ended_tokens.extend(other.ended_tokens)
        merged.release_tokens.extend(other.release_tokens)
        merged.interrupt_tokens.extend(other.interrupt_tokens)
        merged.drain = merged.drain or other.drain
        merged.rival_session = merged.rival_session or other.rival_session
        ended &= set(other.ended_crawls)
    if len(answers) > 1:
        for tokens in (merged.ended_tokens, merged.release_tokens, merged.interrupt_tokens):
            _put_in_order(tokens, request.tokens)
    del merged.ended_crawls[:]
    if complete:
        merged.ended_crawls.extend(name for name in request.idle_crawls if name in ended)
    return merged


def _put_in_order(tokens: MutableSequence[bytes], asked: Iterable[bytes]) -> None:
    if tokens:
        found = set(tokens)
        tokens[:] = [token for token in asked if token in found]


def _home(node: str) -> int:
    """A number that spreads nodes over shards, so that each has its own to begin with."""
    return int.from_bytes(blake2b(node.encode(), digest_size=4).digest())
