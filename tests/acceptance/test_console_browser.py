"""The console in a real browser: by clicks, by keyboard, on a phone, in both themes, through restarts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.access import Installation
from frontier_harness.browser import Visit, chromium, visit
from frontier_harness.calls import TIMEOUT_S, fresh_name, report, seconds, spec
from frontier_harness.console import ConsoleProcess
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import eventually
from playwright.sync_api import Browser, Page, Route, expect

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

PHONE = {"width": 360, "height": 740}
PARTS = ("overview", "seeds", "failures", "queues", "events", "settings", "files")
TOO_WIDE = """() => document.scrollingElement.scrollWidth <= window.innerWidth ? [] :
    [...document.querySelectorAll("body *")].filter((each) => !each.closest(".scroll") &&
        each.getBoundingClientRect().right > window.innerWidth).map((each) => each.outerHTML.slice(0, 120))"""
TALLEST = """() => Math.max(...[...document.querySelectorAll("main a, main h2, main td")]
    .filter((each) => each.textContent.includes("longlong")).map((each) => each.offsetHeight))"""
UNRULY = crawl_pb2.RobotsSpec(policy="ignore")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


class Place:
    """A frontier and its console."""

    def __init__(self, server: ServerProcess, console: ConsoleProcess) -> None:
        self.server, self.console, self.stubs = server, console, server.stubs

    def crawl(self, min_delay_s: float = 600) -> str:
        """A crawl that runs: pages fetched, a seed failed, a link refused, hosts at rest, a node at work."""
        name = fresh_name()
        good, bad, slow = (f"http://{host}.{name}.example/" for host in ("good", "bad", "slow"))
        retry = crawl_pb2.RetrySpec(max_attempts=1)
        self.stubs.launch(name, good, bad, slow, of=spec(min_delay_s, robots=UNRULY, retry=retry))
        leases = {lease.uri: lease for lease in self.stubs.pages(name, least=3, node=name)}
        self.stubs.schedule(name, f"{slow}next", f"{good}next", "http://other.example/")
        self.stubs.finish(
            report(leases[good], fetch_duration=seconds(0.04)),
            report(leases[bad], -2, reason="no answer"),
            report(leases[slow]),
            node=name,
        )
        self.beat(name)
        return name

    def beat(self, node: str) -> None:
        steps = [("FETCHING", 3), ("ABOUT_TO_GET_URI", 5)]
        toes = [frontier_pb2.ToeStepCount(step=step, count=count) for step, count in steps]
        request = frontier_pb2.HeartbeatRequest(node=node, session="session", toe_steps=toes)
        self.stubs.frontier.Heartbeat(request, timeout=TIMEOUT_S)

    def state(self, crawl: str) -> str:
        state = self.stubs.describe(crawl).status.state
        return crawl_pb2.CrawlState.Name(state).removeprefix("CRAWL_STATE_")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    with (
        ServerProcess(folder / "data") as server,
        ConsoleProcess(server.address, folder, "--data", str(folder / "data")) as console,
    ):
        yield Place(server, console)


@pytest.fixture
def visited(browser: Browser, place: Place) -> Iterator[Visit]:
    with visit(browser, place.console.url) as visited:
        yield visited


def of(crawl: str, part: str = "overview") -> str:
    return f"#/crawls/{crawl}/{part}"


def verdict(page: Page) -> Any:
    return page.locator(".verdict")


def answer(page: Page, name: str) -> None:
    """Answer the question of a dialog."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def test_a_newcomer_finds_what_matters_within_three_clicks_each(place: Place, visited: Visit) -> None:
    place.stubs.create(fresh_name(), spec())  # so that there are several
    crawl = place.crawl()
    page = visited.go()
    visited.click(crawl, "link")
    # The node of this crawl beats once: the limit is the delay first, and soon that no node asks.
    expect(verdict(page)).to_contain_text(re.compile("2 hosts wait 600 s|No node asks for leases"))
    found = visited.clicks

    # The failing seed, and why it failed.
    visited.click(f"http://bad.{crawl}.example/", "link")
    expect(page.get_by_text("no answer").first).to_be_visible()
    assert visited.clicks <= 3

    # The reason why the slow host is not fetched, and the setting behind it.
    page.go_back()
    visited.clicks = found
    visited.click(f"slow.{crawl}.example", "link", exact=False)
    expect(page.get_by_text("min_delay_seconds = 600").first).to_be_visible()
    assert visited.clicks <= 3

    # The pause button.
    page.go_back()
    visited.clicks = found
    visited.click("Pause")
    expect(page.locator(".state")).to_have_text("Paused")
    expect(verdict(page)).to_contain_text(re.compile("Paused by .* ago"))
    assert visited.clicks <= 3


