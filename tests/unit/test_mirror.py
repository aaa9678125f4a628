"""Pages as plain files: their names, their content, and several writers at once."""

import gzip
import threading
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_doubles.leases import lease
from node_doubles.warcs import fetch, visit

from crawler_node.fetching.outcome import Truncation
from crawler_node.output.mirror import MirrorWriter, file_path
from crawler_node.output.open_file import OutputError
from crawler_node.output.visit import PageVisit
from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS


def written(directory: Path) -> dict[str, bytes]:
    """The files of a mirror by their paths, without its own."""
    files = (path for path in directory.rglob("*") if path.is_file())
    found = {str(path.relative_to(directory)): path.read_bytes() for path in files}
    return {path: content for path, content in found.items() if not path.startswith(".")}


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("https://a.example/", "a.example/index.html"),
        ("https://a.example/docs/", "a.example/docs/index.html"),
        ("https://a.example/index.html", "a.example/%69ndex.html"),
        ("https://a.example/docs/index.html?q=1", "a.example/docs/%69ndex.html?q=1"),
        ("https://a.example/%69ndex.html", "a.example/%69ndex.html"),
        ("https://a.example/%2569ndex.html", "a.example/%2569ndex.html"),
        ("https://a.example/index.html/", "a.example/index.html/index.html"),
        ("https://a.example/docs/page.html", "a.example/docs/page.html"),
        ("http://a.example:8080/x", "a.example:8080/x"),
        ("http://[::1]:80/x", "[::1]:80/x"),
        ("https://a.example/?q=1", "a.example/index.html?q=1"),
        ("https://a.example/x?y=/z/..", "a.example/x?y=%2Fz%2F.%2E"),
        ("https://a.example/a%20b/stra%C3%9Fe", "a.example/a b/straße"),
        ("https://a.example/a//b", "a.example/a/%2F/b"),
        ("https://a.example/a%2Fb", "a.example/a%2Fb"),
        ("https://a.example/%252e", "a.example/%252e"),
        ("https://a.example/..%2f..%2fetc", "a.example/%2E.%2F..%2Fetc"),
        ("https://a.example/%00%0a%ff", "a.example/%00%0A%FF"),
        ("https://a.example/x%3Fy", "a.example/x%3Fy"),
        ("https://a.example/old~", "a.example/old%7E"),
        ("https://a.example/.htaccess", "a.example/%2Ehtaccess"),
        ("https://a.example/%2Ehtpasswd", "a.example/%2Ehtpasswd"),
        ("https://a.example/.git/config", "a.example/%2Egit/config"),
        ("https://a.example/a:b", "a.example/a%3Ab"),
        ("https://a.example/c:/x", "a.example/c%3A/x"),
        ("https://a.example/x?t=1:2", "a.example/x?t=1%3A2"),
        ("https://a.example/x.%20", "a.example/x.%20"),
        ("https://a.example/x.", "a.example/x%2E"),
        ("https://a.example/%22%3C*%3E%7C", "a.example/%22%3C%2A%3E%7C"),
        ("https://.a.example/", "%2Ea.example/index.html"),
    ],
)
def test_the_path_of_a_file_follows_the_url(uri: str, path: str) -> None:
    assert str(file_path(uri)) == path


@given(st.text(max_size=3000), st.text(max_size=50))
def test_no_url_leads_out_of_the_mirror_or_to_too_long_a_name(path: str, query: str) -> None:
    found = file_path(f"http://a.example/{path.replace('#', '')}?{query}".encode("utf-8", "replace").decode())
    assert not found.is_absolute() and ".." not in found.parts
    assert found.parts[0] == "a.example" and len(found.parts) > 1
    assert all(len(part.encode("utf-8", "surrogateescape")) <= 255 for part in found.parts)
    assert len(str(found).encode("utf-8", "surrogateescape")) <= 2048


def test_long_names_that_differ_only_at_the_end_stay_apart() -> None:
    first, second = (file_path(f"http://a.example/{'x' * 400}{end}") for end in "12")
    assert first != second and first.parent == second.parent


def test_pages_are_written_decoded_and_replaced_by_later_visits(tmp_path: Path) -> None:
    mirror = MirrorWriter(tmp_path, "n")
    packed = fetch("http://a.example/x", BytesIO(gzip.compress(b"old")))
    packed.headers = [(b"Content-Encoding", b"gzip")]
    assert mirror.append(PageVisit(lease("http://a.example/x"), packed))
    assert written(tmp_path) == {"a.example/x": b"old"}
    assert mirror.append(visit("http://a.example/x", b"new"))
    mirror.sync()
    assert written(tmp_path) == {"a.example/x": b"new"}
    mirror.close()


