"""TLS between client and frontier: nobody reads along, and each fault of a credential has its sentence."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from frontier_harness.access import Installation, stubs_of
from frontier_harness.calls import spec
from frontier_harness.divided import PROCESSES
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_base.access.pem import TlsUnusable
from toehold_base.access.server_tls import ServerTls
from toehold_client import AsyncFrontierClient, CrawlController, Credentials, FrontierClient, errors

CALL_S = 10.0


class Secured:
    """A frontier that wants certificates, and its installation."""

    def __init__(self, tmp_path: Path, stack: ExitStack) -> None:
        self.installation = Installation(tmp_path)
        self.installation.cert("frontier", "127.0.0.1", "localhost")
        self.installation.cert("ops")
        self.installation.caller("ops", "operate")
        self.server = stack.enter_context(ServerProcess(tmp_path / "data", *self.installation.flags()))
        self.address = self.server.address

    def credentials(self, name: str = "ops", **others: str | Path) -> Credentials:
        certs = self.installation.certs
        given: dict[str, Any] = {
            "tls_ca": certs / "ca.crt",
            "tls_cert": certs / f"{name}.crt",
            "tls_key": certs / f"{name}.key",
        }
        return Credentials(**{**given, **others})

    def client(self, credentials: Credentials | None, address: str = "") -> FrontierClient:
        return FrontierClient(address or self.address, timeout_s=CALL_S, credentials=credentials)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        yield Secured(tmp_path_factory.mktemp("tls"), stack)


def failure(client: FrontierClient) -> errors.ToeholdError:
    with client, pytest.raises(errors.ToeholdError) as failed:
        list(client.list_crawls())
    return failed.value


def test_a_caller_with_a_certificate_is_known_by_its_name(secured: Secured) -> None:
    with secured.client(secured.credentials()) as client:
        client.create_crawl("mine", spec())
        acts = [event.message.operator_acted for event in CrawlController(client, "mine").events()]
    assert [(act.operator, act.action) for act in acts if act.action] == [("ops", "create")]


def test_asyncio_clients_have_the_same_credentials(secured: Secured) -> None:
    async def names() -> list[str]:
        async with AsyncFrontierClient(
            secured.address, timeout_s=CALL_S, credentials=secured.credentials()
        ) as client:
            return [crawl.crawl async for crawl in client.list_crawls()]

    assert isinstance(asyncio.run(names()), list)


# Each fault has its sentence.


def test_a_client_without_tls_learns_that_the_frontier_speaks_it(secured: Secured) -> None:
    error = failure(secured.client(None))
    assert isinstance(error, errors.FrontierUnavailable)
    assert str(error) == (
        f"the frontier at {secured.address} speaks TLS; give the authority of its certificate (tls_ca)"
    )


def test_a_client_without_a_certificate_learns_that_it_needs_one(secured: Secured) -> None:
    error = failure(secured.client(Credentials(tls_ca=secured.installation.authority.cert)))
    assert str(error) == (
        f"the frontier at {secured.address} asks for a client certificate; give tls_cert and tls_key"
    )


def test_a_client_with_an_expired_certificate_learns_so(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_at(monkeypatch, datetime.now(UTC) - timedelta(days=3))
    secured.installation.cert("late", days=1)
    monkeypatch.undo()
    error = failure(secured.client(secured.credentials("late")))
    words = r"refuses the client certificate: certificate \S+late\.crt expired at \d{4}-\S+ \S+ UTC; renew it"
    assert re.search(words, str(error))


def issue_at(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    then = SimpleNamespace(now=lambda zone: moment)
    monkeypatch.setattr("toehold_cli.access.authority.datetime", then)


def test_a_client_with_a_certificate_of_another_authority_learns_so(secured: Secured, tmp_path: Path) -> None:
    cert, key = Installation(tmp_path).cert("ops")
    error = failure(secured.client(secured.credentials(tls_cert=cert, tls_key=key)))
    assert str(error).endswith(
        f"refuses the client certificate {cert}: the server does not know its authority, or it is not for "
        "clients"
    )


def test_a_client_whose_certificate_is_not_valid_yet_learns_so(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_at(monkeypatch, datetime.now(UTC) + timedelta(days=3))
    secured.installation.cert("early")
    monkeypatch.undo()
    error = failure(secured.client(secured.credentials("early")))
    assert re.search(r"early\.crt is valid from \d{4}-\S+ \S+ UTC on; is the clock right\?$", str(error))


def test_a_client_that_trusts_another_authority_learns_so(secured: Secured, tmp_path: Path) -> None:
    other = Installation(tmp_path)
    other.cert("any")
    error = failure(secured.client(secured.credentials(tls_ca=other.authority.cert)))
    assert str(error) == (
        f"the certificate of the frontier at {secured.address} is not trusted: its authority is not in tls_ca"
    )


def test_a_client_that_uses_another_name_learns_so(secured: Secured, tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    cert, key = installation.cert("frontier", "other.example")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    with ServerProcess(tmp_path / "data", *flags) as server:
        error = failure(secured.client(Credentials(tls_ca=installation.authority.cert), server.address))
    assert str(error) == (
        f"the certificate of the frontier at {server.address} is not trusted: IP address mismatch, "
        "certificate is not valid for '127.0.0.1'"
    )


def test_a_client_with_tls_learns_that_the_frontier_does_without(secured: Secured, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "plain") as plain:
        error = failure(secured.client(secured.credentials(), plain.address))
    assert str(error) == f"the frontier at {plain.address} does not speak TLS; leave tls_ca out"


def test_a_revoked_certificate_is_refused_and_a_renewed_one_is_not(secured: Secured) -> None:
    installation = secured.installation
    installation.caller("temp", "watch")
    installation.cert("temp")
    eventually(lambda: works(secured, "temp"), "the new caller")
    serial = installation.authority.issued()[-1].serial
    installation.registry.revoke_certificate("temp", serial)
    eventually(lambda: not works(secured, "temp"), "the revocation")
    error = failure(secured.client(secured.credentials("temp")))
    assert isinstance(error, errors.Unauthenticated)
    assert (error.reason, str(error)) == (
        "CERTIFICATE_REVOKED",
        f"client certificate {serial} of 'temp' is revoked",
    )
    installation.cert("temp", renew=True)
    assert works(secured, "temp")


def works(secured: Secured, name: str) -> bool:
    with secured.client(secured.credentials(name)) as client:
        try:
            list(client.list_crawls())
        except errors.Unauthenticated:
            return False
    return True


def test_a_certificate_of_nobody_and_a_role_that_is_missing_are_told_apart(secured: Secured) -> None:
    secured.installation.cert("nobody")
    error = failure(secured.client(secured.credentials("nobody")))
    assert isinstance(error, errors.Unauthenticated)
    assert error.reason == "CALLER_UNKNOWN"
    with secured.client(secured.credentials()) as client, pytest.raises(errors.PermissionDenied) as denied:
        client.create_checkpoint()
    assert denied.value.reason == "ROLE_MISSING"


# Nobody reads along.


class Eavesdropper:
    """A proxy between client and frontier that keeps all bytes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = host, int(port)
        self.seen = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            other = socket.create_connection(self._to)
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.seen += data
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("encrypts", [True, False])
def test_a_proxy_in_between_sees_no_plain_text(secured: Secured, tmp_path: Path, encrypts: bool) -> None:
    """Without TLS it does, which shows that the proxy looks."""
    with ExitStack() as stack:
        address = secured.address
        if not encrypts:
            address = stack.enter_context(ServerProcess(tmp_path / "plain")).address
        between = Eavesdropper(address)
        stack.callback(between.close)
        client = stack.enter_context(
            secured.client(secured.credentials() if encrypts else None, between.address)
        )
        client.create_crawl("confidential", spec(contact="mailto:someone@secret.example"))
        assert client.get_crawl("confidential").spec.contact == "mailto:someone@secret.example"
    assert len(between.seen) > 500
    assert (b"confidential" not in between.seen) is encrypts
    assert (b"secret.example" not in between.seen) is encrypts


