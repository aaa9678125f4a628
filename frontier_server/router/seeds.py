"""Seeds: their list is the coordinator's, the story of each its shard's.

A redirect's target may belong to another shard than the seed. Then that one has heard where the seed leads.
"""

from collections.abc import Sequence

from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..service.answers import Context, fitting_count
from ..shards.links import Link, passed_on
from .answers import routed
from .over_shards import OverShards, patience_s

TELL_SEEDS = "toehold.shard.v1.ShardService/TellSeeds"
MAX_MOVES = 5  # of a seed's redirects from shard to shard

_Seeds = dict[int, admin_pb2.Seed]
"""Seeds by their places in a page."""


class RoutedSeeds(OverShards):
    """The RPC that lists seeds."""

    @routed
    async def ListSeeds(
        self, request: admin_pb2.ListSeedsRequest, context: Context
    ) -> admin_pb2.ListSeedsResponse:
        while True:
            page = await super().ListSeeds(request, context)
            await self._tell(request.crawl, page.seeds, context)
            count = fitting_count(page.seeds)
            if count == len(page.seeds):
                return page
            request.page_size = count  # again, as the next page begins after the seeds that fit

    async def _tell(self, crawl: str, seeds: Sequence[admin_pb2.Seed], context: Context) -> None:
        """Put the stories of seeds that were announced into a page."""
        own = {
            index: self._shard_of(crawl, seed.uri).number
            for index, seed in enumerate(seeds)
            if seed.HasField("story")
        }
        asked: dict[int, dict[int, str]] = {}
        for index, shard in own.items():
            asked.setdefault(shard, {})[index] = seeds[index].uri
        for index, seed in (await self._asked(crawl, asked, False, context)).items():
            seeds[index].CopyFrom(seed)
        lost = {index: seeds[index] for index in own if _leads_elsewhere(seeds[index])}
        ends = {index: seed.led_to or seed.uri for index, seed in lost.items()}
        for index, shard in own.items():
            if self._is_elsewhere(crawl, seeds[index], shard):
                lost[index], ends[index] = seeds[index], seeds[index].uri
        for _ in range(MAX_MOVES):
            if not ends:
                break
            others = {link.number: ends for link in self._links.present}
            found = {
                index: seed
                for index, seed in (await self._asked(crawl, others, True, context)).items()
                if seed.led_to
            }
            for index, seed in found.items():
                lost[index].outcome, lost[index].result = seed.outcome, seed.result
                lost[index].tried_in_vain, lost[index].led_to = seed.tried_in_vain, seed.led_to
            ends = {index: seed.led_to for index, seed in found.items() if _leads_elsewhere(seed)}

    async def _asked(
        self, crawl: str, asked: dict[int, dict[int, str]], led_only: bool, context: Context
    ) -> _Seeds:
        """What shards say of seeds, each asked for some of them. Of one that leads somewhere, that counts."""

        async def ask(link: Link) -> _Seeds:
            uris = asked[link.number]
            request = shard_pb2.TellSeedsRequest(crawl=crawl, uris=uris.values(), led_only=led_only)
            kind, left_s, metadata = (
                shard_pb2.TellSeedsResponse,
                patience_s(link, context),
                passed_on(context),
            )
            try:
                async with self._knowing(link, request):
                    answer = await link.call(TELL_SEEDS, request, kind, left_s, metadata)
            except ShardAway:
                return {} if led_only else {index: _unknown(uri, link) for index, uri in uris.items()}
            return dict(zip(uris, answer.seeds, strict=True))

        told: _Seeds = {}
        numbers = sorted(asked)
        answers = await self._links.of_all(ask, [self._links[number] for number in numbers])
        for number, seeds in zip(numbers, answers, strict=True):
            for index, seed in seeds.items():
                if index not in told or (
                    seed.led_to and not (told[index].led_to and self._is_elsewhere(crawl, seed, number))
                ):
                    told[index] = seed
        return told

    def _is_elsewhere(self, crawl: str, seed: admin_pb2.Seed, shard: int) -> bool:
        """Whether a seed leads to another shard than the one that has told of it: after a split, both halves
        know where it leads, and one of them has the page."""
        return bool(seed.led_to) and self._shard_of(crawl, seed.led_to).number != shard


def _leads_elsewhere(seed: admin_pb2.Seed) -> bool:
    """Whether a seed redirects, and the shard that says so does not know where the end is."""
    redirects = seed.result == admin_pb2.SEED_RESULT_REDIRECTED
    return redirects and (not seed.led_to or ": redirected" in seed.outcome)


def _unknown(uri: str, link: Link) -> admin_pb2.Seed:
    outcome = f"not known now: shard {link.number} is away"
    return admin_pb2.Seed(uri=uri, outcome=outcome, result=admin_pb2.SEED_RESULT_PENDING)
