"""Schedule, where what memory happens to know must not matter."""

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.model import Candidate, Verdict
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings

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
