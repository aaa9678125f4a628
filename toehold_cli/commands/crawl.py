"""`toehold crawl`: a whole crawl in one command, with a frontier server and a crawler node of its own."""

import shlex
import shutil
import sys
from itertools import chain
from pathlib import Path

import click
from rich.console import Console

from toehold_base.process.extras import advice, lacking
from toehold_cli import output
from toehold_cli.embedded.directory import CrawlDirectory, open_directory
from toehold_cli.embedded.node_plan import (
    DEFAULT_TOES,
    MOST_PROCESSES,
    TOES_A_PROCESS,
    NodePlan,
    usual_processes,
)
from toehold_cli.embedded.plan import DEFAULT_NAME, Plan, make_spec, sort_out
from toehold_cli.embedded.report import Report
from toehold_cli.embedded.report import show as show_report
from toehold_cli.embedded.run import EmbeddedCrawl
from toehold_cli.embedded.spec_options import SpecOptions
from toehold_cli.embedded.watch import Ending
from toehold_cli.exits import BadPlan, CommandFailed, ExitCode, Interrupted
from toehold_cli.live.displays import Display, WhileSeen, following, new_console
from toehold_cli.numbers import Real, Whole
from toehold_client.spec import file as spec_file
from toehold_client.spec import listed
from toehold_client.watching.interruptions import Interruptions

from .crawl_options import LARGEST, seeds_file_option, with_spec_options
from .options import MOST_SHARDS
from .sections import SectionedCommand, section

_MOST_TOES = 1000  # the node's own limit
_LAST_PORT = 65_535

_output = section("Where pages go")
_load = section("How fast")
_fetches = section("How to fetch")
_running = section("This command")


