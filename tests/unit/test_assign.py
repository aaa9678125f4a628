"""Where a URI lives: partition, work queue, fingerprint."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import CrawlSettings, GroupSettings, IdentitySettings, QueueSettings
from frontier_server.core.uri.assign import (
    ASSIGNMENTS,
    PARTITIONS,
    Place,
    fingerprint,
    groups_of,
    hash64,
    partition_of,
    place,
    place_of,
    queue_key,
    registered_domain,
)
from frontier_server.core.uri.canonical import canonical
from frontier_server.core.uri.identity import identity_of


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("http://www.example.com/", "com,example,www,"),
        ("http://example.com:8080/", "com,example,#8080"),
        ("https://www.example.com/", "com,example,www,#443"),
        ("http://localhost/", "localhost,"),
        ("http://127.0.0.1:81/", "127.0.0.1#81"),
        ("https://[::1]/", "[::1]#443"),
        ("http://xn--fa-hia.de/", "de,xn--fa-hia,"),
    ],
)
def test_the_queue_key_is_the_surt_authority(uri: str, key: str) -> None:
    """Heritrix 2.7: labels turned around, `#port` for another port; addresses are not turned."""
    parsed = canonical(uri)
    assert queue_key(parsed.scheme, parsed.host, parsed.authority) == key
    assert place(parsed.scheme, parsed.host, parsed.authority).queue_key == key


def test_http_and_https_of_a_host_are_two_queues_of_one_partition() -> None:
    """D23: a queue waits for no robots.txt but its own."""
    http, https = (place(scheme, "ex.com", "ex.com") for scheme in ("http", "https"))
    assert http.partition == https.partition and http.queue != https.queue


def test_every_scheme_and_authority_has_a_queue_of_its_own() -> None:
    """D23: as each has a robots.txt of its own. (`http://ex.com:443/` is another than `https://ex.com/`.)"""
    sites = [
        (scheme, "ex.com", f"ex.com{port}")
        for scheme in ("http", "https")
        for port in ("", ":80", ":443", ":8080")
        if (scheme, port) not in (("http", ":80"), ("https", ":443"))
    ]
    assert len({place(*site).queue for site in sites}) == len(sites)


hosts = st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){0,3}", fullmatch=True)


@given(hosts, st.sampled_from(["", ":8080", ":1"]), st.sampled_from(["http", "https"]))
def test_a_queue_lies_in_the_partition_of_its_host(host: str, port: str, scheme: str) -> None:
    """The partition is a pure function of the host; queue keys only subdivide it."""
    where = place(scheme, host, host + port)
    assert where.partition == partition_of(host) and len(where.partition) == 8
    assert where.queue[:8] == where.partition and len(where.queue) == 16


@given(st.lists(hosts, min_size=2, max_size=6, unique=True))
def test_hosts_do_not_share_partitions_or_queues(names: list[str]) -> None:
    assert len({partition_of(name) for name in names}) == len(names)
    assert len({place("http", name, name).queue_key for name in names}) == len(names)


def test_hashes_stay_what_they_are() -> None:
    """They are stored: another value would lose every row. BLAKE2b, 8 bytes, no key."""
    assert hash64("").hex() == "e4a6a0577479b2b4"
    assert partition_of("www.example.com") == hash64("www.example.com")
    assert fingerprint(canonical("http://ex.com")) == hash64("http://ex.com/")


# By a crawl's settings.


def placed(uri: str, settings: CrawlSettings | None = None, **queues: Any) -> Place:
    """Where a URI lives in a crawl of these settings."""
    settings = settings or CrawlSettings()
    settings = replace(settings, queues=replace(settings.queues, **queues))
    parsed = canonical(uri)
    return place_of(parsed, identity_of(parsed, settings.identity), settings, groups_of(settings))


@given(hosts, st.sampled_from(["", ":8080", ":443"]), st.sampled_from(["http", "https"]))
def test_by_default_a_place_is_that_of_the_scheme_and_authority(host: str, port: str, scheme: str) -> None:
    uri = canonical(f"{scheme}://{host}{port}/a/b")
    assert placed(uri.uri) == place(uri.scheme, uri.host, uri.authority)


@pytest.mark.parametrize(
    ("assignment", "uri", "key"),
    [
        ("surt-authority", "http://www.example.com/", "com,example,www,"),
        ("surt-authority", "https://www.example.com:8443/", "com,example,www,#8443/https"),
        ("host", "http://www.example.com/", "www.example.com"),
        ("host", "https://www.example.com/", "www.example.com#443"),
        ("host", "http://www.example.com:8080/", "www.example.com#8080"),
        ("host", "http://[::1]/", "[::1]"),
        ("registered-domain", "http://www.example.co.uk/", "example.co.uk"),
        ("registered-domain", "https://www.example.co.uk:8080/", "example.co.uk"),
        ("registered-domain", "http://127.0.0.1:81/", "127.0.0.1"),
        ("buckets", "http://www.example.com/", "bucket-4"),
        ("buckets", "https://www.example.com:8080/a", "bucket-4"),
    ],
)
def test_the_queue_key_is_made_by_the_assignment(assignment: str, uri: str, key: str) -> None:
    """Heritrix 2.7."""
    assert placed(uri, assignment=assignment, buckets=7).queue_key == key


@given(hosts, st.integers(1, 5))
def test_there_are_no_more_buckets_than_that(host: str, buckets: int) -> None:
    key = placed(f"http://{host}/", assignment="buckets", buckets=buckets).queue_key
    assert key in [f"bucket-{number}" for number in range(buckets)]


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("example.com", "example.com"),
        ("co.uk", "co.uk"),
        ("com", "com"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("me.github.io", "github.io"),
        ("a.b.unheard-of", "b.unheard-of"),
        ("www.xn--fa-hia.de", "xn--fa-hia.de"),
        ("a.b.xn--55qx5d.cn", "b.xn--55qx5d.cn"),
    ],
)
def test_the_registered_domain_is_a_public_suffix_and_a_label(host: str, domain: str) -> None:
    """Of the list's ICANN section: who hosts others (github.io) is one domain."""
    assert registered_domain(host) == domain


