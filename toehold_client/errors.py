"""The errors of a frontier or a node, as exceptions that a program can tell apart.

The `ErrorInfo.reason` that the server sends selects the class, or else the gRPC code. The message is the
server's own sentence.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo, RequestInfo, RetryInfo
from grpc_status import rpc_status

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, RejectedSeed
from toehold.frontier.v1.crawl_pb2 import CrawlState

ERROR_DOMAIN = "toehold"

FRONTIER, NODE = "frontier", "node"
"""The two kinds of server."""


class ToeholdError(Exception):
    """A request was refused or failed; `str()` of the error is a sentence for people.

    `reason` is the contract's name for it (`UNKNOWN_CRAWL`), or the name of the gRPC code if the server gave
    none, or empty if no server was called. `metadata` is what else the server said. `request_id` is the id
    under which the server's log has the call; empty if no server was called.
    """

    def __init__(self, message: str, *, reason: str = "", metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.metadata: Mapping[str, str] = dict(metadata or {})
        self.request_id = ""


class UnknownCrawl(ToeholdError):
    """The frontier has no crawl of this name."""


class UnknownQueue(ToeholdError):
    """The crawl has no work queue of this key."""


class UnknownJob(ToeholdError):
    """The crawl has no job of this number (any more)."""


class UnknownNode(ToeholdError):
    """The frontier has no node of this name."""


class UnknownOverride(ToeholdError):
    """The crawl has no override for this SURT prefix."""


class UnknownCheckpoint(ToeholdError):
    """The frontier has no checkpoint of this name."""


class CheckpointInUse(ToeholdError):
    """A crawl is being launched from the checkpoint."""


class CrawlExists(ToeholdError):
    """The frontier has a crawl of this name already."""


class InvalidArgument(ToeholdError):
    """A value of the request is wrong, in any state of the crawl."""


class InvalidName(InvalidArgument):
    """A crawl's name must have 1 to 64 of `a-z 0-9 - _ .`, and begin with a letter or digit."""


class InvalidSpec(InvalidArgument):
    """A crawl's spec, or an override, has problems, listed in `problems`."""

    @property
    def problems(self) -> dict[str, str]:
        """The path of each wrong field (`politeness.min_delay`), and what would be right."""
        return dict(sorted(self.metadata.items()))


class BatchTooLarge(InvalidArgument):
    """A message would have too many items or bytes. The client splits batches, so one item alone is too
    large.
    """


class SeedsRefused(InvalidArgument):
    """The frontier refused some seeds and stored the others. `answer` is its answer."""

    def __init__(self, message: str, *, answer: AddSeedsResponse) -> None:
        super().__init__(message)
        self.answer = answer

    @property
    def rejected(self) -> list[RejectedSeed]:
        """The refused seeds, each with its number and verdict: the first 100 of them."""
        return list(self.answer.rejected)


class CrawlFinished(ToeholdError):
    """The crawl has finished. Only `reopen` makes it run again."""


class CrawlTornDown(CrawlFinished):
    """The crawl has been torn down: its stored data can be read and deleted, but not changed."""


class UrisNotKept(ToeholdError):
    """The crawl keeps only fingerprints of its URIs (`identity.keep_uris`)."""


class ReadOnly(ToeholdError):
    """The frontier was opened read-only: it answers questions, and changes nothing."""


class NodePresent(ToeholdError):
    """The node is PRESENT or SILENT, so it cannot be forgotten."""


class IllegalState(ToeholdError):
    """The crawl's present state does not allow the request."""

    @property
    def state(self) -> CrawlState.ValueType:
        """The crawl's state at that moment; CRAWL_STATE_UNSPECIFIED if unknown."""
        name = self.metadata.get("state", "")
        full = name if name.startswith("CRAWL_STATE_") else f"CRAWL_STATE_{name}"
        return dict(CrawlState.items()).get(full, CrawlState.CRAWL_STATE_UNSPECIFIED)


class NoSeeds(ToeholdError):
    """A crawl cannot be launched without seeds."""


class CrawlActive(ToeholdError):
    """Only a crawl that is NASCENT or FINISHED can be deleted."""


class UnknownToe(ToeholdError):
    """The node has no toe thread of this number (any more)."""


class NodeDraining(ToeholdError):
    """The node takes no more leases, and is about to end."""


class Unauthenticated(ToeholdError):
    """The server does not know who calls: credentials are missing, unknown, expired or revoked."""


class PermissionDenied(ToeholdError):
    """The caller may not do this: it lacks a role, or a crawl or node is not its own."""


class SessionSuperseded(ToeholdError):
    """Another process has taken the node's name; this session gets no more leases."""


class CursorTooOld(ToeholdError):
    """The events or outcomes after the cursor are no longer kept."""


