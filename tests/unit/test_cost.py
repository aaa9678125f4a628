"""What a URI costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rules.cost import POLICIES
from frontier_server.core.uri.canonical import canonical

PAGE = "http://ex.com/a/page"


@pytest.mark.parametrize(
    ("policy", "uri", "via", "cost"),
    [
        ("zero", PAGE, "", 0),
        ("unit", PAGE, "", 1),
        ("unit", f"{PAGE}?year=2020", PAGE, 1),
        ("wag", PAGE, PAGE, 1),
        ("wag", f"{PAGE}?a=b", "", 2),
        ("wag", f"{PAGE}?a=b", "http://ex.com/other", 2),
        ("wag", f"{PAGE}?a=b", PAGE, 3),
        ("wag", f"{PAGE}?a=b", f"{PAGE}?a=a", 3),
        ("wag", f"{PAGE}?a=b?c", f"{PAGE}", 3),
        ("anti-calendar", PAGE, "", 1),
        ("anti-calendar", "http://ex.com/Calendar/", "", 2),
        ("anti-calendar", "http://ex.com/calendrier/du/jour?month=1", "", 2),
        ("anti-calendar", "http://ex.com/x?yr=1", "", 2),
        ("anti-calendar", "http://ex.com/events", "", 2),
        ("anti-calendar", "http://ex.com/2026/x", "", 2),
        ("anti-calendar", "http://ex.com/1999-x", "", 2),
        ("anti-calendar", "http://ex.com/12026/x", "", 1),
        ("anti-calendar", "http://ex.com/20260/x", "", 1),
        ("anti-calendar", "http://ex.com/1899/x", "", 1),
    ],
)
def test_a_uri_costs_what_its_policy_says(policy: str, uri: str, via: str, cost: int) -> None:
    """Heritrix 2.5."""
    assert POLICIES[policy](canonical(uri).uri, via) == cost


@given(st.sampled_from(sorted(POLICIES)), st.text("ab/?=2019 ", max_size=20), st.text(max_size=20))
def test_a_cost_is_small_whatever_the_uri(policy: str, rest: str, via: str) -> None:
    assert 0 <= POLICIES[policy](canonical(f"http://ex.com/{rest}").uri, via) <= 3
