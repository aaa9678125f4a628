"""What an error of the frontier means for a worker, whose leases live on while it decides what to do."""

from enum import Enum, auto

from toehold_client import errors

_OF_THE_NODE = ("ROLE_MISSING", "NODE_NOT_ALLOWED")


class Meaning(Enum):
    """What to do about an error. The first three pass by themselves: keep the work, and try again."""

    SILENT = auto()
    """The frontier does not answer. The call may have had its effect, and is harmless to repeat."""
    BUSY = auto()
    """The frontier answers, but does not take this now: it has too much to do, the crawl is held, or a
    shard is away."""
    DENIED = auto()
    """The frontier does not know the caller, or the caller lacks a right. Whoever mends that lets the worker
    go on, so it keeps its work meanwhile."""
    FAILED = auto()
    """The frontier failed in a way that the contract does not name. A few more tries may help."""
    CRAWL_OVER = auto()
    """The crawl has finished, is torn down, or is unknown."""
    REFUSED = auto()
    """The frontier refuses this request for good. Others may go on."""
    SUPERSEDED = auto()
    """Another process has taken over the worker's name. This one may do nothing more."""
    CLOSED = auto()
    """The worker has closed its own client."""

    @property
    def passes(self) -> bool:
        """Whether a later try may succeed, however long that takes."""
        return self in (Meaning.SILENT, Meaning.BUSY, Meaning.DENIED)


def meaning_of(error: errors.ToeholdError) -> Meaning:
    """The meaning of an error that any call of a worker may end with."""
    match error:
        case errors.RefusedForNow() | errors.ShardAway():
            return Meaning.BUSY
        case errors.FrontierUnavailable() | errors.DeadlineExceeded():
            return Meaning.SILENT
        # Not CRAWL_NOT_ALLOWED: work of one crawl must not hold up that of others.
        case errors.Unauthenticated():
            return Meaning.DENIED
        case errors.PermissionDenied(reason=reason) if reason in _OF_THE_NODE:
            return Meaning.DENIED
        case errors.SessionSuperseded():
            return Meaning.SUPERSEDED
        case errors.CrawlFinished() | errors.UnknownCrawl():
            return Meaning.CRAWL_OVER
        case errors.UnexpectedAnswer():
            return Meaning.FAILED
        case errors.ClientClosed():
            return Meaning.CLOSED
    return Meaning.REFUSED
