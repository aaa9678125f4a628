"""The server's settings, from a TOML file and flags."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import msgspec

from toehold_base.observability.log_choices import FORMATS, LEVELS
from toehold_base.observability.tracing import checked_endpoint
from toehold_base.options.toml_file import FileUnusable, read_settings
from toehold_base.serving.addresses import Address, is_loopback, parsed_address

from .machine import memory_bytes

MIB = 1024 * 1024
CACHE_SHARE, LEAST_CACHE_MIB, MOST_CACHE_MIB = 16, 32, 256  # default: a sixteenth of memory, within bounds
MAX_CACHE_MIB = 1024 * 1024
MAX_SHARDS = 64
FRONT = "front"
DOOR = "door"
DEFAULT_LISTEN = "127.0.0.1:7707"
METRICS_EXAMPLE = "127.0.0.1:9707"
MIN_RENEW_S, MAX_RENEW_S = 0.1, 60.0
_MACHINE = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63})*\.?", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_TLS_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_ORDINAL = re.compile(r"static:(\d{1,4})/(\d{1,4})")
CONSOLE_EXAMPLE = "127.0.0.1:7780"
_KINDS: dict[object, str] = {
    str: "text",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    int | None: "a whole number",
    str | None: "text",
}


class ConfigError(Exception):
    """A setting is invalid; the message says which, and which values are valid."""


class ServerFile(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of a settings file (TOML). Flags and variables win over it."""

    listen: str = DEFAULT_LISTEN
    insecure: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    callers: str = ""
    lease_seconds: float = 30.0
    heartbeat_seconds: float = 3.0
    disk_reserve_mib: int = 512
    durability: str = "power-loss"
    cache_mib: int | None = None  # None: a share of the machine's memory
    log_format: str = "auto"
    log_level: str = "info"
    otlp: str = ""
    trace_ratio: float = 0.01
    metrics: str | None = None  # None: not served
    console: str | None = None  # None: not served
    console_hosts: str = ""
    data: str = ""
    shards: int | None = None  # None: as many as the data directory has
    log: str = ""  # the bucket under all shards; empty: each store is the truth itself
    machine: str = ""  # its name in the cluster; empty: made of the host's name and the directory
    placement: str = "claims"
    renew_seconds: float = 0.4
    cluster_listen: str = "127.0.0.1"
    cluster_cert: str = ""
    cluster_key: str = ""
    cluster_ca: str = ""
    cluster_tls_name: str = ""  # in all machines' certificates; empty: each names its machine's host
    read_only: bool = False
    check_operations: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """Valid settings."""

    data: Path
    listen: Address
    lease_ms: int
    heartbeat_ms: int
    disk_reserve_bytes: int
    sync: bool  # acknowledged changes survive a power loss; otherwise only a crash of the process
    until_stdin_ends: bool = field(default=False)
    set_clock: bool = False  # set the frontier's time to the machine's
    read_only: bool = False  # answer questions; change nothing in the data directory
    check_operations: bool = False  # recount the queues that each operation changed
    tls_cert: Path | None = None  # of the server, and its key
    tls_key: Path | None = None
    tls_ca: Path | None = None  # of the authority of clients' certificates, which are required then
    callers: Path | None = None  # the file of the callers; without it everybody may do everything
    cache_bytes: int = LEAST_CACHE_MIB * MIB  # for reads of the store
    log_format: str = "auto"
    log_level: str = "info"
    otlp: str = ""  # the address of an OpenTelemetry collector; empty: no traces
    trace_ratio: float = 0.01  # the share of leases that are traced
    settings_file: Path | None = None  # read again at SIGHUP, for log_level
    metrics: Address | None = None  # where Prometheus finds them
    console: Address | None = None  # where browsers find it
    console_hosts: tuple[str, ...] = ()  # names by which they may
    shards: int | None = None  # None: as many as the data directory has
    member: str = ""  # of a frontier of several shards that this process is: `front` or `shard-0`
    sockets: Path | None = None  # the folder of the shards' sockets
    log: str = ""  # the URL of the bucket under all shards; empty: each store is the truth itself
    cluster: str = ""  # the id of the cluster, of a member that has a log
    generation: int = 1  # of the cluster; each split begins another one
    folder: str = ""  # of that generation in the bucket; empty: its root
    machine: str = ""
    ordinal: tuple[int, int] | None = None  # which of how many machines this is; None: claims decide
    renew_s: float = 0.4
    cluster_listen: str = "127.0.0.1"
    cluster_cert: Path | None = None
    cluster_key: Path | None = None
    cluster_ca: Path | None = None
    cluster_tls_name: str = ""  # in all machines' certificates; empty: each names its machine's host

    @property
    def is_shard(self) -> bool:
        """Whether this process is a shard behind a front, which alone reaches it."""
        return self.member not in ("", FRONT, DOOR)

    @property
    def is_inner(self) -> bool:
        """Whether only other processes of the frontier reach this one: a shard, or a front behind doors."""
        return self.is_shard or (self.member == FRONT and bool(self.cluster))

    @property
    def whole_data(self) -> Path:
        """The data directory of the frontier that this process is, or is a member of."""
        return self.data.parent if self.member else self.data

    @property
    def shard(self) -> int:
        """The number of this shard."""
        return int(self.member.rpartition("-")[2])

    @property
    def console_encrypts(self) -> bool:
        """Whether the console speaks HTTPS: beyond loopback, with the frontier's certificate."""
        return self.console is not None and not self.console.is_loopback and self.tls_cert is not None


