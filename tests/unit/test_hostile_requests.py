"""Whatever a request's fields hold, the core answers; a failure of an operation would end the server."""

from collections.abc import Callable
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.placing import PLACES
from core_doubles.shell import SECRET, Shell
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from frontier_server import wire
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.report_problems import MAX_ANNOTATION_CHARACTERS, MAX_ANNOTATIONS
from frontier_server.core.robotstxt.robots import MAX_BODY_BYTES
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import InvalidName, InvalidRequest
from frontier_server.core.rows.keys import FetchStatisticsOf
from frontier_server.core.rows.records import CountersRow, FetchStatisticsRow, QueueRow, decode, encode
from frontier_server.core.rows.store import Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, ScopeSettings
from frontier_server.core.state.model import Candidate, Grant, Report, Verdict
from frontier_server.core.state.queue import QueueState
from frontier_server.core.uri.assign import hash64

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LONG = st.builds(lambda seconds: seconds * 1_000, INT64)  # a Duration or Timestamp, in milliseconds
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
FAR_MS = (2**63 - 1) * 1_000
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)


def crawl() -> Shell:
    """A crawl that runs, with two hosts."""
    shell = Shell()
    scope = ScopeSettings(hosts=("alpha.example",))
    settings = CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK, scope=scope)
    shell.create("crawl", settings)
    shell.launch("crawl", "http://alpha.example/", "http://beta.example/", "http://alpha.example/two")
    return shell


def page(shell: Shell) -> Grant:
    """A lease of a page."""
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    return shell.grants(most=1)[0]


def refused(shell: Shell, report: Report) -> str:
    """The problem of a report that makes no sense; nothing has changed, and the lease goes on."""
    before = shell.core.views.statistics("crawl", shell.now_ms)
    (result,) = shell.finish(report)
    assert result.disposition is Disposition.INVALID_REPORT and not result.repeated
    assert shell.core.views.statistics("crawl", shell.now_ms) == before
    (result,) = shell.finish(Report(report.token, fetch_status=200))
    assert result.disposition is Disposition.SUCCEEDED
    return shell_problem(report, shell)


def shell_problem(report: Report, shell: Shell) -> str:
    """What is told of such a report of another lease."""
    (result,) = shell.finish(structs.replace(report, token=shell.grants(most=1)[0].token))
    return result.problem


@pytest.mark.parametrize("robots", [True, False])
def test_a_report_repeats_another_only_if_its_token_says_the_same(robots: bool) -> None:
    """Serials come again once an older copy of the store was put back; the queue may be another."""
    shell = crawl()
    grant = shell.grants(most=1)[0] if robots else page(shell)
    shell.finish(Report(grant.token, fetch_status=200))
    (result,) = shell.finish(Report(grant.token, fetch_status=200))
    assert (result.disposition, result.repeated) == (Disposition.SUCCEEDED, True)
    token = keys.decode_token(grant.token, SECRET)
    assert token is not None and token.robots is robots
    for other in (
        token._replace(crawl=token.crawl + 1),
        token._replace(partition=hash64("other")),
        token._replace(serial=token.serial + 1),
        token._replace(fingerprint=hash64("other")),
    ):
        (result,) = shell.finish(Report(keys.encode_token(other, SECRET), fetch_status=200))
        assert (result.disposition, result.repeated) == (Disposition.STALE, False), other