def test_each_act_on_a_crawl_is_a_click_and_asks_before_it_cannot_be_undone(
    place: Place, visited: Visit
) -> None:
    crawl = fresh_name()
    place.stubs.create(crawl, spec(robots=UNRULY))
    place.stubs.seed(crawl, *(f"http://{host}.{crawl}.example/" for host in ("one", "two", "three")))
    page, state = visited.go(of(crawl)), visited.page.locator(".state")
    expect(verdict(page)).to_have_text("Not launched yet: 3 seeds wait for the launch")
    visited.click("Launch")
    expect(state).to_have_text("Running")
    visited.click("Pause")
    expect(state).to_have_text("Paused")
    visited.click("Resume")
    expect(state).to_have_text("Running")
    visited.click("Checkpoint")
    expect(page.get_by_text("Saved all crawls in checkpoint")).to_be_visible()
    leases = place.stubs.pages(crawl, most=2, least=2, node=crawl)

    expect(page.get_by_text("2 being fetched", exact=True)).to_be_visible()
    visited.click("Stop")
    answer(page, "Cancel")
    assert place.state(crawl) == "RUNNING"
    visited.click("Stop")
    expect(page.get_by_role("dialog")).to_contain_text("2 URIs being fetched are completed")
    answer(page, "Stop")
    expect(state).to_contain_text("Stopping")
    expect(verdict(page)).to_contain_text("2 URIs still being fetched, for at most")
    visited.click("Interrupt")
    answer(page, "Interrupt")
    expect(page.get_by_text(f"Interrupt {crawl}: accepted.")).to_be_visible()
    place.stubs.finish(*(report(lease) for lease in leases), node=crawl)
    expect(state).to_contain_text("Finished")
    visited.click("Reopen")
    expect(state).to_have_text("Running")
    visited.click("Stop")
    answer(page, "Stop")
    expect(state).to_contain_text("Finished")

    visited.click("Tear down")
    answer(page, "Tear down")
    expect(state).to_contain_text("torn down")
    for gone in ("Launch", "Pause", "Resume", "Stop", "Tear down"):
        expect(page.get_by_role("button", name=gone, exact=True)).to_have_count(0)


def test_seeds_are_added_by_clicks_and_those_that_are_refused_stay_to_be_mended(
    place: Place, visited: Visit
) -> None:
    crawl = fresh_name()
    place.stubs.create(crawl, spec())
    page = visited.go(of(crawl, "seeds"))
    visited.click("Add seeds")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("URLs, one a line").fill(
        f"{crawl}.example\n\nhttp://two.{crawl}.example/\nftp://x.example/"
    )
    answer(page, "Add")
    expect(dialog).to_contain_text("2 seeds added; these are refused: unsupported scheme.")
    expect(dialog.get_by_label("URLs, one a line")).to_have_value("ftp://x.example/")
    answer(page, "Cancel")
    expect(page.get_by_role("link", name=f"https://{crawl}.example")).to_be_visible()
    expect(verdict(page)).to_have_text("Not launched yet: 2 seeds wait for the launch")


