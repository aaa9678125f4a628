"""A byte order mark before a file that people write: editors put it there, and nobody sees it."""

import gzip
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler_node.extraction.sitemap import sitemaps_of_robots
from frontier_server.core.robotstxt.robots import group_for
from toehold_base.access import callers_file
from toehold_base.access.pem import read_pem
from toehold_base.options.toml_file import read_settings
from toehold_base.serving.addresses import Address
from toehold_cli.access.registry import Registry
from toehold_cli.import_file import Format, ImportFile
from toehold_client.credentials import Credentials
from toehold_client.rpc.security import Security
from toehold_client.spec import file as spec_file
from toehold_client.spec.listed import lines, read_seeds, read_uris

_CALLERS = b'[callers.ops]\nroles = ["admin"]\n'
_ROBOTS = b"User-agent: *\nDisallow: /\nSitemap: http://a.example/s.xml\n"
_LIST = b"http://a.example/ # home\n"


def _token(path: Path) -> object:
    return Security(Credentials(token_file=path), Address("127.0.0.1", 7707), "").metadata()


def _imported(path: Path, kind: Format) -> list[object]:
    return list(ImportFile(path, kind).entries())


def _sitemaps(path: Path) -> list[str]:
    return sitemaps_of_robots("http://a.example/robots.txt", path.read_bytes())


FILES: list[tuple[str, bytes, Callable[[Path], object]]] = [
    ("server-or-node.toml", b'listen = "127.0.0.1:1"\n', read_settings),
    ("callers.toml", _CALLERS, callers_file.read),
    ("callers-as-commands-see-them.toml", _CALLERS, lambda path: Registry(path).callers()),
    ("ca.pem", b"-----BEGIN CERTIFICATE-----\n", read_pem),
    ("token", b"some-token\n", _token),
    ("crawl.toml", b'name = "news"\nseeds = ["a.example"]\n', spec_file.load),
    ("override.toml", b"[politeness]\nmin_delay_seconds = 5\n", spec_file.load_override),
    ("seeds.txt", _LIST, lambda path: list(read_seeds(path))),
    ("uris.txt", _LIST, lambda path: list(read_uris(path))),
    ("surts.txt", b"+http://(com,example,\n", lambda path: list(lines(path))),
    ("import.txt", _LIST, lambda path: _imported(path, Format.LIST)),
    ("journal", b"Fs http://a.example/\n", lambda path: _imported(path, Format.RECOVERY_JOURNAL)),
    ("robots.txt", _ROBOTS, lambda path: group_for(path.read_bytes(), "toehold")),
    ("robots.txt", b"Sitemap: http://a.example/s.xml\n", _sitemaps),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "read"), FILES, ids=[name for name, _, _ in FILES])
def test_a_file_reads_the_same_with_a_byte_order_mark(
    tmp_path: Path, name: str, content: bytes, read: Callable[[Path], object]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    without = read(file)
    assert without
    file.write_bytes(BOM_UTF8 + content)
    assert read(file) == without


def test_a_gzip_list_reads_the_same_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "list.gz"
    file.write_bytes(gzip.compress(BOM_UTF8 + _LIST))
    assert [each.candidate.uri for each in ImportFile(file, Format.LIST).entries()] == ["http://a.example/"]


def test_commands_can_change_a_callers_file_that_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    file.write_bytes(BOM_UTF8 + _CALLERS)
    assert Registry(file).set_caller("other", {"roles": ["watch"]})
    assert set(callers_file.read(file)) == {"ops", "other"}
