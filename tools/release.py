"""Builds a release from the last commit: sdist, wheel, a list of packages (SBOM), and the wheel of the
conformance kit, in dist/.

The same commit gives the same bytes, in whatever folder and for whomever it is built: the sources come out of
git, times are the commit's, and the wheels are built from the sdist. Nothing is published.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from tools.sbom import sbom

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
EPOCH = "SOURCE_DATE_EPOCH"
"""The variable of the environment that tells builds which time to write into archives."""


def main() -> None:
    if changed := _git("status", "--porcelain").strip():
        sys.exit(f"A release is built from a commit. Commit these files first:\n{changed}")
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        export("HEAD", sources)
        files = build(sources, Path(scratch) / "built", int(_git("show", "-s", "--format=%ct", "HEAD")))
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
    _git("archive", "--format=tar", f"--output={archive}", commit)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


def build(sources: Path, out: Path, epoch_s: int) -> list[Path]:
    """Build sdist, wheel, SBOM and the conformance kit's wheel from a folder of sources; the files."""
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
    _run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *archives)


def _hatchling(sources: Path, target: str, out: Path, epoch_s: int) -> None:
    _run(
        *(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out),
        folder=sources,
        epoch_s=epoch_s,
    )


def _git(*arguments: str) -> str:
    return _run("git", *arguments)


def _run(*command: str | Path, folder: Path = ROOT, epoch_s: int = 0) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | {EPOCH: str(epoch_s)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