def test_an_act_that_the_frontier_refuses_says_why(place: Place, visited: Visit) -> None:
    crawl = fresh_name()
    place.stubs.create(crawl, spec())
    page = visited.go(of(crawl))
    visited.click("Launch")
    expect(page.get_by_role("alert")).to_contain_text("seed")
    visited.click("Close this message")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_queues_are_held_retired_woken_and_given_budgets_by_clicks(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    key = f"example,{crawl},slow,"

    def queue() -> Any:
        return next(each for each in place.stubs.queues(crawl) if each.queue_key == key)

    page = visited.go(of(crawl, "queues"))
    page.get_by_label("State").select_option("SNOOZED")
    row = page.get_by_role("row").filter(has_text=key)
    expect(row).to_contain_text("min_delay_seconds = 600")
    row.get_by_role("button", name=f"Wake {key}").click()
    eventually(lambda: queue().state != crawl_pb2.QUEUE_STATE_SNOOZED, "the queue to wake")
    page.get_by_label("State").select_option("")
    row.get_by_role("button", name=f"Hold {key}").click()
    expect(row.get_by_role("button", name=f"Release {key}")).to_be_visible()
    assert queue().paused
    row.get_by_role("button", name=f"Release {key}").click()
    expect(row.get_by_role("button", name=f"Hold {key}")).to_be_visible()
    row.get_by_role("button", name=f"Budget {key}").click()
    page.get_by_label("Total budget", exact=False).fill("77")
    answer(page, "Set")
    eventually(lambda: queue().total_budget == 77, "the budget")
    row.get_by_role("button", name=f"Retire {key}").click()
    expect(row.get_by_role("button", name=f"Unretire {key}")).to_be_visible()
    assert queue().state == crawl_pb2.QUEUE_STATE_RETIRED


def test_a_late_answer_to_an_earlier_filter_keeps_the_queues_shown(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    page = visited.go(of(crawl, "queues"))
    row = page.get_by_role("row").filter(has_text=f"example,{crawl},slow,")
    expect(row).to_be_visible()
    held: list[Route] = []
    page.route(re.compile("state=INELIGIBLE"), lambda route: held.append(route))
    page.get_by_label("State").select_option("INELIGIBLE")
    with page.expect_response(re.compile("/queues")):
        page.get_by_label("State").select_option("SNOOZED")
    expect(row).to_be_visible()
    with page.expect_response(re.compile("state=INELIGIBLE")) as late:
        held.pop().continue_()
    late.value.finished()
    page.evaluate("() => new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)))")
    expect(row).to_be_visible()
    assert page.get_by_text("No such queue.").is_hidden()


def test_nodes_are_drained_and_forgotten_by_clicks(browser: Browser, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--lease-seconds", "2", "--heartbeat-seconds", "1") as server,
        ConsoleProcess(server.address, tmp_path) as console,
        visit(browser, console.url) as visited,
    ):
        drain_and_forget(Place(server, console), visited)


def test_a_frontier_of_several_shards_has_a_line_for_each(browser: Browser, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--shards", "3") as server,
        ConsoleProcess(server.address, tmp_path) as console,
        visit(browser, console.url) as visited,
    ):
        crawl = Place(server, console).crawl()
        for where in ("#/nodes", of(crawl)):
            rows = visited.go(where).get_by_role("region", name="Table: Shards").get_by_role("row")
            expect(rows.filter(has_text="present")).to_have_count(3)


@pytest.mark.undivided("is about a frontier of one shard")
def test_a_frontier_of_one_shard_has_no_table_of_shards(place: Place, visited: Visit) -> None:
    for where in ("#/nodes", of(place.crawl())):
        page = visited.go(where)
        expect(page.get_by_role("region", name="Table: Nodes")).to_be_visible()
        expect(page.get_by_role("heading", name="Shards")).to_be_hidden()


def drain_and_forget(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    page = visited.go("#/nodes")
    page.get_by_label("Name").fill(crawl)
    row = page.get_by_role("row").filter(has_text=crawl)
    expect(row).to_contain_text("3 fetching, 5 idle of 8")
    place.beat(crawl)
    row.get_by_role("button", name=f"Drain {crawl}").click()
    answer(page, "Drain")
    expect(row).to_contain_text("drains")
    forget = row.get_by_role("button", name=f"Forget {crawl}")
    expect(forget).to_be_visible()  # once its leases have lapsed
    forget.click()
    answer(page, "Forget")
    expect(row).to_have_count(0)


def test_the_setting_that_limits_the_crawl_is_changed_where_it_is_named(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    page = visited.go(of(crawl))
    visited.click("Change politeness.min_delay_seconds")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Shortest rest")
    dialog.get_by_label("New value").fill("-1")
    answer(page, "Change")
    expect(dialog).to_contain_text("must be")
    dialog.get_by_label("New value").fill("0.5")
    answer(page, "Change")
    expect(page.get_by_text("politeness.min_delay_seconds was 600, is 0.5").first).to_be_visible()
    assert place.stubs.describe(crawl).spec.politeness.min_delay == seconds(0.5)
    page.goto(f"{visited.url}/{of(crawl, 'settings')}")
    expect(page.get_by_role("region", name="Table: Changes of settings")).to_contain_text(
        "politeness.min_delay"
    )
    page.get_by_label("Name").fill("max_doc")
    visited.click("Change limits.max_documents")
    dialog.get_by_label("New value").fill("12")
    answer(page, "Change")
    expect(page.get_by_role("row").filter(has_text="12 (not the default)")).to_be_visible()


def test_a_search_answers_for_urls_hosts_and_what_the_crawl_refused(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    page = visited.go(of(crawl))

    def search(text: str) -> None:
        page.get_by_role("searchbox").fill(text)
        page.get_by_role("searchbox").press("Enter")

    search("http://other.example/")
    expect(page.get_by_text("no host, prefix or pattern of the scope lets other.example in")).to_be_visible()
    search(f"http://good.{crawl}.example/")
    expect(page.get_by_role("heading", name="Its outcomes")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="succeeded, 200")).to_contain_text("40 ms")
    search(f"slow.{crawl}.example")
    expect(page.get_by_role("heading", name=f"example,{crawl},slow,")).to_be_visible()
    place.stubs.request(crawl, crawl_pb2.TARGET_STATE_FINISH)
    search(f"http://bad.{crawl}.example/")
    expect(page.get_by_text("no answer").first).to_be_visible()
    search("http://[")
    expect(page.locator(".problem")).to_be_visible()


def test_the_numbers_tell_error_answers_and_no_rate_of_a_crawl_that_has_ended(
    place: Place, visited: Visit
) -> None:
    crawl = fresh_name()
    seeds = [f"http://{host}.{crawl}.example/" for host in ("good", "bad")]
    place.stubs.launch(crawl, *seeds, of=spec(robots=UNRULY))
    good, bad = place.stubs.pages(crawl, least=2, node=crawl)
    place.stubs.finish(report(good), report(bad, 404), node=crawl)
    page = visited.go(of(crawl))
    numbers = page.locator(".numbers")
    expect(numbers).to_contain_text("1 answered with an error")
    expect(verdict(page)).to_contain_text("Finished")
    expect(numbers).to_contain_text(re.compile(r"Rate\d.* /s on average"))
    expect(numbers.get_by_text("Time left")).to_be_hidden()


def test_a_very_long_url_leaves_its_pages_readable_and_is_shown_whole_in_its_story(
    place: Place, visited: Visit
) -> None:
    crawl = fresh_name()
    url = f"http://long.{crawl}.example/{'long' * 1900}/end"
    place.stubs.launch(crawl, url, of=spec(robots=UNRULY, retry=crawl_pb2.RetrySpec(max_attempts=1)))
    lease = place.stubs.pages(crawl, least=1, node=crawl)[0]
    place.stubs.finish(report(lease, -2, reason="no answer"), node=crawl)

    def is_readable(page: Page) -> None:
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(TALLEST) < page.evaluate("innerHeight")

    for part in ("overview", "seeds", "failures"):
        page = visited.go(of(crawl, part))
        expect(page.get_by_text("longlong").first).to_be_visible()
        is_readable(page)
    visited.go(of(crawl, "failures"))
    page.get_by_role("link", name="longlong").first.click()
    expect(page.locator("code.uri")).to_have_text(url)
    expect(page.get_by_text("no answer").first).to_be_visible()
    is_readable(page)


def test_the_page_of_an_unknown_crawl_says_so_and_nothing_of_its_parts(visited: Visit) -> None:
    for name in ("unknown", "%E0"):
        page = visited.go(of(name))
        expect(verdict(page)).to_contain_text("there is no crawl" if name == "unknown" else "crawl")
        expect(page.get_by_text("No problem.")).to_be_hidden()


def test_the_keyboard_alone_does_everything(place: Place, visited: Visit) -> None:
    crawl = place.crawl()
    page = visited.go(of(crawl))
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    keys = page.keyboard

    def tab_to(name: str, most: int = 40) -> None:
        for _ in range(most):
            keys.press("Tab")
            if focused(page) == name:
                return
        raise AssertionError(f"{name} is not reached by Tab, but {focused(page)!r}")

    keys.press("Tab")
    assert focused(page) == "Skip to the content"
    tab_to("Pause")
    keys.press("Enter")
    expect(page.locator(".state")).to_have_text("Paused")
    page.locator("#main").focus()
    tab_to("Resume")
    keys.press("Space")
    expect(page.locator(".state")).to_have_text("Running")
    page.locator("#main").focus()
    tab_to("Stop")
    keys.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert focused(page) == "Stop"
    assert place.state(crawl) == "RUNNING"
    keys.press("/")
    keys.type(f"http://bad.{crawl}.example/")
    keys.press("Enter")
    expect(page.get_by_text("no answer").first).to_be_visible()
    page.goto(f"{visited.url}/{of(crawl)}")
    chart = page.get_by_role("group", name="Course of the crawl")
    chart.focus()
    keys.press("ArrowLeft")
    expect(chart.locator("output")).to_contain_text("after the launch: pages a second")


def focused(page: Page) -> str:
    return str(
        page.evaluate(
            "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
        )
    )


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        ("desk", "light"),
        ("phone", "dark"),
        pytest.param("desk", "dark", marks=pytest.mark.soak("console")),
        pytest.param("phone", "light", marks=pytest.mark.soak("console")),
    ],
)
def test_every_page_is_accessible_and_fits(
    browser: Browser, place: Place, soak: Soak, scheme: str, width: str
) -> None:
    crawl = place.crawl()
    viewport = PHONE if width == "phone" else {"width": 1280, "height": 900}
    with visit(browser, place.console.url, viewport=viewport, color_scheme=scheme) as visited:
        pages = [*(of(crawl, part) for part in PARTS), "#/nodes", "#/crawls"]
        pages += [
            of(crawl, f"find/slow.{crawl}.example"),
            of(crawl, f"find/http%3A%2F%2Fbad.{crawl}.example%2F"),
        ]
        for path in pages:
            page = visited.go(path)
            expect(page.locator("#main h2").first).to_be_visible()
            page.wait_for_load_state("load")
            if path.startswith("#/crawls/"):
                expect(verdict(page)).not_to_be_empty()
            assert visited.violations() == [], path
            assert page.evaluate(TOO_WIDE) == [], path
            soak.count(checked=1)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(244, 245, 247)" if scheme == "light" else "rgb(20, 24, 29)")
        page.get_by_label("Colours").select_option("light" if scheme == "dark" else "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
        visited.go(of(crawl))
        visited.click("Stop")
        assert visited.violations() == []


def test_a_page_stays_open_through_a_restart_of_the_frontier(browser: Browser, tmp_path: Path) -> None:
    crawl = fresh_name()
    with (
        KeptPort() as port,
        ConsoleProcess(port.address, tmp_path) as console,
        visit(browser, console.url) as visited,
    ):
        with ServerProcess(tmp_path / "data", listen=port.address) as server:
            server.stubs.launch(crawl, f"http://{crawl}.example/", of=spec(robots=UNRULY))
            page = visited.go(of(crawl))
            expect(page.locator(".state")).to_have_text("Running")
            page.evaluate("window.same = true")
            server.kill()
            expect(verdict(page)).to_contain_text("No answer from the frontier for")
            visited.click("Pause")
            expect(page.get_by_role("alert")).to_contain_text("no frontier answers")
        with ServerProcess(tmp_path / "data", listen=port.address):
            expect(verdict(page)).not_to_contain_text("No answer")
            visited.click("Pause")
            expect(page.locator(".state")).to_have_text("Paused")
            assert page.evaluate("window.same") is True


def test_users_log_in_and_see_what_their_roles_allow(browser: Browser, tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    watcher, operator = (installation.caller(role, role) for role in ("watch", "operate"))
    with (
        ServerProcess(tmp_path / "data", "--callers", str(installation.callers)) as server,
        ConsoleProcess(server.address, tmp_path) as console,
        visit(browser, console.url) as visited,
    ):
        script = {"authorization": f"Bearer {operator}"}
        for rpc, body in (
            ("CreateCrawl", {"crawl": "docs", "spec": {"allowedAddresses": ["loopback"]}}),
            ("AddSeedBatch", {"crawl": "docs", "uris": ["http://docs.example/"]}),
        ):
            made = console.http.post(f"/v1/FrontierAdminService/{rpc}", json=body, headers=script)
            assert made.status_code == 200, made.text
        page = visited.go()
        page.get_by_label("Token").fill("toehold_wrong")
        visited.click("Log in")
        expect(page.get_by_role("alert")).to_contain_text("does not know the token")
        assert visited.violations() == []
        page.get_by_label("Token").fill(watcher)
        visited.click("Log in")
        expect(page.get_by_text("watch (watch)")).to_be_visible()
        expect(verdict(page)).to_contain_text("Not launched yet")
        expect(page.get_by_role("button", name="Launch")).to_have_count(0)
        expect(page.get_by_role("button", name="Checkpoint")).to_have_count(0)
        visited.click("Log out")
        page.get_by_label("Token").fill(operator)
        visited.click("Log in")
        visited.click("Launch")
        expect(page.locator(".state")).to_have_text("Running")
        expect(page.get_by_text("operate requested: launch")).to_be_visible()
        installation.registry.revoke_caller("operate")
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("document.cookie") == ""


# What it shows is true.


def test_a_crawl_that_ended_at_a_limit_shows_what_is_left_and_goes_on_beyond_it(
    browser: Browser, tmp_path: Path
) -> None:
    crawl = fresh_name()
    with KeptPort() as port:
        with ServerProcess(tmp_path / "data", listen=port.address) as server:
            limits = crawl_pb2.LimitSpec(max_documents=1)
            hosts = [f"http://h{n}.{crawl}.example/" for n in range(3)]
            server.stubs.launch(crawl, *hosts, of=spec(robots=UNRULY, limits=limits))
            (lease, *_) = server.stubs.pages(crawl, least=1, node=crawl)
            server.stubs.finish(report(lease), node=crawl)
            eventually(lambda: server.stubs.describe(crawl).status.state == crawl_pb2.CRAWL_STATE_FINISHED)
        # Another server, which has seen none of the queues change.
        with (
            ServerProcess(tmp_path / "data", listen=port.address),
            ConsoleProcess(port.address, tmp_path) as console,
            visit(browser, console.url) as visited,
        ):
            page = visited.go(of(crawl))
            expect(page.locator(".state")).to_have_text("Finished")
            expect(page.get_by_text("Reopen fetches the 2 URLs left")).to_be_visible()
            largest = page.get_by_role("region", name="Table: Largest queues")
            expect(largest.get_by_role("row")).to_have_count(3)  # with its head
            expect(page.get_by_text("No queue has URIs.")).to_be_hidden()
            problems = page.get_by_role("region", name="Table: Problems")
            expect(problems).to_contain_text("max_documents = 1")
            visited.click("Reopen")
            page.get_by_label("limits.max_documents").fill("1")
            answer(page, "Reopen")
            expect(page.get_by_role("dialog")).to_contain_text("raise it above 1")
            page.get_by_label("limits.max_documents").fill("9")
            answer(page, "Reopen")
            expect(page.locator(".state")).to_have_text("Running")
            expect(problems.get_by_text("max_documents = 1")).to_have_count(0)
            changes = page.get_by_role("region", name="Table: Changes of settings")
            expect(changes).to_contain_text("limits.max_documents = 9 (was 1)")


@pytest.mark.parametrize("width", [1280, 390])
def test_states_and_hosts_stay_on_one_line_and_no_table_is_cut(
    browser: Browser, place: Place, width: int
) -> None:
    crawl = place.crawl()
    with visit(browser, place.console.url, viewport={"width": width, "height": 844}) as visited:
        page = visited.go(of(crawl))
        expect(page.get_by_role("link", name=f"slow.{crawl}.example").first).to_be_visible()
        expect(page.get_by_role("region", name="Table: Failures by host and reason")).to_be_visible()
        assert page.evaluate(TOO_WIDE) == []
        cut = (
            "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        )
        assert page.evaluate(f"{cut}.map((each) => each.getAttribute('aria-label'))") == []
        broken = "(each) => each.getClientRects().length > 1"
        lines = f"(each) => [...each.querySelectorAll('.state, th a')].filter({broken})"
        assert page.evaluate(f"({lines})(document).map((each) => each.textContent)") == []