# Files change.


def test_certificates_and_tokens_change_under_load_without_a_lost_call(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "installation")
    installation.cert("frontier", "127.0.0.1")
    installation.cert("feeder")
    token_file = tmp_path / "token"
    token_file.write_text(installation.caller("feeder", "feed", "operate"))
    calls, failures = 0, []
    with ServerProcess(tmp_path / "data", *installation.flags()) as server:
        credentials = Credentials(
            tls_ca=installation.authority.cert,
            tls_cert=installation.certs / "feeder.crt",
            tls_key=installation.certs / "feeder.key",
            token_file=token_file,
        )
        end = threading.Event()

        def call() -> None:
            nonlocal calls
            with FrontierClient(server.address, timeout_s=CALL_S, credentials=credentials) as client:
                while not end.is_set():
                    try:
                        client.get_frontier()
                        calls += 1
                    except errors.ToeholdError as error:
                        failures.append(str(error))

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()

        def renew() -> None:
            former, renewed = token_file.read_text().split("_")[1], installation.token("feeder")
            reloads = server.errors.read_text().count("callers_reloaded") + PROCESSES
            eventually(
                lambda: server.errors.read_text().count("callers_reloaded") >= reloads, "the new token"
            )
            draft = token_file.with_suffix(".new")
            draft.write_text(renewed)
            draft.replace(token_file)
            installation.cert("frontier", renew=True)
            installation.cert("feeder", renew=True)
            before = calls
            eventually(lambda: calls > before + 30, "further calls")
            installation.registry.revoke_token(former)

        for _ in range(4):
            renew()
        end.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        log = server.errors.read_text()
    assert failures == []
    assert log.count("certificates_reloaded") >= 4
    assert "certificates_unusable" not in log


