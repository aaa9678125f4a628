"""The router finds the shards of a whole request as the core finds the partition of each URI."""

from core_doubles.placing import PLACES
from hypothesis import example, given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, Rewrite
from frontier_server.core.state.meaning import groups_of
from frontier_server.core.uri.canonical import Malformed, TooLong, UnsupportedScheme, canonical, resolved
from frontier_server.core.uri.identity import identity_of
from frontier_server.router.places import Placing
from toehold.frontier.v1 import frontier_pb2

_HOSTS = st.sampled_from(
    [
        "a.example",
        "b.example",
        "www.a.example",
        "A.example",
        "a.exampl",
        "a.example:81",
        "",
        "127.1",
        "0x7f.1",
    ]
) | st.from_regex(r"([a-z0-9-]{1,3}\.){0,3}(xn--)?[a-z0-9-]{1,3}\.?", fullmatch=True)
_LONG = "x" * 150
_REST = st.sampled_from(
    [
        "",
        "/",
        "/x",
        "?q=/",
        "#/",
        "//",
        "/../y",
        "\\x",
        " /",
        "@b.example/",
        "x/",
        f"/{_LONG}",
        _LONG,
        f"{_LONG}/",
    ]
)
_SCHEMES = st.sampled_from(["http://", "\0http://", "https://", "HTTP://", "http:/", "ftp://", "//", ""])
_TEXTS = st.builds("".join, st.tuples(_SCHEMES, _HOSTS, _REST))
_BASES = st.sampled_from(["", "http://b.example/dir/", "no base"])
_CANDIDATES = st.builds(
    frontier_pb2.Candidate,
    uri=_TEXTS,
    via=_TEXTS,
    path=st.sampled_from(["", "L"]),
    annotations=_TEXTS.map(str.encode),
    base=_BASES,
)
_IDENTITIES = st.sampled_from(
    [
        IdentitySettings(),
        IdentitySettings(rules=("strip-www",)),
        IdentitySettings(rewrites=(Rewrite("a[.]example", "b.example"),)),
    ]
)
_POLICIES = st.sampled_from(["host", "registered-domain"])


def shard_of(partition: bytes) -> int:
    return partition[0]


def shard_of_one(offered: frontier_pb2.Candidate, settings: CrawlSettings) -> int | None:
    """The shard of a candidate; None if any may judge it, since it has no place."""
    whole = resolved(offered.uri, offered.base) if offered.base else offered.uri
    if whole is None:
        return None
    try:
        uri = canonical(whole)
    except (Malformed, TooLong, UnsupportedScheme):
        return None
    identity = identity_of(uri, settings.identity)
    return shard_of(PLACES.of_uri(uri, identity, settings, groups_of(settings)).partition)


@given(st.lists(_CANDIDATES, max_size=30), _IDENTITIES, _POLICIES)
@example(
    [frontier_pb2.Candidate(), frontier_pb2.Candidate(base="http://b.example/dir/")],
    IdentitySettings(),
    "host",
)
@example([frontier_pb2.Candidate(uri="\0http://a.example/")], IdentitySettings(), "host")
@example(
    [frontier_pb2.Candidate(uri=f"http://127.0.0.1/{rest}") for rest in ("x" * 9_000, "")],
    IdentitySettings(),
    "host",
)
def test_a_request_is_split_as_its_uris_are_placed(
    offered: list[frontier_pb2.Candidate], identity: IdentitySettings, partition: str
) -> None:
    settings = CrawlSettings(
        contact="https://example.org/", identity=identity, queues=QueueSettings(partition=partition)
    )
    placing = Placing(settings, PLACES, shard_of)
    data = [candidate.SerializeToString() for candidate in offered]
    for _ in range(2):  # the second time origins are known
        parts = placing.by_shard(data)
        assert all(indexes == sorted(indexes) for indexes in parts.values())
        found = {index: shard for shard, indexes in parts.items() for index in indexes}
        assert sorted(found) == list(range(len(offered)))
        for index, candidate in enumerate(offered):
            assert shard_of_one(candidate, settings) in (None, found[index])
