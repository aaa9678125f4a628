"""A console whose frontier moves: what becomes of the connections that come just then."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
from pathlib import Path

import pytest
from frontier_harness.access import Installation
from frontier_harness.waiting import PATIENCE_S

from toehold_base.serving.addresses import Address
from toehold_console import program
from toehold_console.settings import Settings

CLIENTS = 20


@pytest.mark.parametrize("is_https", [False, True])
def test_connection_that_comes_while_the_frontier_moves_is_answered_or_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, is_https: bool
) -> None:
    """The listener of the first place is closed after it has accepted, and before it serves. With HTTPS no
    client has begun its handshake then."""
    clients: list[socket.socket] = []
    shutdown = program._Server.shutdown

    async def shutdown_as_clients_come(
        self: program._Server, sockets: list[socket.socket] | None = None
    ) -> None:
        if not clients:
            port = self.servers[0].sockets[0].getsockname()[1]
            clients.extend(socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(CLIENTS))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the loop has accepted them, and makes their transports next
        await shutdown(self, sockets)

    monkeypatch.setattr(program._Server, "shutdown", shutdown_as_clients_come)
    cert, key = Installation(tmp_path).cert("console", "127.0.0.1") if is_https else (None, None)
    settings = Settings("127.0.0.1:1", Address("127.0.0.1", 0), https_cert=cert, https_key=key)

    def end() -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    moves = iter((lambda: True, end))
    program.serve_places(lambda: contextlib.nullcontext(program.Place(settings, next(moves))), settings)
    capsys.readouterr()
    assert [client.recv(1) for client in clients] == [b""] * CLIENTS
    for client in clients:
        client.close()
    gc.collect()  # tells of sockets that nothing closed