@click.command(cls=SectionedCommand)
@click.argument("urls", nargs=-1, metavar="URL…")
@seeds_file_option
@with_spec_options(own_defaults=True)
@_load(
    "--toes",
    type=Whole(1, _MOST_TOES),
    default=DEFAULT_TOES,
    show_default=True,
    metavar="N",
    help="Fetch up to N pages at a time, from all hosts together.",
)
@_load(
    "--processes",
    type=Whole(1, MOST_PROCESSES),
    metavar="N",
    help="Fetch in N processes, which share the toes. A process that dies or hangs is replaced.  [default: "
    f"one per processor and {TOES_A_PROCESS} toes; with --hook or --max-bytes-per-second: one, not replaced]",
)
@_load(
    "--max-bytes-per-second",
    type=Whole(1, LARGEST),
    metavar="N",
    help="Read at most N bytes per second, from all hosts together.  [default: no limit]",
)
@_output("--no-warc", is_flag=True, help="Don't write WARC files to DIR/warcs.")
@_output(
    "--warc-metadata",
    type=click.Choice(["none", "visit", "outlinks"]),
    help="Record how each page was found (visit), and its links too (outlinks).  [default: visit]",
)
@_output(
    "--gzip-level",
    type=Whole(1, 9),
    metavar="N",
    help="Compress WARC records at level N: 1 is fast, 9 is small.  [default: 6]",
)
@_output("--pages", is_flag=True, help="Write JSON Lines files to DIR/pages, one page per line.")
@_output(
    "--pages-text",
    type=click.Choice(["text", "html", "none"]),
    help="Write this part of each page.  [default: text]",
)
@_output(
    "--mirror",
    is_flag=True,
    help="Write each page to a plain file of its own, DIR/mirror/HOST/PATH.",
)
@_output(
    "--hook",
    metavar="MODULE:FUNCTION",
    help="Call this Python function with each page. The module is in the current directory or installed.",
)
@_output(
    "--file-prefix",
    metavar="PREFIX",
    help="Begin the names of WARC and JSON Lines files with PREFIX.  [default: toehold]",
)
@_output(
    "--max-file-mib",
    type=Whole(1, LARGEST),
    metavar="N",
    help="Close such a file before it exceeds N MiB.  [default: 1000]",
)
@_output(
    "--max-file-hours",
    type=Real(0, LARGEST, min_open=True),
    metavar="N",
    help="Close such a file after N hours.  [default: 24]",
)
@_fetches(
    "--resolve",
    multiple=True,
    metavar="HOST:PORT:ADDR",
    help="Connect to ADDR for this host and port, instead of asking DNS. May be repeated.",
)
@_fetches(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="Also trust the certificates (PEM) in FILE.",
)
@_running(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar="TOEHOLD_DIR",
    show_envvar=True,
    help="Keep the whole crawl in DIR.  [default: ./crawl-HOST, after the first URL's host]",
)
@_running(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the crawl spec in FILE (`toehold init` writes one). Its defaults are the frontier's: 30 "
    "attempts, 15 minutes apart. Other options override it, or add to its lists.",
)
@_running(
    "--fresh", is_flag=True, help="If DIR holds a crawl, move it to DIR.1 (or .2, …) and start a new one."
)
@_running(
    "--recrawl",
    is_flag=True,
    help="If the crawl in DIR has finished, fetch its pages again. Servers that support this send only those "
    "that have changed.",
)
@_running(
    "--skip-bad-seeds",
    is_flag=True,
    help="Crawl from the good URLs if others are refused, for instance because of a typo.",
)
@_running(
    "--shards",
    type=Whole(1, MOST_SHARDS),
    metavar="N",
    help="Let a new crawl's frontier have N shards, processes that share the crawl: for a crawl that keeps a "
    "processor busy.  [default: 1]",
)
@_running(
    "--frontier-port",
    type=Whole(1, _LAST_PORT),
    metavar="N",
    help="Let the frontier listen on port N of 127.0.0.1, so that further nodes can join: toehold-node "
    "--frontier 127.0.0.1:N.  [default: any free port]",
)
@_running(
    "--json",
    "as_json",
    is_flag=True,
    help="Show no progress. Print the report as one JSON object at the end.",
)
@_running(
    "--resume-with",
    metavar="COMMAND",
    help="Name COMMAND as the one that resumes the crawl. For programs that run this one.",
)
def crawl(
    urls: tuple[str, ...],
    seeds_file: Path | None,
    options: SpecOptions,
    directory: Path | None,
    spec_path: Path | None,
    toes: int,
    processes: int | None,
    no_warc: bool,
    warc_metadata: str | None,
    gzip_level: int | None,
    pages: bool,
    pages_text: str | None,
    mirror: bool,
    hook: str | None,
    file_prefix: str | None,
    max_file_mib: int | None,
    max_file_hours: float | None,
    max_bytes_per_second: int | None,
    resolve: tuple[str, ...],
    ca_file: Path | None,
    fresh: bool,
    recrawl: bool,
    skip_bad_seeds: bool,
    shards: int | None,
    frontier_port: int | None,
    as_json: bool,
    resume_with: str | None,
) -> ExitCode:
    """Crawl from these URLs, with a frontier server and a crawler node of its own.

    The command shows the crawl while it runs. At the end it prints a report, and writes it to
    DIR/report.json. Ctrl-C pauses the crawl, and the same command continues it. A second Ctrl-C stops at once
    and interrupts fetches. A URL without a scheme means https.

    The crawl includes the hosts of the URLs, and the hosts that the URLs redirect to.

    Options may change each time, and URLs may be added; a setting that cannot change is refused. A crawl that
    ended at a limit continues when the limit is raised.

    \b
    Exit codes:
      0    the crawl finished, or ended at a limit
      1    it was stopped from elsewhere, or a program failed
      2    wrong usage, a bad seed, a bad spec or an unusable directory
      4    no seed was fetched, or nothing but errors came
      5    DIR holds another crawl, one that has finished, or one that runs now
      130  paused or interrupted
    """
    if lacking("frontier", "node"):
        raise CommandFailed(advice("all", "toehold crawl"))
    console = new_console()
    command = resume_with or _this_command()
    with Interruptions() as interruptions:
        display = WhileSeen(Display() if as_json else following(console), interruptions.interrupt_once)
        try:
            node = NodePlan(
                toes=toes,
                processes=processes or usual_processes(toes, hook, max_bytes_per_second),
                warc=not no_warc,
                warc_metadata=warc_metadata,
                gzip_level=gzip_level,
                pages=pages,
                pages_text=pages_text,
                mirror=mirror,
                hook=hook,
                file_prefix=file_prefix,
                max_file_mib=max_file_mib,
                max_file_hours=max_file_hours,
                max_bytes_per_second=max_bytes_per_second,
                resolve=resolve,
                ca_file=ca_file,
            )
            node.check()
            file = spec_file.load(spec_path) if spec_path else None
            typed = chain(
                (("", url) for url in urls),
                listed.lines(seeds_file, "seeds file") if seeds_file else (),
                file.typed_seeds() if file else (),
            )
            seeds = sort_out(typed, skip_bad=skip_bad_seeds)
            plan = Plan(
                crawl=(file.name if file else "") or DEFAULT_NAME,
                spec=make_spec(file, options, seeds),
                seeds=seeds.good,
                node=node,
                places=file.places if file else {},
                skip_bad_seeds=skip_bad_seeds,
                recrawl=recrawl,
                frontier_port=frontier_port or 0,
                shards=shards or 0,
                command=command,
            )
            for line in seeds.bad:
                display.say(f"Skipped: {line}")
            path = directory or Path(f"crawl-{seeds.hosts[0]}")
            with open_directory(path, plan, interruptions, fresh=fresh, say=display.say) as opened:
                ending, report = _run(plan, opened, display, interruptions)
            code = _tell(ending, report, opened.path, display, None if as_json else console, command)
        except Interrupted:
            display.say(f"Interrupted before the crawl began. To continue: {command}")
            code = ExitCode.INTERRUPTED
    return code


def _run(
    plan: Plan, directory: CrawlDirectory, display: Display, interruptions: Interruptions
) -> tuple[Ending, Report]:
    try:
        with display, EmbeddedCrawl(plan, directory, display, interruptions) as embedded:
            return embedded.run()
    except BadPlan:
        if directory.new:
            directory.discard()
        raise


def _tell(
    ending: Ending,
    report: Report,
    path: Path,
    display: WhileSeen,
    console: Console | None,
    command: str,
) -> ExitCode:
    """Shows what came of the crawl; the exit code."""
    if console is None:
        output.record(report)
    elif display.seen:
        show_report(report, path, console)
    if ending is Ending.FINISHED:
        if report["failure"]:
            return ExitCode.CRAWL_FAILED
        return ExitCode.FAILED if report["exit_status"] == "ABORTED" else ExitCode.DONE
    done = "Paused." if ending is Ending.PAUSED else "Stopped. The next run repeats interrupted fetches."
    display.say(f"{done} To continue: {command}")
    return ExitCode.INTERRUPTED


def _this_command() -> str:
    """The command line of this process, without --fresh, which would not resume."""
    program, *arguments = sys.argv
    name = Path(program).name
    if name == "__main__.py":
        words = [sys.executable, "-m", "toehold_cli"]
    else:
        words = [name if shutil.which(name) == program else program]
    return shlex.join([*words, *(argument for argument in arguments if argument != "--fresh")])
