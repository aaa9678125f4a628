"""gRPC's own log: an operator reads of errors, and of callers who left reads nothing."""

import importlib
import logging
from collections.abc import Iterator

import pytest

from toehold_base.observability.grpc_log import LOGGER, leave_out_callers_doings


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """gRPC's, which tells of all that the server does not leave out."""
    logger = logging.getLogger(LOGGER)
    before = logger.filters[:]
    leave_out_callers_doings()
    yield logger
    logger.filters = before


def told(logger: logging.Logger, problem: Exception) -> None:
    """Log it as gRPC does."""
    try:
        raise problem
    except Exception:
        logger.exception("raised by servicer method [%s]", "/toehold.frontier.v1.FrontierService/StateEvents")


def test_an_answer_to_a_caller_who_has_left_is_no_error(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    cygrpc = importlib.import_module("grpc._cython.cygrpc")  # of which there are no types
    told(logger, cygrpc.ExecuteBatchError('Failed "execute_batch"'))
    assert caplog.records == []


def test_metadata_that_are_no_text_are_no_error(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    logger.error("Invalid encoding on %s", "x")
    assert caplog.records == []


def test_other_errors_of_grpc_are_told(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    told(logger, ValueError("odd"))
    logger.error("no exception")
    assert [record.exc_info is not None for record in caplog.records] == [True, False]
