"""Crawl specs and settings: nothing is lost between, and an override replaces just what it says."""

import re
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.spec.settings import (
    DAY_MS,
    CrawlSettings,
    Credential,
    FetchSettings,
    GroupSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    QuotaSettings,
    RetryRule,
    RetrySettings,
    Rewrite,
    ScopeSettings,
)
from frontier_server.core.spec.table import Bound, Items, OneOf, Text, Within, rows_of
from frontier_server.core.state.spec_problems import problems
from frontier_server.wire.specs import OVERRIDE_LISTS
from toehold.frontier.v1 import crawl_pb2


def lists(*items: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(items), unique=True).map(tuple)


# Settings whose form a parser decides. All others are drawn from their rows of the table.
BY_HAND: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (CrawlSettings, "contact"): st.sampled_from(["https://example.org/bot", "bot@example.org"]),
    (CrawlSettings, "allowed_addresses"): st.sampled_from(
        [("loopback",), ("public",), ("10.0.0.0/8", "::1/128")]
    ),
    (CrawlSettings, "groups"): st.sampled_from(
        [
            (),
            (GroupSettings("shop", ("a.example", "b.example"), 2, 500),),
            (GroupSettings("a", ("a.example",)), GroupSettings("b", ("b.example", "c.example"), 1, 1)),
        ]
    ),
    (ScopeSettings, "hosts"): st.lists(
        st.from_regex(r"[a-z]{1,8}\.example(:8[0-9]{3})?", fullmatch=True), max_size=3
    ).map(tuple),
    (ScopeSettings, "surt_prefixes"): lists(
        "+http://(com,example,", "-http://(com,example,www,)/", "example.org"
    ),
    (ScopeSettings, "accept_patterns"): lists(".*[.]pdf", "http://a[.]example/.*"),
    (ScopeSettings, "reject_patterns"): lists(".*logout.*", ".*[?].*"),
    (ScopeSettings, "required_patterns"): lists(".*/docs/.*", ".*[.]html"),
    (IdentitySettings, "rewrites"): lists(Rewrite("x=([0-9]+)", r"y=\1"), Rewrite(r"\?.*", "")),
    (RetrySettings, "statuses"): lists(RetryRule(-1), RetryRule(-4, 3, 1_000, 2.0, 9_000), RetryRule(500)),
    (FetchSettings, "proxy"): st.sampled_from(["", "http://user:password@127.0.0.1:3128"]),
    (FetchSettings, "user_agent"): st.sampled_from(["", "{product} (compatible; {version}; +{contact})"]),
    (FetchSettings, "headers"): lists("Accept-Language: de", "From:bot@example.org"),
    (FetchSettings, "credentials"): lists(Credential("example.com", "reader", "secret")),
}


def values(kind: type, bound: Bound | None) -> st.SearchStrategy[Any]:
    """Values of a row of the table."""
    if isinstance(bound, Within) and kind is float:
        return st.floats(bound.least, bound.most, exclude_min=bound.above)
    if isinstance(bound, Within):
        return st.integers(int(bound.least), int(bound.most))
    if isinstance(bound, OneOf):
        return st.sampled_from(bound.choices)
    if isinstance(bound, Text):
        return st.from_regex(re.compile(bound.pattern, re.ASCII), fullmatch=True)
    assert kind is bool
    return st.booleans()


@st.composite
def parts(draw: st.DrawFn, part: type) -> Any:
    """Settings of a part without problems."""
    drawn: dict[str, Any] = {}
    for row in rows_of(part):
        if (part, row.name) in BY_HAND:
            drawn[row.name] = draw(BY_HAND[part, row.name])
        elif row.is_part:
            drawn[row.name] = draw(parts(row.kind))
        elif row.element is not None:
            assert isinstance(row.bound, Items)
            each = st.lists(values(row.element, row.element_bound), min_size=row.bound.least, max_size=2)
            drawn[row.name] = tuple(draw(each))
        else:
            drawn[row.name] = draw(values(row.kind, row.bound))
        if row.not_below:
            drawn[row.name] = max(drawn[row.name], drawn[row.not_below])
    return part(**drawn)


