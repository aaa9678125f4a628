"""The refusal of all calls but questions by a frontier that was opened read-only."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from ..core.errors import ReadOnly
from .answering import Context, abort


async def _refuse(_: AsyncIterator[bytes], context: Context) -> Any:
    await abort(
        context, ReadOnly("the frontier was opened read-only; start it without --read-only to change crawls")
    )


# On the wire a call with one message looks the same. No call with a stream of answers changes anything.
REFUSED: Any = grpc.stream_unary_rpc_method_handler(_refuse, None, None)
