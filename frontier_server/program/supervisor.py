"""The supervisor of a frontier of several shards: it starts the shards and the front, starts those again that
die, and ends all of them together.
"""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from toehold_base.access.privacy import warn_if_open
from toehold_base.durable import make_own_directory
from toehold_base.observability import logs
from toehold_base.process.restarts import Rests
from toehold_base.process.service_manager import ServiceManager

from ..config import FRONT, MIB, Config, ServerFile
from ..stores.locks import ANSWERS, is_locked
from .exits import EXIT_DATA, EXIT_IN_USE, EXIT_LISTEN, EXIT_STORE, HOPELESS, end
from .member import SERVING, Member
from .private_folder import PrivateFolder
from .shard_map import FILE, ShardMap, check_no_split, wanted_map
from .signals import reread_at_hangup, stop_events

PROGRAM = ("-P", "-m", "frontier_server")
"""How Python is told what members run. -P: no file in the present directory may stand in for a module."""
LOCK = "shards.lock"
FOLDER = "sockets"
FORMER_END_S = 10.0
"""How long the members of an earlier supervisor, which was killed, may take to end."""
LOOK_S = 0.02
FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S = 0.1, 10.0, 3.0
REST_OF_SERVED_S = 1.0
PORT_PATIENCE_S = 10.0
"""For so long a front that comes back may find its address taken."""
BEAT_S = 1.0
END_S = 40.0
"""How long a member may take to end. What it has acknowledged is safe if it is killed then."""

_log = structlog.get_logger()


