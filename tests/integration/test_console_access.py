"""Access to the console: logins, roles, and requests that other sites' pages cause."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from frontier_harness.access import Installation
from frontier_harness.calls import fresh_name, seed_of
from frontier_harness.console import ConsoleProcess, client_of, told
from frontier_harness.divided import job_log
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S

from toehold_cli.main import run

SESSION, RPC = "/console/session", "/v1/FrontierAdminService"


class GatedConsole:
    """A frontier that knows its callers, and a console before it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.installation = Installation(folder)
        self.tokens = {
            role: self.installation.caller(role, role) for role in ("watch", "operate", "admin", "fetch")
        }
        self.tokens["mine"] = self.installation.caller("mine", "operate", crawls=["mine"])
        callers = str(self.installation.callers)
        self.server = stack.enter_context(ServerProcess(folder / "data", "--callers", callers))
        self.console = stack.enter_context(
            ConsoleProcess(self.server.address, folder, "--data", str(folder / "data"))
        )
        self.crawl = fresh_name()
        for crawl in (self.crawl, "mine"):
            self.ask("admin", "CreateCrawl", crawl=crawl, spec={"allowedAddresses": ["loopback"]})
            self.ask("admin", "AddSeedBatch", crawl=crawl, uris=[seed_of(crawl)])
            self.ask("admin", "LaunchCrawl", crawl=crawl)

    def ask(self, caller: str, rpc: str, **message: Any) -> httpx.Response:
        """A call as a script makes it."""
        headers = {"authorization": f"Bearer {self.tokens[caller]}"}
        return self.console.http.post(f"{RPC}/{rpc}", json=message, headers=headers)

    @contextmanager
    def browser(self, caller: str = "") -> Iterator[httpx.Client]:
        """A browser, which has logged in."""
        with client_of(self.console.url) as http:
            if caller:
                answer = http.post(SESSION, json={"token": self.tokens[caller]})
                assert answer.status_code == 200, answer.text
                http.headers["x-csrf-token"] = answer.json()["csrf"]
            yield http


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatedConsole]:
    with ExitStack() as stack:
        yield GatedConsole(tmp_path_factory.mktemp("guarded"), stack)


def reason(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["details"][0]["reason"])


def test_a_browser_logs_in_with_a_token_and_acts_in_its_name(guarded: GatedConsole) -> None:
    with guarded.browser() as http:
        assert http.get(SESSION).json()["login"] is True
        assert reason(http.post(f"{RPC}/ListCrawls", json={})) == "CREDENTIALS_MISSING"
        wrong = http.post(SESSION, json={"token": "toehold_wrong"})
        assert (wrong.status_code, reason(wrong)) == (401, "TOKEN_UNKNOWN")
        right = http.post(SESSION, json={"token": f" {guarded.tokens['operate']}\n"})
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Max-Age=43200" in cookie
        assert guarded.tokens["operate"] not in cookie
        known = http.get(SESSION).json()
        assert (known["caller"], known["roles"]) == ("operate", ["operate"])
        headers = {"x-csrf-token": known["csrf"]}
        spec = {"crawl": guarded.crawl, "spec": {"description": "by a browser"}, "updateMask": "description"}
        assert http.post(f"{RPC}/UpdateCrawl", json=spec, headers=headers).status_code == 200
        assert http.delete(SESSION, headers=headers).status_code == 204
        assert http.get(SESSION).json()["login"] is True
    acts = job_log(guarded.server.data, guarded.crawl)
    assert acts.exists()


def test_a_login_behind_a_proxy_that_speaks_https_is_never_sent_in_plain_text(
    guarded: GatedConsole,
) -> None:
    with guarded.browser() as http:
        host = http.base_url.netloc.decode()
        for scheme, secure in (("https", True), ("http", False)):
            token = {"token": guarded.tokens["operate"]}
            answer = http.post(SESSION, json=token, headers={"origin": f"{scheme}://{host}"})
            assert ("Secure" in answer.headers["set-cookie"]) is secure


def test_a_change_by_cookie_needs_the_secret_of_the_page(guarded: GatedConsole) -> None:
    with guarded.browser("operate") as http:
        body = {"crawl": guarded.crawl, "spec": {"weight": 2}}
        for secret in (None, "", "wrong"):
            headers = {} if secret is None else {"x-csrf-token": secret}
            del http.headers["x-csrf-token"]
            refused = http.post(f"{RPC}/UpdateCrawl", json=body, headers=headers)
            http.headers["x-csrf-token"] = "wrong"
            assert (refused.status_code, reason(refused)) == (403, "CSRF_TOKEN_MISSING")
        assert http.delete(SESSION).status_code == 403


