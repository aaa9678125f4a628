"""A machine of a cluster: it has a door, and starts and ends the members that it is to serve.

It renews its place among the machines, looks at the others, and does what `cluster.claims` decides. Members
are processes, as under a supervisor. One that hangs is killed; one whose log another machine has opened ends
by itself.
"""

import asyncio
import hashlib
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog

from toehold_base.access.pem import TlsUnusable, check_not_expired
from toehold_base.access.privacy import warn_if_open
from toehold_base.durable import make_own_directory
from toehold_base.observability import logs
from toehold_base.process.restarts import Rests
from toehold_base.process.service_manager import ServiceManager

from ..cluster.claims import Claims, Plan
from ..cluster.identity import ClusterUnusable, identified
from ..cluster.members import FORGET_S, FORMAT, Card, Members, NameTaken, Seen
from ..config import DOOR, FRONT, MIB, Config, ServerFile
from ..replicated.buckets import Bucket, BucketFailed, BucketUnusable, open_bucket, probe, requests_made
from ..shards.locations import Location, write_locations
from ..shards.pipe import PING, Broken, Pipe, Refused
from .asking import Asking, clock_s
from .exits import EXIT_DATA, EXIT_FENCED, EXIT_LISTEN, EXIT_SPLIT, EXIT_STORE, EXIT_USAGE, HOPELESS, end
from .expiry import watch_expiry
from .inner import LOCATIONS, trust_of
from .member import SERVING, Member
from .private_folder import PrivateFolder
from .shard_map import ShardMap, cluster_map, socket_of
from .signals import reread_at_hangup, stop_events
from .supervisor import END_S, FOLDER, PROGRAM, locked, options_of

RENEWALS_MISSED = 5
"""A machine that has missed so many is gone."""
BEAT_S = 1.0
HUNG_S = 5.0
"""A member that has said nothing for so long is killed: its shard waits for nobody."""
WATCH_S, FROZEN_S = 0.5, 2.0
"""Between two looks at members. If one comes so late, this machine has stood still, and so have they."""
SILENT_END_S = 12.0
"""How long a member may take to end then. Its last request takes ten seconds."""
COUNT_EVERY_S = 60.0
KNOCKS, KNOCK_S = 3, 0.5
TRIES = 3
"""After so many starts in a row that have failed here, another machine may try."""
FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S = 0.1, 10.0, 3.0
DOOR_REST_S = 1.0
CLOCK_AGAIN_S = 3600.0
RENEW_OF_MACHINE = "replace the files of --cluster-cert and --cluster-key, and restart this machine"
_OF_DOOR = ("listen", "tls_cert", "tls_key", "tls_ca", "console", "console_hosts")
_OF_CLUSTER = ("log", "machine", "placement", "renew_seconds")

_log = structlog.get_logger()


def serve_machine(config: Config, settings: ServerFile, manager: ServiceManager, version: str) -> int:
    """Be a machine of the cluster in the bucket; the exit code. Raises MapUnusable. Ends the program if
    bucket or data directory cannot be used."""
    data = config.data
    try:
        trust_of(config, b"").check(config.cluster_listen)
    except TlsUnusable as problem:
        end(EXIT_USAGE, str(problem))
    try:
        bucket = open_bucket(config.log)
        probe(bucket)
        cluster = identified(bucket, config.shards, version)
    except (BucketUnusable, ClusterUnusable) as problem:
        end(EXIT_DATA, f"log {config.log} {problem}")
    except BucketFailed as problem:
        end(EXIT_STORE, f"log {problem}")
    try:
        make_own_directory(data)
        warn_if_open(data)
        with locked(data):
            shard_map = cluster_map(data, cluster, config.log)
            config = replace(config, folder=shard_map.folder)
            folder = PrivateFolder(data, FOLDER, f"{shard_map.names[-2]}.sock", False)
            try:
                (folder.path / LOCATIONS).unlink(missing_ok=True)
                machine = Machine(config, settings, shard_map, manager, folder.path, bucket, version)
                code = asyncio.run(machine.run())
            finally:
                (folder.path / LOCATIONS).unlink(missing_ok=True)
                folder.clear()
    except BlockingIOError:
        end(EXIT_DATA, f"data directory {data}: it is in use by another frontier")
    except OSError as problem:
        end(EXIT_DATA, f"data directory {data} cannot be used: {problem.strerror}")
    if machine.gave_up_bucket:
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> NoReturn:
    """End the program, in which a thread waits for the bucket. If that got its answer while Python ends, it
    could end the program by a signal."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def name_of(config: Config) -> str:
    """This machine's name in the cluster: the one that was given, or one made of the host's and the
    directory."""
    if config.machine:
        return config.machine
    directory = hashlib.blake2b(os.fsencode(config.data.absolute()), digest_size=3).hexdigest()
    return f"{socket.gethostname().partition('.')[0][:50]}-{directory}"


class _Held:
    """A member that this machine serves, or is about to."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.task: asyncio.Task[None] | None = None
        self.is_given_back = False
        self.ports: tuple[int, int] | None = None
        self.epoch = 0
        self.heard_s = clock_s()


