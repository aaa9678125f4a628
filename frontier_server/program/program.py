"""The frontier server from its flags to its exit code.

Exit codes: 0 stopped as asked; 2 bad arguments; 3 cannot listen; 4 the data directory
cannot be used; 5 the store, or a part of the server, failed while serving (start again:
nothing acknowledged is lost); 6 the store is damaged (`--salvage`); 7 with
`--read-only`: a frontier runs on the data directory.
"""

import json
import os
import platform
import re
import signal
import sys
from pathlib import Path

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
from toehold_base.process.extras import advice, lacking, packages_of
from toehold_base.process.parent import Parent
from toehold_base.process.service_manager import ServiceManager
from toehold_base.process.startup import fast_imports
from toehold_base.serving.connections import raise_descriptor_limit, too_few_descriptors

from ..config import DEFAULT_LISTEN, DOOR, MAX_SHARDS, Config, ConfigError, ServerFile, read_file, usable
from .exits import EXIT_DATA, EXIT_LISTEN, EXIT_STORE, EXIT_USAGE, end
from .shard_map import (
    SLOTS,
    MapUnusable,
    ShardMap,
    bytes_of,
    check_no_member,
    check_no_split,
    check_store,
    is_divided,
    member_of,
    read_map,
    secret_around,
    whole_around,
)
from .supervisor import supervise

VARIABLES = "TOEHOLD_FRONTIER"

_log = structlog.get_logger()


def _show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from ..service import core_kind, version
    python = platform.python_version()
    click.echo(f"toehold-frontier, version {version()} ({core_kind()} core, Python {python})")
    context.exit()