MANY = tuple(f"remark{number}" for number in range(MAX_ANNOTATIONS + 1))


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (Report(b""), "FetchStatus, got 0"),
        (Report(b"", fetch_status=99), "99"),
        (Report(b"", fetch_status=1000), "1000"),
        (Report(b"", fetch_status=-12), "-12"),
        (Report(b"", fetch_status=200, duration_ms=-1), "-1"),
        (Report(b"", fetch_status=200, duration_ms=86_400_001), "86400001"),
        (Report(b"", fetch_status=200, body_bytes=-5), "-5"),
        (Report(b"", fetch_status=200, body_bytes=2**50 + 1), str(2**50 + 1)),
        (Report(b"", fetch_status=200, body_bytes=2**63 - 1), str(2**50)),
        (Report(b"", fetch_status=200, retry_after_ms=-7), "-7"),
        (Report(b"", fetch_status=200, robots_body=b"x"), "robots_body"),
        (Report(b"", fetch_status=200, robots_empty=True), "robots_empty"),
        (Report(b"", fetch_status=200, annotations=MANY), str(MAX_ANNOTATIONS + 1)),
        (Report(b"", fetch_status=200, annotations=("",)), "''"),
        (Report(b"", fetch_status=200, annotations=("a b",)), "'a b'"),
        (Report(b"", fetch_status=200, annotations=("a,b",)), "'a,b'"),
        (Report(b"", fetch_status=200, annotations=("a\nb",)), "a"),
        (Report(b"", fetch_status=200, annotations=("a" * (MAX_ANNOTATION_CHARACTERS + 1),)), "aaa"),
        (
            Report(b"", fetch_status=200, connections=101),
            "must be between 0 and 100, got 101",
        ),
        (Report(b"", fetch_status=200, tls_handshakes=-1), "tls_handshake_count must be between 0 and 100"),
        (Report(b"", fetch_status=200, kept_connections=-1), "kept_connection_count must be between 0 and"),
        (Report(b"", fetch_status=200, media_type="t" * 257), "256"),
        (Report(b"", fetch_status=200, digest="d" * 257), "256"),
        (Report(b"", fetch_status=200, problem="outcome 9 is none"), "outcome 9 is none"),
    ],
)
def test_a_report_that_makes_no_sense_is_told_why_and_changes_nothing(report: Report, told: str) -> None:
    """INVALID_REPORT names the value; the lease goes on."""
    shell = crawl()
    assert told in refused(shell, structs.replace(report, token=page(shell).token))


@pytest.mark.parametrize(
    "report",
    [
        Report(b"", fetch_status=200, start_ms=FAR_MS),
        Report(b"", fetch_status=200, start_ms=-FAR_MS),
        Report(b"", fetch_status=200, duration_ms=FAR_MS),
        Report(b"", fetch_status=503, retry_after_ms=FAR_MS),
        Report(b"", fetch_status=200, body_bytes=2**63 - 1),
        Report(b"", fetch_status=200, toe_number=-(2**31)),
    ],
    ids=["start", "early start", "duration", "retry-after", "bytes", "toe"],
)
def test_numbers_beyond_all_measure_end_nothing(report: Report) -> None:
    """`Timestamp`, `Duration` and int64 hold more milliseconds and bytes than a row can."""
    shell = crawl()
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    grants = shell.grants()
    shell.schedule("crawl", *(f"http://alpha.example/{number}" for number in range(3)))
    for _ in range(3):
        results = shell.finish(*(structs.replace(report, token=grant.token) for grant in grants))
        assert all(result.disposition is not Disposition.UNKNOWN_TOKEN for result in results)
        shell.now_ms += 86_400_000
        shell.restart()
        grants = shell.grants() or grants


def test_one_node_cannot_end_the_server_with_the_sizes_that_it_reports() -> None:
    """Three pages of one host and one seed, each said to have 2**63 - 1 bytes: the sums of host, source and
    crawl stay what a row and the contract hold, also for those who repeat the report after a restart."""
    shell = crawl()
    shell.schedule("crawl", *(f"http://alpha.example/{number}" for number in range(3)))
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    for _ in range(5):
        (grant, *_) = shell.grants(most=1)
        shell.finish(Report(grant.token, fetch_status=200, body_bytes=2**63 - 1))
        shell.finish(Report(grant.token, fetch_status=200, body_bytes=2**50))
        shell.restart()
        told_of_all(shell)
    assert shell.count("crawl", "succeeded_count") == 5


# Sums of queues and crawls, and who adds to them.
FULL = (1 << 63) - 1