def watched(folder: Path) -> tuple[Installation, Credentials]:
    """An installation with a caller `watcher`, and its credentials."""
    installation = Installation(folder / "installation")
    installation.cert("frontier", "127.0.0.1")
    installation.caller("watcher", "admin")
    cert, key = installation.cert("watcher")
    return installation, Credentials(tls_ca=installation.authority.cert, tls_cert=cert, tls_key=key)


def test_calls_and_streams_outlive_several_changes_of_credentials(tmp_path: Path) -> None:
    installation, credentials = watched(tmp_path)
    answers: list[object] = []
    with (
        ServerProcess(tmp_path / "data", *installation.flags()) as server,
        FrontierClient(server.address, timeout_s=CALL_S, credentials=credentials) as client,
    ):
        client.create_crawl("watched", spec())
        stream = client.state_events("watched", reconnect_s=0)
        next(stream)

        def ask() -> None:
            answer = client.next(node="watcher", session="s", max_leases=1, crawl="watched", wait_s=2)
            answers.append(answer.empty_reason)

        poll = threading.Thread(target=ask)
        poll.start()
        eventually(lambda: client._channels.present._call_count == 1, "the long poll")
        for _ in range(3):
            installation.cert("watcher", renew=True)
            client.get_frontier()
        assert len(client._channels.all()) == 2, "those that nobody needs are closed"
        client.update_crawl("watched", crawl_pb2.CrawlSpec(weight=3))
        assert next(stream).HasField("event")
        poll.join(PATIENCE_S)
        stream.close()
        client.get_frontier()
        assert len(client._channels.all()) == 1
    assert answers == [frontier_pb2.EMPTY_REASON_NOT_RUNNING]


async def test_calls_of_an_asyncio_client_outlive_several_changes_of_credentials(tmp_path: Path) -> None:
    installation, credentials = watched(tmp_path)
    with ServerProcess(tmp_path / "data", *installation.flags()) as server:
        async with AsyncFrontierClient(server.address, timeout_s=CALL_S, credentials=credentials) as client:
            await client.create_crawl("watched", spec())
            stream = client.state_events("watched", reconnect_s=0)
            await anext(stream)
            for _ in range(3):
                installation.cert("watcher", renew=True)
                await client.get_frontier()
            await client.update_crawl("watched", crawl_pb2.CrawlSpec(weight=3))
            assert (await anext(stream)).HasField("event")
            await stream.close()
            await client.get_frontier()
            assert len(client._channels.all()) == 1


