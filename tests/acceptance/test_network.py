"""docs/network.md, as it is written: a frontier, a node and a person, each in its place with its files."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptance.programs import Program, Programs, script
from frontier_harness.access import Installation
from frontier_harness.ports import KeptPort, is_there
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

PAGE = Path(__file__).parents[2] / "docs" / "network.md"
PAGES = 12
RENEWALS, RENEWED_PAGES = 4, 160
FILES = {
    "frontier": ("certs/ca.crt", "certs/frontier.crt", "certs/frontier.key", "callers.toml"),
    "node": ("certs/ca.crt", "certs/north.crt", "certs/north.key", "callers.toml"),
    "person": ("certs/ca.crt", "certs/alice.crt", "certs/alice.key"),
}
"""The files that go to each place."""
USERS = {"frontier": 61_001, "node": 61_002, "person": 61_003}
SPEC = """\
name = "docs"
seeds = ["{seed}"]
allowed_addresses = ["loopback"]
[scope]
hosts = ["127.0.0.1"]
[politeness]
delay_factor = 0
min_delay_seconds = 0.01
"""


def commands(title: str) -> list[str]:
    """The commands in a section of the page."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [line.removeprefix("$ ") for line in lines]


def may_be_other_users() -> bool:
    """Whether programs can run here as other users: who are allowed to read this Python and this project."""
    if os.geteuid() != 0:
        return False
    probe = [sys.executable, "-c", "import toehold_client"]
    try:
        done = subprocess.run(
            probe, user=USERS["node"], group=USERS["node"], capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


@dataclass
class Places:
    """A folder for each program, and the addresses in place of those on the page."""

    folder: Path
    frontier: KeptPort
    node: KeptPort
    programs: Programs
    as_users: bool

    def words(self, command: str) -> str:
        """A command with these addresses in place of the page's."""
        for name, port, written in (("FRONTIER", self.frontier, "7707"), ("NODE", self.node, "7708")):
            host = port.address.rpartition(":")[0]
            command = re.sub(rf"\b{name}:{written}\b", port.address, command)
            command = re.sub(rf"\b{name}\b", host, command)
        return command

    def shell(self, place: str, command: str) -> tuple[str, ...]:
        """How a command is run in a place, by its user."""
        user: tuple[str, ...] = ()
        if self.as_users and place in USERS:
            uid = str(USERS[place])
            user = ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups")
        path = f"PATH={Path(script('toehold')).parent}:{os.environ['PATH']}"
        within = ("/usr/bin/env", "-C", str(self.folder / place), path, f"HOME={self.folder / place}")
        return (*within, *user, "/bin/sh", "-c", f"exec {self.words(command)}")

    def start(self, place: str, command: str) -> Program:
        """A command of the page, at work."""
        return self.programs.start(f"{place}-{len(list(self.folder.iterdir()))}", *self.shell(place, command))

    def run(self, place: str, command: str) -> subprocess.CompletedProcess[str]:
        """A command of the page, run to its end."""
        return subprocess.run(
            self.shell(place, command), capture_output=True, text=True, timeout=WHOLE_CRAWL_S, check=False
        )

    def hand_out(self) -> None:
        """Bring each its files, which nobody else may read."""
        for place, files in FILES.items():
            for name in files:
                target = self.folder / place / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.folder / "office" / name, target)
            if self.as_users:
                for path in (self.folder / place, *(self.folder / place).rglob("*")):
                    os.chown(path, USERS[place], USERS[place])
            (self.folder / place).chmod(0o700)


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site(PAGES) as site:
        yield site


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    if not is_there("127.0.0.2"):
        pytest.skip("this system has no further addresses of loopback")
    for place in ("office", *FILES):
        (tmp_path / place).mkdir()
    for path in (tmp_path, *tmp_path.parents[:2]):
        if may_be_other_users():
            path.chmod(path.stat().st_mode | 0o011)
    (tmp_path / "out").mkdir()
    with Programs(tmp_path / "out") as programs:
        yield Places(tmp_path, KeptPort(), KeptPort("127.0.0.2"), programs, may_be_other_users())


