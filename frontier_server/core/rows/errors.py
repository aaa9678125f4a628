"""The core's refusals: a few kinds, each with a reason that programs rely on."""

from collections.abc import Mapping


class FrontierError(Exception):
    """A request was refused as a whole; nothing was changed."""

    reason = "INTERNAL"
    retry_ms = 0  # when to try again; 0 if that does not help

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.metadata: Mapping[str, str] = metadata


class InvalidRequest(FrontierError):
    """A value of the request is invalid, whatever the state of the crawl."""

    reason = "INVALID_ARGUMENT_VALUE"


class InvalidName(InvalidRequest):
    """The name is not a valid name of a crawl."""

    reason = "INVALID_NAME"


class BatchEmpty(InvalidRequest):
    """The batch has no items."""

    reason = "BATCH_EMPTY"


class BatchTooLarge(InvalidRequest):
    """The batch has too many items."""

    reason = "BATCH_TOO_LARGE"


class InvalidSpec(InvalidRequest):
    """A crawl's spec has problems; `metadata` maps each field's path to its own."""

    reason = "INVALID_SPEC"


class UnknownCrawl(FrontierError):
    """There is no crawl of this name."""

    reason = "UNKNOWN_CRAWL"


class ShardAway(FrontierError):
    """A shard of the frontier that the request needs cannot be reached now."""

    reason = "SHARD_AWAY"
    retry_ms = 500


class CrawlExists(FrontierError):
    """There is a crawl of this name already."""

    reason = "CRAWL_EXISTS"


class CrawlFinished(FrontierError):
    """The crawl has finished, for good."""

    reason = "CRAWL_FINISHED"


class CrawlHeld(FrontierError):
    """The crawl is held: it may not change until it is released. Try again later."""

    reason = "CRAWL_HELD"
    retry_ms = 1_000


class CrawlTornDown(FrontierError):
    """The crawl is no longer in memory; the stored crawl can only be read, or deleted."""

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
    """Another process has taken the node's name."""

    reason = "SESSION_SUPERSEDED"


class CursorTooOld(FrontierError):
    """The events after the cursor are no longer kept."""

    reason = "CURSOR_TOO_OLD"


class UnknownJob(FrontierError):
    """The crawl has no job with this number, or no longer has it."""

    reason = "UNKNOWN_JOB"


class UnknownQueue(FrontierError):
    """The crawl has no work queue with this key."""

    reason = "UNKNOWN_QUEUE"


class UnknownNode(FrontierError):
    """The frontier does not see a node of this name."""

    reason = "UNKNOWN_NODE"


class NodePresent(FrontierError):
    """The node is there, so that it cannot be forgotten."""

    reason = "NODE_PRESENT"


class UrisNotKept(FrontierError):
    """The crawl keeps only the fingerprints of its URIs."""

    reason = "URIS_NOT_KEPT"


class UnknownOverride(FrontierError):
    """The crawl has no override for this SURT prefix."""

    reason = "UNKNOWN_OVERRIDE"


class UnknownCheckpoint(FrontierError):
    """There is no checkpoint of this name."""

    reason = "UNKNOWN_CHECKPOINT"


class CheckpointInUse(FrontierError):
    """A crawl is being launched from the checkpoint."""

    reason = "CHECKPOINT_IN_USE"


class ReadOnly(FrontierError):
    """The frontier answers questions only: its store was opened read-only."""

    reason = "READ_ONLY"


class StoreCorrupt(Exception):
    """The store contradicts itself: a defect, never a user's fault."""


class InvariantBroken(Exception):
    """An operation would have left memory and rows in contradiction: a defect, never a user's fault.

    Nothing of the operation is stored.
    """


class OtherFormat(StoreCorrupt):
    """A server of another version wrote the store, in a format that this one does not know."""


def invalid_spec(found: Mapping[str, str]) -> InvalidSpec:
    """A refusal with all problems of a spec, each by its path."""
    return InvalidSpec("; ".join(f"{path} {problem}" for path, problem in found.items()), **found)
