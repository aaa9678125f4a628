"""How long the verdicts of several batches hold."""

import pytest

from toehold.frontier.v1.crawl_pb2 import VERDICT_QUEUED
from toehold_client import Verdicts


@pytest.mark.parametrize(
    ("batches", "versions"),
    [
        ([], (b"", b"")),
        ([(b"1", b"2")], (b"1", b"2")),
        ([(b"1", b"2"), (b"1", b"2")], (b"1", b"2")),
        ([(b"1", b"2"), (b"3", b"2")], (b"", b"2")),
        ([(b"1", b"2"), (b"1", b"3")], (b"1", b"")),
        ([(b"1", b"2"), (b"3", b"2"), (b"1", b"2")], (b"", b"2")),
        ([(b"", b"2"), (b"1", b"2")], (b"", b"2")),
    ],
)
def test_verdicts_of_several_batches_have_the_versions_that_all_have(
    batches: list[tuple[bytes, bytes]], versions: tuple[bytes, bytes]
) -> None:
    verdicts = Verdicts()
    for batch in batches:
        verdicts.take([VERDICT_QUEUED], *batch)
    assert verdicts == [VERDICT_QUEUED] * len(batches)
    assert (verdicts.scope_version, verdicts.seen_version) == versions
