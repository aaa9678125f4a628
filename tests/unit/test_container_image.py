"""deploy/containers/Containerfile: pinned packages, all of our programs, and no rights."""

import re
import tomllib
from pathlib import Path

import pytest
from frontier_harness.containerfile import command, read
from frontier_harness.deployed import CONTAINERS, ROOT, SCRIPTS, is_command

CONTAINERFILE = CONTAINERS / "Containerfile"
BUILD, IMAGE = read(CONTAINERFILE)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def sent_to_the_build() -> list[str]:
    """The paths at the root that .dockerignore lets through."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "it refuses everything, then names what is needed"
    assert rules[-1] == "**/__pycache__"
    assert all(rule.startswith("!") for rule in rules[1:-1])
    return [rule.removeprefix("!").rstrip("/") for rule in rules[1:-1]]


def test_the_last_stage_has_none_of_the_tools_of_the_build() -> None:
    (copied,) = IMAGE.copies
    assert (copied.stage, list(copied.sources), copied.target) == (
        BUILD.name,
        ["/opt/toehold"],
        "/opt/toehold",
    )
    assert not any("pip" in text for text in IMAGE.texts("RUN"))


def test_both_stages_begin_with_the_same_system_and_python_and_the_last_one_without_a_compiler() -> None:
    assert BUILD.base == IMAGE.base.replace("-slim-", "-")
    image, _, tag = IMAGE.base.rpartition(":")
    assert image.startswith("docker.io/library/python") and re.fullmatch(r"3\.\d+-slim-[a-z]+", tag)
    lower, upper = re.findall(r"3\.(\d+)", PYPROJECT["project"]["requires-python"])
    assert int(lower) <= int(tag.split("-")[0].removeprefix("3.")) < int(upper)


def test_the_build_copies_what_the_wheel_needs_and_the_context_has_nothing_else() -> None:
    sources = [source.rstrip("/") for copied in BUILD.copies for source in copied.sources]
    assert all((ROOT / source).exists() for source in sources)
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    project = PYPROJECT["project"]
    needed = {package.split("/")[0] for package in wheel} | {*project["license-files"], project["readme"]}
    assert needed <= set(sources)
    assert {source.split("/")[0] for source in sources} == set(sent_to_the_build())


def test_packages_are_checked_by_hash_and_nothing_else_comes_from_a_network() -> None:
    commands = [each.strip() for text in BUILD.texts("RUN") for each in text.split("&&")]
    pips = [each for each in commands if re.search(r"\bpip\b.* (download|install|wheel) ", each)]
    assert [each for each in commands if re.search(r"curl|wget|apt-get|git ", each)] == []
    downloads, others = (
        [each for each in pips if " download " in each],
        [each for each in pips if " download " not in each],
    )
    assert len(downloads) == 1 and "--require-hashes" in downloads[0]
    assert "--requirement requirements/all.txt" in downloads[0]
    assert len(others) == 3 and all("--no-index" in each for each in others)


def test_the_image_has_every_extra_that_its_programs_need() -> None:
    (extras,) = re.findall(r"toehold-crawler\[([a-z,]+)\]", "".join(BUILD.texts("RUN")))
    every = PYPROJECT["project"]["optional-dependencies"].keys() - {"all", "client"}
    assert every - {"scrapy"} == set(extras.split(","))


def test_the_user_is_a_number_and_owns_every_directory_that_a_program_writes() -> None:
    (user,) = IMAGE.texts("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    own, group = user.split(":")
    (made,) = IMAGE.texts("RUN")
    directories = re.findall(
        rf"install --directory --owner {own} --group {group} --mode 07[05]0 ([^&]+)", made
    )
    assert {*IMAGE.texts("WORKDIR"), "/var/lib/toehold", "/var/lib/warcs"} <= set(
        " ".join(directories).split()
    )
    assert [name for name, _ in IMAGE.steps].index("USER") > [name for name, _ in IMAGE.steps].index("RUN")


def test_programs_write_no_bytecode_and_are_found() -> None:
    assert IMAGE.environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert IMAGE.environment["PATH"].startswith("/opt/toehold/bin:/usr/local/bin:")


def test_a_container_without_a_command_helps_and_finds_its_program() -> None:
    (text,) = IMAGE.texts("CMD")
    assert IMAGE.texts("ENTRYPOINT") == []
    assert command(text)[0] in SCRIPTS and is_command(command(text))


def test_the_health_check_is_a_command_of_ours() -> None:
    (text,) = IMAGE.texts("HEALTHCHECK")
    assert command(text) == ["toehold", "health"]
    assert is_command(command(text))


@pytest.mark.parametrize("line", ["ADD . /src", "ONBUILD RUN true", "COPY --chown=1:1 a b"])
def test_the_reader_refuses_what_it_does_not_know(tmp_path: Path, line: str) -> None:
    (tmp_path / "Containerfile").write_text(f"FROM one AS two\n{line}\n")
    with pytest.raises(ValueError, match="must "):
        assert read(tmp_path / "Containerfile")[0].copies
