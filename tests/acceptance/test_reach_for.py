"""What people reach for: the options of `toehold crawl`, each in effect, and commands as one types them."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, squeezed, terminal_of, until_told
from acceptance.programs import Program, Programs, json_of, script, toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, eventually

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


def test_include_restricts_a_crawl_to_a_part_of_the_site(tmp_path: Path) -> None:
    with small_site(0) as site:
        build(site)
        site.answer_s = 0.0
        crawl = ("crawl", site.url(), "--dir", str(tmp_path / "crawl"), *FAST)
        done = toehold(*crawl, "--include", "/docs/")
        assert done.returncode == 0, done.stdout + done.stderr
        paths = set(site.asked) - {"/", "/robots.txt"}
        assert "/docs/13" in paths and all(path.startswith("/docs/") for path in paths)


def test_max_time_ends_a_crawl_and_says_how_to_go_on(programs: Programs, tmp_path: Path) -> None:
    with small_site(50) as site, terminal_of(programs) as terminal:
        crawl = ("crawl", site.url(), "--dir", str(tmp_path / "crawl"), "--min-delay", "0.5")
        assert terminal.toehold(*crawl, "--max-time", "4s").wait() == 0
        shown = terminal.all_shown()
    check_fits(shown.replace(str(tmp_path), ""))
    report = squeezed(plain(shown).rpartition("\ncrawl ")[2])
    assert "Finished: time limit reached" in report
    assert (
        "limit limits.max_elapsed_seconds = 4.0 is reached. To fetch more, run the same command with a "
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


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a frontier with a crawl that runs, and a node named north."""
    folder = tmp_path_factory.mktemp("running")
    with small_site(200) as site, Programs(folder) as programs:
        frontier = programs.frontier(folder / "data")
        spec = folder / "spec.toml"
        spec.write_text(
            f'name = "slow"\nseeds = ["{site.url(SITE)}"]\nallowed_addresses = ["loopback"]\n'
            "[politeness]\nmin_delay_seconds = 1.0\n"
        )
        assert toehold("launch", str(spec), "--frontier", frontier.address).returncode == 0
        node: Program = programs.node("north", frontier.address, folder / "w", *site.resolve([SITE]))
        eventually(lambda: len(site.requests) > 3, "pages requested")
        assert node.runs
        yield frontier.address


def completed(frontier: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    completion = {
        "_TOEHOLD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("toehold", *words)),
        "COMP_CWORD": str(len(words)),
        "TOEHOLD_FRONTIER": frontier,
    }
    done = subprocess.run(
        [script("toehold")],
        env={**os.environ, **completion},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_explain_takes_a_url_as_it_is(running: str) -> None:
    told = toehold("explain", "http://elsewhere.example/page", "--frontier", running)
    assert "no host, prefix or pattern of the scope lets elsewhere.example in" in told.stdout
    # A page may be under way just when it is asked.
    eventually(lambda: "QUEUE_SNOOZED" in toehold("explain", SITE, "--frontier", running).stdout, "a rest")


def test_keys_of_queues_names_of_settings_and_nodes_are_completed(running: str) -> None:
    # A shell does not wait for names that come late.
    eventually(lambda: any(SITE in name for name in completed(running, "queues", "show", "")), "a queue")
    eventually(lambda: completed(running, "nodes", "show", "n") == ["north"], "a node")
    assert "politeness.min_delay_seconds=" in completed(running, "set", "politeness.min_d")


HELP = ("", "crawl", "queues show", "set")
"""At a terminal; tests/integration/client/test_help.py reads the help of every command."""


def test_help_fits_is_grouped_by_purpose_and_has_no_endless_numbers(programs: Programs) -> None:
    with terminal_of(programs) as terminal:
        assert terminal.toehold("--help").wait() == 0
        shown = plain(terminal.all_shown())
        purposes = ("Crawl:", "Watch:", "Ask:", "Steer:", "Nodes:", "Upkeep:")
        places = [shown.index(f"\n{purpose}\n") for purpose in purposes]
        assert places == sorted(places)
        for command in HELP[1:]:
            assert terminal.toehold(*command.split(), "--help").wait() == 0
        shown = terminal.all_shown()
    check_fits(shown)
    assert not re.search(r"\d{12}", shown)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("crawll",),
            "Error: No such command 'crawll'. (Did you mean one of: 'callers', 'crawl', 'crawls'?)",
        ),
        (
            ("crawl", "--max-time", "soon", "http://127.0.0.1/"),
            "'soon' must be a time such as 90s, 30m, 2h, 1d or 1h30m.",
        ),
        (
            ("crawl", "--parallel", "4611686018427387904", "http://127.0.0.1/"),
            "must be between 1 and 1000, got 4611686018427387904",
        ),
        (
            ("crawl", "--user-agent", "my bot/1.0", "http://127.0.0.1/"),
            "must be 1 to 64 of the characters A-Z, a-z, - and _, got 'my bot/1.0'",
        ),
        (("crawl",), "Error: give at least one URL"),
    ],
)
def test_an_error_says_what_is_wrong_then_what_is_right(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    directory = ("--dir", str(tmp_path / "crawl")) if arguments[1:] else ()
    refused = toehold(*arguments[:1], *directory, *arguments[1:])
    assert refused.returncode == BAD_INPUT
    assert told in refused.stderr
    assert not (tmp_path / "crawl").exists()
