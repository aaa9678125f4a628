"""The practice web on real sockets: every trap answers as its row says, and the log tells the truth."""

import gzip
import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually

from practice_web import render, serve, traps
from practice_web.log import Entry
from practice_web.practice import PracticeWeb

SLOW = {"/traps/drip.html", "/traps/huge.html", "/traps/bomb.html"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("practice") / "pages"
    raw = "<html><head><title>t</title></head><body>%s</body></html>"
    render.weave({name: raw % (name * 2_000) for name in "abcdefghijkl"}, folder)
    return folder


@pytest.fixture(scope="module")
def practice(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PracticeWeb]:
    with PracticeWeb(tmp_path_factory.mktemp("state"), pages) as running:
        yield running


def connect(practice: PracticeWeb, key: str) -> http.client.HTTPConnection:
    """A connection to the origin's address, as `resolve` says it, that calls it by its name."""
    origin, port = practice.web.origins[key], practice.web.ports[key]
    address = dict(line.rsplit(":", 1) for line in practice.resolve)[f"{origin.name}:{port}"]
    if origin.scheme == "http":
        connection = http.client.HTTPConnection(origin.name, port, timeout=PATIENCE_S)
        connection.sock = socket.create_connection((address, port), timeout=PATIENCE_S)
        return connection
    context = ssl.create_default_context(cafile=practice.ca_file)
    secure = http.client.HTTPSConnection(origin.name, port, timeout=10, context=context)
    secure.sock = context.wrap_socket(
        socket.create_connection((address, port), timeout=PATIENCE_S), server_hostname=origin.name
    )
    return secure


def get(practice: PracticeWeb, key: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(practice, key)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def logged(practice: PracticeWeb, path: str, count: int = 1) -> list[Entry]:
    """The path's lines in the log, once there are `count`: a line follows the answer's last byte."""

    def lines() -> list[Entry]:
        return [entry for entry in practice.log() if entry.path == path]

    eventually(lambda: len(lines()) >= count, f"{count} lines for {path}")
    return lines()


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row.origin}{row.path[:40]}")
        for row in traps.TRAPS
        if row.path not in SLOW and not row.retried
    ],
)
def test_a_trap_answers_as_its_row_says(practice: PracticeWeb, row: traps.Trap) -> None:
    said = practice.web.reply(practice.web.origins[row.origin], row.path, 0)
    connection = connect(practice, row.origin)
    connection.request("GET", row.path)
    response = connection.getresponse()
    try:
        body = response.read()
    except http.client.IncompleteRead as error:
        body = error.partial
    connection.close()
    match response.headers["Content-Encoding"]:
        case "gzip":
            body = gzip.decompress(body)
        case "deflate":
            body = zlib.decompress(
                body, -zlib.MAX_WBITS if said.encoding == "raw-deflate" else zlib.MAX_WBITS
            )
    assert response.status == said.status
    assert (response.status == 404) is (row.path == "/traps/missing.html")
    assert body == said.body
    assert response.headers["Location"] == said.location
    assert response.headers["Content-Type"] == said.media_type
    assert (response.headers["Transfer-Encoding"] == "chunked") is said.chunked


@pytest.mark.parametrize(("key", "status"), [("kappa", 503), ("lambda", 429)])
def test_busy_pages_recover_after_two_attempts_or_never(practice: PracticeWeb, key: str, status: int) -> None:
    answers = [get(practice, key, "/traps/twice")[0] for _ in range(2)]
    after_s = time.time()
    answers += [get(practice, key, "/traps/twice")[0] for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status, 200, 200]
    assert [answer.headers["Retry-After"] is not None for answer in answers] == [True, True, False, False]
    assert [get(practice, key, "/traps/always")[0].status for _ in range(4)] == [status] * 4
    entry = next(entry for entry in logged(practice, "/traps/twice") if entry.status == status)
    assert entry.retry_until is not None
    assert entry.start_time < entry.retry_until <= after_s + 2


def test_a_gzip_bomb_is_small_until_it_is_opened(practice: PracticeWeb) -> None:
    response, packed = get(practice, "iota", "/traps/bomb.html")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(packed) < 1_500_000
    opener = zlib.decompressobj(wbits=31)
    size = len(opener.decompress(packed, 50_000_000))
    while opener.unconsumed_tail:
        size += len(opener.decompress(opener.unconsumed_tail, 50_000_000))
    assert opener.eof, "its checksum and length are right"
    assert size > 200_000_000


def test_connections_are_kept_open_and_every_request_is_logged(practice: PracticeWeb) -> None:
    connection = connect(practice, "zeta")
    before = time.monotonic()
    for _ in range(3):
        connection.request("GET", "/?kept=open", headers={"User-Agent": "tester/1"})
        local = connection.sock.getsockname()
        connection.getresponse().read()
        assert connection.sock.getsockname() == local
    after = time.monotonic()
    connection.close()
    lines = logged(practice, "/?kept=open", 3)
    assert len(lines) == 3
    for entry in lines:
        assert before < entry.start < entry.end < after
        assert (entry.url, entry.status, entry.method) == (
            practice.web.url("zeta", "/?kept=open"),
            200,
            "GET",
        )
        assert (entry.user_agent, entry.aborted, entry.host) == ("tester/1", False, "wiki.zeta.example")
        assert entry.bytes_sent > 500
    assert lines[0].end <= lines[1].start


def test_a_restart_on_the_same_state_is_the_same_web(pages: Path, tmp_path: Path) -> None:
    with PracticeWeb(tmp_path, pages) as first:
        get(first, "theta", "/")
    with PracticeWeb(tmp_path, pages) as second:
        assert (second.seeds, second.resolve, second.ca_file) == (first.seeds, first.resolve, first.ca_file)
        get(second, "theta", "/")
        assert len(logged(second, "/", 2)) == 2


def test_a_taken_port_is_named_with_its_remedy(
    practice: PracticeWeb, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ports.json").write_text(json.dumps(practice.web.ports))
    monkeypatch.setattr(serve, "PATIENCE_WITH_PORTS_S", 0.0)
    with pytest.raises(serve.Taken, match=r"port \d+ of www\.alpha\.example .* is taken .* or delete"):
        serve.bind(tmp_path)


def test_it_ends_with_its_standard_input(pages: Path, tmp_path: Path) -> None:
    command = [sys.executable, serve.__file__, "--pages", str(pages), "--state", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--until-stdin-ends"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["log"] == str(tmp_path / "access.log")
        child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0


def test_missing_pages_are_named_with_their_remedy(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)exit code 2.*no such folder. Render it first"):
        PracticeWeb(tmp_path / "state", tmp_path / "none").__enter__()
