"""`toehold conformance`: judges a fetcher, in any language, by the contract."""

import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toehold_cli import output
from toehold_cli.exits import ExitCode
from toehold_cli.numbers import Real

from .options import json_option

if TYPE_CHECKING:
    from toehold_conformance.case import Case

KIT = "toehold_conformance"

_MOST_SECONDS = 3600


@click.command()
@click.argument("command", nargs=-1, metavar="-- COMMAND…")
@click.option("--case", "names", multiple=True, metavar="NAME", help="Judge only this case. May be repeated.")
@click.option("--list", "as_list", is_flag=True, help="List the cases, and run nothing.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Real(1, _MOST_SECONDS),
    metavar="SECONDS",
    help="End a part of the run that takes longer than this.  [default: 60]",
)
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep what the fetcher and the frontier print in DIR.  [default: delete it]",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a table in Markdown.")
@json_option
def conformance(
    command: tuple[str, ...],
    names: tuple[str, ...],
    as_list: bool,
    timeout_s: float | None,
    logs: Path | None,
    as_markdown: bool,
    as_json: bool,
) -> int:
    """Judge a fetcher by the contract.

    The kit runs COMMAND against its own frontier and its own web.

    In COMMAND, {frontier}, {crawl}, {name} and {dir} stand for the frontier's address, the crawl to fetch
    for, the node's name, and an empty directory. The environment has the first three, too: TOEHOLD_FRONTIER,
    TOEHOLD_CRAWL, TOEHOLD_NODE. COMMAND is started several times, stopped, continued and killed.

    The exit code is 0 if all required cases hold, and 1 if one fails.
    """
    if find_spec(KIT) is None:
        sys.exit(
            f"toehold conformance needs the conformance kit; in a checkout of its source: pip install ./{KIT}"
        )
    from toehold_conformance import kit, table
    from toehold_conformance.processes import CannotStart

    cases = _chosen(names)
    if as_list:
        _tell_cases(cases, as_markdown=as_markdown, as_json=as_json)
        return ExitCode.DONE
    if not command:
        raise click.UsageError(
            "COMMAND is missing: toehold conformance -- ./my-fetcher --frontier {frontier} …"
        )
    # SIGTERM ends the run as Ctrl-C does, so that no process is left behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        limit_s = timeout_s or kit.DEFAULT_TIMEOUT_S
        results = kit.run(command, cases=cases, timeout_s=limit_s, tell=output.note, keep=logs)
    except CannotStart as problem:
        raise click.UsageError(str(problem)) from problem
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        for result in results:
            output.record(table.plain(result))
    elif as_markdown:
        held = {result.case.name: result.holds for result in results}
        click.echo(table.markdown_results({"fetcher": held}))
    else:
        output.table(("case", "level", "verdict", "reason"), table.rows(results))
        output.line(table.summary(results))
    return ExitCode.DONE if kit.conforms(results) else ExitCode.FAILED


def _chosen(names: tuple[str, ...]) -> "tuple[Case, ...]":
    from toehold_conformance.cases import ALL

    known = {case.name for case in ALL}
    for name in names:
        if name not in known:
            raise click.UsageError(f"{name!r} is not a case; `toehold conformance --list` lists the cases")
    return tuple(case for case in ALL if not names or case.name in names)


def _tell_cases(cases: "tuple[Case, ...]", *, as_markdown: bool, as_json: bool) -> None:
    from toehold_conformance import table

    if as_json:
        for case in cases:
            output.record(table.plain_case(case))
    elif as_markdown:
        click.echo(table.markdown_cases())
    else:
        rows = [(case.name, case.level.value, case.right, case.contract) for case in cases]
        output.table(("case", "level", "right", "contract"), rows)