class Machine:
    """A machine. `run` it."""

    def __init__(
        self,
        config: Config,
        settings: ServerFile,
        shard_map: ShardMap,
        manager: ServiceManager,
        folder: Path,
        bucket: Bucket,
        version: str,
    ) -> None:
        """`settings` are those that `config` was made of. `folder` is for the members' sockets."""
        self._config = config
        self._map = shard_map
        self._settings = msgspec.structs.replace(settings, cache_mib=config.cache_bytes // MIB)
        for name in _OF_CLUSTER:
            setattr(self._settings, name, getattr(ServerFile(), name))
        self._manager = manager
        self._folder = folder
        self._version = version
        self._name = name_of(config)
        self._gone_s = RENEWALS_MISSED * config.renew_s
        self._machines = Members(bucket, self._name, shard_map.group)
        self._claims = Claims(self._name, shard_map.names, self._gone_s, config.ordinal)
        self._trust = trust_of(config, shard_map.secret)
        self._is_welcome = config.ordinal is not None
        self._about: Collection[str] = ()  # what it is about to serve, if nobody else is
        self._held: dict[str, _Held] = {}
        self._seen: Mapping[str, Seen] = {}
        self._door = Member(DOOR, self._command(DOOR), BEAT_S, self._hear_door, self._say)
        self._is_announced = False
        self._is_unwelcome = False
        self._requests_an_hour = 0
        self._counted = clock_s(), 0
        self._warned_of_clock_s = -CLOCK_AGAIN_S
        self._written: dict[str, Location] | None = None
        self._ending = asyncio.Event()
        self._is_hopeless = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._told: Card | None = None  # when this machine ended
        self._asking = Asking(self._ending.is_set)
        self._watched_s = clock_s()
        self._stood_still_s = 0.0  # altogether
        self._exit_code = 0

    @property
    def gave_up_bucket(self) -> bool:
        """Whether it has ended without the answer of the bucket, which was silent."""
        return self._asking.has_given_up

    async def run(self) -> int:
        """Serve until asked to stop; the exit code."""
        stop = stop_events(self._config)
        reread_at_hangup(self._config, is_managed=bool(self._manager), then=self._pass_on_hangup)
        self._manager.status(f"Joining the cluster as {self._name}")
        _log.info("machine_joins", machine=self._name, cluster=self._map.cluster, shards=self._map.shards)
        door = asyncio.create_task(self._keep_door())
        beating = asyncio.create_task(self._beat())
        watching = asyncio.create_task(self._watch())
        warning = asyncio.create_task(self._warn_of_expiry())
        ends = [asyncio.create_task(each.wait()) for each in (stop, self._is_hopeless)]
        await asyncio.wait((beating, watching, *ends), return_when=asyncio.FIRST_COMPLETED)
        for waiting in (warning, *ends):
            waiting.cancel()
        self._manager.stopping("Stopping")
        self._ending.set()
        self._door.end()
        if not beating.done():
            await beating  # it tells the others that this machine leaves
        await self._ended(self._door, door)
        await watching
        front = [self._held[FRONT]] if FRONT in self._held else []
        rest = [each for each in self._held.values() if each not in front]
        # What the front still has to do needs shards. While the bucket is silent it can do nothing.
        for held in [[*front, *rest]] if self.gave_up_bucket else [front, rest]:
            await asyncio.gather(*(self._leave_member(each) for each in held))
        with suppress(BucketFailed):
            await self._asking.ask(self._machines.leave)
        return self._exit_code

    async def _warn_of_expiry(self) -> None:
        """Warn before the certificate expires that machines know each other by."""
        if self._config.cluster_cert is not None:
            at = check_not_expired(self._config.cluster_cert)
            await watch_expiry(lambda: at, RENEW_OF_MACHINE)

    async def _leave_member(self, held: _Held) -> None:
        """End a member, and let other machines take it at once."""
        held.member.end()
        if held.task is not None:
            await self._ended(held.member, held.task)
        self._held.pop(held.member.name, None)
        async with self._renewing:
            await self._tell_end()

    async def _tell_end(self) -> None:
        """Tell the others what this machine, which ends, still has."""
        card = self._card()
        if card != self._told:  # else one request has told of several members
            with suppress(BucketFailed):
                await self._asking.ask(partial(self._machines.renew, card))
                self._told = card

    def _give_up(self, code: int) -> None:
        """End the machine: it makes no sense any more."""
        self._exit_code = code
        self._is_hopeless.set()

    # The door.

    async def _keep_door(self) -> None:
        rests = Rests(FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S)
        while not self._ending.is_set():
            began_s = clock_s()
            try:
                code = await self._door.live()
            except OSError as problem:
                _log.error("member_not_started", member=DOOR, problem=str(problem))
                code = EXIT_STORE
            if self._ending.is_set():
                return
            if code in HOPELESS and not (self._is_announced and code == EXIT_LISTEN):
                self._give_up(code)
                return
            rest_s = min(
                rests.after(clock_s() - began_s), DOOR_REST_S if self._is_announced else LONGEST_REST_S
            )
            _log.error("member_ended", member=DOOR, exit_code=code, restart_s=rest_s)
            await self._rest(rest_s)

    def _hear_door(self, member: Member) -> None:
        self._manager.alive()
        if not self._is_announced and member.is_serving:
            self._is_announced = True
            print(f"{SERVING}{member.address}", flush=True)
            self._manager.ready(f"Serving on {member.address} as {self._name}")

    def _say(self, line: str) -> None:
        print(line, flush=True)

    # The others.

    async def _beat(self) -> None:
        """Renew, look, decide, again and again. At the end the others hear that this machine leaves."""
        problem = ""
        while not self._ending.is_set():
            began_s = clock_s()
            try:
                await self._exchange()
                await self._forget_gone()
            except NameTaken as taken:
                self._give_up(EXIT_DATA)
                _log.error("machine_name_taken", problem=str(taken))
                return
            except BucketFailed as failure:
                if not problem:
                    _log.warning("cluster_unreachable", problem=str(failure))
                problem = str(failure)
            else:
                if problem:
                    _log.info("cluster_reached_again")
                problem = ""
            self._count_requests()
            if not problem:  # else nobody was looked at, so nobody is known to be gone
                self._write_locations()
            if not self._is_welcome:
                await self._knock()
            if self._is_welcome:
                await self._do(self._plan())
            await self._rest(max(self._config.renew_s - (clock_s() - began_s), 0.01))
        await self._tell_end()

    async def _exchange(self) -> None:
        """Tell the others of this machine, and look at them."""
        began_s, stood_s = clock_s(), self._stood_still_s
        self._seen = await self._asking.ask(partial(self._exchanged, self._card()))
        self._note_freeze()  # one that stood still has no slow bucket
        now_s = clock_s()
        told = {name: (seen.tag, seen.notice) for name, seen in self._seen.items()}
        self._claims.look(told, now_s, now_s - began_s - (self._stood_still_s - stood_s))
        self._warn_of_clock(now_s)

    def _warn_of_clock(self, now_s: float) -> None:
        """Say again and again that this machine's clock is not the bucket's."""
        ahead_s = self._machines.clock_ahead_s
        if not ahead_s or now_s - self._warned_of_clock_s < CLOCK_AGAIN_S:
            return
        self._warned_of_clock_s = now_s
        _log.warning("clock_apart", ahead_s=round(ahead_s), advice="let NTP set the clocks of all machines")

    def _exchanged(self, card: Card) -> Mapping[str, Seen]:
        self._machines.renew(card)
        return self._machines.look()

    async def _knock(self) -> None:
        """Find out whether this machine reaches one of the others, or none serves anything. One that was
        started with other certificates, or is cut off, would take members away from all."""
        there = set(self._claims.there(clock_s())) - {self._name}
        cards = [seen.card for name, seen in self._seen.items() if name in there and seen.card.ports]
        knocked = random.sample(cards, min(len(cards), KNOCKS))
        problems = await asyncio.gather(*map(self._problem_with, knocked))
        self._is_welcome = not problems or "" in problems
        if not (self._is_welcome or self._is_unwelcome):
            _log.error("machines_unreachable", hosts=[card.host for card in knocked], problem=problems[0])
        self._is_unwelcome = not self._is_welcome

    async def _problem_with(self, card: Card) -> str:
        """Why a machine cannot be called; empty if it answers."""
        port, pipe_port = next(iter(card.ports.values()))
        try:
            pipe = Pipe(Location(host=card.host, port=port, pipe_port=pipe_port), self._trust)
            try:
                await pipe.call(PING, b"", KNOCK_S)
            finally:
                pipe.close()
        except (Broken, Refused, OSError) as problem:
            return str(problem.__cause__ or problem) or "it does not answer"
        return ""

    async def _forget_gone(self) -> None:
        for name in self._claims.gone(FORGET_S, clock_s()):
            _log.info("machine_forgotten", machine=name)
            await self._asking.ask(partial(self._machines.forget, name))

    def _card(self) -> Card:
        return Card(
            format=FORMAT,
            cluster=self._map.group,
            version=self._version,
            run=self._machines.run,
            holds=dict.fromkeys(self._about, 0)
            | {name: held.epoch for name, held in self._held.items() if not held.is_given_back},
            host=self._config.cluster_listen,
            ports={name: held.ports for name, held in self._held.items() if held.ports is not None},
            is_leaving=self._ending.is_set(),
            refuses=list(self._map.names) if self._is_unwelcome else self._claims.refuses(clock_s()),
            requests_an_hour=self._requests_an_hour,
            clock_ahead_s=round(self._machines.clock_ahead_s),
        )

    def _count_requests(self) -> None:
        """Note how many requests the processes of this machine have made in the last minute."""
        now_s = clock_s()
        passed_s = now_s - self._counted[0]
        if passed_s < COUNT_EVERY_S:
            return
        made = requests_made.total() + sum(held.member.requests for held in self._held.values())
        self._requests_an_hour = round(max(made - self._counted[1], 0) * 3600 / passed_s)
        self._counted = now_s, made

    def _plan(self) -> Plan:
        holds = [name for name, held in self._held.items() if not held.is_given_back]
        serving = [name for name in holds if self._held[name].ports is not None and name != FRONT]
        return self._claims.plan(holds, serving, clock_s())

    async def _do(self, plan: Plan) -> None:
        if plan.give_back:
            _log.info("member_given_back", member=plan.give_back)
            self._held[plan.give_back].is_given_back = True
            self._held[plan.give_back].member.end()
        self._about = [name for name in plan.claim if name not in self._held]
        if self._about:
            try:
                await self._exchange()
            except (BucketFailed, NameTaken):
                self._about = ()  # the next beat says what is wrong
        for name in self._about:
            if self._claims.is_free(name, clock_s()) and not self._ending.is_set():
                self._claim(name)
        self._about = ()

    def _write_locations(self) -> None:
        """Tell the members where the others are."""
        there = set(self._claims.there(clock_s()))
        locations: dict[str, Location] = {}
        for machine, seen in self._seen.items():
            if machine == self._name or machine not in there:
                continue
            for name, (port, pipe_port) in seen.card.ports.items():
                epoch = seen.card.holds.get(name, 0)
                if name not in locations or epoch > locations[name].epoch:
                    locations[name] = Location(
                        host=seen.card.host, port=port, pipe_port=pipe_port, epoch=epoch
                    )
        for name, held in self._held.items():
            if held.ports is not None and (name not in locations or held.epoch > locations[name].epoch):
                path = str(socket_of(self._folder, name)).removeprefix("unix:")
                locations[name] = Location(socket=path, epoch=held.epoch)
        if locations != self._written:
            write_locations(self._folder / LOCATIONS, locations)
            self._written = locations

    # Members.

    def _claim(self, name: str) -> None:
        held = _Held(Member(name, self._command(name), BEAT_S, self._hear, self._say))
        held.member.heard_reached = self._reached
        self._held[name] = held
        held.task = asyncio.create_task(self._serve(name, held))

    async def _serve(self, name: str, held: _Held) -> None:
        """Run a member here, until it is another machine's."""
        _log.info("member_claimed", member=name)
        rests, failures = Rests(FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S), 0
        while True:
            began_s = held.heard_s = clock_s()
            try:
                code = await held.member.live()
            except OSError as problem:
                _log.error("member_not_started", member=name, problem=str(problem))
                code = EXIT_STORE
            served, held.ports, held.epoch = held.member.has_served, None, 0
            if self._ending.is_set():
                return
            if held.is_given_back or code in (EXIT_FENCED, EXIT_SPLIT):
                break
            failures = 0 if served else failures + 1
            if code in HOPELESS or failures >= TRIES:
                break
            rest_s = min(rests.after(clock_s() - began_s), 1.0)
            _log.error("member_ended", member=name, exit_code=code, restart_s=rest_s)
            await self._rest(rest_s)
            if not self._claims.is_free(name, clock_s()):
                code = EXIT_FENCED  # it is another machine's by now, or this one cannot tell
                break
        if self._ending.is_set():
            return
        del self._held[name]
        if code == EXIT_SPLIT:
            _log.error("cluster_was_split", member=name, advice="start this machine again")
            self._give_up(EXIT_DATA)
        elif code == EXIT_FENCED and not held.is_given_back:
            _log.warning("member_fenced", member=name)
            self._claims.fenced(name, clock_s())
        elif not held.is_given_back:
            _log.error("member_left_to_others", member=name, exit_code=code)
            self._claims.failed(name, clock_s())

    async def _watch(self) -> None:
        """Keep watch of the members, whatever the bucket does."""
        while not self._ending.is_set():
            self._note_freeze()
            self._end_hung()
            await self._rest(WATCH_S)

    def _note_freeze(self) -> None:
        """Note whether this machine has stood still until now, and so have its members."""
        now_s = clock_s()
        passed_s, self._watched_s = now_s - self._watched_s, now_s
        if passed_s > FROZEN_S:
            self._stood_still_s += passed_s
            for held in self._held.values():
                held.heard_s = now_s

    def _end_hung(self) -> None:
        """Kill members that say nothing any more."""
        now_s = clock_s()
        for name, held in self._held.items():
            if held.ports is not None and held.member.is_serving and now_s - held.heard_s > HUNG_S:
                _log.error("member_hung", member=name, seconds=HUNG_S)
                held.heard_s = now_s
                held.member.send(signal.SIGKILL)

    def _hear(self, member: Member) -> None:
        held = self._held.get(member.name)
        if held is not None:
            held.heard_s = clock_s()

    def _reached(self, member: Member, told: str) -> None:
        """Note where a member has come to be."""
        held = self._held.get(member.name)
        if held is not None:
            port, pipe_port, epoch = map(int, told.split())
            held.ports, held.epoch = (port, pipe_port), epoch
            self._write_locations()

    async def _ended(self, member: Member, task: asyncio.Task[None]) -> None:
        end_s = SILENT_END_S if self.gave_up_bucket else END_S
        done, _ = await asyncio.wait((task,), timeout=end_s)
        if not done:
            _log.error("member_hung", member=member.name, seconds=end_s)
            member.send(signal.SIGKILL)
            await task

    async def _rest(self, rest_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._ending.wait()

    def _pass_on_hangup(self) -> None:
        for member in (self._door, *(held.member for held in self._held.values())):
            member.send(signal.SIGHUP)

    def _command(self, name: str) -> Callable[[], Sequence[str]]:
        def command() -> list[str]:
            settings = msgspec.structs.replace(self._settings, log_level=logs.level())
            if name == DOOR and self._door.address:  # port 0 would be another one
                settings.listen = self._door.address
            own = ["--member", name, "--sockets", str(self._folder)]
            if self._config.settings_file is not None:  # read again at SIGHUP
                own += ["--config", str(self._config.settings_file)]
            return [sys.executable, *PROGRAM, *own, *member_options(name, settings, self._map.shards)]

        return command


def member_options(name: str, settings: ServerFile, shards: int) -> list[str]:
    """The options of a member with these settings of its machine. The door has the addresses, and the front
    the metrics, which `insecure` is for, too."""
    if name not in (DOOR, FRONT):
        return options_of(name, settings, shards)
    usual = ServerFile()
    others = ("metrics",) if name == DOOR else _OF_DOOR
    own = msgspec.structs.replace(settings, **{option: getattr(usual, option) for option in others})
    return options_of(FRONT, own, shards)
