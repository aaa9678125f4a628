"""Seeds that a frontier refused, as the client tells them."""

from typing import Any

import pytest

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, RejectedSeed
from toehold.frontier.v1.crawl_pb2 import Verdict
from toehold_client.errors import InvalidArgument, SeedsRefused
from toehold_client.rpc.arguments import several
from toehold_client.seeds import accepted, likely

MALFORMED, SCHEME = Verdict.VERDICT_MALFORMED, Verdict.VERDICT_UNSUPPORTED_SCHEME


def refused(*uris: str, stored: int = 0, count: int = 0) -> AddSeedsResponse:
    seeds = [RejectedSeed(uri=uri, number=n, verdict=MALFORMED) for n, uri in enumerate(uris, start=1)]
    return AddSeedsResponse(added_count=stored, rejected_count=count or len(seeds), rejected=seeds)


@pytest.mark.parametrize(
    ("seed", "meant"),
    [
        ("https//docs.example/a", "https://docs.example/a"),
        ("https:/docs.example/a", "https://docs.example/a"),
        ("https:///docs.example", "https://docs.example"),
        ("htps://docs.example", "https://docs.example"),
        ("htttp://docs.example/", "http://docs.example/"),
        ("docs.example/a", "https://docs.example/a"),
        ("docs.example:8080", "https://docs.example:8080"),
        ("localhost:8080/a", "https://localhost:8080/a"),
        ("127.0.0.1:8080/a", "https://127.0.0.1:8080/a"),
        ("https://docs.example/ # ours", "https://docs.example/"),
        ("docs.example # ours", "https://docs.example"),
        ("https://docs.example/ ours", ""),
        ("http://https://docs.example/", "https://docs.example/"),
        ("https://docs.example/", ""),
        ("ftp://docs.example/", ""),
        ("mailto:me@docs.example", ""),
        ("not a url", ""),
        ("", ""),
    ],
)
def test_a_typo_of_the_scheme_is_recognised(seed: str, meant: str) -> None:
    assert likely(seed) == meant


def test_the_error_says_which_seeds_were_refused_why_and_that_the_others_are_stored() -> None:
    answer = refused("https//a.example", stored=2)
    with pytest.raises(SeedsRefused) as error:
        accepted(answer, "raise")
    assert str(error.value) == (
        "1 seed was refused; the other 2 are stored: "
        "seed 1 (https//a.example) is not a valid URL; did you mean https://a.example?"
    )
    assert error.value.rejected == list(answer.rejected)
    assert error.value.answer == answer


def test_of_many_refused_seeds_the_error_names_five() -> None:
    with pytest.raises(SeedsRefused) as error:
        accepted(refused(*[f":{n}" for n in range(7)], count=300), "raise")
    message = str(error.value)
    assert message.startswith("300 seeds were refused: seed 1 (:0) is not a valid URL; seed 2")
    assert message.endswith("seed 5 (:4) is not a valid URL; and 295 more")


def test_seeds_of_another_scheme_are_told_so() -> None:
    ftp = RejectedSeed(uri="ftp://a.example/", number=3, verdict=SCHEME)
    with pytest.raises(
        SeedsRefused, match=r"seed 3 \(ftp://a.example/\) has a scheme other than http and https$"
    ):
        accepted(AddSeedsResponse(rejected_count=1, rejected=[ftp]), "raise")


def test_refused_seeds_are_only_reported_if_asked_for() -> None:
    answer = refused("https//a.example")
    assert accepted(answer, "report") is answer
    assert accepted(AddSeedsResponse(added_count=1), "raise").added_count == 1


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (
            "https://a.example/",
            'seeds must be an iterable of URIs, got one string; put it into a list: ["https://a.example/"]',
        ),
        (b"x", "seeds must be an iterable of URIs, got one bytes object; put it into a list: […]"),
        (7, "seeds must be an iterable of URIs, got one int"),
        (None, "seeds must be an iterable of URIs, got one NoneType"),
    ],
)
def test_one_item_in_place_of_an_iterable_is_refused(seeds: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        several(seeds, "seeds", "URIs")
    assert str(error.value) == message
