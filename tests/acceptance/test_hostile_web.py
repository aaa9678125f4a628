"""The hostile web: one crawl of all its nastinesses by real processes, and a test for each of them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pytest
from acceptance.hostile_crawl import TIMEOUT_S, HostileCrawl, crawl
from acceptance.outcomes import closed_files
from fastwarc.warc import ArchiveIterator as FastWarcIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from practice_web.hostile.document import DOCUMENT, written
from practice_web.hostile.nastiness import DOMAIN, Nastiness
from practice_web.hostile.robots_files import ROBOTS_TXT
from practice_web.hostile.serve import ADDRESS
from practice_web.hostile.table import NASTINESSES

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, and more than one loopback address"),
]

FEWEST = 60

GROWTH_MB = 100.0
"""By how much the memory of a process may grow."""

BUSY_S = 10.0
"""What a busy machine may add to the deadline of a fetch."""

AFTERWARDS_S = 60.0
"""How long it may take from then until a page is read, stored and reported, with many large ones at once."""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileCrawl]:
    yield from crawl(tmp_path_factory.mktemp("hostile"))


def _named(row: Nastiness) -> str:
    return row.name


@pytest.mark.parametrize("row", NASTINESSES, ids=_named)
def test_nastiness_ends_with_its_status_and_note_in_time_and_alone(
    crawled: HostileCrawl, row: Nastiness
) -> None:
    wanted = {crawled.web.url(row, path): status for path, status in row.ends.items()}
    ended = {url: crawled.by_url[url].status for url in wanted if url in crawled.by_url}
    assert ended == wanted, crawled.by_host[row.host]

    robots_txt = crawled.web.url(row, ROBOTS_TXT)
    others = sorted({ending.url for ending in crawled.by_host[row.host]} - wanted.keys() - {robots_txt})
    assert len(others) <= row.more, others

    first = crawled.by_url[crawled.web.url(row, row.start)]
    assert not row.notes or set(row.notes) & set(first.annotations), first

    for ending in crawled.by_host[row.host]:
        assert ending.took_s <= TIMEOUT_S + BUSY_S, ending
        if ending.started is not None:
            passed_s = (ending.logged - ending.started).total_seconds()
            assert passed_s <= TIMEOUT_S + AFTERWARDS_S, ending
    for connection in crawled.connections_of(row):
        assert connection.closed - connection.opened <= TIMEOUT_S + BUSY_S, connection


def test_the_manual_lists_them_as_they_are() -> None:
    manual = DOCUMENT.read_text(encoding="utf-8")
    assert manual == written(manual), "run tests/practice_web/hostile/document.py"


def test_there_are_as_many_as_promised() -> None:
    assert len({row.name for row in NASTINESSES}) == len(NASTINESSES) >= FEWEST


def test_the_crawl_comes_to_its_end(crawled: HostileCrawl) -> None:
    status = crawled.status["status"]
    assert (status["state"], status["exit_status"]) == ("FINISHED", "FINISHED")
    assert crawled.status["statistics"]["leased_count"] == 0
    assert crawled.exit_codes == {"node": 0, "frontier": 0}


def test_each_uri_ends_once_except_that_pages_before_which_cookie_walls_stand_end_more_often(
    crawled: HostileCrawl,
) -> None:
    wanted = {crawled.web.url(row, path): row.times for row in NASTINESSES for path in row.ends}
    ended = Counter(ending.url for ending in crawled.endings if not ending.is_robots)
    assert {url: times for url, times in ended.items() if times != wanted.get(url, 1)} == {}


@pytest.mark.parametrize("program", ["node", "frontier"])
def test_memory_stays_flat(crawled: HostileCrawl, program: str) -> None:
    assert crawled.memory[program].grown <= GROWTH_MB, crawled.memory[program]


def test_no_thread_dies_and_no_page_breaks_the_node(crawled: HostileCrawl) -> None:
    assert [
        line for line in crawled.runtime["node"].splitlines() if '"error"' in line or "critical" in line
    ] == []
    assert "Traceback" not in crawled.runtime["frontier"]
    assert [ending for ending in crawled.endings if ending.status in (-5, -3000, -7000)] == []


def test_no_connection_is_attempted_to_an_address_that_is_not_allowed(crawled: HostileCrawl) -> None:
    assert len(crawled.web.decoys) >= 1
    assert crawled.connected == {ADDRESS}
    assert [connection for connection in crawled.connections if not connection.name] == []


def test_the_web_itself_has_nothing_to_complain_about(crawled: HostileCrawl) -> None:
    assert crawled.web.complaints == ""


def test_independent_readers_accept_its_warc_files(crawled: HostileCrawl) -> None:
    files = closed_files(crawled.warcs)
    assert files
    for file in files:
        # What is within the records is as the web sent it, and more than these readers bear.
        counts = [
            _count(file, partial(FastWarcIterator, parse_http=False)),
            _count(file, partial(FastWarcIterator, parse_http=False, verify_digests=True)),
            _count(file, partial(WarcioIterator, no_record_parse=True)),
        ]
        assert counts[0] == counts[1] == counts[2] > len(NASTINESSES)


def _responses(crawled: HostileCrawl, name: str) -> dict[str, tuple[str | None, bytes]]:
    """The answers of a nastiness in the WARC files, by path: why each was cut, and its bytes."""
    found = {}
    for file in closed_files(crawled.warcs):
        with file.open("rb") as stream:
            for record in FastWarcIterator(stream, parse_http=False, record_types=WarcRecordType.response):
                uri = urlsplit(record.headers["WARC-Target-URI"])
                if uri.hostname == f"{name}.{DOMAIN}":
                    found[uri.path] = (record.headers.get("WARC-Truncated"), record.reader.read())
    return found


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("too-short", "disconnect"),
        ("too-short-redirect", "disconnect"),
        ("unended-chunks-page", "disconnect"),
        ("reset-in-body", "disconnect"),
        ("half-a-body", "time"),
        ("tls-half-a-body", "time"),
        ("kept-open", "time"),
        ("kept-open-1-0", "time"),
        ("too-short-kept-open", "time"),
        ("unended-chunks-kept-open", "time"),
    ],
)
def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(
    crawled: HostileCrawl, name: str, why: str
) -> None:
    cut, answer = _responses(crawled, name)["/"]
    assert cut == why
    assert b"<p>" in answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("two-blanks", b"HTTP/1.1  200  OK\r\nContent-Type"),
        ("blank-before-length", b"Content-Length : "),
        ("empty-name", b"\r\n: y\r\n"),
        ("utf-8-name", "\r\nÜber: schön\r\n".encode()),
        ("cr-in-header", b"\r\nX: a\rSet-Cookie: b=c\r\n"),
        ("folded-header", b"\r\nX: a\r\n b\r\n\tc\r\n"),
        ("transfer-identity", b"\r\nTransfer-Encoding: identity\r\n"),
    ],
)
def test_a_sloppy_head_is_kept_as_it_was_sent(crawled: HostileCrawl, name: str, head: bytes) -> None:
    cut, answer = _responses(crawled, name)["/"]
    assert cut is None and head in answer


@pytest.mark.parametrize(("name", "bad"), [("one-sloppy-page", "/sloppy"), ("one-lost-page", "/lost")])
def test_a_bad_page_is_asked_for_twice_while_its_host_goes_on(
    crawled: HostileCrawl, name: str, bad: str
) -> None:
    (row,) = (row for row in NASTINESSES if row.name == name)
    asked = [connection.path for connection in crawled.connections_of(row)]
    assert sorted(asked) == sorted(["/", "/last", "/next", ROBOTS_TXT, bad, bad])
    tries = [number for number, path in enumerate(asked) if path == bad]
    assert tries[1] > tries[0] + 1, "others had their turn meanwhile"


def _count(file: Path, read: Callable[[BinaryIO], Iterable[object]]) -> int:
    with file.open("rb") as stream:
        return sum(1 for _ in read(stream))
