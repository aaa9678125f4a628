"""What each method of the clients says to a crawler node. Procedures, as in `calls`."""

from __future__ import annotations

from toehold.node.v1.node_pb2 import (
    DrainRequest,
    GetPoolRequest,
    GetPoolResponse,
    KillToeRequest,
    ListToesRequest,
    SetPoolSizeRequest,
    Toe,
)

from .calls import Procedure, call
from .retry import Patience


def get_pool(patience: Patience) -> Procedure[GetPoolResponse]:
    """The node and its toe pool."""
    return call(lambda stubs: stubs.node.GetPool, GetPoolRequest(), patience)


def set_pool_size(size: int, patience: Patience) -> Procedure[None]:
    """Sets how many toe threads there are."""
    yield from call(lambda stubs: stubs.node.SetPoolSize, SetPoolSizeRequest(size=size), patience)


def list_toes(stacks: bool, patience: Patience) -> Procedure[list[Toe]]:
    """The toe threads."""
    answer = yield from call(lambda stubs: stubs.node.ListToes, ListToesRequest(stacks=stacks), patience)
    return list(answer.toes)


def kill_toe(serial: int, worker: int, replace: bool, patience: Patience) -> Procedure[None]:
    """Kills a toe thread."""
    request = KillToeRequest(worker=worker, serial=serial, replace=replace)
    yield from call(lambda stubs: stubs.node.KillToe, request, patience)


def drain(patience: Patience) -> Procedure[None]:
    """Lets the node end in order."""
    yield from call(lambda stubs: stubs.node.Drain, DrainRequest(), patience)
