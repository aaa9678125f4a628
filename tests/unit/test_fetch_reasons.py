"""Why a fetch has no answer, in words for people: those of errors that no test can cause at will."""

import errno
import os
import socket
import ssl
from collections.abc import Callable

import pytest

from crawler_node.fetching.addresses import Unresolvable, system_lookup
from crawler_node.fetching.answer_head import ProtocolError, check_beginning, parse_head
from crawler_node.fetching.failure import FetchFailure, of_system, of_tls, shown
from crawler_node.fetching.framing import Chunked, framing
from crawler_node.fetching.outcome import reason_of
from toehold_client.worker.addresses import AddressRule


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ECONNREFUSED, "connection refused"),
        (errno.ECONNRESET, "reset by the server"),
        (errno.ENETUNREACH, "no route to this network"),
        (errno.ETIMEDOUT, "no answer within connect_timeout_seconds = 0.5"),
        (errno.ENOBUFS, "no buffer space available"),
    ],
)
def test_an_error_of_the_system_is_told_without_its_number(number: int, words: str) -> None:
    assert of_system(OSError(number, os.strerror(number)), 0.5) == words


def test_an_error_of_the_system_without_a_number_is_told_by_its_message() -> None:
    assert of_system(OSError("Nothing works"), 1) == "nothing works"


def test_errors_of_tls_are_told_in_words() -> None:
    def tls(reason: str) -> ssl.SSLError:
        error = ssl.SSLError(1, f"[SSL: {reason}] {reason.lower()} (_ssl.c:1006)")
        error.reason = reason
        return error

    assert of_tls(tls("WRONG_VERSION_NUMBER"), 20) == "the server does not speak TLS on this port"
    assert of_tls(tls("BAD_ECPOINT"), 20) == "bad ecpoint"
    assert of_tls(ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), 20) == "the server hung up"
    assert of_tls(ConnectionResetError(errno.ECONNRESET, "Connection reset"), 20) == "reset by the server"
    assert of_tls(TimeoutError("timed out"), 20) == "no answer within connect_timeout_seconds = 20"
    assert of_tls(ValueError("server_hostname cannot start with a dot"), 20).startswith("server_hostname")


@pytest.mark.parametrize(
    ("number", "reason"), [(socket.EAI_NONAME, ""), (socket.EAI_AGAIN, "DNS gave no answer")]
)
def test_a_name_that_is_not_found_is_told_apart_from_dns_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def look_up(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(number, "it failed")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(Unresolvable) as found:
        system_lookup("a.example")
    assert found.value.reason == reason


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        (["public"], "10.0.0.1 is not public"),
        (["loopback"], "10.0.0.1 is not among allowed_addresses"),
        (["10.1.0.0/16"], "10.0.0.1 is not among allowed_addresses"),
    ],
)
def test_an_address_that_is_refused_is_named_with_the_rule(allowed: list[str], reason: str) -> None:
    assert AddressRule.parse(allowed).refusal("10.0.0.1") == reason


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda: check_beginning(b"SSH-2.0-OpenSSH_9.6\r\n"), 'it begins with "SSH-2.0-OpenSSH_9.6"'),
        (lambda: parse_head(b"HTTP/1.1 abc\r\n\r\n"), 'no status line, but "HTTP/1.1 abc"'),
        (lambda: parse_head(b"HTTP/1.1 200\0\r\n\r\n"), "a zero byte in the head"),
        (lambda: list(Chunked().feed(b"xyz\r\n")), '"xyz" is no size of a chunk'),
        (lambda: list(Chunked().feed(b"1\r\nabc\r\n")), "a chunk is longer than it says"),
        (
            lambda: framing(parse_head(b"HTTP/1.1 200\r\nContent-Length: many\r\n\r\n")),
            'Content-Length "many" is no length',
        ),
        (
            lambda: framing(parse_head(b"HTTP/1.1 200\r\nTransfer-Encoding: br\r\n\r\n")),
            'Transfer-Encoding "br", which nobody asked for',
        ),
    ],
)
def test_an_answer_that_is_not_http_is_told_with_the_rule_that_it_breaks(
    read: Callable[[], object], reason: str
) -> None:
    with pytest.raises(ProtocolError) as found:
        read()
    assert found.value.reason == reason


def test_what_a_server_sent_is_shown_cut_and_in_ascii() -> None:
    assert shown(b"\x1b[2J\xff" + b"a" * 100) == '"?[2J?' + "a" * 35 + '…"'


def test_an_error_of_the_node_is_told_with_its_type() -> None:
    assert reason_of(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
    assert reason_of(FetchFailure("for the log", "for people")) == "for people"
    assert reason_of(FetchFailure("for both")) == "for both"
