"""`toehold watch`: a live view of a crawl, on any frontier."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from toehold_cli import output
from toehold_cli.embedded.outside import OutsideObserver
from toehold_cli.exits import ExitCode
from toehold_cli.live.displays import (
    LINE_S,
    Display,
    FullScreen,
    LineDisplay,
    Objects,
    is_screen,
    new_console,
    show_once,
)
from toehold_cli.numbers import Real
from toehold_client.controller import CrawlController
from toehold_client.watching.interruptions import Bell, Interruptions
from toehold_client.watching.look import Look, to_record
from toehold_client.watching.observer import Looks, Observer, Observing

from .options import crawl_options, json_option, with_crawl

SCREEN_S = 1.0
"""Between two pictures on a terminal."""

_LONG_S = 3_600.0


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=Real(0.1, 86_400),
    metavar="SECONDS",
    help="Update this often, and at once when the state changes or a problem occurs.  "
    f"[default: {SCREEN_S:g} on a terminal, {LINE_S:g} otherwise]",
)
@click.option("--once", is_flag=True, help="Show the crawl once and end.")
@json_option
@crawl_options
def watch(
    *,
    frontier: str,
    directory: Path | None,
    name: str | None,
    interval_s: float | None,
    once: bool,
    as_json: bool,
) -> None:
    """Watch a crawl live: state, time left, rates, seeds, nodes, problems, and why it is not going faster.

    On a terminal the command fills the screen. Elsewhere it prints a line per interval, and one whenever the
    state changes or a problem occurs. It ends when the crawl has finished. While the frontier does not
    answer, it shows the last known state. While the crawl in DIR is paused, it waits until the crawl goes on.
    Ctrl-C ends the command, but not the crawl.
    """
    if once:
        _look_once(frontier=frontier, directory=directory, name=name, as_json=as_json)
    elif directory is None:
        _watch_frontier(frontier=frontier, directory=None, name=name, interval_s=interval_s, as_json=as_json)
    else:
        _watch(partial(OutsideObserver, directory, name), interval_s, as_json=as_json)


@with_crawl
def _look_once(crawl: CrawlController, *, as_json: bool) -> None:
    observer = Observer(crawl)
    observer.catch_up()
    look = observer.look()
    if as_json:
        output.record(to_record(look))
    else:
        console = new_console()
        show_once(look, console if is_screen(console) else None)


@with_crawl
def _watch_frontier(crawl: CrawlController, *, interval_s: float | None, as_json: bool) -> None:
    _watch(partial(Observer, crawl), interval_s, as_json=as_json)


def _watch(
    observing: Callable[[Callable[[], None]], Observing], interval_s: float | None, *, as_json: bool
) -> None:
    console = new_console()
    on_screen = is_screen(console)
    interval_s = interval_s or (SCREEN_S if on_screen and not as_json else LINE_S)
    with Interruptions() as interruptions, Bell() as bell, Looks(observing, interval_s, bell) as looks:
        display: Display = LineDisplay()
        if as_json:
            display = Objects()
        elif on_screen:
            display = FullScreen(console, bell.ring)
        _show(looks, display, bell, interruptions)
    if interruptions.count:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)


def _show(looks: Looks, display: Display, bell: Bell, interruptions: Interruptions) -> None:
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
