"""A release: built twice with the same bytes, installed with each extra as a user's pip does it, and used."""

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.installing import SPEC, Environments, run, sources
from acceptance.programs import Programs
from frontier_harness.calls import fresh_name
from frontier_harness.console import client_of, url_in
from frontier_harness.gateway import Client, discovered
from frontier_harness.process import ServerProcess
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.soaking import Soak

from tools.can_compile import lacks
from tools.compiled_wheels import compiled_wheels
from tools.release import build, check

PAGES = 8
EPOCH_S = 1_700_000_000
PROGRAMS = {
    "toehold": "cli",
    "toehold-frontier": "frontier",
    "toehold-node": "node",
    "toehold-urlfrontier": "urlfrontier",
}
"""The extra of each program."""
CLIENT = """
import sys
from toehold_client import CrawlController, FrontierClient, crawl_spec
with FrontierClient(sys.argv[1]) as client:
    print([crawl.crawl for crawl in client.list_crawls()])
"""
SPIDER = """
import scrapy

class Follower(scrapy.Spider):
    name = "follower"
    def __init__(self, start, **more):
        super().__init__(**more)
        self.start_urls = [start]
    def parse(self, response):
        yield from response.follow_all(css="a", callback=self.parse)
"""

pytestmark = [pytest.mark.soak("installs"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources(tmp_path_factory.mktemp("release") / "sources")


@pytest.fixture(scope="module")
def built(checkout: Path) -> list[Path]:
    """Sdist, wheel and SBOM, and the conformance kit's wheel."""
    return build(checkout, checkout.with_name("built"), EPOCH_S)


@pytest.fixture(scope="module", params=["sdist", "wheel"])
def archive(request: pytest.FixtureRequest, built: list[Path]) -> Path:
    return built[["sdist", "wheel"].index(request.param)]


@pytest.fixture(scope="module")
def environments(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Environments:
    return Environments(archive, tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="module")
def site() -> Iterator[SmallSite]:
    with small_site(PAGES) as served:
        yield served


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def compiled(built: list[Path]) -> Path:
    """The wheel with a compiled core for this Python, beside the pure one."""
    if reason := lacks():
        pytest.skip(reason)
    (wheel,) = compiled_wheels(built[0], [sys.executable], built[0].parent, EPOCH_S)
    return wheel


def spec_file(folder: Path, site: SmallSite) -> Path:
    """The spec of a crawl of the site."""
    site.requests.clear()
    file = folder / "crawl.toml"
    file.write_text(SPEC.format(name=fresh_name(), seed=site.url()))
    return file


def assert_crawled(site: SmallSite) -> None:
    """Each page of the site was fetched once."""
    wanted = Counter({f"/page/{number}": 1 for number in range(PAGES)} | {"/": 1, "/robots.txt": 1})
    assert site.asked == wanted


def test_a_release_has_the_same_bytes_in_any_folder_and_with_any_umask(
    checkout: Path, built: list[Path], tmp_path: Path, soak: Soak
) -> None:
    elsewhere = tmp_path / "else" / "where"
    before = os.umask(0o077)
    try:
        shutil.copytree(checkout, elsewhere)
        for file in elsewhere.rglob("*"):
            file.chmod(file.stat().st_mode & ~0o077)
        again = build(elsewhere, tmp_path / "built", EPOCH_S)
    finally:
        os.umask(before)
    for one, other in zip(built, again, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes(), one.name
        soak.count(checked=1)
    check(again)


def test_a_compiled_wheel_has_the_same_bytes_when_it_is_built_again(
    built: list[Path], compiled: Path, tmp_path: Path, soak: Soak
) -> None:
    (again,) = compiled_wheels(built[0], [sys.executable], tmp_path, EPOCH_S)
    assert again.name == compiled.name
    assert again.read_bytes() == compiled.read_bytes()
    soak.count(checked=1)
    check([again])


def test_pip_takes_the_compiled_core_where_it_fits_and_the_pure_one_elsewhere(
    built: list[Path], compiled: Path, tmp_path: Path, soak: Soak
) -> None:
    name, version, _, _, platforms = compiled.name.removesuffix(".whl").split("-")
    assert "linux_" in platforms and not platforms.startswith("linux_"), "an index would refuse it"
    platform = platforms.split(".")[0]
    another_python = "3.12" if sys.version_info.minor == 11 else "3.11"
    elsewhere = ("--platform", platform, "--python-version", another_python)
    for flags, taken in (((), compiled), (elsewhere, built[1])):
        folder = tmp_path / str(len(flags))
        done = run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps"),
            *("--only-binary", ":all:", "--find-links", compiled.parent, "--dest", folder),
            *(*flags, f"{name}=={version}"),
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert [file.name for file in folder.iterdir()] == [taken.name]
        soak.count(checked=1)


def test_the_compiled_core_crawls(compiled: Path, tmp_path: Path, site: SmallSite) -> None:
    there = Environments(compiled, tmp_path)["all"]
    assert "(compiled core, " in run(there / "toehold-frontier", "--version", folder=tmp_path).stdout
    assert_one_command_crawls(there, tmp_path, site)


@pytest.mark.parametrize(
    "extra", ["client", "cli", "console", "frontier", "node", "urlfrontier", "scrapy", "all"]
)
def test_an_extra_installs_what_its_program_needs(
    extra: str, environments: Environments, tmp_path: Path, soak: Soak
) -> None:
    there = environments[extra]
    for program, its in PROGRAMS.items():
        help_ = run(there / program, "--help", folder=tmp_path)
        if extra in ("all", its) or (extra, its) == ("console", "cli"):
            assert (help_.returncode, help_.stderr) == (0, "")
        elif extra in ("client", "cli"):  # other extras have parts of what another program needs
            assert (help_.returncode, help_.stdout) == (1, "")
            assert (
                f'{program} needs further packages; in a checkout of its source: pip install ".'
                in help_.stderr
            )
        soak.count(checked=1)
    if extra == "cli":
        crawl = run(there / "toehold", "crawl", "http://www.example.com/", folder=tmp_path)
        assert crawl.returncode == 1 and 'pip install ".[all]"' in crawl.stderr
        console = run(there / "toehold", "console", folder=tmp_path)
        assert console.returncode == 1 and 'pip install ".[console]"' in console.stderr
    if extra == "frontier":
        frontier = run(
            there / "toehold-frontier", "--data", "data", "--console", "127.0.0.1:0", folder=tmp_path
        )
        assert frontier.returncode == 1 and 'pip install ".[console]"' in frontier.stderr


def test_the_conformance_kit_is_installed_by_a_wheel_of_its_own(
    environments: Environments, built: list[Path], tmp_path: Path
) -> None:
    there = environments["all"]
    without = run(there / "toehold", "conformance", "--list", folder=tmp_path)
    assert without.returncode == 1 and "pip install ./toehold_conformance" in without.stderr
    copy = shutil.copytree(there.parent, tmp_path / "with_kit", symlinks=True) / "bin"
    done = run(copy / "python", "-m", "pip", "install", "--quiet", "--no-deps", built[3], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = run(copy / "python", "-m", "toehold_cli", "conformance", "--list", folder=tmp_path)
    assert listed.returncode == 0 and "robots-first" in listed.stdout


@pytest.mark.parametrize("extra", ["client", "all"])
def test_the_client_speaks_to_a_frontier(extra: str, environments: Environments, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.stubs.create("made")
        done = run(environments[extra] / "python", "-c", CLIENT, server.address, folder=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "['made']\n", "")


@pytest.mark.parametrize("extra", ["console", "all"])
def test_the_console_has_its_page(
    extra: str, environments: Environments, tmp_path: Path, programs: Programs
) -> None:
    toehold = str(environments[extra] / "toehold")
    with ServerProcess(tmp_path / "data") as server:
        flags = ("--frontier", server.address, "--listen", "127.0.0.1:0")
        url = url_in(programs.start("console", toehold, "console", *flags).wait_ready())
        with client_of(url) as http:
            page = http.get("/").text
            for part in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
                assert http.get(part).status_code == 200, part
            assert http.get("/v1/openapi.json").json()["openapi"] == "3.1.0"
            assert http.get("/console/session").json()["login"] is False


def test_one_command_crawls(environments: Environments, tmp_path: Path, site: SmallSite) -> None:
    assert (
        "(interpreted core, "
        in run(environments["all"] / "toehold-frontier", "--version", folder=tmp_path).stdout
    )
    assert_one_command_crawls(environments["all"], tmp_path, site)


def assert_one_command_crawls(there: Path, folder: Path, site: SmallSite) -> None:
    site.requests.clear()
    brisk = ("--min-delay", "0", "--delay-factor", "0")
    done = run(there / "toehold", "crawl", site.url(), "--dir", "made", *brisk, folder=folder)
    assert done.returncode == 0, done.stderr
    assert_crawled(site)


def test_frontier_node_and_command_line_crawl_together_from_environments_of_their_own(
    environments: Environments, tmp_path: Path, site: SmallSite, programs: Programs
) -> None:
    spec = spec_file(tmp_path, site)
    flags = ("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    frontier = programs.start("frontier", str(environments["frontier"] / "toehold-frontier"), *flags)
    address = frontier.wait_ready().rpartition(" ")[2]
    node = ("--frontier", address, "--warc", str(tmp_path / "warcs"))
    programs.start("node", str(environments["node"] / "toehold-node"), *node).wait_ready()
    there = environments["cli"] / "toehold"
    done = run(there, "run", spec, "--frontier", address, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_crawled(site)


@pytest.mark.parametrize("extra", ["scrapy", "all"])
def test_a_spider_crawls(extra: str, environments: Environments, tmp_path: Path, site: SmallSite) -> None:
    spec = spec_file(tmp_path, site)
    (tmp_path / "follower.py").write_text(SPIDER)
    with ServerProcess(tmp_path / "data") as server:
        done = run(
            *(environments[extra] / "scrapy", "runspider", "follower.py", "-a", f"start={site.url()}"),
            *("-s", "SCHEDULER=toehold_scrapy.Scheduler", "-s", f"TOEHOLD_FRONTIER={server.address}"),
            *("-s", "TOEHOLD_CRAWL=spider", "-s", f"TOEHOLD_SPEC={spec}", "-s", "COOKIES_ENABLED=0"),
            *("-s", "TELNETCONSOLE_ENABLED=0"),
            folder=tmp_path,
        )
    assert done.returncode == 0 and "Spider closed (finished)" in done.stderr, done.stderr
    assert_crawled(site)


def test_the_gateway_serves_a_client_of_urlfrontier(
    environments: Environments, tmp_path: Path, programs: Programs
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        flags = ("--frontier", server.address, "--listen", "127.0.0.1:0")
        gateway = programs.start("gateway", str(environments["urlfrontier"] / "toehold-urlfrontier"), *flags)
        ready = gateway.wait_ready().removeprefix("toehold-urlfrontier serving on ")
        client = Client(ready.partition(",")[0])
        url = "http://www.example.com/"
        client.put(discovered(url, crawl_id="DEFAULT"))
        assert client.get() == [url]
        client.close()
