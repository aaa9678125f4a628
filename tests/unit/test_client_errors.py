"""Which exception a failed call becomes, and which exit code that is."""

import grpc
import pytest
from client_doubles.fake_frontier import Refusal
from google.rpc.status_pb2 import Status
from grpc.aio import AioRpcError, Metadata

from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_cli.exits import MEANINGS, ExitCode, exit_code_of
from toehold_client import errors
from toehold_client.errors import ToeholdError, from_rpc_error

CODE = grpc.StatusCode


def failed(
    refusal: Refusal, trailer: tuple[tuple[str, bytes], ...] | None = None, server: str = errors.FRONTIER
) -> ToeholdError:
    """The client's exception for a call that failed like this."""
    metadata = Metadata(*(refusal.trailer() if trailer is None else trailer))
    failure = AioRpcError(refusal.code, Metadata(), metadata, refusal.message)
    return from_rpc_error(failure, address="here:7707", timeout_s=30, server=server)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (CODE.NOT_FOUND, "UNKNOWN_CRAWL", errors.UnknownCrawl),
        (CODE.ALREADY_EXISTS, "CRAWL_EXISTS", errors.CrawlExists),
        (CODE.INVALID_ARGUMENT, "INVALID_SPEC", errors.InvalidSpec),
        (CODE.INVALID_ARGUMENT, "INVALID_NAME", errors.InvalidName),
        (CODE.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE", errors.InvalidArgument),
        (CODE.INVALID_ARGUMENT, "BATCH_EMPTY", errors.InvalidArgument),
        (CODE.INVALID_ARGUMENT, "BATCH_TOO_LARGE", errors.BatchTooLarge),
        (CODE.FAILED_PRECONDITION, "CRAWL_FINISHED", errors.CrawlFinished),
        (CODE.FAILED_PRECONDITION, "ILLEGAL_STATE", errors.IllegalState),
        (CODE.FAILED_PRECONDITION, "NO_SEEDS", errors.NoSeeds),
        (CODE.FAILED_PRECONDITION, "CRAWL_ACTIVE", errors.CrawlActive),
        (CODE.FAILED_PRECONDITION, "SESSION_SUPERSEDED", errors.SessionSuperseded),
        (CODE.OUT_OF_RANGE, "CURSOR_TOO_OLD", errors.CursorTooOld),
        (CODE.RESOURCE_EXHAUSTED, "OVERLOADED", errors.Overloaded),
        (CODE.RESOURCE_EXHAUSTED, "DISK_RESERVE", errors.DiskReserve),
        (CODE.FAILED_PRECONDITION, "CRAWL_TORN_DOWN", errors.CrawlTornDown),
        (CODE.UNAVAILABLE, "CRAWL_HELD", errors.CrawlHeld),
        (CODE.UNAVAILABLE, "SHARD_AWAY", errors.ShardAway),
        (CODE.UNAVAILABLE, "SHUTTING_DOWN", errors.FrontierUnavailable),
        (CODE.UNAVAILABLE, "STORE_FAILED", errors.FrontierUnavailable),
        (CODE.NOT_FOUND, "UNKNOWN_NODE", errors.UnknownNode),
        (CODE.NOT_FOUND, "UNKNOWN_TOE", errors.UnknownToe),
        (CODE.FAILED_PRECONDITION, "DRAINING", errors.NodeDraining),
        (CODE.UNAVAILABLE, "WORKER_SILENT", errors.WorkerSilent),
    ],
)
def test_every_reason_of_the_contract_has_its_exception(
    code: grpc.StatusCode, reason: str, kind: type[ToeholdError]
) -> None:
    error = failed(Refusal(code, "the frontier's own sentence", reason, {"crawl": "c"}))
    assert type(error) is kind
    assert str(error) == "the frontier's own sentence"
    assert (error.reason, error.metadata) == (reason, {"crawl": "c"})


