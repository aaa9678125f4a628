"""Schedule, where what memory happens to know must not matter."""

from unittest.mock import patch

import pytest
from core_doubles.codec import candidate
from core_doubles.rows import everything
from core_doubles.shell import Shell
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.journey import intake
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, ScopeSettings
from frontier_server.core.state.model import Candidate, Verdict
from frontier_server.core.uri.canonical import plain_from

HOST = "http://beta.example"


@pytest.mark.parametrize(
    "offer", [candidate(f"{HOST}/", seed=True), candidate(f"{HOST}/", path="R")], ids=["seed", "redirect"]
)
def test_a_seed_brings_its_host_into_scope_though_its_text_is_known(offer: Candidate) -> None:
    """As a restart, which forgets the texts of URIs that have been seen, must make no difference."""
    shell = Shell()
    scope = ScopeSettings(accept_patterns=(f"{HOST}/",))
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), scope=scope))
    shell.launch("crawl", "http://alpha.example/")
    assert shell.schedule("crawl", f"{HOST}/", f"{HOST}/a") == [Verdict.QUEUED, Verdict.OUT_OF_SCOPE]
    assert shell.schedule("crawl", offer) == [Verdict.ALREADY_SEEN]
    assert shell.schedule("crawl", f"{HOST}/a") == [Verdict.QUEUED]


ORIGINS = (
    "http://a.example",
    "https://a.example",
    "http://a.example:81",
    "http://b.example",
    "http://c.test",
)
PATHS = ("/", "/a", "/a/", "/a/b?c", "/x/x/x/x/", "/1/2/3/4/5", "/p/q", "/%7Ea", "/./a", "/a#b", "")
scopes = st.builds(
    ScopeSettings,
    hosts=st.sampled_from([(), ("a.example",), ("a.example", "b.example:80")]),
    surt_prefixes=st.sampled_from(
        [(), ("+http://(example,",), ("-http://(example,a,)/p/", "+http://(test,")]
    ),
    accept_patterns=st.sampled_from([(), (".*b[?]c",)]),
    reject_patterns=st.sampled_from([(), (".*/a",)]),
    schemes=st.sampled_from([("http", "https"), ("http",)]),
    max_link_hops=st.sampled_from([1, 20]),
    max_path_repetitions=st.sampled_from([0, 2]),
    max_path_segments=st.sampled_from([0, 4]),
)
settings = st.builds(
    lambda scope, rules, queues: CrawlSettings(
        allowed_addresses=("loopback",), scope=scope, identity=IdentitySettings(rules=rules), queues=queues
    ),
    scopes,
    st.sampled_from([(), (), ("lower-case",)]),
    st.builds(
        QueueSettings,
        cost=st.sampled_from(["unit", "wag"]),
        queue_precedence=st.sampled_from(["base", "highest-uri"]),
        parallel_queues=st.sampled_from([1, 1, 2]),
    ),
)
offers = st.builds(
    lambda origin, path, hops, seed: candidate(f"{origin}{path}", path=hops, seed=seed),
    st.sampled_from(ORIGINS),
    st.sampled_from(PATHS),
    st.sampled_from(["", "L", "LL", "LLEEEEEEEE", "R", "RR", "Q"]),
    st.sampled_from([False, False, False, True]),
)
OVERRIDES = {"http://(example,a,": b'{"queues":{"queue_key":"forced"}}', "http://(example,b,)/a/": b"{}"}


def override(shell: Shell, prefix: str) -> None:
    shell.do(lambda f, now: f.administration.put_override("crawl", prefix, OVERRIDES[prefix], now))


@given(
    settings,
    st.lists(st.lists(offers, min_size=1, max_size=6), min_size=1, max_size=5),
    st.lists(st.sampled_from(sorted(OVERRIDES)), unique=True),
)
def test_the_short_way_of_a_uri_leads_where_the_long_one_does(
    chosen: CrawlSettings, slices: list[list[Candidate]], overridden: list[str]
) -> None:
    """Verdicts and all that is stored, though origins are known and texts are taken as they are."""
    taken = []
    for short in (True, False):
        shell = Shell()
        shell.create("crawl", chosen)
        for prefix in overridden:
            override(shell, prefix)
        with patch.object(intake, "plain_from", plain_from if short else lambda text: 0):
            verdicts = [shell.schedule("crawl", *offered) for offered in slices]
        taken.append((verdicts, everything(shell.store)))
    assert taken[0] == taken[1]
