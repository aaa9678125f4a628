"""Links and references against parsers that others have written: html5lib, tinycss2 and Upa."""

import re
from random import Random

import pytest
from frontier_harness.soaking import Soak
from link_judges import browser, pages, writings
from link_judges.judging import Tally

from crawler_node.fetching.references import resolve

ENOUGH = 1000
PAGE = "http://a.example/dir/page"

_BEYOND_IDNA = re.compile(r"https?://[^/]*xn--")
"""A host with a label that should be Punycode. Which of them are none differs between versions of IDNA;
browsers take all since 2024."""


def test_no_link_of_documentation_is_lost() -> None:
    tally = Tally()
    for uri, body in pages.few():
        tally.compare(body, uri)
    print(tally.lines())
    assert (tally.lost, tally.odd) == ([], [])
    assert tally.pages > 100 and tally.links > 10_000


@pytest.mark.soak("links")
@pytest.mark.timeout(0)
def test_no_link_of_much_documentation_is_lost(soak: Soak) -> None:
    tally = Tally()
    for uri, body in pages.many():
        tally.compare(body, uri)
    print(tally.lines())
    soak.count(checked=tally.links, lost=len(tally.lost), violated=len(tally.odd))
    assert tally.pages >= ENOUGH, "`make doc-pages` unpacks them"
    assert (tally.lost, tally.odd) == ([], [])


def test_no_link_of_a_page_is_lost_however_people_write_it() -> None:
    assert lost(seed=1, number=1_500) == []


@pytest.mark.soak("links")
@pytest.mark.timeout(0)
def test_no_link_of_many_pages_is_lost_however_people_write_it(soak: Soak) -> None:
    number = soak.cycles(100_000)
    found = lost(soak.seed, number)
    soak.count(checked=number, lost=len(found))
    assert found == []


def test_references_mean_what_they_mean_to_another_parser() -> None:
    assert different(seed=1, number=30_000) == []


@pytest.mark.soak("links")
@pytest.mark.timeout(0)
def test_many_references_mean_what_they_mean_to_another_parser(soak: Soak) -> None:
    number = 10 * soak.cycles(100_000)
    found = different(soak.seed, number)
    soak.count(checked=number, violated=len(found))
    assert found == []


def lost(seed: int, number: int) -> list[tuple[str, list[str]]]:
    """Pages whose links are not all found, with these links."""
    found = []
    for at in range(number):
        page = writings.page(Random(f"{seed} {at}"))
        tally = Tally()
        tally.compare(page.encode(), PAGE, "utf-8")
        if tally.lost:
            found.append((page, tally.lost))
    return found


def different(seed: int, number: int) -> list[tuple[str, str, str | None, str | None]]:
    """Bases and references that we resolve in another way than the other parser, and both results."""
    found = []
    chance = Random(seed)
    for _ in range(number):
        base, reference = chance.choice(writings.BASES), writings.reference(chance)
        ours, theirs = resolve(base, reference), browser.resolved(reference, base)
        if ours != theirs and not (None in (ours, theirs) and _BEYOND_IDNA.match(ours or theirs or "")):
            found.append((base, reference, ours, theirs))
    return found
