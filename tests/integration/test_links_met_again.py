"""What nodes offer again of the links that they have met before, as users of `toehold crawl` see it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from frontier_harness import embedded
from frontier_harness.embedded import Run, report_in
from frontier_harness.small_site import SmallSite

from toehold_cli import frontier_file
from toehold_client import FrontierClient

site, crawl = embedded.site, embedded.crawl  # fixtures

MOVED, OTHER = "moved.test", "other.test"
PAGES, BEFORE = 10, 5


def linked_pages(site: SmallSite, count: int, link: str, more: str = "") -> list[str]:
    """Paths of pages that all have a link, and that the home page links to, which begins with `more`."""
    paths = [f"/page/{number}" for number in range(count)]
    site.links = dict.fromkeys(paths, f'<a href="{link}">l</a>')
    site.links["/"] = more + "".join(f'<a href="{path}">p</a>' for path in paths)
    return paths


def spec(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "spec.toml").write_text('allowed_addresses = ["loopback"]\n')
    return "--spec", "spec.toml", "--contact", "me@site.test"


@pytest.mark.parametrize("pages_after", [0, 4])
def test_a_link_out_of_scope_is_taken_in_once_a_seed_has_redirected_to_its_host(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, pages_after: int
) -> None:
    """All pages have that link, so the node stops offering it until then. The last one may be under way."""
    paths = linked_pages(site, BEFORE + 1 + pages_after, site.url(OTHER, "/wanted"))
    site.redirects = {site.url(MOVED, "/moved"): site.url(OTHER, "/home")}
    moves, goes_on = site.hold("/moved"), site.hold(paths[BEFORE])
    run = crawl(site.url(MOVED, "/moved"), *site.resolve((MOVED, OTHER)), *spec(tmp_path))
    run.until(lambda: site.asked[paths[BEFORE]])
    assert not site.asked["/wanted"]
    moves.set()
    run.until(lambda: site.asked["/home"])
    goes_on.set()
    code, _, stderr = run.end()
    assert (code, stderr) == (0, "")
    assert [site.asked[path] for path in paths] == [1] * len(paths)
    assert dict(site.asked)["/wanted"] == 1


@pytest.mark.undivided("nodes remember for longer what a frontier of several shards has seen")
@pytest.mark.parametrize("scope_changes", [False, True])
def test_a_forgotten_page_is_fetched_again_when_another_page_links_to_it(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, scope_changes: bool
) -> None:
    """Also if the scope changed when it was met first. The node holds a lease all the time."""
    refresh = (
        f'<meta http-equiv="refresh" content="5; url={site.url(OTHER, "/home")}">' if scope_changes else ""
    )
    paths = linked_pages(site, PAGES, "/wanted", more=f'{refresh}<a href="/wanted">w</a>')
    held, goes_on = site.hold("/held"), site.hold(paths[BEFORE])
    run = crawl(site.url(MOVED, "/held"), *site.resolve((MOVED, OTHER)), *spec(tmp_path))
    run.until(lambda: site.asked[paths[BEFORE]])
    with FrontierClient(frontier_file.find(tmp_path / "it").address) as client:
        assert client.forget_uris("crawl", [site.url(path="/wanted")]) == 1
    goes_on.set()
    run.until(lambda: site.asked[paths[-1]] and site.asked["/wanted"] == 2)
    held.set()
    assert run.end()[0] == 0
    assert site.asked["/wanted"] == 2


@pytest.mark.undivided("only a frontier of one shard tells the version of a scope")
def test_a_link_out_of_scope_that_all_pages_have_is_offered_once(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    linked_pages(site, PAGES, "http://elsewhere.test/")
    assert crawl("--toes", "1").end()[0] == 0
    report = report_in(tmp_path)
    assert (report["pages"], report["verdicts"]["OUT_OF_SCOPE"]) == (1 + PAGES, 1)
