"""The options of a crawl's spec, for `toehold crawl` and `toehold init`."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from toehold_cli.embedded.plan import ATTEMPTS, FETCH_TIMEOUT_S, RETRY_DELAY_S
from toehold_cli.embedded.spec_options import SpecOptions
from toehold_cli.numbers import Real, Whole
from toehold_client.spec.fields import Spec

from .sections import Time, section

# The frontier's own limits: larger values do not fit into its messages. It checks all other rules itself.
LARGEST, MOST_SECONDS = 2**62, 86_400
_MOST_HOPS, _MOST_ATTEMPTS, _MOST_PARALLEL = 10_000, 10_000, 1000

_T = TypeVar("_T")

_pages = section("Which pages")
_end = section("When to end")
_load = section("How fast")
_fetches = section("How to fetch")

seeds_file_option = _pages(
    "--seeds-file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Also crawl from the URLs in FILE, one per line; - reads standard input. Blank lines and comments, "
    "which begin with #, don't count.",
)

_DEFAULTS = Spec()

_OPTIONS = (
    _pages(
        "--include",
        multiple=True,
        metavar="PATTERN",
        help="Fetch only URLs that match PATTERN, and the seeds. PATTERN is the beginning of a path (/docs/) "
        "or URL, or a glob over the whole URL (*.html). May be repeated: one must match.",
    ),
    _pages(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out URLs that match PATTERN (/private/, *.pdf, *?sort=*). May be repeated.",
    ),
    _pages(
        "--subdomains",
        is_flag=True,
        help="Include all subdomains of the URLs' hosts. www.example.org counts as example.org here.",
    ),
    _pages(
        "--page-requisites",
        is_flag=True,
        help="Include the images, styles, scripts and frames of pages, on any host.",
    ),
    _pages(
        "--seeds-only",
        is_flag=True,
        help="Fetch only the URLs, and what they redirect to: no links, no images.",
    ),
    _pages(
        "--max-hops",
        type=Whole(0, _MOST_HOPS),
        metavar="N",
        help="Follow at most N links from a seed.  [default: 20]",
    ),
    _end(
        "--max-pages",
        type=Whole(1, LARGEST),
        metavar="N",
        help="End after N fetches: pages, images, redirects, errors such as 404. A recrawl counts anew.",
    ),
    _end(
        "--max-time",
        type=Time(),
        metavar="TIME",
        help="End after TIME, such as 90s, 30m, 2h or 1d. Pauses don't count. A recrawl counts anew.",
    ),
    _load(
        "--min-delay",
        type=Real(0, MOST_SECONDS),
        metavar="SECONDS",
        help="Wait at least this long between fetches from a host.  [default: 3]",
    ),
    _load(
        "--delay-factor",
        type=Real(0, 1_000),
        metavar="X",
        help="Wait X times as long as the last fetch took.  [default: 5]",
    ),
    _load(
        "--parallel",
        type=Whole(1, _MOST_PARALLEL),
        metavar="N",
        help="Fetch up to N pages at a time from a host. The delay is kept between their starts.  "
        "[default: 1]",
    ),
    _load(
        "--adaptive",
        is_flag=True,
        help="Wait longer while a host answers slowly or with errors, and as usual when it recovers.",
    ),
    _fetches(
        "--contact",
        metavar="URL|E-MAIL",
        help="Tell site owners how to reach you. Required beyond loopback addresses.",
    ),
    _fetches(
        "--operator",
        metavar="NAME",
        help="Name the person or organisation that crawls, for those who read the WARC files.",
    ),
    _fetches(
        "--user-agent",
        metavar="TOKEN",
        help="Go by this name in the User-Agent and in robots.txt: 1 to 64 letters, - and _. The contact "
        "stays in the User-Agent.  [default: toehold]",
    ),
)


def with_spec_options(*, own_defaults: bool) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Gives a command the options of a spec, and calls it with them as `options`.

    With `own_defaults` help tells the defaults of `toehold crawl`, otherwise the frontier's.
    """
    names = [field.name for field in fields(SpecOptions)]

    def decorate(command: Callable[..., _T]) -> Callable[..., _T]:
        @functools.wraps(command)
        def run(**given: Any) -> _T:
            options = SpecOptions(**{name: given.pop(name) for name in names})
            return command(options=options, **given)

        options = [*_OPTIONS, *_retry_options(own_defaults)]
        return functools.reduce(lambda inner, option: option(inner), reversed(options), run)

    return decorate


def _retry_options(own_defaults: bool) -> Iterator[Callable[[Any], Any]]:
    def default(own: float, of_specs: float) -> str:
        return f"[default: {own:g}; with --spec: from FILE]" if own_defaults else f"[default: {of_specs:g}]"

    retry, fetch = _DEFAULTS.retry, _DEFAULTS.fetch
    yield _fetches(
        "--max-attempts",
        type=Whole(1, _MOST_ATTEMPTS),
        metavar="N",
        help=f"Try a page, or a robots.txt, at most N times.  {default(ATTEMPTS, retry.max_attempts)}",
    )
    yield _fetches(
        "--retry-delay",
        type=Real(0, MOST_SECONDS),
        metavar="SECONDS",
        help="Wait this long before the second attempt, and longer before each later one.  "
        f"{default(RETRY_DELAY_S, retry.delay_seconds)}",
    )
    yield _fetches(
        "--fetch-timeout",
        type=Real(0, MOST_SECONDS, min_open=True),
        metavar="SECONDS",
        help=f"End a fetch after this long.  {default(FETCH_TIMEOUT_S, fetch.timeout_seconds)}",
    )
