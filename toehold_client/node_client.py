# Made from aio/node_client.py by `make generate`: edit that one.
"""NodeClient: a method for each RPC of a crawler node, for blocking programs.

It shows the node's toe threads, and can kill one. For nodes known to a frontier by name,
FrontierClient has `set_pool_size` and `drain_node`.
"""

from toehold.node.v1 import node_pb2
from toehold_client.credentials import Credentials
from toehold_client.errors import NODE
from toehold_client.rpc.calls import Calls


class NodeClient(Calls):
    """A crawler node, for blocking programs.

    May be used by many threads at once. Close it, or use it as a context manager.

        with NodeClient("127.0.0.1:7708") as node:
            for toe in node.list_toes():
                if toe.uri_duration.ToSeconds() > 600:
                    node.kill_toe(toe.serial, toe.worker)

    `address` is HOST:PORT. The node prints it when it starts, and FrontierClient.get_frontier lists it
    as the node's `service_address`. Several processes of one node (`toehold-node --processes`) answer as one.
    `timeout_s` is how long one try of a call waits for its answer. `patience_s` is how long a call keeps
    trying while the node, or one of its processes, does not answer; 0 tries once. Repeating any call is
    harmless.

    `credentials` are for a node on a network, as those of FrontierClient.

    Every method may raise `NodeUnavailable` (nothing answers at the address), `DeadlineExceeded` and
    `InvalidArgument`, with callers also `Unauthenticated`, `PermissionDenied` and `CallerLimit`, and what it
    names.
    """

    _server = NODE

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 0.0,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(address, timeout_s=timeout_s, patience_s=patience_s, credentials=credentials)

    def get_pool(self) -> node_pb2.GetPoolResponse:
        """The node: its name, its frontier, whether it drains. Its toe pool, as a whole and for each process:
        how many toe threads it has and should have, how many died, were killed or left behind, and how many
        are at each step.
        """
        return self._call(lambda stubs: stubs.node.GetPool, node_pb2.GetPoolRequest)

    def set_pool_size(self, size: int) -> None:
        """Sets how many toe threads the node has, 0 to 10 000, in all its processes together.

        Threads beyond a smaller size end after their present URI, and at once while they wait (Heritrix:
        ToePool.setSize). The frontier may ask for another size later. NodeDraining; WorkerSilent if a process
        does not answer: it gets its share once it has been replaced.
        """
        self._call(lambda stubs: stubs.node.SetPoolSize, lambda: node_pb2.SetPoolSizeRequest(size=size))

    def list_toes(self, stacks: bool = False) -> list[node_pb2.Toe]:
        """The toe threads, by process and serial number: their step and URI, and for how long; also those
        that were left behind. With `stacks` also their Python stacks.

        Threads of a process that does not answer are missing; `Worker.silent` of `get_pool` tells.
        """
        answer = self._call(
            lambda stubs: stubs.node.ListToes, lambda: node_pb2.ListToesRequest(stacks=stacks)
        )
        return list(answer.toes)

    def kill_toe(self, serial: int, worker: int = 0, replace: bool = True) -> None:
        """Kills a toe thread (Heritrix: ToePool.killThread): interrupts its fetch and reports its URI with
        -7000. If it has not ended after 5 s, the node abandons it and discards its results.

        `worker` is the number of its process; 0 if the node has only one. With `replace` the pool gets
        another toe thread, without it the pool is one smaller. Returns at once. UnknownToe; WorkerSilent;
        InvalidArgument if `worker` is 0 and the node has several processes.
        """
        self._call(
            lambda stubs: stubs.node.KillToe,
            lambda: node_pb2.KillToeRequest(worker=worker, serial=serial, replace=replace),
        )

    def drain(self) -> None:
        """Asks the node to finish its work and end, like SIGTERM: it takes no more leases, finishes what it
        has started, and returns the rest. Returns at once.
        """
        self._call(lambda stubs: stubs.node.Drain, node_pb2.DrainRequest)
