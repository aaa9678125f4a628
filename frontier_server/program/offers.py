"""What the coordinator has for the shards, offered by the router: seeds, and links that were parked."""

from collections.abc import Callable, Sequence

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..coordinator.coordinator import Announcement
from ..coordinator.parking import Parked
from ..core.state.model import Verdict
from ..router.candidates import Candidates
from ..shards.links import Link, Links, Relayed, check_present

ANNOUNCE = "toehold.shard.v1.ShardService/Announce"
ANNOUNCE_S = 30.0

_VERDICTS = {number: verdict for verdict, number in wire.VERDICTS.items()}


class Offers:
    """Offers seeds and parked links to the shards that they belong to."""

    def __init__(self, links: Links, candidates: Candidates, is_there: Callable[[str], bool]) -> None:
        """`is_there` tells whether there is still a crawl of a name."""
        self._links = links
        self._candidates = candidates
        self._is_there = is_there
        self._judged: dict[str, tuple[Announcement, dict[int, Verdict]]] = {}  # seeds of each crawl, by place

    async def announce(self, announcement: Announcement) -> Sequence[Verdict]:
        """Offer seeds; the verdicts. Raises ShardAway if a shard is away, Relayed if it refuses them; the
        others have theirs then, and are not asked again."""
        crawl, seeds = announcement.crawl, announcement.seeds
        before = self._judged.get(crawl)
        judged = before[1] if before is not None and before[0] == announcement else {}
        self._judged = {name: each for name, each in self._judged.items() if self._is_there(name)}
        self._judged[crawl] = announcement, judged
        waiting = [place for place in range(len(seeds)) if place not in judged]
        candidates = [_seed(seeds[place], announcement.before_ms) for place in waiting]
        request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=candidates, partial=True)
        refusals: list[Relayed] = []
        verdicts = await self._offer(request, anew=bool(announcement.before_ms), refusals=refusals)
        for place, verdict in zip(waiting, verdicts, strict=True):
            if verdict != crawl_pb2.VERDICT_AWAY:
                judged[place] = _VERDICTS[verdict]
        if len(judged) < len(seeds):
            if refusals:
                raise refusals[0]
            check_present(self._links.all)
            raise self._links[0].absence()  # it is back already
        del self._judged[crawl]
        return [judged[place] for place in range(len(seeds))]

    async def deliver(self, parked: Parked) -> None:
        """Offer parked links. Raises ShardAway, or Relayed for a refusal."""
        candidates = [frontier_pb2.Candidate.FromString(record) for record in parked.records]
        await self._offer(frontier_pb2.ScheduleRequest(crawl=parked.crawl, candidates=candidates), anew=False)

    async def _offer(
        self, request: frontier_pb2.ScheduleRequest, *, anew: bool, refusals: list[Relayed] | None = None
    ) -> Sequence[crawl_pb2.Verdict.ValueType]:
        """The verdicts. With `refusals`, those of shards go there; their candidates count as not asked."""

        async def ask(link: Link, part: bytes, _: int) -> frontier_pb2.ScheduleResponse:
            offered = frontier_pb2.ScheduleRequest.FromString(part)
            asked = shard_pb2.AnnounceRequest(request=offered, anew=anew)
            try:
                answer = await link.call(ANNOUNCE, asked, shard_pb2.AnnounceResponse, ANNOUNCE_S)
            except Relayed as refusal:
                if refusals is None:
                    raise
                refusals.append(refusal)
                away = [crawl_pb2.VERDICT_AWAY] * len(offered.candidates)
                return frontier_pb2.ScheduleResponse(verdicts=away)
            return answer.response

        return (await self._candidates.split(request, ask)).verdicts


def _seed(uri: str, before_ms: int) -> frontier_pb2.Candidate:
    """A seed as a candidate; if it was last fetched before a time, it is fetched again."""
    message = frontier_pb2.Candidate(uri=uri, seed=True, directive=frontier_pb2.DIRECTIVE_MEDIUM)
    if before_ms:
        message.refetch_before_time.FromMilliseconds(before_ms)
    return message
