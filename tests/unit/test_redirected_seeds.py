"""Where a seed's redirect may lead."""

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.model import Verdict

SEED = "http://www.site.example.co.uk/"
TARGETS = {
    "https://www.site.example.co.uk/": True,
    "http://example.co.uk/home": True,
    "http://shop.example.co.uk/": True,
    "http://example.com/": False,
    "http://other.co.uk/": False,
    "http://127.0.0.7/": False,
}


def crawl(within: bool, **scope: object) -> Shell:
    shell = Shell()
    rules = ScopeSettings(seed_redirects_within_domain=within, **scope)  # type: ignore[arg-type]
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), scope=rules))
    shell.launch("crawl", SEED)
    return shell


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(("target", "same"), TARGETS.items())
def test_seed_redirects_within_domain_keeps_redirects_to_other_domains_out_of_scope(
    target: str, same: bool, within: bool
) -> None:
    for hops in ("R", "RRR"):
        shell = crawl(within)
        offered = candidate(target, via=SEED, path=hops, source=SEED)
        is_in = same or not within
        assert shell.schedule("crawl", offered) == [Verdict.QUEUED if is_in else Verdict.OUT_OF_SCOPE]
        link = candidate(f"{target}link", via=target, path=f"{hops}L", source=SEED)
        assert shell.schedule("crawl", link) == [Verdict.QUEUED if is_in else Verdict.OUT_OF_SCOPE]


def test_seed_redirects_within_domain_leaves_hosts_that_other_rules_accept_in_scope() -> None:
    shell = crawl(True, hosts=("example.com",), accept_patterns=("http://127[.]0[.]0[.]7/.*",))
    for target in ("http://example.com/", "http://127.0.0.7/"):
        offered = candidate(target, via=SEED, path="R", source=SEED)
        assert shell.schedule("crawl", offered) == [Verdict.QUEUED]


@pytest.mark.parametrize("source", ["", "no URL"])
def test_a_redirect_without_a_known_seed_does_not_widen_the_scope(source: str) -> None:
    offered = candidate("http://example.com/", via=SEED, path="R", source=source)
    assert crawl(True).schedule("crawl", offered) == [Verdict.OUT_OF_SCOPE]