@click.command(cls=Program, variables=VARIABLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    metavar="DIR",
    help="Directory of the store and the logs. Created if it is missing. Required, here, as a variable or in "
    "the settings file.",
)
@click.option(
    "--shards",
    type=int,
    help=f"How many shards a new data directory is to have, from 1 to {MAX_SHARDS}. They are processes that "
    "share each crawl. Default: as many as the data directory has, and 1 for a new one.",
)
@click.option(
    "--log",
    metavar="URL",
    help="Keep the truth of all shards in this bucket, so that the frontier survives the loss of a machine "
    "with its disk: s3://BUCKET/PREFIX, gs://, az:// or file:///DIRECTORY. Start it on several machines, "
    "and they share the shards. Default: each store is the truth itself.",
)
@click.option(
    "--machine",
    metavar="NAME",
    help="This machine's name in the cluster of --log. Default: made of the host's name and the directory.",
)
@click.option(
    "--placement",
    help="With --log: 'claims' (default), and machines take over what others lose; or 'static:I/N' for "
    "machine I, from 0, of N, where something else starts lost machines again.",
)
@click.option(
    "--renew-seconds",
    type=float,
    help="With --log: seconds between two renewals of this machine's place in the cluster. One that has "
    "missed five is taken for lost. Default 0.4.",
)
@click.option(
    "--cluster-listen",
    metavar="HOST",
    help="With --log: this machine's name or address for the other machines. Default 127.0.0.1.",
)
@click.option("--cluster-cert", metavar="FILE", help="This machine's certificate (PEM) for other machines.")
@click.option("--cluster-key", metavar="FILE", help="The key of that certificate (PEM).")
@click.option(
    "--cluster-ca", metavar="FILE", help="The authority (PEM) of all machines' certificates (mutual TLS)."
)
@click.option(
    "--cluster-tls-name",
    metavar="NAME",
    help="The name that the certificates of all machines have, where their hosts change. Default: each has "
    "that of its machine (--cluster-listen).",
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
@click.option("--split", hidden=True, is_flag=True, help="Double the number of shards, then exit.")
@click.option("--list-shards", hidden=True, is_flag=True, help="Show the shards, then exit.")
@click.option("--member", hidden=True, default="", help="Be this member of a frontier of several shards.")
@click.option("--sockets", hidden=True, default="", help="The folder of the shards' sockets.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main(
    config_file: Path | None,
    until_stdin_ends: bool,
    salvage: bool,
    set_clock: bool,
    split: bool,
    list_shards: bool,
    member: str,
    sockets: str,
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
    manager = Parent.of_process() if member else ServiceManager.of_process()
    try:
        file = read_file(config_file) if config_file is not None and not member else ServerFile()
        for name, value in flags.items():
            if value is not None:
                setattr(file, name, value)
        if list_shards and file.log:
            _list_cluster(file.log)
            return
        if not file.data:
            raise ConfigError(
                f"data is missing: name the data directory with --data DIR, with {VARIABLES}_DATA, or as "
                "data in the settings file"
            )
        config = usable(Path(file.data), file, until_stdin_ends, set_clock, config_file)
        if salvage and config.read_only:
            raise ConfigError("--salvage changes the data directory; use it without --read-only")
    except ConfigError as problem:
        end(EXIT_USAGE, _with_source(str(problem)))
    own = {"member": member} if member else {}  # several processes write to one log
    logs.configure(config.log_format, config.log_level, **own)
    if not member:  # its supervisor has warned
        warn_of_unknown_variables(main, f"{VARIABLES}_")
        warn_if_open(config.callers, config.tls_key)
    if config_file is not None or manager:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be obeyed
    os.umask(os.umask(0o077) | 0o007)  # an operator's own directory of data may be open to others
    try:
        if member:
            config, shard_map = member_of(config, member, Path(sockets))
            if member == DOOR:
                _serve_door(config, shard_map, manager)
                return
            _serve(config, shard_map.secret, manager)
            return
        if split:
            _split(config)
            return
        check_no_split(config.data)
        if config.log:
            _serve_machine(config, file, salvage, manager)
            return
        if list_shards:
            _list_shards(config)
        elif whole_around(config.data) is None and is_divided(config.data, config.shards):
            _supervise(config, file, salvage, manager)
        else:  # a member by itself, too: the number of shards is the whole's
            if not (salvage or config.read_only):
                check_no_member(config.data)
            secret = secret_around(config.data)
            if salvage:
                _salvage(config, secret)
            else:
                _serve(config, secret, manager)
    except MapUnusable as problem:
        end(EXIT_DATA, f"data directory {config.data} {_naming_the_source(str(problem))}")


def _serve(config: Config, secret: bytes, manager: ServiceManager) -> None:
    """Serve a store. `secret` is for a new one, if it is to have that of others."""
    tls, callers = _access(config)
    _raise_descriptor_limit()
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .serving import serve_store  # a supervisor needs none of what it imports

        if config.metrics is not None:  # the library takes a tenth of a start
            from ..metrics import page  # noqa: F401  # here, so that it is frozen with the others
    leave_out_callers_doings()
    manager.status(f"Opening {config.data}")
    serve_store(config, tls, callers, manager, secret)


def _serve_machine(config: Config, file: ServerFile, salvage: bool, manager: ServiceManager) -> None:
    """Be a machine of a cluster."""
    if salvage:
        raise MapUnusable("has its truth in a log; delete the damaged member's directory: it is restored")
    _access(config)  # so that one process says what is wrong with it
    _raise_descriptor_limit()
    if lacking("cluster"):
        sys.exit(advice("cluster", "toehold-frontier --log"))
    with packages_of("frontier", "toehold-frontier"):
        from ..service import version
        from .machine import serve_machine
    sys.exit(serve_machine(config, file, manager, version()))


def _serve_door(config: Config, shard_map: ShardMap, manager: ServiceManager) -> None:
    """Be the door of a machine."""
    tls, callers = _access(config)
    _raise_descriptor_limit()
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .door import serve_door
        from .listeners import CannotListen
    leave_out_callers_doings()
    try:
        failure = serve_door(config, tls, callers, manager, shard_map)
    except CannotListen as problem:
        end(EXIT_LISTEN, str(problem))
    if failure:
        end(EXIT_STORE, failure)


def _salvage(config: Config, secret: bytes) -> None:
    _raise_descriptor_limit()
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .serving import salvage
    salvage(config, secret)


def _split(config: Config) -> None:
    _raise_descriptor_limit()
    if config.log and lacking("cluster"):
        sys.exit(advice("cluster", "toehold-frontier --log"))
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .serving import split, split_cluster
    if config.log:
        split_cluster(config)
    else:
        split(config)


def _list_shards(config: Config) -> None:
    """Print a JSON object for each member."""
    found = read_map(config.data)
    if found is None:
        check_no_member(config.data)
        check_store(config.data)
    store_bytes = bytes_of(config.data / "store")
    whole = {"member": ".", "first_slot": 0, "last_slot": SLOTS - 1, "store_bytes": store_bytes}
    for member in [whole] if found is None else found.shown():
        click.echo(json.dumps(member))


def _list_cluster(url: str) -> None:
    """Print a JSON object for each member and each machine of a cluster."""
    if lacking("cluster"):
        sys.exit(advice("cluster", "toehold-frontier --log"))
    with packages_of("frontier", "toehold-frontier"):
        from ..cluster.identity import ClusterUnusable
        from ..replicated.buckets import BucketFailed, BucketUnusable, open_bucket
        from ..replicated.log import LogFailed
        from .cluster_list import cluster_of, listed
    try:
        bucket = open_bucket(url)
        for told in listed(bucket, cluster_of(bucket, url)):
            click.echo(json.dumps(told))
    except (BucketUnusable, ClusterUnusable) as problem:
        end(EXIT_DATA, f"log {url} {problem}")
    except (BucketFailed, LogFailed) as problem:
        end(EXIT_STORE, f"log {problem}")


def _supervise(config: Config, file: ServerFile, salvage: bool, manager: ServiceManager) -> None:
    """Run several shards, and a front."""
    if salvage:
        raise MapUnusable("has several shards; salvage the damaged one alone, such as --data DIR/shard-0000")
    _access(config)  # so that one process says what is wrong with it
    _raise_descriptor_limit()
    sys.exit(supervise(config, file, manager))


def _with_source(problem: str) -> str:
    """An error about a setting with the variable that its value came from, if it came from one."""
    context = click.get_current_context()
    for option in settable(main):
        named = re.match(rf"{long_name(option)}\b", problem)
        if named and source_of(context, option) is ParameterSource.ENVIRONMENT:
            return f"{variable_used(option)}: {problem}"
    return problem


def _naming_the_source(problem: str) -> str:
    """An error about the number of shards, with what it came from instead of the option."""
    context = click.get_current_context()
    (option,) = [each for each in settable(main) if each.name == "shards"]
    source = source_of(context, option)
    if source is ParameterSource.COMMANDLINE:
        return problem
    if source is ParameterSource.ENVIRONMENT:
        return re.sub(r"--shards (?=\d)", f"{variable_used(option)}=", problem).replace(
            "leave --shards out", f"remove {variable_used(option)}"
        )
    return re.sub(r"--shards (?=\d)", "shards = ", problem).replace(
        "leave --shards out", "remove shards from the settings file"
    )


def _access(config: Config) -> tuple[ServerTls | None, Callers | None]:
    """TLS and the callers, or None."""
    tls, callers = None, None
    try:
        if config.tls_cert is not None and config.tls_key is not None:
            tls = ServerTls(config.tls_cert, config.tls_key, config.tls_ca, _log_certificates)
        if config.callers is not None:
            callers = Callers(config.callers)
    except (TlsUnusable, CallersInvalid) as problem:
        end(EXIT_USAGE, str(problem))
    if config.console is not None and lacking("cli", "console"):
        sys.exit(advice("console", "toehold-frontier --console"))
    return tls, callers


def _log_certificates(problem: str) -> None:
    if problem:
        _log.error("certificates_unusable", problem=problem, advice="those in use stay")
    else:
        _log.info("certificates_reloaded")


def _raise_descriptor_limit() -> None:
    """Raise the process's limit of descriptors, and end the process if they are too few."""
    limit, problem = raise_descriptor_limit()
    if problem:
        _log.warning("descriptor_limit_not_raised", limit=limit, problem=problem)
    lack = too_few_descriptors(limit)
    if lack:
        end(EXIT_USAGE, lack)
