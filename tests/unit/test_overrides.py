"""Settings for a part of the web."""

from collections.abc import Sequence

import pytest

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state import overrides as module
from frontier_server.core.state.overrides import Overrides

WWW = "http://(com,example,www,)/a"


class Merging:
    """Tells what was merged by the contact of the settings, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, parts: Sequence[bytes]) -> CrawlSettings:
        self.calls += 1
        return CrawlSettings(contact=" ".join(part.decode() for part in parts))


def made() -> tuple[Overrides, Merging]:
    merging = Merging()
    overrides = Overrides(merging)
    overrides.put("http://(com,example,www,", b"host")
    overrides.put("http://(com,", b"com")
    overrides.put("http://(com,example,www,)/a/", b"folder")
    overrides.put("http://(org,", b"org")
    return overrides, merging


def contact(overrides: Overrides, surt: str) -> str | None:
    settings = overrides.settings_for(surt)
    return None if settings is None else settings.contact


def test_all_overrides_that_match_are_laid_over_each_other_the_longest_last() -> None:
    """Heritrix 2.23: sheets by SURT prefix."""
    overrides, _ = made()
    assert contact(overrides, WWW) == "com host"
    assert contact(overrides, f"{WWW}/b") == "com host folder"
    assert contact(overrides, "http://(com,other,)/") == "com"


def test_where_nothing_matches_the_crawl_s_own_settings_hold() -> None:
    overrides, merging = made()
    assert overrides.settings_for("http://(net,") is None
    assert Overrides(merging).settings_for(WWW) is None
    assert merging.calls == 0


def test_what_was_merged_is_remembered_for_all_that_match_the_same() -> None:
    overrides, merging = made()
    settings = overrides.settings_for(WWW)
    assert overrides.settings_for("http://(com,example,www,)/other") is settings
    assert merging.calls == 1


def test_an_override_counts_from_the_next_decision_on() -> None:
    overrides, _ = made()
    assert contact(overrides, WWW) == "com host"
    overrides.put("http://(com,", b"changed")
    assert contact(overrides, WWW) == "changed host"
    overrides.discard("http://(com,example,www,")
    assert contact(overrides, WWW) == "changed"
    overrides.discard("http://(com,")
    overrides.discard("http://(com,")
    assert contact(overrides, WWW) is None


def test_overrides_are_listed_in_order() -> None:
    overrides, _ = made()
    assert overrides.items() == [
        ("http://(com,", b"com"),
        ("http://(com,example,www,", b"host"),
        ("http://(com,example,www,)/a/", b"folder"),
        ("http://(org,", b"org"),
    ]
    assert len(overrides) == 4


def test_what_is_remembered_has_an_end_and_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """One combination more than there is room for costs one, not all of them."""
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    overrides, merging = made()
    for surt in (WWW, f"{WWW}/b", WWW, "http://(org,"):
        assert overrides.settings_for(surt) is not None
    assert merging.calls == 3
    overrides.settings_for(WWW)
    overrides.settings_for("http://(org,")
    assert merging.calls == 3, "asked for of late"
    overrides.settings_for(f"{WWW}/b")
    assert merging.calls == 4, "asked for longest ago"


def test_an_override_that_is_put_costs_nothing_that_it_has_no_part_in() -> None:
    overrides, merging = made()
    for surt in (WWW, "http://(org,"):
        overrides.settings_for(surt)
    overrides.put("http://(com,example,www,", b"changed")
    overrides.put("http://(net,", b"net")
    assert contact(overrides, "http://(org,") == "org" and merging.calls == 2
    assert contact(overrides, WWW) == "com changed" and merging.calls == 3
    assert contact(overrides, "http://(net,") == "net"
