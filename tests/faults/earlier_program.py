"""The frontier's program as machines of a cluster run it: the present one, and that of an earlier commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frontier_harness.descendants import children

from frontier_server.core.rows.records import FORMAT
from frontier_server.service import version

ROOT = Path(__file__).parents[2]
FIRST_WITH_A_CLUSTER = "cb858886c3ce0d83127cee29dbf106134e933090"
"""The first commit whose cluster was complete: no release is as old and has several machines. It is what is
upgraded until there is a tag of a release that has them."""
CLUSTER = "frontier_server/cluster/members.py"
"""What a commit has whose program can be a machine of a cluster."""
PACKAGES = ("frontier_server", "toehold_base", "protos")
_TELL = """
import frontier_server, toehold
from frontier_server.cluster.members import FORMAT as cards
from frontier_server.core.rows.records import FORMAT as stores
from frontier_server.service import version
print(frontier_server.__file__, next(iter(toehold.__path__)), version(), stores, cards, sep="\\n")
"""


class NotAtHand(Exception):
    """There is no earlier program to be had here."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program `python -m frontier_server`."""

    version: str
    stores: int
    """The format of its stores."""
    cards: int
    """The format of what its machines tell each other."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What a process needs besides to run it."""

    def runs_in(self, process: int) -> bool:
        """Whether this is what a process and all that it has started run, by what the system knows of them:
        where Python looks for modules first. One that has just ended runs nothing."""
        wanted = os.environ | dict(self.environment)
        names = ("PYTHONPATH", "PYTHONSAFEPATH")
        try:
            found = [_variables(each) for each in (process, *children(process))]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return all(each.get(name) == wanted.get(name) for each in found for name in names)


def _variables(process: int) -> dict[str, str]:
    told = Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")
    return dict(each.partition("=")[::2] for each in told.split("\0"))


def present() -> Program:
    """This one."""
    _, _, _, stores, cards = _told({})
    return Program(version(), int(stores), int(cards))


def earlier(reference: str, folder: Path) -> Program:
    """That of a commit, written to a folder. Raises NotAtHand."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    if not commit:
        raise NotAtHand(_why_not(reference))
    if not _has_cluster(commit):
        raise NotAtHand(f"the program of {reference} has no cluster")
    folder.mkdir()
    archive = subprocess.Popen(("git", "-C", str(ROOT), "archive", commit), stdout=subprocess.PIPE)
    with archive:
        subprocess.run(("tar", "-x", "-C", str(folder)), stdin=archive.stdout, check=True)
    assert archive.returncode == 0, "git archive has failed"
    return _installed(folder, f"{version()}+{commit[:12]}")


def of_a_later_format(folder: Path) -> Program:
    """The present one as if its stores had the next format, written to a folder."""
    for each in PACKAGES:
        shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
    rows = folder / "frontier_server/core/rows/records.py"
    text, changes = re.subn(r"^FORMAT = .*", f"FORMAT = {FORMAT + 1}", rows.read_text(), count=1, flags=re.M)
    assert changes == 1
    rows.write_text(text)
    return _installed(folder, f"{version()}+later")


def _installed(folder: Path, name: str) -> Program:
    """The program whose sources are in a folder, under a version of its own."""
    # A program asks what is installed for its version. This one comes first where Python looks.
    told = folder / f"toehold_crawler-{name}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toehold-crawler\nVersion: {name}\n")
    environment = {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'protos'}", "PYTHONSAFEPATH": "1"}
    # As an installation does it, lest many processes do it at once.
    compiling = (sys.executable, "-m", "compileall", "-q", *(str(folder / each) for each in PACKAGES))
    subprocess.run(compiling, check=True)
    code, contract, its_version, stores, cards = _told(environment)
    assert (code, contract) == (str(folder / "frontier_server/__init__.py"), str(folder / "protos/toehold"))
    assert its_version == name, "the program has the version of another one"
    return Program(name, int(stores), int(cards), environment)


def before() -> str:
    """The program that a user has who upgrades to this one: the last release before that has a cluster."""
    tags = _git(
        "tag", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-version:refname", "v[0-9]*", "[0-9]*"
    )
    return next((tag for tag in tags.splitlines() if _has_cluster(tag)), FIRST_WITH_A_CLUSTER)


def _told(environment: Mapping[str, str]) -> list[str]:
    """What a program says of itself."""
    done = subprocess.run(
        (sys.executable, "-P", "-c", _TELL),
        env=os.environ | dict(environment),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def _has_cluster(reference: str) -> bool:
    return bool(_git("ls-tree", "--name-only", reference, "--", CLUSTER))


def _why_not(reference: str) -> str:
    where = _git("rev-parse", "--is-shallow-repository")
    if not where:
        return "there is no git, or this is no clone of the repository: no earlier program can be had"
    if where == "true":
        return f"the clone is shallow and lacks {reference}: no earlier program can be had"
    return f"the clone lacks {reference}: no earlier program can be had"


def _git(*arguments: str) -> str:
    """What git says; empty if it refuses, or is not there."""
    try:
        done = subprocess.run(
            ("git", "-C", str(ROOT), *arguments), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