def test_the_hosts_of_a_domain_share_a_partition_and_by_assignment_a_queue() -> None:
    one, other = "http://a.example.co.uk/", "https://b.example.co.uk/"
    assert placed(one).partition != placed(other).partition
    for assignment, shared in (("surt-authority", False), ("host", False), ("registered-domain", True)):
        settings: dict[str, Any] = {"partition": "registered-domain", "assignment": assignment}
        places = [placed(uri, **settings) for uri in (one, other)]
        assert places[0].partition == places[1].partition == partition_of("example.co.uk")
        assert (places[0].queue == places[1].queue) is shared, assignment


@given(
    hosts,
    hosts,
    st.sampled_from(sorted(PARTITIONS)),
    st.sampled_from(sorted(ASSIGNMENTS)),
    st.sampled_from(["", "forced"]),
    st.sampled_from([1, 3]),
)
def test_a_queue_never_leaves_its_partition(
    one: str, other: str, partition: str, assignment: str, forced: str, parallel: int
) -> None:
    """Architecture, section 9: whatever the key, two partitions have no queue together."""
    queues = QueueSettings(
        partition=partition,
        assignment=assignment,
        queue_key=forced,
        parallel_queues=parallel,
        buckets=2,
    )
    settings = CrawlSettings(queues=queues)
    places = [placed(f"http://{host}/folder/", settings) for host in (one, other)]
    for where in places:
        assert where.queue[:8] == where.partition and len(where.queue) == 16
        assert where.queue[8:] == hash64(where.queue_key)
    if places[0].partition != places[1].partition:
        assert places[0].queue != places[1].queue


def test_a_forced_key_is_the_key_of_all_queues_within_each_partition() -> None:
    """Heritrix 2.7, forceQueueAssignment."""
    one, other = (placed(f"https://{host}.com/", queue_key="slow") for host in "ab")
    assert one.queue_key == other.queue_key == "slow"
    assert one.partition == partition_of("a.com") != other.partition


def test_parallel_queues_keep_a_folder_together() -> None:
    """Heritrix 2.7: by the first segment of the path; without a folder it is the first queue."""
    keys = {
        path: placed(f"http://ex.com/{path}", parallel_queues=5).queue_key
        for path in ("", "page", "page?a/b", "a/", "a/b/c", "a/x?y", "//x")
    }
    for path in ("", "page", "page?a/b", "//x"):
        assert keys[path] == "com,ex,+0"
    assert keys["a/"] == keys["a/b/c"] == keys["a/x?y"]
    many = {placed(f"http://ex.com/{number}/", parallel_queues=5).queue_key for number in range(100)}
    assert many == {f"com,ex,+{number}" for number in range(5)}
    assert placed("http://ex.com/a/", parallel_queues=5, queue_key="slow").queue_key.startswith("slow+")
    assert placed("http://ex.com/a/").queue_key == "com,ex,"


def test_the_same_uris_are_in_one_partition() -> None:
    """Or the seen-set, which is by partition, would not find the other. Queues are those of the hosts."""
    settings = CrawlSettings(identity=IdentitySettings(("strip-www",)))
    one, other = (placed(f"http://{host}/page", settings) for host in ("ex.com", "www.ex.com"))
    assert one.partition == other.partition == partition_of("ex.com")
    assert (one.queue_key, other.queue_key) == ("com,ex,", "com,ex,www,")


GROUPS = (
    GroupSettings("big", ("a.example", "B.example.", "faß.de")),
    GroupSettings("small", ("www.c.example",)),
)


def test_a_group_s_hosts_share_a_partition_of_their_own() -> None:
    settings = CrawlSettings(groups=GROUPS)
    assert groups_of(settings) == {
        "a.example": "big",
        "b.example": "big",
        "xn--fa-hia.de": "big",
        "www.c.example": "small",
    }
    for uri in ("http://a.example/", "https://b.example:8080/x", "http://faß.de/"):
        for partition in PARTITIONS:
            assert placed(uri, settings, partition=partition).partition == partition_of("group:big")
    assert placed("http://www.c.example/", settings).partition == partition_of("group:small")
    assert placed("http://c.example/", settings).partition == partition_of("c.example")
    assert placed("http://a.example/", settings).queue_key == "example,a,"


def test_a_group_has_the_hosts_that_are_the_same_as_its_own() -> None:
    settings = CrawlSettings(groups=GROUPS, identity=IdentitySettings(("strip-www",)))
    for uri in ("http://www.c.example/", "http://www.c.example/page", "http://c.example/page"):
        assert placed(uri, settings).partition == partition_of("group:small")
