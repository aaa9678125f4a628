"""WARC files of several crawls: whose records are in them, and how many are open."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from node_doubles.leases import lease
from node_doubles.warcs import (
    BODY,
    CAPTURE_MS,
    START_MS,
    Record,
    bodies,
    check,
    digest_of,
    fetch,
    files,
    mend,
    read,
    visit,
)

from crawler_node.fetching.fetch import Provenance
from crawler_node.output import rotation
from crawler_node.output.open_file import OutputError
from crawler_node.output.pages import PagesWriter
from crawler_node.output.rotation import IDLE_MS, MAX_DESCRIPTORS, Rotation, crawl_name
from crawler_node.output.visit import PageVisit
from crawler_node.output.warc import Metadata, WarcWriter

LIBRARY = Provenance(
    launch_ms=START_MS - 60_000,
    operator="Library of Nowhere",
    contact="crawls@library.example",
    description=" Everything\r\nabout:\u2028caf\u00e9s\x85\0",
    user_agent="toehold/1.2 (+crawls@library.example)",
    robots_policy="obey",
)


class Clock:
    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def info_of(path: Path) -> dict[str, str]:
    """The fields of a file's warcinfo record."""
    lines = read(path)[0].block.decode().split("\r\n")
    return dict(line.split(": ", 1) for line in lines if line)


def crawl_of(path: Path) -> str:
    return info_of(path)["isPartOf"]


def open_files(directory: Path) -> list[Path]:
    return [path for path in files(directory) if path.suffix == ".open"]


def uris(path: Path) -> list[str]:
    return [record.uri for record in read(path) if record.kind == "response"]


def check_ids(records: list[Record]) -> None:
    """Every record but the first names the first."""
    info, *rest = records
    assert info.kind == "warcinfo" and "WARC-Warcinfo-ID" not in info.headers
    assert rest
    assert {record.headers["WARC-Warcinfo-ID"] for record in rest} == {info.headers["WARC-Record-ID"]}


def test_each_crawl_has_its_own_files_and_their_names_and_warcinfo_tell_which(
    tmp_path: Path, clock: Clock
) -> None:
    writer = WarcWriter(tmp_path, "n", software="Toehold/9", process_id=7, clock_ms=clock)
    writer.append(visit("http://a.example/1", crawl="docs", provenance=LIBRARY))
    writer.append(visit("http://a.example/2", crawl="news-2", provenance=replace(LIBRARY, operator="")))
    writer.append(visit("http://a.example/3", crawl="docs", provenance=LIBRARY))
    writer.append(visit("http://a.example/4", crawl="bare"))
    writer.close()
    bare, docs, news = files(tmp_path)
    assert docs.name == "toehold-docs-20231114221320123-00000-n~7.warc.gz"
    assert news.name == "toehold-news-2-20231114221320123-00001-n~7.warc.gz"
    assert uris(docs) == ["http://a.example/1", "http://a.example/3"]
    assert uris(news) == ["http://a.example/2"]
    info = info_of(docs)
    assert info.pop("hostname")
    assert info == {
        "software": "Toehold/9",
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "node": "n",
        "isPartOf": "docs",
        "launched": "2023-11-14T22:12:20.123Z",
        "operator": "Library of Nowhere",
        "contact": "crawls@library.example",
        "description": "Everything about: caf\u00e9s",
        "robots": "obey",
        "http-header-user-agent": "toehold/1.2 (+crawls@library.example)",
    }
    assert info_of(news)["operator"] == "crawls@library.example"
    assert info_of(bare).keys() == {"software", "format", "conformsTo", "hostname", "node", "isPartOf"}
    check(bare, docs, news)


