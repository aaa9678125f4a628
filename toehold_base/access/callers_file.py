"""The file of a server's callers (TOML): who they are, their roles, and the digests of their tokens.

    [callers.alice]
    roles = ["operate"]
    [[callers.alice.tokens]]
    id = "0a1b2c3d4e"
    sha256 = "…"
    made = 2026-11-26T12:00:00Z

`toehold callers`, `toehold tokens` and `toehold certs revoke` write it; people may edit it as well.
"""

import re
import tomllib  # interpreted, so that other threads run meanwhile; tomli is compiled
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from .roles import Role

MAX_NAME_CHARACTERS = 128
MAX_FILE_BYTES = 16 * 1024 * 1024

_NAME = re.compile(rf"(?!.*\*)[!-~](?:[ -~]{{0,{MAX_NAME_CHARACTERS - 2}}}[!-~])?")
_SERIAL = re.compile(r"[0-9a-f]{1,64}")
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class CallersInvalid(Exception):
    """The file cannot be used; the message says why, and what would be right."""


class TokenRow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A token of a caller."""

    id: str
    sha256: _Digest
    made: _Moment
    expires: _Moment | None = None
    revoked: _Moment | None = None


class CallerRow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    roles: list[str]
    crawls: list[str] | None = None  # that it may act on; None: all
    nodes: list[str] | None = None  # that it may speak for; None: the one with its own name
    max_calls: _Count | None = None  # open at once
    max_candidates_per_second: _Count | None = None
    revoked: _Moment | None = None  # with all of its credentials
    revoked_certificates: list[str] = []  # serial numbers, in hexadecimal digits
    tokens: list[TokenRow] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    callers: dict[str, CallerRow] = {}


def read(path: Path) -> Mapping[str, CallerRow]:
    """The callers in a file, by name. Raises CallersInvalid."""
    try:
        return parsed(text_of(path))
    except (ValueError, RecursionError) as problem:
        raise CallersInvalid(f"callers file {path}: {problem}") from problem


def text_of(path: Path) -> str:
    """The text of a file. Raises CallersInvalid."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise CallersInvalid(f"callers file {path} must have at most {MAX_FILE_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as problem:
        raise CallersInvalid(f"callers file {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise CallersInvalid(
            f"callers file {path} must be UTF-8 text, but byte {problem.start} is not"
        ) from problem


def parsed(text: str) -> Mapping[str, CallerRow]:
    """The callers in the text of a file. Raises ValueError."""
    try:
        callers = msgspec.convert(tomllib.loads(text), _File).callers
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"it must be TOML: {problem}") from problem
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem)) from problem
    owners: dict[str, str] = {}
    for name, row in callers.items():
        check_name(name)
        try:
            roles_named(row.roles)
        except ValueError as problem:
            raise ValueError(f"callers.{name}: {problem}") from None
        for token in row.tokens:
            if token.sha256 in owners:
                raise ValueError(
                    f"callers.{name}: token {token.id} is also one of {owners[token.sha256]}; list it once"
                )
            owners[token.sha256] = name
        for serial in row.revoked_certificates:
            try:
                normal_serial(serial)
            except ValueError as problem:
                raise ValueError(f"callers.{name}.revoked_certificates: {problem}") from None
    return callers


def check_name(name: str) -> None:
    """Raise ValueError unless a caller may have this name."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"a caller's name must have 1 to {MAX_NAME_CHARACTERS} printable ASCII characters, without * and"
            f" without blanks at its ends, got {name!r:.200}"
        )


def normal_serial(text: str) -> str:
    """A certificate's serial number in our spelling, from one as OpenSSL or browsers show it (`0A:1B`).
    Raises ValueError."""
    digits = text.lower().removeprefix("0x").replace(":", "")
    if _SERIAL.fullmatch(digits) is None:
        raise ValueError(f"a serial number must have hexadecimal digits, such as 1f3a, got {text!r:.80}")
    return f"{int(digits, 16):x}"


def roles_named(names: list[str]) -> frozenset[Role]:
    """The roles with these names. Raises ValueError."""
    known = {role.value: role for role in Role}
    for name in names:
        if name not in known:
            raise ValueError(f"a role must be one of {', '.join(known)}, got {name!r:.80}")
    if not names:
        raise ValueError(f"roles must name at least one of {', '.join(known)}, got none")
    return frozenset(known[name] for name in names)
