"""Files of URIs to import: lists, exports, crawl logs and Heritrix's recovery journals; plain or gzip.

A file is read as its URIs are sent, so it may have any size. Malformed lines are counted and skipped.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import ImportEntry, SeenUri, WaitingUri
from toehold.frontier.v1.crawl_pb2 import Disposition, FetchStatus
from toehold.frontier.v1.frontier_pb2 import DIRECTIVE_HIGH, Candidate
from toehold_client.errors import InvalidArgument
from toehold_client.spec.listed import normalise_seed, without_comment
from toehold_client.spec.plain import from_plain

MAX_LINE_BYTES = 1024 * 1024
MALFORMED_SHOWN = 10
_SHOWN_CHARACTERS = 120
_GZIP_MAGIC = b"\x1f\x8b"


class Format(StrEnum):
    """The format of a file of URIs."""

    LIST = "list"
    EXPORT = "export"
    CRAWL_LOG = "crawl-log"
    RECOVERY_JOURNAL = "recovery-journal"


@dataclass(slots=True)
class Tally:
    """The contents of a file, as far as it has been read."""

    scheduled: int = 0  # candidates
    seen: int = 0
    left_out: int = 0  # lines that are nothing to import
    malformed: int = 0
    first_malformed: list[str] = field(default_factory=list)
    cut: bool = False  # the gzip stream ends too early


class _Malformed(ValueError):
    """A line has an error."""


class ImportFile:
    """A file of URIs; `-` is standard input. `successes` and `failures` select which URIs to note as seen.

    With `refetch_before` the file is a crawl log, whose URIs are scheduled again instead, unless they have
    been fetched since that time.
    """

    def __init__(
        self,
        path: Path,
        kind: Format,
        *,
        successes: bool = True,
        failures: bool = True,
        refetch_before: Timestamp | None = None,
    ) -> None:
        assert refetch_before is None or kind is Format.CRAWL_LOG
        self.tally = Tally()
        self._path = path
        self._parse = _PARSERS[kind]
        self._wanted = {SUCCEEDED: successes, FAILED: failures}
        self._refetch_before = refetch_before

    def entries(self) -> Iterator[ImportEntry]:
        """The URIs, as they are read. InvalidArgument if the file cannot be."""
        tally = self.tally
        for number, line in self._lines():
            try:
                entry = self._entry(_text(number, line))
            except _Malformed as problem:
                tally.malformed += 1
                if tally.malformed <= MALFORMED_SHOWN:
                    tally.first_malformed.append(f"line {number}: {problem}")
                continue
            if entry is None:
                tally.left_out += 1
            else:
                tally.scheduled += entry.HasField("candidate")
                tally.seen += entry.HasField("seen")
                yield entry

    def _entry(self, line: str) -> ImportEntry | None:
        entry = self._parse(line)
        if entry is None or not self._wanted.get(entry.seen.disposition, True):
            return None
        if self._refetch_before is None:
            return entry
        return _again(entry.seen, line, self._refetch_before)

    def _lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Numbered lines that are not blank; None for one that is too long."""
        number = 0
        try:
            with _opened(self._path) as file:
                while line := file.readline(MAX_LINE_BYTES):
                    number += 1
                    too_long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
                    while too_long and line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_BYTES)
                    if too_long:
                        yield number, None
                    elif line.strip():
                        yield number, line
        except EOFError:
            self.tally.cut = True  # as a crash leaves a journal
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InvalidArgument(f"{self._path} is damaged after line {number}: {error}") from None
        except OSError as error:
            raise InvalidArgument(f"{self._path} cannot be read: {error.strerror}") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with open(0, "rb", closefd=False) if str(path) == "-" else path.open("rb") as raw:
        compressed = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if compressed else raw


def _text(number: int, line: bytes | None) -> str:
    if line is None:
        raise _Malformed(f"must have at most {MAX_LINE_BYTES} bytes")
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
    except UnicodeDecodeError as error:
        raise _Malformed(f"must be UTF-8 text, is not at byte {error.start}") from None


# Formats: a line → an entry, or None for a line that is nothing to import.

SUCCEEDED, FAILED = Disposition.DISPOSITION_SUCCEEDED, Disposition.DISPOSITION_FAILED
_DISREGARDED = Disposition.DISPOSITION_DISREGARDED
_DISREGARDED_STATUSES = frozenset((-4001, -4002, -5000, -5001, -5002, -6000, -9998))
_NOT_FINAL = frozenset((0, -50))
_DISPOSITIONS = {"succeeded": SUCCEEDED, "failed": FAILED, "disregarded": _DISREGARDED}
_STATUS = re.compile(r"-?[0-9]{1,5}")
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_PATH = re.compile(r"(?:([0-9]{1,3})\+)?([LEXRIMPS]*)")


def _of_list(line: str) -> ImportEntry | None:
    """A URI to schedule."""
    text = without_comment(line)
    if not text:
        return None
    try:
        return _candidate(Candidate(uri=normalise_seed(text)))
    except InvalidArgument as problem:
        raise _Malformed(str(problem)) from None


