"""Which archived record the next lease of a page names, so that a revisit record can refer to it."""

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell
from msgspec import structs

from frontier_server.core.spec.settings import (
    CrawlSettings,
    IdentitySettings,
    PolitenessSettings,
    RetrySettings,
    RevisitSettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Directive, Grant, Report

PAGE, SPELLED = "http://a.example/page", "http://www.a.example/page"
FIRST_MS, SECOND_MS = 1_700_000_000_123, 1_700_000_500_456
WHOLE = Report(
    b"", fetch_status=200, digest="sha1:A", etag='"1"', last_modified="yesterday", capture_ms=FIRST_MS
)
CHANGED = structs.replace(WHOLE, digest="sha1:B", etag='"2"')
PART = Report(b"", fetch_status=200, truncated="timeTrunc")
NO_ANSWER = -2


class Visited(Shell):
    """A crawl whose page is fetched again and again."""

    def __init__(self, *, conditional: bool = True, rules: tuple[str, ...] = ()) -> None:
        super().__init__()
        settings = CrawlSettings(
            allowed_addresses=("loopback",),
            politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
            robots=RobotsSettings(policy="ignore"),
            retry=RetrySettings(max_attempts=1),
            revisit=RevisitSettings(conditional=conditional),
            identity=IdentitySettings(rules=rules),
            scope=ScopeSettings(accept_patterns=(".*",)),
            run_while_empty=True,
        )
        self.create("crawl", settings)
        self.launch("crawl", "http://seed.example/")
        self.finish(*(Report(grant.token, fetch_status=404) for grant in self.grants("crawl")))

    def lease(self, uri: str = PAGE) -> Grant:
        """A lease of a page, whether it was fetched before or not."""
        self.now_ms += 60_000
        self.schedule("crawl", candidate(uri, directive=Directive.HIGH, refetch_before_ms=self.now_ms))
        (grant,) = self.grants("crawl")
        return grant

    def visit(self, report: Report, uri: str = PAGE) -> None:
        """Lease a page, and report this of it."""
        self.finish(structs.replace(report, token=self.lease(uri).token))


@pytest.mark.sampled(
    ("second", "capture_ms"),
    [
        (structs.replace(CHANGED, capture_ms=SECOND_MS), SECOND_MS),
        (structs.replace(WHOLE, capture_ms=SECOND_MS), SECOND_MS),
        (structs.replace(WHOLE, capture_ms=0), FIRST_MS),
        (Report(b"", fetch_status=304, digest="sha1:A"), FIRST_MS),
        (Report(b"", fetch_status=NO_ANSWER), FIRST_MS),
        (structs.replace(CHANGED, capture_ms=0), 0),
        (structs.replace(PART, digest="sha1:B"), 0),
        (structs.replace(PART, digest="sha1:A"), FIRST_MS),
        (structs.replace(WHOLE, digest="", capture_ms=0), 0),
    ],
)
@pytest.mark.sampled("restarts", [False, True])
def test_lease_names_the_record_that_has_the_page_of_the_last_visit(
    second: Report, capture_ms: int, restarts: bool
) -> None:
    shell = Visited()
    assert shell.lease("http://b.example/").capture_ms == 0
    shell.visit(WHOLE)
    shell.visit(second)
    if restarts:
        shell.restart()
    grant = shell.lease()
    assert (grant.capture_ms, grant.capture_uri) == (capture_ms, PAGE if capture_ms else "")


@pytest.mark.parametrize("digest", ["sha1:A", "sha1:B"])
def test_lease_after_a_part_of_a_page_has_no_validators(digest: str) -> None:
    shell = Visited()
    shell.visit(WHOLE)
    shell.visit(structs.replace(PART, digest=digest))
    grant = shell.lease()
    assert (grant.etag, grant.last_modified) == ("", "")


@pytest.mark.parametrize("rules", [(), ("strip-www",)])
def test_lease_names_the_spelling_that_was_archived(rules: tuple[str, ...]) -> None:
    shell = Visited(rules=rules)
    shell.visit(WHOLE)
    grant = shell.lease(SPELLED)
    assert (grant.uri, grant.capture_uri) == (SPELLED, PAGE if rules else "")


@pytest.mark.parametrize("conditional", [False, True])
def test_lease_has_validators_only_if_requests_are_conditional(conditional: bool) -> None:
    shell = Visited(conditional=conditional)
    shell.visit(WHOLE)
    grant = shell.lease()
    validators = ('"1"', "yesterday") if conditional else ("", "")
    assert (grant.etag, grant.last_modified, grant.last_digest, grant.capture_ms) == (
        *validators,
        "sha1:A",
        FIRST_MS,
    )
