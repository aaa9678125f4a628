"""Builds a release from the last commit: sdist, wheels, a list of packages (SBOM), and the wheel of the
conformance kit, in dist/. Nothing is published.

    python tools/release.py [PYTHON...]

pip takes a wheel with a compiled core where one fits, and the pure one elsewhere. PYTHONs are those that get
a compiled core; without them, all of this machine.

The same commit gives the same bytes, in whatever folder and for whomever it is built: the sources come out of
git, times are the commit's, and the wheels are built from the sdist. For compiled wheels, Python and the C
compiler must be the same, too.
"""

import hashlib
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.commands import ROOT, run
from tools.compiled_wheels import compiled_wheels, found
from tools.sbom import sbom

DIST = ROOT / "dist"
EPOCH = "SOURCE_DATE_EPOCH"
"""The variable of the environment that tells builds which time to write into archives."""


def main(pythons: Sequence[str]) -> None:
    if changed := run("git", "status", "--porcelain").strip():
        sys.exit(f"A release is built from a commit. Commit these files first:\n{changed}")
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        export("HEAD", sources)
        epoch_s = int(run("git", "show", "-s", "--format=%ct", "HEAD"))
        files = build(sources, Path(scratch) / "built", epoch_s)
        files += compiled_wheels(files[0], pythons or found(), files[0].parent, epoch_s)
        check(files)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for file in files:
            shutil.copyfile(file, DIST / file.name)
            print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  dist/{file.name}")


def export(commit: str, folder: Path) -> None:
    """Write the files of a commit into a new folder."""
    archive = folder.with_suffix(".tar")
    archive.parent.mkdir(parents=True, exist_ok=True)
    run("git", "archive", "--format=tar", f"--output={archive}", commit)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


def build(sources: Path, out: Path, epoch_s: int) -> list[Path]:
    """Build sdist, pure wheel, SBOM and the conformance kit's wheel from a folder of sources; the files."""
    _hatchling(sources, "sdist", out, epoch_s)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        files.extractall(out / "unpacked", filter="data")
    unpacked = out / "unpacked" / sdist.name.removesuffix(".tar.gz")
    _hatchling(unpacked, "wheel", out, epoch_s)
    (wheel,) = out.glob("*.whl")
    _hatchling(unpacked / "toehold_conformance", "wheel", out, epoch_s)
    (kit,) = set(out.glob("*.whl")) - {wheel}
    shutil.rmtree(out / "unpacked")
    project = tomllib.loads((sources / "pyproject.toml").read_text())["project"]
    listing = out / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json"
    listing.write_text(sbom(project, (sources / "requirements" / "all.txt").read_text(), epoch_s))
    return [sdist, wheel, listing, kit]


def check(files: list[Path]) -> None:
    """Let twine check what an index would refuse or could not show."""
    archives = [file for file in files if file.suffix != ".json"]
    run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *archives)


def _hatchling(sources: Path, target: str, out: Path, epoch_s: int) -> None:
    run(
        *(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out),
        folder=sources,
        variables={EPOCH: str(epoch_s)},
    )


if __name__ == "__main__":
    main(sys.argv[1:])