def _of_export(line: str) -> ImportEntry | None:
    """A line of `toehold uris export`: a WaitingUri as JSON."""
    waiting = WaitingUri()
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("no object")
        from_plain(record, waiting)
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"must be a line of an export ({error}), got {_shown(line)}") from None
    candidate = waiting.candidate
    if not candidate.uri:
        raise _Malformed(f"must be a line of an export (candidate.uri is missing), got {_shown(line)}")
    if waiting.HasField("due_time"):
        candidate.not_before_time.CopyFrom(waiting.due_time)
    return _candidate(candidate)


def _of_crawl_log(line: str) -> ImportEntry | None:
    """A line of crawl.log: time, status, size, URI and more, as Heritrix writes it.

    In ours the annotations begin with the disposition; in Heritrix's the status tells it.
    """
    columns = line.split()
    if len(columns) < 4 or not _STATUS.fullmatch(columns[1]):
        raise _Malformed(f"must be a line of a crawl log, got {_shown(line)}")
    status, uri = int(columns[1]), columns[3]
    if status in _NOT_FINAL or not _HTTP.match(uri):
        return None
    told = columns[11].partition(",")[0] if len(columns) > 11 else ""
    disposition = _DISPOSITIONS.get(told) or _meant_by(status)
    return _seen(SeenUri(uri=uri, fetch_status=status, disposition=disposition))


def _again(seen: SeenUri, line: str, refetch_before: Timestamp) -> ImportEntry | None:
    """The URI of a crawl log's line, to be fetched again, with the path, via and source that the log has.

    None for a robots.txt, which the frontier asks for by itself, and for a URI that was deleted.
    """
    columns = line.split()
    if len(columns) < 6:
        raise _Malformed(f"must have a path and a via, got {_shown(line)}")
    path, via = (text if text != "-" else "" for text in columns[4:6])
    hops = _hops(path, line)
    if path.endswith("P") or (
        seen.disposition == _DISREGARDED and seen.fetch_status != FetchStatus.FETCH_STATUS_ROBOTS_PRECLUDED
    ):
        return None
    candidate = Candidate(uri=seen.uri, path=hops, via=via, seed=not hops and not via)
    candidate.refetch_before_time.CopyFrom(refetch_before)
    candidate.directive = DIRECTIVE_HIGH  # before pages that are new, and before those that were left over
    if len(columns) > 11 and columns[10] != "-":  # Heritrix has no such column unless it is told to
        candidate.source = columns[10]
    return _candidate(candidate)


def _meant_by(status: int) -> Disposition.ValueType:
    """Any answer is a success, as in Heritrix."""
    if status > 0:
        return SUCCEEDED
    return _DISREGARDED if status in _DISREGARDED_STATUSES else FAILED


def _of_recovery_journal(line: str) -> ImportEntry | None:
    """A line of a recovery journal: a tag, a URI, and for additions path and via, as Heritrix writes it."""
    tag, *columns = line.split(" ")
    if tag in _IGNORED_TAGS:
        return None
    if tag not in ("F+", *_SEEN_TAGS) or not columns or not columns[0]:
        raise _Malformed(f"must be a line of a recovery journal, got {_shown(line)}")
    uri = columns[0]
    if not _HTTP.match(uri):
        return None
    if tag in _SEEN_TAGS:
        return _seen(SeenUri(uri=uri, disposition=_SEEN_TAGS[tag]))
    path = columns[1] if len(columns) > 1 else ""
    via = columns[2] if len(columns) > 2 else ""
    hops = _hops(path, line)
    if path.endswith("P"):
        return None  # a robots.txt: the frontier asks for it by itself
    return _candidate(Candidate(uri=uri, path=hops, via=via, seed=not hops and not via))


def _hops(path: str, line: str) -> str:
    """A discovery path; each hop that a long one leaves out is taken for a link."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise _Malformed(f"{path!r:.40} is not a discovery path, in {_shown(line)}")
    return "L" * int(match[1] or 0) + match[2]


_SEEN_TAGS: Mapping[str, Disposition.ValueType] = {
    "Fs": SUCCEEDED,
    "Ff": FAILED,
    "Fd": _DISREGARDED,
    "Fi": Disposition.DISPOSITION_UNSPECIFIED,
}
_IGNORED_TAGS = frozenset(("Fe", "Fr", "E", "T"))
_PARSERS: Mapping[Format, Callable[[str], ImportEntry | None]] = {
    Format.LIST: _of_list,
    Format.EXPORT: _of_export,
    Format.CRAWL_LOG: _of_crawl_log,
    Format.RECOVERY_JOURNAL: _of_recovery_journal,
}


def _candidate(candidate: Candidate) -> ImportEntry:
    return ImportEntry(candidate=candidate)


def _seen(seen: SeenUri) -> ImportEntry:
    return ImportEntry(seen=seen)


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…")
