"""A spider's settings, and how it finds or creates its crawl."""

from pathlib import Path
from typing import Any

import pytest
from frontier_harness.access import Installation
from frontier_harness.calls import fresh_name
from frontier_harness.process import ServerProcess
from scrapy.settings import Settings

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState
from toehold_cli.main import run
from toehold_client import CrawlController, Credentials, FrontierClient
from toehold_scrapy.configuration import Configuration, Misconfigured
from toehold_scrapy.enrolment import CannotJoin, join


def configuration(**settings: Any) -> Configuration:
    return Configuration.of(Settings({"TOEHOLD_FRONTIER": "127.0.0.1:1", "TOEHOLD_CRAWL": "c", **settings}))


@pytest.fixture
def name() -> str:
    return fresh_name()


def test_a_crawl_that_does_not_exist_is_created_and_leaves_the_scope_to_the_spider(
    server: ServerProcess, name: str
) -> None:
    joined = join(configuration(TOEHOLD_FRONTIER=server.address, TOEHOLD_CRAWL=name, TOEHOLD_CONTACT="a@b.c"))
    assert not joined.launched
    assert joined.allowed_addresses == ("public",)
    assert joined.retry.max_attempts == 30
    with FrontierClient(server.address) as client:
        crawl = CrawlController(client, name).describe()
    assert crawl.status.state == CrawlState.CRAWL_STATE_NASCENT
    assert (crawl.spec.contact, crawl.spec.fetcher) == ("a@b.c", "scrapy")
    assert list(crawl.spec.scope.accept_patterns) == [".*"]
    assert (crawl.spec.scope.max_link_hops, crawl.spec.scope.max_redirect_hops) == (10_000, 20)


def test_credentials_are_settings_or_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOEHOLD_TLS_CA", "system")
    monkeypatch.setenv("TOEHOLD_TOKEN_FILE", "one")
    found = configuration(TOEHOLD_TOKEN_FILE="another").credentials
    assert found == Credentials(tls_ca="system", token_file="another")
    with pytest.raises(Misconfigured, match="tls_cert needs tls_key"):
        configuration(TOEHOLD_TLS_CERT="a.crt")


def test_a_spider_joins_a_frontier_that_knows_its_callers(tmp_path: Path, name: str) -> None:
    installation = Installation(tmp_path)
    installation.cert("frontier", "127.0.0.1")
    token = tmp_path / "token"
    token.write_text(installation.caller("spider", "fetch", "operate"))
    with ServerProcess(tmp_path / "data", *installation.flags(mutual=False)) as server:
        there = {"TOEHOLD_FRONTIER": server.address, "TOEHOLD_CRAWL": name, "TOEHOLD_CONTACT": "a@b.c"}
        with pytest.raises(CannotJoin, match="speaks TLS"):
            join(configuration(**there))
        trust = {"TOEHOLD_TLS_CA": str(installation.authority.cert)}
        with pytest.raises(CannotJoin, match="the call has no credentials"):
            join(configuration(**there, **trust))
        assert not join(configuration(**there, **trust, TOEHOLD_TOKEN_FILE=str(token))).launched


