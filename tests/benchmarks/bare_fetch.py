"""Fetches URLs with plain httpx in threads and does nothing with them: what fetching alone costs.

`python -m benchmarks.bare_fetch THREADS FILE`: the file has a URL a line, whose hosts all are at 127.0.0.1.
Says when it is ready. For each line that it reads it fetches the whole list, and tells how many URLs it
has fetched.
"""

import itertools
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

TIMEOUT_S = 60.0


def _fetch(urls: Sequence[str], turn: "itertools.count[int]", client: httpx.Client) -> int:
    fetched = 0
    while (number := next(turn)) < len(urls):
        client.get(urls[number]).raise_for_status()  # get() has read the body
        fetched += 1
    return fetched


def _at_loopback(_host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]


def main(threads: int, urls: Sequence[str]) -> None:
    """Works for whoever writes to its standard input."""
    socket.getaddrinfo = _at_loopback  # type: ignore[assignment] # the names are known nowhere else
    # A client for each thread, as a toe has its own connections; connections are kept as httpx has it.
    clients = [httpx.Client(timeout=TIMEOUT_S, trust_env=False) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        print("ready", flush=True)
        for _ in sys.stdin:
            turn = itertools.count()
            print(sum(pool.map(lambda client: _fetch(urls, turn, client), clients)), flush=True)  # noqa: B023


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]).read_text().split())
