import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest
from frontier_harness.store_proxy import StoreProxy


def knocked(port: int, is_up: Event) -> list[socket.socket]:
    """Connections that come one after the other until nobody listens."""
    made: list[socket.socket] = []
    with suppress(OSError):
        for _ in range(8):
            made.append(socket.create_connection(("127.0.0.1", port), 1))
            is_up.set()
    is_up.set()
    return made


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_proxy_that_ends_while_connections_come_leaves_none_of_them_open() -> None:
    """In other tests an open one would be found later, whenever its memory is freed."""
    with ThreadPoolExecutor(1) as knocking:
        for _ in range(50):
            is_up = Event()
            with StoreProxy("http://127.0.0.1:1") as proxy:
                coming = knocking.submit(knocked, proxy.port, is_up)
                assert is_up.wait(10)
            for connection in coming.result():
                connection.close()
    gc.collect()