def read_file(path: Path) -> ServerFile:
    """The settings of a file. Raises ConfigError, which names the fault and its place."""
    try:
        return _settings(read_settings(path))
    except FileUnusable as problem:
        raise ConfigError(str(problem)) from problem
    except ConfigError as problem:
        raise ConfigError(f"settings file {path}: {problem}") from problem


def _settings(values: dict[str, object]) -> ServerFile:
    """The settings of a table. Raises ConfigError."""
    types = {field.name: field.type for field in msgspec.structs.fields(ServerFile)}
    for name, value in values.items():
        if name not in types:
            raise ConfigError(f"{name} is not a setting; the settings are {', '.join(types)}")
        try:
            msgspec.convert(value, types[name])
        except msgspec.ValidationError:
            shown = json.dumps(value, default=str)[:80]
            raise ConfigError(f"{name} must be {_KINDS[types[name]]}, got {shown}") from None
    return msgspec.convert(values, ServerFile)


def usable(
    data: Path,
    settings: ServerFile,
    until_stdin_ends: bool = False,
    set_clock: bool = False,
    settings_file: Path | None = None,
) -> Config:
    """Check settings. Raises ConfigError."""
    if settings.read_only and set_clock:
        raise ConfigError("--set-clock changes the data directory; use it without --read-only")
    listen = _address("listen", settings.listen, DEFAULT_LISTEN)
    _check_access(settings, listen)
    metrics = None if settings.metrics is None else _address("metrics", settings.metrics, METRICS_EXAMPLE)
    if metrics is not None and not settings.insecure and not metrics.is_loopback:
        raise ConfigError(
            f"metrics: {metrics.host} is not a loopback address, and metrics are plain HTTP that anybody "
            f"may read; use a loopback address such as 127.0.0.1, or --insecure on a network that you trust"
        )
    console = None if settings.console is None else _console(settings)
    if not 1 <= settings.lease_seconds <= 86_400:
        raise ConfigError(f"lease_seconds must be between 1 and 86400, got {settings.lease_seconds}")
    if not 0.1 <= settings.heartbeat_seconds <= settings.lease_seconds / 2:
        raise ConfigError(
            "heartbeat_seconds must be between 0.1 and half of lease_seconds"
            f" ({settings.lease_seconds / 2}), got {settings.heartbeat_seconds}"
        )
    if settings.disk_reserve_mib < 0:
        raise ConfigError(f"disk_reserve_mib must be at least 0, got {settings.disk_reserve_mib}")
    if settings.durability not in ("power-loss", "process"):
        raise ConfigError(f"durability must be 'power-loss' or 'process', got {settings.durability!r}")
    if settings.log and settings.durability != "power-loss":
        raise ConfigError(
            "durability must be 'power-loss' with log: what was answered must be in the log, "
            f"got {settings.durability!r}"
        )
    ordinal = _cluster(settings)
    if settings.log and settings.read_only:
        raise ConfigError(
            "--read-only reads a data directory, and with --log that is only a copy; leave one of them out"
        )
    if settings.log and set_clock:
        raise ConfigError(
            "--set-clock sets the time of one data directory, and with --log there are several; let NTP set "
            "the machines' clocks"
        )
    if settings.log_format not in FORMATS:
        raise ConfigError(f"log_format must be {_choice(FORMATS)}, got {settings.log_format!r}")
    checked_log_level(settings.log_level)
    if settings.otlp:
        try:
            checked_endpoint(settings.otlp)
        except ValueError as problem:
            raise ConfigError(f"otlp: {problem}") from None
    if not 0 <= settings.trace_ratio <= 1:
        raise ConfigError(f"trace_ratio must be between 0 and 1, got {settings.trace_ratio}")
    cache_mib = default_cache_mib() if settings.cache_mib is None else settings.cache_mib
    if not 1 <= cache_mib <= MAX_CACHE_MIB:
        raise ConfigError(f"cache_mib must be between 1 and {MAX_CACHE_MIB}, got {cache_mib}")
    if settings.shards is not None and not 1 <= settings.shards <= MAX_SHARDS:
        raise ConfigError(f"shards must be between 1 and {MAX_SHARDS}, got {settings.shards}")
    return Config(
        data,
        listen=listen,
        lease_ms=int(settings.lease_seconds * 1000),
        heartbeat_ms=int(settings.heartbeat_seconds * 1000),
        disk_reserve_bytes=settings.disk_reserve_mib * MIB,
        sync=settings.durability == "power-loss",
        until_stdin_ends=until_stdin_ends,
        set_clock=set_clock,
        read_only=settings.read_only,
        check_operations=settings.check_operations,
        tls_cert=_path(settings.tls_cert),
        tls_key=_path(settings.tls_key),
        tls_ca=_path(settings.tls_ca),
        callers=_path(settings.callers),
        cache_bytes=cache_mib * MIB,
        log_format=settings.log_format,
        log_level=settings.log_level,
        otlp=settings.otlp,
        trace_ratio=settings.trace_ratio,
        settings_file=settings_file,
        metrics=metrics,
        console=console,
        console_hosts=tuple(settings.console_hosts.replace(",", " ").split()),
        shards=settings.shards,
        log=settings.log,
        machine=settings.machine,
        ordinal=ordinal,
        renew_s=settings.renew_seconds,
        cluster_listen=_cluster_host(settings),
        cluster_cert=_path(settings.cluster_cert),
        cluster_key=_path(settings.cluster_key),
        cluster_ca=_path(settings.cluster_ca),
        cluster_tls_name=settings.cluster_tls_name,
    )


