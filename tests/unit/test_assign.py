"""Where a URI lives: partition, work queue, fingerprint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.assign import fingerprint, hash64, hash64_bytes, partition_of, place, queue_key
from frontier_server.core.canonical import canonical


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
    assert hash64("http://ex.com/") == hash64_bytes(b"http://ex.com/")
    assert partition_of("www.example.com") == hash64("www.example.com")
    assert fingerprint(canonical("http://ex.com")) == hash64("http://ex.com/")
