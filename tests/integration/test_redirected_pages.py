"""`toehold crawl` of sites that redirect: to other spellings of their pages, in rounds, in recrawls."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from frontier_harness import embedded
from frontier_harness.embedded import Run
from frontier_harness.small_site import SmallSite

site, crawl = embedded.site, embedded.crawl  # fixtures

NAMES = ("", "about", "news", "contact")
BARE, WWW = "site.test", "www.site.test"


def spec(tmp_path: Path, text: str) -> tuple[str, ...]:
    (tmp_path / "spec.toml").write_text(text)
    return "--spec", "spec.toml"


def test_crawl_fetches_all_pages_of_a_site_that_redirects_to_its_www_host(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    site.redirects = {site.url(BARE, f"/{name}"): site.url(WWW, f"/{name}") for name in NAMES}
    site.links = {"/": "".join(f'<a href="{site.url(BARE)}{name}">{name}</a>' for name in NAMES)}
    rules = spec(tmp_path, 'allowed_addresses = ["loopback"]\n[identity]\nrules = ["strip-www"]\n')
    where = *site.resolve((BARE, WWW)), "--contact", "me@site.test"
    code, _, stderr = crawl(site.url(BARE), *where, *rules).end()
    assert (code, stderr) == (0, "")
    asked = Counter(request for request in site.requests if request[1] != "/robots.txt")
    pages = {(host, f"/{name}") for host in (BARE, WWW) for name in NAMES}
    assert asked == Counter(pages | {("127.0.0.1", "/")})


@pytest.mark.parametrize(("cookies", "times"), [("false", 1), ("true", 2)])
def test_a_page_that_redirects_to_itself_is_fetched_again_only_with_the_cookie_that_it_sets(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, cookies: str, times: int
) -> None:
    site.links = {"/": '<a href="/wall">w</a> <a href="/loop">l</a>', "/wall": '<a href="/behind">b</a>'}
    site.redirects = {site.url(path=path): path for path in ("/wall", "/loop")}
    site.cookie_walls = {"/wall"}
    code, _, stderr = crawl(*spec(tmp_path, f"[fetch]\ncookies = {cookies}\n")).end()
    assert (code, stderr) == (0, "")
    assert (site.asked["/wall"], site.asked["/loop"], site.asked["/behind"]) == (times, 1, times - 1)


@pytest.mark.parametrize("length", [2, 4])
def test_a_round_of_reseeding_fetches_the_target_of_its_seed(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, length: int
) -> None:
    chain = ["/", *(f"/hop/{number}" for number in range(1, length))]
    for path, target in pairwise(chain):
        site.redirects[site.url(path=path)] = target
    site.links = {chain[-1]: '<a href="/page">p</a>'}
    code, _, stderr = crawl(*spec(tmp_path, "[reseed]\nmax_rounds = 2\n")).end()
    assert (code, stderr) == (0, "")
    assert {path: site.asked[path] for path in [*chain, "/page"]} == {**dict.fromkeys(chain, 3), "/page": 1}


def test_a_recrawl_fetches_new_and_old_targets_of_redirects_once_each(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    """Also one that was not in the log as the target was another page then."""
    site.links = {"/": "".join(f'<a href="/r/{number}">r</a>' for number in range(3))}
    site.redirects = {site.url(path=f"/r/{number}"): "/target" for number in range(3)}
    assert crawl().end()[0] == 0
    site.redirects[site.url(path="/r/2")] = "/new"
    assert crawl("--recrawl").end()[0] == 0
    assert (site.asked["/target"], site.asked["/new"], site.asked["/r/1"]) == (2, 1, 2)