@st.composite
def usable(draw: st.DrawFn) -> CrawlSettings:
    """Settings without problems."""
    made: CrawlSettings = draw(parts(CrawlSettings))
    own = made.revisit
    interval_ms = min(max(own.interval_ms, own.min_interval_ms), own.max_interval_ms)
    thresholds = made.queues.success_thresholds or (1,)  # an empty list is not set
    rounds = max(made.reseed.max_rounds, 0 if made.reseed.min_interval_ms < 1_000 else -1)
    return replace(
        made,
        revisit=replace(own, interval_ms=interval_ms),
        queues=replace(made.queues, success_thresholds=thresholds),
        reseed=replace(made.reseed, max_rounds=rounds),
    )


@given(usable())
def test_settings_survive_the_way_to_a_spec_and_back(settings: CrawlSettings) -> None:
    assert not problems(settings)
    shown = wire.spec(settings)
    assert wire.settings(shown.SerializeToString()) == settings
    assert wire.spec(wire.settings_of(shown)) == shown


def test_a_spec_that_says_nothing_means_the_defaults() -> None:
    assert wire.settings_of(crawl_pb2.CrawlSpec()) == CrawlSettings()
    nothing = crawl_pb2.CrawlSpec(groups=[crawl_pb2.HostGroup(name="a", hosts=["a.example"])])
    nothing.limits.host_quota.SetInParent()
    nothing.queues.SetInParent()
    assert wire.settings_of(nothing) == CrawlSettings(groups=(GroupSettings("a", ("a.example",), 1, 0),))


def test_zero_is_a_value_and_not_the_default() -> None:
    spec = crawl_pb2.CrawlSpec()
    spec.scope.max_link_hops = spec.scope.max_embed_hops = spec.scope.max_redirect_hops = 0
    spec.scope.max_path_repetitions = spec.scope.max_path_segments = 0
    spec.politeness.delay_factor = 0
    spec.politeness.across_crawls = False
    spec.queues.session_budget = spec.queues.total_budget = spec.queues.error_penalty = 0
    spec.outcomes_kept = 0
    for part, field in (
        (spec.politeness.min_delay, "min_delay"),
        (spec.politeness.max_crawl_delay, "max_crawl_delay"),
        (spec.retry.delay, "delay"),
    ):
        part.SetInParent()
        assert part.ToMilliseconds() == 0, field
    settings = wire.settings_of(spec)
    assert settings.scope == ScopeSettings((), 0, 0, 0, max_path_repetitions=0, max_path_segments=0)
    assert (settings.politeness.delay_factor, settings.politeness.min_delay_ms) == (0, 0)
    assert (settings.politeness.max_crawl_delay_ms, settings.retry.delay_ms) == (0, 0)
    assert not settings.politeness.across_crawls
    queues = settings.queues
    assert (queues.session_budget, queues.total_budget, queues.error_penalty) == (0, 0, 0)
    assert settings.outcomes_kept == 0


def test_a_bound_that_is_not_set_gives_way_to_what_is() -> None:
    spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromSeconds(3600)
    spec.politeness.overload_delay.FromSeconds(7200)
    spec.retry.delay.FromSeconds(20_000)
    spec.revisit.interval.FromSeconds(3600)
    settings = wire.settings_of(spec)
    assert settings.politeness.max_delay_ms == 3_600_000
    assert settings.politeness.max_overload_delay_ms == 7_200_000
    assert settings.retry.max_delay_ms == 20_000_000
    assert (settings.revisit.min_interval_ms, settings.revisit.max_interval_ms) == (3_600_000, 30 * DAY_MS)
    assert not problems(settings)
    spec.revisit.interval.FromSeconds(90 * 86_400)
    settings = wire.settings_of(spec)
    assert (settings.revisit.min_interval_ms, settings.revisit.max_interval_ms) == (DAY_MS, 90 * DAY_MS)
    spec.politeness.max_delay.FromSeconds(60)
    assert wire.settings_of(spec).politeness.max_delay_ms == 60_000, "one that is set stands"


