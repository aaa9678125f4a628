"""The router finds the shards of a whole request as it finds that of each URI."""

from core_doubles.placing import PLACES
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, Rewrite
from frontier_server.router.places import Placing
from toehold.frontier.v1 import frontier_pb2

_HOSTS = st.sampled_from(
    ["a.example", "b.example", "www.a.example", "A.example", "a.exampl", "a.example:81", ""]
)
_REST = st.sampled_from(["", "/", "/x", "?q=/", "#/", "//", "/../y", "\\x", " /", "@b.example/", "x/"])
_SCHEMES = st.sampled_from(["http://", "https://", "HTTP://", "http:/", "ftp://", "//", ""])
_TEXTS = st.builds("".join, st.tuples(_SCHEMES, _HOSTS, _REST))
_BASES = st.sampled_from(["", "http://b.example/dir/", "no base"])
_REWRITTEN = IdentitySettings(rewrites=(Rewrite("a[.]example", "b.example"),))


def shard_of(partition: bytes) -> int:
    return partition[0]


@given(st.lists(st.tuples(_TEXTS, _BASES), max_size=30), st.sampled_from([IdentitySettings(), _REWRITTEN]))
def test_a_request_is_split_as_its_uris_are_placed(
    offered: list[tuple[str, str]], identity: IdentitySettings
) -> None:
    settings = CrawlSettings(contact="https://example.org/", identity=identity)
    placing, alone = Placing(settings, PLACES, shard_of), Placing(settings, PLACES, shard_of)
    candidates = [frontier_pb2.Candidate(uri=uri, base=base) for uri, base in offered]
    expected: dict[int, list[int]] = {}
    for index, (uri, base) in enumerate(offered):
        expected.setdefault(alone.shard(uri, base), []).append(index)
    for _ in range(2):  # the second time origins are known
        assert placing.by_shard(candidates) == expected