class RefusedForNow(ToeholdError):
    """The frontier refused the request before doing anything. Repeat it after `retry_after_s` seconds."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata)
        self.retry_after_s = retry_after_s


class Overloaded(RefusedForNow):
    """The frontier is too busy, or has no room."""


class DiskReserve(Overloaded):
    """The frontier's disk is nearly full: it accepts no URIs until there is space again."""


class CallerLimit(Overloaded):
    """The caller has as many calls open, or has sent as many candidates, as it may."""


class CrawlHeld(RefusedForNow):
    """The crawl is held: it cannot change until it is asked for another state."""


class FrontierUnavailable(ToeholdError):
    """No frontier answers at the address, or it is shutting down. The request may have had its effect."""


class ShardAway(FrontierUnavailable):
    """A shard of the frontier that the request needs is away; the others go on. The part of the request that
    they serve may have had its effect."""


class NodeUnavailable(ToeholdError):
    """No node answers at the address, or another one does. The request may have had its effect."""


class WorkerSilent(NodeUnavailable):
    """A process of the node does not answer now."""


class DeadlineExceeded(ToeholdError):
    """No answer came in time. The request may have had its effect."""


class ClientClosed(ToeholdError):
    """The client was closed before the answer came, or before the call."""


class WaitTimedOut(DeadlineExceeded):
    """The crawl did not reach the state, or a job its end, in time. That may still happen."""


class UnexpectedAnswer(ToeholdError):
    """The frontier failed in a way that the contract has no name for; `reason` is the gRPC code."""


def from_rpc_error(
    error: grpc.RpcError,
    *,
    address: str,
    timeout_s: float,
    server: str = FRONTIER,
    request_id: str = "",
    diagnose: Callable[[str], str] = lambda details: "",
) -> ToeholdError:
    """The exception for a failed call to `address` with a deadline of `timeout_s`. `server` is FRONTIER or
    NODE. `request_id` is the one that the call carried; the server may have given it another one. `diagnose`
    finds a better reason than gRPC's details for a server that cannot be reached, or "".
    """
    status = _told(error)
    code = error.code()
    raised = _made(status, code, _Failure(server, address, timeout_s, code.name, status.sentence), diagnose)
    raised.request_id = status.request_id or request_id
    return raised


def _made(
    told: "_Told", code: grpc.StatusCode, failure: "_Failure", diagnose: Callable[[str], str]
) -> ToeholdError:
    make = _by_code(code, failure.server)
    if told.info is not None:
        make = _BY_REASON.get(told.info.reason, make)
        if issubclass(make, RefusedForNow):
            return make(
                told.sentence,
                reason=told.info.reason,
                metadata=told.info.metadata,
                retry_after_s=told.retry_after_s,
            )
        return make(told.sentence, reason=told.info.reason, metadata=told.info.metadata)
    if code is grpc.StatusCode.UNAVAILABLE and (found := diagnose(told.sentence)):
        return make(found, reason=code.name)
    return make(_SENTENCES.get(code, _say_code)(failure), reason=code.name)


_BY_REASON: Mapping[str, type[ToeholdError]] = {
    "UNKNOWN_CRAWL": UnknownCrawl,
    "UNKNOWN_QUEUE": UnknownQueue,
    "UNKNOWN_NODE": UnknownNode,
    "UNKNOWN_JOB": UnknownJob,
    "UNKNOWN_OVERRIDE": UnknownOverride,
    "UNKNOWN_CHECKPOINT": UnknownCheckpoint,
    "UNKNOWN_TOE": UnknownToe,
    "DRAINING": NodeDraining,
    "WORKER_SILENT": WorkerSilent,
    "CHECKPOINT_IN_USE": CheckpointInUse,
    "CRAWL_EXISTS": CrawlExists,
    "INVALID_SPEC": InvalidSpec,
    "INVALID_NAME": InvalidName,
    "INVALID_ARGUMENT_VALUE": InvalidArgument,
    "BATCH_EMPTY": InvalidArgument,
    "BATCH_TOO_LARGE": BatchTooLarge,
    "CRAWL_FINISHED": CrawlFinished,
    "CRAWL_TORN_DOWN": CrawlTornDown,
    "URIS_NOT_KEPT": UrisNotKept,
    "NODE_PRESENT": NodePresent,
    "READ_ONLY": ReadOnly,
    "ILLEGAL_STATE": IllegalState,
    "NO_SEEDS": NoSeeds,
    "CRAWL_ACTIVE": CrawlActive,
    "SESSION_SUPERSEDED": SessionSuperseded,
    "CURSOR_TOO_OLD": CursorTooOld,
    "OVERLOADED": Overloaded,
    "DISK_RESERVE": DiskReserve,
    "CRAWL_HELD": CrawlHeld,
    "CALLER_LIMIT": CallerLimit,
    "CREDENTIALS_MISSING": Unauthenticated,
    "TOKEN_UNKNOWN": Unauthenticated,
    "TOKEN_EXPIRED": Unauthenticated,
    "TOKEN_REVOKED": Unauthenticated,
    "CERTIFICATE_EXPIRED": Unauthenticated,
    "CERTIFICATE_REVOKED": Unauthenticated,
    "CALLER_UNKNOWN": Unauthenticated,
    "CALLER_REVOKED": Unauthenticated,
    "ROLE_MISSING": PermissionDenied,
    "CRAWL_NOT_ALLOWED": PermissionDenied,
    "NODE_NOT_ALLOWED": PermissionDenied,
    "SHARD_AWAY": ShardAway,
    "SHUTTING_DOWN": FrontierUnavailable,
    "STORE_FAILED": FrontierUnavailable,
}