@pytest.mark.parametrize("number", [-1, 3, 99])
def test_only_the_wire_sees_an_enum_value_that_there_is_not(number: int) -> None:
    spec = crawl_pb2.CrawlSpec()
    spec.robots.unreachable = number  # type: ignore[assignment]  # any number may come
    assert set(wire.spec_problems(spec)) == {"robots.unreachable"}
    assert str(number) in wire.spec_problems(spec)["robots.unreachable"]
    assert not wire.spec_problems(crawl_pb2.CrawlSpec())


# Overrides.


def over(spec: crawl_pb2.CrawlSpec, *overrides: crawl_pb2.OverrideSettings) -> CrawlSettings:
    """The settings with overrides, as they are made of what is stored."""
    return wire.settings_with(spec.SerializeToString(), [each.SerializeToString() for each in overrides])


@given(usable())
def test_without_overrides_the_spec_counts(settings: CrawlSettings) -> None:
    assert over(wire.spec(settings)) == settings
    assert over(wire.spec(settings), crawl_pb2.OverrideSettings()) == settings


@given(usable(), usable())
def test_a_whole_override_replaces_every_field_that_it_may(
    settings: CrawlSettings, other: CrawlSettings
) -> None:
    shown = wire.spec(other)
    override = crawl_pb2.OverrideSettings(
        politeness=shown.politeness,
        retry=shown.retry,
        fetch=shown.fetch,
        extract=shown.extract,
        queues=shown.queues,
        host_quota=shown.limits.host_quota,
        revisit=shown.revisit,
        empty_lists=[path for path in OVERRIDE_LISTS if not value_of(other, path)],
    )
    assert over(wire.spec(settings), override) == replace(
        settings,
        politeness=other.politeness,
        retry=other.retry,
        fetch=other.fetch,
        extract=other.extract,
        queues=other.queues,
        limits=replace(settings.limits, host_quota=other.limits.host_quota),
        revisit=other.revisit,
    )


def test_an_override_replaces_just_the_fields_that_it_sets() -> None:
    spec = wire.spec(CrawlSettings(politeness=PolitenessSettings(delay_factor=2, min_delay_ms=1_500)))
    override = crawl_pb2.OverrideSettings()
    override.politeness.min_delay.FromSeconds(7)
    override.queues.success_thresholds.extend([5])
    override.queues.error_penalty = 0
    override.host_quota.max_successes = 10
    changed = over(spec, override)
    assert changed.politeness == PolitenessSettings(delay_factor=2, min_delay_ms=7_000), "not 7.5 s"
    assert changed.queues == QueueSettings(success_thresholds=(5,), error_penalty=0), "not (100, 1000, 5)"
    assert changed.limits == LimitSettings(host_quota=QuotaSettings(max_successes=10))


def test_a_later_override_goes_over_an_earlier_one() -> None:
    first, second = crawl_pb2.OverrideSettings(), crawl_pb2.OverrideSettings()
    first.queues.queue_key, first.queues.retire, first.queues.session_budget = "mine", True, 5
    second.queues.queue_key, second.queues.retire = "", False
    assert over(crawl_pb2.CrawlSpec(), first).queues.queue_key == "mine"
    assert over(crawl_pb2.CrawlSpec(), first, second).queues == QueueSettings(session_budget=5)
    assert over(crawl_pb2.CrawlSpec(), second, first).queues == QueueSettings(
        queue_key="mine", retire=True, session_budget=5
    )


def test_a_bound_that_nobody_set_gives_way_to_an_override_too() -> None:
    override = crawl_pb2.OverrideSettings()
    override.politeness.min_delay.FromSeconds(600)
    assert over(crawl_pb2.CrawlSpec(), override).politeness.max_delay_ms == 600_000


def test_what_an_override_may_not_change_is_told() -> None:
    override = crawl_pb2.OverrideSettings()
    override.queues.cost = "wag"
    assert not wire.override_problems(override)
    override.queues.partition, override.queues.assignment = "host", "buckets"
    override.queues.buckets = 0
    assert set(wire.override_problems(override)) == {
        "queues.partition",
        "queues.assignment",
        "queues.buckets",
    }


