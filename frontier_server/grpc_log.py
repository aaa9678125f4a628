"""Words of gRPC's own log that are no error of the server's."""

import logging

LOGGER = "grpc._cython.cygrpc"


def leave_out_callers_who_left() -> None:
    """Keep errors from being logged that only say that a caller has left.

    A caller whose connection ends just when its call's last word is sent is gone before gRPC has noted that;
    gRPC then logs an error with a trace, though there is nobody left to be answered.
    """
    logging.getLogger(LOGGER).addFilter(_concerns_us)


def _concerns_us(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "ExecuteBatchError"
