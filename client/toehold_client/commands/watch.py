"""`toehold watch`: a live view of a crawl, on any frontier."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from toehold_client import show
from toehold_client.controller import CrawlController
from toehold_client.exits import ExitCode
from toehold_client.watching.displays import Display, FullScreen, Lines, Objects, show_once
from toehold_client.watching.look import to_record
from toehold_client.watching.observer import Observer

from .options import json_option, with_crawl

SCREEN_INTERVAL_S, LINES_INTERVAL_S = 1.0, 5.0


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1, 86_400),
    metavar="SECONDS",
    help="Look again after this long, and at once when the state changes or something goes wrong.  "
    f"[default: {SCREEN_INTERVAL_S:g} on a terminal, {LINES_INTERVAL_S:g} otherwise]",
)
@click.option("--once", is_flag=True, help="Look once and end.")
@json_option
@with_crawl
def watch(crawl: CrawlController, interval_s: float | None, once: bool, as_json: bool) -> None:
    """Watch a crawl live: state, rates, queues, nodes, problems, and why it is not going faster.

    On a terminal it fills the screen; elsewhere it prints a line each interval, and one whenever the state
    changes or something goes wrong. It ends when the crawl has finished. While the frontier does not answer
    it shows what it saw last, and goes on when the frontier is back. Ctrl-C ends the watch, and changes
    nothing of the crawl.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    on_screen = sys.stdout.isatty() and not console.is_dumb_terminal
    interval_s = interval_s or (SCREEN_INTERVAL_S if on_screen and not as_json else LINES_INTERVAL_S)
    observer = Observer(crawl)
    try:
        if once:
            _look_once(observer, console if on_screen else None, as_json)
        elif as_json:
            _watch(observer, Objects(), interval_s)
        elif on_screen:
            _watch(observer, FullScreen(console, observer.wake), interval_s)
        else:
            _watch(observer, Lines(interval_s), interval_s)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _look_once(observer: Observer, console: Console | None, as_json: bool) -> None:
    observer.catch_up()
    look = observer.look()
    if as_json:
        show.record(to_record(look))
    else:
        show_once(look, console)


def _watch(observer: Observer, display: Display, interval_s: float) -> None:
    with observer:
        look = observer.look()  # that there is such a crawl is known before a screen is taken
        with display:
            display.show(look)
            while not look.ended:
                observer.wait(interval_s)
                look = observer.look()
                display.show(look)
