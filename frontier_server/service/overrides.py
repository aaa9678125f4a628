"""Overrides: settings for a part of a crawl's URIs."""

from bisect import bisect_right

from toehold.frontier.v1 import admin_pb2, crawl_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import InvalidRequest, invalid_spec
from ..core.rows.store import Changes
from ..core.state.spec_problems import override_problems
from .answers import AdminRpcs, Context, answered, fitting, operator_of, page_size, place_of
from .secrets import restore_secrets

_LISTING = "overrides"
MAX_OVERRIDE_BYTES = 64 * 1024  # all overrides are in memory


class OverrideRpcs(AdminRpcs):
    @answered
    async def PutOverride(
        self, request: admin_pb2.PutOverrideRequest, context: Context
    ) -> admin_pb2.PutOverrideResponse:
        changes = request.override.settings
        if not wire.sets_something(changes):
            raise InvalidRequest(
                "the override is empty; set at least one setting, or remove it with DeleteOverride",
                field="override.settings",
            )
        settings = changes.SerializeToString()
        if len(settings) > MAX_OVERRIDE_BYTES:
            raise InvalidRequest(
                f"an override must have at most {MAX_OVERRIDE_BYTES} bytes, got {len(settings)}",
                field="override.settings",
            )
        by = operator_of(context)

        def operation(core: Core, now_ms: int) -> tuple[str, Changes]:
            if found := wire.override_problems(changes):
                registry = core.shard.registry
                spec = registry.unfinished(request.crawl).spec.spec
                changes.ClearField("empty_lists")
                sane = changes.SerializeToString()
                raise invalid_spec(override_problems(registry.settings_of(spec, (sane,))) | found)
            prefix = request.override.surt_prefix
            kept = dict(core.administration.overrides(request.crawl)).get(prefix, b"")
            restore_secrets(changes, crawl_pb2.OverrideSettings.FromString(kept).fetch)
            return core.administration.put_override(
                request.crawl, prefix, changes.SerializeToString(), now_ms, by
            )

        surt_prefix = await self._runner.run(operation)
        return admin_pb2.PutOverrideResponse(override=wire.override(surt_prefix, changes.SerializeToString()))

    @answered
    async def DeleteOverride(
        self, request: admin_pb2.DeleteOverrideRequest, context: Context
    ) -> admin_pb2.DeleteOverrideResponse:
        await self._runner.run(
            lambda core, now_ms: core.administration.delete_override(
                request.crawl, request.surt_prefix, now_ms, operator_of(context)
            )
        )
        return admin_pb2.DeleteOverrideResponse()

    @answered
    async def ListOverrides(
        self, request: admin_pb2.ListOverridesRequest, context: Context
    ) -> admin_pb2.ListOverridesResponse:
        size = page_size(request.page_size)
        behind = place_of(_LISTING, request.page_token).decode(errors="replace")

        def question(core: Core, _: int) -> tuple[list[crawl_pb2.Override], bytes]:
            kept = core.administration.overrides(request.crawl)
            start = bisect_right(kept, behind, key=lambda item: item[0]) if behind else 0

            def read(most: int) -> tuple[list[tuple[str, bytes]], bytes]:
                page = kept[start : start + most]
                return page, page[-1][0].encode() if len(kept) > start + most else b""

            return fitting(read, size, lambda item: wire.override(*item))

        overrides, following = await self._runner.read(question)
        return admin_pb2.ListOverridesResponse(
            overrides=overrides, next_page_token=wire.page_token(_LISTING, following)
        )
