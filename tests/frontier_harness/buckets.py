"""Object stores for tests: one in memory, faults of any of them, and a fixture that is each kind in turn."""

import http
import itertools
import multiprocessing
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import pytest

from frontier_server.replicated.buckets import Bucket, BucketFailed, Found, open_bucket

V = TypeVar("V")

S3_BUCKET = "toehold"
OTHER_S3 = os.environ.get("TOEHOLD_TEST_S3", "")
"""The URL of a server that speaks S3, to test with instead of moto. It takes any credentials."""
_run = f"{os.getpid()}-{time.time_ns()}/" if OTHER_S3 else ""
_prefixes = itertools.count()


class MemoryBucket:
    """Objects in memory. Lists may lag behind by some seconds of a clock; a full one refuses to write."""

    url = "memory://bucket"

    def __init__(self, clock_s: Callable[[], float] = lambda: 0.0, lag_s: float = 0.0) -> None:
        self.lag_s = lag_s
        self.is_full = False
        self.objects: dict[str, bytes] = {}
        self.deleted = 0  # so many, so far
        self._clock_s = clock_s
        self._listed: dict[str, list[tuple[float, Found | None]]] = {}  # since when; None: deleted
        self._changes = itertools.count(1)
        self._lock = threading.Lock()

    def create(self, name: str, data: bytes) -> bool:
        with self._lock:
            self._need_room(name)
            if name in self.objects:
                return False
            self._change(name, data)
            return True

    def put(self, name: str, data: bytes) -> None:
        with self._lock:
            self._need_room(name)
            self._change(name, data)

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def found(self, prefix: str, after: str = "") -> Iterator[Found]:
        with self._lock:
            by_s = self._clock_s() - self.lag_s
            shown = [
                next((found for at_s, found in reversed(changes) if at_s <= by_s), None)
                for name, changes in self._listed.items()
                if name.startswith(prefix) and name > after
            ]
        yield from sorted(each for each in shown if each is not None)

    def delete(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._change(name, None)

    def upload(self, name: str, path: Path) -> None:
        self.put(name, path.read_bytes())

    def download(self, name: str, path: Path) -> bool:
        data = self.get(name)
        if data is not None:
            path.write_bytes(data)
        return data is not None

    def _need_room(self, name: str) -> None:
        if self.is_full:
            raise BucketFailed(f"{self.url}: no room for {name}")

    def _change(self, name: str, data: bytes | None) -> None:
        found = None
        if data is None:
            self.deleted += self.objects.pop(name, None) is not None
        else:
            self.objects[name] = data
            found = Found(name, len(data), str(next(self._changes)))
        self._listed.setdefault(name, []).append((self._clock_s(), found))


class Fault(Enum):
    """What happens to a request."""

    NONE = auto()
    REFUSED = auto()  # no effect, and an error
    LOST = auto()  # the effect, and an error
    HELD = auto()  # an error; the effect comes when the test releases it
    CONFLICT = auto()  # "it is there already" without any effect: as S3 says while another request creates it
    REPEATED = auto()  # sent twice, unseen by the caller, who gets the second answer


class FaultyBucket:
    """A bucket as one process sees it, whose requests may fail."""

    def __init__(self, bucket: Bucket, chance: Callable[[str], Fault] = lambda method: Fault.NONE) -> None:
        """`chance` chooses what happens to a request of some method if the test has not."""
        self.url = bucket.url
        self.bucket = bucket
        self.chance = chance
        self._next: defaultdict[str, deque[Fault | Callable[[], object]]] = defaultdict(deque)
        self._held: list[Callable[[], object]] = []

    def at(self, method: str, *events: Fault | Callable[[], object]) -> None:
        """What happens to the next requests of a method, one each. A function is called before the request,
        which succeeds: whoever makes it has stood still for so long."""
        self._next[method] += events

    def release(self) -> None:
        """Held requests take effect."""
        held, self._held = self._held, []
        for effect in held:
            effect()

    def create(self, name: str, data: bytes) -> bool:
        return self._asked("create", name, lambda: self.bucket.create(name, data))

    def put(self, name: str, data: bytes) -> None:
        self._asked("put", name, lambda: self.bucket.put(name, data))

    def get(self, name: str) -> bytes | None:
        return self._asked("get", name, lambda: self.bucket.get(name))

    def found(self, prefix: str, after: str = "") -> Iterator[Found]:
        yield from self._asked("found", prefix, lambda: list(self.bucket.found(prefix, after)))

    def delete(self, names: Sequence[str]) -> None:
        self._asked("delete", ", ".join(names), lambda: self.bucket.delete(names))

    def upload(self, name: str, path: Path) -> None:
        self._asked("upload", name, lambda: self.bucket.upload(name, path))

    def download(self, name: str, path: Path) -> bool:
        return self._asked("download", name, lambda: self.bucket.download(name, path))

    def _asked(self, method: str, name: str, effect: Callable[[], V]) -> V:
        planned = self._next[method]
        event = planned.popleft() if planned else self.chance(method)
        match event:
            case Fault.NONE:
                return effect()
            case Fault.REFUSED:
                pass  # there is no effect
            case Fault.LOST:
                effect()
            case Fault.HELD:
                self._held.append(effect)
            case Fault.CONFLICT:
                assert method == "create"
                return False  # type: ignore[return-value]  # V is bool then
            case Fault.REPEATED:
                effect()
                return effect()
            case _:
                event()
                return effect()
        raise BucketFailed(f"{self.url}: {method} {name}: {event.name.lower()}")


def random_faults(choices: random.Random, share: float) -> Callable[[str], Fault]:
    """So many of the requests fail, in every way that there is."""

    def chance(method: str) -> Fault:
        if choices.random() >= share:
            return Fault.NONE
        ways = [Fault.REFUSED, Fault.LOST]
        if method in ("create", "delete"):
            ways += [Fault.HELD, Fault.REPEATED]
        if method == "create":
            ways += [Fault.CONFLICT]
        return choices.choice(ways)

    return chance


# Each kind of bucket that there is.


class _S3Server:
    """A server that speaks S3. It answers one request at a time: otherwise others come between its look
    whether there is an object, and the creation."""

    def __init__(self) -> None:
        self._server = _s3_server()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.serve = self._server.serve_forever

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _s3_server() -> Any:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    application, one = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def answer(environ, start_response):  # type: ignore[no-untyped-def]  # as WSGI wants it
        with one:
            return list(application(environ, start_response))

    return make_server("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)


def _make_bucket(url: str) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(f"{url}/{S3_BUCKET}", method="PUT")).close()
    except urllib.error.HTTPError as refusal:
        if refusal.code != http.HTTPStatus.CONFLICT:  # it is there
            raise


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of a server that speaks S3, in this process."""
    if OTHER_S3:
        _make_bucket(OTHER_S3)
        yield OTHER_S3
        return
    server = _S3Server()
    thread = threading.Thread(target=server.serve)
    thread.start()
    _make_bucket(server.url)
    yield server.url
    server.close()
    thread.join()


def _serve_s3(tell: Connection) -> None:
    server = _S3Server()
    tell.send(server.url)
    server.serve()


@contextmanager
def s3_process() -> Iterator[str]:
    """The URL of a server that speaks S3, in a process of its own: it is a store for many."""
    if OTHER_S3:
        _make_bucket(OTHER_S3)
        yield OTHER_S3
        return
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve_s3, args=(there,), daemon=True)
    process.start()
    url = here.recv()
    _make_bucket(url)
    try:
        yield url
    finally:
        process.kill()
        process.join()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket and a new prefix there, as `open_bucket` takes it."""
    return s3_url(s3_server, monkeypatch)


def s3_url(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new prefix on a server. The processes of the test find the server by its environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return f"s3://{S3_BUCKET}/{_run}{next(_prefixes)}"


@pytest.fixture(params=["memory", "directory", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """An empty bucket of each kind."""
    match request.param:
        case "memory":
            return MemoryBucket()
        case "directory":
            return open_bucket(f"file://{tmp_path}/bucket")
        case _:
            url: str = request.getfixturevalue("s3")
            return open_bucket(url)