def _cluster(settings: ServerFile) -> tuple[int, int] | None:
    """Check what is between machines; which of how many this one is, if that is fixed. Raises ConfigError."""
    if settings.machine and not _MACHINE.fullmatch(settings.machine):
        raise ConfigError(
            "machine must have 1 to 63 letters, digits, '-', '_' or '.', and begin with a letter or digit, "
            f"got {settings.machine!r}"
        )
    if not MIN_RENEW_S <= settings.renew_seconds <= MAX_RENEW_S:
        raise ConfigError(
            f"renew_seconds must be between {MIN_RENEW_S} and {MAX_RENEW_S:g}, got {settings.renew_seconds}"
        )
    host = _cluster_host(settings)
    files = settings.cluster_cert, settings.cluster_key, settings.cluster_ca
    if any(files) and not all(files):
        raise ConfigError("cluster_cert, cluster_key and cluster_ca must be given together")
    if settings.cluster_tls_name and not _TLS_NAME.fullmatch(settings.cluster_tls_name):
        raise ConfigError(
            f"cluster_tls_name must be a name as in DNS, such as machines.toehold.internal, got "
            f"{settings.cluster_tls_name!r}"
        )
    if settings.cluster_tls_name and not all(files):
        raise ConfigError(
            "cluster_tls_name is the name in the machines' certificates: give cluster_cert, cluster_key and "
            "cluster_ca, too, or leave it out"
        )
    if settings.log and not (is_loopback(host) or all(files) or settings.insecure):
        raise ConfigError(
            f"cluster_listen: {host} is not a loopback address, so machines need mutual "
            "TLS: give cluster_cert, cluster_key and cluster_ca, or --insecure on a network that you trust"
        )
    if settings.placement == "claims":
        return None
    found = _ORDINAL.fullmatch(settings.placement)
    if found is None or not int(found[1]) < int(found[2]):
        raise ConfigError(
            "placement must be 'claims', or 'static:I/N' for machine I (from 0) of N, got "
            f"{settings.placement!r}"
        )
    return int(found[1]), int(found[2])


