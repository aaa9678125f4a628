"""Callers: what one is told about itself."""

from toehold.frontier.v1 import admin_pb2
from toehold_base.access.roles import ROLES, Role, is_question

from .answers import AdminRpcs, Context, answered
from .gate import present_call


class CallerRpcs(AdminRpcs):
    @answered
    async def GetCaller(
        self, request: admin_pb2.GetCallerRequest, context: Context
    ) -> admin_pb2.GetCallerResponse:
        await self._runner.read(lambda core, _: None)  # a server that has failed answers nobody
        caller = present_call().caller
        roles = frozenset(Role) if caller is None else caller.roles
        return admin_pb2.GetCallerResponse(
            caller="" if caller is None else caller.name,
            roles=[role.value for role in Role if role in roles],
            crawls=[] if caller is None else sorted(caller.crawls or ()),
            rpcs=[rpc for rpc, of in ROLES.items() if of & roles and self._serves(rpc)],
        )

    def _serves(self, rpc: str) -> bool:
        return not self._config.read_only or is_question(rpc)
