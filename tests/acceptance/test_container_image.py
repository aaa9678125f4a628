"""The steps of the image's build, run without a container engine, and a crawl by what they install."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from acceptance.installing import INSTALL_S, SPEC, run, sources
from acceptance.programs import Programs
from frontier_harness.calls import fresh_name
from frontier_harness.containerfile import Copy, read
from frontier_harness.deployed import CONTAINERS, SCRIPTS
from frontier_harness.small_site import small_site
from frontier_harness.soaking import Soak

from tools.can_compile import lacks

PAGES = 8
PINNED = re.compile(r"^([a-z0-9_.-]+)==([^ ;]+)", re.MULTILINE)
LISTED = (
    "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
)

pytestmark = [pytest.mark.soak("containers"), pytest.mark.timeout(1800)]


class Root:
    """A directory in which the steps of a build run as if it were the root of a file system."""

    def __init__(self, directory: Path, context: Path) -> None:
        self._directory = directory
        self._context = context
        self._there = directory
        for name in ("programs", "opt"):
            (directory / name).mkdir(parents=True)
        (directory / "programs" / "python3").symlink_to(Path(sys.executable).resolve())

    def place(self, path: str) -> Path:
        """Where a path of the image is."""
        return self._directory / path.lstrip("/")

    def play(self, steps: list[tuple[str, str]], copies: list[Copy]) -> None:
        """Do what the steps of a stage say."""
        copied = iter(copies)
        for instruction, text in steps:
            if instruction == "WORKDIR":
                self._there = self.place(text)
                self._there.mkdir()
            elif instruction == "COPY":
                self._copy(next(copied))
            else:
                assert instruction == "RUN"
                self._run(text)

    def _copy(self, copied: Copy) -> None:
        target = self._there / copied.target
        for source in (self._context / each for each in copied.sources):
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                target.mkdir(exist_ok=True)
                shutil.copy(source, target)

    def _run(self, text: str) -> None:
        moved = re.sub(r"(?<= )/(?=build|wheels|opt/toehold)", f"{self._directory}/", f" {text}")
        done = subprocess.run(
            ["sh", "-euc", moved],
            cwd=self._there,
            env=os.environ | {"PATH": f"{self.place('/programs')}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_S,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment with all programs, which the last stage of the image copies from the build."""
    if reason := lacks():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("image")
    build, _ = read(CONTAINERS / "Containerfile")
    root = Root(folder / "root", sources(folder / "context"))
    root.play(build.steps, build.copies)
    return root.place("/opt/toehold")


def test_the_image_has_pinned_packages_compiled_and_neither_pip_nor_scrapy(
    installed: Path, soak: Soak
) -> None:
    listed = run(installed / "bin" / "python3", "-c", LISTED, folder=installed).stdout.split()
    packages = dict(each.lower().replace("_", "-").split("==") for each in listed)
    pinned = dict(PINNED.findall((CONTAINERS.parents[1] / "requirements" / "all.txt").read_text()))
    assert not {"pip", "scrapy", "setuptools"} & packages.keys()
    assert packages.pop("toehold-crawler")
    assert {name for name, version in packages.items() if pinned[name] != version} == set()
    code = [file for file in installed.rglob("*.py") if "site-packages" in file.parts]
    lacking = [file for file in code if not list(file.parent.glob(f"__pycache__/{file.stem}.*.pyc"))]
    assert len(lacking) < len(code) / 100, "a read-only file system takes no bytecode later"
    soak.count(checked=len(packages))


def test_the_core_of_the_image_is_compiled(installed: Path) -> None:
    assert (
        "(compiled core, "
        in run(installed / "bin" / "toehold-frontier", "--version", folder=installed).stdout
    )


def test_every_program_of_the_image_helps(installed: Path, soak: Soak) -> None:
    for program in SCRIPTS:
        done = run(installed / "bin" / program, "--help", folder=installed)
        assert (done.returncode, done.stderr) == (0, ""), program
        soak.count(checked=1)


def test_frontier_node_and_client_of_the_image_crawl_and_change_nothing_in_it(
    installed: Path, tmp_path: Path, soak: Soak
) -> None:
    before = {file: file.stat().st_mtime_ns for file in installed.rglob("*")}
    there = installed / "bin"
    with small_site(PAGES) as site, Programs(tmp_path) as programs:
        spec = tmp_path / "crawl.toml"
        spec.write_text(SPEC.format(name=fresh_name(), seed=site.url()))
        data, warcs = str(tmp_path / "data"), str(tmp_path / "warcs")
        flags = ("--data", data, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
        frontier = programs.start("frontier", str(there / "toehold-frontier"), *flags)
        address = frontier.wait_ready().rpartition(" ")[2]
        node = ("--frontier", address, "--warc", warcs, "--metrics", "127.0.0.1:0")
        programs.start("node", str(there / "toehold-node"), *node).wait_ready()
        done = run(there / "toehold", "run", spec, "--frontier", address, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        wanted = Counter({f"/page/{number}": 1 for number in range(PAGES)} | {"/": 1, "/robots.txt": 1})
        assert site.asked == wanted
        soak.count(checked=PAGES)
    assert {file: file.stat().st_mtime_ns for file in installed.rglob("*")} == before
