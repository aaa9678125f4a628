"""Callers: who is who by which credentials, what each may act on, and files that say so."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from toehold_base.access import callers_file
from toehold_base.access.callers import Caller, Callers
from toehold_base.access.callers_file import CallerRow, CallersInvalid
from toehold_base.access.denials import AccessDenied, PermissionDenied, Unauthenticated
from toehold_base.access.files import mark_of
from toehold_base.access.roles import Role
from toehold_base.access.shown import CALLER_KEY, Shown, named_by, shown_by
from toehold_base.access.tokens import bearer, digest_of, looks_like_token, new_token, token_in
from toehold_cli.access.authority import Authority

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GET_CRAWL = "toehold.frontier.v1.FrontierAdminService/GetCrawl"
TOKEN = "toehold_0123456789_" + "a" * 43


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "callers.toml"
    path.write_text(text)
    return path


def row(*more: str, token: str = TOKEN) -> str:
    """The caller alice, with one token, and further lines of the token."""
    lines = (f'id = "0123456789"\nsha256 = "{digest_of(token)}"\nmade = 2026-11-01T00:00:00Z', *more)
    return '[callers.alice]\nroles = ["operate"]\n[[callers.alice.tokens]]\n' + "\n".join(lines) + "\n"


def shown(token: str = TOKEN) -> Shown:
    return Shown(bearer(token), b"")


def denial(callers: Callers, credentials: Shown, now: datetime = NOW) -> AccessDenied:
    with pytest.raises(Unauthenticated) as denied:
        callers.identified(credentials, now)
    return denied.value


def test_a_name_that_a_front_has_identified_counts_as_long_as_it_is_known(tmp_path: Path) -> None:
    callers = Callers(file_of(tmp_path, row()))
    assert callers.identified(Shown("", b"", "alice"), NOW).roles == {Role.OPERATE}
    assert denial(callers, Shown("", b"", "mallory")).reason == "CALLER_UNKNOWN"
    revoked = Callers(file_of(tmp_path, row().replace("roles", "revoked = 2026-11-26T11:00:00Z\nroles")))
    assert denial(revoked, Shown("", b"", "alice")).reason == "CALLER_REVOKED"


def test_only_the_front_names_callers_in_metadata() -> None:
    metadata = ((CALLER_KEY, "alice"), ("authorization", bearer(TOKEN)))
    assert shown_by(metadata, {}) == Shown(bearer(TOKEN), b"")
    assert named_by(metadata) == Shown("", b"", "alice")
    assert named_by(metadata[1:]) == Shown("", b"")
    assert named_by(((CALLER_KEY, ""),)) is None


def test_a_token_names_its_caller(tmp_path: Path) -> None:
    caller = Callers(file_of(tmp_path, row())).identified(shown(), NOW)
    assert (caller.name, caller.roles, caller.crawls, caller.nodes) == (
        "alice",
        frozenset({Role.OPERATE}),
        None,
        ("alice",),
    )


@pytest.mark.parametrize(
    ("more", "credentials", "reason", "words"),
    [
        ("", Shown("", b""), "CREDENTIALS_MISSING", "no credentials; send a token, or"),
        ("", Shown("Basic abc", b""), "TOKEN_UNKNOWN", "authorization must be `Bearer TOKEN`"),
        ("", Shown("Bearer ", b""), "TOKEN_UNKNOWN", "authorization must be `Bearer TOKEN`"),
        ("", Shown("Bearer " + "x" * 600, b""), "TOKEN_UNKNOWN", "authorization must be"),
        ("", shown("another"), "TOKEN_UNKNOWN", "does not know the token"),
        (
            "expires = 2026-11-26T11:00:00Z",
            shown(),
            "TOKEN_EXPIRED",
            "0123456789 of caller 'alice' expired at 2026-11-26 11:00:00 UTC",
        ),
        (
            "revoked = 2026-11-26T12:00:00+01:00",
            shown(),
            "TOKEN_REVOKED",
            "was revoked at 2026-11-26 11:00:00 UTC",
        ),
    ],
)
def test_credentials_that_are_missing_wrong_expired_or_revoked_are_told_apart(
    tmp_path: Path, more: str, credentials: Shown, reason: str, words: str
) -> None:
    denied = denial(Callers(file_of(tmp_path, row(more))), credentials)
    assert denied.reason == reason
    assert words in str(denied)


def test_a_token_counts_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    callers = Callers(
        file_of(tmp_path, row("expires = 2026-11-26T13:00:00Z", "revoked = 2026-11-26T12:30:00Z"))
    )
    assert callers.identified(shown(), NOW + HOUR / 2 - timedelta(seconds=1)).name == "alice"
    assert denial(callers, shown(), NOW + HOUR / 2).reason == "TOKEN_REVOKED"


def test_a_revoked_caller_has_no_rights_whatever_it_shows(tmp_path: Path) -> None:
    text = row().replace('roles = ["operate"]', 'roles = ["operate"]\nrevoked = 2026-11-26T11:00:00Z')
    callers = Callers(file_of(tmp_path, text))
    assert callers.identified(shown(), NOW - 2 * HOUR).name == "alice"
    denied = denial(callers, shown())
    assert (denied.reason, str(denied)) == (
        "CALLER_REVOKED",
        "caller 'alice' was revoked at 2026-11-26 11:00:00 UTC",
    )


def test_a_certificate_names_its_caller_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    made = Authority(tmp_path / "certs").issue("alice", (), 1, renew=False)
    certificate = Shown("", made.cert.read_bytes())
    now = datetime.now(UTC)
    path = file_of(tmp_path, '[callers.alice]\nroles = ["watch"]\n')
    callers = Callers(path)
    assert callers.identified(certificate, now).roles == {Role.WATCH}
    assert denial(callers, certificate, now + timedelta(days=2)).reason == "CERTIFICATE_EXPIRED"
    path.write_text(f'[callers.alice]\nroles = ["watch"]\nrevoked_certificates = ["{made.serial}"]\n')
    assert callers.reload_if_changed()
    assert denial(callers, certificate, now).reason == "CERTIFICATE_REVOKED"
    renewed = Authority(tmp_path / "certs").issue("alice", (), 1, renew=True)
    assert callers.identified(Shown("", renewed.cert.read_bytes()), now).name == "alice"


@pytest.mark.parametrize(
    ("of_bob", "later", "reason"),
    [
        ("", timedelta(), ""),
        ('revoked_certificates = ["SERIAL"]', timedelta(), "CERTIFICATE_REVOKED"),
        ("revoked = 2026-01-01T00:00:00Z", timedelta(), "CALLER_REVOKED"),
        ("", timedelta(days=2), "CERTIFICATE_EXPIRED"),
    ],
)
def test_a_valid_token_does_not_admit_a_revoked_certificate(
    tmp_path: Path, of_bob: str, later: timedelta, reason: str
) -> None:
    """Somebody who has found both must not get in with both."""
    made = Authority(tmp_path / "certs").issue("bob", (), 1, renew=False)
    bob = f'[callers.bob]\nroles = ["watch"]\n{of_bob.replace("SERIAL", made.serial)}\n'
    callers = Callers(file_of(tmp_path, row() + bob))
    both = Shown(bearer(TOKEN), made.cert.read_bytes())
    now = datetime.now(UTC) + later
    if reason:
        assert denial(callers, both, now).reason == reason
    else:
        assert callers.identified(both, now).name == "alice"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("alice\0.example",), r"is of 'alice\x00.example', who is not among the server's callers"),
        (("alice", "bob"), "must have one common name, the caller's, but has 'alice' and 'bob'"),
        ((), "must have one common name, the caller's, but has none"),
        (("аlice",), "is of 'аlice', who is not among"),  # Cyrillic
    ],
)
def test_a_certificate_with_another_name_is_of_somebody_else(
    tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1, now - HOUR, now + HOUR)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    denied = denial(Callers(file_of(tmp_path, row())), Shown("", made), now)
    assert denied.reason == "CALLER_UNKNOWN"
    assert words in str(denied)


def test_a_certificate_of_nobody_is_refused(tmp_path: Path) -> None:
    made = Authority(tmp_path / "certs").issue("bob", (), 1, renew=False)
    denied = denial(Callers(file_of(tmp_path, row())), Shown("", made.cert.read_bytes()), datetime.now(UTC))
    assert (denied.reason, str(denied)) == (
        "CALLER_UNKNOWN",
        "the client certificate is of 'bob', who is not among the server's callers",
    )


def test_a_token_decides_if_there_is_a_certificate_too(tmp_path: Path) -> None:
    made = Authority(tmp_path / "certs").issue("bob", (), 1, renew=False)
    callers = Callers(file_of(tmp_path, row() + '[callers.bob]\nroles = ["admin"]\n'))
    both = Shown(bearer(TOKEN), made.cert.read_bytes())
    assert callers.identified(both, NOW).name == "alice"
    assert denial(callers, both._replace(authorization=bearer("wrong"))).reason == "TOKEN_UNKNOWN"


# What a caller may act on.


@pytest.mark.parametrize(
    ("nodes", "node", "may"),
    [
        (("north",), "north", True),
        (("north",), "north/1", True),
        (("north",), "northwest", False),
        (("north",), "south", False),
        (("north-*",), "north-7/2", True),
        (("north-*",), "north", False),
        (("*",), "anything", True),
        ((), "north", False),
    ],
)
def test_a_caller_speaks_for_its_own_nodes(nodes: tuple[str, ...], node: str, may: bool) -> None:
    caller = Caller("somebody", frozenset({Role.FETCH}), nodes=nodes)
    assert caller.speaks_for(node) is may
    if may:
        caller.check_node(node)
    else:
        with pytest.raises(PermissionDenied, match=f"not for '{node}'"):
            caller.check_node(node)


def test_an_admin_speaks_for_every_node() -> None:
    assert Caller("root", frozenset({Role.ADMIN})).speaks_for("any")


def test_an_admin_of_some_crawls_speaks_for_its_own_nodes() -> None:
    """Others have leases of other crawls."""
    admin = Caller("root", frozenset({Role.ADMIN}), crawls=frozenset({"news"}), nodes=("root",))
    assert admin.speaks_for("root")
    assert not admin.speaks_for("any")


def test_a_caller_acts_on_its_own_crawls() -> None:
    caller = Caller("somebody", frozenset({Role.OPERATE}), crawls=frozenset({"a", "b"}))
    caller.check_crawls(GET_CRAWL, ["a"])
    caller.check_crawls(GET_CRAWL, ["a", ""])
    with pytest.raises(PermissionDenied) as denied:
        caller.check_crawls(GET_CRAWL, ["a", "c"])
    assert str(denied.value) == "caller 'somebody' may act on the crawls 'a' and 'b', not on 'c'"
    with pytest.raises(PermissionDenied, match="and GetCrawl is about all crawls"):
        caller.check_crawls(GET_CRAWL, [""])
    Caller("free", frozenset({Role.WATCH})).check_crawls(GET_CRAWL, ["any"])


# The file.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[callers", "must be TOML"),
        ("[callers.a]\n", "`roles`"),
        ("[callers.a]\nroles = []\n", "callers.a: roles must name at least one of watch, fetch"),
        (
            '[callers.a]\nroles = ["boss"]\n',
            "a role must be one of watch, fetch, feed, operate, admin, got 'boss'",
        ),
        ('[callers.a]\nroles = ["watch"]\nrole = 1\n', "unknown field `role`"),
        ('[callers." a"]\nroles = ["watch"]\n', "without blanks at its ends, got ' a'"),
        ('[callers."a*"]\nroles = ["watch"]\n', "without * and without blanks at its ends, got 'a*'"),
        (
            '[callers.a]\nroles = ["watch"]\nrevoked_certificates = ["serial=0A"]\n',
            "callers.a.revoked_certificates: a serial number must have hexadecimal digits, such as 1f3a, got",
        ),
        ('[callers.a]\nroles = ["watch"]\nmax_calls = 0\n', "`int` >= 1"),
        ('[callers.a]\nroles = ["watch"]\nrevoked = 2026-11-26T12:00:00\n', "timezone"),
        (row().replace(digest_of(TOKEN), "abc"), "sha256"),
        (
            row() + row().replace("alice", "bob"),
            "callers.bob: token 0123456789 is also one of alice; list it once",
        ),
    ],
)
def test_a_file_with_a_fault_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(CallersInvalid) as invalid:
        callers_file.read(path)
    assert str(invalid.value).startswith(f"callers file {path}: ")
    assert words in str(invalid.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallersInvalid, match="No such file"):
        callers_file.read(tmp_path / "none.toml")


def test_a_file_that_becomes_unusable_leaves_the_callers_as_they_were_and_is_told_once(
    tmp_path: Path,
) -> None:
    path = file_of(tmp_path, row())
    callers = Callers(path)
    assert not callers.reload_if_changed()
    path.write_text("nonsense")
    with pytest.raises(CallersInvalid):
        callers.reload_if_changed()
    assert not callers.reload_if_changed()
    assert callers.identified(shown(), NOW).name == "alice"
    path.write_text(row(token="new"))
    assert callers.reload_if_changed()
    assert denial(callers, shown()).reason == "TOKEN_UNKNOWN"
    assert callers.identified(shown("new"), NOW).name == "alice"
    path.unlink()
    with pytest.raises(CallersInvalid):
        callers.reload_if_changed()
    assert callers.identified(shown("new"), NOW).name == "alice"


def test_a_file_without_callers_counts_as_one_that_somebody_writes(tmp_path: Path) -> None:
    path = file_of(tmp_path, row())
    callers = Callers(path)
    path.write_text("")
    with pytest.raises(CallersInvalid, match="must have a caller, but has none; 'toehold callers set"):
        callers.reload_if_changed()
    assert callers.identified(shown(), NOW).name == "alice"
    with pytest.raises(CallersInvalid, match="must have a caller"):
        Callers(path)


def test_a_file_that_changes_while_it_is_read_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(tmp_path, row())
    callers = Callers(path)
    path.write_text(row(token="half"))
    read = callers_file.read

    def writing(read_path: Path) -> Mapping[str, CallerRow]:
        found = read(read_path)
        path.write_text(row(token="whole"))
        return found

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(callers_file, "read", writing)
        assert not callers.reload_if_changed()
    assert callers.identified(shown(), NOW).name == "alice"
    assert callers.reload_if_changed()
    assert callers.identified(shown("whole"), NOW).name == "alice"


def test_a_file_changes_with_the_right_to_read_it(tmp_path: Path) -> None:
    """Or a key would stay unread whose owner is put right after it was copied."""
    path = file_of(tmp_path, row())
    path.chmod(0o600)
    mark = mark_of(path)
    assert mark == mark_of(path)
    path.chmod(0o644)
    assert mark != mark_of(path)


@pytest.mark.parametrize("spelled", ["{:x}", "{:X}", "0x0{:x}", "00:{:x}"])
def test_a_certificate_is_revoked_however_its_serial_number_is_spelled(tmp_path: Path, spelled: str) -> None:
    cert = Authority(tmp_path / "certs").issue("alice", [], 1, renew=False)
    serial = spelled.format(int(cert.serial, 16))
    path = file_of(tmp_path, f'[callers.alice]\nroles = ["watch"]\nrevoked_certificates = ["{serial}"]\n')
    presented = Shown("", cert.cert.read_bytes())
    assert denial(Callers(path), presented, datetime.now(UTC)).reason == "CERTIFICATE_REVOKED"


def test_tokens_are_random_and_only_their_digests_are_kept() -> None:
    made, other = new_token(), new_token()
    assert looks_like_token(made.text)
    assert made.text != other.text
    assert made.id in made.text
    assert made.digest == digest_of(made.text)
    assert token_in(bearer(made.text)) == made.text
    assert token_in(f"bearer   {made.text}") == made.text
