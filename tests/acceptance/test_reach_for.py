"""What people reach for: the options of `toehold crawl`, each in effect, and commands as one types them."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, squeezed, terminal_of, until_told
from acceptance.programs import Programs, json_of, toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import eventually

FAST = ("--min-delay", "0.05", "--delay-factor", "0")
SITE, SUBDOMAIN, ELSEWHERE, IMAGES = "a.example", "docs.a.example", "b.example", "images.example"
HOSTS = (SITE, SUBDOMAIN, ELSEWHERE, IMAGES)
MORE = "/more/1"
"""A page that only the file of seeds names."""

BAD_INPUT, UNKNOWN = 2, 9


def build(site: SmallSite) -> None:
    """Gives the site its pages: some to include, some to leave out, some on other hosts."""
    site.links["/"] = (
        '<a href="/docs/1">docs</a> <a href="/private/1">private</a> <a href="/docs/big.pdf">pdf</a>'
        f'<a href="{site.url(SUBDOMAIN, "/s")}">s</a> <a href="{site.url(ELSEWHERE)}">b</a>'
        f'<img src="{site.url(IMAGES, "/i.png")}">'
    )
    site.links["/docs/1"] = "".join(f'<a href="/docs/{n}">{n}</a> ' for n in range(2, 14))
    site.answer_s = 0.2


@dataclass(frozen=True)
class Options:
    """A crawl with many options at once: its site, its directory and what it said."""

    site: SmallSite
    directory: Path
    code: int
    said: str

    @property
    def fetched(self) -> set[tuple[str, str]]:
        return set(self.site.requests)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    folder = tmp_path_factory.mktemp("options")
    spec, seeds = folder / "spec.toml", folder / "seeds.txt"
    spec.write_text('allowed_addresses = ["loopback"]\n')
    with small_site(0) as site:
        build(site)
        seeds.write_text(f"# further pages\n\n{site.url(SITE, MORE)}\n")
        done = toehold(
            *("crawl", site.url(SITE), "--dir", str(folder / "crawl"), "--spec", str(spec)),
            *("--contact", "me@crawler.example", *site.resolve(HOSTS), *FAST),
            *("--seeds-file", str(seeds), "--subdomains", "--page-requisites", "--parallel", "4"),
            *("--exclude", "/private/", "--exclude", "*.pdf", "--user-agent", "my-bot", "--mirror"),
        )
        yield Options(site, folder / "crawl", done.returncode, done.stdout + done.stderr)


def test_exclude_leaves_out_a_part_of_the_site_and_files_by_their_names(crawled: Options) -> None:
    assert crawled.code == 0, crawled.said
    assert (SITE, "/docs/1") in crawled.fetched
    assert not {"/private/1", "/docs/big.pdf"} & {path for _, path in crawled.fetched}
    for page, pattern in (("/private/1", "/private/"), ("/docs/big.pdf", ".pdf")):
        told = toehold("explain", crawled.site.url(SITE, page), "--dir", str(crawled.directory)).stdout
        assert re.search(r"OUT_OF_SCOPE .*scope\.reject_patterns\[\d\] refuses it: ", told)
        assert pattern in told.replace("\\", "")


def test_subdomains_are_crawled_and_other_hosts_are_not(crawled: Options) -> None:
    assert (SUBDOMAIN, "/s") in crawled.fetched
    assert ELSEWHERE not in {host for host, _ in crawled.fetched}


def test_page_requisites_come_from_any_host(crawled: Options) -> None:
    assert (IMAGES, "/i.png") in crawled.fetched


def test_a_file_of_seeds_is_crawled_too(crawled: Options) -> None:
    assert (SITE, MORE) in crawled.fetched
    assert "seeds 2 fetched " in squeezed(crawled.said)


def test_several_pages_of_a_host_are_fetched_at_a_time(crawled: Options) -> None:
    assert 2 <= crawled.site.most_at_once <= 4 + len(HOSTS) - 1


def test_the_user_agent_has_its_name_and_the_contact(crawled: Options) -> None:
    (agent,) = crawled.site.agents
    assert re.fullmatch(r"my-bot/\S+ \(\+me@crawler\.example\)", agent)


def test_a_mirror_has_each_page_as_a_plain_file(crawled: Options) -> None:
    hosts = {folder.name.partition(":")[0]: folder for folder in crawled.directory.glob("mirror/[!.]*")}
    assert set(hosts) == {SITE, SUBDOMAIN, IMAGES}
    assert "<title>/ old</title>" in (hosts[SITE] / "index.html").read_text()
    assert "<title>/docs/7 old</title>" in (hosts[SITE] / "docs" / "7").read_text()
    assert re.search(r"mirror \d+ in mirror, ", squeezed(crawled.said))


def test_what_was_refused_is_counted_by_rule_in_the_report(crawled: Options) -> None:
    report = squeezed(crawled.said)
    assert "1 by scope.reject_patterns[0] = https?://[^/]*/private/.*" in report
    assert "1 by scope.hosts: its host is not in scope" in report


def test_a_queue_is_named_by_its_host_its_url_or_its_key(crawled: Options) -> None:
    there = ("--dir", str(crawled.directory))
    by_host = toehold("queues", "show", IMAGES, *there)
    assert by_host.returncode == 0, by_host.stderr
    assert f"host {IMAGES} state EXHAUSTED" in squeezed(by_host.stdout)
    key = json_of("queues", "show", crawled.site.url(IMAGES), *there)["queue_key"]
    assert toehold("queues", "show", key, *there).stdout == by_host.stdout
    unknown = toehold("queues", "show", "nobody.example", *there)
    assert unknown.returncode == UNKNOWN
    assert "has no queue for 'nobody.example'; " in unknown.stderr


def test_max_time_ends_a_crawl_and_says_how_to_go_on(programs: Programs, tmp_path: Path) -> None:
    with small_site(50) as site, terminal_of(programs) as terminal:
        crawl = ("crawl", site.url(), "--dir", str(tmp_path / "crawl"), "--min-delay", "0.5")
        assert terminal.toehold(*crawl, "--max-time", "8s").wait() == 0
        shown = terminal.all_shown()
    check_fits(shown.replace(str(tmp_path), ""))
    report = squeezed(plain(shown).rpartition("\ncrawl ")[2])
    assert "Finished: time limit reached" in report
    assert (
        "limit limits.max_elapsed_seconds = 8.0 is reached. To fetch more, run the same command with a "
        "higher --max-time." in report
    )


def test_adaptive_rests_longer_while_a_host_fails_and_says_so(programs: Programs, tmp_path: Path) -> None:
    with small_site(60) as site, terminal_of(programs) as terminal:
        site.statuses.update({f"/page/{number}": 500 for number in range(2, 60)})
        directory = tmp_path / "crawl"
        crawl = ("crawl", site.url(), "--dir", str(directory), "--min-delay", "0.2", "--adaptive")
        terminal.toehold(*crawl)
        until_told(
            lambda: plain(terminal.shown),
            r"why .*waits longer than usual \(adaptive, \d+\.\d times the usual rest\)",
        )
        # A page may be under way just when it is asked.
        usual = r"rests: politeness, adaptive, \d+\.\d times the usual rest"
        explain = ("explain", "127.0.0.1", "--dir", str(directory))
        eventually(lambda: re.search(usual, toehold(*explain).stdout), "a rest that is longer than usual")


def test_init_writes_what_the_options_say(tmp_path: Path) -> None:
    spec = tmp_path / "my.toml"
    done = toehold(
        *("init", str(spec), "https://www.example.org/", "--contact", "me@crawler.example"),
        *("--exclude", "/private/", "--subdomains", "--page-requisites", "--parallel", "3", "--adaptive"),
        *("--user-agent", "my-bot", "--max-time", "1h", "--min-delay", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Wrote {spec}.")
    written = tomllib.loads(spec.read_text())
    assert written["scope"] == {
        "surt_prefixes": ["+example.org"],
        "reject_patterns": ["https?://[^/]*/private/.*"],
        "page_requisites": True,
    }
    assert written["politeness"] == {"min_delay_seconds": 1.0, "max_parallel": 3, "adaptive": True}
    assert written["fetch"] == {"product_token": "my-bot"}
    assert written["limits"]["max_elapsed_seconds"] == 3600.0


# Questions about a crawl that runs.