def _cluster_host(settings: ServerFile) -> str:
    """Where other machines reach this one. Raises ConfigError."""
    host = settings.cluster_listen.removeprefix("[").removesuffix("]")
    try:
        is_usable = not ip_address(host).is_unspecified
    except ValueError:
        is_usable = _HOST.fullmatch(host) is not None
    if not is_usable:
        raise ConfigError(
            "cluster_listen must be the name or address by which other machines reach this one, without a "
            f"port, such as 192.0.2.1, got {settings.cluster_listen!r}"
        )
    return host


def _console(settings: ServerFile) -> Address:
    """Where the console is served. Raises ConfigError unless it can know its users, or only this machine's
    can reach it."""
    address = _address("console", settings.console or "", CONSOLE_EXAMPLE)
    if settings.tls_ca and not settings.callers:
        raise ConfigError(
            "console needs callers with tls_ca: browsers have no client certificates, and log in with tokens"
        )
    if not (settings.insecure or address.is_loopback or (settings.tls_cert and settings.callers)):
        raise ConfigError(
            f"console: {address.host} is not a loopback address, so the console needs HTTPS and logins: give "
            "tls_cert, tls_key and callers; or use a loopback address such as 127.0.0.1, or --insecure on a "
            "network that you trust"
        )
    return address


def _check_access(settings: ServerFile, listen: Address) -> None:
    """Raise ConfigError unless it is known who may call, or only this machine can."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given, missing = ("tls_cert", "tls_key") if settings.tls_cert else ("tls_key", "tls_cert")
        raise ConfigError(f"{given} needs {missing}: give a certificate and its key, or neither")
    if settings.tls_ca and not settings.tls_cert:
        raise ConfigError("tls_ca needs tls_cert and tls_key: clients present certificates over TLS only")
    if settings.insecure or listen.is_loopback or (settings.tls_cert and settings.callers):
        return
    lacks = "callers" if settings.tls_cert else "TLS" if settings.callers else "TLS and callers"
    raise ConfigError(
        f"{listen.host} is not a loopback address, so the frontier needs {lacks} (docs/network.md); or use a "
        "loopback address such as 127.0.0.1, or --insecure on a network that you trust"
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def checked_log_level(level: str) -> str:
    """The level, if it is one. Raises ConfigError."""
    if level not in LEVELS:
        raise ConfigError(f"log_level must be {_choice(LEVELS)}, got {level!r}")
    return level


def _choice(names: Sequence[str]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"


def default_cache_mib() -> int:
    """A sixteenth of the memory that this process may have, within bounds."""
    return max(LEAST_CACHE_MIB, min(memory_bytes() // MIB // CACHE_SHARE, MOST_CACHE_MIB))


def _address(setting: str, text: str, example: str) -> Address:
    try:
        return parsed_address(text, example)
    except ValueError as problem:
        raise ConfigError(f"{setting} {problem}") from None
