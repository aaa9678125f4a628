"""Filters lines out of gRPC's own log that callers cause, and that are not errors of the server."""

import logging

LOGGER = "grpc._cython.cygrpc"


def leave_out_callers_doings() -> None:
    """Keep two kinds of lines out of the log.

    If a connection ends just as the last message of a call is sent, gRPC logs an error with a trace, though
    nobody waits for the answer any more. And gRPC logs each caller whose metadata are not text.
    """
    logging.getLogger(LOGGER).addFilter(_concerns_us)


def _concerns_us(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    has_left = kind is not None and kind.__name__ == "ExecuteBatchError"
    return not has_left and not str(record.msg).startswith("Invalid encoding on")
