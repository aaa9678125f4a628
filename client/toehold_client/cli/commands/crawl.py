"""`toehold crawl`: a whole crawl in one command, with a frontier server and a crawler node of its own."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from toehold_client.cli import output
from toehold_client.cli.embedded.directory import CrawlDirectory, open_directory
from toehold_client.cli.embedded.node_plan import (
    DEFAULT_TOES,
    MOST_PROCESSES,
    TOES_A_PROCESS,
    NodePlan,
    usual_processes,
)
from toehold_client.cli.embedded.plan import (
    ATTEMPTS,
    DEFAULT_NAME,
    FETCH_TIMEOUT_S,
    RETRY_DELAY_S,
    Plan,
    SpecOptions,
    make_spec,
    sort_out,
)
from toehold_client.cli.embedded.report import Report
from toehold_client.cli.embedded.report import show as show_report
from toehold_client.cli.embedded.run import EmbeddedCrawl
from toehold_client.cli.embedded.watch import Ending
from toehold_client.cli.exits import BadPlan, ExitCode, Interrupted
from toehold_client.cli.interruptions import Interruptions
from toehold_client.cli.live.displays import Display, Lines, Panel, WhileSeen, is_screen
from toehold_client.spec import file as spec_file

# The frontier's own limits. What else makes no sense it tells itself; these must fit into the messages to it.
_MOST_SECONDS, _MOST_HOPS, _MOST_ATTEMPTS = 86_400, 10_000, 10_000

# The node's own.
_MOST_TOES = 1000

_PANEL_LINES = 21


def _finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number to reckon with.")
    return value


@click.command()
@click.argument("urls", nargs=-1, metavar="URL…")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the crawl lives, all of it.  [default: ./crawl-HOST, after the first URL's host]",
)
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A crawl spec (`toehold init` writes one). Its defaults are a frontier's own, which are patient: "
    "30 attempts, 15 minutes apart. Options given here win over it.",
)
@click.option(
    "--contact",
    metavar="URL|E-MAIL",
    help="Whom a site's owner can turn to. Needed beyond loopback addresses.",
)
@click.option("--max-pages", type=click.IntRange(1, 2**62), metavar="N", help="End after N pages.")
@click.option(
    "--max-hops",
    type=click.IntRange(0, _MOST_HOPS),
    metavar="N",
    help="Most links between a seed and a page.  [default: 20]",
)
@click.option(
    "--min-delay",
    type=click.FloatRange(0, _MOST_SECONDS),
    callback=_finite,
    metavar="SECONDS",
    help="Least rest of a host after each fetch.  [default: 3]",
)
@click.option(
    "--delay-factor",
    type=click.FloatRange(0, 1_000),
    callback=_finite,
    metavar="X",
    help="Rest of a host as a multiple of the time that the fetch took.  [default: 5]",
)
@click.option(
    "--max-attempts",
    type=click.IntRange(1, _MOST_ATTEMPTS),
    metavar="N",
    help="Most times a page is fetched that cannot be had, and a robots.txt.  "
    f"[default: {ATTEMPTS}; with --spec: its]",
)
@click.option(
    "--retry-delay",
    type=click.FloatRange(0, _MOST_SECONDS),
    callback=_finite,
    metavar="SECONDS",
    help="Rest before the second attempt; later ones are longer.  "
    f"[default: {RETRY_DELAY_S:g}; with --spec: its]",
)
@click.option(
    "--fetch-timeout",
    type=click.FloatRange(0, _MOST_SECONDS, min_open=True),
    callback=_finite,
    metavar="SECONDS",
    help=f"Deadline of a whole fetch.  [default: {FETCH_TIMEOUT_S:g}; with --spec: its]",
)
@click.option(
    "--toes",
    type=click.IntRange(1, _MOST_TOES),
    default=DEFAULT_TOES,
    show_default=True,
    metavar="N",
    help="Most pages fetched at the same time, of different hosts.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    metavar="N",
    help="Fetch in N processes, which share the toes: for more than one processor can do. One that dies or "
    f"hangs is replaced.  [default: one for each processor that has {TOES_A_PROCESS} toes; with --hook or "
    "--max-bytes-per-second: one, not replaced]",
)
@click.option("--no-warc", is_flag=True, help="Write no WARC files to DIR/warcs.")
@click.option(
    "--warc-metadata",
    type=click.Choice(["none", "visit", "outlinks"]),
    help="What a page's metadata record tells: how it was found, or its links too.  [default: visit]",
)
@click.option("--pages", is_flag=True, help="Write JSON Lines files to DIR/pages, a page a line.")
@click.option(
    "--pages-text",
    type=click.Choice(["text", "html", "none"]),
    help="What of a page goes into its line.  [default: text]",
)
@click.option(
    "--hook",
    metavar="MODULE:FUNCTION",
    help="A Python function that is called with each page, from the present directory or an installed "
    "package.",
)
@click.option(
    "--max-bytes-per-second",
    type=click.IntRange(1, 2**62),
    metavar="N",
    help="Most bytes to read a second, of all hosts together.  [default: no limit]",
)
@click.option(
    "--resolve",
    multiple=True,
    metavar="HOST:PORT:ADDR",
    help="Connect to ADDR for this host and port, whatever DNS says. May be given many times.",
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="Certificates (PEM) to trust beside the usual ones.",
)
@click.option(
    "--fresh", is_flag=True, help="Move a crawl that DIR holds aside, to DIR.1 or so, and start anew."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Show nothing; print the report as one JSON object at the end."
)
@click.option(
    "--resume-with",
    metavar="COMMAND",
    help="What to name as the command that resumes, for programs that wrap this one.",
)
def crawl(
    urls: tuple[str, ...],
    directory: Path | None,
    spec_path: Path | None,
    toes: int,
    processes: int | None,
    no_warc: bool,
    warc_metadata: str | None,
    pages: bool,
    pages_text: str | None,
    hook: str | None,
    max_bytes_per_second: int | None,
    resolve: tuple[str, ...],
    ca_file: Path | None,
    fresh: bool,
    as_json: bool,
    resume_with: str | None,
    **options: Any,
) -> ExitCode:
    """Crawl from these URLs, with a frontier server and a crawler node of its own.

    Shows the crawl while it runs, and ends with a report, which is in DIR/report.json too. Ctrl-C pauses; the
    same command again goes on; a second Ctrl-C does not wait for the pages under way. A URL without a scheme
    means https.

    The hosts of the URLs belong to the crawl, and the hosts that these redirect to.

    How it fetches (--toes to --ca-file) and what it writes may be asked for otherwise in each run of a crawl.

    \b
    Exit codes:
      0    the crawl finished
      1    it failed, or was stopped from elsewhere
      2    wrong usage, a bad spec or a directory that cannot be used
      5    DIR's crawl is another one, has finished or is being worked on
      130  paused or interrupted
    """
    console = Console(markup=False, emoji=False, highlight=False)
    with Interruptions() as interruptions:
        display = WhileSeen(_display(console, as_json=as_json), interruptions.interrupt_once)
        try:
            node = NodePlan(
                toes=toes,
                processes=processes or usual_processes(toes, hook, max_bytes_per_second),
                warc=not no_warc,
                warc_metadata=warc_metadata,
                pages=pages,
                pages_text=pages_text,
                hook=hook,
                max_bytes_per_second=max_bytes_per_second,
                resolve=resolve,
                ca_file=ca_file,
            )
            node.check()
            file = spec_file.load(spec_path) if spec_path else None
            seeds = sort_out((*urls, *(file.seeds() if file else ())))
            plan = Plan(
                crawl=(file.name if file else "") or DEFAULT_NAME,
                spec=make_spec(file, SpecOptions(**options), seeds.hosts),
                seeds=seeds.good,
                node=node,
                places=file.places if file else {},
            )
            for line in seeds.left_out:
                display.say(f"Left out: {line}.")
            path = directory or Path(f"crawl-{seeds.hosts[0]}")
            with open_directory(path, plan, interruptions, fresh=fresh, say=display.say) as opened:
                ending, report = _run(plan, opened, display, interruptions)
            code = _tell(ending, report, opened.path, display, None if as_json else console, resume_with)
        except Interrupted:
            display.say(
                f"Interrupted before the crawl was under way. To go on: {resume_with or _this_command()}"
            )
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
    resume_with: str | None,
) -> ExitCode:
    """Shows what came of the crawl; the exit code."""
    if console is None:
        output.record(report)
    elif display.seen:
        show_report(report, path, console)
    if ending is Ending.FINISHED:
        return ExitCode.FAILED if report["exit_status"] == "ABORTED" else ExitCode.DONE
    done = "Paused." if ending is Ending.PAUSED else "Stopped; fetches that were under way are made again."
    display.say(f"{done} To go on: {resume_with or _this_command()}")
    return ExitCode.INTERRUPTED


def _display(console: Console, *, as_json: bool) -> Display:
    if as_json:
        return Display()
    return Panel(console, _PANEL_LINES) if is_screen(console) else Lines()


def _this_command() -> str:
    """The command line that this process was started with, but for --fresh, which would not resume."""
    program, *arguments = sys.argv
    name = Path(program).name
    if name == "__main__.py":
        words = [sys.executable, "-m", "toehold_client"]
    else:
        words = [name if shutil.which(name) == program else program]
    return shlex.join([*words, *(argument for argument in arguments if argument != "--fresh")])
