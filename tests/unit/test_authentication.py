"""Basic and Digest: what is answered to which challenge."""

import base64
import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.authentication import Challenge, authorization, challenged


def test_the_example_of_the_standard_comes_out() -> None:
    """RFC 2617 3.5, which RFC 7616 keeps valid."""
    asked = (
        b'Digest realm="testrealm@host.com", qop="auth,auth-int", '
        b'nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41"'
    )
    answer = authorization([asked], "Mufasa", "Circle Of Life", "/dir/index.html", "0a4f113b")
    assert answer is not None
    (said,) = challenged(answer)
    assert said.scheme == "digest"
    assert said.parameters == {
        "username": "Mufasa",
        "realm": "testrealm@host.com",
        "nonce": "dcd98b7102dd2f0e8b11d0f600bfb0c093",
        "uri": "/dir/index.html",
        "qop": "auth",
        "nc": "00000001",
        "cnonce": "0a4f113b",
        "response": "6629fae49393a05397450978507c4ef1",
        "opaque": "5ccc069c403ebaf9f0171e9517f40e41",
        "algorithm": "MD5",
    }


@pytest.mark.parametrize("qop", ["", ', qop="auth"', ", qop=auth", ', qop="auth-int,auth"'])
@pytest.mark.parametrize("algorithm", ["", ", algorithm=MD5", ", algorithm=sha-256", ", algorithm=MD5-sess"])
def test_another_implementation_says_the_same(
    monkeypatch: pytest.MonkeyPatch, qop: str, algorithm: str
) -> None:
    monkeypatch.setattr(httpx.DigestAuth, "_get_client_nonce", lambda *_: b"0a4f113b")
    header = f'Digest realm="Some realm", nonce="abc=="{qop}{algorithm}, opaque="5ccc"'
    flow = httpx.DigestAuth("user", "secret").auth_flow(httpx.Request("GET", "http://h.example/a?b=c"))
    next(flow)
    asked = httpx.Request("GET", "http://h.example/")
    theirs = flow.send(httpx.Response(401, headers={"WWW-Authenticate": header}, request=asked))
    ours = authorization([header.encode()], "user", "secret", "/a?b=c", "0a4f113b")
    assert ours is not None
    said = challenged(theirs.headers["authorization"].encode())[0].parameters
    assert said.items() <= challenged(ours)[0].parameters.items() | {("algorithm", said["algorithm"])}


def test_basic_is_answered_with_name_and_password() -> None:
    answer = authorization([b'Basic realm="r", charset="UTF-8"'], "us\u00e9r", "se:cret", "/")
    assert answer == b"Basic " + base64.b64encode("us\u00e9r:se:cret".encode())


def test_digest_goes_before_basic_and_what_is_not_understood_is_passed_over() -> None:
    basic, digest = b'Basic realm="r"', b'Digest realm="r", nonce="n", algorithm=%s'
    for headers in ([basic, digest % b"MD5"], [basic + b", " + digest % b"MD5"], [digest % b"MD5", basic]):
        assert (authorization(headers, "u", "p", "/") or b"").startswith(b"Digest ")
    for unknown in (digest % b"SHA-1024", b'Digest nonce="n", qop="auth-int"', b'Digest realm="r"'):
        assert authorization([unknown], "u", "p", "/") is None
        assert (authorization([unknown, basic], "u", "p", "/") or b"").startswith(b"Basic ")
    assert b"algorithm=MD5" in (authorization([digest % b"X", digest % b"MD5"], "u", "p", "/") or b"")


@pytest.mark.parametrize(
    "header", [b"", b"Bearer", b"NTLM TlRM==", b'realm="r"', b",,,", b'Negotiate, x="Basic']
)
def test_what_asks_for_something_else_is_not_answered(header: bytes) -> None:
    assert authorization([header], "u", "p", "/") is None
    assert authorization([], "u", "p", "/") is None


def test_every_algorithm_of_the_standard_is_known() -> None:
    """RFC 7616 6.1."""
    for algorithm in (b"MD5", b"MD5-sess", b"SHA-256", b"SHA-256-sess", b"SHA-512-256", b"SHA-512-256-sess"):
        answer = authorization([b'Digest nonce="n", algorithm=' + algorithm], "u", "p", "/")
        assert answer is not None and algorithm.upper() in answer


def test_a_name_cannot_break_out_of_its_quotes() -> None:
    answer = authorization([b'Digest nonce="n"'], 'u", x="', "p", "/")
    assert answer is not None and b'username="u\\", x=\\""' in answer
    assert authorization([b'Digest nonce="n"'], "u\r\nX: y", "p", "/") is None


def test_a_name_is_hidden_from_a_server_that_wants_it_hashed() -> None:
    answer = authorization([b'Digest realm="r", nonce="n", userhash=true'], "somebody", "p", "/")
    assert answer is not None and b"somebody" not in answer and b"userhash=true" in answer


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b'Basic realm="a, b"', [("basic", {"realm": "a, b"})]),
        (b"Basic", [("basic", {})]),
        (b"Basic, Digest nonce = n", [("basic", {}), ("digest", {"nonce": "n"})]),
        (b'Basic realm="a" , Realm="b"', [("basic", {"realm": "a"})]),
        (b'BASIC realm="x\\"y", NTLM a==, b=c', [("basic", {"realm": 'x"y', "b": "c"})]),
        (b'Newauth realm="apps", type=1, title="Login", Basic realm="s"', None),
        (b'Digest realm="open', [("digest", {})][:0]),
    ],
)
def test_challenges_are_told_apart(header: bytes, expected: list[tuple[str, dict[str, str]]] | None) -> None:
    found = challenged(header)
    if expected is None:  # RFC 9110 11.6.1
        assert [each.scheme for each in found] == ["newauth", "basic"]
        assert found[0].parameters == {"realm": "apps", "type": "1", "title": "Login"}
    else:
        assert found == [Challenge(scheme, parameters) for scheme, parameters in expected]


@given(st.binary(max_size=300) | st.text('Digest nonce=",\\ ', max_size=200).map(str.encode))
def test_whatever_is_asked_is_answered_or_not(header: bytes) -> None:
    answer = authorization([b'Basic realm="r", ' + header], "u", "p", "/")
    assert answer is None or answer.startswith((b"Basic ", b"Digest "))


@pytest.mark.parametrize("piece", [b'"', b"a=", b"a ", b",", b'\\"', b'x="', b'="a",', b" = "])
def test_a_long_challenge_costs_little(piece: bytes) -> None:
    started_s = time.thread_time()
    challenged(b"Digest " + piece * 100_000)
    assert time.thread_time() - started_s < 1
