"""How commands end: their exit codes, and the errors that only commands raise."""

from collections.abc import Mapping
from enum import IntEnum
from typing import ClassVar

from toehold.frontier.v1.crawl_pb2 import CrawlStatus, ExitStatus
from toehold_client import errors


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    NO_FRONTIER = 3
    CRAWL_FAILED = 4
    REFUSED = 5
    TIMED_OUT = 6
    LIMIT_REACHED = 7
    ABORTED = 8
    UNKNOWN = 9
    DENIED = 10
    NOT_SERVING = 11
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed for a reason not in this list",
    ExitCode.BAD_INPUT: "wrong usage, a bad spec or bad input",
    ExitCode.NO_FRONTIER: "no frontier or node answered in time",
    ExitCode.CRAWL_FAILED: "crawl, run: no seed was fetched, or nothing but errors came",
    ExitCode.REFUSED: "the state of the crawl, the node or the disk does not allow it",
    ExitCode.TIMED_OUT: "--wait ran out",
    ExitCode.LIMIT_REACHED: "run: the crawl ended at a limit of its spec",
    ExitCode.ABORTED: "run: the crawl was stopped",
    ExitCode.UNKNOWN: "no such crawl, checkpoint, queue, job, override, node, toe or service",
    ExitCode.DENIED: "it is unknown who calls, or the caller may not do this",
    ExitCode.NOT_SERVING: "health: it answers, but does not serve",
    ExitCode.INTERRUPTED: "interrupted",
}

# A child stands before its parent: the first that fits counts.
_BY_ERROR: tuple[tuple[type[errors.ToeholdError], ExitCode], ...] = (
    (errors.WaitTimedOut, ExitCode.TIMED_OUT),
    (errors.DeadlineExceeded, ExitCode.NO_FRONTIER),
    (errors.FrontierUnavailable, ExitCode.NO_FRONTIER),
    (errors.NodeUnavailable, ExitCode.NO_FRONTIER),
    (errors.Unauthenticated, ExitCode.DENIED),
    (errors.PermissionDenied, ExitCode.DENIED),
    (errors.UnknownCrawl, ExitCode.UNKNOWN),
    (errors.UnknownQueue, ExitCode.UNKNOWN),
    (errors.UnknownNode, ExitCode.UNKNOWN),
    (errors.UnknownToe, ExitCode.UNKNOWN),
    (errors.UnknownJob, ExitCode.UNKNOWN),
    (errors.UnknownOverride, ExitCode.UNKNOWN),
    (errors.UnknownCheckpoint, ExitCode.UNKNOWN),
    (errors.CheckpointInUse, ExitCode.REFUSED),
    (errors.InvalidArgument, ExitCode.BAD_INPUT),
    (errors.CrawlExists, ExitCode.REFUSED),
    (errors.CrawlFinished, ExitCode.REFUSED),
    (errors.CrawlHeld, ExitCode.REFUSED),
    (errors.IllegalState, ExitCode.REFUSED),
    (errors.UrisNotKept, ExitCode.REFUSED),
    (errors.NodePresent, ExitCode.REFUSED),
    (errors.ReadOnly, ExitCode.REFUSED),
    (errors.CrawlActive, ExitCode.REFUSED),
    (errors.NoSeeds, ExitCode.REFUSED),
    (errors.NodeDraining, ExitCode.REFUSED),
    (errors.DiskReserve, ExitCode.REFUSED),
)


class CommandFailed(errors.ToeholdError):
    """A command cannot begin, or cannot go on. Its message may have several lines."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class BadPlan(CommandFailed):
    """The options of a crawl make no sense."""

    exit_code = ExitCode.BAD_INPUT


class BadDirectory(CommandFailed):
    """The directory cannot be used for a crawl."""

    exit_code = ExitCode.BAD_INPUT


class DirectoryRefused(CommandFailed):
    """The directory holds a crawl that this one cannot continue, or another process is at work there."""

    exit_code = ExitCode.REFUSED


class ChildFailed(CommandFailed):
    """The frontier server or the crawler node could not be started, or ended too early."""


class UnknownService(CommandFailed):
    """A server has no gRPC service of this name."""

    exit_code = ExitCode.UNKNOWN


class Interrupted(CommandFailed):
    """A signal came before the crawl began."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted before the crawl began")


def exit_code_of(error: errors.ToeholdError) -> ExitCode:
    """The exit code for a command that ended with this error."""
    if isinstance(error, CommandFailed):
        return error.exit_code
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.FAILED)


_BY_END: Mapping[ExitStatus.ValueType, ExitCode] = {
    ExitStatus.EXIT_STATUS_FINISHED: ExitCode.DONE,
    ExitStatus.EXIT_STATUS_FINISHED_DOCUMENT_LIMIT: ExitCode.LIMIT_REACHED,
    ExitStatus.EXIT_STATUS_FINISHED_DATA_LIMIT: ExitCode.LIMIT_REACHED,
    ExitStatus.EXIT_STATUS_FINISHED_TIME_LIMIT: ExitCode.LIMIT_REACHED,
    ExitStatus.EXIT_STATUS_ABORTED: ExitCode.ABORTED,
}


def exit_code_of_end(status: CrawlStatus) -> ExitCode:
    """The exit code for a command that followed a crawl to its end."""
    if status.failure:
        return ExitCode.CRAWL_FAILED
    return _BY_END.get(status.exit_status, ExitCode.FAILED)
