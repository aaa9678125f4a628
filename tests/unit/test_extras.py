"""Each extra brings what its program imports, and a program that lacks packages says so in a sentence."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toehold_base.process.extras import PROJECT, lacking
from toehold_cli.commands.conformance import conformance

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PYPROJECT["optional-dependencies"]

BLOCKED = """
import json, pkgutil, runpy, sys
from importlib import import_module

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

blocked = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Blocker())

def import_all(*packages, but=()):
    for package in packages:
        import_module(package)
        for each in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            if not each.name.startswith(but):
                import_module(each.name)
"""


def installed_by(*extras: str) -> set[str]:
    """The packages that `pip install toehold-crawler[…]` brings, with all that they need."""
    wanted = {PROJECT}
    todo = [(PROJECT, extra) for extra in ("", *extras)]
    for name, extra in todo:  # which grows
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                more = [(needed.name, each) for each in ("", *needed.extras)]
                todo += [each for each in more if each not in todo]
                wanted.add(canonicalize_name(needed.name))
    return wanted


def run_with(extras: Iterable[str], program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code that finds the packages of these extras and no others."""
    allowed = installed_by(*extras)
    blocked = [
        module
        for module, packages in metadata.packages_distributions().items()
        if not allowed & {canonicalize_name(package) for package in packages}
    ]
    command = [sys.executable, "-c", BLOCKED + program, json.dumps(blocked), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_client_needs_grpc_protobuf_and_little_else() -> None:
    assert (
        installed_by("client")
        == installed_by()
        == {
            PROJECT,
            "googleapis-common-protos",
            "grpcio",
            "grpcio-status",
            "msgspec",
            "protobuf",
            "tomli",
            "typing-extensions",
        }
    )


@pytest.mark.parametrize(
    ("extra", "program"),
    [
        ("client", "import_all('toehold_client', but='toehold_client.credential_options')"),
        ("cli", "import_all('toehold_cli', 'toehold_client', 'toehold_conformance')"),
        ("console", "import_all('toehold_cli', 'toehold_client', 'toehold_console')"),
        ("frontier", "import_all('frontier_server')"),
        ("node", "import_all('crawler_node')"),
        ("urlfrontier", "import_all('urlfrontier_gateway', 'urlfrontier')"),
        ("scrapy", "import_all('toehold_scrapy')"),
    ],
)
def test_an_extra_has_all_that_its_program_imports(extra: str, program: str) -> None:
    done = run_with([extra], program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "program", "extra"),
    [
        ("toehold_cli", "toehold", "cli"),
        ("frontier_server", "toehold-frontier", "frontier"),
        ("crawler_node", "toehold-node", "node"),
        ("urlfrontier_gateway", "toehold-urlfrontier", "urlfrontier"),
    ],
)
def test_a_program_that_lacks_its_packages_says_how_to_install_them(
    module: str, program: str, extra: str
) -> None:
    done = run_with([], f"runpy.run_module({module!r}, run_name='__main__')")
    advice = f'{program} needs further packages; in a checkout of its source: pip install ".[{extra}]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", advice)


def test_the_command_line_without_the_conformance_kit_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "toehold_conformance", None)  # as if there were none
    told = CliRunner().invoke(conformance, ["--list"])
    assert told.exit_code == 1
    assert told.output == (
        "toehold conformance needs the conformance kit; in a checkout of its source: "
        "pip install ./toehold_conformance\n"
    )


def test_a_node_says_so_too_if_it_lacks_only_what_fetches(tmp_path: Path) -> None:
    program = "del sys.argv[1]; runpy.run_module('crawler_node', run_name='__main__')"
    done = run_with(["frontier"], program, "--warc", str(tmp_path), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert done.stderr.endswith('in a checkout of its source: pip install ".[node]"\n')


def test_a_crawl_in_one_command_needs_the_frontier_and_the_node() -> None:
    program = """
from importlib import metadata
found = metadata.distribution
def distribution(name):
    if name == "rocksdict":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.distribution = distribution
del sys.argv[1]
runpy.run_module("toehold_client", run_name="__main__")
"""
    done = run_with(["all"], program, "crawl", "http://www.example.com/")
    assert done.returncode == 1
    advice = 'toehold crawl needs further packages; in a checkout of its source: pip install ".[all]"'
    assert done.stderr == f"Error: {advice}\n"
    assert lacking("frontier", "node") == []


def test_an_error_in_a_module_of_our_own_is_no_lack_of_packages() -> None:
    program = """
blocked.add("frontier_server")
from toehold_base.process.extras import packages_of
with packages_of("frontier", "toehold-frontier"):
    import frontier_server.program.program
"""
    assert "ModuleNotFoundError: No module named 'frontier_server'" in run_with([], program).stderr


def test_extras_agree_about_versions_and_all_has_each_of_them() -> None:
    ranges: dict[str, set[str]] = {}
    for texts in EXTRAS.values():
        for needed in map(Requirement, texts):
            ranges.setdefault(needed.name, set()).add(str(needed.specifier))
    assert [name for name, said in ranges.items() if len(said) > 1] == []
    (everything,) = map(Requirement, EXTRAS["all"])
    assert everything.extras == EXTRAS.keys() - {"all", "client"}
