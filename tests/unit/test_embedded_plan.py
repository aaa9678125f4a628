"""The plan of `toehold crawl`: checked seeds, defaults, and options that override a spec file."""

from pathlib import Path
from typing import Any

import pytest

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, ScopeSpec
from toehold_cli.embedded.plan import Seeds, make_spec, sort_out
from toehold_cli.embedded.spec_options import SpecOptions
from toehold_cli.exits import BadPlan
from toehold_client.spec import file as spec_file
from toehold_client.spec.listed import lines
from toehold_client.spec.plain import seconds_of

LOOPBACK = ("localhost",)
PUBLIC = ("www.example.com",)


def parsed(text: str) -> spec_file.SpecFile:
    return spec_file.parse(text, Path("crawl.toml"))


def spec_of(text: str | None = None, hosts: tuple[str, ...] = LOOPBACK, **overrides: Any) -> CrawlSpec:
    file = None if text is None else parsed(text)
    seeds = Seeds(tuple(f"https://{host}/" for host in hosts), (), hosts)
    return make_spec(file, SpecOptions(**overrides), seeds)


def sorted_out(typed: list[str], *, skip_bad: bool) -> Seeds:
    """The seeds of a command line."""
    return sort_out((("", text) for text in typed), skip_bad=skip_bad)


def test_a_seed_without_a_scheme_is_https() -> None:
    seeds = sorted_out(["www.example.com/a", "localhost:8080", "http://b.example"], skip_bad=False)
    assert seeds.good == ("https://www.example.com/a", "https://localhost:8080", "http://b.example")
    assert seeds.hosts == ("www.example.com", "localhost", "b.example")


def test_a_seed_given_twice_counts_once() -> None:
    assert sorted_out(["http://a.example/", "http://a.example/"], skip_bad=False).good == (
        "http://a.example/",
    )


BAD = [
    ("http://[", "is not a URL"),
    ("http://x:y/", "is not a URL"),
    ("http://x:99999/", "is not a URL"),
    ("\udce9", "is not a URL"),
    ("https//a.example", "is not a URL; did you mean https://a.example?"),
    ("ftp://a.example/", "is neither http nor https"),
    ("mailto:somebody@a.example", "is neither http nor https"),
    ("javascript:alert(1)", "is neither http nor https"),
]


@pytest.mark.parametrize(("bad", "told"), BAD)
def test_a_bad_seed_refuses_the_plan_and_says_how_to_skip_it(bad: str, told: str) -> None:
    with pytest.raises(BadPlan) as refusal:
        sorted_out([bad, "a.example"], skip_bad=False)
    assert str(refusal.value) == (f"{bad!r} {told}\nTo crawl from the other seeds, add --skip-bad-seeds.")
    seeds = sorted_out([bad, "a.example"], skip_bad=True)
    assert (seeds.good, seeds.bad) == (("https://a.example",), (f"{bad!r} {told}",))


