"""An object store as Toehold uses it: names with bytes, created only if absent.

`Bucket` is what it must do, `ObstoreBucket` does it in S3 and what speaks its protocol, Google Cloud Storage,
Azure Blob Storage, or a directory. Credentials come the usual ways of each (variables, files, the roles of
machines), and are in no message: errors are told by their kind and their first sentence.
"""

import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import structlog

ATTEMPT_S = 10.0
RETRY_S = 3.0  # within a request; whoever made it repeats it after that
SCHEMES = ("s3", "gs", "az", "file")
_SECRETS = re.compile(r"(?i)((?:\bsig|signature|token|credential|secret|key)\w*[=>])[^&<\s\"]+")
_TRIES = re.compile(r" in [\d.]+\S*, after \d+ retries, max_retries: \d+, retry_timeout: \S+\s+")
_REFUSAL = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*))?")
_MOST_TOLD = 400
_PART_BYTES = 8 * 1024 * 1024
RACERS, RACES, RACES_S = 4, 24, 2.0
"""How a store is tried with requests at the same time: so many of them, so often, and for so long."""
MOST_LOST, FEWEST_LOST = 0.25, 2
"""A store is refused if it lets two create one object in that part of the races, and in so many of them.
S3Mock 4.7 and S3Proxy 2.9 over a directory, which have no create-if-absent for callers at the same time, do
so in 11 to 22 of 24; a busy moto in one of a hundred, for an instant between its look and its entry."""
_log = structlog.get_logger()


class Requests:
    """Counts requests by their kinds. A list, a file, and many objects that are deleted together count as one
    each, and what is repeated within is not seen. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()

    def add(self, kind: str) -> None:
        """Count one more."""
        with self._lock:
            self._counts[kind] += 1

    def by_kind(self) -> dict[str, int]:
        """How many of each kind there were."""
        with self._lock:
            return dict(self._counts)

    def total(self) -> int:
        """How many there were."""
        return sum(self.by_kind().values())


requests_made = Requests()
"""By this process."""


class BucketUnusable(Exception):
    """No object store can be reached in this way; the message says what would be right."""


class BucketFailed(Exception):
    """A request has no answer, or is refused: whether it took effect is not known. It may be repeated."""


class Found(NamedTuple):
    """An object in a list."""

    name: str
    size: int
    tag: str  # another one after each change
    change_s: float = 0.0  # when it was changed, by the store's clock, in seconds since 1970; 0: not known


class Bucket(Protocol):
    """Objects under one prefix. Thread-safe. All but `url` raise BucketFailed, and may block."""

    url: str
    """Where it is, for people: without credentials."""

    def create(self, name: str, data: bytes) -> bool:
        """Make an object if there is none of the name; whether it was made. It is then durable."""

    def put(self, name: str, data: bytes) -> None:
        """Make or replace an object."""

    def get(self, name: str) -> bytes | None:
        """The bytes of an object; None if there is none."""

    def found(self, prefix: str, after: str = "") -> Iterator[Found]:
        """The objects below a prefix, which ends with a slash, of which the names follow `after`, in the
        order of their names. Their names are whole."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are not there are no error."""

    def upload(self, name: str, path: Path) -> None:
        """Make or replace an object with the bytes of a file."""

    def download(self, name: str, path: Path) -> bool:
        """Write the bytes of an object to a file; whether there is such an object."""


