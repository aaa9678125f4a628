"""Desk: where a node is asked about itself and told what to do, whoever answers there."""

from typing import Protocol

from toehold.node.v1 import node_pb2

MAX_TOES = 10_000


class DeskRefusal(Exception):
    """What was asked is not done. `reason` is the contract's."""

    reason = ""


class BadValue(DeskRefusal):
    """An argument makes no sense."""

    reason = "INVALID_ARGUMENT_VALUE"


class NoSuchToe(DeskRefusal):
    """There is no such toe thread (any more)."""

    reason = "UNKNOWN_TOE"


class Draining(DeskRefusal):
    """The node takes no more leases, and will end."""

    reason = "DRAINING"


class WorkerSilent(DeskRefusal):
    """A process of the node does not answer just now."""

    reason = "WORKER_SILENT"


class Desk(Protocol):
    """What NodeService is answered by. All but `get_pool` and `list_toes` may raise a DeskRefusal."""

    def get_pool(self) -> node_pb2.GetPoolResponse:
        """The node and its toe pool."""
        ...

    def set_pool_size(self, size: int) -> None:
        """Sets how many toe threads there are."""
        ...

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        """The toe threads."""
        ...

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        """Kills a toe thread."""
        ...

    def drain(self) -> None:
        """Lets the node end in order."""
        ...


def check_size(size: int) -> None:
    """Raises BadValue for a size that no pool can have."""
    if not 0 <= size <= MAX_TOES:
        raise BadValue(f"size is {size}; 0 to {MAX_TOES} toe threads are possible")