def told_of_all(shell: Shell) -> None:
    """Figures of hosts, sources, queues and the crawl fit the contract."""
    core = shell.core
    for kind in FetchStatisticsOf:
        for view in core.administration.fetch_statistics("crawl", kind, 100, b"")[0]:
            wire.fetch_statistics(view)
    for queue in core.administration.queues("crawl", None, 100, b"")[0]:
        wire.queue(queue)
    wire.statistics(core.views.statistics("crawl", shell.now_ms))
    for number, row in core.history.events_after("crawl", 0):
        if row.kind != "operator_acted":
            wire.event(number, row)


@pytest.mark.parametrize("stored", [FULL, 2**64 - 1], ids=["the largest sum", "the largest that a row holds"])
def test_a_store_whose_sums_are_at_their_end_opens_and_goes_on(stored: int) -> None:
    """Such rows were written before sizes were bounded and sums had an end."""
    shell = crawl()
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    fill_statistics(shell, stored)
    fill_sums(shell)
    shell.restart()
    told_of_all(shell)
    for status in (200, 404, -4, -2):
        shell.schedule("crawl", f"http://alpha.example/{status}")
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=status, body_bytes=2**50, digest=str(status)))
        shell.now_ms += 86_400_000
        shell.tick()
        shell.restart()
        told_of_all(shell)
    assert shell.count("crawl", "bytes_count") == shell.count("crawl", "novel_bytes_count") == FULL
    (host,) = shell.core.administration.fetch_statistics("crawl", FetchStatisticsOf.HOST, 1, b"")[0]
    assert (host.row.success_bytes, host.row.response_bytes, host.row.novel_bytes) == (FULL, FULL, FULL)
    (queue,) = shell.core.administration.queue("crawl", "example,alpha,")
    assert queue.expenditure == FULL


def fill_statistics(shell: Shell, stored: int) -> None:
    """Let hosts and sources have so many bytes."""
    full = FetchStatisticsRow(success_bytes=FULL, response_bytes=FULL, novel_bytes=FULL)
    value = encode(full).replace(FULL.to_bytes(8, "big"), stored.to_bytes(8, "big"))
    number = shell.core.views.crawl("crawl").number
    for kind, name in (
        (FetchStatisticsOf.HOST, "alpha.example"),
        (FetchStatisticsOf.SOURCE, "http://alpha.example/"),
        (FetchStatisticsOf.SOURCE, "http://beta.example/"),
    ):
        partition = PLACES.of_host(name) if kind is FetchStatisticsOf.HOST else hash64(name)
        key = keys.statistics_key(number, kind, partition, name)
        shell.store.write({(Family.FETCH_STATISTICS, key): value})


def fill_sums(shell: Shell) -> None:
    """Let the crawl and its queues have fetched and spent as much as can be counted."""
    number = shell.core.views.crawl("crawl").number
    counters_key = keys.crawl_key(number, keys.CrawlRow.COUNTERS)
    counters = decode(CountersRow, shell.store.get(Family.CRAWLS, counters_key) or b"")
    counters.bytes = counters.novel_bytes = FULL
    shell.store.write({(Family.CRAWLS, counters_key): encode(counters)})
    prefix = keys.crawl_prefix(number)
    for key, value in list(shell.store.scan(Family.QUEUES, prefix, prefix)):
        row = decode(QueueRow, value)
        row.expenditure = row.session_start = row.total_cost = FULL
        shell.store.write({(Family.QUEUES, key): encode(row)})


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "released": st.booleans(),
    "fetch_status": st.one_of(INT32, st.sampled_from([503, -1, -50, -7])),
    "start_ms": LONG,
    "duration_ms": LONG,
    "body_bytes": INT64,
    "truncated": st.sampled_from(["lenTrunc", "timeTrunc"]),
    "media_type": TEXT,
    "digest": TEXT,
    "retry_after_ms": LONG,
    "robots_body": st.binary(max_size=20),
    "robots_empty": st.booleans(),
    "toe_number": INT32,
    "annotations": st.lists(TEXT, max_size=3).map(tuple),
    "etag": TEXT,
    "last_modified": TEXT,
    "retire_queue": st.booleans(),
    "revisit_ms": LONG,
    "peer_address": TEXT,
}
SOUND = Report(b"", fetch_status=200)
reports = st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names}).map(
        lambda changes: structs.replace(SOUND, **changes)
    )
)


