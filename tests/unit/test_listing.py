"""Lists that operators page through, where a key has several queues."""

import pytest
from core_doubles.shell import Shell

from frontier_server.core.errors import InvalidRequest
from frontier_server.core.operators import listing
from frontier_server.core.spec.settings import CrawlSettings, QueueSettings

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
    operators = shell.frontier.administration
    assert len(operators.queue("crawl", "bucket-0")) == len(HOSTS)
    for key in ("bucket-0", ""):
        found, cursor = operators.uris("crawl", key, size, b"")
        while cursor:
            page, cursor = operators.uris("crawl", key, size, cursor)
            found += page
        expected = sorted(f"http://{host}/{page}" for host in HOSTS for page in range(3))
        assert sorted(view.candidate.uri for view in found) == expected


def test_a_key_of_more_queues_than_an_answer_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "QUEUES_OF_A_KEY", 4)
    operators = one_bucket().frontier.administration
    with pytest.raises(InvalidRequest, match="more than 4 queues have the key 'bucket-0'"):
        operators.queue("crawl", "bucket-0")
