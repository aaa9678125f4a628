"""The server of a client, and the errors of its calls; for blocking and asyncio clients."""

import grpc

from toehold_client.credentials import Credentials
from toehold_client.errors import FRONTIER, ClientClosed, ToeholdError, from_rpc_error

from .channel import checked_address, operator_metadata
from .request_ids import Metadata, request_id_in, with_request_id
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
        reached = checked_address(address, self._server)
        self.address = str(reached)
        self.credentials = credentials
        self._operator = operator_metadata(operator)
        self._security = Security(credentials, reached, self._server)
        self._timeout_s = timeout_s
        self._patience = Patience(patience_s)

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of the {self._server} at {self.address} is closed")

    def _call_metadata(self, request_id: str = "") -> Metadata:
        """The metadata of a call; without `request_id` it has that of the context, or a new one."""
        return with_request_id((*self._operator, *self._security.metadata()), request_id)

    def _explained(self, error: grpc.RpcError, timeout_s: float, metadata: Metadata) -> ToeholdError:
        return from_rpc_error(
            error,
            address=self.address,
            timeout_s=timeout_s,
            server=self._server,
            request_id=request_id_in(metadata),
            diagnose=self._security.diagnosis,
        )

    def _following(
        self,
        request: Q,
        metadata: Metadata,
        *,
        what: str,
        head: str,
        timeout_s: float | None,
        reconnect_s: float,
    ) -> Following[Q, R]:
        return Following(
            request,
            what=what,
            head=head,
            explain=lambda failure, connection_s: self._explained(failure, connection_s, metadata),
            timeout_s=timeout_s,
            first=self._patience,
            later=Patience(reconnect_s),
        )