@pytest.mark.parametrize("as_file", [True, False])
def test_a_spec_is_a_file_or_a_dict(server: ServerProcess, name: str, as_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text('seeds = ["a.test"]\n[[groups]]\nname = "g"\nhosts = ["a.test", "b.test"]\n')
    spec = {"seeds": ["a.test"], "groups": [{"name": "g", "hosts": ["a.test", "b.test"]}]}
    join(
        configuration(
            TOEHOLD_FRONTIER=server.address,
            TOEHOLD_CRAWL=name,
            TOEHOLD_CONTACT="a@b.c",
            TOEHOLD_SPEC=file if as_file else spec,
        )
    )
    with FrontierClient(server.address) as client:
        crawl = CrawlController(client, name).describe()
    assert crawl.seed_count == 1
    assert [list(group.hosts) for group in crawl.spec.groups] == [["a.test", "b.test"]]


def test_a_crawl_that_exists_needs_neither_spec_nor_contact(server: ServerProcess, name: str) -> None:
    settings = {"TOEHOLD_FRONTIER": server.address, "TOEHOLD_CRAWL": name}
    join(configuration(**settings, TOEHOLD_CONTACT="a@b.c"))
    assert not join(configuration(**settings)).launched
    with FrontierClient(server.address) as client:
        crawl = CrawlController(client, name)
        crawl.add_seeds(["http://a.test/"])
        crawl.launch()
    assert join(configuration(**settings, TOEHOLD_SPEC="no such file")).launched


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "TOEHOLD_CONTACT must be an http(s) URL or an e-mail address that site owners can turn to"),
        ({"TOEHOLD_CONTACT": "nobody"}, "TOEHOLD_SPEC: contact must be"),
        ({"TOEHOLD_SPEC": "/no/such/file"}, "/no/such/file cannot be read"),
        ({"TOEHOLD_SPEC": {"politness": {}}}, "TOEHOLD_SPEC: politness: no such field; did you mean politen"),
        ({"TOEHOLD_SPEC": {"weight": 0.5}}, "TOEHOLD_SPEC: weight: "),
        ({"TOEHOLD_SPEC": {"contact": object()}}, "TOEHOLD_SPEC must consist of keys and values"),
        ({"TOEHOLD_SPEC": {"surt_prefixes_file": "a"}}, "TOEHOLD_SPEC must be the path of a spec file if"),
        ({"TOEHOLD_SPEC": {"queues": {"buckets": 0}}, "TOEHOLD_CONTACT": "a@b.c"}, "queues.buckets must be"),
        ({"TOEHOLD_CRAWL": "Not a name", "TOEHOLD_CONTACT": "a@b.c"}, "name"),
        (
            {"TOEHOLD_SPEC": {"fetcher": "own"}, "TOEHOLD_CONTACT": "a@b.c"},
            "fetcher in TOEHOLD_SPEC must be 'scrapy', or left out, got 'own'",
        ),
        ({"TOEHOLD_FRONTIER": "nowhere"}, "the address of a frontier must be HOST:PORT"),
        ({"TOEHOLD_FRONTIER": "127.0.0.1:1"}, "no frontier answers at 127.0.0.1:1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_spider_that_cannot_join_its_crawl_says_why_in_a_sentence(
    server: ServerProcess, name: str, settings: dict[str, Any], message: str
) -> None:
    given = {"TOEHOLD_FRONTIER": server.address, "TOEHOLD_CRAWL": name, **settings}
    with pytest.raises(CannotJoin) as refused:
        join(configuration(**given))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def created(server: ServerProcess, name: str, *, launched: bool, fetcher: str = "") -> CrawlController:
    """A crawl that somebody else has made."""
    crawl = CrawlController(FrontierClient(server.address), name)
    crawl.create(CrawlSpec(contact="a@b.c", fetcher=fetcher), ["http://a.test/"])
    if launched:
        crawl.launch()
    return crawl


def test_a_spider_sets_its_kind_on_a_crawl_that_nobody_has_fetched_for(
    server: ServerProcess, name: str
) -> None:
    crawl = created(server, name, launched=False)
    join(configuration(TOEHOLD_FRONTIER=server.address, TOEHOLD_CRAWL=name))
    assert crawl.describe().spec.fetcher == "scrapy"


