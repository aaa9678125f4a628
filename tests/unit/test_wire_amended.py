"""A stored spec with fields of another one in it: those that a mask names, or all that are set there."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from toehold.frontier.v1 import crawl_pb2

Spec = crawl_pb2.CrawlSpec


def stored() -> crawl_pb2.CrawlSpec:
    """A spec as somebody once made it."""
    spec = Spec(contact="https://example.org/bot", allowed_addresses=["loopback"], max_toes=9)
    spec.limits.max_documents = 100
    spec.limits.host_quota.max_successes = 7
    spec.limits.host_quota.max_responses = 8
    spec.politeness.delay_factor = 2
    spec.politeness.min_delay.FromMilliseconds(1_500)
    spec.scope.hosts.extend(["a.example", "b.example"])
    spec.scope.max_link_hops = 3
    return spec


def amended(change: crawl_pb2.CrawlSpec, *paths: str) -> tuple[crawl_pb2.CrawlSpec, list[str]]:
    """The spec then, and which fields that changed."""
    spec, told = wire.amended(stored().SerializeToString(), change, paths)
    return Spec.FromString(spec), list(told)


def but(**fields: Any) -> crawl_pb2.CrawlSpec:
    """The stored spec with other top-level values."""
    spec = stored()
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec


# With a mask.


def test_a_path_sets_its_field_and_no_other() -> None:
    change = Spec(max_toes=3, weight=5)
    assert amended(change, "max_toes") == (but(max_toes=3), ["max_toes"])


def test_a_path_into_a_part_leaves_the_rest_of_the_part() -> None:
    change = Spec()
    change.limits.host_quota.max_successes = 1
    change.limits.max_bytes = 5
    spec, told = amended(change, "limits.host_quota.max_successes")
    expected = stored()
    expected.limits.host_quota.max_successes = 1
    assert (spec, told) == (expected, ["limits.host_quota.max_successes"])


def test_a_path_to_a_part_replaces_the_part_as_a_whole() -> None:
    change = Spec()
    change.limits.max_bytes = 5
    spec, _ = amended(change, "limits")
    assert spec.limits == crawl_pb2.LimitSpec(max_bytes=5)
    assert spec.politeness == stored().politeness


def test_a_list_is_replaced_as_a_whole() -> None:
    change = Spec()
    change.scope.hosts.extend(["c.example"])
    spec, _ = amended(change, "scope.hosts")
    assert list(spec.scope.hosts) == ["c.example"]
    assert spec.scope.max_link_hops == 3


@pytest.mark.parametrize(
    ("path", "read", "default"),
    [
        ("max_toes", lambda settings: settings.max_toes, 0),
        ("contact", lambda settings: settings.contact, ""),
        ("limits", lambda settings: settings.limits, CrawlSettings().limits),
        ("limits.max_documents", lambda settings: settings.limits.max_documents, 0),
        ("politeness.min_delay", lambda settings: settings.politeness.min_delay_ms, 3_000),
        ("politeness.delay_factor", lambda settings: settings.politeness.delay_factor, 5.0),
        ("scope.max_link_hops", lambda settings: settings.scope.max_link_hops, 20),
        ("scope.hosts", lambda settings: settings.scope.hosts, ()),
        ("scope", lambda settings: settings.scope, ScopeSettings()),
    ],
)
def test_what_a_mask_names_and_the_change_does_not_set_takes_its_default(
    path: str, read: Any, default: object
) -> None:
    spec, told = amended(Spec(), path)
    assert read(wire.settings_of(spec)) == default
    assert told == [path]
    untouched = [field for field, _ in stored().ListFields() if field.name != path.split(".")[0]]
    assert all(getattr(spec, field.name) == getattr(stored(), field.name) for field in untouched)


def test_zero_is_a_value_where_a_field_can_be_unset() -> None:
    change = Spec()
    change.scope.max_link_hops = 0
    change.politeness.delay_factor = 0
    change.politeness.min_delay.FromSeconds(0)
    paths = ("scope.max_link_hops", "politeness.delay_factor", "politeness.min_delay")
    settings = wire.settings_of(amended(change, *paths)[0])
    assert settings.scope.max_link_hops == 0
    assert (settings.politeness.delay_factor, settings.politeness.min_delay_ms) == (0, 0)


def test_a_length_of_time_is_replaced_seconds_and_fraction() -> None:
    change = Spec()
    change.politeness.min_delay.FromSeconds(7)
    spec, _ = amended(change, "politeness.min_delay")
    assert spec.politeness.min_delay == Duration(seconds=7), "not 7.5 s"


def test_paths_count_in_their_order() -> None:
    change = Spec(max_toes=1)
    change.limits.max_bytes = 5
    spec, told = amended(change, "limits", "limits.max_documents", "max_toes")
    assert told == ["limits", "limits.max_documents", "max_toes"]
    assert (spec.limits, spec.max_toes) == (crawl_pb2.LimitSpec(max_bytes=5), 1)


# Without one.


def test_without_a_mask_what_is_set_counts_field_by_field() -> None:
    change = Spec(max_toes=3)
    change.limits.max_bytes = 5
    change.limits.host_quota.max_responses = 1
    change.politeness.min_delay.FromSeconds(7)
    spec, told = amended(change)
    assert sorted(told) == [
        "limits.host_quota.max_responses",
        "limits.max_bytes",
        "max_toes",
        "politeness.min_delay",
    ]
    expected = but(max_toes=3)
    expected.limits.max_bytes = 5
    expected.limits.host_quota.max_responses = 1
    expected.politeness.min_delay.CopyFrom(Duration(seconds=7))
    assert spec == expected


def test_without_a_mask_a_list_is_replaced_and_an_empty_one_is_not_set() -> None:
    change = Spec(allowed_addresses=["public"])
    change.scope.SetInParent()
    spec, told = amended(change)
    assert told == ["allowed_addresses"]
    assert list(spec.allowed_addresses) == ["public"]
    assert list(spec.scope.hosts) == ["a.example", "b.example"]


def test_without_a_mask_false_zero_and_an_empty_text_are_set() -> None:
    before = wire.amended(stored().SerializeToString(), Spec(pause_at_start=True, run_while_empty=True), ())[
        0
    ]
    change = Spec(max_toes=0, pause_at_start=False, contact="")
    change.limits.max_documents = 0
    amended_spec, told = wire.amended(before, change, ())
    assert sorted(told) == ["contact", "limits.max_documents", "max_toes", "pause_at_start"]
    settings = wire.settings(amended_spec)
    assert (settings.max_toes, settings.pause_at_start, settings.contact) == (0, False, "")
    assert settings.limits.max_documents == 0 and settings.run_while_empty


def test_without_a_mask_nothing_set_changes_nothing() -> None:
    assert amended(Spec()) == (stored(), [])


def test_an_enum_and_a_list_of_messages_are_fields_as_any() -> None:
    change = Spec()
    change.robots.unreachable = crawl_pb2.ROBOTS_UNREACHABLE_ALLOW
    change.retry.statuses.add(fetch_status=-2, max_attempts=3)
    spec, told = amended(change)
    assert sorted(told) == ["retry.statuses", "robots.unreachable"]
    assert wire.settings_of(spec).robots.allow_unreachable
    assert [rule.fetch_status for rule in spec.retry.statuses] == [-2]


# What is refused.


@pytest.mark.parametrize(
    "path",
    [
        "no_such_field",
        "limits.no_such_field",
        "limits.host_quota.max_successes.more",
        "max_toes.more",
        "scope.hosts.more",
        "retry.statuses.fetch_status",
        "",
        ".",
        "limits.",
        ".limits",
        "limits..max_documents",
        "politeness.min_delay.no_such_field",
        "x" * 10_000,
    ],
)
def test_a_path_that_names_no_field_is_refused_and_named(path: str) -> None:
    before = stored().SerializeToString()
    with pytest.raises(ValueError) as refused:
        wire.amended(before, Spec(), ["max_toes", path])
    assert repr(path[:80]) in str(refused.value) and len(str(refused.value)) < 200


@given(st.text(max_size=30))
def test_no_text_is_taken_for_a_path_that_is_none(path: str) -> None:
    try:
        _, told = amended(Spec(), path)
    except ValueError:
        return
    names = path.split(".")
    assert told == [path] and names[0] in Spec.DESCRIPTOR.fields_by_name


def test_what_a_later_version_wrote_of_a_spec_stays() -> None:
    """A field that this server does not know."""
    unknown = b"\xfa\x3f\x03new"  # field 1023, text
    spec, _ = wire.amended(stored().SerializeToString() + unknown, Spec(max_toes=3), ["max_toes"])
    assert unknown in spec


# All fields.


def test_every_field_of_a_spec_can_be_named() -> None:
    """The whole of it, one field after the other, is the other one."""
    other = wire.spec(CrawlSettings(contact="https://example.org/", max_toes=7, pause_at_start=True))
    paths = [field.name for field in Spec.DESCRIPTOR.fields]
    assert amended(other, *paths)[0] == other


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Spec(max_toes=3), ["max_toes = 3 (was 9)"]),
        (Spec(max_toes=9), []),
        (Spec(weight=1), []),  # its default
        (Spec(weight=2), ["weight = 2 (was 1)"]),
        (Spec(contact=""), ['contact = "" (was "https://example.org/bot")']),
        (Spec(pause_at_start=True), ["pause_at_start = true (was false)"]),
        (
            Spec(politeness=crawl_pb2.PolitenessSpec(min_delay=Duration(nanos=500_000_000))),
            ["politeness.min_delay_seconds = 0.5 (was 1.5)"],
        ),
        (
            Spec(
                limits=crawl_pb2.LimitSpec(
                    max_documents=1000, host_quota=crawl_pb2.QuotaSpec(max_successes=1)
                )
            ),
            ["limits.max_documents = 1000 (was 100)", "limits.host_quota.max_successes = 1 (was 7)"],
        ),
        (
            Spec(robots=crawl_pb2.RobotsSpec(unreachable=crawl_pb2.ROBOTS_UNREACHABLE_ALLOW)),
            ['robots.unreachable = "allow" (was "forbid")'],
        ),
        (
            Spec(scope=crawl_pb2.ScopeSpec(schemes=["https"])),
            ['scope.schemes = ["https"] (was ["http", "https"])'],
        ),
        (
            Spec(scope=crawl_pb2.ScopeSpec(reject_patterns=["x" * 200])),
            [f'scope.reject_patterns = ["{"x" * 78}… (was [])'],
        ),
        (
            Spec(retry=crawl_pb2.RetrySpec(statuses=[crawl_pb2.RetryRule(fetch_status=-2)])),
            ["retry.statuses (1 of them, were 0)"],
        ),
        (
            Spec(fetch=crawl_pb2.FetchSpec(credentials=[crawl_pb2.CredentialSpec(password="secret")])),
            ["fetch.credentials (1 of them, were 0)"],
        ),
        (
            Spec(fetch=crawl_pb2.FetchSpec(proxy="http://me:secret@proxy.example:1/")),
            ["fetch.proxy (another one)"],
        ),
    ],
)
def test_differences_name_old_and_new_values_without_passwords(
    change: crawl_pb2.CrawlSpec, told: list[str]
) -> None:
    before = stored().SerializeToString()
    after, _ = wire.amended(before, change, ())
    assert wire.differences(before, after) == told
