"""Lists that operators page through, where a key has several queues."""

import pytest
from core_doubles.shell import Shell

from frontier_server.core.journey import named_queues
from frontier_server.core.operators import listing
from frontier_server.core.rows.errors import InvalidRequest
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings
from frontier_server.core.state.model import Report

HOSTS = [f"h{number}.example" for number in range(5)]


def one_bucket() -> Shell:
    """A crawl whose hosts all have the key `bucket-0`, each in a partition of its own."""
    shell = Shell()
    queues = QueueSettings(assignment="buckets", buckets=1)
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), queues=queues))
    shell.launch("crawl", *(f"http://{host}/{page}" for host in HOSTS for page in range(3)))
    return shell


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_the_uris_of_all_queues_of_a_key_are_listed_once_each(size: int) -> None:
    shell = one_bucket()
    operators = shell.core.administration
    assert len(operators.queue("crawl", "bucket-0")) == len(HOSTS)
    for key in ("bucket-0", ""):
        found, cursor = operators.uris("crawl", key, size, b"")
        while cursor:
            page, cursor = operators.uris("crawl", key, size, cursor)
            found += page
        expected = sorted(f"http://{host}/{page}" for host in HOSTS for page in range(3))
        assert sorted(view.candidate.uri for view in found) == expected


def test_a_key_of_more_queues_than_an_answer_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_queues, "QUEUES_OF_A_KEY", 4)
    operators = one_bucket().core.administration
    with pytest.raises(InvalidRequest, match="more than 4 queues have the key 'bucket-0'"):
        operators.queue("crawl", "bucket-0")


def test_the_slowest_queues_are_those_that_wake_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that rest; one that was woken, or is fetched from again, does not."""
    monkeypatch.setattr(listing, "SLOWEST_QUEUES", 3)
    shell = Shell()
    politeness = PolitenessSettings(delay_factor=1, min_delay_ms=1, max_delay_ms=10_000)
    settings = CrawlSettings(allowed_addresses=("loopback",), politeness=politeness)
    shell.create("crawl", settings)
    shell.launch("crawl", *(f"http://h{number}/" for number in range(6)))
    took_ms = {"h0,": 4_000, "h1,": 9_000, "h2,": 1, "h3,": 8_000, "h4,": 7_000}
    grants = [grant for grant in shell.grants() if grant.queue_key in took_ms]
    reports = [Report(g.token, fetch_status=404, duration_ms=took_ms[g.queue_key]) for g in grants]
    shell.finish(*reports)
    slowest = shell.core.administration.slowest_queues("crawl")
    assert [view.key for view in slowest] == ["h1,", "h3,", "h4,"]
    assert [view.wake_ms - shell.now_ms for view in slowest] == [9_000, 8_000, 7_000]
    shell.now_ms += 8_000
    shell.tick()
    assert [view.key for view in shell.core.administration.slowest_queues("crawl")] == ["h1,"]
