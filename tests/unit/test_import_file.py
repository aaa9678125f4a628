"""Files of URIs to import: what each line means, and lines that mean nothing. Never a traceback."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from toehold.frontier.v1.admin_pb2 import ImportEntry, SeenUri, WaitingUri
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold.frontier.v1.frontier_pb2 import DIRECTIVE_HIGH, Candidate
from toehold_cli.import_file import MALFORMED_SHOWN, MAX_LINE_BYTES, Format, ImportFile
from toehold_client.errors import InvalidArgument
from toehold_client.spec.plain import to_plain

SUCCEEDED, FAILED = Disposition.DISPOSITION_SUCCEEDED, Disposition.DISPOSITION_FAILED
DISREGARDED = Disposition.DISPOSITION_DISREGARDED


def wanted(uri: str, **more: Any) -> ImportEntry:
    return ImportEntry(candidate=Candidate(uri=uri, **more))


def seen(
    uri: str, status: int = 0, disposition: Disposition.ValueType = Disposition.DISPOSITION_UNSPECIFIED
) -> ImportEntry:
    return ImportEntry(seen=SeenUri(uri=uri, fetch_status=status, disposition=disposition))


class Read:
    """What a file was read as."""

    def __init__(self, path: Path, content: bytes | str, kind: Format, **which: Any) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        file = ImportFile(path, kind, **which)
        self.entries = list(file.entries())
        self.tally = file.tally


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


# Lists.


def test_a_list_has_a_uri_a_line(path: Path) -> None:
    read = Read(
        path, "http://a.example/\n\n# not this\n  b.example/x \nhttp://c.example/ # ours", Format.LIST
    )
    assert read.entries == [
        wanted("http://a.example/"),
        wanted("https://b.example/x"),
        wanted("http://c.example/"),
    ]
    assert (read.tally.scheduled, read.tally.seen, read.tally.left_out, read.tally.malformed) == (3, 0, 1, 0)


def test_an_import_file_drops_a_byte_order_mark_before_its_first_line(path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    uri = wanted("http://a.example/")
    for content in (b"http://a.example/\n", b"# ours\nhttp://a.example/"):
        assert Read(path, mark + content, Format.LIST).entries == [uri]
        assert Read(path, gzip.compress(mark + content), Format.LIST).entries == [uri]
    assert Read(
        path, mark + b"F+ http://a.example/ L http://b.example/", Format.RECOVERY_JOURNAL
    ).tally.scheduled
    assert Read(path, mark + b'{"candidate": {"uri": "http://a.example/"}}', Format.EXPORT).entries == [uri]


def test_a_line_of_a_list_that_is_not_one_uri_is_told_with_its_number(path: Path) -> None:
    read = Read(path, "http://a.example/\nhttp://b.example/ and more\n", Format.LIST)
    assert read.entries == [wanted("http://a.example/")]
    (told,) = read.tally.first_malformed
    assert told.startswith(
        "line 2: must be one URL, got 'http://b.example/ and more'; in a URL a blank is %20"
    )


def test_a_mistyped_uri_of_a_list_is_told_with_the_url_that_was_meant(path: Path) -> None:
    read = Read(path, "htp://a.example/\n", Format.LIST)
    (told,) = read.tally.first_malformed
    assert told == "line 1: 'htp://a.example/' is not a URL; did you mean http://a.example/?"


# Crawl logs.

HERITRIX_LOG = """\
2004-07-21T23:29:40.438Z     1         53 dns:a.example P http://a.example/ text/dns #000 20040721232940401+10 - - -
2004-07-21T23:29:40.438Z   200        310 http://a.example/robots.txt P http://a.example/ text/plain #012 20040721232940401+10 sha1:M77KNTBZH2IU6V2SIG5EEG45EJICNQNM - -
2004-07-21T23:29:41.438Z   200       3100 http://a.example/ - - text/html #012 20040721232940401+10 sha1:M77KNTBZH2IU6V2SIG5EEG45EJICNQNM - 3t
2004-07-21T23:29:42.438Z   404          - http://a.example/gone LL http://a.example/ text/html #001 20040721232940401+10 - - - {"x":1}
2004-07-21T23:29:43.438Z    -2          - http://down.example/ L http://a.example/ no-type #001 - - - 30t
2004-07-21T23:29:44.438Z -9998          - http://a.example/private L http://a.example/ no-type #001 - - - -
2004-07-21T23:29:45.438Z -5003          - http://a.example/quota L http://a.example/ no-type #001 - - - -
2004-07-21T23:29:46.438Z   -50          - http://a.example/deferred L http://a.example/ no-type #001 - - - -
2004-07-21T23:29:46.438Z     0          - http://a.example/untried L http://a.example/ no-type #001 - - - -
"""  # noqa: E501  # as Heritrix writes them


def test_a_heritrix_crawl_log_tells_what_was_seen_and_how_it_ended(path: Path) -> None:
    """Heritrix 2.15, with the dispositions of 2.10. What is not final, and no http(s) URI, is left out."""
    read = Read(path, HERITRIX_LOG, Format.CRAWL_LOG)
    assert read.entries == [
        seen("http://a.example/robots.txt", 200, SUCCEEDED),
        seen("http://a.example/", 200, SUCCEEDED),
        seen("http://a.example/gone", 404, SUCCEEDED),
        seen("http://down.example/", -2, FAILED),
        seen("http://a.example/private", -9998, DISREGARDED),
        seen("http://a.example/quota", -5003, FAILED),
    ]
    assert (read.tally.scheduled, read.tally.seen, read.tally.left_out, read.tally.malformed) == (0, 6, 3, 0)


OUR_LOG = """\
2026-11-21T21:50:37.120Z   503         10 http://a.example/tired L http://a.example/ text/html #000 20261121215037000+12 - - failed,30t,node:n
2026-11-21T21:50:37.121Z   200         10 http://a.example/fine - - text/html #000 20261121215037000+12 - - succeeded,node:n
2026-11-21T21:50:37.122Z -6000          0 http://a.example/deleted - - - - - - - disregarded
"""  # noqa: E501  # as the server writes them


def test_our_own_crawl_log_says_the_disposition_itself(path: Path) -> None:
    """There a 503 that was tried too often is a failure, in Heritrix a success."""
    read = Read(path, OUR_LOG, Format.CRAWL_LOG)
    assert read.entries == [
        seen("http://a.example/tired", 503, FAILED),
        seen("http://a.example/fine", 200, SUCCEEDED),
        seen("http://a.example/deleted", -6000, DISREGARDED),
    ]


@pytest.mark.parametrize(
    "line", ["x", "2004 200 5", "2004 OK 5 http://a.example/", "2004 1234567 5 http://a/"]
)
def test_a_line_that_is_of_no_crawl_log_is_told(path: Path, line: str) -> None:
    read = Read(path, f"{line}\n{OUR_LOG}", Format.CRAWL_LOG)
    assert (len(read.entries), read.tally.malformed) == (3, 1)
    assert read.tally.first_malformed == [f"line 1: must be a line of a crawl log, got {line!r}"]


LOG_TO_REPEAT = """\
2026-11-21T21:50:36.000Z   200         10 http://a.example/robots.txt P http://a.example/ text/plain #000 20261121215037000+12 - - succeeded,node:n
2026-11-21T21:50:37.120Z   503         10 http://a.example/tired L http://a.example/ text/html #000 20261121215037000+12 - http://a.example/ failed,30t,node:n
2026-11-21T21:50:37.121Z   200         10 http://a.example/ - - text/html #000 20261121215037000+12 - http://a.example/ succeeded,node:n
2026-11-21T21:50:37.121Z   200         10 http://a.example/deep 12+LE http://a.example/x text/html #000 20261121215037000+12 - - succeeded,node:n
2026-11-21T21:50:37.122Z -6000          0 http://a.example/deleted L http://a.example/ - - - - - disregarded
2026-11-21T21:50:37.122Z -9998          0 http://a.example/forbidden L http://a.example/ - - - - - disregarded
"""  # noqa: E501  # as the server writes them

NOW = Timestamp(seconds=1_900_000_000)


def test_a_crawl_log_may_be_fetched_again_as_it_was_found(path: Path) -> None:
    read = Read(path, LOG_TO_REPEAT, Format.CRAWL_LOG, refetch_before=NOW)
    via, source = "http://a.example/", "http://a.example/"
    again = {"refetch_before_time": NOW, "directive": DIRECTIVE_HIGH}
    assert read.entries == [
        wanted("http://a.example/tired", path="L", via=via, source=source, **again),
        wanted("http://a.example/", seed=True, source=source, **again),
        wanted("http://a.example/deep", path="L" * 12 + "LE", via="http://a.example/x", **again),
        wanted("http://a.example/forbidden", path="L", via=via, **again),
    ]
    assert (read.tally.scheduled, read.tally.seen, read.tally.left_out, read.tally.malformed) == (4, 0, 2, 0)


def test_only_successes_or_only_failures_of_a_crawl_log_may_be_fetched_again(path: Path) -> None:
    read = Read(path, LOG_TO_REPEAT, Format.CRAWL_LOG, refetch_before=NOW, failures=False)
    assert "http://a.example/tired" not in {entry.candidate.uri for entry in read.entries}
    read = Read(path, LOG_TO_REPEAT, Format.CRAWL_LOG, refetch_before=NOW, successes=False)
    assert [entry.candidate.uri for entry in read.entries] == [
        "http://a.example/tired",
        "http://a.example/forbidden",
    ]


def test_a_line_of_a_crawl_log_without_a_path_cannot_be_fetched_again(path: Path) -> None:
    read = Read(path, "2004 200 5 http://a.example/ -\n", Format.CRAWL_LOG, refetch_before=NOW)
    assert (read.entries, read.tally.malformed) == ([], 1)


# Recovery journals.

JOURNAL = """\
F+ http://a.example/  
F+ dns:a.example P http://a.example/
Fe dns:a.example
Fs dns:a.example
F+ http://a.example/robots.txt P http://a.example/
Fs http://a.example/robots.txt
Fe http://a.example/
F+ http://a.example/one L http://a.example/
F+ http://a.example/two 12+LLE http://a.example/one
Fs http://a.example/
Fr http://a.example/one
E Some note about an error
T 2004-07-21T23:29:40.438Z
Fi http://a.example/included
Fd http://a.example/forbidden
Ff http://a.example/failed
"""  # noqa: W291  # a seed has neither path nor via


def test_a_recovery_journal_tells_what_was_seen_and_what_was_added(path: Path) -> None:
    """Heritrix 2.17: Fs, Fi, Fd and Ff are seen, F+ is scheduled; Fe, Fr, E and T say nothing to import."""
    read = Read(path, JOURNAL, Format.RECOVERY_JOURNAL)
    assert read.entries == [
        wanted("http://a.example/", seed=True),
        seen("http://a.example/robots.txt", 0, SUCCEEDED),
        wanted("http://a.example/one", path="L", via="http://a.example/"),
        wanted("http://a.example/two", path="L" * 12 + "LLE", via="http://a.example/one"),
        seen("http://a.example/", 0, SUCCEEDED),
        seen("http://a.example/included"),
        seen("http://a.example/forbidden", 0, DISREGARDED),
        seen("http://a.example/failed", 0, FAILED),
    ]
    assert (read.tally.scheduled, read.tally.seen, read.tally.left_out, read.tally.malformed) == (3, 5, 8, 0)


def test_what_is_noted_may_be_chosen_by_how_it_ended(path: Path) -> None:
    """Heritrix 2.17: includeSuccesses, includeFailures."""
    everything = {entry.seen.uri for entry in Read(path, JOURNAL, Format.RECOVERY_JOURNAL).entries}
    without = Read(path, JOURNAL, Format.RECOVERY_JOURNAL, failures=False)
    assert everything - {entry.seen.uri for entry in without.entries} == {"http://a.example/failed"}
    without = Read(path, JOURNAL, Format.RECOVERY_JOURNAL, successes=False)
    assert everything - {entry.seen.uri for entry in without.entries} == {
        "http://a.example/",
        "http://a.example/robots.txt",
    }
    neither = Read(path, HERITRIX_LOG, Format.CRAWL_LOG, successes=False, failures=False)
    assert neither.entries == [seen("http://a.example/private", -9998, DISREGARDED)]
    assert neither.tally.left_out == 8


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Fx http://a.example/", "must be a line of a recovery journal"),
        ("F+", "must be a line of a recovery journal"),
        ("Fs ", "must be a line of a recovery journal"),
        ("http://a.example/", "must be a line of a recovery journal"),
        ("F+ http://a.example/ Q http://b.example/", "'Q' is not a discovery path"),
        ("F+ http://a.example/ 1234+L http://b.example/", "is not a discovery path"),
    ],
)
def test_a_line_that_is_of_no_journal_is_told(path: Path, line: str, told: str) -> None:
    read = Read(path, f"Fs http://a.example/\n{line}\n", Format.RECOVERY_JOURNAL)
    assert (len(read.entries), read.tally.malformed) == (1, 1)
    (message,) = read.tally.first_malformed
    assert message.startswith("line 2: ") and told in message


# Exports.


def test_an_export_is_read_as_it_was_written(path: Path) -> None:
    full = Candidate(
        uri="http://a.example/é?x=1",
        via="http://b.example/",
        path="LLE",
        directive=DIRECTIVE_HIGH,
        seed=True,
        refetch_before_time=Timestamp(seconds=5, nanos=7_000_000),
        precedence=0,
        annotations=bytes(range(256)),
        cost=0,
        not_before_time=Timestamp(seconds=9),
        source="http://c.example/",
        base="http://d.example/",
        queue_key="key",
        redirects=b"chain",
        cookies_sent=b"sent",
        cookies_now=b"now",
    )
    assert len(full.ListFields()) == len(Candidate.DESCRIPTOR.fields)
    plain = Candidate(uri="http://a.example/2")
    waiting = [
        WaitingUri(candidate=full, queue_key="example,a,", cost=1, precedence=2, attempt_count=3),
        WaitingUri(candidate=plain, due_time=Timestamp(seconds=77)),
        WaitingUri(candidate=plain),
    ]
    content = "".join(f"{json.dumps(to_plain(uri))}\n" for uri in waiting)
    read = Read(path, content, Format.EXPORT)
    later = wanted(plain.uri, not_before_time=Timestamp(seconds=77))
    assert read.entries == [ImportEntry(candidate=full), later, ImportEntry(candidate=plain)]


@pytest.mark.parametrize(
    "line",
    [
        "http://a.example/",
        "[]",
        "5",
        "{}",
        '{"candidate": 5}',
        '{"candidate": {"uri": 5}}',
        '{"candidate": {"uri": "http://a.example/", "color": "red"}}',
        '{"candidate": {"uri": "http://a.example/", "precedence": 99999999999}}',
        '{"candidate": {"uri": "http://a.example/", "directive": "SOON"}}',
        '{"candidate": {"uri": "http://a.example/", "annotations": "é"}}',
        '{"candidate": {"uri": "http://a.example/", "seed": "yes"}}',
        '{"candidate": {"uri": "http://a.example/"}, "due_time": "tomorrow"}',
        '{"candidate": {"uri": "http://a.example/"}, "due_time": 5}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_of_no_export_is_told(path: Path, line: str) -> None:
    read = Read(path, f"{line}\n", Format.EXPORT)
    assert (read.entries, read.tally.malformed) == ([], 1)
    assert read.tally.first_malformed[0].startswith("line 1: must be a line of an export (")
    assert len(read.tally.first_malformed[0]) < 500


# Files.


@pytest.mark.parametrize("kind", list(Format))
@given(content=st.binary(max_size=300))
def test_whatever_bytes_a_file_has_each_line_is_taken_or_told(
    tmp_path_factory: pytest.TempPathFactory, kind: Format, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    tally = Read(path, b"x" + content, kind).tally
    lines = sum(1 for line in io.BytesIO(b"x" + content) if line.strip())
    assert tally.scheduled + tally.seen + tally.left_out + tally.malformed == lines


def test_a_compressed_file_is_known_by_its_first_bytes(path: Path) -> None:
    plain = Read(path, JOURNAL, Format.RECOVERY_JOURNAL).entries
    assert Read(path, gzip.compress(JOURNAL.encode()), Format.RECOVERY_JOURNAL).entries == plain
    parts = gzip.compress(JOURNAL[:300].encode()) + gzip.compress(JOURNAL[300:].encode())
    assert Read(path, parts, Format.RECOVERY_JOURNAL).entries == plain


def test_a_compressed_file_that_ends_too_early_is_read_as_far_as_it_goes(path: Path) -> None:
    """What a crash leaves of a journal."""
    lines = "".join(f"F+ http://a.example/{number} L http://a.example/\n" for number in range(5_000))
    whole = gzip.compress(lines.encode())
    read = Read(path, whole[: len(whole) // 2], Format.RECOVERY_JOURNAL)
    assert read.tally.cut
    assert 0 < len(read.entries) < 5_000
    assert read.entries[0] == wanted("http://a.example/0", path="L", via="http://a.example/")
    assert not Read(path, whole, Format.RECOVERY_JOURNAL).tally.cut


def test_a_compressed_file_that_is_damaged_is_refused_with_its_place(path: Path) -> None:
    content = bytearray(gzip.compress(b"F+ http://a.example/ L http://a.example/\n" * 500))
    content[-6] ^= 0xFF  # of its checksum
    with pytest.raises(InvalidArgument, match=r"is damaged after line \d+"):
        Read(path, bytes(content), Format.RECOVERY_JOURNAL)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidArgument, match="cannot be read"):
            list(ImportFile(missing, Format.LIST).entries())


def test_only_the_first_malformed_lines_are_told_and_all_are_counted(path: Path) -> None:
    read = Read(path, "a b\n" * 500 + "http://a.example/\n", Format.LIST)
    assert (len(read.entries), read.tally.malformed) == (1, 500)
    assert [told.partition(":")[0] for told in read.tally.first_malformed] == [
        f"line {number}" for number in range(1, MALFORMED_SHOWN + 1)
    ]


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_read(path: Path) -> None:
    for length in (MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3 * MAX_LINE_BYTES):
        content = "x" * length + "\nhttp://a.example/\n"
        read = Read(path, content, Format.LIST)
        assert read.entries == [wanted("http://a.example/")]
        assert read.tally.first_malformed == [f"line 1: must have at most {MAX_LINE_BYTES} bytes"]
    fits = "http://" + "x" * (MAX_LINE_BYTES - 8) + "\n"
    assert Read(path, fits, Format.LIST).tally.scheduled == 1


def test_a_line_that_is_no_text_is_told(path: Path) -> None:
    read = Read(path, b"http://a.example/\xff\nhttp://b.example/\r\n", Format.LIST)
    assert read.entries == [wanted("http://b.example/")]
    assert read.tally.first_malformed == ["line 1: must be UTF-8 text, is not at byte 17"]