def test_a_reason_newer_than_the_client_falls_back_to_the_code() -> None:
    error = failed(Refusal(CODE.INVALID_ARGUMENT, "too blue", "TOO_BLUE"))
    assert type(error) is errors.InvalidArgument
    assert (str(error), error.reason) == ("too blue", "TOO_BLUE")
    assert type(failed(Refusal(CODE.ABORTED, "too blue", "TOO_BLUE"))) is errors.UnexpectedAnswer


def test_a_reason_of_somebody_elses_domain_is_not_taken_for_ours() -> None:
    error = failed(Refusal(CODE.NOT_FOUND, "?", "UNKNOWN_CRAWL", domain="elsewhere.example"))
    assert type(error) is errors.UnexpectedAnswer


def test_a_spec_is_told_with_all_its_problems() -> None:
    problems = {"politeness.min_delay": "too long", "contact": "none"}
    error = failed(Refusal(CODE.INVALID_ARGUMENT, "two problems", "INVALID_SPEC", problems))
    assert isinstance(error, errors.InvalidSpec)
    assert error.problems == problems


@pytest.mark.parametrize("told", ["PAUSED", "CRAWL_STATE_PAUSED"])
def test_an_illegal_state_is_told_as_the_contracts_enum(told: str) -> None:
    error = failed(Refusal(CODE.FAILED_PRECONDITION, "no", "ILLEGAL_STATE", {"state": told}))
    assert isinstance(error, errors.IllegalState)
    assert error.state == CrawlState.CRAWL_STATE_PAUSED


@pytest.mark.parametrize("told", [{}, {"state": ""}, {"state": "PURPLE"}])
def test_an_illegal_state_that_nobody_knows_is_unspecified(told: dict[str, str]) -> None:
    error = failed(Refusal(CODE.FAILED_PRECONDITION, "no", "ILLEGAL_STATE", told))
    assert isinstance(error, errors.IllegalState)
    assert error.state == CrawlState.CRAWL_STATE_UNSPECIFIED


@pytest.mark.parametrize(("told", "heard"), [(2.5, 2.5), (None, 0.0), (-3.0, 0.0)])
@pytest.mark.parametrize(
    ("code", "reason"), [(CODE.RESOURCE_EXHAUSTED, "OVERLOADED"), (CODE.UNAVAILABLE, "CRAWL_HELD")]
)
def test_a_refusal_for_now_says_when_to_come_back(
    code: grpc.StatusCode, reason: str, told: float | None, heard: float
) -> None:
    error = failed(Refusal(code, "not now", reason, retry_s=told))
    assert isinstance(error, errors.RefusedForNow)
    assert error.retry_after_s == heard


def test_a_crawl_that_is_held_is_a_frontier_neither_overloaded_nor_away() -> None:
    error = failed(Refusal(CODE.UNAVAILABLE, "crawl 'c' is held", "CRAWL_HELD", retry_s=1))
    assert not isinstance(error, errors.Overloaded | errors.FrontierUnavailable)


def test_a_crawl_that_is_torn_down_has_finished_too() -> None:
    """S0.29: what is over for a fetcher stays so."""
    error = failed(Refusal(CODE.FAILED_PRECONDITION, "crawl 'c' is torn down", "CRAWL_TORN_DOWN"))
    assert isinstance(error, errors.CrawlFinished)


def test_a_message_over_grpcs_limit_is_no_overload() -> None:
    """It would be refused again, so nothing must repeat it."""
    error = failed(Refusal(CODE.RESOURCE_EXHAUSTED, "Received message larger than max"))
    assert not isinstance(error, errors.Overloaded)
    assert "larger than max" in str(error)


def test_a_frontier_that_is_not_there_is_told_with_its_address() -> None:
    details = "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: Connection refused"
    error = failed(Refusal(CODE.UNAVAILABLE, details))
    assert isinstance(error, errors.FrontierUnavailable)
    assert str(error) == "no frontier answers at here:7707 (Connection refused)"


