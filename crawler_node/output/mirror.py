"""Writes pages as plain files, DIR/HOST/PATH, for users who want to look at a site as it was."""

import fcntl
import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from itertools import count
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

from toehold_base.durable import make_directory, sync_directory

from ..fetching.decode import decoding
from ..fetching.fetch import FetchResult
from .open_file import OutputError, create_locked
from .visit import PageVisit

MAX_BODY_BYTES = 1024 * 1024 * 1024
"""Most bytes of a decoded body. The rest is cut off."""

INDEX = "index.html"
"""The file of a URL that ends with a slash."""

_NAMED_INDEX = "%69ndex.html"
"""The file of a URL that has the name itself: it may be another page."""

# Servers often say of a packed file that it is the unpacked one with a Content-Encoding (in Apache,
# `AddEncoding x-gzip .gz .tgz`), and browsers save it packed, as its name says.
_PACKED_NAME = re.compile(
    r"\.(?:gz|gzip|tgz|taz|tpz|svgz|emz|wmz|adz|vgz|z|br|zst|tzst|bz2|tbz2?|xz|txz|lzma)$",
    re.IGNORECASE,
)
_PACKED_TYPES = frozenset(
    {
        *("application/gzip", "application/x-gzip", "application/x-gzip-compressed", "application/x-tgz"),
        *("application/x-compressed", "application/x-compress", "application/x-compressed-tar"),
        *("application/zstd", "application/x-zstd", "application/x-brotli"),
    }
)
_PACKED = (b"\x1f\x8b", b"\x1f\x9d", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
"""How the content of packed files begins."""

_UNFINISHED = ".unfinished"
_LOCK = ".lock"
_ASIDE = "~"  # ends the name of a file whose place a directory has taken; no other name ends so
_MAX_NAME_BYTES = 240
_MAX_PATH_BYTES = 2048
_PIECE_BYTES = 64 * 1024
# What a file system, a server of files or a shell takes for something else: `.htaccess`, `a:b`, `x. `.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f/\\%?:*<>\"|\ud800-\udfff]|^[. ]|[. ]$|~+$")


class MirrorWriter:
    """Writes pages to files of their own; several processes may share a directory. Thread-safe.

    A page has a file if its status is 200 to 299 and its body is whole. A later visit replaces the file at
    once: a reader sees the old page or the new one. The body is decoded (Content-Encoding), unless the file's
    name or type is that of a packed file; otherwise it is unchanged: links in pages are not rewritten.

    Raises OutputError when the directory can be neither created nor written to.
    """

    archives = False

    def __init__(self, directory: Path, node: str) -> None:
        self.directory = directory
        self._unfinished = directory / _UNFINISHED
        self._owner = re.sub(r"[^A-Za-z0-9.-]+", "_", node)[:64] + f"~{os.getpid()}"
        self._serials = count()
        self._lock = threading.Lock()
        self._unsynced: set[Path] = set()
        self._closed = False
        try:
            make_directory(self._unfinished)
            self._lock_file = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as problem:
            raise OutputError(
                f"directory {str(directory)!r} cannot be written to: {problem.strerror or problem}"
            ) from problem

    def append(self, visit: PageVisit) -> bool:
        """Writes the file of a visit, whole or not at all. Returns whether there is one. Its name is not
        durable before `sync`. Raises OutputError.
        """
        fetch = visit.fetch
        if not (visit.is_page and 200 <= fetch.status < 300 and not fetch.truncation.value):
            return False
        path = file_path(fetch.uri)
        try:
            self._write(fetch, path)
        except OSError as problem:
            raise OutputError(f"cannot write {path}: {problem.strerror or problem}") from problem
        return True

    def sync(self) -> None:
        """Makes the names of all files durable. Raises OutputError, and then those since the last successful
        sync may be lost.
        """
        with self._lock:
            unsynced, self._unsynced = self._unsynced, set()
        try:
            for directory in unsynced:
                sync_directory(directory)
        except OSError as problem:
            raise OutputError(f"cannot make files durable: {problem.strerror or problem}") from problem

    def roll_if_old(self) -> None:
        """Does nothing: each file is closed when it is written."""

    def idle_crawls(self) -> list[str]:
        """None: it keeps no files open."""
        return []

    def finish_crawls(self, crawls: Collection[str]) -> None:
        """Does nothing, likewise."""

    def repair(self) -> None:
        """Removes the unfinished files of dead processes. Never raises."""
        with suppress(OSError):
            for path in self._unfinished.iterdir():
                with suppress(OSError):
                    _remove_unless_locked(path)

    def close(self) -> None:
        """Makes the names of all files durable, and refuses later pages. Raises OutputError."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            return
        try:
            self.sync()
        finally:
            os.close(self._lock_file)

    def _write(self, fetch: FetchResult, path: Path) -> None:
        unfinished = self._unfinished / f"{self._owner}-{next(self._serials)}"
        descriptor = create_locked(unfinished)
        try:
            for piece in _pieces(fetch):
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
            with self._placing():
                self._place(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    @contextmanager
    def _placing(self) -> Iterator[None]:
        """Alone among all threads and processes that write to the directory."""
        with self._lock:
            if self._closed:
                raise OutputError("the output is closed")
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _place(self, unfinished: Path, path: Path) -> None:
        """Gives a file its name. Where one page's file has the name of another's directory, the directory
        gets it, and the file's gets a `~`.
        """
        folder = self.directory
        for name in path.parts[:-1]:
            above, folder = folder, folder / name
            if not folder.is_dir():
                if folder.exists():
                    folder.rename(above / f"{name}{_ASIDE}")
                folder.mkdir()
                self._unsynced.add(above)
        file = folder / path.name
        if file.is_dir():
            file = folder / f"{path.name}{_ASIDE}"
        unfinished.replace(file)
        self._unsynced.add(folder)


def file_path(uri: str) -> Path:
    """The path of a URI's file, relative to the mirror and never outside it: `HOST/PATH`, with `?QUERY`.

    `/` and `/index.html` have a file each. Names are decoded, so that links between pages lead to them,
    except for characters that file names cannot have or that have a meaning here; these stay percent-encoded.
    A name that is too long ends with a hash.
    """
    parts = urlsplit(uri)
    host = quote(parts.netloc, safe=":[]") or "_"
    if host.startswith("."):
        host = f"%2E{host[1:]}"
    *folders, last = parts.path.removeprefix("/").split("/")
    name = _decoded(last) or INDEX
    if last and name == INDEX:
        name = _NAMED_INDEX
    if parts.query:
        name += f"?{_UNSAFE_IN_QUERY.sub(_encoded, parts.query)}"
    names = [_short(host), *(_short(_decoded(folder) or "%2F") for folder in folders), _short(name)]
    path = Path(*names)
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        return path
    return Path(names[0], f"%{sha1(uri.encode()).hexdigest()}")


def _pieces(fetch: FetchResult) -> Iterator[bytes]:
    pieces = decoding(fetch.body, fetch.content_encoding, MAX_BODY_BYTES)
    first = b"" if pieces is None else next(pieces, b"")
    if pieces is None or (_is_packed(fetch) and not first.startswith(_PACKED)):
        fetch.body.seek(0)  # as it came
        yield from iter(lambda: fetch.body.read(_PIECE_BYTES), b"")
    else:
        yield first
        yield from pieces


def _is_packed(fetch: FetchResult) -> bool:
    """Whether the name or the type of a file says that it is packed."""
    path = unquote_to_bytes(urlsplit(fetch.uri).path).decode("latin-1")
    return bool(_PACKED_NAME.search(path)) or fetch.media_type in _PACKED_TYPES


_UNSAFE_IN_QUERY = re.compile(r"[\x00-\x1f\x7f-\x9f/\\:*<>\"|]|[. ]$|~+$")


def _decoded(segment: str) -> str:
    text = unquote_to_bytes(segment).decode("utf-8", "surrogateescape")
    return _UNSAFE.sub(_encoded, text)


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _short(name: str) -> str:
    content = os.fsencode(name)
    if len(content) <= _MAX_NAME_BYTES:
        return name
    kept = content[: _MAX_NAME_BYTES - 42].decode("utf-8", "ignore")
    return f"{kept}%{sha1(content).hexdigest()}"


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
