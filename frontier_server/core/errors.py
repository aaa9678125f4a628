"""What the core refuses: a few kinds, each with a reason that programs rely on."""

from collections.abc import Mapping


class FrontierError(Exception):
    """A request was refused as a whole; nothing was changed."""

    reason = "INTERNAL"
    retry_ms = 0  # when to try again, if that is the answer

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.metadata: Mapping[str, str] = metadata


class InvalidRequest(FrontierError):
    """A value of the request makes no sense, whatever the state of the crawl."""

    reason = "INVALID_ARGUMENT_VALUE"


class InvalidName(InvalidRequest):
    """The name cannot be a crawl's."""

    reason = "INVALID_NAME"


class BatchEmpty(InvalidRequest):
    """A batch without items."""

    reason = "BATCH_EMPTY"


class BatchTooLarge(InvalidRequest):
    """More items than a batch may have."""

    reason = "BATCH_TOO_LARGE"


class InvalidSpec(InvalidRequest):
    """A crawl's spec has problems; `metadata` maps each field's path to its own."""

    reason = "INVALID_SPEC"


class UnknownCrawl(FrontierError):
    """There is no crawl of this name."""

    reason = "UNKNOWN_CRAWL"


class CrawlExists(FrontierError):
    """There is a crawl of this name already."""

    reason = "CRAWL_EXISTS"


class CrawlFinished(FrontierError):
    """The crawl has finished; nothing leads out of that."""

    reason = "CRAWL_FINISHED"


class CrawlHeld(FrontierError):
    """The crawl stands still: nothing of it may change until it is released. Try again later."""

    reason = "CRAWL_HELD"
    retry_ms = 1_000


class CrawlTornDown(FrontierError):
    """The crawl is not in memory any more; what is stored of it can only be read, or deleted."""

    reason = "CRAWL_TORN_DOWN"


class IllegalState(FrontierError):
    """The crawl's present state does not allow the request."""

    reason = "ILLEGAL_STATE"


class CrawlActive(FrontierError):
    """The crawl is neither NASCENT nor FINISHED."""

    reason = "CRAWL_ACTIVE"


class NoSeeds(FrontierError):
    """A crawl cannot be launched without seeds."""

    reason = "NO_SEEDS"


class SessionSuperseded(FrontierError):
    """Another process has taken the node's name since."""

    reason = "SESSION_SUPERSEDED"


class CursorTooOld(FrontierError):
    """The events after the cursor are no longer kept."""

    reason = "CURSOR_TOO_OLD"


class UnknownJob(FrontierError):
    """The crawl has no job of this number (any more)."""

    reason = "UNKNOWN_JOB"


class UnknownQueue(FrontierError):
    """The crawl has no work queue of this key."""

    reason = "UNKNOWN_QUEUE"


class UnknownNode(FrontierError):
    """The frontier does not hear a node of this name."""

    reason = "UNKNOWN_NODE"


class UnknownOverride(FrontierError):
    """The crawl has no override for this SURT prefix."""

    reason = "UNKNOWN_OVERRIDE"


class UnknownCheckpoint(FrontierError):
    """There is no checkpoint of this name."""

    reason = "UNKNOWN_CHECKPOINT"


class CheckpointInUse(FrontierError):
    """A crawl is being launched from the checkpoint."""

    reason = "CHECKPOINT_IN_USE"


class StoreCorrupt(Exception):
    """What is stored contradicts itself: a defect, never a user's fault."""


class OtherFormat(StoreCorrupt):
    """A server of another version wrote the store, in a way that this one does not know."""


def invalid_spec(found: Mapping[str, str]) -> InvalidSpec:
    """The refusal that tells all problems of a spec, each by its path."""
    return InvalidSpec("; ".join(f"{path} {problem}" for path, problem in found.items()), **found)
