"""Builds wheels with a compiled core from an sdist, one for each of several Pythons, into the sdist's folder.

    python tools/compiled_wheels.py SDIST [PYTHON...]

PYTHONs are interpreters, by name or path; without them, those of this machine that Toehold supports. Each
gets an environment of its own, with the packages that requirements/compile.txt pins. There the wheel is
built, installed and asked for its core. Its tag names the oldest systems that its machine code runs on
(manylinux or musllinux), as auditwheel finds by its symbols.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tools.commands import ROOT, run

PINS = ROOT / "requirements" / "compile.txt"
MINORS = range(100)  # of Python 3, whatever pyproject.toml declares


def main(sdist: str, *pythons: str) -> None:
    file = Path(sdist).resolve()
    if not file.name.endswith(".tar.gz"):
        sys.exit("usage: python tools/compiled_wheels.py SDIST [PYTHON...]")
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "show", "-s", "--format=%ct", "HEAD"))
    for wheel in compiled_wheels(file, pythons or found(), file.parent, epoch_s):
        print(wheel)


def found() -> list[str]:
    """The Pythons of this machine that can compile a core, the oldest first; says why others cannot.

    For each version the first one of: that of this environment, one on PATH, those of pyenv.
    """
    pythons = []
    for minor in _supported():
        refusals = []
        for python in _candidates(minor):
            if not (reason := refusal(python)):
                pythons.append(python)
                break
            refusals.append(f"{python}: {reason}")
        else:
            why = "; ".join(refusals) or "this machine has none"
            print(f"No compiled core for Python 3.{minor}: {why}", file=sys.stderr)
    return pythons


def refusal(python: str) -> str:
    """Why a Python cannot have a compiled core; empty if it can."""
    done = subprocess.run(
        (python, ROOT / "tools" / "can_compile.py"), capture_output=True, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else ""


def compiled_wheels(sdist: Path, pythons: Sequence[str], out: Path, epoch_s: int) -> list[Path]:
    """Build a wheel for each Python; the wheels, in the order of their Pythons."""
    paths = [_path(python) for python in pythons]
    with tempfile.TemporaryDirectory() as scratch:

        def build(number: int) -> Path:
            return _built(sdist, paths[number], Path(scratch) / str(number), out, epoch_s)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(build, range(len(paths))))


def _path(python: str) -> str:
    path = shutil.which(python)
    if path is None:
        sys.exit(f"{python} is not on this machine")
    if reason := refusal(path):
        sys.exit(f"{python} cannot compile the core: {reason}")
    return str(Path(path).absolute())


def _built(sdist: Path, python: str, scratch: Path, out: Path, epoch_s: int) -> Path:
    with tarfile.open(sdist) as files:
        files.extractall(scratch, filter="data")
    (sources,) = scratch.iterdir()
    there = scratch / "environment"
    run(python, "-m", "venv", there, folder=scratch)
    pip = (there / "bin" / "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", PINS)
    fixed = {
        "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(epoch_s),
    }
    build = (there / "bin" / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", scratch / "plain")
    run(*build, folder=sources, variables=fixed)
    (plain,) = (scratch / "plain").iterdir()
    tagged = scratch / "tagged"
    # The core needs no library but C's, so nothing has to be patched; if it had, this would fail.
    repair = (sys.executable, "-m", "auditwheel", "repair", "--patcher", "none", "-w", tagged, plain)
    run(*repair, folder=scratch, variables=fixed)
    (wheel,) = tagged.iterdir()
    run(*pip, "--no-index", "--no-deps", wheel)
    told = run(there / "bin" / "toehold-frontier", "--version", folder=scratch)
    if "compiled core" not in told:
        sys.exit(f"{wheel.name} does not run its compiled core: {told}")
    return Path(shutil.copy(wheel, out))


def _supported() -> list[int]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    versions = SpecifierSet(declared)
    return [minor for minor in MINORS if f"3.{minor}" in versions]


def _candidates(minor: int) -> Iterator[str]:
    name = f"python3.{minor}"
    here = Path(sys.base_prefix) / "bin" / name
    if here.exists():
        yield str(here)
    if (on_path := shutil.which(name)) is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, pyenv.glob(f"versions/3.{minor}.*/bin/{name}")), reverse=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
