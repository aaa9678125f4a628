"""The program `toehold-node`: a crawler node, from its command line to its exit code."""

import os
import re
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from toehold_base.access.privacy import warn_if_open
from toehold_base.observability import logs
from toehold_base.observability.log_choices import FORMATS, LEVELS
from toehold_base.observability.tracing import EXTRA, checked_endpoint, tracer_of
from toehold_base.options.checks import MAX_NAME_CHARS, node_name, read_by
from toehold_base.options.command import spelt_out
from toehold_base.options.file import config_option
from toehold_base.options.warning import warn_of_unknown_variables
from toehold_base.process.extras import advice, lacking, packages_of
from toehold_base.process.service_manager import ServiceManager
from toehold_base.process.startup import fast_imports
from toehold_base.serving.connections import raise_descriptor_limit, too_few_descriptors
from toehold_client.credential_options import credential_options
from toehold_client.credentials import SYSTEM

from .control.multi_process import MultiProcessControl
from .control.service import NodeServer
from .control.supervisor import Supervisor
from .fetching.cookies import CookieJars
from .listeners import bound_server, process_metrics, workers_metrics
from .memory import suit_pages
from .option_types import GroupedCommand, Number
from .process import NodeExitCode, NodeOptions, ready_line
from .signals import SIGNALS, watch

VARIABLES = "TOEHOLD_NODE"
MAX_TOES = 1000
MAX_PROCESSES = 64
MAX_KINDS = 16
_KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

_Directory = click.Path(path_type=Path)
_File = click.Path(path_type=Path, dir_okay=False)


def _name(given: str | None) -> str:
    if given is None:
        # A host's name may be longer than the contract allows a node's.
        return f"{socket.gethostname()[: MAX_NAME_CHARS - 20]}-{os.getpid()}"
    return node_name(given)


def _checked_kinds(
    context: click.Context, option: click.Parameter, kinds: tuple[str, ...]
) -> tuple[str, ...]:
    for kind in kinds:
        if not _KIND.fullmatch(kind):
            raise click.BadParameter(
                "must have 1 to 64 of the characters a-z, 0-9, ., _ and -, beginning with a letter or digit, "
                f"got {kind[:80]!r}"
            )
    if len(set(kinds)) > MAX_KINDS:
        raise click.BadParameter(f"must be given at most {MAX_KINDS} times, got {len(set(kinds))}")
    return kinds


def _collector(address: str) -> str:
    return checked_endpoint(address) if address else ""