def supervise(config: Config, settings: ServerFile, manager: ServiceManager) -> int:
    """Run a frontier of several shards; its exit code. Raises MapUnusable. Ends the program if the
    data directory cannot be used."""
    data = config.data
    try:
        shard_map = wanted_map(data, config.shards)  # before anything is made
        if config.read_only:
            return _run(config, shard_map, settings, manager)
        make_own_directory(data)
        warn_if_open(data)
        with locked(data):  # a split may have come and gone until now
            check_no_split(data)
            shard_map = wanted_map(data, config.shards)
            if not shard_map.complete:
                shard_map.write()
            return _run(config, shard_map, settings, manager)
    except BlockingIOError:
        end(EXIT_DATA, f"data directory {data}: it is in use by another frontier")
    except OSError as problem:
        end(EXIT_DATA, f"data directory {data} cannot be used: {problem.strerror}")


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """A context in which no other supervisor may use a data directory. Raises BlockingIOError."""
    with open(data / LOCK, "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _run(config: Config, shard_map: ShardMap, settings: ServerFile, manager: ServiceManager) -> int:
    folder = PrivateFolder(config.data, FOLDER, f"{shard_map.names[-2]}.sock", config.read_only)
    try:
        return asyncio.run(Supervisor(config, shard_map, settings, manager, folder.path).run())
    finally:
        folder.clear()


class Supervisor:
    """The members of a frontier. `run` it."""

    def __init__(
        self,
        config: Config,
        shard_map: ShardMap,
        settings: ServerFile,
        manager: ServiceManager,
        folder: Path,
    ) -> None:
        """`settings` are those that `config` was made of. `folder` is for the shards' sockets."""
        self._config = config
        self._map = shard_map
        self._settings = msgspec.structs.replace(settings, cache_mib=config.cache_bytes // MIB)
        self._manager = manager
        self._folder = folder
        beat_s = min(BEAT_S, manager.beat_s / 2 or BEAT_S)
        *self._shards, self._front = self._members = [
            Member(name, self._command(name), beat_s, self._hear, self._say) for name in shard_map.names
        ]
        self._alive: set[str] = set()  # since the manager was told last
        self._is_announced = False
        self._unsaid: list[str] = []
        """What is to be said as soon as all serve: that comes first."""
        self._ending = asyncio.Event()

    async def run(self) -> int:
        """Run the members until asked to stop; the exit code."""
        stop = stop_events(self._config)
        reread_at_hangup(self._config, is_managed=bool(self._manager), then=self._pass_on_hangup)
        self._manager.status(f"Opening {self._config.data}")
        await self._former_ended()
        keeping = {member: asyncio.create_task(self._keep(member)) for member in self._members}
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((stopping, *keeping.values()), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        hopeless = [task.result() for task in keeping.values() if task.done()]
        self._manager.stopping("Stopping")
        self._ending.set()
        if stop.orphaned:
            self._front.orphan()
        else:
            self._front.end()
        codes = [await self._ended(self._front, keeping[self._front])]
        for shard in self._shards:
            shard.end()
        codes += await asyncio.gather(*(self._ended(shard, keeping[shard]) for shard in self._shards))
        if hopeless:
            return hopeless[0]
        return EXIT_STORE if any(code not in (0, -signal.SIGTERM) for code in codes) else 0

    async def _former_ended(self) -> None:
        """Wait until the members of an earlier supervisor have ended, which was killed. Who only reads does
        not wait: whoever has the stores answers questions, too."""
        locks = [self._map.directory_of(name) / "store" / "LOCK" for name in self._map.names]
        if self._config.read_only:  # each member would say it of its own store
            if any(map(is_locked, locks)):
                end(EXIT_IN_USE, f"data directory {self._config.data}: {ANSWERS}")
            return
        try:
            async with asyncio.timeout(FORMER_END_S):
                while any(map(is_locked, locks)):  # noqa: ASYNC110  # there is no event for it
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            held = next(filter(is_locked, locks), locks[0]).parent
            end(EXIT_DATA, f"data directory {self._config.data}: {held} is in use by another process")

    async def _keep(self, member: Member) -> int:
        """Run a member, again and again, until all end, or it makes no sense any more; its last exit code."""
        rests = Rests(FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S)
        clock = asyncio.get_running_loop().time
        code, away_since_s = 0, clock()
        while not self._ending.is_set():
            began_s = clock()
            try:
                code = await member.live()
            except OSError as problem:  # the system has no room for a process
                _log.error("member_not_started", member=member.name, problem=str(problem))
                code = EXIT_STORE
            if self._ending.is_set():
                break
            if member.has_served:
                away_since_s = clock()
            if self._is_hopeless(code, clock() - away_since_s):
                break
            rest_s = rests.after(clock() - began_s)
            if member.has_served:  # it can start: however often it is killed, it is back soon
                rest_s = min(rest_s, REST_OF_SERVED_S)
            _log.error("member_ended", member=member.name, exit_code=code, restart_s=rest_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._ending.wait()
        return code

    def _is_hopeless(self, code: int, away_s: float) -> bool:
        """Whether a member that ended so would end so again, and has been away for so long."""
        if not self._is_announced:  # else a failure of the store may pass, and a killed process be replaced
            return code > 0 and code != EXIT_STORE
        if code == EXIT_LISTEN:  # the console of the front that died may still have to end
            return away_s >= PORT_PATIENCE_S
        return code in HOPELESS

    async def _ended(self, member: Member, keeping: asyncio.Task[int]) -> int:
        """Wait until a member that was told to end has ended; its exit code."""
        done, _ = await asyncio.wait((keeping,), timeout=END_S)
        if not done:
            _log.error("member_hung", member=member.name, seconds=END_S)
            member.send(signal.SIGKILL)
        return await keeping

    def _hear(self, member: Member) -> None:
        """Take a member's sign of life. One that is being started again is not waited for."""
        self._alive.add(member.name)
        if all(each.name in self._alive for each in self._members if each.is_serving):
            self._alive.clear()
            self._manager.alive()
        if not self._is_announced and all(each.is_serving for each in self._members):
            self._is_announced = True
            self._complete_map()
            print(f"{SERVING}{self._front.address}", *self._unsaid, sep="\n", flush=True)
            self._manager.ready(f"Serving on {self._front.address} with {self._map.shards} shards")

    def _say(self, line: str) -> None:
        """Print a line of a member, for whoever started the whole."""
        if self._is_announced:
            print(line, flush=True)
        else:
            self._unsaid.append(line)

    def _complete_map(self) -> None:
        """Note that each member's store has been made. If that fails, the next start tries again."""
        if not self._config.read_only:
            try:
                self._map = self._map.completed()
            except OSError as problem:
                _log.error("map_not_written", file=FILE, problem=str(problem))

    def _pass_on_hangup(self) -> None:
        for member in self._members:
            member.send(signal.SIGHUP)

    def _command(self, name: str) -> Callable[[], list[str]]:
        def command() -> list[str]:
            member = self._front if name == FRONT else self._shards[self._map.names.index(name)]
            settings = msgspec.structs.replace(self._settings, log_level=logs.level())
            if name == FRONT and member.address:  # port 0 would be another one
                settings.listen = member.address
            own = ["--member", name, "--sockets", str(self._folder)]
            if self._config.settings_file is not None:  # read again at SIGHUP
                own += ["--config", str(self._config.settings_file)]
            if self._config.set_clock and not member.address:  # once
                own.append("--set-clock")
            return [sys.executable, *PROGRAM, *own, *options_of(name, settings, self._map.shards)]

        return command


def options_of(member: str, settings: ServerFile, shards: int) -> list[str]:
    """The options of a member of a frontier with these settings."""
    own = msgspec.structs.replace(settings, shards=None, cache_mib=share_of(settings.cache_mib or 0, shards))
    if member != FRONT:  # it is reached by its socket alone
        usual = ServerFile()
        for name in _OF_FRONT:
            setattr(own, name, getattr(usual, name))
    options = []
    for name, value in msgspec.structs.asdict(own).items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            options.append(flag)
        elif not (value is None or value is False or value == ""):
            options.append(f"{flag}={value}")
    return options


def share_of(cache_mib: int, shards: int) -> int:
    """The cache of each member: the coordinator has a store, too."""
    return max(1, cache_mib // (shards + 1))


_OF_FRONT = ("listen", "insecure", "tls_cert", "tls_key", "tls_ca", "metrics", "console", "console_hosts")
