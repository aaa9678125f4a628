"""Puts the URLs of clients into their crawls, up to a thousand at a time, with a status for each.

A status of OK or SKIPPED is given only after the frontier's answer, which is durable.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import structlog

from toehold.frontier.v1.admin_pb2 import NoteUrisRequest
from toehold.frontier.v1.crawl_pb2 import Disposition, Verdict
from toehold_client.errors import InvalidArgument, ToeholdError
from toehold_client.rpc.batches import MAX_ITEMS
from urlfrontier.urlfrontier_pb2 import AckMessage

from .crawl_ids import crawl_name
from .crawls import Crawls
from .frontier import AbsentShard, FrontierCalls
from .items import UrlOffer
from .leases import HeldUrl, Leases

_MAX_BATCH_BYTES = 4 * 1024 * 1024

Status: TypeAlias = AckMessage.Status.ValueType
_QUEUED = Verdict.VERDICT_QUEUED
OK, SKIPPED, FAIL = AckMessage.OK, AckMessage.SKIPPED, AckMessage.FAIL
_STATUSES = {_QUEUED: OK, Verdict.VERDICT_PARKED: OK, Verdict.VERDICT_AWAY: FAIL}

_log = structlog.get_logger()


class UrlIntake:
    """Puts batches of URLs into their crawls."""

    def __init__(self, frontier: FrontierCalls, crawls: Crawls, leases: Leases) -> None:
        self._frontier, self._crawls, self._leases = frontier, crawls, leases

    async def put(self, offers: Sequence[UrlOffer | None]) -> list[Status]:
        """Puts URLs in order; a status for each. None stands for a URL that can't be put."""
        statuses: list[Status] = [SKIPPED] * len(offers)
        for wave in _waves(offers):
            works = [
                self._put_alike(statuses, part, offers) for alike in wave for part in _parts(alike, offers)
            ]
            if len(works) == 1:
                await works[0]
            else:
                await asyncio.gather(*works)
        return statuses

    async def _put_alike(
        self, statuses: list[Status], places: Sequence[int], offers: Sequence[UrlOffer | None]
    ) -> None:
        """Puts URLs of one crawl that need the same call."""
        present = [offer for place in places if (offer := offers[place]) is not None]
        first = present[0]
        try:
            if first.is_done:
                given = await self._complete(present)
            else:
                given = await self._schedule(first.crawl_id, present, replace=first.is_known)
        except ToeholdError as problem:
            _log.warning(
                "put_failed",
                crawl_id=first.crawl_id,
                urls=len(present),
                problem=str(problem),
                request_id=problem.request_id,
            )
            given = [FAIL] * len(present)
        for place, status in zip(places, given, strict=True):
            statuses[place] = status

    async def _schedule(self, crawl_id: str, offers: Sequence[UrlOffer], *, replace: bool) -> list[Status]:
        verdicts = await self._crawls.schedule(
            crawl_id, [offer.candidate for offer in offers], replace=replace
        )
        if replace and len(self._leases):
            for offer, verdict in zip(offers, verdicts, strict=True):
                held = self._leases.of_url(crawl_id, offer.url)
                if held is not None and verdict == _QUEUED:
                    self._leases.drop(held)  # its lease ended when it was scheduled again
        return [_STATUSES.get(verdict, SKIPPED) for verdict in verdicts]

    async def _complete(self, offers: Sequence[UrlOffer]) -> list[Status]:
        """Completes URLs of one crawl: by a report if this gateway holds the lease, otherwise by a note."""
        statuses = [OK] * len(offers)
        held: dict[int, HeldUrl] = {}
        for place, offer in enumerate(offers):
            lease = self._leases.of_url(offer.crawl_id, offer.url)
            if lease is not None and lease.queue_key == offer.queue_key:
                held[place] = lease
        if held:
            dispositions = await self._leases.finish(list(held.values()))
            for place, disposition in zip(tuple(held), dispositions, strict=True):
                if disposition == Disposition.DISPOSITION_AWAY:
                    statuses[place] = FAIL
                elif disposition != Disposition.DISPOSITION_SUCCEEDED:
                    del held[place]
        await self._note(offers, [place for place in range(len(offers)) if place not in held], statuses)
        return statuses

    async def _note(self, offers: Sequence[UrlOffer], places: Sequence[int], statuses: list[Status]) -> None:
        """Notes URLs of one crawl as done. One that the frontier can't store is skipped; one whose shard is
        away fails."""
        if not places:
            return
        crawl_id = offers[0].crawl_id
        request = NoteUrisRequest(
            crawl=crawl_name(crawl_id),
            uris=[offers[place].url for place in places],
            queue_keys=[offers[place].queue_key for place in places],
            replace=True,
        )
        try:
            await self._crawls.using(
                crawl_id, lambda: self._frontier.ask_of_present(lambda stubs: stubs.admin.NoteUris, request)
            )
        except (InvalidArgument, AbsentShard) as problem:  # of one URL, and none is noted
            if len(places) == 1:
                statuses[places[0]] = FAIL if isinstance(problem, AbsentShard) else SKIPPED
                return
            half = len(places) // 2
            await self._note(offers, places[:half], statuses)
            await self._note(offers, places[half:], statuses)


def _waves(offers: Sequence[UrlOffer | None]) -> list[list[list[int]]]:
    """Places of URLs that may be put at the same time: by crawl and call, the same URL never by two calls."""
    waves: list[list[list[int]]] = []
    alike: dict[tuple[str, bool, bool], list[int]] = {}
    seen: dict[tuple[str, str], tuple[bool, bool]] = {}
    for place, offer in enumerate(offers):
        if offer is None:
            continue
        call = (offer.is_known, offer.is_done)
        if seen.setdefault((offer.crawl_id, offer.url), call) != call:
            waves.append(list(alike.values()))
            alike, seen = {}, {(offer.crawl_id, offer.url): call}
        alike.setdefault((offer.crawl_id, *call), []).append(place)
    if alike:
        waves.append(list(alike.values()))
    return waves


def _parts(places: list[int], offers: Sequence[UrlOffer | None]) -> list[list[int]]:
    """The places in parts that fit into a request."""
    parts: list[list[int]] = []
    size = _MAX_BATCH_BYTES + 1
    for place in places:
        offer = offers[place]
        assert offer is not None
        length = len(offer.url) + len(offer.candidate.annotations) + len(offer.queue_key) + 64
        if size + length > _MAX_BATCH_BYTES or len(parts[-1]) >= MAX_ITEMS:
            parts.append([])
            size = 0
        parts[-1].append(place)
        size += length
    return parts