@click.command(
    cls=GroupedCommand,
    variables=VARIABLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    headings={
        "frontier": "Fetching",
        "warc": "Output",
        "resolves": "Network",
        "listen": "Control and logs",
        "hang_seconds": "Processes and threads that hang",
        "until_stdin_ends": "Other options",
    },
)
@click.option(
    "--frontier",
    metavar="HOST:PORT",
    default="127.0.0.1:7707",
    envvar="TOEHOLD_FRONTIER",
    show_default=True,
    show_envvar=True,
    help="Fetch for this frontier. It may stop and start again while the node runs.",
)
@credential_options(
    {
        "tls_ca": f"Use TLS with the frontier, and trust the authorities in FILE (PEM), or '{SYSTEM}' ones.",
        "tls_cert": "The node's certificate (PEM): shown to the frontier, and with it NodeService speaks "
        "TLS.",
        "tls_key": "The key of the certificate (PEM).",
        "token_file": "A file with the token that tells the frontier who the node is.",
    }
)
@click.option("--crawl", metavar="NAME", default="", help="Fetch for this crawl only. [default: for any]")
@click.option(
    "--fetcher-kind",
    "fetcher_kinds",
    metavar="KIND",
    multiple=True,
    callback=_checked_kinds,
    help="Fetch also for crawls whose 'fetcher' is KIND. May be repeated. [default: only for those without a "
    "fetcher of their own]",
)
@click.option(
    "--name",
    metavar="NAME",
    callback=read_by(_name),
    help="The node's name. Give each process its own: one that starts later takes the name over. "
    "[default: host name and process id]",
)
@click.option(
    "--toes",
    metavar="N",
    type=Number(1, MAX_TOES),
    default=25,
    show_default=True,
    help="Fetch N pages at a time (toe threads), in all processes together; at most 1000.",
)
@click.option(
    "--processes",
    metavar="N",
    type=Number(1, MAX_PROCESSES),
    help="Work in N processes, at most 64, to use several cores. A supervisor replaces those that die or "
    "hang. The frontier sees them as the nodes NAME/1 to NAME/N. [default: one process, no supervisor]",
)
@click.option("--warc", metavar="DIR", type=_Directory, help="Write WARC files to DIR (created if missing).")
@click.option(
    "--warc-metadata",
    metavar="KIND",
    type=click.Choice(["none", "visit", "outlinks"]),
    default="visit",
    show_default=True,
    help="The metadata record of a page: how it was found (visit), also its links (outlinks), or none.",
)
@click.option(
    "--gzip-level",
    metavar="N",
    type=Number(1, 9),
    help="Compress WARC records at level N: 1 is fast, 9 is small. [default: 6]",
)
@click.option(
    "--pages",
    metavar="DIR",
    type=_Directory,
    help="Write JSON Lines to DIR (created if missing), one line a page.",
)
@click.option(
    "--pages-text",
    metavar="PART",
    type=click.Choice(["text", "html", "none"]),
    default="text",
    show_default=True,
    help="The part of a page in its JSON line: its text, its source (html), or none.",
)
@click.option(
    "--mirror", metavar="DIR", type=_Directory, help="Write each page to a plain file, DIR/HOST/PATH."
)
@click.option("--hook", metavar="MODULE:FUNCTION", help="Call a Python function with each page.")
@click.option(
    "--file-prefix",
    metavar="PREFIX",
    default="toehold",
    show_default=True,
    help="Begin the names of files with PREFIX.",
)
@click.option(
    "--max-file-mib",
    metavar="N",
    type=Number(1),
    default=1000,
    show_default=True,
    help="Close a file before it exceeds N MiB.",
)
@click.option(
    "--max-file-hours",
    metavar="N",
    type=Number(0, kind=click.FLOAT, above=True),
    default=24.0,
    show_default=True,
    help="Close a file after N hours.",
)
@click.option(
    "--disk-reserve-mib",
    metavar="N",
    type=Number(0),
    default=512,
    show_default=True,
    help="When less than N MiB are free where the node writes, take no more URIs, and let the frontier pause "
    "the crawls. 0 turns this off.",
)
@click.option(
    "--resolve",
    "resolves",
    metavar="HOST:PORT:ADDR",
    multiple=True,
    help="Connect to the address ADDR for HOST:PORT. May be repeated.",
)
@click.option(
    "--ca-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Trust the certificates in FILE (PEM), too.",
)
@click.option(
    "--max-bytes-per-second",
    metavar="N",
    type=Number(0),
    default=0,
    help="Read at most N bytes a second, in all processes together. [default: no limit]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Serve NodeService here, which 'toehold nodes' asks about toe threads. Port 0 takes a free one.",
)
@click.option(
    "--callers",
    metavar="FILE",
    type=_File,
    help="Answer only the callers in FILE, each with its roles ('toehold callers').",
)
@click.option(
    "--mutual-tls",
    is_flag=True,
    help="Answer only callers whose certificates an authority in --tls-ca has issued.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve metrics here, for Prometheus. Port 0 takes a free one. [default: not served]",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow --listen beyond loopback without TLS and callers, and --metrics beyond loopback: anybody can "
    "then control the node, and read the metrics.",
)
@click.option(
    "--logs", metavar="DIR", type=_Directory, help="Keep uri-errors.log and runtime-errors.log in DIR."
)
@click.option(
    "--log-format",
    metavar="FORM",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Log to standard error as JSON lines (json), as text for people (text), or as text on a terminal "
    "and JSON elsewhere (auto).",
)
@click.option(
    "--log-level",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="Log this level and those above it: debug, info, warning, error. SIGUSR1 sets debug, SIGUSR2 sets "
    "LEVEL again, in all processes.",
)
@click.option(
    "--otlp",
    metavar="ADDRESS",
    default="",
    callback=read_by(_collector),
    help="Send spans of leases that the frontier traces to this OpenTelemetry collector (OTLP over gRPC): "
    "HOST:PORT, or an http or https URL. [default: OTEL_EXPORTER_OTLP_ENDPOINT, or none]",
)
@click.option(
    "--hang-seconds",
    metavar="N",
    type=Number(1, kind=click.FLOAT),
    default=30.0,
    show_default=True,
    help="With --processes: replace a process that has not answered for N seconds.",
)
@click.option(
    "--max-left-behind",
    metavar="N",
    type=Number(0),
    default=3,
    show_default=True,
    help="End a process in which more than N toe threads refuse to end.",
)
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    help="End soon after standard input does, as it does when the parent process dies.",
)
@config_option("Settings file (TOML), whose keys are options: max_file_mib = 100. Options and variables win.")
@click.option("--worker", type=int, hidden=True)
@click.option("--node-service", default="", hidden=True)
@click.version_option(package_name="toehold-crawler")
def main(**given: Any) -> None:
    """Fetch pages for a Toehold frontier, until SIGTERM or SIGINT.

    Pages go to WARC files (--warc), to JSON Lines (--pages), to plain files (--mirror) or to a function of
    yours (--hook). Give at least one of these options.

    At a signal the node finishes the pages that it is fetching, returns the URIs that it has not started, and
    reports everything. A second signal breaks the fetches off. Killing the node loses nothing.

    A variable of the environment can take the place of each option: TOEHOLD_NODE_MAX_FILE_MIB that of
    --max-file-mib.

    \b
    Exit codes:
      0  everything is reported
      1  some pages are not reported, and will be fetched again: the frontier
         did not answer for 30 s at the end, or the node failed
      2  an argument is wrong
      3  another process has taken the node's name: give each its own --name
      4  an output directory cannot be used
      5  too many toe threads refused to end: start the node again (with
         --processes, the supervisor does so)
    """
    # First: threads inherit the mask, those of gRPC too, and so do the processes of a node.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    options = NodeOptions(**given)
    if options.hook is None and not any((options.warc, options.pages, options.mirror)):
        raise click.UsageError(
            "no output given: add --warc DIR, --pages DIR, --mirror DIR or --hook MODULE:FUNCTION"
        )
    # Several processes of a node write to one log, so each names itself.
    own = {} if options.worker is None else {"node": options.name}
    logs.configure(options.log_format, options.log_level, **own)
    if options.worker is None:  # its supervisor has warned
        warn_of_unknown_variables(main, f"{VARIABLES}_")
        warn_if_open(options.tls_key, options.token_file, options.callers)
    manager = ServiceManager.of_process()
    limit, _ = raise_descriptor_limit()  # each page takes some that is being fetched, and so does each caller
    lack = too_few_descriptors(limit)
    if lack:
        sys.exit(_failure(lack, NodeExitCode.BAD_ARGUMENT))
    server = bound_server(options)
    if options.processes is not None and options.worker is None:
        if lacking("node"):  # its workers could not tell
            sys.exit(advice("node", "toehold-node"))
        if options.otlp and lacking(EXTRA):
            sys.exit(advice(EXTRA, "toehold-node"))
        code = _supervise(options, server, manager)
    else:
        code = _fetch(options, server, manager)
    sys.exit(code)


