"""URIs of all shards: each is asked of its own, several are split, counts are sums."""

from collections.abc import Sequence

from toehold.frontier.v1 import admin_pb2

from ..core.operators.administration import some_uris
from ..core.state.model import check_batch
from ..service.answers import Context
from ..shards.links import Link, check_present
from .answers import routed
from .merges import EXAMPLES_KEPT, EXAMPLES_SHOWN, add_counts, merged_rules
from .over_shards import OverShards


class RoutedUris(OverShards):
    """RPCs on URIs and the seen-set."""

    @routed
    async def GetUri(self, request: admin_pb2.GetUriRequest, context: Context) -> admin_pb2.GetUriResponse:
        await self._check_known(request.crawl)
        link = self._shard_of(request.crawl, request.uri)
        return await self._ask(link, "GetUri", request, admin_pb2.GetUriResponse, context)

    @routed
    async def NoteUris(
        self, request: admin_pb2.NoteUrisRequest, context: Context
    ) -> admin_pb2.NoteUrisResponse:
        check_batch(len(request.uris), "uris")
        self._runner.admit()
        places = await self._places(request.crawl, request.uris, request.queue_keys)

        async def note(link: Link) -> admin_pb2.NoteUrisResponse:
            indexes = places[link.number]
            part = admin_pb2.NoteUrisRequest(
                crawl=request.crawl,
                uris=[request.uris[index] for index in indexes],
                replace=request.replace,
                queue_keys=[request.queue_keys[index] for index in indexes] if request.queue_keys else (),
            )
            return await self._ask(link, "NoteUris", part, admin_pb2.NoteUrisResponse, context)

        noted = self._links.of_all(note, [self._links[number] for number in places])
        told = some_uris(request.uris)
        answers = await self._recorded(request.crawl, "note-uris", told, context, noted)
        return admin_pb2.NoteUrisResponse(noted_count=sum([answer.noted_count for answer in answers]))

    @routed
    async def ForgetUris(
        self, request: admin_pb2.ForgetUrisRequest, context: Context
    ) -> admin_pb2.ForgetUrisResponse:
        check_batch(len(request.uris), "uris")
        places = await self._places(request.crawl, request.uris)

        async def forget(link: Link) -> admin_pb2.ForgetUrisResponse:
            uris = [request.uris[index] for index in places[link.number]]
            part = admin_pb2.ForgetUrisRequest(crawl=request.crawl, uris=uris)
            return await self._ask(link, "ForgetUris", part, admin_pb2.ForgetUrisResponse, context)

        forgotten = self._links.of_all(forget, [self._links[number] for number in places])
        told = some_uris(request.uris)
        answers = await self._recorded(request.crawl, "forget-uris", told, context, forgotten)
        return admin_pb2.ForgetUrisResponse(
            forgotten_count=sum([answer.forgotten_count for answer in answers])
        )

    async def _places(
        self, crawl: str, uris: Sequence[str], queue_keys: Sequence[str] = ()
    ) -> dict[int, list[int]]:
        """The shards of URIs, with the places of each one's in the request. Raises what shards would, and
        ShardAway, before anything changes."""
        await self._runner.read(lambda core, _: core.administration.check_uris(crawl, uris, queue_keys))
        shard = self._placing_of(crawl).shard
        places: dict[int, list[int]] = {}
        for index, uri in enumerate(uris):
            places.setdefault(shard(uri), []).append(index)
        check_present([self._links[number] for number in sorted(places)])
        return dict(sorted(places.items()))

    @routed
    async def CountSeenUris(
        self, request: admin_pb2.CountSeenUrisRequest, context: Context
    ) -> admin_pb2.CountSeenUrisResponse:
        await self._check_known(request.crawl)
        total = admin_pb2.CountSeenUrisResponse()
        add_counts(total, await self._of_shards("CountSeenUris", request, type(total), context))
        return total

    @routed
    async def ListRefusals(
        self, request: admin_pb2.ListRefusalsRequest, context: Context
    ) -> admin_pb2.ListRefusalsResponse:
        await self._check_known(request.crawl)
        kind = admin_pb2.ListRefusalsResponse
        found = await self._of_shards("ListRefusals", request, kind, context)
        examples = EXAMPLES_KEPT if request.rule else EXAMPLES_SHOWN
        return kind(rules=merged_rules([answer.rules for answer in found], examples))
