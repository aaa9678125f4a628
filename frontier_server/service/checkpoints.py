"""Checkpoints: made, listed, deleted."""

import asyncio

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..shell.runner import TryLater
from ..stores.checkpoints import Kept
from .answers import AdminRpcs, Context, answered, fitting, page_size, place_of

_LISTING = "checkpoints"


class CheckpointRpcs(AdminRpcs):
    @answered
    async def CreateCheckpoint(
        self, request: admin_pb2.CreateCheckpointRequest, context: Context
    ) -> admin_pb2.CreateCheckpointResponse:
        self._runner.admit()
        await self._runner.read(lambda core, _: None)  # waits until acknowledged changes are on disk
        try:
            kept = await asyncio.to_thread(self._checkpoints.create, self._runner.now_ms())
        except OSError as problem:
            raise refused("the checkpoint cannot be made", problem) from None
        await self._runner.run(lambda core, now_ms: core.control.record_checkpoint(kept.name, now_ms))
        return admin_pb2.CreateCheckpointResponse(checkpoint=message_of(kept))

    @answered
    async def ListCheckpoints(
        self, request: admin_pb2.ListCheckpointsRequest, context: Context
    ) -> admin_pb2.ListCheckpointsResponse:
        size = page_size(request.page_size)
        behind = place_of(_LISTING, request.page_token).decode(errors="replace")
        try:
            kept = await asyncio.to_thread(self._checkpoints.kept)
        except OSError as problem:
            raise refused("the checkpoints cannot be listed", problem) from None
        names = [each.name for each in kept]
        later = kept[names.index(behind) + 1 :] if behind in names else kept

        def read(most: int) -> tuple[list[Kept], bytes]:
            return later[:most], later[most - 1].name.encode() if len(later) > most else b""

        checkpoints, following = fitting(read, size, message_of)
        return admin_pb2.ListCheckpointsResponse(
            checkpoints=checkpoints, next_page_token=wire.page_token(_LISTING, following)
        )

    @answered
    async def DeleteCheckpoint(
        self, request: admin_pb2.DeleteCheckpointRequest, context: Context
    ) -> admin_pb2.DeleteCheckpointResponse:
        name = request.checkpoint
        self._checkpoints.path(name)
        await self._runner.read(lambda core, _: core.control.check_checkpoint_free(name))
        try:
            await asyncio.to_thread(self._checkpoints.delete, name)
        except OSError as problem:
            raise refused(f"checkpoint {name} cannot be deleted", problem) from None
        return admin_pb2.DeleteCheckpointResponse()


def refused(what: str, problem: OSError) -> TryLater:
    """A refusal for an error of the disk, which may pass."""
    return TryLater("DISK_RESERVE", f"{what}: {problem.strerror or problem}", 30_000)


def message_of(kept: Kept) -> admin_pb2.Checkpoint:
    return admin_pb2.Checkpoint(
        checkpoint=kept.name, create_time=wire.timestamp(kept.create_ms), path=str(kept.path)
    )
