"""The directory of a `toehold crawl`: its files, its locks, and whether this run may use it.

frontier/       the frontier server's data; its crawl log is frontier/crawls/<crawl>/crawl.log, or, with
                several shards, one in each frontier/shard-<number>/
warcs/          the fetched pages in WARC files
pages/          the fetched pages as JSON Lines, with --pages
mirror/         the fetched pages as plain files, with --mirror
logs/           the logs of the programs, and the node's uri-errors and runtime-errors
crawl.json      the name, spec, seeds and last command of the crawl (crawl_file)
frontier.json   the address of the frontier while it runs
report.json     the state of the crawl when `toehold crawl` last ended
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toehold_base.durable import make_directory, sync_directory
from toehold_cli import frontier_file
from toehold_cli.exits import BadDirectory, DirectoryRefused, Interrupted
from toehold_cli.setting_changes import changed_paths
from toehold_client.text import counted
from toehold_client.watching.crawl_directory import (
    crawl_file_of,
    crawl_logs_of,
    frontier_data_of,
    last_report,
    report_of,
    shard_count_of,
)
from toehold_client.watching.interruptions import Interruptions

from . import crawl_file
from .crawl_file import CrawlFile, write_json
from .endings import how_it_ended, how_to_extend
from .plan import Plan

PATIENCE_S = 60.0
"""How long to wait for the programs of a killed `toehold crawl` to end."""

_LOCK = ".lock"
_PROGRAMS_LOCK = ".programs-lock"
_MOST_SEEDS_TOLD = 10
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
        os.close(self.own)
        os.close(self.programs)


@dataclass(frozen=True, slots=True)
class CrawlDirectory:
    """A crawl's directory, for this process alone."""

    path: Path
    locks: Locks
    asked: CrawlFile | None
    """What its crawl was asked to be by earlier runs; None if it begins with this one."""
    made: bool
    """Whether this run made the directory itself."""
    aside: Path | None
    """The new place of the old crawl, if this run moved it."""

    @property
    def new(self) -> bool:
        """Whether its crawl begins with this run."""
        return self.asked is None

    @property
    def frontier(self) -> Path:
        """The frontier server's data directory."""
        return frontier_data_of(self.path)

    @property
    def warcs(self) -> Path:
        """The node's WARC files."""
        return self.path / "warcs"

    @property
    def pages(self) -> Path:
        """The node's JSON Lines files."""
        return self.path / "pages"

    @property
    def mirror(self) -> Path:
        """The node's plain files."""
        return self.path / "mirror"

    @property
    def logs(self) -> Path:
        """All logs except the crawl's own."""
        return self.path / "logs"

    @property
    def frontier_log(self) -> Path:
        return self.logs / "frontier.log"

    @property
    def node_log(self) -> Path:
        return self.logs / "node.log"

    @property
    def report(self) -> Path:
        """The last report."""
        return report_of(self.path)

    def crawl_logs(self, crawl: str) -> list[Path]:
        """The crawl's logs of final dispositions, one for each shard."""
        return crawl_logs_of(self.path, crawl)

    def announce_frontier(self, address: str, pid: int, crawl: str) -> None:
        """Lets commands in other shells find the frontier."""
        write_json(_frontier_file(self.path), {"address": address, "pid": pid, "crawl": crawl})

    def withdraw_frontier(self) -> None:
        """Removes the file that `announce_frontier` wrote."""
        _frontier_file(self.path).unlink(missing_ok=True)

    def remember(self, record: CrawlFile) -> None:
        """Stores what the crawl is asked to be from now on."""
        crawl_file.store(self.path, record)

    @contextmanager
    def reopening(self) -> Iterator[None]:
        """While the crawl is reopened: removes its report that it has finished; restores it on an error."""
        content = self.report.read_bytes() if self.report.exists() else None
        self.report.unlink(missing_ok=True)
        sync_directory(self.path)
        try:
            yield
        except BaseException:
            if content is not None:
                self.report.write_bytes(content)
            raise

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

    Makes or fills a new or empty directory, and takes one whose crawl can go on as planned as it is. Refuses
    all others, but with `fresh` it moves an old crawl aside.
    """
    path = path.absolute()
    try:
        old = _is_crawl(path)
        made = not path.exists()
        make_directory(path)
        locks = _lock(path, interruptions, say)
        try:
            aside, asked = None, None
            if old and fresh:
                aside = _move_aside(path)
                say(f"Moved the old crawl to {aside}.")
                make_directory(path)
                made = True
                locks.release()
                locks = _lock(path, interruptions, say)
            elif old:
                asked = crawl_file.load(path)
                _check_going_on(path, asked, plan)
            directory = CrawlDirectory(path, locks, asked, made, aside)
            directory.logs.mkdir(exist_ok=True)
            if plan.node.warc:
                directory.warcs.mkdir(exist_ok=True)
            if plan.node.pages:
                directory.pages.mkdir(exist_ok=True)
            if plan.node.mirror:
                directory.mirror.mkdir(exist_ok=True)
            sync_directory(path)
            if directory.new:
                directory.remember(plan.asked)
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


def _nothing_to_do(path: Path, report: Mapping[str, Any]) -> DirectoryRefused:
    """The refusal to run a crawl that has finished and is asked for nothing new; says what one can do."""
    remedies = [
        how_to_extend(str(report.get("exit_status", ""))),
        "--recrawl fetches its pages again. --fresh moves it aside and starts a new one.",
    ]
    advice = "\n".join(filter(None, remedies))
    return DirectoryRefused(f"the crawl in {path} {how_it_ended(report)}\n{advice}")


def _frontier_file(path: Path) -> Path:
    return path / frontier_file.NAME


def _is_crawl(path: Path) -> bool:
    """True for a directory with a crawl, False for a new one. BadDirectory for anything else."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise BadDirectory(f"{path} is not a directory; choose one with --dir")
    if crawl_file_of(path).is_file():
        return True
    # A run that was killed before it wrote crawl.json may have left these behind.
    leftovers = {_LOCK, _PROGRAMS_LOCK, "warcs", "pages", "mirror", "logs", "crawl.json.tmp"}
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