def test_the_installation_of_the_page_crawls(places: Places, site: SmallSite) -> None:
    """Three programs, three places, three users if the system lets us; mutual TLS and roles."""
    given = commands("An installation in three places")
    made, (frontier, node), exports, (run, toes) = given[:5], given[5:7], given[7:9], given[9:]
    assert [each.split()[1:3] for each in made] == [["certs", "create"]] * 3 + [["callers", "set"]] * 2
    for command in made:
        done = places.run("office", command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    places.hand_out()
    (places.folder / "person" / "crawl.toml").write_text(SPEC.format(seed=site.url()))
    serving = places.start("frontier", frontier)
    assert serving.wait_ready() == f"toehold-frontier serving on {places.frontier.address}"
    fetching = places.start("node", node)
    assert f"fetching for {places.frontier.address}" in fetching.wait_ready()
    assert fetching.said.strip().endswith(f"service at {places.node.address}")

    def as_alice(command: str) -> subprocess.CompletedProcess[str]:
        settings = " ".join(each.removeprefix("export ") for each in exports)
        return places.run("person", f"env {settings} {command}")

    ran = as_alice(run)
    assert ran.returncode == 0, ran.stderr
    assert "docs: Finished" in ran.stdout
    assert len(site.asked) == PAGES + 2
    told = as_alice(toes)
    assert told.returncode == 0, told.stderr
    assert "ABOUT_TO_GET_URI" in told.stdout
    acts = as_alice("toehold events --acts")
    assert {line.split()[4] for line in acts.stdout.splitlines()} == {"alice"}
    job_log = (places.folder / "frontier/data/crawls/docs/job.log").read_text()
    assert "OPERATOR alice launch" in job_log
    check_denials(places)
    for program in (fetching, serving):
        program.signal(signal.SIGTERM)
        assert program.wait() == 0, program.complaints


def check_denials(places: Places) -> None:
    """Others than alice are told who they are not."""
    there = places.words("--frontier FRONTIER:7707 --tls-ca certs/ca.crt")
    north = "--tls-cert certs/north.crt --tls-key certs/north.key"
    for place, command, code, words in (
        ("node", f"toehold status {there} {north}", 10, "for callers with the role watch, operate or admin"),
        ("person", f"toehold status {there}", 3, "asks for a client certificate"),
        ("person", places.words("toehold status --frontier FRONTIER:7707"), 3, "speaks TLS"),
    ):
        done = places.run(place, command)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_crawl_goes_on_while_all_certificates_and_tokens_are_renewed(
    tmp_path: Path, programs: Programs
) -> None:
    """Each page is fetched once, no call is denied, and the former tokens are refused."""
    installation = Installation(tmp_path / "installation")
    installation.cert("frontier", "127.0.0.1")
    for name in ("north", "alice"):
        installation.cert(name)
    token = tmp_path / "token"
    token.write_text(installation.caller("north", "fetch"))
    installation.caller("alice", "operate")

    def own(name: str) -> list[str]:
        certs = installation.certs
        return [
            *("--tls-ca", str(certs / "ca.crt"), "--tls-cert", str(certs / f"{name}.crt")),
            *("--tls-key", str(certs / f"{name}.key")),
        ]

    with small_site(RENEWED_PAGES) as site:
        frontier = programs.frontier(tmp_path / "data", *installation.flags())
        there = ("--frontier", frontier.address)
        spec = tmp_path / "crawl.toml"
        spec.write_text(SPEC.format(seed=site.url()).replace("0.01", "0.05"))
        node = programs.node(
            "north", frontier.address, tmp_path / "warcs", *own("north"), "--token-file", str(token),
            *("--processes", "2"),
        )  # fmt: skip
        running = programs.toehold("run", str(spec), *there, *own("alice"))

        former: list[str] = []

        def reloads() -> int:
            return frontier.program.complaints.count("callers_reloaded")

        def renew(at_page: int) -> None:
            eventually(lambda: len(site.requests) > at_page, "further pages")
            if former:  # of the renewal before: a call may have begun with it, and be slow to connect anew
                before = reloads()
                installation.registry.revoke_token(former.pop())
                eventually(lambda: reloads() > before, "the end of the former token")
            former.append(token.read_text().strip().split("_")[1])
            before = reloads()
            (tmp_path / "new").write_text(installation.token("north"))
            eventually(lambda: reloads() > before, "the new token at the frontier")
            (tmp_path / "new").replace(token)
            for name in ("frontier", "north", "alice"):
                installation.cert(name, renew=True)
            seen = len(site.requests)
            eventually(lambda: len(site.requests) > seen + 5, "further pages")

        for renewal in range(1, RENEWALS + 1):
            renew(renewal * 20)
        assert running.wait(WHOLE_CRAWL_S) == 0, running.complaints
        node.signal(signal.SIGTERM)
        assert node.wait() == 0, node.complaints
        assert set(site.asked.values()) == {1}, "each page once"
        assert len(site.asked) == RENEWED_PAGES + 2
    log = frontier.program.complaints
    assert log.count("certificates_reloaded") >= RENEWALS
    assert "call_denied" not in log
    assert "_unusable" not in log + node.complaints
    assert "toehold_" not in log, "no token is in the log"
