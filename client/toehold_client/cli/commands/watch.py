"""`toehold watch`: a live view of a crawl, on any frontier."""

from __future__ import annotations

import click
from rich.console import Console

from toehold_client.cli import output
from toehold_client.cli.exits import ExitCode
from toehold_client.cli.interruptions import Bell, Interruptions
from toehold_client.cli.live.displays import Display, FullScreen, Lines, Objects, is_screen, show_once
from toehold_client.cli.live.look import Look, to_record
from toehold_client.cli.live.observer import Looks, Observer
from toehold_client.cli.numbers import Real
from toehold_client.controller import CrawlController

from .options import json_option, with_crawl

SCREEN_INTERVAL_S, LINES_INTERVAL_S = 1.0, 5.0
_LONG_S = 3_600.0


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=Real(0.1, 86_400),
    metavar="SECONDS",
    help="Update this often, and at once when the state changes or a problem occurs.  "
    f"[default: {SCREEN_INTERVAL_S:g} on a terminal, {LINES_INTERVAL_S:g} otherwise]",
)
@click.option("--once", is_flag=True, help="Show the crawl once and end.")
@json_option
@with_crawl
def watch(crawl: CrawlController, interval_s: float | None, once: bool, as_json: bool) -> None:
    """Watch a crawl live: state, rates, queues, nodes, problems, and why it is not going faster.

    On a terminal the command fills the screen. Elsewhere it prints a line per interval, and one whenever the
    state changes or a problem occurs. It ends when the crawl has finished. While the frontier does not
    answer, it shows the last known state. Ctrl-C ends the command, but not the crawl.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    on_screen = is_screen(console)
    if once:
        _look_once(Observer(crawl), console if on_screen else None, as_json)
        return
    interval_s = interval_s or (SCREEN_INTERVAL_S if on_screen and not as_json else LINES_INTERVAL_S)
    with Interruptions() as interruptions, Bell() as bell, Looks(crawl, interval_s, bell) as looks:
        display: Display = Lines()
        if as_json:
            display = Objects()
        elif on_screen:
            display = FullScreen(console, bell.ring)
        _watch(looks, display, bell, interruptions)
    if interruptions.count:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)


def _look_once(observer: Observer, console: Console | None, as_json: bool) -> None:
    observer.catch_up()
    look = observer.look()
    if as_json:
        output.record(to_record(look))
    else:
        show_once(look, console)


def _watch(looks: Looks, display: Display, bell: Bell, interruptions: Interruptions) -> None:
    """Shows each look until the crawl has ended, or a signal comes."""
    look = _next(looks, bell, interruptions)
    if look is None:
        return  # that there is such a crawl is known before a screen is taken
    with display:
        while not interruptions.count:
            if look is None:
                display.refresh()
            else:
                display.show(look)
                if look.ended:
                    return
            look = _next(looks, bell, interruptions)


def _next(looks: Looks, bell: Bell, interruptions: Interruptions) -> Look | None:
    """Waits until the bell rings, or a signal comes; the look that it rang for."""
    while not interruptions.count:
        if interruptions.wait(_LONG_S, bell.fileno()):
            bell.silence()
            return looks.take()
    return None