def _check_going_on(path: Path, record: CrawlFile, plan: Plan) -> None:
    """DirectoryRefused if the crawl in a directory cannot become the planned one, or is done with it."""
    if record.crawl != plan.crawl:
        raise DirectoryRefused(
            f"{path} holds the crawl {record.crawl!r}, not {plan.crawl!r}. Choose another directory with "
            "--dir. --fresh moves the old crawl aside and starts a new one."
        )
    shards = shard_count_of(path)
    if plan.shards and shards and plan.shards != shards:
        raise DirectoryRefused(
            f"the crawl in {path} has {counted(shards, 'shard')}, got --shards {plan.shards}. Leave --shards "
            "out. --fresh moves the old crawl aside and starts a new one."
        )
    missing = sorted(set(record.seeds) - set(plan.seeds))
    if missing:
        listed = "".join(f"\n  {seed}" for seed in missing[:_MOST_SEEDS_TOLD])
        more = len(missing) - _MOST_SEEDS_TOLD
        listed += f"\n  and {more} more" if more > 0 else ""
        raise DirectoryRefused(
            f"a crawl keeps its seeds, and the one in {path} also has:{listed}\n"
            "Give them too, or choose another directory with --dir. --fresh moves the old crawl aside and "
            "starts a new one."
        )
    report = last_report(path)
    unchanged = not changed_paths(record.spec, plan.spec) and set(plan.seeds) == set(record.seeds)
    if report.get("state") == "FINISHED" and unchanged and not plan.recrawl and not record.recrawl_before:
        raise _nothing_to_do(path, report)
