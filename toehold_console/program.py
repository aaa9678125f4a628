"""Serves the console, from its settings until it is asked to stop."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog
import uvicorn

from toehold_base.access.files import mark_of
from toehold_base.access.pem import TlsUnusable, check_not_expired, check_pair
from toehold_base.process.parent import watch_parent
from toehold_base.serving.addresses import taken
from toehold_client.errors import InvalidArgument

from .app import console
from .heads import PromptProtocol
from .settings import Settings

GRACE_S = 3
BACKLOG = 512
MOST_CONNECTIONS = 800
"""Beyond them it answers 503: each takes a descriptor, of which a process often has 1024."""
RENEW_S = 10.0
MOVED_S = 1.0
"""How often it is asked whether the frontier has moved."""

_log = structlog.get_logger()


class CannotListen(InvalidArgument):
    """The address is taken, or is not this machine's."""


def serve(settings: Settings, *, until_stdin_ends: bool = False) -> None:
    """Serves until SIGTERM or SIGINT, or with `until_stdin_ends` until standard input ends.

    InvalidArgument for files that cannot be used; CannotListen.
    """
    serve_places(lambda: contextlib.nullcontext(Place(settings)), settings, until_stdin_ends=until_stdin_ends)


class Place(NamedTuple):
    """Where a frontier is for some time."""

    settings: Settings
    has_moved: Callable[[], bool] | None = None
    """Whether it is elsewhere by now. May take a while."""


def serve_places(
    places: Callable[[], AbstractContextManager[Place]], first: Settings, *, until_stdin_ends: bool = False
) -> None:
    """Serves one place after another: whenever the frontier has moved, the next one that `places` finds.
    Pages connect again by themselves. `first` has all that is the same everywhere.
    """
    if first.https_cert is not None and first.https_key is not None:
        _check(first.https_cert, first.https_key)
    with contextlib.closing(_bound(first)) as listening:
        moved, is_first = True, True
        while moved:
            with places() as place:
                moved = asyncio.run(_serve(place, listening.dup(), until_stdin_ends, is_first))
            is_first = False


async def _serve(place: Place, listening: socket.socket, until_stdin_ends: bool, is_first: bool) -> bool:
    """Serves until it is to end, or the frontier has moved; whether it has."""
    settings = place.settings
    ending = asyncio.Event()
    app = console(settings, ending)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=settings.https_cert,
        ssl_keyfile=settings.https_key,
        http=PromptProtocol,
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=MOST_CONNECTIONS,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of each request that is none
    config.load()
    server = _Server(config)

    def stop() -> None:
        ending.set()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if until_stdin_ends:
        watch_parent(partial(_soon, loop, stop))
    renewing = asyncio.create_task(_renew(settings, config))
    port = listening.getsockname()[1]
    scheme = "https" if settings.serves_https else "http"
    address = f"{scheme}://{settings.listen._replace(port=port)}/"
    _log.info("console_serving", address=address, frontier=settings.frontier)
    if is_first:
        print(f"toehold console serving on {address}", flush=True)
    moved = asyncio.Event()
    watching = asyncio.create_task(_watch(place, moved, stop))
    await server.serve([listening])
    for task in (renewing, watching):
        task.cancel()
    await asyncio.gather(renewing, watching, return_exceptions=True)
    return moved.is_set()


async def _watch(place: Place, moved: asyncio.Event, stop: Callable[[], None]) -> None:
    """Ends serving once the frontier has moved."""
    while place.has_moved is not None:
        await asyncio.sleep(MOVED_S)
        if await asyncio.to_thread(place.has_moved):
            moved.set()
            stop()
            return


def _soon(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(stop)


class _Server(uvicorn.Server):
    """Leaves signals to us: streams must end, too. No connection outlives it, as the process may go on."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the connections, the last within GRACE_S."""
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
        # What was accepted by now becomes a connection first: asyncio forgets it once the listener is closed,
        # and its client would wait for an answer.
        for _ in range(2):
            await asyncio.sleep(0)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing."""
        yield


def _bound(settings: Settings) -> socket.socket:
    host, port = settings.listen
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        found, problem = [], error
    for family, kind, number, _, address in found:
        listening = socket.socket(family, kind, number)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            problem = error
            listening.close()
        else:
            return listening
    raise CannotListen(taken(settings.listen)) from problem


def _check(cert: Path, key: Path) -> None:
    try:
        check_pair(cert, key)
        check_not_expired(cert)
    except TlsUnusable as problem:
        raise InvalidArgument(str(problem)) from None


async def _renew(settings: Settings, config: uvicorn.Config) -> None:
    """New connections use a certificate that has been replaced."""
    cert, key = settings.https_cert, settings.https_key
    if cert is None or key is None or config.ssl is None:
        return
    marks = mark_of(cert), mark_of(key)
    while True:
        await asyncio.sleep(RENEW_S)
        now = mark_of(cert), mark_of(key)
        if now == marks:
            continue
        marks = now
        try:
            _check(cert, key)
            config.ssl.load_cert_chain(cert, key)
        except (InvalidArgument, OSError) as problem:
            _log.error("certificates_unusable", problem=str(problem), advice="those in use stay")
        else:
            _log.info("certificates_reloaded")