async def test_an_asyncio_client_finds_out_why_tls_fails_beside_its_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection of its own may take seconds, and the loop serves others meanwhile."""
    asked_in: list[threading.Thread] = []

    def diagnosis(details: str) -> str:
        asked_in.append(threading.current_thread())
        return "TLS failed"

    async with AsyncFrontierClient("127.0.0.1:1", timeout_s=CALL_S) as client:
        monkeypatch.setattr(client._security, "diagnosis", diagnosis)
        with pytest.raises(errors.FrontierUnavailable, match="TLS failed"):
            await client.get_frontier()
        with pytest.raises(errors.FrontierUnavailable, match="TLS failed"):
            await anext(client.state_events("any", reconnect_s=0))
    assert len(asked_in) >= 2
    assert threading.main_thread() not in asked_in


def test_unusable_new_files_leave_those_in_use_and_are_logged(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "installation")
    cert, _ = installation.cert("frontier", "127.0.0.1")
    installation.cert("ops")
    installation.caller("ops", "operate")
    with ServerProcess(tmp_path / "data", *installation.flags()) as server:
        cert.write_text("nonsense")
        with stubs_of(server.address, credentials=installation.channel_credentials("ops")) as stubs:
            stubs.create("made")
        log = server.errors.read_text()
        assert "certificates_unusable" in log
        assert "must be a certificate" in log


@pytest.mark.parametrize(("days", "warned"), [(13, True), (20, False)])
def test_a_certificate_that_expires_soon_is_told_of(tmp_path: Path, days: int, warned: bool) -> None:
    installation = Installation(tmp_path / "installation")
    installation.cert("frontier", "127.0.0.1", days=days)
    installation.caller("ops", "operate")
    with ServerProcess(tmp_path / "data", *installation.flags()) as server:
        server.stop()
        log = server.errors.read_text()
    assert ('"days_left": 12' in log, "certificate_expires" in log) == (warned, warned)


# Wrong files and flags at the start.


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("missing", "frontier.crt: No such file"),
        ("no certificate", "must be a certificate and "),
        ("another key", "does not belong to certificate"),
        ("encrypted key", "is encrypted; TLS needs a key without a password"),
        ("expired", "expired at "),
        ("no authority", "must have certificates of authorities in PEM, but has none"),
    ],
)
def test_files_that_a_server_cannot_use_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    installation = Installation(tmp_path)
    if fault == "expired":
        issue_at(monkeypatch, datetime.now(UTC) - timedelta(days=3))
    cert, key = installation.cert("frontier", "127.0.0.1")
    match fault:
        case "missing":
            cert.unlink()
        case "no certificate":
            cert.write_text("nonsense")
        case "another key":
            key.write_bytes(installation.cert("other")[1].read_bytes())
        case "encrypted key":
            private = load_pem_private_key(key.read_bytes(), None)
            secret = BestAvailableEncryption(b"x")
            key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
        case "no authority":
            installation.authority.cert.write_text("nonsense")
    with pytest.raises(TlsUnusable) as unusable:
        ServerTls(cert, key, installation.authority.cert, lambda problem: None)
    assert words in str(unusable.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--callers", "none.toml"), "toehold-frontier: callers file none.toml: No such file"),
        (("--tls-cert", "none", "--tls-key", "none"), "toehold-frontier: none: No such file"),
        (("--listen", "0.0.0.0:0"), "the frontier needs TLS and callers (docs/network.md)"),
    ],
)
def test_a_frontier_that_cannot_be_safe_does_not_start(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    ended = run_to_end("--data", str(tmp_path / "data"), *flags)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_with_tls_and_callers_the_frontier_listens_anywhere(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.cert("frontier", "127.0.0.1")
    token = installation.caller("ops", "operate")
    flags = installation.flags(mutual=False)
    with ServerProcess(tmp_path / "data", *flags, listen="0.0.0.0:0") as server:
        port = server.address.rpartition(":")[2]
        credentials = Credentials(tls_ca=installation.authority.cert, token=token)
        with FrontierClient(f"127.0.0.1:{port}", timeout_s=CALL_S, credentials=credentials) as client:
            assert list(client.list_crawls()) == []


# The client's own credentials.


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls_cert": "a.crt"}, "tls_cert needs tls_key"),
        ({"tls_key": "a.key"}, "tls_key needs tls_cert"),
        ({"tls_cert": "a.crt", "tls_key": "a.key"}, "tls_cert needs tls_ca"),
        ({"token": "a", "token_file": "b"}, "give only one of them"),
        ({"token": "secret\n"}, "^token must be one word of printable ASCII characters$"),
        ({"token": ""}, "token must be one word"),
    ],
)
def test_credentials_that_do_not_fit_together_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=words):
        Credentials(**given)


def test_a_token_is_not_sent_in_plain_text_beyond_loopback(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"a token can be read on the way to 192\.0\.2\.1:7707"):
        FrontierClient("192.0.2.1:7707", credentials=Credentials(token="secret"))
    FrontierClient("[::1]:7707", credentials=Credentials(token="secret")).close()
    FrontierClient("localhost:7707", credentials=Credentials(token="secret")).close()


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(errors.InvalidArgument, match="none: No such file"):
        FrontierClient("127.0.0.1:7707", credentials=Credentials(tls_ca=missing))
    client = FrontierClient("127.0.0.1:7707", credentials=Credentials(token_file=missing))
    with client, pytest.raises(errors.InvalidArgument, match="none: No such file"):
        client.get_frontier()
    missing.write_text("secret\x01")
    client = FrontierClient("127.0.0.1:7707", credentials=Credentials(token_file=missing))
    with client, pytest.raises(errors.InvalidArgument, match="none must have one token and nothing else"):
        client.get_frontier()
    missing.write_text("two words")
    client = FrontierClient("127.0.0.1:7707", credentials=Credentials(token_file=missing))
    with client, pytest.raises(errors.InvalidArgument, match="none must have one token and nothing else"):
        client.get_frontier()


def test_a_token_does_not_show_in_the_text_of_credentials() -> None:
    assert "secret" not in repr(Credentials(token="secret"))


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOEHOLD_TLS_CA", "system")
    monkeypatch.setenv("TOEHOLD_TOKEN_FILE", "t")
    monkeypatch.setenv("TOEHOLD_TLS_CERT", "")
    assert Credentials.from_environment() == Credentials(tls_ca="system", token_file="t")