def coded(uri: str, body: bytes, media_type: str, coding: str) -> PageVisit:
    """A page that came with a Content-Encoding."""
    made = fetch(uri, body)
    made.headers = [(b"Content-Type", media_type.encode()), (b"Content-Encoding", coding.encode())]
    return PageVisit(lease(uri), made)


PLAIN = b"<html>" + b"content " * 50
PACKED = gzip.compress(PLAIN, mtime=0)


@pytest.mark.parametrize(
    ("name", "media_type", "coding", "body", "stored"),
    [
        ("pkg-1.0.tar.gz", "application/x-gzip", "x-gzip", PACKED, PACKED),
        ("pkg-1.0.tar.gz", "application/x-tar", "gzip", PACKED, PACKED),
        ("PKG.TGZ", "application/x-tar", "gzip", PACKED, PACKED),
        ("pkg%2Egz", "application/octet-stream", "gzip", PACKED, PACKED),
        ("picture.svgz", "image/svg+xml", "gzip", PACKED, PACKED),
        ("sitemap.xml.gz", "text/xml", "gzip", PACKED, PACKED),
        ("download", "application/gzip", "gzip", PACKED, PACKED),
        ("page.gz", "text/html", "gzip", gzip.compress(PACKED, mtime=0), PACKED),
        ("page.html", "text/html", "gzip", PACKED, PLAIN),
        ("pages.gz/page", "text/html", "gzip", PACKED, PLAIN),
        ("page?file=x.gz", "text/html", "gzip", PACKED, PLAIN),
        ("picture.svg", "image/svg+xml", "gzip", PACKED, PLAIN),
        ("pkg-1.0.tar.gz", "application/gzip", "", PACKED, PACKED),
        ("pkg.tar.xz", "application/x-tar", "xz", b"\xfd7zXZ\0odd", b"\xfd7zXZ\0odd"),
    ],
)
def test_content_of_a_file_fits_its_name(
    tmp_path: Path, name: str, media_type: str, coding: str, body: bytes, stored: bytes
) -> None:
    writer = MirrorWriter(tmp_path, "node")
    assert writer.append(coded(f"http://a.example/{name}", body, media_type, coding))
    writer.close()
    assert list(written(tmp_path).values()) == [stored]


def test_only_whole_pages_with_success_have_files(tmp_path: Path) -> None:
    mirror = MirrorWriter(tmp_path, "n")
    robots = visit("http://a.example/robots.txt")
    robots.lease.purpose = PURPOSE_ROBOTS
    for other in (
        robots,
        visit(status=404),
        visit(status=304),
        visit(status=-2),
        visit(truncation=Truncation.DISCONNECT),
    ):
        assert not mirror.append(other)
    assert written(tmp_path) == {}


@pytest.mark.parametrize("order", [("a", "a/b"), ("a/b", "a")])
def test_a_page_and_a_folder_of_one_name_both_stay_in_whatever_order(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    mirror = MirrorWriter(tmp_path, "n")
    for path in order * 2:
        mirror.append(visit(f"http://a.example/{path}", path.encode()))
    assert written(tmp_path) == {"a.example/a~": b"a", "a.example/a/b": b"a/b"}


def test_several_writers_share_a_directory(tmp_path: Path) -> None:
    """Each URL has a page of the same name as the next one's folder."""
    paths = ["/".join("abcdefgh"[:depth]) for depth in range(1, 9)]
    writers = [MirrorWriter(tmp_path, name) for name in "xyz"]

    def write(writer: MirrorWriter, backwards: bool) -> None:
        for path in paths[::-1] if backwards else paths:
            writer.append(visit(f"http://a.example/{path}", path.encode()))

    threads = [
        threading.Thread(target=write, args=(writer, bool(number % 2)))
        for number, writer in enumerate(writers * 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written(tmp_path) == {
        **{f"a.example/{path}~": path.encode() for path in paths[:-1]},
        f"a.example/{paths[-1]}": paths[-1].encode(),
    }
    assert list((tmp_path / ".unfinished").iterdir()) == []


def test_repair_removes_what_a_dead_process_left_and_nothing_else(tmp_path: Path) -> None:
    mirror = MirrorWriter(tmp_path, "n")
    mirror.append(visit("http://a.example/x", b"x"))
    (tmp_path / ".unfinished" / "dead~1-0").write_bytes(b"half")
    mirror.repair()
    assert list((tmp_path / ".unfinished").iterdir()) == []
    assert written(tmp_path) == {"a.example/x": b"x"}


def test_a_directory_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written to"):
        MirrorWriter(tmp_path / "file", "n")
    mirror = MirrorWriter(tmp_path / "mirror", "n")
    mirror.close()
    mirror.close()
    with pytest.raises(OutputError, match="the output is closed"):
        mirror.append(visit())