@given(st.lists(reports, min_size=1, max_size=4))
def test_no_report_fails_the_request_whatever_its_fields_hold(sent: list[Report]) -> None:
    shell = crawl()
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    for report in sent:
        for grant in shell.grants():
            (result,) = shell.finish(structs.replace(report, token=grant.token))
            assert (result.disposition is Disposition.INVALID_REPORT) == bool(result.problem)
        shell.now_ms += 86_400_000
        shell.restart()
        shell.tick()


def test_a_robots_txt_larger_than_may_be_sent_is_refused() -> None:
    shell = crawl()
    (grant,) = shell.grants(most=1)
    (result,) = shell.finish(Report(grant.token, fetch_status=200, robots_body=b"x" * (MAX_BODY_BYTES + 1)))
    assert result.disposition is Disposition.INVALID_REPORT and str(MAX_BODY_BYTES) in result.problem


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (Report(b"", fetch_status=404, robots_empty=True), "200 and 299 with robots_empty, got 404"),
        (Report(b"", fetch_status=-2, robots_empty=True), "200 and 299 with robots_empty, got -2"),
        (
            Report(b"", fetch_status=200, robots_body=b"x", robots_empty=True),
            "robots_body must be empty with robots_empty, got 1 bytes",
        ),
    ],
)
def test_a_robots_txt_that_is_told_to_be_empty_and_is_not_is_refused(report: Report, told: str) -> None:
    shell = crawl()
    (grant,) = shell.grants(most=1)
    (result,) = shell.finish(structs.replace(report, token=grant.token))
    assert result.disposition is Disposition.INVALID_REPORT and told in result.problem


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            200,
            "robots_body must not be empty with fetch_status 200; set robots_empty if the file is empty",
        ),
        (206, "robots_body must not be empty with fetch_status 206"),
        (301, "must not be a redirect, got 301; report redirects that lead nowhere as -404"),
        (304, "fetch_status of a robots.txt must not be a redirect, got 304"),
    ],
)
def test_a_robots_txt_that_was_lost_on_the_way_allows_nothing(status: int, told: str) -> None:
    """A body that could not be decoded, or a redirect that was not followed: the lease goes on."""
    shell = crawl()
    (grant,) = shell.grants(most=1)
    lost = [Report(grant.token, fetch_status=status)]
    (result,) = shell.do(lambda core, now: core.frontier.finished(lost, "node", "1", now))
    assert result.disposition is Disposition.INVALID_REPORT and told in result.problem
    (result,) = shell.finish(Report(grant.token, fetch_status=-404))
    assert result.disposition is Disposition.FAILED
    (page, *_) = shell.grants()
    assert page.uri == "http://alpha.example/"


uris = st.one_of(
    TEXT,
    st.builds(lambda rest: f"http://alpha.example/{rest}", TEXT),
    st.builds(lambda length: "http://alpha.example/" + "é" * length, st.integers(0, 9_000)),
)
candidates = st.builds(
    lambda uri, via, path, directive, precedence, seed, before, annotations, cost, source: candidate(
        uri,
        via=via,
        path=path,
        directive=directive,
        precedence=precedence,
        seed=seed,
        refetch_before_ms=before,
        annotations=annotations,
        cost=cost,
        source=source,
    ),
    uris,
    st.one_of(TEXT, st.just("v" * 8_193)),
    st.one_of(st.text(alphabet="LEXRIMPS", max_size=8), TEXT, st.just("L" * 2_049)),
    st.one_of(st.just(4), INT32),
    st.one_of(st.none(), INT32),
    st.booleans(),
    st.one_of(st.none(), st.integers(-FAR_MS, FAR_MS)),
    st.one_of(st.binary(max_size=20), st.just(b"a" * 1_025)),
    st.one_of(st.none(), INT32),
    st.one_of(TEXT, st.just("s" * 8_193)),
)


