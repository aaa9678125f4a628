"""Replicas: copies of a store's files in a bucket, below `files/NAME/`.

A file has the epoch of its uploader in its name. So an owner that was fenced long ago, and wakes up in the
middle of a copy, never overwrites what its successor uploads, and deletes nothing that it needs: the
successor's replicas have files of the last manifest, which the former owner has never seen replaced, and
files of its own.
"""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from .buckets import Bucket
from .log import LogDamaged

WORKERS = 8  # files at a time
_UNCHANGING = ".sst"


class File(msgspec.Struct, array_like=True, frozen=True):
    """A file of a replica."""

    name: str
    place: str  # its name in the bucket
    size: int
    digest: str


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """What a replica has."""

    version: str
    create_ms: int
    replay_from: int
    """The first record of which the replica may lack something."""
    epoch: int
    list: int
    """It has at least the change lists up to this one, of that epoch and its predecessors."""
    is_ahead: bool
    """It has lists that no record has: of an owner that died before it could append them."""
    files: Sequence[File]

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.size for file in self.files)


_decoder = msgspec.msgpack.Decoder(Manifest)


def packed(manifest: Manifest) -> bytes:
    """A manifest as bytes."""
    return msgspec.msgpack.encode(manifest)


def unpacked(data: bytes) -> Manifest:
    """A manifest from bytes. Raises LogDamaged."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as problem:
        raise LogDamaged(f"a manifest cannot be read: {problem}") from None


class Replicas:
    """The replicas of one store. Its methods may block; call them one at a time. Raise BucketFailed."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        self._bucket = bucket
        self._folder = f"files/{name}/"
        self._known: dict[str, File] = {}  # files that never change, and are in the bucket
        self._is_sure = True
        self._count = 0

    def know(self, files: Iterable[File], is_sure: bool = True) -> None:
        """Files of the last manifest are not uploaded again if the store has them. Unless that is sure, their
        content is compared first: stores of two machines give the same names to different files."""
        self._known = {file.name: file for file in files if file.name.endswith(_UNCHANGING)}
        self._is_sure = is_sure

    def upload(self, copy: Path, epoch: int) -> Sequence[File]:
        """Upload what is new in a copy of the store; all files that it has."""
        self._count += 1
        paths = sorted(path for path in copy.iterdir() if path.is_file())
        with ThreadPoolExecutor(WORKERS, "uploader") as workers:
            files = list(workers.map(lambda path: self._uploaded(path, epoch, self._count), paths))
        self.know(files)
        return files

    def _uploaded(self, path: Path, epoch: int, count: int) -> File:
        size = path.stat().st_size
        known = self._known.get(path.name)
        if known is not None and known.size == size and (self._is_sure or digest_of(path) == known.digest):
            return known
        place = f"{self._folder}{epoch:016}-{count:06}-{path.name}"
        file = File(path.name, place, size, digest_of(path))
        self._bucket.upload(place, path)
        return file

    def download(self, files: Sequence[File], target: Path) -> None:
        """Put files into a new directory, durably enough for a cache, and know them. Raises LogDamaged if one
        is not what was uploaded."""
        target.mkdir(mode=0o700)
        with ThreadPoolExecutor(WORKERS, "downloader") as workers:
            list(workers.map(lambda file: self._downloaded(file, target), files))
        self.know(files)

    def _downloaded(self, file: File, target: Path) -> None:
        if "/" in file.name or file.name.startswith("."):
            raise LogDamaged(f"a replica must have plain names of files, got {file.name!r}")
        path = target / file.name
        if not self._bucket.download(file.place, path):
            raise LogDamaged(f"{self._bucket.url}: {file.place} is missing")
        size = path.stat().st_size
        if size != file.size or digest_of(path) != file.digest:
            raise LogDamaged(
                f"{self._bucket.url}: {file.place} must have {file.size} bytes and digest {file.digest}, "
                f"got {size} bytes of another content or length"
            )

    def clear(self, kept: Iterable[Manifest], epoch: int) -> int:
        """Delete files of this epoch and earlier ones that none of these manifests has; how many."""
        needed = {file.place for manifest in kept for file in manifest.files}
        gone = [
            found.name
            for found in self._bucket.found(self._folder)
            if found.name not in needed and self._epoch_of(found.name) <= epoch
        ]
        self._bucket.delete(gone)
        return len(gone)

    def _epoch_of(self, place: str) -> int:
        return int(place.removeprefix(self._folder).partition("-")[0])


def digest_of(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