@pytest.mark.sampled(
    ("headers", "why"),
    [
        ({"host": "evil.example"}, "HOST_UNKNOWN"),
        ({"host": "evil.example:7780"}, "HOST_UNKNOWN"),
        ({"host": "127.0.0.1.evil.example"}, "HOST_UNKNOWN"),
        ({"host": "a b"}, "HOST_UNKNOWN"),
        ({"origin": "http://evil.example"}, "ORIGIN_FOREIGN"),
        ({"origin": "null"}, "ORIGIN_FOREIGN"),
        ({"origin": "ftp://HOST"}, "ORIGIN_FOREIGN"),
        ({"origin": "chrome-extension://HOST"}, "ORIGIN_FOREIGN"),
        ({"origin": "://HOST"}, "ORIGIN_FOREIGN"),
        ({"origin": "HOST"}, "ORIGIN_FOREIGN"),
        ({"origin": "http://127.0.0.1:1"}, "ORIGIN_FOREIGN"),
        ({"sec-fetch-site": "cross-site"}, "ORIGIN_FOREIGN"),
        ({"sec-fetch-site": "same-site"}, "ORIGIN_FOREIGN"),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "ORIGIN_FOREIGN"),
    ],
)
@pytest.mark.sampled("path", ["/", "/healthz", SESSION, "/static/main.js"])
def test_requests_that_other_sites_pages_cause_are_refused(
    guarded: GatedConsole, path: str, headers: dict[str, str], why: str
) -> None:
    place = guarded.console.url.rpartition("://")[2].rstrip("/")
    headers = {name: value.replace("HOST", place) for name, value in headers.items()}
    answer = guarded.console.http.get(path, headers=headers)
    assert (answer.status_code, reason(answer)) == (403, why)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_pages_of_the_console_and_links_to_it_are_served(guarded: GatedConsole) -> None:
    http = guarded.console.http
    port = guarded.console.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", "192.0.2.7:80", "LOCALHOST."):
        assert http.get("/healthz", headers={"host": host}).status_code == 200
    assert http.get("/healthz", headers={"origin": guarded.console.url}).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert http.get("/", headers=link).status_code == 200
    assert http.post(SESSION, json={}, headers=link).status_code == 403


def test_a_page_can_do_nothing_but_what_the_console_wrote(guarded: GatedConsole) -> None:
    for path in ("/", "/static/main.js", "/v1/openapi.json", "/v1/No/Rpc", "/nothing", SESSION):
        answer = guarded.console.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
    page = guarded.console.http.get("/").text
    assert not re.search(r"(?:src|href)=\"https?:|<script>|style=| on\w+=", page)


def test_roles_decide_what_a_user_may_do(guarded: GatedConsole) -> None:
    with guarded.browser("watch") as http:
        rpcs = http.get(SESSION).json()["rpcs"]
        assert "FrontierAdminService/GetCrawl" in rpcs
        assert "FrontierAdminService/UpdateCrawl" not in rpcs
        settings = f"/console/crawls/{guarded.crawl}/settings"
        assert http.get(settings).status_code == 200
        refused = http.post(settings, json={"name": "weight", "text": "3"})
        assert (refused.status_code, reason(refused)) == (403, "ROLE_MISSING")
        for part in ("failures", "queues", "seeds", "files", "find?q=a.example", "history?uri=x"):
            assert http.get(f"/console/crawls/{guarded.crawl}/{part}").status_code == 200, part
    with guarded.browser("fetch") as http:
        for part in ("failures", "queues", "seeds", "files", "find?q=a.example", "settings"):
            assert reason(http.get(f"/console/crawls/{guarded.crawl}/{part}")) == "ROLE_MISSING", part
        assert reason(http.get(f"/console/crawls/{guarded.crawl}/files/logs/job.log")) == "ROLE_MISSING"
        assert reason(http.get("/console/nodes")) == "ROLE_MISSING"