# Fields that are set to nothing, and fields that are not set.

PARTS = {
    field.name: field.message_type
    for field in crawl_pb2.OverrideSettings.DESCRIPTOR.fields
    if field.message_type is not None
}
NEVER_EMPTY = "queues.success_thresholds"
WHOLE_CRAWLS = {"queues.partition", "queues.assignment", "queues.buckets", "politeness.across_crawls"}


def of_parts(repeated: bool) -> list[str]:
    """The paths of what an override may set: its lists, or everything else."""
    return sorted(
        path
        for part, message in PARTS.items()
        for field in message.fields
        if field.is_repeated is repeated
        and (path := f"{part}.{field.name}") not in WHOLE_CRAWLS
        and path != NEVER_EMPTY
    )


def set_settings(message: Descriptor) -> list[FieldDescriptor]:
    """The single values of a spec and of its parts; elements of lists are replaced as a whole."""
    found = []
    for field in message.fields:
        if field.message_type is not None and field.message_type.full_name != Duration.DESCRIPTOR.full_name:
            found += [] if field.is_repeated else set_settings(field.message_type)
        elif not field.is_repeated:
            found.append(field)
    return found


@pytest.mark.parametrize("message", [crawl_pb2.CrawlSpec.DESCRIPTOR, crawl_pb2.OverrideSettings.DESCRIPTOR])
def test_a_setting_that_is_nothing_can_be_told_from_one_that_is_not_set(message: Descriptor) -> None:
    """An enum has a number for "not set"."""
    without = [f.full_name for f in set_settings(message) if not f.has_presence and f.enum_type is None]
    assert without == []


def something(part: str, name: str) -> crawl_pb2.CrawlSpec:
    """A spec in which a setting is neither nothing nor, where that can be, the default."""
    spec = crawl_pb2.CrawlSpec()
    message: Any = getattr(spec.limits if part == "host_quota" else spec, part)
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.is_repeated and field.message_type is not None:
        getattr(message, name).add()
    elif field.is_repeated:
        getattr(message, name).append("x" if field.type == FieldDescriptor.TYPE_STRING else 7)
    elif field.message_type is not None:
        getattr(message, name).FromSeconds(7)
    else:
        setattr(message, name, {bool: True, str: "x"}.get(type(getattr(message, name)), 7))
    return spec


def value_of(settings: CrawlSettings, path: str) -> Any:
    """The setting at a path of an override."""
    part, name = path.split(".")
    own: Any = getattr(settings.limits if part == "host_quota" else settings, part)
    return getattr(own, name) if hasattr(own, name) else getattr(own, f"{name}_ms")


@pytest.mark.parametrize("path", of_parts(repeated=False))
def test_an_override_can_say_false_zero_and_nothing(path: str) -> None:
    """Whatever the spec says, and the override of a shorter prefix."""
    part, name = path.split(".")
    spec = something(part, name).SerializeToString()
    override = crawl_pb2.OverrideSettings()
    message: Any = getattr(override, part)
    before = value_of(wire.settings_with(spec, ()), path)
    assert before
    if isinstance(getattr(message, name), Duration):
        getattr(message, name).SetInParent()
    else:
        setattr(message, name, type(getattr(message, name))())
    assert wire.sets_something(override)
    kept = override.SerializeToString()
    assert not value_of(wire.settings_with(spec, (kept,)), path)
    first = getattr(something(part, name).limits if part == "host_quota" else something(part, name), part)
    shorter = crawl_pb2.OverrideSettings(**{part: first})
    assert value_of(wire.settings_with(b"", (shorter.SerializeToString(),)), path) == before
    assert not value_of(wire.settings_with(b"", (shorter.SerializeToString(), kept)), path)


