"""The program `toehold-node`: a crawler node, from its command line to its exit code."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import structlog
from structlog.typing import EventDict

from .control.multi_process import MultiProcessControl
from .control.service import CannotListen, NodeServer, listen_address
from .control.supervisor import Supervisor
from .memory import give_back_large_blocks
from .process import NodeExitCode, NodeOptions, ready_line

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

MAX_TOES = 1000
MAX_PROCESSES = 64
MAX_NAME_CHARS = 128

_Directory = click.Path(path_type=Path)


def _checked_name(context: click.Context, option: click.Parameter, name: str | None) -> str:
    if name is None:
        # A host's name may be longer than the contract allows a node's.
        name = f"{socket.gethostname()[: MAX_NAME_CHARS - 20]}-{os.getpid()}"
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise click.BadParameter(
            f"must have 1 to {MAX_NAME_CHARS} printable characters, got {len(name)}: {name[:200]!r}"
        )
    return name


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--frontier",
    metavar="HOST:PORT",
    default="127.0.0.1:7707",
    show_default=True,
    help="The frontier to fetch for. It may stop and start again while the node runs.",
)
@click.option(
    "--toes",
    type=click.IntRange(1, MAX_TOES),
    default=25,
    show_default=True,
    help="How many pages all processes together fetch at a time.",
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, MAX_PROCESSES),
    help="Work in N processes. A supervisor replaces those that die or hang. To the frontier they are the "
    "nodes NAME/1 to NAME/N. [default: work in this process, without a supervisor]",
)
@click.option(
    "--name",
    callback=_checked_name,
    help="This node's name. Only one process has a name at a time: a later one takes it over. "
    "[default: host name and process id]",
)
@click.option("--crawl", default="", help="The only crawl to fetch for. [default: any]")
@click.option("--warc", type=_Directory, help="The directory of WARC files; created if it does not exist.")
@click.option(
    "--warc-metadata",
    type=click.Choice(["none", "visit", "outlinks"]),
    default="visit",
    show_default=True,
    help="The metadata record of a page: none, how it was found, or also its links.",
)
@click.option(
    "--gzip-level",
    type=click.IntRange(1, 9),
    help="How hard to compress WARC records: 1 is fast, 9 is small. [default: 6]",
)
@click.option("--pages", type=_Directory, help="The directory of JSON Lines files, one line for each page.")
@click.option(
    "--pages-text",
    type=click.Choice(["text", "html", "none"]),
    default="text",
    show_default=True,
    help="The part of a page that goes into its line.",
)
@click.option("--hook", metavar="MODULE:FUNCTION", help="A Python function to call with each page.")
@click.option("--logs", type=_Directory, help="The directory of uri-errors.log and runtime-errors.log.")
@click.option("--file-prefix", default="toehold", show_default=True, help="The beginning of file names.")
@click.option(
    "--max-file-mib",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Close a file before it would be larger.",
)
@click.option(
    "--max-file-hours",
    type=click.FloatRange(0, min_open=True),
    default=24.0,
    show_default=True,
    help="Close a file after so many hours.",
)
@click.option(
    "--disk-reserve-mib",
    type=click.IntRange(0),
    default=512,
    show_default=True,
    help="With less free disk space, stop fetching and pause the crawls. 0 turns this off.",
)
@click.option(
    "--max-bytes-per-second",
    type=click.IntRange(0),
    default=0,
    help="Most bytes a second that all processes together read. [default: no limit]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="The address of NodeService, which tells what the toe threads do; port 0 takes a free one.",
)
@click.option(
    "--insecure", is_flag=True, help="Allow --listen to take an address beyond loopback, without TLS."
)
@click.option(
    "--resolve",
    "resolves",
    metavar="HOST:PORT:ADDR",
    multiple=True,
    help="Connect to ADDR for HOST:PORT. May be repeated.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificates (PEM) to trust in addition to the system's.",
)
@click.option(
    "--max-left-behind",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="End a process that has more toe threads than this that do not end.",
)
@click.option(
    "--hang-seconds",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="With --processes: kill a process that has been silent for so long.",
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="End soon after standard input ends, as when the parent dies."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The lowest level to log, as JSON lines on standard error.",
)
@click.option("--worker", type=int, hidden=True)
@click.option("--node-service", default="", hidden=True)
@click.version_option(package_name="toehold-crawler")
def main(**given: Any) -> None:
    """Fetches pages for a Toehold frontier, until it gets SIGTERM or SIGINT.

    Pages go to WARC files (--warc), JSON Lines (--pages) or a function of yours (--hook). Give at least one.

    At a signal the node finishes its running fetches, hands back the URIs that it has not started, and
    reports everything. A second signal interrupts the running fetches. Killing the node loses nothing.

    \b
    Exit codes:
      0  everything is reported
      1  pages are unreported, as the frontier did not answer for 30 seconds at the end; or the node
         failed
      2  an argument makes no sense
      3  another process has taken over this node's name
      4  an output directory cannot be used
      5  too many toe threads did not end (without --processes; start the node again)
    """
    # First: threads inherit the mask, those of gRPC too, and so do the processes of a node.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    options = NodeOptions(**given)
    _log_json_lines(options)
    server = _bound(options)
    if options.processes is not None and options.worker is None:
        code = _supervise(options, server)
    else:
        code = _fetch(options, server)
    if code == NodeExitCode.SUPERSEDED and options.worker is None:
        _failure(_superseded(options), NodeExitCode.SUPERSEDED)
    sys.exit(code)


def _superseded(options: NodeOptions) -> str:
    return (
        f"another process has taken the node name {options.name!r}, so this one ends. Its leases have gone "
        "back to the frontier. Give each process its own --name."
    )


def _fetch(options: NodeOptions, server: NodeServer) -> int:
    """Runs a node of one process, or a worker process; its exit code."""
    from .assembly import Unusable, assembled  # a supervisor needs none of what these import

    give_back_large_blocks()
    try:
        node = assembled(options, server)
    except Unusable as problem:
        if problem.option:
            raise click.BadParameter(str(problem), param_hint=problem.option) from problem
        return _failure(str(problem), NodeExitCode.OUTPUT_UNUSABLE)
    try:
        node.start()
    except RuntimeError as error:  # the system has no more threads
        return _failure(f"{options.toes} toe threads cannot be started: {error}", NodeExitCode.UNREPORTED)
    _watch(node.drain, node.orphaned, options)
    _say(ready_line(options, server.address))
    code = node.wait()
    server.stop()
    if node.pool.left_behind_count:
        # A proper exit would wait for the threads that do not end, or pull the ground from under them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _supervise(options: NodeOptions, server: NodeServer) -> int:
    """Runs a node of several processes; its exit code."""
    processes = options.processes or 1
    if processes > options.toes:
        raise click.BadParameter(
            f"{processes} processes need {processes} toes or more, got {options.toes}", param_hint="--toes"
        )
    own = sys.argv[1:]
    bytes_per_second = -(-options.max_bytes_per_second // processes)

    def command(number: int, share: int) -> Sequence[str]:
        # The last of several values of an option holds, so these override those that the node was given.
        rest = ("--worker", str(number), "--toes", str(max(1, share)), "--name", f"{options.name}/{number}")
        alone = ("--listen", "127.0.0.1:0", "--node-service", server.told_address, "--until-stdin-ends")
        rate = ("--max-bytes-per-second", str(bytes_per_second))
        # -P: no file in the present directory may stand in for a module of the node's.
        return (sys.executable, "-P", "-m", "crawler_node", *own, *rest, *alone, *rate)

    supervisor = Supervisor(processes, options.toes, command, options.hang_seconds)
    server.start(MultiProcessControl(supervisor, options.name, options.frontier))
    supervisor.when_draining(server.not_serving)
    _watch(supervisor.drain, supervisor.orphaned, options)
    code = supervisor.run(lambda: _say(ready_line(options, server.address)))
    server.stop()
    return code


def _bound(options: NodeOptions) -> NodeServer:
    server = NodeServer()
    try:
        server.bind(listen_address(options.listen, options.insecure))
    except (ValueError, CannotListen) as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    return server


def _watch(drain: Callable[[], None], orphaned: Callable[[], None], options: NodeOptions) -> None:
    _start_thread("signals", lambda: _watch_signals(drain))
    if options.until_stdin_ends:
        _start_thread("stdin", lambda: _watch_stdin(orphaned))


def _watch_signals(at_each: Callable[[], None]) -> None:
    # Python runs signal handlers in the main thread. That would sleep on if the system gave the signal to
    # another thread, or just before the main thread began to wait.
    while True:
        signal.sigwait(_SIGNALS)
        at_each()


def _watch_stdin(at_end: Callable[[], None]) -> None:
    try:
        while os.read(0, 65536):
            pass
    except OSError:  # there is no standard input
        pass
    at_end()


def _start_thread(name: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads it
        click.echo(line)


def _failure(message: str, code: NodeExitCode) -> NodeExitCode:
    click.echo(f"toehold-node: {message}", err=True)
    return code


def _log_json_lines(options: NodeOptions) -> None:
    """Logs JSON lines. Those of a worker process name it, as several processes write them."""

    def name_node(logger: object, method: str, line: EventDict) -> EventDict:
        return line if options.worker is None else {**line, "node": options.name}

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            name_node,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(options.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
