"""The frontier server from its flags to its exit code.

Exit codes: 0 stopped as asked; 2 bad arguments; 3 cannot listen; 4 the data directory
cannot be used; 5 the store, or a part of the server, failed while serving (start again:
nothing acknowledged is lost); 6 the store is damaged (`--salvage`); 7 with
`--read-only`: a frontier runs on the data directory.
"""

import os
import platform
import re
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click
import structlog
from click.core import ParameterSource

from toehold_base.access.callers import Callers
from toehold_base.access.callers_file import CallersInvalid
from toehold_base.access.pem import TlsUnusable
from toehold_base.access.privacy import warn_if_open
from toehold_base.access.server_tls import ServerTls
from toehold_base.observability import logs
from toehold_base.observability.grpc_log import leave_out_callers_doings
from toehold_base.observability.log_choices import FORMATS, LEVELS
from toehold_base.options.command import Program
from toehold_base.options.variables import long_name, settable, source_of, variable_used
from toehold_base.options.warning import warn_of_unknown_variables
from toehold_base.process.extras import advice, lacking
from toehold_base.process.service_manager import ServiceManager
from toehold_base.process.startup import fast_imports
from toehold_base.serving.connections import raise_descriptor_limit, too_few_descriptors

from ..config import DEFAULT_LISTEN, Config, ConfigError, ServerFile, read_file, usable
from ..core.rows.errors import OtherFormat, StoreCorrupt
from ..core.rows.store import StoreDamaged, StoreFailed
from ..logs.log_check import CannotKeep
from ..service import core_kind, version
from ..stores.rocks import StoreUnavailable
from ..stores.unchanged import StoreInUse
from . import salvaging
from .data_directory import open_data, open_data_unchanged
from .listeners import CannotListen
from .server import serve

VARIABLES = "TOEHOLD_FRONTIER"
EXIT_USAGE, EXIT_LISTEN, EXIT_DATA, EXIT_STORE, EXIT_DAMAGED, EXIT_IN_USE = 2, 3, 4, 5, 6, 7
WAY_OUT = "start once with --salvage to keep all rows that can be read, or put a checkpoint in its place"

_log = structlog.get_logger()