@pytest.mark.parametrize("path", of_parts(repeated=True))
def test_an_override_can_empty_a_list(path: str) -> None:
    part, name = path.split(".")
    spec = something(part, name).SerializeToString()
    override = crawl_pb2.OverrideSettings(empty_lists=[path])
    assert wire.sets_something(override) and wire.override_problems(override) == {}
    assert len(value_of(wire.settings_with(spec, ()), path)) == 1
    assert value_of(wire.settings_with(spec, (override.SerializeToString(),)), path) == ()
    shorter = crawl_pb2.OverrideSettings(**{part: getattr(something(part, name), part)})
    made = wire.settings_with(b"", (override.SerializeToString(), shorter.SerializeToString()))
    assert len(value_of(made, path)) == 1, "that of a longer prefix has elements again"


@pytest.mark.parametrize(
    ("override", "problems_of"),
    [
        (crawl_pb2.OverrideSettings(empty_lists=["fetch.cookies"]), {"empty_lists[0]": "fetch.credentials"}),
        (crawl_pb2.OverrideSettings(empty_lists=[NEVER_EMPTY]), {"empty_lists[0]": "must be one of"}),
        (crawl_pb2.OverrideSettings(empty_lists=["x" * 10_000]), {"empty_lists[0]": "retry.statuses"}),
        (
            crawl_pb2.OverrideSettings(empty_lists=["", "fetch"]),
            dict.fromkeys(("empty_lists[0]", "empty_lists[1]"), ""),
        ),
        (crawl_pb2.OverrideSettings(empty_lists=["retry.statuses"] * 2), {"empty_lists[1]": "twice"}),
        (crawl_pb2.OverrideSettings(empty_lists=["retry.statuses"] * 99), {"empty_lists": "got 99"}),
        (
            crawl_pb2.OverrideSettings(
                retry=crawl_pb2.RetrySpec(statuses=[crawl_pb2.RetryRule(fetch_status=404)]),
                empty_lists=["retry.statuses"],
            ),
            {"empty_lists[0]": "has some"},
        ),
    ],
)
def test_what_is_no_list_or_set_as_well_cannot_be_emptied(
    override: crawl_pb2.OverrideSettings, problems_of: dict[str, str]
) -> None:
    found = wire.override_problems(override)
    assert found.keys() == problems_of.keys()
    for path, words in problems_of.items():
        assert words in found[path] and len(found[path]) < 500


def test_a_spec_that_was_stored_before_settings_could_be_nothing_means_what_it_did() -> None:
    """Zero, false and empty texts were not written then; each of them was the default."""
    old = crawl_pb2.CrawlSpec(contact="bot@example.org")
    old.fetch.cookies = old.extract.javascript = True
    old.limits.max_bytes = 7
    settings = wire.settings(old.SerializeToString())
    expected = CrawlSettings(contact="bot@example.org")
    assert settings == replace(
        expected,
        fetch=replace(expected.fetch, cookies=True),
        extract=replace(expected.extract, javascript=True),
        limits=replace(expected.limits, max_bytes=7),
    )
    zeros = wire.settings_of(wire.spec(CrawlSettings()))
    assert zeros == wire.settings(b"") == CrawlSettings()


def test_of_a_spec_an_override_reads_no_more_than_the_parts_that_it_touches() -> None:
    """A spec may have tens of thousands of hosts, prefixes and patterns."""
    spec = crawl_pb2.CrawlSpec(contact="bot@example.org")
    spec.scope.hosts.extend(f"h{number}.example" for number in range(1_000))
    spec.limits.max_bytes = 7
    spec.retry.delay.FromSeconds(5)
    override = crawl_pb2.OverrideSettings()
    override.retry.delay.FromSeconds(20_000)
    override.host_quota.max_successes = 3
    data = spec.SerializeToString()
    whole, made = wire.settings(data), wire.settings_with(data, (override.SerializeToString(),))
    assert made.scope is whole.scope and made.politeness is whole.politeness
    assert made.retry == replace(whole.retry, delay_ms=20_000_000, max_delay_ms=20_000_000)
    assert made.limits == replace(whole.limits, host_quota=QuotaSettings(max_successes=3))
