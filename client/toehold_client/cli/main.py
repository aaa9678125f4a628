"""`toehold`: launches, steers, watches and inspects crawls from a shell."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from toehold_client.errors import InvalidSpec, ToeholdError, UnexpectedAnswer

from . import output
from .commands import SECTIONS
from .exits import MEANINGS, ExitCode, exit_code_of
from .help import Sections

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()
)


@click.group(cls=Sections, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toehold-crawler", prog_name="toehold")
def toehold() -> None:
    """Crawl the web with a Toehold frontier.

    --frontier HOST:PORT names the frontier. --dir DIR selects the crawl of a `toehold crawl` in DIR, which
    may run, be paused or have ended. With --json, commands print one JSON object, or one object per line for
    listings and events. Errors go to standard error.

    `toehold COMMAND --help` explains a command.
    """


toehold.add_sections(SECTIONS)


def main() -> NoReturn:
    """Runs `toehold` with the arguments of the process, and ends the process."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a character of a URI
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs `toehold` with these arguments; the exit code. Errors go to standard error."""
    try:
        code = toehold.main(list(arguments), prog_name="toehold", standalone_mode=False)
    except click.ClickException as error:  # wrong usage
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.note("Interrupted.")
        return ExitCode.INTERRUPTED
    except ToeholdError as error:
        message = str(error)
        if isinstance(error, InvalidSpec) and len(error.problems) > 1:
            lines = (f"\n  {path}: {problem}" for path, problem in error.problems.items())
            message = f"the frontier refuses the spec:{''.join(lines)}"
        if isinstance(error, UnexpectedAnswer) and error.request_id:
            message += f"\nThe frontier's log has more: request_id {error.request_id}"
        for each in f"Error: {message}".split("\n"):
            output.note(each)
        return exit_code_of(error)
    except UnicodeEncodeError as error:  # half a character on the command line, which no text can have
        output.note(f"Error: {error.object!r:.200} is not valid UTF-8 text")
        return ExitCode.BAD_INPUT
    except OSError as error:  # such as a full disk; click ends quietly when nobody reads any more
        place = f"{error.filename}: " if isinstance(error.filename, str | os.PathLike) else ""
        output.note(f"Error: {place}{error.strerror or error}")
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE
