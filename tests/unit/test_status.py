"""What the core refuses becomes a status: canonical code, a reason that the contract names, bounded size."""

import inspect
import re
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from frontier_server.core.rows import errors
from frontier_server.wire import status
from toehold_base.serving import statuses

CONTRACT = Path(__file__).resolve().parents[2] / "protos" / "toehold" / "frontier" / "v1"
OF_THE_SHELL = {
    "OVERLOADED": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "DISK_RESERVE": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "SHUTTING_DOWN": grpc.StatusCode.UNAVAILABLE,
    "STORE_FAILED": grpc.StatusCode.UNAVAILABLE,
    "CALLER_LIMIT": grpc.StatusCode.RESOURCE_EXHAUSTED,
    **dict.fromkeys(
        (
            *("CREDENTIALS_MISSING", "TOKEN_UNKNOWN", "TOKEN_EXPIRED", "TOKEN_REVOKED"),
            *("CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "CALLER_UNKNOWN", "CALLER_REVOKED"),
        ),
        grpc.StatusCode.UNAUTHENTICATED,
    ),
    **dict.fromkeys(
        ("ROLE_MISSING", "CRAWL_NOT_ALLOWED", "NODE_NOT_ALLOWED"), grpc.StatusCode.PERMISSION_DENIED
    ),
}
"""Reasons that are no FrontierError's."""
RETRIES_S = {"CRAWL_HELD": 1.0, "SHARD_AWAY": 0.5}
"""The core's refusals that say when to try again."""


def kinds() -> list[type[errors.FrontierError]]:
    """Every kind of refusal."""
    found = inspect.getmembers(errors, inspect.isclass)
    return [
        kind
        for _, kind in found
        if issubclass(kind, errors.FrontierError) and kind is not errors.FrontierError
    ]


def documented() -> dict[str, grpc.StatusCode]:
    """The reasons that the contract's comments name, with their codes: `A, B and C (CODE)`."""
    lines = [
        line.strip() for path in sorted(CONTRACT.glob("*.proto")) for line in path.read_text().splitlines()
    ]
    prose = " ".join(line.removeprefix("//").strip() for line in lines if line.startswith("//"))
    found: dict[str, grpc.StatusCode] = {}
    for names, code in re.findall(
        r"((?:[A-Z]+_[A-Z_]+|OVERLOADED)(?:(?:, | and )[A-Z_]+)*) \(([A-Z_]+)\)", prose
    ):
        if code in grpc.StatusCode.__members__:
            for name in re.findall(r"[A-Z_]+", names):
                found[name] = grpc.StatusCode[code]
    return found


def test_every_kind_of_refusal_has_a_code() -> None:
    assert set(status.CODES) == set(kinds())


def test_every_kind_of_refusal_has_a_reason_of_its_own() -> None:
    reasons = [kind.reason for kind in kinds()]
    assert len(reasons) == len(set(reasons))
    assert errors.FrontierError.reason not in reasons


def test_the_contract_names_every_reason_with_its_code_and_no_other() -> None:
    told = {kind.reason: status.CODES[kind] for kind in kinds()}
    assert documented() == told | OF_THE_SHELL


def opened(
    trailer: tuple[tuple[str, bytes], ...],
) -> tuple[status_pb2.Status, error_details_pb2.ErrorInfo, float | None]:
    ((key, value),) = trailer
    assert key == "grpc-status-details-bin"
    rich = status_pb2.Status.FromString(value)
    info, retry, retry_s = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), None
    for detail in rich.details:
        if detail.Unpack(retry):
            retry_s = retry.retry_delay.ToMilliseconds() / 1000
        else:
            assert detail.Unpack(info)
    return rich, info, retry_s


@pytest.mark.parametrize("kind", kinds())
def test_a_refusal_says_the_same_in_its_code_its_message_and_its_details(
    kind: type[errors.FrontierError],
) -> None:
    code, message, trailer = status.of_error(kind("what is wrong", place="here"))
    rich, info, retry_s = opened(trailer)
    assert (code, message) == (status.CODES[kind], "what is wrong")
    assert (rich.code, rich.message) == (code.value[0], message)
    assert (info.reason, info.domain, dict(info.metadata)) == (kind.reason, "toehold", {"place": "here"})
    assert retry_s == RETRIES_S.get(kind.reason)


def test_only_a_held_crawl_and_an_absent_shard_are_refused_with_a_time_to_try_again() -> None:
    """Schedule answers UNAVAILABLE with a retry hint while a crawl is held, or a shard away."""
    assert status.CODES[errors.CrawlHeld] is status.CODES[errors.ShardAway] is grpc.StatusCode.UNAVAILABLE
    assert {kind.reason: kind.retry_ms / 1000 for kind in kinds() if kind.retry_ms} == RETRIES_S


def test_a_refusal_that_may_be_tried_again_says_when() -> None:
    code, _, trailer = statuses.refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "later", retry_ms=1500
    )
    rich, info, retry_s = opened(trailer)
    assert (code, rich.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 8)
    assert (info.reason, retry_s) == ("OVERLOADED", 1.5)


@pytest.mark.sampled("letter", ["x", "é", "\N{PILE OF POO}", "\n", "%"])
@pytest.mark.sampled("entries", [0, 1, 1000])
def test_no_refusal_is_longer_than_what_arrives(letter: str, entries: int) -> None:
    """gRPC refuses trailers beyond 8 KiB: the message (in percent code) and the details (in base 64)."""
    long = letter * 100_000
    metadata = {f"{number}{letter * 300}": long for number in range(entries)}
    code, message, trailer = status.of_error(errors.InvalidSpec(long, **metadata))
    ((_, value),) = trailer
    percent = sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in message.encode())
    assert percent + len(value) * 4 / 3 < 7_500
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert opened(trailer)[1].reason == "INVALID_SPEC"
