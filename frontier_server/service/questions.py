"""The calls that change nothing, and the refusal of all others by a frontier that was opened read-only."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from ..core.errors import ReadOnly
from .answering import Context, abort

QUESTIONS = frozenset(
    (
        "StateEvents",
        "GetCrawl",
        "ListCrawls",
        "GetStatistics",
        "ListQueues",
        "GetQueue",
        "ListLargestQueues",
        "ListSlowestQueues",
        "ListUris",
        "GetUri",
        "ListSeenUris",
        "CountSeenUris",
        "ExportUris",
        "ListJobs",
        "GetJob",
        "ListOverrides",
        "ListHosts",
        "ListSources",
        "ListSeeds",
        "ListRefusals",
        "Explain",
        "StreamOutcomes",
        "GetFrontier",
        "ListCheckpoints",
    )
)


async def _refuse(_: AsyncIterator[bytes], context: Context) -> Any:
    await abort(
        context, ReadOnly("the frontier was opened read-only; start it without --read-only to change crawls")
    )


# On the wire a call with one message looks the same. No call with a stream of answers changes anything.
REFUSED: Any = grpc.stream_unary_rpc_method_handler(_refuse, None, None)
