"""Where a URI lives: partition, work queue, fingerprint."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.placing import PLACES, SUFFIXES
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import CrawlSettings, GroupSettings, IdentitySettings, QueueSettings
from frontier_server.core.uri.assign import (
    ASSIGNMENTS,
    PARTITIONS,
    Place,
    Places,
    fingerprint,
    groups_of,
    hash64,
    queue_key,
)
from frontier_server.core.uri.canonical import canonical
from frontier_server.core.uri.identity import RULES, identity_of
from frontier_server.core.uri.suffixes import Suffixes, packed

OLDER = Places(Suffixes(SUFFIXES), by_site=False)  # of stores from before format 3


def placed(uri: str, settings: CrawlSettings | None = None, places: Places = PLACES, **queues: Any) -> Place:
    """Where a URI lives in a crawl of these settings."""
    settings = settings or CrawlSettings()
    settings = replace(settings, queues=replace(settings.queues, **queues))
    parsed = canonical(uri)
    return places.of_uri(parsed, identity_of(parsed, settings.identity), settings, groups_of(settings))


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
    assert placed(uri).queue_key == key


def test_http_and_https_of_a_host_are_two_queues_of_one_partition() -> None:
    """D23: a queue waits for no robots.txt but its own."""
    http, https = (placed(f"{scheme}://ex.com/") for scheme in ("http", "https"))
    assert http.partition == https.partition and http.queue != https.queue


def test_every_scheme_and_authority_has_a_queue_of_its_own() -> None:
    """D23: as each has a robots.txt of its own. (`http://ex.com:443/` is another than `https://ex.com/`.)"""
    origins = [
        f"{scheme}://ex.com{port}/"
        for scheme in ("http", "https")
        for port in ("", ":80", ":443", ":8080")
        if (scheme, port) not in (("http", ":80"), ("https", ":443"))
    ]
    assert len({placed(origin).queue for origin in origins}) == len(origins)


hosts = st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){0,3}", fullmatch=True)


@given(hosts, st.sampled_from(["", ":8080", ":1"]), st.sampled_from(["http", "https"]))
def test_a_queue_lies_in_the_partition_of_its_host(host: str, port: str, scheme: str) -> None:
    """The partition is a pure function of the host; queue keys only subdivide it."""
    where = placed(f"{scheme}://{host}{port}/")
    assert where.partition == PLACES.of_host(host) and len(where.partition) == 8
    assert where.queue[:8] == where.partition and len(where.queue) == 16


@given(st.lists(hosts, min_size=2, max_size=6, unique=True))
def test_hosts_do_not_share_partitions_or_queues(names: list[str]) -> None:
    assert len({PLACES.of_host(name) for name in names}) == len(names)
    assert len({placed(f"http://{name}/").queue_key for name in names}) == len(names)


def test_hashes_stay_what_they_are() -> None:
    """They are stored: another value would lose every row. BLAKE2b, 8 bytes, no key."""
    assert hash64("").hex() == "e4a6a0577479b2b4"
    assert OLDER.of_host("www.example.com") == hash64("www.example.com")
    assert PLACES.of_host("www.example.com") == hash64("example.com")[:2] + hash64("www.example.com")[2:]
    assert fingerprint(canonical("http://ex.com")) == hash64("http://ex.com/")


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
    assert PLACES.suffixes.registered_domain(host) == domain


def test_the_hosts_of_a_domain_share_a_partition_and_by_assignment_a_queue() -> None:
    one, other = "http://a.example.co.uk/", "https://b.example.co.uk/"
    assert placed(one).partition != placed(other).partition
    for assignment, shared in (("surt-authority", False), ("host", False), ("registered-domain", True)):
        settings: dict[str, Any] = {"partition": "registered-domain", "assignment": assignment}
        places = [placed(uri, **settings) for uri in (one, other)]
        assert places[0].partition == places[1].partition == PLACES.of_host("example.co.uk")
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
    assert one.partition == PLACES.of_host("a.com") != other.partition


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
    assert one.partition == other.partition == PLACES.of_host("ex.com")
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
            assert placed(uri, settings, partition=partition).partition == hash64("group:big")
    assert placed("http://www.c.example/", settings).partition == hash64("group:small")
    assert placed("http://c.example/", settings).partition == PLACES.of_host("c.example")
    assert placed("http://a.example/", settings).queue_key == "example,a,"


def test_a_group_has_the_hosts_that_are_the_same_as_its_own() -> None:
    settings = CrawlSettings(groups=GROUPS, identity=IdentitySettings(("strip-www",)))
    for uri in ("http://www.c.example/", "http://www.c.example/page", "http://c.example/page"):
        assert placed(uri, settings).partition == hash64("group:small")


HOSTS = (
    *("ex.com", "www.ex.com", "www2.ex.com", "a.b.ex.com", "www.a.b.ex.com", "www.www.ex.com"),
    *("ex.co.uk", "www.ex.co.uk", "co.uk", "www.co.uk", "com", "www.com", "www7.com"),
    *("github.io", "www.github.io", "a.github.io", "www.a.github.io", "b.github.io"),
    *("city.kawasaki.jp", "www.city.kawasaki.jp", "a.kawasaki.jp", "www.a.kawasaki.jp", "a.b.ck", "www.ck"),
    *("localhost", "www.localhost", "127.0.0.1", "[::1]", "a.unheard-of", "www.a.unheard-of", "www"),
    *("faß.de", "www.faß.de", "食狮.公司.cn", "www.食狮.公司.cn"),
)
PATHS = ("/", "/a", "/A?b", "/p/;jsessionid=0123456789abcdef0123456789abcdef", "/x//y?&", "/%7Ea")
uris = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", ":8080"]),
    st.sampled_from(PATHS),
)
SLOTS = 12  # bits


def slot(where: Place) -> int:
    """The first bits of a partition, which a shard has a range of."""
    return int.from_bytes(where.partition[:2]) >> 16 - SLOTS


@given(
    uris,
    uris,
    st.lists(st.sampled_from(sorted(RULES)), max_size=3),
    st.sampled_from(sorted(PARTITIONS)),
    st.sampled_from(sorted(ASSIGNMENTS)),
    st.sampled_from([(), GROUPS, (GroupSettings("g", ("ex.com", "www.co.uk", "a.github.io")),)]),
)
def test_uris_with_a_host_queue_or_identity_in_common_share_a_slot(
    one: str,
    other: str,
    rules: list[str],
    partition: str,
    assignment: str,
    groups: tuple[GroupSettings, ...],
) -> None:
    """Two URIs that share a host, a queue, or an identity within a site: one shard must decide on both."""
    settings = CrawlSettings(
        identity=IdentitySettings(tuple(rules)),
        groups=groups,
        queues=QueueSettings(partition=partition, assignment=assignment),
    )
    places = [placed(uri, settings) for uri in (one, other)]
    hosts_of = [canonical(uri).host for uri in (one, other)]
    identities = [identity_of(canonical(uri), settings.identity) for uri in (one, other)]
    if hosts_of[0] == hosts_of[1] or identities[0] == identities[1] or places[0].queue == places[1].queue:
        assert slot(places[0]) == slot(places[1])
    if partition == "host" and not groups:  # a host's own rows are beside those of its URIs
        assert places[0].partition[:2] == PLACES.of_host(hosts_of[0])[:2]


@pytest.mark.sampled("path", ["/", "/a"])
@pytest.mark.sampled("rule", ["strip-www", "heritrix"])
@pytest.mark.sampled("host", ["www.example.com", "www.co.uk", "www.github.io", "www.com"])
def test_a_home_page_shares_the_slot_of_the_other_pages_of_its_host(host: str, rule: str, path: str) -> None:
    settings = CrawlSettings(identity=IdentitySettings((rule,)))
    page = placed(f"https://{host}/page", settings)
    assert slot(placed(f"https://{host}{path}", settings)) == slot(page)


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("a.b.example.co.uk", "example.co.uk"),
        ("me.github.io", "me.github.io"),
        ("x.me.github.io", "me.github.io"),
        ("www.github.io", "github.io"),
        ("www.me.github.io", "me.github.io"),
        ("www.co.uk", "co.uk"),
        ("www.www2.co.uk", "co.uk"),
        ("www", "www"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_site_is_a_registered_domain_by_the_whole_list(host: str, site: str) -> None:
    assert PLACES.suffixes.site(host) == site


def test_another_list_moves_no_place_of_a_store_that_keeps_its_own() -> None:
    text = "// ===BEGIN ICANN DOMAINS===\nuk\nco.uk\n{}// ===END ICANN DOMAINS===\n"
    one, other = (Places(Suffixes(packed(text.format(more)))) for more in ("", "city.uk\n"))
    uri, settings = "http://a.city.uk/", CrawlSettings(queues=QueueSettings("registered-domain"))
    assert placed(uri, settings, one) != placed(uri, settings, other)
    assert placed(uri, settings, Places(Suffixes(one.suffixes.packed))) == placed(uri, settings, one)


def test_a_packed_list_says_what_the_installed_one_says() -> None:
    installed = Suffixes()
    for host in HOSTS:
        name = canonical(f"http://{host}/").host
        assert PLACES.suffixes.registered_domain(name) == installed.registered_domain(name)
        assert PLACES.suffixes.site(name) == installed.site(name)


def test_a_store_from_before_format_3_keeps_its_places() -> None:
    settings = CrawlSettings(identity=IdentitySettings(("strip-www",)))
    assert placed("http://www.ex.com/", settings, OLDER).partition == hash64("www.ex.com")
    assert placed("http://www.ex.com/a", settings, OLDER).partition == hash64("ex.com")
    by_domain = placed("http://www.ex.co.uk/a", places=OLDER, partition="registered-domain")
    assert by_domain.partition == hash64("ex.co.uk")
