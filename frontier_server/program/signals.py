"""The requests to a running server that come as signals, or as the end of its parent."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial

import structlog

from toehold_base.observability import logs
from toehold_base.process.parent import watch_parent

from ..config import Config, ConfigError, checked_log_level, read_file

_log = structlog.get_logger()


class Stop:
    """Whether the server has been asked to stop, and whether because its parent is gone."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.orphaned = False
        self.is_hurried = False
        """Whether somebody waits for the store and the port."""

    def ask(self) -> None:
        """A signal came."""
        self._event.set()

    def orphan(self) -> None:
        """The parent is gone."""
        self.orphaned = True
        self._event.set()

    def hurry(self) -> None:
        """The supervisor is gone, and the next one waits."""
        self.is_hurried = True
        self._event.set()

    async def wait(self) -> None:
        """Wait until the server is asked to stop."""
        await self._event.wait()


def stop_events(config: Config) -> Stop:
    """What SIGTERM and SIGINT ask for; with `until_stdin_ends`, the end of the parent as well. A member of a
    frontier of several shards hears of both by standard input: of the end of its supervisor, and from it of
    the end of that one's parent."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    if config.member:
        watch_parent(
            partial(loop.call_soon_threadsafe, stop.hurry), partial(loop.call_soon_threadsafe, stop.orphan)
        )
    elif config.until_stdin_ends:
        watch_parent(partial(loop.call_soon_threadsafe, stop.orphan))
    return stop


def reread_at_hangup(config: Config, *, is_managed: bool, then: Callable[[], None] = lambda: None) -> None:
    """At SIGHUP take the log's level from the settings file, and do what comes `then`.

    Without one, SIGHUP ends the frontier, as the end of its terminal does. A service manager sends it to
    reload: then it changes nothing.
    """
    path = config.settings_file

    def reread() -> None:
        if path is None:
            _log.warning("no_settings_file", advice="start the frontier with --config to change it by SIGHUP")
            return
        try:
            level = checked_log_level(read_file(path).log_level)
        except ConfigError as problem:
            _log.error("settings_refused", file=str(path), problem=str(problem))
        else:
            logs.change_level(level)
            then()

    if path is not None or is_managed:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reread)
