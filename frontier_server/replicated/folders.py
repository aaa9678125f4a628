"""A folder of a bucket, which is a bucket for whoever uses it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from .buckets import Bucket, Found


class Folder:
    """The objects of a bucket whose names begin with a folder's. Raises what the bucket does."""

    def __init__(self, bucket: Bucket, folder: str) -> None:
        self.url = f"{bucket.url}/{folder}"
        self._bucket = bucket
        self._prefix = f"{folder}/"

    def create(self, name: str, data: bytes) -> bool:
        return self._bucket.create(self._prefix + name, data)

    def put(self, name: str, data: bytes) -> None:
        self._bucket.put(self._prefix + name, data)

    def get(self, name: str) -> bytes | None:
        return self._bucket.get(self._prefix + name)

    def found(self, prefix: str, after: str = "") -> Iterator[Found]:
        for each in self._bucket.found(self._prefix + prefix, after and self._prefix + after):
            yield each._replace(name=each.name.removeprefix(self._prefix))

    def delete(self, names: Sequence[str]) -> None:
        self._bucket.delete([self._prefix + name for name in names])

    def upload(self, name: str, path: Path) -> None:
        self._bucket.upload(self._prefix + name, path)

    def download(self, name: str, path: Path) -> bool:
        return self._bucket.download(self._prefix + name, path)


def below(bucket: Bucket, folder: str) -> Bucket:
    """A folder of a bucket; the bucket itself if the folder has no name."""
    return Folder(bucket, folder) if folder else bucket
