"""The server's settings: one frozen dataclass, filled from a TOML file and flags."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import tomli

from .machine import memory_bytes

MIB = 1024 * 1024
CACHE_SHARE, LEAST_CACHE_MIB, MOST_CACHE_MIB = 16, 32, 256  # of what the machine has, unless it is told
MAX_CACHE_MIB = 1024 * 1024
DEFAULT_LISTEN = "127.0.0.1:7707"
_PORT = re.compile(r"[0-9]{1,5}")


class ConfigError(Exception):
    """A setting cannot be used; the message says which, and what would be right."""


class ServerFile(msgspec.Struct, forbid_unknown_fields=True):
    """What a settings file (TOML) may say. Flags win over it."""

    listen: str = DEFAULT_LISTEN
    insecure: bool = False
    lease_seconds: float = 30.0
    heartbeat_seconds: float = 3.0
    disk_reserve_mib: int = 512
    durability: str = "power-loss"
    cache_mib: int | None = None  # None: a share of the machine's memory


@dataclass(frozen=True, slots=True)
class Config:
    """Settings that were found usable."""

    data: Path
    host: str
    port: int
    lease_ms: int
    heartbeat_ms: int
    disk_reserve_bytes: int
    sync: bool  # acknowledged means: survives a power loss; else: a crash of the process
    until_stdin_ends: bool = field(default=False)
    set_clock: bool = False  # take the machine's time
    cache_bytes: int = LEAST_CACHE_MIB * MIB  # of what is read of the store


def read_file(path: Path) -> ServerFile:
    """The settings of a file. Raises ConfigError naming what is wrong and where."""
    try:
        return msgspec.convert(tomli.loads(path.read_text(encoding="utf-8")), ServerFile)
    except OSError as problem:
        raise ConfigError(f"settings file {path}: {problem.strerror}") from problem
    except (tomli.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as problem:
        raise ConfigError(f"settings file {path}: {problem}") from problem
    except (ValueError, RecursionError):  # limits of Python's own
        words = "a number of thousands of digits, or keys or values that are nested too deeply"
        raise ConfigError(f"settings file {path}: {words}") from None


def usable(
    data: Path, settings: ServerFile, until_stdin_ends: bool = False, set_clock: bool = False
) -> Config:
    """Check settings. Raises ConfigError."""
    host, port = parse_listen(settings.listen)
    if not settings.insecure and not _is_loopback(host):
        raise ConfigError(
            f"listening on {host} would open the frontier to others without TLS or passwords; "
            "use a loopback address such as 127.0.0.1, or --insecure on a network that you trust"
        )
    if not 1 <= settings.lease_seconds <= 86_400:
        raise ConfigError(f"lease_seconds is {settings.lease_seconds}; 1 to 86400 is possible")
    if not 0.1 <= settings.heartbeat_seconds <= settings.lease_seconds / 2:
        raise ConfigError(
            f"heartbeat_seconds is {settings.heartbeat_seconds}; 0.1 to half of lease_seconds is possible"
        )
    if settings.disk_reserve_mib < 0:
        raise ConfigError(f"disk_reserve_mib is {settings.disk_reserve_mib}; 0 or more is possible")
    if settings.durability not in ("power-loss", "process"):
        raise ConfigError(f"durability is {settings.durability!r}; 'power-loss' or 'process' is possible")
    cache_mib = default_cache_mib() if settings.cache_mib is None else settings.cache_mib
    if not 1 <= cache_mib <= MAX_CACHE_MIB:
        raise ConfigError(f"cache_mib is {cache_mib}; 1 to {MAX_CACHE_MIB} is possible")
    return Config(
        data,
        host=host,
        port=port,
        lease_ms=int(settings.lease_seconds * 1000),
        heartbeat_ms=int(settings.heartbeat_seconds * 1000),
        disk_reserve_bytes=settings.disk_reserve_mib * MIB,
        sync=settings.durability == "power-loss",
        until_stdin_ends=until_stdin_ends,
        set_clock=set_clock,
        cache_bytes=cache_mib * MIB,
    )


def default_cache_mib() -> int:
    """A sixteenth of the memory that this process may have, within bounds."""
    return max(LEAST_CACHE_MIB, min(memory_bytes() // MIB // CACHE_SHARE, MOST_CACHE_MIB))


def parse_listen(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[V6]:PORT` → host and port (0: any free one)."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and _PORT.fullmatch(port)) or int(port) > 65535:
        raise ConfigError(f"listen address {text!r} is not HOST:PORT, such as {DEFAULT_LISTEN}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
