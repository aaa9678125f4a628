"""Checkpoints of several shards: sets, each of one moment.

If a shard were copied before another one, a link that the first takes in later would be missing in it, while
the page with the link is done in the other. So no shard applies reports while all are copied. The coordinator
is copied first: seeds that it counts as announced are then in the copies of the shards. Its copy counts as
a checkpoint once all of these are there, so a set that is listed is whole.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

from ..core.rows.errors import ShardAway
from ..service.answers import Context
from ..service.checkpoints import message_of, refused
from ..shards.links import Link, Relayed, check_present
from ..shell.runner import TryLater
from .answers import routed
from .over_shards import OverShards

SERVICE = "toehold.shard.v1.ShardService"
HOLD_S, COPY_S = 30, 25.0  # a copy that takes longer is given up
_TOO_LATE = f"the copies took more than {HOLD_S} s, and are of several moments; try later"


class RoutedCheckpoints(OverShards):
    """The RPCs on checkpoints, over all shards."""

    @routed
    async def CreateCheckpoint(
        self, request: admin_pb2.CreateCheckpointRequest, context: Context
    ) -> admin_pb2.CreateCheckpointResponse:
        return await self._whoever_waits(self._create_set())

    async def _create_set(self) -> admin_pb2.CreateCheckpointResponse:
        async with self._sets:
            return await self._created_set()

    async def _created_set(self) -> admin_pb2.CreateCheckpointResponse:
        self._runner.admit()
        check_present(self._links.all)  # before reports are held back
        await self._runner.read(lambda core, _: None)  # waits until acknowledged changes are on disk
        async with self._reports_held() as end_s:
            try:
                name = await asyncio.to_thread(self._checkpoints.begin, self._runner.now_ms())
            except OSError as problem:
                raise refused("the checkpoint cannot be made", problem) from None
            try:
                others = [each.name for each in await asyncio.to_thread(self._checkpoints.kept)]
                asked = shard_pb2.CopyStoreRequest(checkpoint=name, other_checkpoints=others)
                await self._links.of_all(
                    lambda link: link.call(f"{SERVICE}/CopyStore", asked, shard_pb2.CopyStoreResponse, COPY_S)
                )
                if asyncio.get_running_loop().time() >= end_s:
                    raise TryLater("OVERLOADED", _TOO_LATE, 30_000)
            except BaseException:
                await asyncio.to_thread(self._checkpoints.give_up, name)
                await self._delete_parts(name)
                raise
            try:
                kept = await asyncio.to_thread(self._checkpoints.complete, name)
            except OSError as problem:
                await self._delete_parts(name)
                raise refused("the checkpoint cannot be made", problem) from None
        await self._runner.run(lambda core, now_ms: core.control.record_checkpoint(kept.name, now_ms))
        return admin_pb2.CreateCheckpointResponse(checkpoint=message_of(kept))

    @asynccontextmanager
    async def _reports_held(self) -> AsyncIterator[float]:
        """A context in which no shard applies reports; until when, on the event loop's clock."""
        method = f"{SERVICE}/HoldReports"

        async def hold(link: Link, seconds: int) -> None:
            asked = shard_pb2.HoldReportsRequest(hold_duration=Duration(seconds=seconds))
            await link.call(method, asked, shard_pb2.HoldReportsResponse, COPY_S)

        async def let_go(link: Link) -> None:
            with suppress(ShardAway, Relayed):  # then they go on by themselves, after HOLD_S
                await hold(link, 0)

        end_s = asyncio.get_running_loop().time() + HOLD_S
        try:
            await self._links.of_all(lambda link: hold(link, HOLD_S))
            yield end_s
        finally:
            await self._links.of_all(let_go)

    @routed
    async def DeleteCheckpoint(
        self, request: admin_pb2.DeleteCheckpointRequest, context: Context
    ) -> admin_pb2.DeleteCheckpointResponse:
        name = request.checkpoint
        async with self._sets:
            self._checkpoints.path(name)
            await self._runner.read(lambda core, _: core.control.check_checkpoint_free(name))
            check_present(self._links.all)
            try:
                await asyncio.to_thread(self._checkpoints.delete, name)
            except OSError as problem:
                raise refused(f"checkpoint {name} cannot be deleted", problem) from None
            await self._delete_parts(name)
        return admin_pb2.DeleteCheckpointResponse()

    async def _delete_parts(self, name: str) -> None:
        """Delete what shards have of a set. A part that stays is listed nowhere, and goes when the next set
        is made."""
        asked = shard_pb2.DeleteCopyRequest(checkpoint=name)

        async def delete(link: Link) -> None:
            with suppress(ShardAway, Relayed):
                await link.call(f"{SERVICE}/DeleteCopy", asked, shard_pb2.DeleteCopyResponse)

        await self._links.of_all(delete)
