"""Link: how long a fetch waits at its connection."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from crawler_node.fetching import connection
from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.connection import DeadlinePassed, HostLink
from toehold_client.worker.addresses import AddressRule

DEADLINE_S = 100.0


def link_at(monkeypatch: pytest.MonkeyPatch, *times_s: float) -> HostLink:
    """A link whose clock shows these times, the last one again and again."""

    def shown() -> Iterator[float]:
        yield from times_s
        while True:
            yield times_s[-1]

    clock = shown()
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    return HostLink(
        Resolver(),
        AddressRule.parse(["loopback"]),
        Cancellation(),
        deadline_s=DEADLINE_S,
        timeout_s=20,
        connect_s=5,
        read_s=5,
        wire_limit=1000,
    )


@pytest.mark.parametrize(("now_s", "patience_s"), [(0.0, 5.0), (94.0, 5.0), (97.0, 3.0)])
def test_a_wait_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, now_s: float, patience_s: float
) -> None:
    assert link_at(monkeypatch, now_s).patience_s(5.0) == patience_s


@pytest.mark.parametrize("now_s", [DEADLINE_S, 101.0])
def test_nobody_waits_behind_the_deadline(monkeypatch: pytest.MonkeyPatch, now_s: float) -> None:
    with pytest.raises(DeadlinePassed):
        link_at(monkeypatch, now_s).patience_s(5.0)


def test_a_deadline_that_passes_while_the_wait_is_reckoned_makes_it_no_endless_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread may be held up between two looks at the clock, and a negative time means no limit to poll."""
    assert link_at(monkeypatch, 99.5, 101.0).patience_s(5.0) == 0.5
