"""ControlHandler: answers NodeService, for a node of one process or of several."""

from typing import Protocol

from toehold.node.v1 import node_pb2

MAX_POOL_SIZE = 10_000


class ControlRefusal(Exception):
    """The node refuses a request. `reason` is the contract's."""

    reason = ""


class BadValue(ControlRefusal):
    """An argument makes no sense."""

    reason = "INVALID_ARGUMENT_VALUE"


class NoSuchToe(ControlRefusal):
    """There is no such toe thread, or no longer."""

    reason = "UNKNOWN_TOE"


class Draining(ControlRefusal):
    """The node takes no more leases, and is about to end."""

    reason = "DRAINING"


class SilentWorker(ControlRefusal):
    """A process of the node does not answer at present."""

    reason = "WORKER_SILENT"


class ControlHandler(Protocol):
    """Answers NodeService. All methods but `get_pool` and `list_toes` may raise a ControlRefusal."""

    def get_pool(self) -> node_pb2.GetPoolResponse:
        """The node and its toe pool."""

    def set_pool_size(self, size: int) -> None:
        """Sets the number of toe threads."""

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        """The toe threads."""

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        """Kills a toe thread."""

    def drain(self) -> None:
        """Lets the node end in order."""


def check_size(size: int) -> None:
    """Raises BadValue for a size that no pool can have."""
    if not 0 <= size <= MAX_POOL_SIZE:
        raise BadValue(f"size must be between 0 and {MAX_POOL_SIZE}, got {size}")
