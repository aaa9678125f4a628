"""Keeps what a release has promised: its contract, and a store with crawls in every state.

`make keep-release` writes both for the version in pyproject.toml, into a folder beside this file. Tests of
later versions open the store, and `make check` compares their contract with that of the last release.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from frontier_harness.calls import TIMEOUT_S
from frontier_harness.process import ServerProcess
from kept_releases.answers import answers
from kept_releases.history import play, play_in_cluster

from frontier_server.core.rows.records import FORMAT, PendingUri, Record
from frontier_server.core.rows.store import Family
from toehold.frontier.v1 import admin_pb2

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUCKET, BUCKET_MANIFEST = "bucket.tar.xz", "bucket.json"
CONTRACT, STORE, MANIFEST, LAYOUT = "contract.binpb", "store.tar.xz", "manifest.json", "rows.json"
MOVES = {"importing"}
"""Crawls that go on by themselves once a frontier opens the store."""
_LEFT_OUT = {"LOG", "LOCK"}
"""Files of RocksDB that say where the store lay, or nothing."""


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    folder = HERE / version
    folder.mkdir(exist_ok=True)
    keep_contract(folder / CONTRACT)
    _write(folder / LAYOUT, layout())
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        play(data)
        keep_store(data, folder)
        keep_bucket(Path(scratch), folder)
    for file in sorted(folder.iterdir()):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


def keep_contract(image: Path, protos: Path = ROOT) -> None:
    """Write the contract as buf compiles it, without comments."""
    buf = Path(sys.executable).parent / "buf"
    command: list[str | Path] = [
        buf,
        "build",
        "--exclude-source-info",
        "--path",
        "protos/toehold",
        "--output",
        image,
    ]
    subprocess.run(command, cwd=protos, check=True)


def keep_store(data: Path, folder: Path) -> None:
    """Write a data directory as an archive, and what a frontier that only reads answers about it."""
    with ServerProcess(data, "--read-only") as server:
        listed = server.stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S).crawls
        names = [each.crawl for each in listed]
        told = {name: answers(server.stubs, name) for name in names if name not in MOVES}
    _write(folder / MANIFEST, told)
    for file in sorted(data.rglob("*")):
        if file.name in _LEFT_OUT or file.name.startswith("LOG.old"):
            file.unlink()
    with tarfile.open(folder / STORE, "w:xz", dereference=True) as archive:
        archive.add(data, "data", filter=_nobodys)


def keep_bucket(scratch: Path, folder: Path) -> None:
    """Write a bucket as an archive, and what a machine answers about it that has nothing else."""
    bucket = scratch / "bucket"
    log = f"file://{bucket}"
    play_in_cluster(scratch / "machine", log)
    with ServerProcess(scratch / "another", "--log", log, "--renew-seconds", "0.1") as server:
        listed = server.stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S).crawls
        _write(folder / BUCKET_MANIFEST, {each.crawl: answers(server.stubs, each.crawl) for each in listed})
        server.stop()
    with tarfile.open(folder / BUCKET, "w:xz") as archive:
        archive.add(bucket, "bucket", filter=_nobodys)


def layout() -> dict[str, Any]:
    """The rows of this version: the format of its stores, and what is in each kind."""
    kinds: list[type[msgspec.Struct]] = [
        *sorted(Record.__subclasses__(), key=lambda kind: kind.__name__),
        PendingUri,
    ]
    return {
        "format": FORMAT,
        "families": sorted(family.value for family in Family),
        "records": {
            kind.__name__: [f"{field.name}: {field.type}" for field in msgspec.structs.fields(kind)]
            for kind in kinds
        },
    }


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def unpack_bucket(release: Path, target: Path) -> str:
    """Write a kept bucket below a folder; its URL."""
    with tarfile.open(release / BUCKET) as archive:
        archive.extractall(target, filter="data")
    return f"file://{target / 'bucket'}"


def unpack(release: Path, target: Path) -> Path:
    """Write a kept data directory below a folder; its path."""
    with tarfile.open(release / STORE) as archive:
        archive.extractall(target, filter="data")
    return target / "data"


if __name__ == "__main__":
    main()