def open_bucket(url: str) -> Bucket:
    """The bucket of a URL: s3://BUCKET/PREFIX, gs://, az:// or file:///DIRECTORY. Raises BucketUnusable."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BucketUnusable("must be a URL such as s3://bucket/prefix") from None
    is_ours = parts.scheme in SCHEMES and url.lower().startswith(f"{parts.scheme}://")
    if "@" in (parts.netloc if is_ours else url) or parts.query or parts.fragment:
        raise BucketUnusable(
            "must be a bucket and a prefix alone, such as s3://bucket/prefix; credentials go in the usual "
            "variables"
        )
    if parts.scheme not in SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise BucketUnusable(f"must begin with one of {schemes}, got {url!r}")
    if parts.scheme == "file" and (
        parts.netloc or not parts.path.startswith("/") or not parts.path.strip("/")
    ):
        raise BucketUnusable(f"must name a directory as file:///DIRECTORY, got {url!r}")
    if parts.scheme != "file" and not parts.netloc:
        raise BucketUnusable(f"must name a bucket, such as {parts.scheme}://bucket/prefix, got {url!r}")
    return ObstoreBucket(f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"))


class ObstoreBucket:
    """A bucket by obstore."""

    def __init__(self, url: str) -> None:
        """Raises BucketUnusable."""
        import obstore
        from obstore.store import LocalStore, from_url

        self.url = url
        self._obstore = obstore
        self._directory: Path | None = None
        try:
            if url.startswith("file://"):
                self._directory = Path(urlsplit(url).path or "/")
                self._store: Any = LocalStore(self._directory, mkdir=True)
            else:
                self._store = from_url(
                    url,
                    client_options={"timeout": timedelta(seconds=ATTEMPT_S), "allow_http": True},
                    retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=RETRY_S)},
                )
        except (obstore.exceptions.BaseError, OSError, ValueError) as problem:
            raise BucketUnusable(f"cannot be used: {_told(problem)}") from problem

    def create(self, name: str, data: bytes) -> bool:
        requests_made.add("put")
        try:
            if self._directory is not None:
                return _created(self._directory / name, self._directory, data)
            self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        except Exception as problem:
            raise self._failed(problem) from problem
        return True

    def put(self, name: str, data: bytes) -> None:
        requests_made.add("put")
        try:
            self._obstore.put(self._store, name, data, use_multipart=False)
        except Exception as problem:
            raise self._failed(problem) from problem
        self._sync(name)

    def get(self, name: str) -> bytes | None:
        requests_made.add("get")
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise self._failed(problem) from problem

    def found(self, prefix: str, after: str = "") -> Iterator[Found]:
        requests_made.add("list")
        try:
            listed = [
                Found(
                    each["path"],
                    each["size"],
                    each["e_tag"] or str(each["last_modified"]),
                    each["last_modified"].timestamp(),
                )
                for chunk in self._obstore.list(self._store, prefix.rstrip("/"), offset=after or None)
                for each in chunk
            ]
        except FileNotFoundError:
            return
        except Exception as problem:
            raise self._failed(problem) from problem
        yield from sorted(listed)  # a directory has no order

    def delete(self, names: Sequence[str]) -> None:
        requests_made.add("delete")
        for start in range(0, len(names), 1000):
            try:
                self._obstore.delete(self._store, list(names[start : start + 1000]))
            except FileNotFoundError:
                self._delete_each(names[start : start + 1000])
            except Exception as problem:
                raise self._failed(problem) from problem

    def _delete_each(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._obstore.delete(self._store, name)
            except FileNotFoundError:
                pass  # it is gone, which is what was wanted
            except Exception as problem:
                raise self._failed(problem) from problem

    def upload(self, name: str, path: Path) -> None:
        requests_made.add("put")
        try:
            self._obstore.put(self._store, name, path, chunk_size=_PART_BYTES, max_concurrency=4)
        except Exception as problem:
            raise self._failed(problem) from problem
        self._sync(name)

    def download(self, name: str, path: Path) -> bool:
        requests_made.add("get")
        try:
            found = self._obstore.get(self._store, name)
        except FileNotFoundError:
            return False
        except Exception as problem:
            raise self._failed(problem) from problem
        try:
            with path.open("wb") as file:
                for piece in found.stream(min_chunk_size=_PART_BYTES):
                    file.write(piece)
        except Exception as problem:
            raise self._failed(problem) from problem
        return True

    def _sync(self, name: str) -> None:
        """Make an object of a directory durable: obstore leaves that to the system."""
        if self._directory is None:
            return
        try:
            _sync(self._directory / name)
            _sync_folders(self._directory / name, self._directory)
        except FileNotFoundError:
            return  # deleted since
        except OSError as problem:
            raise self._failed(problem) from problem

    def _failed(self, problem: Exception) -> BucketFailed:
        return BucketFailed(f"{self.url}: {_told(problem)}")


def probe(bucket: Bucket) -> None:
    """Check that the store refuses to create what is there, also to several who create it at the same time,
    and shows at once what was created. Raises BucketUnusable if it does not, BucketFailed if it cannot be
    asked. Takes some seconds at most, unless the store is slow. A store that seldom lets several create one
    object is used, with a warning."""
    name = f"probe/{secrets.token_hex(8)}"
    problem = _problem_of(bucket, name)  # a store that does not answer is not asked to delete, either
    raced: list[str] = []
    most_made, lost = 0, 0
    until_s = time.monotonic() + RACES_S
    with ThreadPoolExecutor(RACERS, "probe") as racers:
        # One that has lost a race has them all, however slow it is: two are no part of so few.
        while not problem and len(raced) < RACES and (lost or not raced or time.monotonic() < until_s):
            raced.append(f"{name}-{len(raced)}")
            made, problem = _raced(bucket, raced[-1], racers)
            most_made, lost = max(most_made, made), lost + (made > 1)
    with suppress(BucketFailed):  # an object that stays there harms nobody
        bucket.delete([name, *raced])
    if lost >= max(FEWEST_LOST, MOST_LOST * len(raced)):
        problem = (
            "must let one alone create an object (If-None-Match) if several do at the same time, or two "
            f"machines would own one shard, but it let {most_made} ({lost} of {len(raced)} times)"
        )
    if problem:
        raise BucketUnusable(problem)
    if lost:
        _log.warning(
            "bucket_lets_two_create",
            bucket=bucket.url,
            lost=lost,
            races=len(raced),
            consequence="two machines might own one shard",
            advice="use a store that creates an object only once (If-None-Match) for anything but trials",
        )


def _problem_of(bucket: Bucket, name: str) -> str:
    """What is wrong with a store, tried with an object of a name; empty if nothing is."""
    first = bucket.create(name, b"first") or bucket.get(name) == b"first"  # it may have been sent twice
    second = bucket.create(name, b"second")
    if not first or second:
        return (
            "must refuse to create an object that is there (If-None-Match), or two machines would own one "
            f"shard, but it {'created one twice' if second else 'refused a new one'}"
        )
    if bucket.get(name) != b"first" or name not in [each.name for each in bucket.found("probe/")]:
        return "must show at once what was created, but an object that was created is not there"
    return ""


def _raced(bucket: Bucket, name: str, racers: ThreadPoolExecutor) -> tuple[int, str]:
    """How many of several who create an object at the same time were told that they have, and what else is
    wrong with the store. One that looks whether an object is there, and then writes it, tells two of them."""

    def create(data: bytes) -> bool:
        try:
            return bucket.create(name, data)
        except BucketFailed:
            return False  # it may be there

    datas = [b"racer %d" % number for number in range(RACERS)]
    made = [data for data, is_made in zip(datas, racers.map(create, datas), strict=True) if is_made]
    if len(made) == 1 and bucket.get(name) != made[0]:
        return 1, "must keep the object of whoever has created it, but it has another"
    return len(made), ""


def _created(path: Path, root: Path, data: bytes) -> bool:
    """Make a file if there is none of the name; whether it was made. Its bytes are on the disk before it has
    its name, or a power cut could leave a record that is damaged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unnamed = path.with_name(f"{path.name}#{secrets.randbelow(10**16)}")  # obstore never shows such a name
    try:
        unnamed.write_bytes(data)
        _sync(unnamed)
        path.hardlink_to(unnamed)
        is_new = True
    except FileExistsError:
        is_new = False  # perhaps ours, of which the folders could not be synced
    finally:
        unnamed.unlink(missing_ok=True)
    _sync_folders(path, root)
    return is_new


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folders(path: Path, root: Path) -> None:
    """Sync the names on a way, up to a root; those of folders once."""
    while path != root:
        path = path.parent
        _sync(path)
        if path in _durable_folders:
            break
        _durable_folders.add(path)


_durable_folders: set[Path] = set()
"""Whose own names are durable."""


def _told(problem: Exception) -> str:
    """An error for people: its first line, with the store's own words, and without what might be a
    credential."""
    whole = str(problem)
    text = whole.partition("\n")[0].strip() or type(problem).__name__
    if refusal := _REFUSAL.search(whole):
        text = text.partition("<")[0] + ": ".join(filter(None, refusal.groups()))
    return _SECRETS.sub(r"\1…", _TRIES.sub(" ", text))[:_MOST_TOLD]
