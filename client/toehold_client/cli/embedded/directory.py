"""The directory of a `toehold crawl`: its files, its locks, and whether this run may use it.

frontier/       the frontier server's data; its crawl log is frontier/crawls/<crawl>/crawl.log
warcs/          the fetched pages in WARC files
pages/          the fetched pages as JSON Lines, with --pages
logs/           the logs of the programs, and the node's uri-errors and runtime-errors
crawl.json      the name, spec and seeds of the crawl
frontier.json   the address of the frontier while it runs
report.json     the state of the crawl when `toehold crawl` last ended
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
"""How long to wait for the programs of a killed `toehold crawl` to end."""

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
    """Handed to the programs too: the lock is held until the last of them has ended, even if this process is
    killed.
    """

    def release(self) -> None:
        """Releases both."""
        os.close(self.own)
        os.close(self.programs)


@dataclass(frozen=True, slots=True)
class CrawlDirectory:
    """A crawl's directory, for this process alone."""

    path: Path
    locks: Locks
    new: bool
    """Whether its crawl begins with this run."""
    made: bool
    """Whether this run made the directory itself."""
    aside: Path | None
    """The new place of the old crawl, if this run moved it."""

    @property
    def frontier(self) -> Path:
        """The frontier server's data directory."""
        return self.path / "frontier"

    @property
    def warcs(self) -> Path:
        """The node's WARC files."""
        return self.path / "warcs"

    @property
    def pages(self) -> Path:
        """The node's JSON Lines files."""
        return self.path / "pages"

    @property
    def logs(self) -> Path:
        """All logs except the crawl's own."""
        return self.path / "logs"

    @property
    def frontier_log(self) -> Path:
        """The frontier server's log."""
        return self.logs / "frontier.log"

    @property
    def node_log(self) -> Path:
        """The node's log."""
        return self.logs / "node.log"

    @property
    def report(self) -> Path:
        """The last report."""
        return _report(self.path)

    def crawl_log(self, crawl: str) -> Path:
        """The crawl's log of final dispositions."""
        return self.frontier / "crawls" / crawl / "crawl.log"

    def announce_frontier(self, address: str, pid: int, crawl: str) -> None:
        """Lets commands in other shells find the frontier."""
        write_json(_frontier_file(self.path), {"address": address, "pid": pid, "crawl": crawl})

    def withdraw_frontier(self) -> None:
        """Removes the file that `announce_frontier` wrote."""
        _frontier_file(self.path).unlink(missing_ok=True)

    def discard(self) -> None:
        """Undoes everything that this run did, if its crawl was never created. Only for a new one."""
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

    Makes or fills a new or empty directory, and takes one with the same unfinished crawl as it is. Refuses
    all others, but with `fresh` it moves an old crawl aside.
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
            f"{path} cannot be used: {problem.strerror}; choose another directory with --dir"
        ) from problem
    try:
        yield directory
    finally:
        locks.release()


def is_finished(path: Path) -> bool:
    """Whether the crawl in this directory has finished, according to its report."""
    try:
        report = json.loads(_report(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(report, dict) and report.get("state") == "FINISHED"


def write_json(path: Path, content: object) -> None:
    """Replaces a file durably and at once: a reader sees the old content or the new, even after a crash."""
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
    """True for a directory with a crawl, False for a new one. BadDirectory for anything else."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise BadDirectory(f"{path} is not a directory; choose one with --dir")
    if _plan_file(path).is_file():
        return True
    # A run that was killed before it wrote crawl.json may have left these behind.
    leftovers = {_LOCK, _PROGRAMS_LOCK, "warcs", "pages", "logs", "crawl.json.tmp"}
    if any(entry.name not in leftovers for entry in path.iterdir()):
        raise BadDirectory(f"{path} is not empty and holds no crawl; choose another directory with --dir")
    return False


def _lock(path: Path, interruptions: Interruptions, say: Callable[[str], None]) -> Locks:
    locks = Locks(*(os.open(path / name, os.O_RDWR | os.O_CREAT, 0o666) for name in (_LOCK, _PROGRAMS_LOCK)))
    try:
        if not _try_lock(locks.own):
            raise DirectoryRefused(f"another `toehold crawl` is running in {path}")
        waited_s = 0.0
        while not _try_lock(locks.programs):
            if waited_s == 0:
                say("Waiting for the programs of an earlier run, which was killed, to end.")
            if interruptions.count:
                raise Interrupted
            if waited_s >= PATIENCE_S:
                raise DirectoryRefused(
                    f"programs of an earlier `toehold crawl` still run in {path}; try again later"
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
    raise BadDirectory(
        f"{path} cannot be moved: {path}.1 to {path}.{_MOST_MOVED_ASIDE - 1} all exist; remove some"
    )


def _refuse_unless_the_same(path: Path, plan: Plan) -> None:
    remedy = "--fresh moves it aside and starts a new one"
    if is_finished(path):
        raise DirectoryRefused(f"the crawl in {path} has finished; {remedy}")
    try:
        asked = json.loads(_plan_file(path).read_bytes())
        old = Plan(asked["crawl"], ParseDict(asked["spec"], CrawlSpec()), tuple(asked["seeds"]))
    except (ValueError, KeyError, TypeError, RecursionError, MessageParseError) as problem:
        raise DirectoryRefused(f"{_plan_file(path)} is damaged ({problem}); {remedy}") from problem
    different = _what_differs(old, plan)
    if different:
        told = "".join(f"\n  {line}" for line in different[:_MOST_DIFFERENCES])
        more = len(different) - _MOST_DIFFERENCES
        told += f"\n  and {more} more" if more > 0 else ""
        raise DirectoryRefused(f"the crawl in {path} is another one; {remedy}{told}")


def _what_differs(old: Plan, new: Plan) -> list[str]:
    """The differences, one per line."""
    lines = [] if old.crawl == new.crawl else [f"name: was {old.crawl!r}, is {new.crawl!r}"]
    lines += differences(old.spec, new.spec)
    before, now = set(old.seeds), set(new.seeds)
    lines += [f"seed {seed}: is missing now" for seed in old.seeds if seed not in now]
    lines += [f"seed {seed}: is new" for seed in new.seeds if seed not in before]
    return lines
