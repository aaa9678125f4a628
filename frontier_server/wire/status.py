"""Turns refusals of the core into gRPC statuses: each has a canonical code and one ErrorInfo."""

import grpc

from toehold_base.serving import statuses

from ..core.rows import errors

CODES: dict[type[errors.FrontierError], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidName: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidSpec: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BatchEmpty: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BatchTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownCrawl: grpc.StatusCode.NOT_FOUND,
    errors.CrawlExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.CrawlFinished: grpc.StatusCode.FAILED_PRECONDITION,
    errors.IllegalState: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CrawlHeld: grpc.StatusCode.UNAVAILABLE,
    errors.ShardAway: grpc.StatusCode.UNAVAILABLE,
    errors.CrawlTornDown: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UrisNotKept: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NodePresent: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CrawlActive: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NoSeeds: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SessionSuperseded: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CursorTooOld: grpc.StatusCode.OUT_OF_RANGE,
    errors.UnknownQueue: grpc.StatusCode.NOT_FOUND,
    errors.UnknownNode: grpc.StatusCode.NOT_FOUND,
    errors.UnknownJob: grpc.StatusCode.NOT_FOUND,
    errors.UnknownOverride: grpc.StatusCode.NOT_FOUND,
    errors.UnknownCheckpoint: grpc.StatusCode.NOT_FOUND,
    errors.CheckpointInUse: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ReadOnly: grpc.StatusCode.FAILED_PRECONDITION,
}


def of_error(error: errors.FrontierError, request_id: str = "") -> statuses.Status:
    """The status of a refusal of the core."""
    code, metadata = CODES[type(error)], dict(error.metadata)
    return statuses.refusal(code, error.reason, str(error), metadata, error.retry_ms, request_id)


def failed(request_id: str) -> statuses.Status:
    """The status of a defect, which has no reason that a caller could know."""
    message = "the frontier failed at this call; the frontier's log has the reason"
    return statuses.refusal(grpc.StatusCode.INTERNAL, "", message, request_id=request_id)