def test_each_record_of_whatever_kind_names_the_warcinfo_of_its_file(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", metadata=Metadata.OUTLINKS)
    hop = fetch("http://a.example/0", b"moved", status=301)
    for crawl in ("one", "two"):
        writer.append(visit(crawl=crawl, hops=(hop,)))
        writer.append(visit(crawl=crawl, last_digest=digest_of(BODY), capture_ms=CAPTURE_MS))
        unchanged = visit(
            crawl=crawl,
            body=b"",
            status=304,
            conditional=True,
            last_digest=digest_of(BODY),
            capture_ms=CAPTURE_MS,
        )
        writer.append(unchanged)
    writer.close()
    for path in files(tmp_path):
        records = read(path)
        check_ids(records)
        assert Counter(record.kind for record in records) == {
            "warcinfo": 1,
            "request": 4,
            "response": 2,
            "revisit": 2,
            "metadata": 3,
        }
        check(path)


@pytest.mark.parametrize("max_bytes", [1, 20_000])
def test_records_name_the_warcinfo_of_the_file_that_they_went_to(tmp_path: Path, max_bytes: int) -> None:
    """Also those that were made for a file which other threads filled meanwhile."""
    writer = WarcWriter(tmp_path, "node", rotation=Rotation(max_bytes=max_bytes))

    def work(thread: int) -> None:
        for n in range(15):
            uri = f"http://a.example/{thread}/{n}"
            writer.append(visit(uri, os.urandom(3000), crawl=f"crawl{n % 2}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    stored: list[str] = []
    for path in files(tmp_path):
        check_ids(read(path))
        assert {f"crawl{int(uri[-1]) % 2}" for uri in uris(path)} == {crawl_of(path)}
        stored += uris(path)
    assert sorted(stored) == sorted(f"http://a.example/{t}/{n}" for t in range(6) for n in range(15))
    assert len(files(tmp_path)) == (90 if max_bytes == 1 else len(files(tmp_path)))


ODD_NAMES = [
    *("", ".", "..", ".a", "a/b", "a_b", "../../etc/passwd", "a\0b", "a\nb", "A", "a", "a~b", "a:b", "a*b"),
    *("caf\u00e9", "cafe\u0301", "\U0001f577", "\ud800", "-", "a ", " a", "a" * 64, "a" * 65, "a" * 200),
    *("\u00e9" * 100, "\u00e9" * 99 + "e", "a.open", "a.warc.gz", "con", "a" * 199 + "/"),
]


@pytest.mark.parametrize("crawl", ODD_NAMES)
def test_a_crawl_of_any_name_has_files_of_harmless_and_bounded_names(tmp_path: Path, crawl: str) -> None:
    named = crawl.encode("utf-8", "replace").decode()
    node = "n" * 128
    prefix = Rotation(prefix="p" * 64)
    writer = WarcWriter(tmp_path, node, rotation=prefix, process_id=4_194_304, clock_ms=lambda: START_MS)
    writer.append(visit(crawl=named))
    (path,) = files(tmp_path)
    assert re.fullmatch(
        r"p{64}-[a-z0-9._~-]{1,64}-20231114221320123-00000-n{64}~4194304\.warc\.gz\.open", path.name
    )
    assert len(path.name) + len(".torn.part") <= 255
    writer.close()
    check(*files(tmp_path))


def test_no_two_crawls_share_the_name_of_their_files() -> None:
    names = {crawl_name(crawl) for crawl in ODD_NAMES}
    assert len(names) == len(ODD_NAMES)
    plain = [crawl for crawl in ODD_NAMES if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", crawl)]
    assert [crawl_name(crawl) for crawl in plain] == plain


@pytest.mark.parametrize(
    "later",
    [
        replace(LIBRARY, launch_ms=START_MS),
        replace(LIBRARY, description="other"),
        replace(LIBRARY, contact="b@b.example"),
        replace(LIBRARY, robots_policy="ignore"),
    ],
    ids=["launched anew", "description", "contact", "robots"],
)
def test_a_crawl_that_is_launched_anew_or_changed_gets_files_that_say_so(
    tmp_path: Path, clock: Clock, later: Provenance
) -> None:
    """Pages that were under way still go to the file that is true of them, until all are done."""
    writer = WarcWriter(tmp_path, "n", clock_ms=clock)
    for n, provenance in enumerate([LIBRARY, later, LIBRARY, later]):
        clock.ms += 1
        writer.append(visit(f"http://a.example/{n}", crawl="docs", provenance=provenance))
    assert len(open_files(tmp_path)) == 2
    clock.ms += IDLE_MS
    writer.append(visit("http://a.example/4", crawl="docs", provenance=later))
    writer.roll_if_old()
    old, new = files(tmp_path)
    assert (old.suffix, new.suffix) == (".gz", ".open")
    writer.close()
    old, new = files(tmp_path)
    assert uris(old) == ["http://a.example/0", "http://a.example/2"]
    assert uris(new) == ["http://a.example/1", "http://a.example/3", "http://a.example/4"]
    assert info_of(old) != info_of(new)


def test_the_files_of_a_crawl_that_has_ended_are_closed(tmp_path: Path, clock: Clock) -> None:
    writer = WarcWriter(tmp_path, "n", clock_ms=clock)
    for crawl in ("ended", "goes-on", "busy"):
        writer.append(visit(crawl=crawl))
    assert writer.idle_crawls() == []
    clock.ms += IDLE_MS
    writer.append(visit(crawl="busy"))
    assert writer.idle_crawls() == ["ended", "goes-on"]
    writer.finish_crawls({"ended", "busy", "unknown"})  # a page of `busy` has come since
    assert sorted(map(crawl_of, open_files(tmp_path))) == ["busy", "goes-on"]
    assert writer.idle_crawls() == ["goes-on"]
    (finished,) = set(files(tmp_path)) - set(open_files(tmp_path))
    check(finished)
    writer.append(visit("http://a.example/again", crawl="ended"))
    writer.close()
    assert Counter(map(crawl_of, files(tmp_path))) == {"ended": 2, "goes-on": 1, "busy": 1}


def test_a_pause_begins_no_new_file(tmp_path: Path, clock: Clock) -> None:
    writer = WarcWriter(tmp_path, "n", clock_ms=clock)
    writer.append(visit("http://a.example/1"))
    for _ in range(12):
        clock.ms += 3_600_000
        writer.roll_if_old()
        writer.finish_crawls(())
    writer.append(visit("http://a.example/2"))
    writer.close()
    (path,) = files(tmp_path)
    assert uris(path) == ["http://a.example/1", "http://a.example/2"]


def descriptors_in(directory: Path) -> int:
    """How many files of a directory this process has open."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            target = entry.readlink()
            count += target.parent == directory and target.name.endswith(".warc.gz.open")
    return count


def test_thousands_of_crawls_take_few_descriptors_and_a_file_each(tmp_path: Path, clock: Clock) -> None:
    crawls = [f"crawl{n}" for n in range(1_000)]
    writer = WarcWriter(tmp_path, "n", clock_ms=clock)
    most = 0
    for turn in range(3):
        for place, crawl in enumerate(crawls):
            writer.append(visit(f"http://{crawl}.example/{turn}", crawl=crawl))
            if place % 25 == 0:
                writer.sync()
                most = max(most, descriptors_in(tmp_path))
    assert most == MAX_DESCRIPTORS
    clock.ms += IDLE_MS
    assert writer.idle_crawls() == crawls
    writer.close()
    assert descriptors_in(tmp_path) == 0
    found = sorted(path for path in tmp_path.iterdir())
    assert len(found) == len(crawls), "no file more, and no claim is left"
    assert {path.suffix for path in found} == {".gz"}
    for path in found[::50]:
        check_ids(read(path))
        assert uris(path) == [f"http://{crawl_of(path)}.example/{turn}" for turn in range(3)]
    check(*found[::50])


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "MAX_DESCRIPTORS", 2)


def append_all(writer: WarcWriter, page: str) -> None:
    for crawl in ("a", "b", "c", "d"):
        writer.append(visit(f"http://{crawl}.example/{page}", crawl=crawl))


@pytest.mark.usefixtures("crowded")
def test_a_starting_process_leaves_the_resting_files_of_a_living_one_alone(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    mend(tmp_path)
    assert len(open_files(tmp_path)) == 4
    append_all(writer, "2")
    writer.close()
    assert {crawl_of(path): len(uris(path)) for path in files(tmp_path)} == dict.fromkeys("abcd", 2)


@pytest.mark.usefixtures("crowded")
def test_a_resting_file_that_was_repaired_all_the_same_is_followed_by_another(tmp_path: Path) -> None:
    """As by an older node in the same directory, or if the claim was lost."""
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    for path in tmp_path.glob(".*.lock"):
        path.unlink()
    mend(tmp_path)
    assert len(open_files(tmp_path)) == 2
    append_all(writer, "2")
    writer.sync()
    writer.close()
    found = bodies(tmp_path)
    assert len(found) == 8 and len(files(tmp_path)) == 6


@pytest.mark.usefixtures("crowded")
def test_a_resting_file_that_a_repair_is_at_is_left_to_it(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    path = min(open_files(tmp_path))
    with path.open("rb") as repairing:
        fcntl.flock(repairing, fcntl.LOCK_EX)
        writer.append(visit("http://a.example/2", crawl="a"))
        writer.close()
    assert open_files(tmp_path) == [path]
    mend(tmp_path)
    assert sorted(uri for uri in bodies(tmp_path) if "//a." in uri) == [
        "http://a.example/1",
        "http://a.example/2",
    ]


_TO_BE_KILLED = """
import os, sys, time
from pathlib import Path
from node_doubles.warcs import visit
from crawler_node.output import rotation
from crawler_node.output.pages import PagesWriter
from crawler_node.output.warc import WarcWriter
rotation.MAX_DESCRIPTORS = 3
writers = [WarcWriter(Path(sys.argv[1]), "n"), PagesWriter(Path(sys.argv[1]), "n")]
for page in range(2):
    for crawl in range(20):
        for writer in writers:
            writer.append(visit(f"http://a.example/{crawl}/{page}", crawl=f"c{crawl}"))
for writer in writers:
    writer.sync()
print("ready", flush=True)
time.sleep(600)
"""


def test_all_files_of_a_killed_process_are_repaired_those_that_rested_too(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _TO_BE_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        mend(tmp_path)
        assert len(list(tmp_path.glob("*.warc.gz.open"))) == 20
        process.send_signal(signal.SIGKILL)
    writer = WarcWriter(tmp_path, "n")
    writer.repair()
    PagesWriter(tmp_path, "n").repair()
    writer.close()
    assert sorted(bodies(tmp_path)) == sorted(
        f"http://a.example/{n}/{page}" for n in range(20) for page in (0, 1)
    )
    assert len(files(tmp_path)) == 40, "no claim is left"
    assert {path.suffix for path in files(tmp_path)} == {".gz", ".jsonl"}
    lines = [line for path in tmp_path.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == 40


def test_the_lines_of_each_crawl_go_to_its_own_files(tmp_path: Path) -> None:
    writer = PagesWriter(tmp_path, "n", process_id=7, clock_ms=lambda: START_MS)
    for n in range(4):
        writer.append(visit(f"http://a.example/{n}", crawl=f"c{n % 2}"))
    writer.close()
    for n, path in enumerate(files(tmp_path)):
        assert path.name == f"toehold-c{n}-20231114221320123-0000{n}-n~7.jsonl"
        assert path.read_text().count(f'"crawl":"c{n}"') == 2 == len(path.read_text().splitlines())


def failing(monkeypatch: pytest.MonkeyPatch, call: str, when: Callable[[str], bool], code: int) -> list[str]:
    """Lets a system call on files of certain names fail. Returns the files that it was tried on."""
    real, tried = getattr(os, call), list[str]()

    def attempt(descriptor: int, *more: object) -> object:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        tried.append(name)
        if when(name):
            raise OSError(code, os.strerror(code))
        return real(descriptor, *more)

    monkeypatch.setattr(os, call, attempt)
    return tried


def test_one_sync_reaches_each_file_with_new_pages_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    tried = failing(monkeypatch, "fsync", lambda name: False, errno.EIO)
    writer.sync()
    assert len(tried) == 4
    writer.sync()
    for n in range(10):
        writer.append(visit(f"http://b.example/more/{n}", crawl="b"))
    writer.sync()
    assert [name.split("-")[1] for name in tried[4:]] == ["b"]
    writer.close()


def test_a_sync_for_which_descriptors_are_lacking_fails_and_the_next_one_reaches_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # as many entries as descriptors
    with monkeypatch.context() as full:
        calls = iter(range(10))
        real = os.dup

        def dup(descriptor: int) -> int:
            if next(calls) == 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return real(descriptor)

        full.setattr(os, "dup", dup)
        with pytest.raises(OutputError, match=r"cannot sync .*: Too many open files"):
            writer.sync()
    assert len(os.listdir("/proc/self/fd")) == opened  # noqa: PTH208
    tried = failing(monkeypatch, "fsync", lambda name: False, errno.EIO)
    writer.sync()
    assert len(tried) == 4
    writer.close()


def test_a_file_that_cannot_be_made_durable_takes_none_of_another_crawl_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WarcWriter(tmp_path, "n")
    append_all(writer, "1")
    with monkeypatch.context() as broken:
        failing(broken, "fsync", lambda name: name.startswith("toehold-b-"), errno.EIO)
        with pytest.raises(OutputError, match=r"toehold-b-.*durable"):
            writer.sync()
    append_all(writer, "2")
    writer.sync()
    writer.close()
    assert [crawl_of(path) for path in open_files(tmp_path)] == ["b"], "given up"
    mend(tmp_path)
    assert len(bodies(tmp_path)) == 8


@pytest.mark.usefixtures("crowded")
def test_a_resting_file_is_durable_or_the_next_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WarcWriter(tmp_path, "n")
    with monkeypatch.context() as broken:
        failing(broken, "fsync", lambda name: name.startswith("toehold-a-"), errno.EIO)
        append_all(writer, "1")
        with pytest.raises(OutputError, match=r"toehold-a-.*durable"):
            writer.sync()
    writer.sync()
    writer.close()
    assert [crawl_of(path) for path in open_files(tmp_path)] == ["a"]


def test_a_disk_that_is_full_for_the_file_of_one_crawl_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WarcWriter(tmp_path, "n", rotation=Rotation(max_bytes=1_500))
    writer.append(visit("http://a.example/1", os.urandom(1000), crawl="a"))
    with monkeypatch.context() as full:
        failing(full, "write", lambda name: name.startswith("toehold-"), errno.ENOSPC)
        for crawl in ("b", "a", "b"):  # a new file, and one that follows a full one
            with pytest.raises(OutputError, match="No space left"):
                writer.append(visit(f"http://{crawl}.example/2", os.urandom(1000), crawl=crawl))
    assert [path.suffix for path in files(tmp_path)] == [".gz"]
    append_all(writer, "3")
    writer.sync()
    writer.close()
    assert sorted(bodies(tmp_path)) == ["http://a.example/1", *(f"http://{c}.example/3" for c in "abcd")]


def test_a_file_never_takes_the_name_of_another(tmp_path: Path) -> None:
    """As of a process of the same id, in another container, with a clock that stood still."""
    first = WarcWriter(tmp_path, "n", process_id=1, clock_ms=lambda: START_MS)
    first.append(visit("http://a.example/1"))
    first.close()
    (path,) = files(tmp_path)
    content = path.read_bytes()
    second = WarcWriter(tmp_path, "n", process_id=1, clock_ms=lambda: START_MS)
    with pytest.raises(OutputError, match=r"cannot create .* exists"):
        second.append(visit("http://a.example/2"))
    second.close()
    assert path.read_bytes() == content and files(tmp_path) == [path]


def test_a_fetch_without_an_answer_begins_no_file(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "n")
    assert not writer.append(PageVisit(lease("http://a.example/"), fetch(status=-2)))
    assert files(tmp_path) == []