def _fetch(options: NodeOptions, server: NodeServer, manager: ServiceManager) -> int:
    """Runs a node of one process, or a worker process; its exit code."""
    with packages_of("node", "toehold-node"), fast_imports():
        from .assembly import Unusable, assembled  # a supervisor needs none of what these import

        if options.metrics is not None:
            from .metrics import page  # noqa: F401  # here, so that it is frozen with the others

    suit_pages()
    tracer = tracer_of(options.otlp, "toehold-node", options.name)
    metrics = process_metrics(options)
    try:
        node = assembled(options, server, tracer, metrics)
    except Unusable as problem:
        if problem.option:
            raise click.BadParameter(str(problem), param_hint=f"'{problem.option}'") from problem
        return _failure(str(problem), NodeExitCode.OUTPUT_UNUSABLE)
    try:
        node.start()
    except RuntimeError as error:  # the system has no more threads
        message = f"the system refuses to start {options.toes} toe threads: {error}; give fewer --toes"
        return _failure(message, NodeExitCode.UNREPORTED)
    node.when_draining(lambda: _end(server, manager))
    node.on_keepalive(manager.alive)
    watch(node.drain, node.orphaned, options, lambda number: None)
    _ready(options, server, manager, metrics.address if metrics is not None else "")
    code = node.wait()
    if options.worker is None:  # a supervisor tells it for all of its workers
        _tell_end(code, options)
    server.stop()
    if tracer is not None:
        tracer.close()
    if node.pool.left_behind_count:
        # A proper exit would wait for the threads that do not end, or pull the ground from under them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _supervise(options: NodeOptions, server: NodeServer, manager: ServiceManager) -> int:
    """Runs a node of several processes; its exit code."""
    processes = options.processes or 1
    if processes > options.toes:
        raise click.BadParameter(
            f"{processes} processes need {processes} toes or more, got {options.toes}", param_hint="'--toes'"
        )
    own = spelt_out(click.get_current_context())  # a settings file may have changed when a worker starts anew
    bytes_per_second = -(-options.max_bytes_per_second // processes)

    def command(number: int, share: int) -> Sequence[str]:
        # The last of several values of an option holds, so these override those that the node was given.
        rest = ("--worker", str(number), "--toes", str(max(1, share)), "--name", f"{options.name}/{number}")
        alone = ("--listen", "127.0.0.1:0", "--node-service", server.told_address, "--until-stdin-ends")
        rate = ("--max-bytes-per-second", str(bytes_per_second))
        metrics_options = ("--metrics", "127.0.0.1:0") if options.metrics is not None else ()
        # -P: no file in the present directory may stand in for a module of the node's.
        return (sys.executable, "-P", "-m", "crawler_node", *own, *rest, *alone, *rate, *metrics_options)

    supervisor = Supervisor(processes, options.toes, command, options.hang_seconds, CookieJars())
    metrics = workers_metrics(options, supervisor)
    server.start(MultiProcessControl(supervisor, options.name, options.frontier))
    supervisor.when_draining(lambda: _end(server, manager))
    supervisor.on_keepalive(manager.alive)
    watch(supervisor.drain, supervisor.orphaned, options, supervisor.pass_on)
    metrics_address = metrics.address if metrics is not None else ""
    code = supervisor.run(lambda: _ready(options, server, manager, metrics_address))
    _tell_end(code, options)
    server.stop()
    return code


def _ready(options: NodeOptions, server: NodeServer, manager: ServiceManager, metrics_address: str) -> None:
    """Tells everybody that the node fetches."""
    server.serving()
    line = ready_line(options, server.address, metrics_address)
    with suppress(OSError):  # nobody reads it
        click.echo(line)
    manager.ready(line)


def _end(server: NodeServer, manager: ServiceManager) -> None:
    """Tells everybody that the node begins to end."""
    server.not_serving()
    manager.stopping("Finishing the pages that it is fetching, and reporting")


def _tell_end(code: int, options: NodeOptions) -> None:
    """Says why the node ends if its operator should act."""
    if code == NodeExitCode.SUPERSEDED:
        message = (
            f"another process has taken the node name {options.name!r}, so this one ends. Its leases have "
            "gone back to the frontier. Give each process its own --name."
        )
        _failure(message, NodeExitCode.SUPERSEDED)


def _failure(message: str, code: NodeExitCode) -> NodeExitCode:
    click.echo(f"toehold-node: {message}", err=True)
    return code
