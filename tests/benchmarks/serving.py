"""A site on 127.0.0.1 that costs as little as may be: the machine is for those who are measured.

Connections are kept, unless a request says `Connection: close`.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from ssl import SSLContext


class _Connection(asyncio.Protocol):
    def __init__(self, answer: Callable[[bytes, bytes], bytes], made: Callable[[], object]) -> None:
        self._answer = answer
        self._made = made
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._made()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            lower = head.lower()
            host = lower.partition(b"\r\nhost:")[2].partition(b"\r\n")[0].strip().partition(b":")[0]
            self._transport.write(self._answer(host, head.split(b" ", 2)[1]))
            if b"connection: close" in lower:
                self._transport.close()


async def serve(
    answer: Callable[[bytes, bytes], bytes],
    *contexts: SSLContext | None,
    made: Callable[[], object] = lambda: None,
) -> None:
    """Answer requests by their host and path, on a port for each context (None: without TLS), for ever.

    Prints the ports. `made` is called for each connection, once its handshake is done.
    """
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: _Connection(answer, made), "127.0.0.1", 0, ssl=context, backlog=1000)
        for context in contexts
    ]
    print(*(each.sockets[0].getsockname()[1] for each in servers), flush=True)
    await asyncio.Event().wait()


def end_with_stdin() -> None:
    """End the program when its standard input does."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