# For failures inside gRPC, and for reasons newer than this client. RESOURCE_EXHAUSTED is missing: without a
# reason it means a message over gRPC's limit, and a repeat would not help.
_BY_CODE: Mapping[grpc.StatusCode, type[ToeholdError]] = {
    grpc.StatusCode.UNAVAILABLE: FrontierUnavailable,
    grpc.StatusCode.CANCELLED: FrontierUnavailable,  # by a server that ended before it answered
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
}


def _by_code(code: grpc.StatusCode, server: str) -> type[ToeholdError]:
    make = _BY_CODE.get(code, UnexpectedAnswer)
    return NodeUnavailable if make is FrontierUnavailable and server == NODE else make


@dataclass(frozen=True, slots=True)
class _Failure:
    """The facts about a failure that came without an explanation."""

    server: str
    address: str
    timeout_s: float
    code: str
    details: str


def _say_unavailable(failure: _Failure) -> str:
    # "failed to connect to all addresses; last error: UNKNOWN: ipv4:…: Failed to connect …: Connection
    # refused (111)"
    cause = failure.details.rsplit(": ", 1)[-1] or "no connection"
    return f"no {failure.server} answers at {failure.address} ({cause})"


def _say_cancelled(failure: _Failure) -> str:
    return f"the {failure.server} at {failure.address} ended before it answered"


def _say_deadline(failure: _Failure) -> str:
    return f"the {failure.server} at {failure.address} did not answer within {failure.timeout_s:g} s"


def _say_unimplemented(failure: _Failure) -> str:
    return (
        f"the server at {failure.address} is not a Toehold {failure.server} of this version "
        f"({failure.details})"
    )


def _say_code(failure: _Failure) -> str:
    return (
        f"the {failure.server} at {failure.address} failed: {failure.details or 'no reason given'} "
        f"({failure.code})"
    )


_SENTENCES: Mapping[grpc.StatusCode, Callable[[_Failure], str]] = {
    grpc.StatusCode.UNAVAILABLE: _say_unavailable,
    grpc.StatusCode.CANCELLED: _say_cancelled,
    grpc.StatusCode.DEADLINE_EXCEEDED: _say_deadline,
    grpc.StatusCode.UNIMPLEMENTED: _say_unimplemented,
}


@dataclass(slots=True)
class _Told:
    """The explanation that came with a failed call."""

    sentence: str
    info: ErrorInfo | None = None
    retry_after_s: float = field(default=0.0)
    request_id: str = ""


def _told(error: grpc.RpcError) -> _Told:
    told = _Told(error.details() or "")
    try:
        # An RpcError has what this reads of a Call.
        status = rpc_status.from_call(error)  # type: ignore[arg-type]
    except (ValueError, DecodeError):
        # The details contradict the code or are damaged: gRPC's own message must do.
        return told
    if status is None:
        return told
    for detail in status.details:
        info = _unpacked(detail, ErrorInfo)
        if info is not None and info.domain == ERROR_DOMAIN:
            told.info = info
        request = _unpacked(detail, RequestInfo)
        if request is not None:
            told.request_id = request.request_id
        retry = _unpacked(detail, RetryInfo)
        if retry is not None:
            told.retry_after_s = max(0.0, retry.retry_delay.ToTimedelta().total_seconds())
    return told


_M = TypeVar("_M", bound=Message)


def _unpacked(detail: AnyMessage, kind: type[_M]) -> _M | None:
    message = kind()
    try:
        return message if detail.Unpack(message) else None
    except DecodeError:
        return None


@contextmanager
def sendable() -> Iterator[None]:
    """A context that raises InvalidArgument for text that is not valid Unicode, such as an odd byte of a
    command line.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        message = f"{error.object!r:.200} is not valid Unicode text, so it cannot be sent"
        raise InvalidArgument(message) from None
