"""Specs and overrides that a program gives as dicts."""

from typing import Any, get_type_hints

import msgspec
import pytest
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import crawl_pb2
from toehold_client import crawl_spec
from toehold_client.errors import InvalidSpec
from toehold_client.spec import dicts, fields
from toehold_client.spec.given import change_of, override_settings_of, spec_of

SLOW = crawl_pb2.CrawlSpec(
    contact="me@example.org", politeness=crawl_pb2.PolitenessSpec(min_delay=Duration(seconds=3))
)


def test_a_spec_may_be_a_dict_or_keywords_or_the_contracts_message() -> None:
    given = spec_of({"contact": "me@example.org", "politeness": {"min_delay_seconds": 3}})
    assert given == crawl_spec(contact="me@example.org", politeness={"min_delay_seconds": 3}) == SLOW
    assert spec_of(SLOW) is SLOW
    assert crawl_spec() == crawl_pb2.CrawlSpec()


def test_lists_words_and_tables_in_lists_are_as_in_a_spec_file() -> None:
    given = crawl_spec(
        scope={"hosts": ["a.example", "b.example"], "schemes": ("https",)},
        robots={"unreachable": "allow"},
        retry={"statuses": [{"fetch_status": -4, "max_attempts": 2}]},
    )
    assert given == crawl_pb2.CrawlSpec(
        scope=crawl_pb2.ScopeSpec(hosts=["a.example", "b.example"], schemes=["https"]),
        robots=crawl_pb2.RobotsSpec(unreachable=crawl_pb2.RobotsUnreachable.ROBOTS_UNREACHABLE_ALLOW),
        retry=crawl_pb2.RetrySpec(statuses=[crawl_pb2.RetryRule(fetch_status=-4, max_attempts=2)]),
    )


def test_a_change_has_all_that_the_dict_names_also_defaults_and_empty_lists() -> None:
    change, paths = change_of({"politeness": {"min_delay_seconds": 3}, "scope": {"hosts": []}, "max_toes": 0})
    assert change == crawl_pb2.CrawlSpec(
        max_toes=0, politeness=crawl_pb2.PolitenessSpec(min_delay=Duration(seconds=3))
    )
    assert sorted(paths) == ["max_toes", "politeness.min_delay", "scope.hosts"]
    assert change_of({"max_toes": 1}, ["politeness"])[1] == ["politeness"]
    assert change_of(SLOW) == (SLOW, ())


def test_an_override_may_be_a_dict() -> None:
    given = override_settings_of({"politeness": {"min_delay_seconds": 3}, "fetch": {"credentials": []}})
    assert given == crawl_pb2.OverrideSettings(politeness=SLOW.politeness, empty_lists=["fetch.credentials"])
    assert override_settings_of(given) is given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"politeness": {"min_delay": 3}},
            "politeness.min_delay: no such field; did you mean min_delay_seconds?",
        ),
        ({"contcat": "x"}, "contcat: no such field; did you mean contact?"),
        ({"max_toes": "7"}, 'max_toes: must be a whole number, got "7"'),
        ({"scope": {"hosts": "a.example"}}, 'scope.hosts: must be a list, got "a.example"'),
        ({"retry": {"statuses": [{"status": 1}]}}, "retry.statuses[0].status: no such field; did you mean"),
        (
            {"robots": {"unreachable": "perhaps"}},
            'robots.unreachable: must be one of forbid, allow, got "perhaps"',
        ),
        ({7: 8}, "expected `str`"),
        ("contact", "spec must be a CrawlSpec or a dict, got str"),
        (None, "spec must be a CrawlSpec or a dict, got NoneType"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_place_and_the_right_name(given: Any, message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec_of(given)
    assert message in str(refused.value)


def test_the_type_checker_knows_the_names() -> None:
    # If mypy accepted one of these, it would report that its `ignore` is unused.
    with pytest.raises(InvalidSpec):
        crawl_spec(contcat="x")  # type: ignore[call-arg]
    with pytest.raises(InvalidSpec):
        crawl_spec(politeness={"min_delay": 3})  # type: ignore[typeddict-unknown-key]


def test_the_dicts_have_the_keys_of_the_tables() -> None:
    tables = {
        name: kind
        for name, kind in vars(fields).items()
        if isinstance(kind, type) and issubclass(kind, fields.Table) and kind is not fields.Table
    }
    for name, table in tables.items():
        keys = get_type_hints(getattr(dicts, f"{name}Dict"))
        assert list(keys) == [field.name for field in msgspec.structs.fields(table)]