def test_a_spider_leaves_a_launched_crawl_open_to_any_fetcher_and_names_the_remedy(
    server: ServerProcess, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawl = created(server, name, launched=True)
    assert join(configuration(TOEHOLD_FRONTIER=server.address, TOEHOLD_CRAWL=name)).launched
    assert crawl.describe().spec.fetcher == ""
    change = f"toehold set --crawl {name} fetcher=scrapy --frontier {server.address}"
    assert change in caplog.text
    assert run(change.split()[1:]) == 0
    assert crawl.describe().spec.fetcher == "scrapy"


@pytest.mark.parametrize("launched", [False, True])
def test_a_spider_refuses_to_join_a_crawl_for_another_kind_of_fetcher(
    server: ServerProcess, name: str, launched: bool
) -> None:
    crawl = created(server, name, launched=launched, fetcher="own")
    with pytest.raises(CannotJoin, match="is for fetchers of kind 'own', and spiders are 'scrapy'"):
        join(configuration(TOEHOLD_FRONTIER=server.address, TOEHOLD_CRAWL=name))
    assert crawl.describe().spec.fetcher == "own"


def test_a_spider_joins_although_its_caller_may_not_update_the_crawl(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    installation = Installation(tmp_path)
    installation.cert("frontier", "127.0.0.1")
    trust = {"TOEHOLD_TLS_CA": str(installation.authority.cert)}
    tokens = {}
    for caller, roles in (("operator", ("operate",)), ("spider", ("fetch", "watch"))):
        tokens[caller] = tmp_path / caller
        tokens[caller].write_text(installation.caller(caller, *roles))
    with ServerProcess(tmp_path / "data", *installation.flags(mutual=False)) as server:
        credentials = Credentials(tls_ca=trust["TOEHOLD_TLS_CA"], token_file=str(tokens["operator"]))
        with FrontierClient(server.address, credentials=credentials) as client:
            CrawlController(client, name).create({"contact": "a@b.c"})
        there = {"TOEHOLD_FRONTIER": server.address, "TOEHOLD_CRAWL": name, **trust}
        assert not join(configuration(**there, TOEHOLD_TOKEN_FILE=str(tokens["spider"]))).launched
    assert "fetcher=scrapy" in caplog.text


def test_a_crawl_that_has_finished_cannot_be_joined(server: ServerProcess, name: str) -> None:
    settings = {"TOEHOLD_FRONTIER": server.address, "TOEHOLD_CRAWL": name}
    join(configuration(**settings, TOEHOLD_CONTACT="a@b.c"))
    with FrontierClient(server.address) as client:
        crawl = CrawlController(client, name)
        crawl.stop()
        crawl.wait_for({CrawlState.CRAWL_STATE_FINISHED}, timeout_s=30)
    with pytest.raises(CannotJoin, match=f"crawl '{name}' has finished. Name another one in TOEHOLD_CRAWL"):
        join(configuration(**settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"TOEHOLD_FRONTIER": None},
            "TOEHOLD_FRONTIER must be HOST:PORT, such as 127.0.0.1:7707, got nothing",
        ),
        ({"TOEHOLD_CRAWL": ""}, "TOEHOLD_CRAWL must be the name of a crawl, such as docs, got ''"),
        ({"TOEHOLD_SPEC": 5}, "TOEHOLD_SPEC must be the path of a spec file or a dict, got 5"),
    ],
)
def test_a_setting_that_is_wrong_is_told_with_what_is_right(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        configuration(**settings)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("user_agent", "contact"),
    [
        ("docs (+https://www.example.com/bot)", "https://www.example.com/bot"),
        ("docs/1.0 (+mailto:a@example.com)", "a@example.com"),
        ("docs", ""),
    ],
)
def test_the_contact_of_a_user_agent_of_ones_own_counts(user_agent: str, contact: str) -> None:
    assert configuration(USER_AGENT=user_agent).contact == contact
    assert configuration(USER_AGENT=user_agent, TOEHOLD_CONTACT="x@y.z").contact == "x@y.z"


def test_scrapys_own_user_agent_is_no_contact() -> None:
    assert configuration().contact == ""


@pytest.mark.parametrize("spec", ["", {}, {"politeness": {"min_delay_seconds": 1.0}}, {"scope": {}}])
def test_a_spec_that_says_nothing_of_the_scope_leaves_it_to_the_spider(spec: Any) -> None:
    scope = configuration(TOEHOLD_SPEC=spec, TOEHOLD_CONTACT="a@b.c").crawl_spec().spec.scope
    assert scope == configuration(TOEHOLD_CONTACT="a@b.c").crawl_spec().spec.scope


def test_a_spec_with_a_scope_keeps_it() -> None:
    spec = {"scope": {"accept_patterns": ["^http://a.test/"], "max_link_hops": 3}}
    scope = configuration(TOEHOLD_SPEC=spec, TOEHOLD_CONTACT="a@b.c").crawl_spec().spec.scope
    assert list(scope.accept_patterns) == ["^http://a.test/"]
    assert (scope.max_link_hops, scope.HasField("max_redirect_hops")) == (3, False)