@given(st.lists(candidates, min_size=1, max_size=8))
def test_nothing_inside_a_candidate_can_fail_the_request(offered: list[Candidate]) -> None:
    """Each gets a verdict; what is queued can be leased, fetched and is never lost."""
    shell = crawl()
    verdicts = shell.schedule("crawl", *offered)
    assert len(verdicts) == len(offered)
    known = shell.count("crawl", "queued_count")
    assert known == 3 + verdicts.count(Verdict.QUEUED)
    for _ in range(2 * known + 2):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=200))
        shell.restart()
    assert shell.count("crawl", "succeeded_count") == known


@pytest.mark.parametrize(
    "name",
    ["", "A", "-a", ".a", "..", "a b", "a/b", "é", "a" * 65, "a\n", "_a", "\ud800", "a" * 1_000_000],
)
def test_a_name_that_cannot_be_a_crawls_is_refused(name: str) -> None:
    """1 to 64 of a-z 0-9 - _ ., first a letter or digit: it is a folder's name as well."""
    shell = Shell()
    with pytest.raises(InvalidName) as told:
        shell.create(name, CrawlSettings(allowed_addresses=("loopback",)))
    assert len(str(told.value)) < 300


@given(st.binary(max_size=40), st.sampled_from([None, *QueueState]))
def test_any_bytes_are_a_cursor_or_refused_as_none(cursor: bytes, state: QueueState | None) -> None:
    """A page behind them, never what is another crawl's; a cursor that no page had is told."""
    shell = crawl()
    shell.create("other", CrawlSettings(allowed_addresses=("loopback",)))
    shell.launch("other", "http://other.example/")
    shell.grants("crawl", most=1)
    admin = shell.core.administration
    shown: list[str] = []
    asked: list[Callable[[], list[str]]] = [
        lambda: [queue.host for queue in admin.queues("crawl", state, 10, cursor)[0]],
        lambda: [uri.queue_key for uri in admin.uris("crawl", "", 10, cursor)[0]],
        lambda: [
            host.name for host in admin.fetch_statistics("crawl", FetchStatisticsOf.HOST, 10, cursor)[0]
        ],
    ]
    for ask in asked:
        try:
            shown += ask()
        except InvalidRequest as told:
            assert cursor and told.metadata == {"field": "page_token"}
    assert set(shown) <= {"alpha.example", "beta.example", "example,alpha,", "example,beta,"}


# What operators send.

changes = st.builds(
    QueueChange,
    precedence=st.none() | INT64,
    session_budget=st.none() | INT64,
    total_budget=st.none() | INT64,
    paused=st.none() | st.booleans(),
    retired=st.none() | st.booleans(),
    wake=st.booleans(),
)


@given(st.lists(changes, max_size=4))
def test_any_change_of_a_queue_is_made_or_refused(asked: list[QueueChange]) -> None:
    """And whatever was made, the crawl goes on, and a restart finds the same."""
    shell = crawl()
    for change in asked:
        try:
            shell.do(
                lambda core, now, change=change: core.administration.change_queue(  # type: ignore[misc]
                    "crawl", "example,alpha,", change, now
                )
            )
        except InvalidRequest as told:
            assert told.metadata["field"]
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=200))
        (live,) = shell.core.administration.queue("crawl", "example,alpha,")
        (stored,) = shell.build().administration.queue("crawl", "example,alpha,")
        assert (live.precedence, live.total_budget, live.paused) == (
            stored.precedence,
            stored.total_budget,
            stored.paused,
        )
