"""Pages as JSON Lines, in real files."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from node_doubles.leases import lease
from node_doubles.stages import page
from node_doubles.warcs import START_MS, files

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.fetching.fetch import FetchResult
from crawler_node.fetching.outcome import Truncation
from crawler_node.output.hook import Hook, HookPage
from crawler_node.output.logs import NodeLogs
from crawler_node.output.open_file import OutputError
from crawler_node.output.pages import PagesWriter, TextForm
from crawler_node.output.rotation import Rotation
from crawler_node.output.visit import PageVisit
from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS

HTML = "<title>Über  uns</title><p>Erste\nZeile<p>Zweite\u2028<script>x</script>".encode()


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in files(directory) for line in path.read_bytes().split(b"\n")[:-1]]


def written(directory: Path, visit: PageVisit, text: TextForm = TextForm.TEXT) -> dict[str, Any]:
    writer = PagesWriter(directory, "node", text=text)
    assert writer.append(visit) is not None
    writer.close()
    (line,) = lines(directory)
    return line


def html(uri: str = "http://h/", status: int = 200, **more: object) -> FetchResult:
    return page(uri, status, HTML, **more)


def test_a_page_becomes_a_line_with_all_there_is_to_say_of_it(tmp_path: Path) -> None:
    found = lease("http://h/", crawl="news", path="LE")
    found.via = "http://v/"
    links = [Outlink("http://h/1", Hop.LINK, "a/@href"), Outlink("http://h/2", Hop.EMBED, "img/@src")]
    assert written(tmp_path, PageVisit(found, html(truncation=Truncation.LENGTH), links)) == {
        "url": "http://h/",
        "crawl": "news",
        "status": 200,
        "time": "2023-11-14T22:13:20.123Z",
        "media_type": "text/html",
        "bytes": len(HTML),
        "digest": "sha1:ABC",
        "truncated": "length",
        "via": "http://v/",
        "path": "LE",
        "seed": False,
        "links": [{"url": "http://h/1", "hop": "L"}, {"url": "http://h/2", "hop": "E"}],
        "title": "Über uns",
        "text": "Erste Zeile\nZweite",
    }
    (path,) = files(tmp_path)
    assert path.name.startswith("toehold-") and path.name.endswith(".jsonl")


def test_a_page_may_be_kept_as_it_is_written_or_not_at_all(tmp_path: Path) -> None:
    kept = written(tmp_path / "html", PageVisit(lease("http://h/"), html()), TextForm.HTML)
    assert (kept["title"], kept["html"]) == ("Über uns", HTML.decode()) and "text" not in kept
    bare = written(tmp_path / "none", PageVisit(lease("http://h/"), html()), TextForm.NONE)
    assert not {"title", "text", "html"} & set(bare)


@pytest.mark.sampled("text", [TextForm.TEXT, TextForm.HTML])
@pytest.mark.sampled(
    "fetch",
    [
        html(status=404),
        html(status=301),
        html(headers=[(b"Content-Type", b"image/png")]),
        page("http://h/", body=b"\x89PNG\r\n\x1a\n\0", headers=[]),
        page("http://h/", body=b"", headers=[]),
    ],
)
def test_a_fetch_without_text_gives_neither_title_nor_text(
    tmp_path: Path, fetch: FetchResult, text: TextForm
) -> None:
    line = written(tmp_path, PageVisit(lease("http://h/"), fetch), text)
    assert line["title"] is None and line[text] is None and line["status"] == fetch.status


@pytest.mark.parametrize("said", [b"", b'"text/html"', b"text/hmtl", b"application/octet-stream"])
def test_where_the_media_type_says_nothing_it_is_what_it_looks_like(tmp_path: Path, said: bytes) -> None:
    line = written(tmp_path, PageVisit(lease("http://h/"), html(headers=[(b"Content-Type", said)])))
    assert (line["title"], line["text"]) == ("Über uns", "Erste Zeile\nZweite")
    assert line["media_type"] == {b"": "", b'"text/html"': ""}.get(said, said.decode())


def test_plain_text_is_text_without_a_title(tmp_path: Path) -> None:
    plain = page(
        "http://h/", body=b"caf\xe9 <b>", headers=[(b"Content-Type", b"text/plain; charset=latin-1")]
    )
    line = written(tmp_path, PageVisit(lease("http://h/"), plain))
    assert (line["title"], line["text"]) == ("", "café <b>")


def test_a_line_is_one_line_whatever_is_in_it(tmp_path: Path) -> None:
    body = "<title>a\r\nb</title>x\x85\x00\ud800y".encode("utf-8", "surrogatepass")
    line = written(tmp_path, PageVisit(lease("http://h/"), page("http://h/", body=body)), TextForm.HTML)
    assert line["title"] == "a b" and "\r\n" in line["html"]


def test_an_encoded_body_is_decoded(tmp_path: Path) -> None:
    headers = [(b"Content-Type", b"text/html"), (b"Content-Encoding", b"gzip")]
    fetch = page("http://h/", body=gzip.compress(HTML), headers=headers)
    assert written(tmp_path, PageVisit(lease("http://h/"), fetch))["title"] == "Über uns"


BROTLI = bytes.fromhex("1b2900f825dddee09a1049864146bf528d3f2dc936bf81436a20")
ZSTD = b"\x28\xb5\x2f\xfd\x04\x58\x29\0\0<p>x\x8f\xe2\x19\xc7"


@pytest.mark.sampled("text", [TextForm.TEXT, TextForm.HTML])
@pytest.mark.sampled("media_type", [b"text/html", b"text/plain", b"application/xhtml+xml", b""])
@pytest.mark.sampled(
    ("coding", "body"),
    [
        (b"br", BROTLI),
        (b"zstd", ZSTD),
        (b"compress", b"\x1f\x9d\x90<\xe0\xc0\xc1\0"),
        (b"nonsense", BROTLI),
        (b"gzip, br", BROTLI),
        (b"gzip, gzip, gzip", gzip.compress(HTML)),
        (b"gzip", BROTLI),
        (b"gzip", ZSTD),
        (b"gzip", zlib.compress(HTML)),
        (b"deflate", BROTLI),
        (b"deflate", gzip.compress(HTML)),
        (b"gzip", b"\x1f\x8b" + HTML),
        (b"gzip", gzip.compress(HTML)[:10]),
        (b"gzip", gzip.compress(gzip.compress(HTML))),
        (b"aws-chunked", BROTLI),
        (b"identity", gzip.compress(HTML)),
        (b"identity", ZSTD),
    ],
)
def test_page_in_an_unknown_coding_has_no_text_and_keeps_its_bytes(
    tmp_path: Path, coding: bytes, body: bytes, media_type: bytes, text: TextForm
) -> None:
    headers = [(b"Content-Type", media_type), (b"Content-Encoding", coding)]
    fetch = page("http://h/", body=body, headers=headers)
    line = written(tmp_path, PageVisit(lease("http://h/"), fetch), text)
    assert (line["title"], line[text], line["bytes"]) == (None, None, len(body))
    given: list[tuple[str | None, str | None, bool]] = []
    hook = Hook(lambda page: given.append((page.title, page.text, bool(page.body))), NodeLogs())
    hook(PageVisit(lease("http://h/"), page("http://h/", body=body, headers=headers)))
    assert given == [(None, None, True)]


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"aws-chunked", b"UTF-8", b"gzip", b"gzip, gzip, gzip"])
def test_text_under_a_false_label_is_text(tmp_path: Path, coding: bytes) -> None:
    fetch = html(headers=[(b"Content-Type", b"text/html"), (b"Content-Encoding", coding)])
    assert written(tmp_path, PageVisit(lease("http://h/"), fetch))["text"] == "Erste Zeile\nZweite"


@pytest.mark.parametrize("body", [b"", gzip.compress(b"")])
def test_a_page_of_nothing_has_an_empty_text(tmp_path: Path, body: bytes) -> None:
    headers = [(b"Content-Type", b"text/html"), (b"Content-Encoding", b"gzip")]
    fetch = page("http://h/", body=body, headers=headers)
    assert written(tmp_path, PageVisit(lease("http://h/"), fetch))["text"] == ""


def test_a_break_of_the_coding_keeps_the_text_before_it(tmp_path: Path) -> None:
    headers = [(b"Content-Type", b"text/html"), (b"Content-Encoding", b"gzip")]
    fetch = page("http://h/", body=gzip.compress(HTML)[:-8] + bytes(8), headers=headers)
    assert written(tmp_path, PageVisit(lease("http://h/"), fetch))["text"] == "Erste Zeile\nZweite"


def test_what_was_not_answered_or_is_no_page_has_no_line(tmp_path: Path) -> None:
    writer = PagesWriter(tmp_path, "node")
    robots = lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS)
    assert not writer.append(PageVisit(lease("http://h/"), page("http://h/", -4)))
    assert not writer.append(PageVisit(robots, page("http://h/robots.txt")))
    writer.close()
    assert files(tmp_path) == []


def test_files_roll_and_are_named_as_the_others(tmp_path: Path) -> None:
    now_ms = START_MS
    rotation = Rotation(prefix="news", max_bytes=1000, max_age_s=10)
    writer = PagesWriter(tmp_path, "n", rotation=rotation, process_id=7, clock_ms=lambda: now_ms)
    for n in range(4):
        writer.append(PageVisit(lease(f"http://h/{n}"), html(f"http://h/{n}")))
    now_ms += 10_000
    writer.roll_if_old()
    assert len(files(tmp_path)) == 2
    assert files(tmp_path)[0].name == "news-crawl-20231114221320123-00000-n~7.jsonl"
    assert [line["url"] for line in lines(tmp_path)] == [f"http://h/{n}" for n in range(4)]
    writer.close()


def test_the_torn_line_of_a_dead_process_is_cut_off(tmp_path: Path) -> None:
    left = tmp_path / "toehold-1-00000-n~1.jsonl.open"
    left.write_bytes(b'{"url":"http://h/"}\n{"url":"http')
    writer = PagesWriter(tmp_path, "node")
    writer.append(PageVisit(lease("http://h/1"), html("http://h/1")))
    writer.repair()
    assert (tmp_path / "toehold-1-00000-n~1.jsonl").read_bytes() == b'{"url":"http://h/"}\n'
    writer.close()
    assert [line["url"] for line in lines(tmp_path)] == ["http://h/", "http://h/1"]


def test_a_page_that_cannot_be_written_whole_is_not_written(tmp_path: Path) -> None:
    writer = PagesWriter(tmp_path, "node")
    writer.close()
    with pytest.raises(OutputError, match="closed"):
        writer.append(PageVisit(lease("http://h/"), html()))


def test_what_the_users_function_says_is_in_the_line(tmp_path: Path) -> None:
    def hook(page: HookPage) -> dict[str, object]:
        return {"words": len((page.text or "").split()), "title": "ü\ud800"}

    visit = PageVisit(lease("http://h/"), html())
    assert Hook(hook, NodeLogs())(visit) == ()
    assert written(tmp_path, visit)["extra"] == {"words": 3, "title": "ü\ud800"}


@pytest.mark.parametrize("media_type", [b"text/html", b"text/plain"])
@pytest.mark.parametrize("text", [TextForm.TEXT, TextForm.HTML])
def test_a_large_page_is_cut(tmp_path: Path, text: TextForm, media_type: bytes) -> None:
    body = b"<p>" + b"word " * 500_000
    fetch = page("http://h/", body=body, headers=[(b"Content-Type", media_type)])
    line = written(tmp_path, PageVisit(lease("http://h/"), fetch), text)
    assert len(line[text]) == 1_000_000
    assert line["bytes"] == len(body)


def test_what_utf_8_has_no_bytes_for_does_not_cost_the_page(tmp_path: Path) -> None:
    links = [Outlink("http://h/\ud800", Hop.LINK, "a/@href")]
    line = written(tmp_path, PageVisit(lease("http://h/"), html(), links))
    assert line["links"] == [{"url": "http://h/?", "hop": "L"}]
