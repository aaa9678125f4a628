"""Lines of gRPC's own log that callers could fill it with, and that are no errors of the server's."""

import logging

LOGGER = "grpc._cython.cygrpc"


def leave_out_callers_doings() -> None:
    """Keep two kinds of lines out of the log.

    A caller whose connection ends just when its call's last word is sent is gone before gRPC has noted that;
    gRPC then logs an error with a trace, though there is nobody left to be answered. And gRPC tells of each
    caller whose metadata are no text.
    """
    logging.getLogger(LOGGER).addFilter(_concerns_us)


def _concerns_us(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    has_left = kind is not None and kind.__name__ == "ExecuteBatchError"
    return not has_left and not str(record.msg).startswith("Invalid encoding on")