def test_silence_is_told_with_how_long_it_was() -> None:
    error = failed(Refusal(CODE.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    assert isinstance(error, errors.DeadlineExceeded)
    assert str(error) == "the frontier at here:7707 did not answer within 30 s"


def test_a_server_of_another_kind_is_told_as_one() -> None:
    assert "is not a Toehold frontier" in str(failed(Refusal(CODE.UNIMPLEMENTED, "Method not found!")))


@pytest.mark.parametrize(
    ("refusal", "kind", "told"),
    [
        (
            Refusal(CODE.UNAVAILABLE, "x: Connection refused"),
            errors.NodeUnavailable,
            "no node answers at here",
        ),
        (Refusal(CODE.UNAVAILABLE, "too blue", "TOO_BLUE"), errors.NodeUnavailable, "too blue"),
        (Refusal(CODE.DEADLINE_EXCEEDED), errors.DeadlineExceeded, "the node at here:7707 did not answer"),
        (Refusal(CODE.UNIMPLEMENTED), errors.UnexpectedAnswer, "is not a Toehold node of this version"),
        (Refusal(CODE.UNKNOWN, "oops"), errors.UnexpectedAnswer, "the node at here:7707 failed: oops"),
    ],
)
def test_a_node_that_fails_is_not_taken_for_a_frontier(
    refusal: Refusal, kind: type[ToeholdError], told: str
) -> None:
    error = failed(refusal, server=errors.NODE)
    assert type(error) is kind
    assert told in str(error)


CONTRADICTION = Status(code=5, message="another").SerializeToString()


@pytest.mark.parametrize("details", [b"\xff\xff\xff", b"", CONTRADICTION])
def test_details_that_are_damaged_do_not_hide_the_failure(details: bytes) -> None:
    error = failed(Refusal(CODE.UNAVAILABLE, "gone"), (("grpc-status-details-bin", details),))
    assert isinstance(error, errors.FrontierUnavailable)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.WaitTimedOut("x"), ExitCode.TIMED_OUT),
        (errors.DeadlineExceeded("x"), ExitCode.NO_FRONTIER),
        (errors.FrontierUnavailable("x"), ExitCode.NO_FRONTIER),
        (errors.UnknownCrawl("x"), ExitCode.UNKNOWN),
        (errors.UnknownQueue("x"), ExitCode.UNKNOWN),
        (errors.UnknownJob("x"), ExitCode.UNKNOWN),
        (errors.UnknownOverride("x"), ExitCode.UNKNOWN),
        (errors.UnknownNode("x"), ExitCode.UNKNOWN),
        (errors.UnknownToe("x"), ExitCode.UNKNOWN),
        (errors.NodeDraining("x"), ExitCode.REFUSED),
        (errors.NodeUnavailable("x"), ExitCode.NO_FRONTIER),
        (errors.WorkerSilent("x"), ExitCode.NO_FRONTIER),
        (errors.InvalidSpec("x"), ExitCode.BAD_INPUT),
        (errors.InvalidName("x"), ExitCode.BAD_INPUT),
        (errors.BatchTooLarge("x"), ExitCode.BAD_INPUT),
        (errors.CrawlExists("x"), ExitCode.REFUSED),
        (errors.CrawlFinished("x"), ExitCode.REFUSED),
        (errors.CrawlTornDown("x"), ExitCode.REFUSED),
        (errors.CrawlHeld("x"), ExitCode.REFUSED),
        (errors.DiskReserve("x"), ExitCode.REFUSED),
        (errors.IllegalState("x"), ExitCode.REFUSED),
        (errors.CrawlActive("x"), ExitCode.REFUSED),
        (errors.NoSeeds("x"), ExitCode.REFUSED),
        (errors.Overloaded("x"), ExitCode.FAILED),
        (errors.UnexpectedAnswer("x"), ExitCode.FAILED),
    ],
)
def test_every_error_has_its_exit_code(error: ToeholdError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_every_exit_code_is_explained() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_a_call_that_the_frontiers_end_has_cut_off_may_be_tried_again() -> None:
    """gRPC itself says CANCELLED of what a server that ends takes up no more."""
    error = failed(Refusal(CODE.CANCELLED, "CANCELLED"))
    assert isinstance(error, errors.FrontierUnavailable)
    assert str(error) == "the frontier at here:7707 ended before it answered"
