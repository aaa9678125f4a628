"""The directory of an embedded crawl: what lies where, whether it may be used, and by whom it is being used.

frontier/       the frontier server's data; its crawl log is frontier/crawls/<crawl>/crawl.log
warcs/          the pages that the node fetched, in WARC files
pages/          the same as JSON Lines, if that was asked for
logs/           frontier.log and node.log, what the programs said; the node's uri-errors and runtime-errors
crawl.json      what the crawl was asked to do
frontier.json   where the frontier listens, while it does
report.json     how the crawl stood when `toehold crawl` last ended
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as MessageParseError

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.cli import frontier_file
from toehold_client.cli.exits import BadDirectory, DirectoryRefused, Interrupted
from toehold_client.cli.interruptions import Interruptions
from toehold_client.durable import make_directory, sync_directory
from toehold_client.spec.file import differences

from .plan import Plan

PATIENCE_S = 60.0
"""How long the programs of a `toehold crawl` that was killed get to end."""

_LOCK = ".lock"
_PROGRAMS_LOCK = ".programs-lock"
_MOST_DIFFERENCES = 10
_MOST_MOVED_ASIDE = 10_000


@dataclass(frozen=True, slots=True)
class Locks:
    """Held on a directory, as open files."""

    own: int
    """By this process alone."""
    programs: int
    """Handed to the programs too, so that it is held until the last of them has ended, even if this process
    is killed.
    """

    def release(self) -> None:
        """Let go of both."""
        os.close(self.own)
        os.close(self.programs)


@dataclass(frozen=True, slots=True)
class CrawlDirectory:
    """A crawl's directory, for this process alone."""

    path: Path
    locks: Locks
    new: bool
    """Its crawl begins with this run."""
    made: bool
    """So does it."""
    aside: Path | None
    """Where this run moved the crawl that was there before."""

    @property
    def frontier(self) -> Path:
        """The frontier server's data directory."""
        return self.path / "frontier"

    @property
    def warcs(self) -> Path:
        """Where the node writes WARC files."""
        return self.path / "warcs"

    @property
    def pages(self) -> Path:
        """Where the node writes JSON Lines."""
        return self.path / "pages"

    @property
    def logs(self) -> Path:
        """Where all logs are but the crawl's own."""
        return self.path / "logs"

    @property
    def frontier_log(self) -> Path:
        """What the frontier server says."""
        return self.logs / "frontier.log"

    @property
    def node_log(self) -> Path:
        """What the node says."""
        return self.logs / "node.log"

    @property
    def report(self) -> Path:
        """The last report."""
        return _report(self.path)

    def crawl_log(self, crawl: str) -> Path:
        """The crawl's log of final dispositions."""
        return self.frontier / "crawls" / crawl / "crawl.log"

    def announce_frontier(self, address: str, pid: int, crawl: str) -> None:
        """Tell commands in other shells where the frontier listens."""
        write_json(_frontier_file(self.path), {"address": address, "pid": pid, "crawl": crawl})

    def withdraw_frontier(self) -> None:
        """It listens no more."""
        _frontier_file(self.path).unlink(missing_ok=True)

    def discard(self) -> None:
        """Undo all that this run did, since its crawl never came to be. Only for a new one."""
        assert self.new
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        if self.made:
            self.path.rmdir()
        if self.aside is not None:
            self.aside.rename(self.path)


@contextmanager
def open_directory(
    path: Path, plan: Plan, interruptions: Interruptions, *, fresh: bool, say: Callable[[str], None]
) -> Iterator[CrawlDirectory]:
    """The directory for this plan, locked inside the context.

    A directory that does not exist, or is empty, is begun. One in which the same crawl waits to go on is
    taken as it is. Everything else is refused, but with `fresh` an old crawl is moved aside.
    """
    path = path.absolute()
    try:
        old = _is_crawl(path)
        made = not path.exists()
        make_directory(path)
        locks = _lock(path, interruptions, say)
        try:
            aside = None
            if old and fresh:
                aside = _move_aside(path)
                say(f"Moved the old crawl to {aside}.")
                make_directory(path)
                made = True
                locks.release()
                locks = _lock(path, interruptions, say)
            elif old:
                _refuse_unless_the_same(path, plan)
            directory = CrawlDirectory(path, locks, not old or fresh, made, aside)
            directory.logs.mkdir(exist_ok=True)
            if plan.node.warc:
                directory.warcs.mkdir(exist_ok=True)
            if plan.node.pages:
                directory.pages.mkdir(exist_ok=True)
            sync_directory(path)
            if directory.new:
                asked = {"crawl": plan.crawl, "spec": MessageToDict(plan.spec), "seeds": plan.seeds}
                write_json(_plan_file(path), asked)
        except BaseException:
            locks.release()
            raise
    except OSError as problem:
        raise BadDirectory(
            f"{path} cannot be used: {problem.strerror}. Name another with --dir."
        ) from problem
    try:
        yield directory
    finally:
        locks.release()


