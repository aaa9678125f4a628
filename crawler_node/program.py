"""The program `toehold-node`: a crawler node, from its command line to its exit code."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click
import structlog
from structlog.typing import EventDict

from .control.service import CannotListen, NodeServer, listen_address
from .control.supervisor import Supervisor
from .control.team_desk import TeamDesk
from .exits import ExitCode
from .memory import give_back_large_blocks
from .options import NodeOptions, Output
from .ready import ready_line

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

MAX_TOES = 1000
MAX_PROCESSES = 64
MAX_NAME_CHARS = 128
MIB = 1 << 20

_LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_Directory = click.Path(path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--frontier",
    "address",
    metavar="HOST:PORT",
    default="127.0.0.1:7707",
    show_default=True,
    help="The frontier to fetch for. It may come and go while the node runs.",
)
@click.option(
    "--toes",
    type=click.IntRange(1, MAX_TOES),
    default=25,
    show_default=True,
    help="How many pages to fetch at a time, all processes together.",
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, MAX_PROCESSES),
    help="Work in N processes, which are watched over, and replaced when they die or hang. To the frontier "
    "they are the nodes NAME/1 to NAME/N. [default: in this one, which nobody watches]",
)
@click.option(
    "--name",
    help="This node's name, for one process at a time: one that comes later takes over. "
    "[default: host name and process id]",
)
@click.option("--crawl", default="", help="The only crawl to fetch for. [default: any]")
@click.option("--warc", type=_Directory, help="Where WARC files go; made if it is not there.")
@click.option(
    "--warc-metadata",
    type=click.Choice(["none", "visit", "outlinks"]),
    default="visit",
    show_default=True,
    help="What a page's metadata record tells: how it was found, or its links too.",
)
@click.option(
    "--gzip-level",
    type=click.IntRange(1, 9),
    help="How hard WARC records are compressed: 1 is fast, 9 is small. [default: 6]",
)
@click.option("--pages", type=_Directory, help="Where JSON Lines files go, a page a line.")
@click.option(
    "--pages-text",
    type=click.Choice(["text", "html", "none"]),
    default="text",
    show_default=True,
    help="What of a page goes into its line.",
)
@click.option("--hook", metavar="MODULE:FUNCTION", help="A Python function that is called with each page.")
@click.option("--logs", type=_Directory, help="Where uri-errors.log and runtime-errors.log go.")
@click.option("--file-prefix", default="toehold", show_default=True, help="How names of files begin.")
@click.option(
    "--max-file-mib",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="A file is closed when it would be larger.",
)
@click.option(
    "--max-file-hours",
    type=click.FloatRange(0, min_open=True),
    default=24.0,
    show_default=True,
    help="A file is closed when it has been open for so long.",
)
@click.option(
    "--disk-reserve-mib",
    type=click.IntRange(0),
    default=512,
    show_default=True,
    help="With less free space where files go, nothing is fetched, and crawls are paused. 0 watches nothing.",
)
@click.option(
    "--max-bytes-per-second",
    type=click.IntRange(0),
    default=0,
    help="Most bytes to read a second, all processes together. [default: no limit]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Where the node can be asked what its toe threads do (NodeService); port 0 takes a free one.",
)
@click.option("--insecure", is_flag=True, help="Allow --listen an address beyond loopback, without TLS.")
@click.option(
    "--resolve",
    "resolves",
    metavar="HOST:PORT:ADDR",
    multiple=True,
    help="An address that stands in for a host's own. May be repeated.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificates (PEM) to trust beside the system's.",
)
@click.option(
    "--max-left-behind",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="How many toe threads that do not end a process bears before it ends itself.",
)
@click.option(
    "--hang-seconds",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="With --processes: how long a process may give no sign of life before it is killed.",
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="End soon after standard input does, as when a parent dies."
)
@click.option(
    "--log-level",
    type=click.Choice(list(_LOG_LEVELS)),
    default="info",
    show_default=True,
    help="The least that is logged, as JSON lines on standard error.",
)
@click.option("--worker", type=int, hidden=True)  # which process of a node this is
@click.option("--node-service", default="", hidden=True)  # and where the node can be asked
@click.version_option(package_name="toehold-crawler")
def main(
    address: str,
    toes: int,
    processes: int | None,
    name: str | None,
    crawl: str,
    warc: Path | None,
    warc_metadata: str,
    gzip_level: int | None,
    pages: Path | None,
    pages_text: str,
    hook: str | None,
    logs: Path | None,
    file_prefix: str,
    max_file_mib: int,
    max_file_hours: float,
    disk_reserve_mib: int,
    max_bytes_per_second: int,
    listen: str,
    insecure: bool,
    resolves: tuple[str, ...],
    ca_file: Path | None,
    max_left_behind: int,
    hang_seconds: float,
    until_stdin_ends: bool,
    log_level: str,
    worker: int | None,
    node_service: str,
) -> None:
    """Fetches pages for a Toehold frontier, until it gets SIGTERM or SIGINT.

    What becomes of pages: WARC files (--warc), JSON Lines (--pages), a function of yours (--hook); one of
    them is needed.

    At a signal it ends what it is fetching, hands back what it has not started, and reports everything. A
    second signal interrupts what it is fetching, too. Nothing is lost when it is killed.

    \b
    Exit codes:
      0  everything is reported
      1  the frontier could not be reached for 30 seconds at the end, so that pages are unreported;
         or the node failed
      2  an argument makes no sense
      3  another process has taken over this node's name
      4  a directory that pages go to cannot be used
      5  too many toe threads did not end (without --processes; start it again)
    """
    # First: threads inherit it, those of gRPC too, and so do the processes of a node.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    name = _checked_name(name)
    _log_json_lines(_LOG_LEVELS[log_level], name if worker is not None else None)
    server = _bound(listen, insecure)
    if processes is not None and worker is None:
        _supervise(
            server, name, address, toes, processes, hang_seconds, until_stdin_ends, max_bytes_per_second
        )
    give_back_large_blocks()
    output = Output(
        warc=warc,
        warc_metadata=warc_metadata,
        gzip_level=gzip_level,
        pages=pages,
        pages_text=pages_text,
        hook=hook,
        logs=logs,
        file_prefix=file_prefix,
        max_file_bytes=max_file_mib * MIB,
        max_file_age_s=max_file_hours * 3600,
        disk_reserve_bytes=disk_reserve_mib * MIB,
    )
    options = NodeOptions(
        address,
        toes,
        name,
        crawl,
        output,
        max_bytes_per_second,
        resolves,
        ca_file,
        max_left_behind,
        node_service or server.told_address,
    )
    from .assembly import Unusable, assembled  # a supervisor does without what it takes to fetch

    try:
        node = assembled(options, server)
    except Unusable as problem:
        if problem.option:
            raise click.BadParameter(str(problem), param_hint=problem.option) from problem
        _end(str(problem), ExitCode.OUTPUT_UNUSABLE)
    try:
        node.start()
    except RuntimeError as error:  # the system has no more threads
        _end(f"{toes} toe threads cannot be started: {error}", ExitCode.UNREPORTED)
    _watch(node.drain, node.orphaned, until_stdin_ends)
    _say(ready_line(name, address, toes, None, server.address))
    code = node.wait()
    server.stop()
    if node.pool.left_behind_count:
        # Threads that nothing ends: a proper exit would wait for them, or pull the ground from under them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _supervise(
    server: NodeServer,
    name: str,
    address: str,
    toes: int,
    processes: int,
    hang_s: float,
    until_stdin_ends: bool,
    max_bytes_per_second: int,
) -> NoReturn:
    if processes > toes:
        raise click.BadParameter(
            f"{processes} processes with {toes} toes have nothing to do", param_hint="--toes"
        )
    own = sys.argv[1:]

    def command(number: int, share: int) -> Sequence[str]:
        # What comes later goes over what was said before.
        rest = ("--worker", str(number), "--toes", str(max(1, share)), "--name", f"{name}/{number}")
        alone = ("--listen", "127.0.0.1:0", "--node-service", server.told_address, "--until-stdin-ends")
        rate = ("--max-bytes-per-second", str(-(-max_bytes_per_second // processes)))
        # -P: nothing in the present directory may stand in for a module of the node's.
        return (sys.executable, "-P", "-m", "crawler_node", *own, *rest, *alone, *rate)

    supervisor = Supervisor(processes, toes, command, hang_s)
    server.start(TeamDesk(supervisor, name, address))
    supervisor.when_draining(server.not_serving)
    _watch(supervisor.drain, supervisor.orphaned, until_stdin_ends)
    ready = ready_line(name, address, toes, processes, server.address)
    code = supervisor.run(lambda: _say(ready))
    server.stop()
    sys.exit(code)


def _bound(listen: str, insecure: bool) -> NodeServer:
    server = NodeServer()
    try:
        server.bind(listen_address(listen, insecure))
    except (ValueError, CannotListen) as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    return server


def _checked_name(name: str | None) -> str:
    if name is None:
        # A host's name may be longer than the contract allows a node's.
        name = f"{socket.gethostname()[: MAX_NAME_CHARS - 20]}-{os.getpid()}"
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise click.BadParameter(
            f"{name[:200]!r} has {len(name)} characters; 1 to {MAX_NAME_CHARS} printable ones make a name",
            param_hint="--name",
        )
    return name


def _watch(drain: Callable[[], None], orphaned: Callable[[], None], until_stdin_ends: bool) -> None:
    _start_thread("signals", lambda: _watch_signals(drain))
    if until_stdin_ends:
        _start_thread("stdin", lambda: _watch_stdin(orphaned))


def _watch_signals(at_each: Callable[[], None]) -> None:
    # Not by handlers: Python runs them in the main thread, which would sleep on when the system gave the
    # signal to another thread, or just before the main thread began to wait.
    while True:
        signal.sigwait(_SIGNALS)
        at_each()


def _watch_stdin(at_end: Callable[[], None]) -> None:
    try:
        while os.read(0, 65536):
            pass
    except OSError:  # there is none
        pass
    at_end()


def _start_thread(name: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads it
        click.echo(line)


def _end(message: str, code: ExitCode) -> NoReturn:
    click.echo(f"toehold-node: {message}", err=True)
    sys.exit(code)


def _log_json_lines(level: int, node: str | None) -> None:
    """`node` is told in each line, if several processes write them."""

    def name_node(logger: object, method: str, line: EventDict) -> EventDict:
        return line if node is None else {**line, "node": node}

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            name_node,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
