"""A release: its version has one place, and its SBOM has every package that an installation needs."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.sbom import sbom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = (ROOT / "requirements" / "all.txt").read_text()
EXCEPT = ("CHANGELOG.md", "pyproject.toml", "requirements/", "tests/kept_releases/")
"""Where the project's version may stand, or versions of packages do."""


def test_the_version_has_one_place() -> None:
    """Everything else reads it from the installed package."""
    version = re.compile(rf"(?<![\w.=/~^]){re.escape(PROJECT['version'])}(?![\w.])")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.splitlines() if not name.startswith(EXCEPT)]
    assert len(files) > 100
    copies = [
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.is_file() and version.search(file.read_text(errors="replace"))
    ]
    assert copies == []


def test_the_sbom_has_all_packages_with_hashes_licences_and_a_way_from_the_project() -> None:
    text = sbom(PROJECT, PINS, 1_700_000_000)
    assert text == sbom(PROJECT, PINS, 1_700_000_000)
    told = json.loads(text)
    top = told["metadata"]["component"]
    assert (top["name"], top["version"]) == ("toehold-crawler", PROJECT["version"])
    assert told["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    packages = {package["name"]: package for package in told["components"]}
    needed = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert needed < packages.keys() and "scrapy" in packages and "pytest" not in packages
    for name, package in packages.items():
        assert package["licenses"] and package["hashes"] and package["version"], name
        assert package["hashes"][0]["content"] in PINS, name
    needs = {each["ref"]: each.get("dependsOn", []) for each in told["dependencies"]}
    reached, ahead = set(), [top["bom-ref"]]
    for place in ahead:  # which grows
        if place not in reached:
            reached.add(place)
            ahead += needs[place]
    assert reached == {top["bom-ref"], *(package["bom-ref"] for package in packages.values())}