def is_finished(path: Path) -> bool:
    """Whether the crawl in this directory has come to its end, as its report says."""
    try:
        report = json.loads(_report(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(report, dict) and report.get("state") == "FINISHED"


def write_json(path: Path, content: object) -> None:
    """Replace the file as a whole, for good: a reader sees the old content or the new, even after a crash."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    unfinished = path.with_name(f"{path.name}.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_directory(path.parent)


def _plan_file(path: Path) -> Path:
    return path / "crawl.json"


def _frontier_file(path: Path) -> Path:
    return path / frontier_file.NAME


def _report(path: Path) -> Path:
    return path / "report.json"


def _is_crawl(path: Path) -> bool:
    """True for a directory with a crawl, False for one to be begun; BadDirectory for what is neither."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise BadDirectory(f"{path} is not a directory. Name another with --dir.")
    if _plan_file(path).is_file():
        return True
    # A run that was killed before it wrote crawl.json may have left these behind.
    leftovers = {_LOCK, _PROGRAMS_LOCK, "warcs", "pages", "logs", "crawl.json.tmp"}
    if any(entry.name not in leftovers for entry in path.iterdir()):
        raise BadDirectory(f"{path} is not empty, and not a crawl's directory. Name another with --dir.")
    return False


def _lock(path: Path, interruptions: Interruptions, say: Callable[[str], None]) -> Locks:
    locks = Locks(*(os.open(path / name, os.O_RDWR | os.O_CREAT, 0o666) for name in (_LOCK, _PROGRAMS_LOCK)))
    try:
        if not _try_lock(locks.own):
            raise DirectoryRefused(f"Another `toehold crawl` is at work in {path}.")
        waited_s = 0.0
        while not _try_lock(locks.programs):
            if waited_s == 0:
                say("Waiting for the programs of an earlier run, which was killed, to end.")
            if interruptions.count:
                raise Interrupted
            if waited_s >= PATIENCE_S:
                raise DirectoryRefused(
                    f"Programs of an earlier `toehold crawl` in {path} still run. Try again a little later."
                )
            interruptions.wait(0.1)
            waited_s += 0.1
    except BaseException:
        locks.release()
        raise
    return locks


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _move_aside(path: Path) -> Path:
    for number in range(1, _MOST_MOVED_ASIDE):
        aside = path.with_name(f"{path.name}.{number}")
        if not aside.exists():
            path.rename(aside)
            return aside
    raise BadDirectory(f"{path} cannot be moved aside: {path}.1 to {path}.{_MOST_MOVED_ASIDE - 1} all exist.")


def _refuse_unless_the_same(path: Path, plan: Plan) -> None:
    remedy = "--fresh moves it aside and starts anew."
    if is_finished(path):
        raise DirectoryRefused(f"The crawl in {path} has finished. {remedy}")
    try:
        asked = json.loads(_plan_file(path).read_bytes())
        old = Plan(asked["crawl"], ParseDict(asked["spec"], CrawlSpec()), tuple(asked["seeds"]))
    except (ValueError, KeyError, TypeError, RecursionError, MessageParseError) as problem:
        raise DirectoryRefused(f"{_plan_file(path)} is damaged ({problem}). {remedy}") from problem
    different = _what_differs(old, plan)
    if different:
        told = "".join(f"\n  {line}" for line in different[:_MOST_DIFFERENCES])
        more = len(different) - _MOST_DIFFERENCES
        told += f"\n  and {more} more" if more > 0 else ""
        raise DirectoryRefused(f"The crawl in {path} was asked for something else. {remedy}{told}")


def _what_differs(old: Plan, new: Plan) -> list[str]:
    """Each difference in a line."""
    lines = [] if old.crawl == new.crawl else [f"name: was {old.crawl!r}, is {new.crawl!r}"]
    lines += differences(old.spec, new.spec)
    before, now = set(old.seeds), set(new.seeds)
    lines += [f"seed {seed}: is no longer there" for seed in old.seeds if seed not in now]
    lines += [f"seed {seed}: is new" for seed in new.seeds if seed not in before]
    return lines
