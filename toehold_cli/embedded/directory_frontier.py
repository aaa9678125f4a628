"""Asks the frontier in the directory of a `toehold crawl`: the running one, or else one that only answers
questions, as long as the command takes.
"""

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from toehold_cli import frontier_file
from toehold_cli.exits import BadDirectory, ChildFailed, DirectoryRefused, Interrupted
from toehold_cli.frontier_file import EmbeddedFrontier
from toehold_client.errors import FrontierUnavailable, InvalidArgument, ToeholdError
from toehold_client.watching.crawl_directory import crawl_file_of, frontier_data_of, last_report
from toehold_client.watching.interruptions import Interruptions

from .children import Child
from .endings import how_it_ended, how_to_extend
from .frontier_program import DATA_UNUSABLE, IN_USE, frontier_program

PATIENCE_S = 5.0
"""How long to wait for a frontier that is starting or ending."""

_RETRY_S = 0.2
_END_S = 5.0


class _Crawl(msgspec.Struct):
    """A part of crawl.json."""

    crawl: str
    command: str = ""
    folder: str = ""


class _InUse(Exception):
    """A frontier runs on the data directory."""


@contextmanager
def frontier_in(directory: Path) -> Iterator[EmbeddedFrontier]:
    """The frontier of a directory, inside the context.

    If none runs, it is one that was opened read-only: changes raise DirectoryRefused. BadDirectory if the
    directory holds no crawl, or one of another version; InvalidArgument if it is none, or its file is
    damaged; FrontierUnavailable while a frontier is starting or ending for long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = frontier_file.find(directory)
            child = None
            break
        except FrontierUnavailable:
            crawl = _crawl_in(directory)
        try:
            child, address = _opened(directory)
            found = EmbeddedFrontier(address, child.pid, crawl.crawl)
            break
        except _InUse:
            if time.monotonic() >= deadline:
                raise FrontierUnavailable(
                    f"the frontier of {directory} is starting or ending; try again soon"
                ) from None
        time.sleep(_RETRY_S)
    if child is None:
        yield found
        return
    try:
        yield found
    except ToeholdError as error:
        if error.reason != "READ_ONLY":
            raise
        raise DirectoryRefused(how_to_continue(directory, crawl.command, crawl.folder)) from None
    finally:
        child.end(_END_S)


def has_moved(directory: Path, address: str) -> bool:
    """Whether the frontier of a directory, which was at this address, is another one by now: the crawl goes
    on, or its frontier has ended.
    """
    try:
        return frontier_file.find(directory).address != address
    except FrontierUnavailable:
        return not frontier_file.listens(address)
    except InvalidArgument:  # the directory is gone, or its file damaged: whoever opens it is told
        return True


def _crawl_in(directory: Path) -> _Crawl:
    file = crawl_file_of(directory)
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Crawl)
    except FileNotFoundError:
        raise BadDirectory(f"{directory} holds no crawl of `toehold crawl`") from None
    except OSError as problem:
        raise BadDirectory(f"{file} cannot be read: {problem.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadDirectory(f"{file} is damaged: {problem}") from None


def _opened(directory: Path) -> tuple[Child, str]:
    """A frontier that was opened read-only, and its address. Raises _InUse, BadDirectory or ChildFailed."""
    data = frontier_data_of(directory)
    with Interruptions() as interruptions:
        child = Child(frontier_program(data, read_only=True))
        try:
            return child, child.wait_ready(interruptions)
        except Interrupted:
            child.end(_END_S)
            raise KeyboardInterrupt from None
        except ChildFailed:
            code, lines = child.exit_code, child.last_lines()
            child.close()
            if code == IN_USE:
                raise _InUse from None
            # That of the frontier, or of one of its shards.
            told = re.compile(rf"toehold-frontier: data directory ({re.escape(str(data))}(?:/[\w-]+)?: .+)")
            for line in lines:
                if (found := told.fullmatch(line)) is not None:
                    kind = BadDirectory if code == DATA_UNUSABLE else ChildFailed
                    raise kind(found[1]) from None
            raise
        except BaseException:
            child.end(_END_S)
            raise


def how_to_continue(directory: Path, last: str, folder: str) -> str:
    """Why a crawl that does not run cannot be changed, and what to do. `last` is its last command, which was
    typed in `folder`: another one would change its settings.
    """
    command = last or "the `toehold crawl` command that began it"
    if folder and Path(folder) != Path.cwd():
        command = f"cd {shlex.quote(folder)} && {command}"
    report = last_report(directory)
    if report.get("state") != "FINISHED":
        return f"the crawl in {directory} is not running; continue it with: {command}"
    extend = how_to_extend(str(report.get("exit_status", "")))
    if extend:
        advice = f"{extend} It was: {command}"
    elif "--recrawl" in last.split():
        advice = f"To fetch its pages again: {command}"
    else:
        advice = f"To fetch its pages again, add --recrawl to: {command}"
    return f"the crawl in {directory} {how_it_ended(report)}\n{advice}"