@click.command(cls=Program, variables=VARIABLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    metavar="DIR",
    help="Directory of the store and the logs. Created if it is missing. Required, here, as a variable or in "
    "the settings file.",
)
@click.option("--listen", help=f"HOST:PORT to serve on; port 0 takes a free one. Default {DEFAULT_LISTEN}.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Settings file (TOML). Options given here override it, and so do variables.",
)
@click.option("--tls-cert", metavar="FILE", help="The frontier's certificate (PEM). Callers then use TLS.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")
@click.option(
    "--tls-ca",
    metavar="FILE",
    help="Take only callers whose certificates an authority in FILE (PEM) has issued (mutual TLS).",
)
@click.option(
    "--callers", metavar="FILE", help="Take only the callers in FILE, each with its roles ('toehold tokens')."
)
@click.option(
    "--insecure",
    is_flag=True,
    default=None,
    help="Allow an address beyond loopback without TLS and callers.",
)
@click.option(
    "--metrics",
    help="HOST:PORT to serve metrics on, for Prometheus; port 0 takes a free one. Default: not served.",
)
@click.option(
    "--console",
    help="HOST:PORT to serve a console for browsers on; port 0 takes a free one. Beyond loopback it speaks "
    "HTTPS, with the certificate of --tls-cert. Default: not served.",
)
@click.option(
    "--console-hosts",
    metavar="NAMES",
    help="Names under which browsers reach the console without its HTTPS, such as that of a proxy, with "
    "commas between them. Addresses, localhost and the machine's name always count.",
)
@click.option(
    "--lease-seconds",
    type=float,
    help="Seconds that a node keeps its leases without a heartbeat. Default 30.",
)
@click.option("--heartbeat-seconds", type=float, help="Seconds between the heartbeats of a node. Default 3.")
@click.option(
    "--disk-reserve-mib", type=int, help="Free disk space below which crawls are paused, in MiB. Default 512."
)
@click.option(
    "--cache-mib",
    type=int,
    help="Memory for cached reads, in MiB. Default: a sixteenth of the machine's, from 32 to 256.",
)
@click.option(
    "--durability",
    type=click.Choice(["power-loss", "process"]),
    help="The failure that acknowledged changes survive: a power loss (default), or only the end of the "
    "process, which is faster.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    help="The form of the log on standard error: JSON lines, or text for people. Default auto: text on a "
    "terminal, JSON elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help="Log this level and those above it. Default info. Can be changed while the frontier runs: set "
    "log_level in the settings file, then send SIGHUP.",
)
@click.option(
    "--otlp",
    metavar="ADDRESS",
    help="Send traces of leases to this OpenTelemetry collector (OTLP over gRPC): HOST:PORT, or an http or "
    "https URL. Default: the variable OTEL_EXPORTER_OTLP_ENDPOINT, or no traces.",
)
@click.option(
    "--trace-ratio", type=float, help="The share of leases that are traced, from 0 to 1. Default 0.01."
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="Stop when standard input ends (for a parent process)."
)
@click.option(
    "--salvage",
    is_flag=True,
    help="Rebuild a damaged store from all rows that can be read, then exit. The damaged store is kept.",
)
@click.option(
    "--set-clock",
    is_flag=True,
    help="Set the frontier's time to the machine's. Rests keep the time that they have left.",
)
@click.option(
    "--read-only",
    is_flag=True,
    default=None,
    help="Only answer questions about the crawls. The data directory stays as it is.",
)
@click.option(
    "--check-operations",
    is_flag=True,
    default=None,
    help="Recount the queues that each operation changed, and stop before a contradiction is stored. Slow "
    "with long queues; for the search for a fault.",
)
@click.version_option(
    version(),
    prog_name="toehold-frontier",
    message=f"%(prog)s, version %(version)s ({core_kind()} core, Python {platform.python_version()})",
)
def main(
    config_file: Path | None,
    until_stdin_ends: bool,
    salvage: bool,
    set_clock: bool,
    **flags: str | float | bool | None,
) -> None:
    """Serve a crawl frontier.

    Prints one line once it serves. Logs on standard error.

    A variable of the environment can take the place of each option: TOEHOLD_FRONTIER_TLS_CERT that of
    --tls-cert.

    \b
    Exit codes:
      0  stopped as asked
      2  an argument is wrong
      3  the address is taken, or is not this machine's
      4  the data directory cannot be used
      5  the store, or a part of the server, failed: start it again
      6  the store is damaged: see --salvage
      7  another frontier runs on the data directory (only with --read-only)
    """
    manager = ServiceManager.of_process()
    try:
        file = read_file(config_file) if config_file is not None else ServerFile()
        for name, value in flags.items():
            if value is not None:
                setattr(file, name, value)
        if not file.data:
            raise ConfigError(
                f"data is missing: name the data directory with --data DIR, with {VARIABLES}_DATA, or as "
                "data in the settings file"
            )
        data = Path(file.data)
        config = usable(data, file, until_stdin_ends, set_clock, config_file)
        if salvage and config.read_only:
            raise ConfigError("--salvage changes the data directory; use it without --read-only")
    except ConfigError as problem:
        _exit(EXIT_USAGE, _with_source(str(problem)))
    logs.configure(config.log_format, config.log_level)
    warn_of_unknown_variables(main, f"{VARIABLES}_")
    if config_file is not None or manager:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be obeyed
    leave_out_callers_doings()
    os.umask(os.umask(0o077) | 0o007)  # an operator's own directory of data may be open to others
    if salvage:
        _salvage(config)
        return
    try:
        access = _access(config)
    except (TlsUnusable, CallersInvalid) as problem:
        _exit(EXIT_USAGE, str(problem))
    if config.console is not None and lacking("cli", "console"):
        sys.exit(advice("console", "toehold-frontier --console"))
    _raise_descriptor_limit()
    if config.metrics is not None:
        with fast_imports():  # the library takes a tenth of a start
            from ..metrics import page  # noqa: F401  # here, so that it is frozen with the others
    manager.status(f"Opening {data}")
    try:
        store, clock = open_data_unchanged(config) if config.read_only else open_data(config)
    except StoreInUse as problem:
        _exit(EXIT_IN_USE, f"data directory {data}: {problem}")
    except (StoreUnavailable, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {data}: {problem}")
    except (StoreDamaged, StoreCorrupt) as problem:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {WAY_OUT}")
    except OSError as problem:
        _exit(EXIT_DATA, f"data directory {data} cannot be used: {problem.strerror}")
    except StoreFailed as problem:
        _exit(EXIT_STORE, f"data directory {data}: {problem}")
    warn_if_open(data, config.callers, config.tls_key)
    try:
        failure = serve(config, store, clock, *access, manager)
    except CannotListen as problem:
        store.close()
        _exit(EXIT_LISTEN, str(problem))
    except (CannotKeep, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {data}: {problem}")
    except StoreDamaged as problem:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {WAY_OUT}")
    except StoreCorrupt as problem:
        again = f"start again; if that fails too, {WAY_OUT}"
        _exit(EXIT_DAMAGED, f"data directory {data}: the store contradicts itself: {problem}; {again}")
    except StoreFailed as problem:  # before it served
        _exit(EXIT_STORE, f"data directory {data}: {problem}")
    if store.damage:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged ({store.damage}); {WAY_OUT}")
    if failure:
        _exit(EXIT_STORE, f"{failure}; the frontier stopped, so that it acknowledges only stored changes")
    store.close()


def _with_source(problem: str) -> str:
    """An error about a setting with the variable that its value came from, if it came from one."""
    context = click.get_current_context()
    for option in settable(main):
        named = re.match(rf"{long_name(option)}\b", problem)
        if named and source_of(context, option) is ParameterSource.ENVIRONMENT:
            return f"{variable_used(option)}: {problem}"
    return problem


def _access(config: Config) -> tuple[ServerTls | None, Callers | None]:
    """TLS and the callers, or None. Raises TlsUnusable, CallersInvalid."""
    tls = None
    if config.tls_cert is not None and config.tls_key is not None:
        tls = ServerTls(config.tls_cert, config.tls_key, config.tls_ca, _log_certificates)
    return tls, None if config.callers is None else Callers(config.callers)


def _log_certificates(problem: str) -> None:
    if problem:
        _log.error("certificates_unusable", problem=problem, advice="those in use stay")
    else:
        _log.info("certificates_reloaded")


def _salvage(config: Config) -> None:
    try:
        salvaging.salvage(config, version(), lambda line: print(line, flush=True))
    except (StoreUnavailable, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {config.data}: {problem}")
    except StoreDamaged as problem:
        _exit(EXIT_DAMAGED, f"data directory {config.data}: {problem}; put a checkpoint in its place")
    except (OSError, StoreFailed) as problem:
        _exit(EXIT_DATA, f"data directory {config.data}: the store cannot be salvaged: {problem}")


def _raise_descriptor_limit() -> None:
    """Raise the process's limit of descriptors, and end the process if they are too few."""
    limit, problem = raise_descriptor_limit()
    if problem:
        _log.warning("descriptor_limit_not_raised", limit=limit, problem=problem)
    lack = too_few_descriptors(limit)
    if lack:
        _exit(EXIT_USAGE, lack)


def _exit(code: int, message: str) -> NoReturn:
    print(f"toehold-frontier: {message}", file=sys.stderr, flush=True)
    sys.exit(code)
