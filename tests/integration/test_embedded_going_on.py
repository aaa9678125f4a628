"""`toehold crawl` on a directory with a crawl: changed options, further seeds, raised limits, recrawls."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from frontier_harness import embedded
from frontier_harness.embedded import (
    ALL_PATHS,
    PAGES,
    Run,
    once_each,
    report_in,
    toehold,
    until_pausing,
)
from frontier_harness.small_site import SmallSite, small_site

site, crawl = embedded.site, embedded.crawl  # fixtures


def pause(crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, *options: str) -> None:
    """Runs the crawl until some pages are fetched, and pauses it."""
    let_go = site.hold("/page/5")
    run = crawl(*options)
    run.until(lambda: site.asked["/page/5"])
    run.process.send_signal(signal.SIGTERM)
    until_pausing(tmp_path)
    let_go.set()
    assert run.end()[0] == 130


def asked_for(tmp_path: Path) -> dict[str, object]:
    content = json.loads((tmp_path / "it" / "crawl.json").read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.soak("resuming")
def test_changed_options_and_further_seeds_are_applied_to_a_paused_crawl_and_told(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    pause(crawl, site, tmp_path)
    code, stdout, stderr = crawl("--max-hops", "3", "--parallel", "2", f"{site.url()}more").end()
    assert (code, stderr) == (0, "")
    assert "Changed: scope.max_link_hops was 20, is 3." in stdout
    assert "Changed: politeness.max_parallel was 1, is 2." in stdout
    assert "Added: 1 seed." in stdout
    once_each(site)
    assert site.asked["/more"] == 1
    asked = asked_for(tmp_path)
    assert asked["seeds"] == [site.url(), f"{site.url()}more"]
    assert [seed["url"] for seed in report_in(tmp_path)["seeds"]] == asked["seeds"]


@pytest.mark.soak("resuming")
def test_settings_that_another_command_has_changed_stay(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl()
    run.until(lambda: site.asked["/page/5"])
    assert toehold(tmp_path, "set", "limits.max_documents=9", "--dir", "it")[0] == 0
    run.process.send_signal(signal.SIGTERM)
    until_pausing(tmp_path)
    let_go.set()
    run.end()
    code, stdout, _ = crawl().end()
    assert (code, report_in(tmp_path)["pages"]) == (0, 9)
    assert "Changed" not in stdout


@pytest.mark.soak("resuming")
def test_a_crawl_that_has_nothing_left_to_fetch_takes_further_seeds_but_no_other_settings(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    assert crawl().end()[0] == 0
    code, _, stderr = crawl("--max-hops", "9").end()
    assert code == 5
    assert "has nothing left to fetch" in stderr and "--recrawl" in stderr
    code, stdout, _ = crawl(f"{site.url()}more").end()
    assert (code, report_in(tmp_path)["pages"]) == (0, PAGES + 2)
    assert "Added: 1 seed." in stdout
    once_each(site)


@pytest.mark.soak("resuming")
def test_a_recrawl_asks_for_each_page_once_more_and_gets_those_that_have_changed(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    assert crawl("--mirror").end()[0] == 0
    mirror = next((tmp_path / "it" / "mirror").glob("127*"))
    assert (mirror / "page" / "7").read_text().startswith("<!DOCTYPE html><title>/page/7 old")
    site.changed.add("/page/7")
    code, stdout, stderr = crawl("--mirror", "--recrawl").end()
    assert (code, stderr) == (0, "")
    assert f"Will fetch {PAGES + 1} pages again." in stdout
    assert {site.asked[path] for path in ALL_PATHS} == {2}
    assert site.answered == {200: PAGES + 2, 304: PAGES}
    assert (mirror / "page" / "7").read_text().startswith("<!DOCTYPE html><title>/page/7 new")
    assert (mirror / "page" / "8").read_text().startswith("<!DOCTYPE html><title>/page/8 old")
    code, _, _ = crawl("--mirror", "--recrawl").end()
    assert code == 0
    assert {site.asked[path] for path in ALL_PATHS} == {3}


def test_a_limit_counts_each_recrawl_by_itself_and_known_pages_go_first(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    """Month after month, also when the first crawl left URLs, and a recrawl was cut by its limit."""
    known = PAGES + 1
    assert crawl("--max-pages", str(known)).end()[0] == 0
    site.links["/"] = "".join(f'<a href="/new/{n}">n</a>' for n in range(5)) + site.links["/"]
    site.changed.add("/")
    for month in (2, 3):
        code, stdout, stderr = crawl("--max-pages", str(known), "--recrawl").end()
        assert (code, stderr) == (0, "")
        room = f"the limit leaves room for {known} fetches, new pages included"
        assert f"Will fetch {known} pages again; {room}." in stdout
        assert {site.asked[path] for path in ALL_PATHS} == {month}
        assert f"{known} of {known} known pages" in stdout
        report = report_in(tmp_path)
        assert (report["fetches_of_limit"], report["revisited"]) == (known, known)
    assert not any(site.asked[f"/new/{n}"] for n in range(5))
    code, stdout, _ = crawl("--max-pages", "7", "--recrawl").end()
    assert code == 0
    assert f"7 of {known} known pages; {known - 7} not fetched again" in stdout
    assert sum(site.asked[path] for path in ALL_PATHS) == 3 * known + 7
    code, stdout, _ = toehold(tmp_path, "report", "--dir", "it")
    assert f"7 of {known} known pages" in stdout
    # A higher limit lets the same recrawl go on.
    code, stdout, _ = crawl("--max-pages", str(known + 5)).end()
    assert (code, report_in(tmp_path)["revisited"]) == (0, known)
    assert {site.asked[path] for path in ALL_PATHS} == {4}
    assert {site.asked[f"/new/{n}"] for n in range(5)} == {1}


@pytest.mark.parametrize("room", [2, pytest.param(0, marks=pytest.mark.soak("resuming"))])
def test_a_limited_recrawl_fetches_known_pages_of_one_host_before_new_ones_of_another(
    crawl: Callable[..., Run], site: SmallSite, room: int
) -> None:
    known = PAGES + 2
    with small_site(0) as other:
        assert crawl(other.url(), "--max-pages", str(known)).end()[0] == 0
        other.links["/"] = "".join(f'<a href="/new/{n}">n</a>' for n in range(5))
        other.changed.add("/")
        options = (other.url(), "--max-pages", str(known + room), "--toes", "4", "--recrawl")
        code, stdout, stderr = crawl(*options).end()
        assert (code, stderr) == (0, "")
        assert {site.asked[path] for path in ALL_PATHS} == {2}
        assert f"{known} of {known} known pages" in stdout
        assert sum(other.asked[f"/new/{n}"] for n in range(5)) == room


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.soak("kills"))]
)
def test_a_recrawl_that_is_interrupted_goes_on_with_the_same_command(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path, how: signal.Signals
) -> None:
    assert crawl().end()[0] == 0
    before = site.asked["/page/5"]
    let_go = site.hold("/page/5")
    run = crawl("--recrawl")
    run.until(lambda: site.asked["/page/5"] > before)
    run.process.send_signal(how)
    if how is signal.SIGTERM:
        until_pausing(tmp_path)
    let_go.set()
    run.end()
    again = site.asked
    assert crawl("--recrawl").end()[0] == 0
    repeated = {path for path in ALL_PATHS if site.asked[path] != 2}
    assert repeated <= {"/page/5"} and all(again[path] <= site.asked[path] for path in ALL_PATHS)


@pytest.mark.soak("kills")
def test_a_recrawl_that_is_killed_again_and_again_fetches_every_page_anew(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    assert crawl().end()[0] == 0
    for wait_s in (0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 2.0):  # before, while and after it is prepared
        run = crawl("--recrawl")
        time.sleep(wait_s)
        run.process.kill()
        run.process.wait()
    assert crawl("--recrawl").end()[0] == 0
    assert min(site.asked[path] for path in ALL_PATHS) >= 2
    assert report_in(tmp_path)["state"] == "FINISHED"
    assert "recrawl_before" not in asked_for(tmp_path)


@pytest.mark.soak("kills")
def test_a_limit_that_is_raised_in_a_run_that_is_killed_is_raised_by_the_next_one(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    assert crawl("--max-pages", "3").end()[0] == 0
    for wait_s in (0.7, 1.0, 1.3, 1.6):  # before, while and after it is reopened
        run = crawl("--max-pages", "9")
        time.sleep(wait_s)
        run.process.kill()
        run.process.wait()
    code, _, stderr = crawl("--max-pages", "9").end()
    assert code in (0, 5), stderr  # 5: a killed run had come to the end
    assert report_in(tmp_path)["pages"] == 9


def test_a_recrawl_that_is_killed_while_it_is_prepared_goes_on_without_being_asked(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    assert crawl().end()[0] == 0
    file = tmp_path / "it" / "crawl.json"
    content = json.loads(file.read_text()) | {"recrawl_before": "2100-01-01T00:00:00Z"}
    file.write_text(json.dumps(content))
    code, stdout, _ = crawl().end()
    assert code == 0
    assert f"Will fetch {PAGES + 1} pages again." in stdout
    assert {site.asked[path] for path in ALL_PATHS} == {2}
    assert "recrawl_before" not in asked_for(tmp_path)


def test_what_the_options_of_the_spec_do(crawl: Callable[..., Run], site: SmallSite, tmp_path: Path) -> None:
    site.answer_s = 0.1
    (tmp_path / "seeds.txt").write_text(f"# ours\n\n{site.url()}more\nhtp://127.0.0.1/\n")
    code, stdout, stderr = crawl(
        *("--exclude", "/page/1*", "--parallel", "4", "--user-agent", "my-bot"),
        *("--seeds-file", "seeds.txt", "--skip-bad-seeds"),
    ).end()
    assert (code, stderr) == (0, "")
    assert (
        "Skipped: seeds.txt, line 4: 'htp://127.0.0.1/' is not a URL; did you mean http://127.0.0.1/?"
        in stdout
    )
    excluded = {path for path in ALL_PATHS if path.startswith("/page/1")}
    assert {path for path in site.asked if site.asked[path]} == ALL_PATHS - excluded | {
        "/robots.txt",
        "/more",
    }
    assert 2 <= site.most_at_once <= 4
    assert all(agent.startswith("my-bot/") for agent in site.agents)
    report = report_in(tmp_path)
    assert report["refusals"][0]["rule"] == "scope.reject_patterns[0]"
    assert "scope.reject_patterns[0]" in stdout


def test_requests_have_the_user_agent_and_the_headers_of_the_spec(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text(
        """allowed_addresses = ["loopback"]
        [fetch]
        user_agent = "Mozilla/5.0 (compatible; {product}/{version}; +{contact})"
        headers = ["Accept-Language: de", "From: me@site.test"]
        referer = true
        """
    )
    spec = "--spec", "spec.toml", "--contact", "https://site.test/bot"
    assert crawl(*spec, "--user-agent", "my-bot").end()[0] == 0
    assert len(site.agents) == 1
    (agent,) = site.agents
    assert re.fullmatch(r"Mozilla/5\.0 \(compatible; my-bot/[\w.+-]+; \+https://site\.test/bot\)", agent)
    told = {
        path: (asked["Accept-Language"], asked["From"], asked["Referer"])
        for path, asked in site.headers.items()
    }
    mine = "de", "me@site.test"
    assert told == dict.fromkeys(ALL_PATHS - {"/"}, (*mine, site.url())) | {
        "/": (*mine, None),
        "/robots.txt": (*mine, None),
    }


def test_only_what_is_included_is_fetched_and_the_seeds(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    code, stdout, stderr = crawl("--include", "/page/1", "--include", "*/2?", "--exclude", "*/15").end()
    assert (code, stderr) == (0, "")
    included = {
        path for path in ALL_PATHS if path[:7] == "/page/1" or path in {f"/page/{n}" for n in range(20, 24)}
    }
    fetched = {path for path in site.asked if site.asked[path]}
    assert fetched == included - {"/page/15"} | {"/", "/robots.txt"}
    assert "by scope.required_patterns" in stdout


@pytest.mark.soak("resuming")
def test_seeds_come_from_standard_input(site: SmallSite, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{site.url()}more\n".encode())
    os.close(writing)
    with os.fdopen(reading) as stdin:
        code, _, stderr = toehold(
            tmp_path, "crawl", "--seeds-file", "-", "--max-pages", "1", "--dir", "it", stdin=stdin
        )
    assert (code, stderr) == (0, "")
    assert site.asked["/more"] == 1
