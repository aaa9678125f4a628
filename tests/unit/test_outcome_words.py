"""The outcome of a URI in words, and why a crawl failed."""

import pytest

from frontier_server.core.rules.disposition import MEANINGS
from frontier_server.core.rules.outcome_words import WORDS, failure, retry_words, words


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        (200, "", "fetched (200)"),
        (304, "", "fetched (304)"),
        (301, "", "redirected (301)"),
        (302, "/login", "redirected to /login (302)"),
        (307, "http://other.example/", "redirected to http://other.example/ (307)"),
        (304, "/login", "fetched (304)"),
        (404, "", "answered with an error (404)"),
        (503, "ignored", "answered with an error (503)"),
        (-1, "", "name not found"),
        (-7, "127.0.0.1 is not public", "address refused: 127.0.0.1 is not public"),
        (-61, "status 503", "robots.txt could not be fetched: status 503"),
        (-8, "", "not fetched (-8)"),
    ],
)
def test_an_outcome_has_words(status: int, reason: str, told: str) -> None:
    assert words(status, reason) == told


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        (-3, "", "retry after fetch status -3: connection lost"),
        (-2, "refused", "retry after fetch status -2: connection failed: refused"),
        (503, "ignored", "retry after fetch status 503"),
        (0, "", "retry after a failure"),
    ],
)
def test_a_retry_has_words(status: int, reason: str, told: str) -> None:
    assert retry_words(status, reason) == told


def test_words_are_those_of_known_statuses() -> None:
    assert WORDS.keys() <= MEANINGS.keys()


@pytest.mark.parametrize(
    ("statuses", "seeds", "told"),
    [
        ({200: 1, 404: 5}, 1, ""),
        ({304: 1}, 1, ""),
        ({404: 1}, 1, "no page was fetched: answered with an error (404)"),
        ({-1: 2, 301: 1}, 1, "no page was fetched: name not found (2 times), redirected (301)"),
        (
            {-1: 4, -2: 3, -4: 2, -7: 1, 500: 1},
            9,
            "no page was fetched: name not found (4 times), connection failed (3 times), "
            "timed out (2 times), and 2 others",
        ),
        ({}, 1, "no page was fetched: the seed was not taken in"),
        ({}, 3, "no page was fetched: none of 3 seeds was taken in"),
    ],
)
def test_a_crawl_without_a_page_has_failed(statuses: dict[int, int], seeds: int, told: str) -> None:
    assert failure(statuses, {}, seeds) == told


def test_a_crawl_that_ended_before_the_first_answer_says_so() -> None:
    assert failure({}, {}, 1, 1) == "no page was fetched: the crawl ended before the first answer"


@pytest.mark.parametrize(
    ("of_seeds", "told"),
    [
        ({200: 1, 404: 5}, ""),
        ({301: 1}, ""),
        ({404: 1}, "no seed was fetched: answered with an error (404)"),
        ({-1: 2, 503: 1}, "no seed was fetched: name not found (2 times), answered with an error (503)"),
    ],
)
def test_a_crawl_that_fetched_none_of_its_seeds_has_failed(of_seeds: dict[int, int], told: str) -> None:
    assert failure({200: 9, **of_seeds}, of_seeds, 9) == told
