"""The tables of docs/fetchers.md say what the programs and the contract say."""

import re
from pathlib import Path
from typing import TypeVar

import grpc

from crawler_node.control import service
from crawler_node.control.handler import ControlRefusal
from frontier_server.core.rows.errors import FrontierError
from frontier_server.wire import status
from toehold.frontier.v1 import crawl_pb2

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs/fetchers.md").read_text()
T = TypeVar("T")
_REFUSED = re.compile(r'Refused\(\s*"([A-Z_]+)"')
_DENIED = re.compile(r'(Unauthenticated|PermissionDenied)\(\s*"([A-Z_]+)"')
_DENIED_CODES = {
    "Unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "PermissionDenied": grpc.StatusCode.PERMISSION_DENIED,
}
_CLOSING = re.compile(r'"(STORE_FAILED|SHUTTING_DOWN)"')


def reasons() -> dict[str, grpc.StatusCode]:
    """Each reason that a program of Toehold gives, with its code."""
    found = {error.reason: status.CODES[error] for error in all_kinds(FrontierError)}
    found |= {refusal.reason: service._CODES[refusal] for refusal in all_kinds(ControlRefusal)}
    for file in (ROOT / "frontier_server").rglob("*.py"):
        text = file.read_text()
        found |= dict.fromkeys(_REFUSED.findall(text), grpc.StatusCode.RESOURCE_EXHAUSTED)
        found |= dict.fromkeys(_CLOSING.findall(text), grpc.StatusCode.UNAVAILABLE)
    for file in (ROOT / "toehold_base/access").glob("*.py"):
        found |= {reason: _DENIED_CODES[kind] for kind, reason in _DENIED.findall(file.read_text())}
    return found


def all_kinds(of: type[T]) -> set[type[T]]:
    """All classes below one."""
    below = of.__subclasses__()
    return {*below, *(kind for each in below for kind in all_kinds(each))}


def test_every_reason_has_a_row_with_its_code() -> None:
    table = MANUAL.partition("<!-- reasons")[2].partition("<!-- /reasons")[0]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+) \|", table, re.MULTILINE))
    assert rows == {reason: code.name for reason, code in reasons().items()}
    assert list(rows) == sorted(rows)


def test_the_contract_names_every_reason() -> None:
    contract = "".join(path.read_text() for path in (ROOT / "protos").rglob("*.proto"))
    assert [reason for reason in reasons() if reason not in contract] == []


def test_every_fetch_status_in_the_table_is_one_of_the_contract() -> None:
    table = MANUAL.partition("## Network errors")[2]
    told = {int(number) for number in re.findall(r"^\| (-[0-9]+) \|", table, re.MULTILINE)}
    assert told <= set(crawl_pb2.FetchStatus.values())
    assert {-1, -2, -3, -4, -5, -7, -10} <= told
