"""`toehold callers`, `tokens` and `certs`: files that servers can use, and errors that say what is right."""

import json
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from frontier_harness.command_line import toehold_of

from toehold_base.access import callers_file
from toehold_base.access.callers import Callers
from toehold_base.access.pem import check_pair, read_authority
from toehold_base.access.shown import Shown


class Shell:
    """A shell in a directory of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._toehold = toehold_of(capsys)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return self._toehold(*words)

    def done(self, *words: str) -> str:
        """What a command prints that succeeds."""
        code, output, errors = self(*words)
        assert (code, errors) == (0, "")
        return output

    def said(self, *words: str) -> list[Any]:
        """The objects that it prints with --json."""
        return [json.loads(line) for line in self.done(*words, "--json").splitlines()]

    def callers(self) -> Any:
        return callers_file.read(self.folder / "callers.toml")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


# Callers.


def test_a_caller_is_added_and_changed_setting_by_setting(shell: Shell) -> None:
    assert shell.done("callers", "set", "north", "--role", "fetch") == "north: added\n"
    more = ("--node", "rack-*", "--crawl", "news", "--max-calls", "9", "--max-candidates-per-second", "7")
    assert shell.done("callers", "set", "north", *more) == "north: changed\n"
    row = shell.callers()["north"]
    assert (row.roles, row.nodes, row.crawls) == (["fetch"], ["rack-*"], ["news"])
    assert (row.max_calls, row.max_candidates_per_second) == (9, 7)
    shell.done(
        "callers", "set", "north", "--role", "fetch", "--role", "watch", "--crawl", "all", "--max-calls", "0"
    )
    row = shell.callers()["north"]
    assert (row.roles, row.crawls, row.max_calls, row.nodes) == (["fetch", "watch"], None, None, ["rack-*"])


def test_the_callers_are_listed(shell: Shell) -> None:
    shell.done("callers", "set", "north", "--role", "fetch")
    shell.done("callers", "set", "alice", "--role", "operate", "--crawl", "news")
    shell.done("tokens", "create", "alice")
    lines = [line.split() for line in shell.done("callers").splitlines()]
    assert lines == [
        ["caller", "roles", "crawls", "nodes", "tokens", "state"],
        ["north", "fetch", "all", "north", "0", "valid"],
        ["alice", "operate", "news", "alice", "1", "valid"],
    ]
    shell.done("callers", "revoke", "alice")
    assert [each["revoked"] is not None for each in shell.said("callers")] == [False, True]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("callers", "set", "bob"), 2, "Nothing to change. Give at least one --role"),
        (
            ("callers", "set", "bob", "--crawl", "a"),
            2,
            "is new, so it needs at least one --role",
        ),
        (("callers", "set", "bob", "--role", "boss"), 2, "'boss' is not one of 'watch', 'fetch', 'feed'"),
        (("callers", "set", " bob", "--role", "watch"), 2, "without blanks at its ends, got ' bob'"),
        (("callers", "set", "b\x01b", "--role", "watch"), 2, "printable ASCII characters"),
        (
            ("callers", "revoke", "bob"),
            2,
            "it has alice. To add it: toehold callers set bob",
        ),
        (("tokens", "create", "bob"), 2, "has no caller 'bob'; it has alice"),
        (("tokens", "create", "alice", "--days", "0"), 2, "must be between 1 and 36500, got 0"),
        (("tokens", "revoke", "0123"), 2, "callers.toml has no token '0123'; 'toehold tokens' lists them"),
        (("tokens", "create", "alice", "--output", "no/such/file"), 2, "no/such/file cannot be written"),
        (("certs",), 2, "certs has no authority; 'toehold certs create' makes one"),
        (("certs", "revoke", "none.crt"), 2, "none.crt: No such file"),
        (("callers", "--callers", "missing.toml"), 2, "callers file missing.toml: No such file"),
        (("callers", "set", "b", "--role", "watch", "--callers", "no/f"), 2, "directory no: No such file"),
    ],
)
def test_errors_say_what_is_right_and_change_nothing(
    shell: Shell, words: tuple[str, ...], code: int, told: str
) -> None:
    shell.done("callers", "set", "alice", "--role", "operate")
    before = (shell.folder / "callers.toml").read_bytes()
    ended, _, errors = shell(*words)
    assert (ended, told in " ".join(errors.split())) == (code, True), errors
    if words[1:2] != ("create",) or "--output" not in words:
        assert (shell.folder / "callers.toml").read_bytes() == before


def test_comments_in_the_file_stay_and_a_faulty_file_is_left_alone(shell: Shell) -> None:
    path = shell.folder / "callers.toml"
    path.write_text('# mine\n[callers.alice]  # the boss\nroles = ["admin"]\n')
    shell.done("callers", "set", "bob", "--role", "watch")
    shell.done("tokens", "create", "alice")
    assert path.read_text().startswith('# mine\n[callers.alice]  # the boss\nroles = ["admin"]\n')
    path.write_text("[callers")
    assert shell("callers", "set", "carol", "--role", "watch")[0] == 2
    assert path.read_text() == "[callers"


def test_a_new_callers_file_is_readable_by_its_owner_alone(shell: Shell) -> None:
    shell.done("callers", "set", "alice", "--role", "admin")
    assert stat.S_IMODE((shell.folder / "callers.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o400])
def test_a_changed_callers_file_keeps_its_permissions(shell: Shell, mode: int) -> None:
    """Or a server that runs as another user could not read it any more."""
    shell.done("callers", "set", "alice", "--role", "admin")
    path = shell.folder / "callers.toml"
    path.chmod(mode)
    shell.done("callers", "set", "bob", "--role", "watch")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_to_the_file_stays(shell: Shell) -> None:
    shell.done("callers", "set", "a", "--role", "watch")
    (shell.folder / "link.toml").symlink_to("callers.toml")
    shell.done("callers", "set", "b", "--role", "watch", "--callers", "link.toml")
    assert (shell.folder / "link.toml").is_symlink()
    assert list(shell.callers()) == ["a", "b"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away: run the tests as root")
def test_the_file_keeps_its_owner(shell: Shell) -> None:
    """Or a server could not read it after root has changed it."""
    shell.done("callers", "set", "a", "--role", "watch")
    os.chown(shell.folder / "callers.toml", 12345, 12346)
    shell.done("callers", "revoke", "a")
    found = (shell.folder / "callers.toml").stat()
    assert (found.st_uid, found.st_gid) == (12345, 12346)


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o640, 0o640), (0o400, 0o400)])
def test_a_secret_file_is_for_everybody_no_more(shell: Shell, before: int, after: int) -> None:
    shell.done("callers", "set", "a", "--role", "watch")
    token = shell.folder / "token"
    token.touch()
    token.chmod(before)
    shell.done("tokens", "create", "a", "--output", "token")
    assert stat.S_IMODE(token.stat().st_mode) == after


def test_a_token_that_cannot_be_written_is_revoked(shell: Shell) -> None:
    shell.done("callers", "set", "a", "--role", "watch")
    code, _, errors = shell("tokens", "create", "a", "--output", "none/token")
    assert (code, errors) == (2, "Error: none/token cannot be written: No such file or directory\n")
    assert [token["state"] for token in shell.said("tokens")] == ["revoked"]


def test_a_directory_that_cannot_be_made_is_named(shell: Shell) -> None:
    (shell.folder / "file").touch()
    assert shell("certs", "create", "a", "--dir", "file/certs")[2] == "Error: file/certs: Not a directory\n"


def test_a_file_without_end_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers_file, "MAX_FILE_BYTES", 1000)
    words = "callers file /dev/zero must have at most 1000 bytes"
    assert words in shell("callers", "set", "a", "--role", "watch", "--callers", "/dev/zero")[2]


def test_the_file_is_named_by_option_or_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.done("callers", "set", "a", "--role", "watch", "--callers", "one.toml")
    monkeypatch.setenv("TOEHOLD_CALLERS", "two.toml")
    shell.done("callers", "set", "b", "--role", "watch")
    assert (list(callers_file.read(Path("one.toml"))), list(callers_file.read(Path("two.toml")))) == (
        ["a"],
        ["b"],
    )


# Tokens.


def test_a_token_names_its_caller_and_is_nowhere_but_in_its_file(shell: Shell) -> None:
    shell.done("callers", "set", "alice", "--role", "operate")
    shown = shell.done("tokens", "create", "alice", "--output", "token", "--days", "3")
    token = (shell.folder / "token").read_text().strip()
    assert token not in shown + (shell.folder / "callers.toml").read_text()
    assert stat.S_IMODE((shell.folder / "token").stat().st_mode) == 0o600
    callers = Callers(shell.folder / "callers.toml")
    now = datetime.now(UTC)
    assert callers.identified(Shown(f"Bearer {token}", b""), now).name == "alice"
    (listed,) = shell.said("tokens")
    assert (listed["caller"], listed["state"]) == ("alice", "valid")
    until = datetime.strptime(listed["expires"], "%Y-%m-%d %H:%M:%S %Z").replace(tzinfo=UTC)
    assert timedelta(days=2, hours=23) < until - now <= timedelta(days=3)
    assert shell.done("tokens", "revoke", listed["id"]) == f"{listed['id']}: revoked (alice)\n"
    assert [each["state"] for each in shell.said("tokens")] == ["revoked"]


def test_a_token_is_printed_alone_so_that_a_program_can_take_it(shell: Shell) -> None:
    shell.done("callers", "set", "alice", "--role", "operate")
    assert re.fullmatch(r"toehold_[0-9a-f]{10}_[\w-]{43}\n", shell.done("tokens", "create", "alice"))


# Certificates.


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_first_certificate_makes_an_authority(shell: Shell) -> None:
    shell.done(
        "certs", "create", "frontier", "--host", "frontier.example", "--host", "192.0.2.1", "--days", "9"
    )
    certs = shell.folder / "certs"
    assert sorted(path.name for path in certs.iterdir()) == [
        "ca.crt",
        "ca.key",
        "frontier.crt",
        "frontier.key",
    ]
    for key in certs.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    read_authority(certs / "ca.crt")
    check_pair(certs / "frontier.crt", certs / "frontier.key")
    made, authority = loaded(certs / "frontier.crt"), loaded(certs / "ca.crt")
    made.verify_directly_issued_by(authority)
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)
    assert timedelta(days=8, hours=23) < made.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=9)


def test_a_certificate_without_hosts_is_good_for_calling_only(shell: Shell) -> None:
    shell.done("certs", "create", "alice")
    uses = loaded(shell.folder / "certs/alice.crt").extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(uses.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_certificate_is_renewed_for_the_same_hosts(shell: Shell) -> None:
    shell.done("certs", "create", "frontier", "--host", "frontier.example")
    (first,) = shell.said("certs")
    code, _, errors = shell("certs", "create", "frontier")
    assert (code, "is there already; use --renew to replace it" in errors) == (2, True)
    shell.done("certs", "create", "frontier", "--renew")
    (second,) = shell.said("certs")
    assert (second["hosts"], second["serial"] != first["serial"]) == (["frontier.example"], True)
    check_pair(shell.folder / "certs/frontier.crt", shell.folder / "certs/frontier.key")
    assert shell("certs", "create", "other", "--renew")[0] == 2


def test_certificates_are_listed_with_their_state(shell: Shell) -> None:
    shell.done("callers", "set", "alice", "--role", "watch")
    shell.done("certs", "create", "alice")
    shell.done("certs", "create", "bob")
    shell.done("certs", "revoke", "certs/alice.crt")
    assert {each["name"]: each["state"] for each in shell.said("certs")} == {
        "alice": "revoked",
        "bob": "valid",
    }
    code, _, errors = shell("certs", "revoke", "certs/bob.crt")
    assert (code, "has no caller 'bob'" in errors) == (2, True)


@pytest.mark.parametrize("name", ["ca", "", "a/b", "../x", ".x", "a" * 65, "ä"])
def test_a_name_that_is_no_file_name_is_refused(shell: Shell, name: str) -> None:
    code, _, errors = shell("certs", "create", "--", name)
    assert code == 2
    assert "name must have 1 to" in errors
    assert not (shell.folder / "certs").exists()


@pytest.mark.parametrize("host", ["a b", "", "-a", "a..b", "a_b", "a:80", "[::1", "ä.example"])
def test_a_host_that_is_none_is_refused(shell: Shell, host: str) -> None:
    code, _, errors = shell("certs", "create", "frontier", "--host", host)
    assert (code, "a host must be a name such as frontier.example, or an IP address, got" in errors) == (
        2,
        True,
    )


@pytest.mark.parametrize("damage", ["gone", "nonsense"])
def test_an_authority_without_its_key_is_told(shell: Shell, damage: str) -> None:
    shell.done("certs", "create", "a")
    key = shell.folder / "certs/ca.key"
    if damage == "gone":
        key.unlink()
    else:
        key.write_text("nonsense")
    code, _, errors = shell("certs", "create", "b")
    assert (code, "ca.key" in errors) == (2, True)