def test_a_bad_seed_in_a_file_is_refused_with_its_line_number(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("a.example # ours\n\nftp://b.example/\nc.example d\n")
    seeds = sort_out(lines(file), skip_bad=True)
    assert seeds.good == ("https://a.example",)
    assert seeds.bad == (
        f"{file}, line 3: 'ftp://b.example/' is neither http nor https",
        f"{file}, line 4: must be one URL, got 'c.example d'; in a URL a blank is %20, and a comment begins "
        "with #",
    )


def test_several_bad_seeds_are_listed_up_to_a_number() -> None:
    with pytest.raises(BadPlan) as refusal:
        sorted_out(["a.example", *(f"ftp://{number}.example/" for number in range(12))], skip_bad=False)
    told = str(refusal.value).split("\n")
    assert told[0] == "12 seeds are refused:"
    assert told[1] == "  'ftp://0.example/' is neither http nor https"
    assert told[-2:] == ["  and 2 more", "To crawl from the other seeds, add --skip-bad-seeds."]


def test_without_any_good_seed_there_is_no_plan() -> None:
    for skip_bad in (False, True):
        with pytest.raises(BadPlan) as refusal:
            sorted_out(["http://["], skip_bad=skip_bad)
        assert str(refusal.value) == "'http://[' is not a URL"
        with pytest.raises(BadPlan, match="at least one URL"):
            sorted_out([], skip_bad=skip_bad)


def test_without_a_spec_a_dead_host_is_given_up_after_three_attempts_and_minutes() -> None:
    spec = spec_of()
    assert (spec.retry.max_attempts, spec.robots.max_attempts) == (3, 3)
    assert (seconds_of(spec.retry.delay), seconds_of(spec.robots.retry_delay)) == (30, 30)
    assert spec.retry.growth > 1
    assert seconds_of(spec.fetch.timeout) == 120


def test_with_a_spec_what_it_leaves_out_stays_unset_so_that_the_contracts_defaults_hold() -> None:
    spec = spec_of("[scope]\nmax_link_hops = 3\n")
    assert spec == CrawlSpec(scope=ScopeSpec(max_link_hops=3), allowed_addresses=["loopback"])


def test_options_win_over_the_spec() -> None:
    spec = spec_of(
        "[retry]\nmax_attempts = 9\n[limits]\nmax_documents = 9\n[fetch]\ntimeout_seconds = 9\n",
        max_attempts=2,
        max_pages=7,
        fetch_timeout=1.5,
        max_hops=0,
        delay_factor=0.0,
    )
    assert (spec.retry.max_attempts, spec.limits.max_documents, spec.scope.max_link_hops) == (2, 7, 0)
    assert (seconds_of(spec.fetch.timeout), spec.politeness.delay_factor) == (1.5, 0.0)
    assert spec.scope.HasField("max_link_hops") and spec.politeness.HasField("delay_factor")


def test_attempts_and_their_rest_hold_for_robots_txt_unless_the_spec_has_its_own() -> None:
    assert spec_of(max_attempts=2, retry_delay=1.0).robots.max_attempts == 2
    assert seconds_of(spec_of("", retry_delay=1.0).robots.retry_delay) == 1
    own = spec_of("[robots]\nmax_attempts = 4\nretry_delay_seconds = 7\n", max_attempts=2, retry_delay=1.0)
    assert (own.robots.max_attempts, seconds_of(own.robots.retry_delay)) == (4, 7)


def test_a_long_least_rest_raises_the_longest_one_that_would_contradict_it() -> None:
    assert seconds_of(spec_of(min_delay=60.0).politeness.max_delay) == 60
    assert not spec_of(min_delay=10.0).politeness.HasField("max_delay")
    assert (
        seconds_of(spec_of("[politeness]\nmax_delay_seconds = 1\n", min_delay=2.0).politeness.max_delay) == 2
    )
    assert seconds_of(spec_of(retry_delay=20_000.0).retry.max_delay) == 20_000


@pytest.mark.parametrize(
    "seed", ["http://localhost:1/", "http://127.0.0.1/", "http://127.1/", "http://[::1]/"]
)
def test_loopback_seeds_alone_stay_on_loopback_without_a_contact(seed: str) -> None:
    assert list(spec_of(hosts=sorted_out([seed], skip_bad=False).hosts).allowed_addresses) == ["loopback"]


@pytest.mark.parametrize(
    "hosts", [PUBLIC, ("localhost", "www.example.com"), ("localhost.example",), ("10.0.0.1",)]
)
def test_every_other_seed_makes_it_public_which_needs_a_contact(hosts: tuple[str, ...]) -> None:
    with pytest.raises(BadPlan, match="--contact is needed"):
        spec_of(hosts=hosts)
    spec = spec_of(hosts=hosts, contact="somebody@example.org")
    assert (list(spec.allowed_addresses), spec.contact) == (["public"], "somebody@example.org")


def test_the_specs_own_addresses_and_contact_are_kept() -> None:
    assert list(spec_of('allowed_addresses = ["loopback"]', PUBLIC).allowed_addresses) == ["loopback"]
    spec = spec_of('allowed_addresses = ["10.1.0.0/16"]\ncontact = "https://example.org/bot"', LOOPBACK)
    assert list(spec.allowed_addresses) == ["10.1.0.0/16"]
    with pytest.raises(BadPlan, match="--contact"):
        spec_of('allowed_addresses = ["10.1.0.0/16"]', LOOPBACK)


def test_each_option_sets_what_it_says() -> None:
    spec = spec_of(
        max_time=90.0,
        parallel=3,
        adaptive=True,
        page_requisites=True,
        user_agent="my-bot",
        operator="Library",
        include=("/docs/",),
        exclude=("*.pdf",),
    )
    assert seconds_of(spec.limits.max_elapsed) == 90
    assert (spec.politeness.max_parallel, spec.queues.max_leases_per_queue) == (3, 3)
    assert spec.politeness.adaptive and spec.scope.page_requisites
    assert (spec.fetch.product_token, spec.operator) == ("my-bot", "Library")
    assert list(spec.scope.required_patterns) == ["https?://[^/]*/docs/.*"]
    assert list(spec.scope.reject_patterns) == [r".*\.pdf"]


def test_patterns_and_domains_add_to_those_of_the_spec_each_once() -> None:
    text = '[scope]\nreject_patterns = ["x"]\nsurt_prefixes = ["+a.example"]'
    hosts = ("a.example", "www.b.example", "b.example", "127.0.0.1")
    spec = spec_of(text, hosts, contact="me@a.example", exclude=("/p/", "/p/"), subdomains=True)
    assert list(spec.scope.reject_patterns) == ["x", "https?://[^/]*/p/.*"]
    assert list(spec.scope.surt_prefixes) == ["+a.example", "+b.example"]


def test_a_pattern_that_excludes_a_seed_is_refused() -> None:
    with pytest.raises(BadPlan, match=r"--exclude /\* excludes the seed https://localhost/"):
        spec_of(exclude=("/*",))


def test_seeds_only_follows_neither_links_nor_embeds() -> None:
    scope = spec_of(seeds_only=True).scope
    assert (scope.max_link_hops, scope.max_embed_hops) == (0, 0)
    assert scope.HasField("max_link_hops") and scope.HasField("max_embed_hops")
    assert spec_of(seeds_only=True, max_hops=0).scope == scope
    assert not spec_of().scope.HasField("max_embed_hops")


@pytest.mark.parametrize(
    ("option", "name"), [({"max_hops": 2}, "--max-hops"), ({"page_requisites": True}, "--page-requisites")]
)
def test_seeds_only_refuses_options_that_ask_for_more(option: dict[str, Any], name: str) -> None:
    with pytest.raises(BadPlan, match=f"--seeds-only fetches nothing but the URLs, so {name} does nothing"):
        spec_of(seeds_only=True, **option)