@pytest.mark.sampled(
    ("caller", "rpc", "status", "why"),
    [
        ("watch", "FrontierAdminService/CreateCrawl", 403, "ROLE_MISSING"),
        ("fetch", "FrontierAdminService/NoteUris", 403, "ROLE_MISSING"),
        ("operate", "FrontierService/Finished", 403, "ROLE_MISSING"),
        ("", "FrontierService/Schedule", 401, "CREDENTIALS_MISSING"),
        ("admin", "FrontierAdminService/Nothing", 404, "UNKNOWN_RPC"),
        ("admin", "FrontierAdminService/AddSeeds", 501, "CLIENT_STREAM"),
    ],
)
@pytest.mark.sampled("framing", ["Content-Length: 16000000", "Transfer-Encoding: chunked"])
def test_a_large_body_for_a_call_that_will_be_refused_is_not_waited_for(
    guarded: GatedConsole, caller: str, rpc: str, status: int, why: str, framing: str
) -> None:
    token = f"Authorization: Bearer {guarded.tokens[caller]}\r\n" if caller else ""
    head = f"POST /v1/{rpc} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{token}{framing}"
    port = int(guarded.console.url.rpartition(":")[2].rstrip("/"))
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as asking:
        asking.sendall(f"{head}\r\n\r\n".encode())  # and nothing of the body
        answer = asking.recv(100_000)
        while b"}" not in answer:
            answer += asking.recv(100_000)
    assert answer.startswith(b"HTTP/1.1 %d" % status) and why.encode() in answer


def test_a_caller_who_is_bound_to_a_crawl_sees_that_crawl_alone(guarded: GatedConsole) -> None:
    with guarded.browser("mine") as http:
        assert http.get(SESSION).json()["crawls"] == ["mine"]
        with told(http, "/console/crawls/mine/live") as events:
            look = next(event.content for event in events if event.kind == "look")
        assert (look["crawl"], look["nodes"]) == ("mine", None)
        assert "no node is there" not in look["verdict"]["text"]
        with told(http, f"/console/crawls/{guarded.crawl}/live") as events:
            refused = next(event for event in events if event.kind == "refused")
        assert refused.content["reason"] == "CRAWL_NOT_ALLOWED"


def test_a_token_that_is_revoked_ends_its_session(guarded: GatedConsole) -> None:
    guarded.tokens["gone"] = guarded.installation.caller("gone", "watch")
    with guarded.browser() as http:
        while http.post(SESSION, json={"token": guarded.tokens["gone"]}).status_code != 200:
            continue  # the frontier reads the file of callers within a second
        guarded.installation.registry.revoke_caller("gone")
        while not (answer := http.get(SESSION).json())["login"]:
            continue
        assert "was revoked" in answer["problem"]


def test_only_files_of_the_crawl_can_be_read(guarded: GatedConsole) -> None:
    with guarded.browser("watch") as http:
        base = f"/console/crawls/{guarded.crawl}/files"
        files = http.get(base).json()["files"]
        assert [(file["folder"], file["name"]) for file in files] == [("logs", "job.log")]
        answer = http.get(f"{base}/logs/job.log")
        assert answer.status_code == 200 and "launch" in answer.text
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-type"] == "application/octet-stream"
        for path in ("logs/..%2Fjob.log", "..%2f..%2f/job.log", "logs/%2e%2e", "logs/callers.toml", "x/y"):
            assert http.get(f"{base}/{path}").status_code == 404, path
        assert http.get("/console/crawls/..%2f..%2f/files").status_code == 404
        assert reason(http.get("/console/crawls/nope/files/logs/job.log")) == "UNKNOWN_CRAWL"


def test_a_browser_may_be_logged_in_at_two_consoles_of_a_host(guarded: GatedConsole, tmp_path: Path) -> None:
    with (
        ConsoleProcess(guarded.server.address, tmp_path) as other,
        httpx.Client(trust_env=False, timeout=PATIENCE_S) as browser,
    ):
        for console in (guarded.console, other):
            token = {"token": guarded.tokens["watch"]}
            assert browser.post(f"{console.url}{SESSION}", json=token).status_code == 200
        for console in (guarded.console, other):
            assert browser.get(f"{console.url}{SESSION}").json()["login"] is False


