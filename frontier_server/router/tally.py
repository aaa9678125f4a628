"""Calls that a door has answered by itself: counted here, and reported to the front, whose metrics they
are."""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Never
from uuid import uuid4

import grpc

from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..metrics.definitions import RPC_SECONDS
from ..service.answers import Context, code_of
from ..shards.links import Link, Relayed

COUNT_CALLS = "toehold.shard.v1.FrontService/CountCalls"
REPORT_EVERY_S, REPORT_S = 2.0, 5.0


class _Calls:
    """Those of one method."""

    def __init__(self) -> None:
        self.open = 0
        self.ended: Counter[str] = Counter()
        self.buckets = [0] * (len(RPC_SECONDS.buckets) + 1)
        self.seconds = 0.0


class Tally:
    """The calls since its start. `report` them."""

    def __init__(self) -> None:
        self._door = uuid4().hex
        self._methods: dict[str, _Calls] = {}

    @contextmanager
    def one(self, method: str, context: Context) -> Iterator[None]:
        """Count a call, which is answered within a `with` block."""
        calls = self._of(method)
        calls.open += 1
        began_s, code = perf_counter(), grpc.StatusCode.OK.name
        try:
            yield
        except BaseException as problem:
            code = code_of(problem, context)
            raise
        finally:
            took_s = perf_counter() - began_s
            calls.open -= 1
            calls.ended[code] += 1
            calls.buckets[bisect_left(RPC_SECONDS.buckets, took_s)] += 1
            calls.seconds += took_s

    def refuse(self, method: str) -> None:
        """Count a call that was refused here, since the front is away."""
        self._of(method).ended[grpc.StatusCode.UNAVAILABLE.name] += 1

    def _of(self, method: str) -> _Calls:
        calls = self._methods.get(method)
        if calls is None:
            calls = self._methods[method] = _Calls()
        return calls

    async def report(self, front: Link) -> Never:
        """Tell the front the counts again and again; the first time before there are any, so that it knows
        where they begin."""
        while True:
            await front.is_present.wait()
            with suppress(ShardAway, Relayed):  # the next report has what this one would have told
                await front.call(COUNT_CALLS, self._counts(), shard_pb2.CountCallsResponse, REPORT_S)
            await asyncio.sleep(REPORT_EVERY_S)

    def _counts(self) -> shard_pb2.CountCallsRequest:
        return shard_pb2.CountCallsRequest(
            door=self._door,
            methods=[
                shard_pb2.CallCounts(
                    method=name,
                    ended=calls.ended,
                    buckets=calls.buckets,
                    seconds=calls.seconds,
                    open=calls.open,
                )
                for name, calls in self._methods.items()
            ],
        )
