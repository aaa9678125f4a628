"""The cases of the conformance kit: each can fail, each names a place that the contract has, and results are
told in full."""

import re
from collections import Counter

import pytest
from conformance_doubles.broken import FAILING, Broken

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_conformance import table
from toehold_conformance.case import Case, Level
from toehold_conformance.cases import ALL
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.kit import Result, conforms, judge
from toehold_conformance.tap import Call

_FIELD = re.compile(r"([A-Z][A-Za-z]+)\.([a-z_]+)")
_CONSTANT = re.compile(r"[A-Z]+(_[A-Z]+)+")
_WORD = re.compile(r"[A-Z][a-z][A-Za-z]*")
_FILES = (frontier_pb2.DESCRIPTOR, crawl_pb2.DESCRIPTOR)


def _places(case: Case) -> list[str]:
    return [place for place in case.contract.partition(":")[0].split(", ") if not place.startswith("RFC ")]


def _is_in_contract(place: str) -> bool:
    if place == "The header of frontier.proto":
        return True
    messages = {name: message for file in _FILES for name, message in file.message_types_by_name.items()}
    if found := _FIELD.fullmatch(place):
        return found[1] in messages and found[2] in messages[found[1]].fields_by_name
    if _CONSTANT.fullmatch(place):
        enums = [enum for file in _FILES for enum in file.enum_types_by_name.values()]
        return any(place in enum.values_by_name for enum in enums)
    methods = frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"].methods_by_name
    return _WORD.fullmatch(place) is not None and (
        place in messages or place in methods or place == "Disposition"
    )


def test_each_case_names_places_that_the_contract_has() -> None:
    assert [place for case in ALL for place in _places(case) if not _is_in_contract(place)] == []


def test_each_case_says_what_is_right_in_a_sentence() -> None:
    assert [case for case in ALL if not (case.right[0].isupper() and case.right.endswith("."))] == []


def test_names_of_cases_are_unique() -> None:
    assert [name for name, times in Counter(case.name for case in ALL).items() if times > 1] == []


def test_hosts_of_cases_and_of_plays_have_different_names() -> None:
    assert {case.name for case in ALL if case.hosts} & {case.play.name for case in ALL} == set()


def test_no_case_holds_for_a_fetcher_that_does_nothing() -> None:
    for case in ALL:
        seen = Evidence(
            case.name if case.hosts else case.play.name, _Origins(), [], [], trouble="It did nothing."
        )
        assert not judge(case, seen).holds, case.name


def test_no_case_about_hosts_holds_for_a_fetcher_that_only_asks_for_leases() -> None:
    for case in ALL:
        if case.hosts:
            seen = Evidence(case.name, _Origins(), [], [Call("Next", frontier_pb2.NextRequest(), 0.0, 1.0)])
            with pytest.raises(Fails):
                case.judge(seen)


class _Origins(dict[str, str]):
    """Some origin for every host."""

    def __missing__(self, key: str) -> str:
        return f"http://{key.replace('/', '.')}.example"


def test_every_fault_of_the_scripted_fetcher_makes_a_required_case_fail() -> None:
    required = {case.name for case in ALL if case.level is Level.REQUIRED}
    of_advised = {Broken.ENDS_AT_ONCE, Broken.READS_LOCATIONS_AS_LATIN_1}
    for fault in Broken:
        assert FAILING[fault] & required or fault in of_advised, fault


def test_faults_name_cases_that_there_are() -> None:
    assert set().union(*FAILING.values()) <= {case.name for case in ALL}


def _results(*failing: str) -> list[Result]:
    return [
        Result(case, "The fetcher did\n  something else." if case.name in failing else "") for case in ALL
    ]


def test_a_failed_case_tells_what_was_done_and_what_is_right() -> None:
    (result,) = (result for result in _results("links") if not result.holds)
    assert table.reason(result) == (
        "The fetcher did something else. Right: Offer the links of a page: <a href>. (PURPOSE_PAGE)"
    )


def test_a_fetcher_conforms_if_all_required_cases_hold() -> None:
    assert conforms(_results())
    assert conforms(_results("long-poll"))
    assert not conforms(_results("links"))


def test_the_summary_counts_required_and_advised_cases() -> None:
    assert re.fullmatch(
        r"The fetcher does not conform: (\d+) of (?!\1)\d+ required, (\d+) of \2 advised cases hold\.",
        table.summary(_results("links")),
    )
    assert table.summary(_results()).startswith("The fetcher conforms: ")


def test_the_table_of_fetchers_leaves_what_was_not_tried_empty() -> None:
    lines = table.markdown_results({"a": {"links": True}, "b": {"links": False}, "c": {}}).splitlines()
    assert lines[0] == "| case | level | a | b | c |"
    assert "| `links` | required | holds | **fails** |  |" in lines
