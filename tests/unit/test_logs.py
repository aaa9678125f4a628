"""The logs of the programs: lines that nobody can forge, without secrets, and those of libraries too."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import pytest
import structlog

from toehold_base.observability import logs


class Terminal(io.StringIO):
    """Standard error of a program at a terminal."""

    def isatty(self) -> bool:
        return True


Capture = pytest.CaptureFixture[str]


def lines(capsys: Capture) -> list[dict[str, Any]]:
    """The JSON lines on standard error, which is no terminal."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_programs_get_json_and_people_get_text(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.configure("auto", "info", node="n/1")
    structlog.get_logger().info("serving", port=7707, name="two words")
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["port"], line["node"]) == ("serving", "info", 7707, "n/1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    logs.configure("auto", "info")
    structlog.get_logger().info("serving", port=7707, name="two words")
    assert terminal.getvalue()[20:] == ' info    serving port=7707 name="two words"\n'
    logs.configure("json", "info")
    structlog.get_logger().info("stopped")
    assert json.loads(terminal.getvalue().splitlines()[-1])["event"] == "stopped"


@pytest.mark.sampled("log_format", ["json", "text"])
@pytest.mark.sampled(
    "breaker", ["\n", "\r\n", "\x0b", "\x1b[2K\r", "\x85", "\u2028", "\u202e", "\0", "\ud800"]
)
def test_no_value_can_pass_for_a_line(log_format: str, breaker: str, capsys: Capture) -> None:
    logs.configure(log_format, "info")
    forged = f'x{breaker}2026-01-01T00:00:00Z error   store_failed {{"event": "store_failed"}}'
    log = structlog.get_logger()
    log.info("page_failed", uri=forged, all=[forged], by={forged: forged}, error=ValueError(forged))
    log.info("page_failed", **{forged: 1})
    try:
        raise ValueError(forged)
    except ValueError:
        log.exception("page_failed")
    written = capsys.readouterr().err
    assert written.isascii() or log_format == "text"
    assert written.replace("\n", "").isprintable()
    heads = [line for line in written.split("\n") if line and not line.startswith("    ")]
    assert len(heads) == 3 and all("page_failed" in line for line in heads)


def test_long_values_are_cut(capsys: Capture) -> None:
    logs.configure("json", "info")
    log = structlog.get_logger()
    log.info("page_failed", uri="u" * 10_000_000, all=["a"] * 10_000, exception="t" * 10_000_000)
    (line,) = lines(capsys)
    assert len(line["uri"]) == logs.MAX_CHARACTERS and line["uri"].endswith("…")
    assert len(line["all"]) == logs.MAX_ITEMS
    assert len(line["exception"]) <= logs.MAX_TRACE_CHARACTERS + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"proxy": "http://user:hunter2@proxy.example:3128"},
        {"error": "cannot reach socks5://hunter2@proxy.example"},
        {"error": "cannot reach http://a:b@hunter2@proxy.example/"},
        {"error": "cannot reach user:hunter2@proxy.example:3128"},
        {"error": ValueError("refused: Authorization: Bearer hunter2hunter2")},
        {"error": "Proxy-Authorization: Basic dXNlcjpodW50ZXIy"},
        {"error": "the request has password='hunter2'"},
        {"error": 'spec: {"proxy_password": "hunter2", "user": "u"}'},
        {"uri": "http://h.example/?access_token=hunter2&a=b"},
        {"password": "hunter2"},
        {"credentials": ["hunter2"]},
        {"settings": {"fetch": {"Cookie": "hunter2"}}},
        {"token": b"hunter2"},
    ],
    ids=str,
)
def test_secrets_are_left_out(fields: dict[str, Any], capsys: Capture) -> None:
    logs.configure("json", "info")
    structlog.get_logger().info("page_failed", **fields)
    try:
        raise RuntimeError(*fields.values()) if "error" in fields else RuntimeError
    except RuntimeError:
        structlog.get_logger().exception("page_failed")
    written = capsys.readouterr().err
    assert "hunter2" not in written and "dXNlcjpodW50ZXIy" not in written
    assert written.count(logs.HIDDEN) >= 1
    assert all(json.loads(line) for line in written.splitlines())


def test_urls_without_secrets_stay_whole(capsys: Capture) -> None:
    logs.configure("json", "info")
    uri = "http://h.example/@name?mail=a@b.example&tokens=3#x@y"
    structlog.get_logger().info("page_failed", uri=uri)
    assert lines(capsys)[0]["uri"] == uri


def test_lines_of_libraries_are_events(capsys: Capture) -> None:
    logs.configure("json", "info")
    library = logging.getLogger("grpc._cython.cygrpc")
    library.info("not heard")
    library.warning("odd %s", "peer\nforged")
    library.warning("odd %d", "peer")
    try:
        raise ValueError("gone")
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    found = lines(capsys)
    assert {line["event"] for line in found} == {"library_message"}
    assert [line["library"] for line in found] == [*["grpc._cython.cygrpc"] * 2, "asyncio", "py.warnings"]
    assert found[0]["message"] == "odd peer\\nforged" and found[1]["message"].startswith("'odd %d' (")
    assert found[2]["level"] == "error" and "ValueError: gone" in found[2]["exception"]


def test_grpc_writes_no_lines_beside_the_log() -> None:
    """Its C core would, at a port that is taken, and at broken connections."""
    program = """
from toehold_base.process.startup import fast_imports
with fast_imports():
    import grpc
from concurrent.futures import ThreadPoolExecutor
options = [("grpc.so_reuseport", 0)]
one, other = (grpc.server(ThreadPoolExecutor(1), options=options) for _ in range(2))
port = one.add_insecure_port("127.0.0.1:0")
one.start()
try:
    other.add_insecure_port(f"127.0.0.1:{port}")
except RuntimeError:
    print("taken")
"""
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert (ended.stdout, ended.stderr) == ("taken\n", "")


def test_errors_that_nobody_caught_are_events(capsys: Capture) -> None:
    logs.configure("json", "error")

    def fail() -> None:
        raise ValueError("gone")

    thread = threading.Thread(target=fail, name="watch")
    thread.start()
    thread.join()
    try:
        fail()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    found = lines(capsys)
    assert [(line["event"], line.get("thread")) for line in found] == [
        ("unhandled_error", "watch"),
        ("unhandled_error", None),
    ]
    assert all("ValueError: gone" in line["exception"] for line in found)


def test_the_level_changes_at_once_for_loggers_in_use(capsys: Capture) -> None:
    log = structlog.get_logger()
    logs.configure("json", "error")
    log.info("serving")
    logs.change_level("debug")
    log.debug("call")
    logs.change_level("error")
    log.warning("write_stalled")
    told = [(line["event"], line.get("before"), line.get("after")) for line in lines(capsys)]
    assert told == [
        ("log_level_changed", "error", "debug"),
        ("call", None, None),
        ("log_level_changed", "debug", "error"),
    ]


def test_a_log_that_cannot_be_written_costs_its_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    logs.configure("json", "info")
    structlog.get_logger().info("serving")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    logs.configure("json", "info")
    structlog.get_logger().info("serving")
