"""The server of a client, and the errors of its calls; for blocking and asyncio clients."""

from __future__ import annotations

import grpc

from toehold_client.credentials import Credentials
from toehold_client.errors import FRONTIER, ClientClosed, ToeholdError, from_rpc_error

from .channel import checked_address, operator_metadata
from .retry import Patience
from .security import Security
from .streams import Following, Q, R


class Connection:
    """A client's server, operator, credentials, deadline and patience."""

    _server = FRONTIER

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        patience_s: float,
        operator: str,
        credentials: Credentials | None,
    ) -> None:
        self.address = checked_address(address, self._server)
        self.credentials = credentials
        self._operator = operator_metadata(operator)
        self._security = Security(credentials, address, self._server)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the {self._server} at {self.address} is closed")

    def _explained(self, error: grpc.RpcError, timeout_s: float) -> ToeholdError:
        return from_rpc_error(
            error,
            address=self.address,
            timeout_s=timeout_s,
            server=self._server,
            diagnose=self._security.diagnosis,
        )

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of a call."""
        return (*self._operator, *self._security.metadata())

    def _following(
        self, request: Q, *, what: str, head: str, timeout_s: float | None, reconnect_s: float
    ) -> Following[Q, R]:
        return Following(
            request,
            what=what,
            head=head,
            explain=self._explained,
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