def test_sessions_outlive_a_console_that_keeps_its_key(guarded: GatedConsole, tmp_path: Path) -> None:
    key = tmp_path / "key"
    cookies = httpx.Cookies()
    for first in (True, False):
        with ConsoleProcess(guarded.server.address, tmp_path, "--session-key", str(key)) as console:
            if first:
                console.http.post(SESSION, json={"token": guarded.tokens["watch"]})
                cookies = console.http.cookies
            else:
                port = console.url.rpartition(":")[2]
                assert port
                for cookie in cookies.jar:
                    console.http.cookies.set(cookie.name, cookie.value or "")
                assert console.http.get(SESSION).json()["caller"] == "watch"
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_text("nonsense")
    ended = run_to_end(
        "console",
        "--frontier",
        guarded.server.address,
        "--session-key",
        str(key),
        program=("-m", "toehold_cli"),
    )
    assert ended.returncode == 2
    assert "must have a key of sessions and nothing else" in ended.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--listen", "0.0.0.0:0"),
            "0.0.0.0 is not a loopback address, so the console must speak HTTPS there",
        ),
        (("--listen", "nonsense"), "'--listen': must be HOST:PORT, such as 127.0.0.1:7780, got 'nonsense'"),
        (("--https-cert", "x.crt"), "--https-cert needs --https-key"),
        (("--https-cert", "no.crt", "--https-key", "no.key"), "no.crt"),
        (("--token-file", "x.token"), "the console has no token of its own"),
        (("--listen", "192.0.2.7:7780", "--insecure"), "cannot listen on 192.0.2.7:7780"),
    ],
)
def test_a_console_that_would_be_unsafe_or_cannot_serve_does_not_start(
    flags: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(["console", *flags]), capsys.readouterr().err
    assert (code, "Traceback" in told) == (2, False)
    assert says in told


def test_a_token_for_all_commands_is_not_that_of_the_page(
    guarded: GatedConsole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "operator.token"
    token.write_text(guarded.tokens["operate"])
    monkeypatch.setenv("TOEHOLD_TOKEN_FILE", str(token))
    with ConsoleProcess(guarded.server.address, tmp_path) as console:
        assert console.http.get(SESSION).json()["login"] is True


def test_a_wrong_variable_is_named_as_the_variable_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOEHOLD_CONSOLE_LISTEN", "nonsense")
    ended = run_to_end("console", program=("-m", "toehold_cli"))
    assert ended.returncode == 2
    assert "'TOEHOLD_CONSOLE_LISTEN': must be HOST:PORT" in ended.stderr


def test_beyond_loopback_it_speaks_https_and_serves_callers_alone(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    cert, key = installation.cert("console", "127.0.0.1")
    token = installation.caller("watch", "watch")
    https = ("--https-cert", str(cert), "--https-key", str(key), "--listen", "0.0.0.0:0")
    authority = installation.authority.cert
    with (
        ServerProcess(tmp_path / "open") as open_to_all,
        ConsoleProcess(open_to_all.address, tmp_path, *https) as console,
        client_of(console.url.replace("0.0.0.0", "127.0.0.1"), str(authority)) as http,
    ):
        assert http.get(SESSION).json()["login"] is True
        anybody = http.post(SESSION, json={"token": "anything"})
        assert (anybody.status_code, reason(anybody)) == (403, "CALLERS_MISSING")
        bearer = {"authorization": "Bearer anything"}
        assert reason(http.post(f"{RPC}/ListCrawls", json={}, headers=bearer)) == "CALLERS_MISSING"
        assert reason(http.post(f"{RPC}/ListCrawls", json={})) == "CREDENTIALS_MISSING"
        live = http.get("/console/crawls/any/live")
        assert (live.status_code, reason(live)) == (401, "CREDENTIALS_MISSING")
    with (
        ServerProcess(tmp_path / "known", "--callers", str(installation.callers)) as server,
        ConsoleProcess(server.address, tmp_path, *https) as console,
        client_of(console.url.replace("0.0.0.0", "127.0.0.1"), str(authority)) as http,
    ):
        answer = http.post(SESSION, json={"token": token})
        assert answer.json()["caller"] == "watch"
        cookie = answer.headers["set-cookie"]
        assert re.match(r"__Host-toehold-[0-9a-f]{12}=", cookie) and "Secure" in cookie
        host = {"host": "console.example.org"}  # browsers have compared it with the certificate
        assert http.get("/healthz", headers=host).status_code == 200
        for origin in ("https://evil.example", "http://console.example.org", "ws://console.example.org"):
            foreign = http.get("/healthz", headers=host | {"origin": origin})
            assert reason(foreign) == "ORIGIN_FOREIGN"
        ours = http.get("/healthz", headers=host | {"origin": "https://Console.Example.org"})
        assert ours.status_code == 200
