"""ControlHandler: where a node is asked about itself and told what to do, whoever answers there."""

from typing import Protocol

from toehold.node.v1 import node_pb2

MAX_POOL_SIZE = 10_000


class ControlRefusal(Exception):
    """What was asked is not done. `reason` is the contract's."""

    reason = ""


class BadValue(ControlRefusal):
    """An argument makes no sense."""

    reason = "INVALID_ARGUMENT_VALUE"


class NoSuchToe(ControlRefusal):
    """There is no such toe thread (any more)."""

    reason = "UNKNOWN_TOE"


class Draining(ControlRefusal):
    """The node takes no more leases, and will end."""

    reason = "DRAINING"


class SilentWorker(ControlRefusal):
    """A process of the node does not answer just now."""

    reason = "WORKER_SILENT"


class ControlHandler(Protocol):
    """What NodeService is answered by. All but `get_pool` and `list_toes` may raise a ControlRefusal."""

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
    if not 0 <= size <= MAX_POOL_SIZE:
        raise BadValue(f"size is {size}; 0 to {MAX_POOL_SIZE} toe threads are possible")
