"""Answers a server's challenge: Basic (RFC 7617) and Digest (RFC 7616). Pure, except for random numbers."""

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

MAX_CHALLENGE_BYTES = 8192
"""The part of all WWW-Authenticate headers that is read."""


@dataclass(slots=True)
class Challenge:
    """One way to authenticate that a server offers. Its scheme and the names of its parameters are in lower
    case; values have no quotes and escapes."""

    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)


def authorization(
    headers: Iterable[bytes], user: str, password: str, target: str, cnonce: str | None = None
) -> bytes | None:
    """The Authorization header for a GET of `target` (path and query) that was answered 401.

    `headers` are the WWW-Authenticate headers of that answer. Digest goes before Basic, which shows the
    password to anybody who listens. None if the server offers neither in an understood way. `cnonce` is
    random by default.
    """
    challenges = challenged(b", ".join(headers))
    for challenge in challenges:
        if challenge.scheme == "digest":
            answer = _digest(challenge.parameters, user, password, target, cnonce or secrets.token_hex(8))
            if answer is not None:
                return answer
    if any(challenge.scheme == "basic" for challenge in challenges):
        return b"Basic " + base64.b64encode(f"{user}:{password}".encode())
    return None


def challenged(header: bytes) -> list[Challenge]:
    """The challenges of a WWW-Authenticate header, or of several joined by commas (RFC 9110 11.6.1)."""
    challenges: list[Challenge] = []
    for item in _ITEM.findall(header[:MAX_CHALLENGE_BYTES].decode("latin-1")):
        match = _CHALLENGE_ITEM.fullmatch(item.strip())
        if match is None:
            continue
        scheme, name, quoted, token = match.groups()
        value = token if quoted is None else _ESCAPE.sub(r"\1", quoted)
        if scheme or value is None:
            challenges.append(Challenge((scheme or name).lower()))
        if value is not None and challenges:
            challenges[-1].parameters.setdefault(name.lower(), value)
    return challenges


def _digest(challenge: dict[str, str], user: str, password: str, target: str, cnonce: str) -> bytes | None:
    algorithm = challenge.get("algorithm", "MD5").upper()
    hashed = _HASHES.get(algorithm.removesuffix("-SESS"))
    qops = [each.strip().lower() for each in challenge["qop"].split(",")] if "qop" in challenge else None
    if hashed is None or "nonce" not in challenge or (qops is not None and "auth" not in qops):
        return None

    def digest(*parts: bytes) -> bytes:
        return hashed(b":".join(parts)).hexdigest().encode()

    name = user.encode()
    realm, nonce = challenge.get("realm", "").encode("latin-1"), challenge["nonce"].encode("latin-1")
    chance, uri = cnonce.encode(), target.encode()
    secret = digest(name, realm, password.encode())
    if algorithm.endswith("-SESS"):
        secret = digest(secret, nonce, chance)
    rounds = [] if qops is None else [b"00000001", chance, b"auth"]
    userhash = challenge.get("userhash", "").lower() == "true"
    fields = [
        b'username="%s"' % (digest(name, realm) if userhash else _escaped(name)),
        b'realm="%s"' % _escaped(realm),
        b'nonce="%s"' % _escaped(nonce),
        b'uri="%s"' % uri,
        b'response="%s"' % digest(secret, nonce, *rounds, digest(b"GET", uri)),
        b"algorithm=%s" % algorithm.encode(),
        b'cnonce="%s"' % chance,
    ]
    if "opaque" in challenge:
        fields.append(b'opaque="%s"' % _escaped(challenge["opaque"].encode("latin-1")))
    if qops is not None:
        fields += [b"qop=auth", b"nc=00000001"]
    if userhash:
        fields.append(b"userhash=true")
    answer = b"Digest " + b", ".join(fields)
    return None if _CONTROL.search(answer) else answer


def _escaped(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


_HASHES: dict[str, Callable[[bytes], "hashlib._Hash"]] = {
    "MD5": partial(hashlib.md5, usedforsecurity=False),
    "SHA-256": hashlib.sha256,
}
if "sha512_256" in hashlib.algorithms_available:  # OpenSSL may have been built without it
    _HASHES["SHA-512-256"] = partial(hashlib.new, "sha512_256")
_TOKEN = r"[\w!#$%&'*+.^`|~-]"
_ITEM = re.compile(r'(?:[^",]++|"(?:[^"\\]++|\\.)*+"?+)++', re.DOTALL)
"""The text between commas that are not quoted."""
_CHALLENGE_ITEM = re.compile(
    rf'(?:({_TOKEN}++)[ \t]++)?({_TOKEN}++)[ \t]*+(?:=[ \t]*+(?:"((?:[^"\\]++|\\.)*+)"|({_TOKEN}++)))?',
    re.ASCII | re.DOTALL,
)
"""A scheme, a parameter, or both."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
