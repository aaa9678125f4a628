"""A frontier with callers: who may call what, on which crawls, for which nodes, and how much."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.access import Installation, stubs_of
from frontier_harness.calls import (
    TIMEOUT_S,
    Refusal,
    Stubs,
    candidates,
    refused,
    released,
    report,
    spec,
)
from frontier_harness.every_rpc import RPCS
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf import message_factory

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_base.access.roles import ROLES, Role

CRAWL, URI = "crawl", "http://a.example/"
SECRET = "open sesame"
DENIED, UNKNOWN = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
BAD_VALUE = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE")


class GatedFrontier:
    """A frontier with a caller for each role, and callers with bounds."""

    def __init__(self, tmp_path: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.installation = Installation(tmp_path)
        tokens = {role.value: self.installation.caller(role.value, role.value) for role in Role}
        tokens["node"] = self.installation.caller("node", "fetch")
        tokens["other"] = self.installation.caller("other", "fetch")
        tokens["mine"] = self.installation.caller("mine", "operate", "fetch", crawls=["mine"])
        tokens["slow"] = self.installation.caller("slow", "feed", max_candidates_per_second=10)
        tokens["bulk"] = self.installation.caller(
            "bulk", "operate", crawls=["bulk"], max_candidates_per_second=50
        )
        tokens["busy"] = self.installation.caller("busy", "watch", max_calls=1)
        self.server = stack.enter_context(
            ServerProcess(tmp_path / "data", "--callers", str(self.installation.callers))
        )
        self.of: Mapping[str, Stubs] = {name: self.stubs(token) for name, token in tokens.items()}

    def stubs(self, token: str) -> Stubs:
        return self._stack.enter_context(stubs_of(self.server.address, token))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatedFrontier]:
    with ExitStack() as stack:
        guarded = GatedFrontier(tmp_path_factory.mktemp("gate"), stack)
        admin = guarded.of["admin"]
        credentials = [crawl_pb2.CredentialSpec(surt_prefix=URI, user="me", password=SECRET)]
        fetch = crawl_pb2.FetchSpec(credentials=credentials, proxy=f"http://me:{SECRET[:4]}@192.0.2.1:3128")
        admin.create(CRAWL, spec(fetch=fetch))
        admin.launch("leased", *(f"http://h{n}.example/" for n in range(9)))
        admin.create("mine")
        yield guarded


def outcome(stubs: Stubs, rpc: str) -> Refusal | None:
    """How a call of an RPC with an empty request is refused."""
    method = RPCS[rpc]
    empty = message_factory.GetMessageClass(method.input_type)()
    services = stubs.frontier if method.containing_service.name == "FrontierService" else stubs.admin
    call = getattr(services, rpc)
    try:
        answer = call(iter((empty,)) if method.client_streaming else empty, timeout=TIMEOUT_S)
        if method.server_streaming:
            list(answer)
    except grpc.RpcError as error:
        return Refusal.of(error)
    return None


def test_each_rpc_is_for_its_roles(guarded: GatedFrontier) -> None:
    for rpc, method in RPCS.items():
        roles = ROLES[f"{method.containing_service.full_name}/{rpc}"]
        for role in Role:
            refusal = outcome(guarded.of[role.value], rpc)
            if role in roles:
                assert refusal is None or refusal.reason != "ROLE_MISSING", rpc
            else:
                assert refusal is not None, rpc
                assert (refusal.code, refusal.reason) == (DENIED, "ROLE_MISSING"), rpc
                assert f"caller '{role.value}' has {role.value}" in refusal.message


def test_no_rpc_is_for_callers_without_credentials(guarded: GatedFrontier) -> None:
    for rpc in RPCS:
        refusal = outcome(guarded.server.stubs, rpc)
        assert refusal is not None, rpc
        assert (refusal.code, refusal.reason) == (UNKNOWN, "CREDENTIALS_MISSING"), rpc


def test_each_caller_learns_who_it_is_and_what_it_may_do(guarded: GatedFrontier) -> None:
    def told(name: str) -> admin_pb2.GetCallerResponse:
        return guarded.of[name].admin.GetCaller(admin_pb2.GetCallerRequest(), timeout=TIMEOUT_S)

    for role in Role:
        answer = told(role.value)
        assert (answer.caller, list(answer.roles), list(answer.crawls)) == (role.value, [role.value], [])
        assert set(answer.rpcs) == {rpc for rpc, roles in ROLES.items() if role in roles}
    mine = told("mine")
    assert (list(mine.roles), list(mine.crawls)) == (["fetch", "operate"], ["mine"])


def test_no_message_is_received_from_a_caller_who_may_not_call(guarded: GatedFrontier) -> None:
    never = threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(TIMEOUT_S)
        yield b""

    with grpc.insecure_channel(guarded.server.address) as channel:
        for rpc in ("GetCrawl", "ExportUris"):
            call: Any = channel.stream_unary(f"/{RPCS[rpc].containing_service.full_name}/{rpc}")
            refused(partial(call, nothing(), timeout=TIMEOUT_S), UNKNOWN, "CREDENTIALS_MISSING")
    never.set()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory in /proc")
@pytest.mark.parametrize(
    ("rpc", "codes"),
    [
        ("toehold.frontier.v1.FrontierAdminService/CreateCrawl", {UNKNOWN}),
        # Too large; or too slow, as a few messages at a time are received, and these hold each other up.
        ("grpc.health.v1.Health/Check", {BAD_VALUE[0], EXHAUSTED}),
    ],
)
def test_large_messages_of_callers_without_credentials_take_little_memory(
    guarded: GatedFrontier, rpc: str, codes: set[grpc.StatusCode]
) -> None:
    """Or anybody who can connect could end the frontier."""
    status = Path(f"/proc/{guarded.server.child.pid}/status")

    def peak_mib() -> int:
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) // 1024

    before_mib, large = peak_mib(), bytes(8_000_000)
    with ExitStack() as stack:
        channels = [stack.enter_context(alone(guarded.server.address)) for _ in range(20)]
        methods: list[Any] = [channel.unary_unary(f"/{rpc}") for channel in channels]
        calls = [method.future(large, timeout=TIMEOUT_S) for method in methods * 3]
        assert {call.code() for call in calls} <= codes
    assert peak_mib() - before_mib < 300


def alone(address: str) -> grpc.Channel:
    """A channel with a connection of its own."""
    return grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


def test_a_wrong_token_is_refused(guarded: GatedFrontier) -> None:
    refused(
        lambda: guarded.stubs("wrong").describe(CRAWL), UNKNOWN, "TOKEN_UNKNOWN", "does not know the token"
    )


def test_events_name_the_caller_whatever_the_call_says(guarded: GatedFrontier) -> None:
    guarded.of["operate"].admin.UpdateCrawl(
        admin_pb2.UpdateCrawlRequest(crawl=CRAWL, spec=crawl_pb2.CrawlSpec(weight=3)),
        timeout=TIMEOUT_S,
        metadata=(("toehold-operator", "somebody else"),),
    )
    acts = [event.operator_acted for event in guarded.of["watch"].events_so_far(CRAWL)]
    assert [(act.operator, act.action) for act in acts if act.action] == [
        ("admin", "create"),
        ("operate", "update"),
    ]


# Nodes and leases.


@pytest.mark.parametrize("name", ["node", "node/3"])
def test_a_caller_speaks_for_its_own_node(guarded: GatedFrontier, name: str) -> None:
    guarded.of["node"].heartbeat(node=name)
    words = f"caller 'other' may speak for the nodes 'other', not for '{name}'"
    for call in (
        lambda: guarded.of["other"].heartbeat(node=name),
        lambda: guarded.of["other"].next(node=name),
        lambda: guarded.of["other"].finish(node=name),
    ):
        refused(call, DENIED, "NODE_NOT_ALLOWED", words)


def test_nobody_ends_the_lease_of_another_callers_node(guarded: GatedFrontier) -> None:
    mine, others = guarded.of["node"], guarded.of["other"]
    (lease,) = mine.next("leased", most=1, node="node").leases
    assert others.finish(report(lease, 404), node="other") == [("UNKNOWN_TOKEN", False)]
    assert others.finish(released(lease), node="other") == [("UNKNOWN_TOKEN", False)]
    assert list(others.heartbeat([lease.token], node="other").ended_tokens) == [lease.token]
    assert list(mine.heartbeat([lease.token], node="node").ended_tokens) == []
    assert mine.finish(report(lease, 404), node="node") == [("SUCCEEDED", False)]


# Crawls.


def test_a_crawl_that_a_caller_may_not_act_on_counts_as_ended_whether_it_is_there_or_not(
    guarded: GatedFrontier,
) -> None:
    guarded.of["admin"].create("not-mine")
    asked = ["mine", "not-mine", "unknown"]
    assert list(guarded.of["mine"].heartbeat(node="mine", idle_crawls=asked).ended_crawls) == asked[1:]
    assert list(guarded.of["node"].heartbeat(node="node", idle_crawls=asked).ended_crawls) == asked[2:]


def test_a_robots_txt_that_a_bound_caller_reports_counts_for_its_crawl_alone(
    guarded: GatedFrontier,
) -> None:
    mine, others = guarded.of["mine"], guarded.of["node"]
    uri = "http://shared.example/"
    guarded.of["admin"].create("theirs")
    for stubs, crawl in ((guarded.of["operate"], "theirs"), (mine, "mine")):
        stubs.seed(crawl, uri)
        stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
    (lease,) = mine.next("mine", most=1, node="mine", wait_s=10).leases
    forbids = report(lease, fetch_status=200, robots_body=b"User-agent: *\nDisallow: /\n")
    assert mine.finish(forbids, node="mine") == [("SUCCEEDED", False)]
    (asked,) = others.next("theirs", most=1, node="node", wait_s=20).leases
    assert (asked.purpose, asked.uri) == (frontier_pb2.PURPOSE_ROBOTS, f"{uri}robots.txt")
    assert others.finish(report(asked, 404), node="node") == [("SUCCEEDED", False)]
    (page,) = others.next("theirs", most=1, node="node", wait_s=20).leases
    assert page.uri == uri
    others.finish(report(page), node="node")


def test_a_caller_acts_on_its_own_crawls(guarded: GatedFrontier) -> None:
    mine = guarded.of["mine"]
    assert mine.describe("mine").crawl == "mine"
    mine.seed("mine", URI)
    words = "caller 'mine' may act on the crawls 'mine', not on 'leased'"
    refused(lambda: mine.describe("leased"), DENIED, "CRAWL_NOT_ALLOWED", words)
    refused(lambda: mine.seed("leased", URI), DENIED, "CRAWL_NOT_ALLOWED", words)
    refused(lambda: mine.next("leased", node="mine"), DENIED, "CRAWL_NOT_ALLOWED", words)
    refused(lambda: mine.next(node="mine"), DENIED, "CRAWL_NOT_ALLOWED", "and Next is about all crawls")
    refused(
        lambda: mine.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S),
        DENIED,
        "CRAWL_NOT_ALLOWED",
        "and ListCrawls is about all crawls",
    )
    launch = admin_pb2.LaunchCrawlRequest(crawl="mine", checkpoint="cp", checkpoint_crawl="leased")
    refused(lambda: mine.admin.LaunchCrawl(launch, timeout=TIMEOUT_S), DENIED, "CRAWL_NOT_ALLOWED", words)
    mine.heartbeat(node="mine")


# Secrets.


def test_only_an_admin_reads_the_passwords_in_a_spec(guarded: GatedFrontier) -> None:
    fetch = guarded.of["admin"].describe(CRAWL).spec.fetch
    assert (fetch.credentials[0].password, fetch.proxy) == (SECRET, "http://me:open@192.0.2.1:3128")
    for name in ("watch", "operate"):
        for crawl in (
            guarded.of[name].describe(CRAWL),
            guarded.of[name].admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S).crawls[0],
        ):
            fetch = crawl.spec.fetch
            assert (fetch.credentials[0].user, fetch.credentials[0].password) == ("me", "(hidden)")
            assert fetch.proxy == "http://(hidden)@192.0.2.1:3128"


def test_a_hidden_password_that_is_sent_back_stays_and_another_replaces_it(
    guarded: GatedFrontier,
) -> None:
    operate, admin = guarded.of["operate"], guarded.of["admin"]
    seen = operate.describe(CRAWL).spec
    seen.fetch.credentials.add(surt_prefix="http://b.example/", user="you", password="new")
    operate.update(CRAWL, "fetch", fetch=seen.fetch)
    fetch = admin.describe(CRAWL).spec.fetch
    assert [each.password for each in fetch.credentials] == [SECRET, "new"]
    assert fetch.proxy == "http://me:open@192.0.2.1:3128"
    seen.fetch.credentials[0].user = "somebody else"
    refused(
        lambda: operate.update(CRAWL, "fetch", fetch=seen.fetch),
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT_VALUE",
        "fetch.credentials[0].password must be given",
    )
    refused(
        lambda: operate.create("copy", operate.describe(CRAWL).spec),
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT_VALUE",
        "password must be given",
    )
    assert admin.describe(CRAWL).spec.fetch == fetch


def test_the_passwords_in_an_override_are_hidden_too(guarded: GatedFrontier) -> None:
    operate, admin = guarded.of["operate"], guarded.of["admin"]
    settings = {"fetch": {"proxy": f"http://me:{SECRET[:4]}@192.0.2.9:1"}}
    put = operate.ask("PutOverride", CRAWL, override={"surt_prefix": "a.example", "settings": settings})
    (seen,) = operate.ask("ListOverrides", CRAWL).overrides
    assert put.override == seen
    assert seen.settings.fetch.proxy == "http://(hidden)@192.0.2.9:1"
    seen.settings.fetch.max_bytes = 7
    operate.ask("PutOverride", CRAWL, override=seen)
    (kept,) = admin.ask("ListOverrides", CRAWL).overrides
    assert (kept.settings.fetch.proxy, kept.settings.fetch.max_bytes) == ("http://me:open@192.0.2.9:1", 7)


DOORS: Mapping[str, Callable[[Stubs, crawl_pb2.FetchSpec], object]] = {
    "update by a path": lambda stubs, fetch: stubs.update(CRAWL, "fetch", fetch=fetch),
    "update by the proxy's path": lambda stubs, fetch: stubs.update(CRAWL, "fetch.proxy", fetch=fetch),
    "update without paths": lambda stubs, fetch: stubs.update(CRAWL, fetch=fetch),
    "reopen": lambda stubs, fetch: stubs.ask("ReopenCrawl", "ended", spec={"fetch": fetch}),
    "create": lambda stubs, fetch: stubs.create("copy", spec(fetch=fetch)),
    "override": lambda stubs, fetch: stubs.ask(
        "PutOverride", CRAWL, override={"surt_prefix": "a.example", "settings": {"fetch": fetch}}
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_hidden_password_cannot_be_moved_to_another_proxy_or_site(
    guarded: GatedFrontier, door: str
) -> None:
    operate, admin = guarded.of["operate"], guarded.of["admin"]
    if door == "reopen":
        admin.create("ended", admin.describe(CRAWL).spec)
        admin.ask("TearDownCrawl", "ended")
    before = [crawl.spec for crawl in admin.admin.ListCrawls(admin_pb2.ListCrawlsRequest()).crawls]
    seen = operate.describe(CRAWL).spec.fetch
    for proxy in (
        "http://(hidden)@192.0.2.2:3128",
        "http://(hidden)@192.0.2.1:3129",
        "http://me:(hidden)@b:1",
    ):
        moved = crawl_pb2.FetchSpec(proxy=proxy)
        refused(partial(DOORS[door], operate, moved), *BAD_VALUE, "fetch.proxy must have its name")
    for credential in (
        crawl_pb2.CredentialSpec(surt_prefix="http://b.example/", user="me", password="(hidden)"),
        crawl_pb2.CredentialSpec(surt_prefix=URI, user="you", password="(hidden)"),
        crawl_pb2.CredentialSpec(surt_prefix="http://b.example/", user="(hidden)"),
    ):
        moved = crawl_pb2.FetchSpec(credentials=[credential])
        refused(partial(DOORS[door], operate, moved), *BAD_VALUE, "must be given")
    assert seen == operate.describe(CRAWL).spec.fetch
    after = [crawl.spec for crawl in admin.admin.ListCrawls(admin_pb2.ListCrawlsRequest()).crawls]
    assert before == after


def test_a_proxy_name_without_a_password_is_hidden_as_a_token(guarded: GatedFrontier) -> None:
    operate, admin = guarded.of["operate"], guarded.of["admin"]
    kept = crawl_pb2.FetchSpec(proxy=f"http://{SECRET[:4]}:@192.0.2.1:3128")
    kept.credentials.add(surt_prefix=URI, user=SECRET)
    admin.create("tokens", spec(fetch=kept))
    seen = operate.describe("tokens").spec.fetch
    assert (seen.proxy, seen.credentials[0].user) == ("http://(hidden)@192.0.2.1:3128", "(hidden)")
    operate.update("tokens", "fetch", fetch=seen)
    assert admin.describe("tokens").spec.fetch.credentials == kept.credentials
    assert admin.describe("tokens").spec.fetch.proxy == kept.proxy


def test_a_node_gets_the_passwords_that_it_fetches_with(guarded: GatedFrontier) -> None:
    admin = guarded.of["admin"]
    credentials = [crawl_pb2.CredentialSpec(surt_prefix=URI, user="me", password=SECRET)]
    admin.launch("members", URI, of=spec(fetch=crawl_pb2.FetchSpec(credentials=credentials)))
    leases = guarded.of["node"].pages("members", node="node")
    answer = guarded.of["node"].heartbeat([lease.token for lease in leases], node="node")
    assert not answer.ended_tokens
    request = frontier_pb2.NextRequest(crawl="members", node="node", session="session", max_leases=1)
    guarded.of["node"].finish(*map(released, leases), node="node")
    policies = guarded.of["node"].frontier.Next(request, timeout=TIMEOUT_S).fetch_policies
    assert [policy.password for policy in policies] == [SECRET]


# Limits.


def test_a_caller_sends_as_many_candidates_a_second_as_it_may(guarded: GatedFrontier) -> None:
    slow = guarded.of["slow"].frontier
    batch = frontier_pb2.ScheduleRequest(
        crawl="leased", candidates=candidates(*(f"{URI}{n}" for n in range(30)))
    )
    slow.Schedule(batch, timeout=TIMEOUT_S)
    refusal = refused(
        lambda: slow.Schedule(batch, timeout=TIMEOUT_S),
        EXHAUSTED,
        "CALLER_LIMIT",
        "caller 'slow' may send 10 candidates a second",
    )
    assert refusal.retry_s is not None
    assert 1 < refusal.retry_s <= 2.1


def test_a_stream_of_a_caller_is_slowed_down_to_its_rate(guarded: GatedFrontier) -> None:
    bulk = guarded.of["bulk"]
    bulk.create("bulk")
    began_s = time.monotonic()
    parts = [admin_pb2.AddSeedsRequest(crawl="bulk", uris=[f"http://s{n}.example/"] * 40) for n in range(3)]
    assert bulk.admin.AddSeeds(iter(parts), timeout=TIMEOUT_S).added_count == 120
    assert time.monotonic() - began_s > 0.6  # (40 + 40 - 50) / 50 s


def test_later_parts_of_an_import_need_not_name_the_crawl(guarded: GatedFrontier) -> None:
    bulk, admin = guarded.of["bulk"], guarded.of["admin"]
    if "bulk" not in {crawl.crawl for crawl in admin.admin.ListCrawls(admin_pb2.ListCrawlsRequest()).crawls}:
        bulk.create("bulk")
    entries = [admin_pb2.ImportEntry(candidate=each) for each in candidates(URI)]
    assert bulk.bring("bulk", *entries).HasField("finish_time")
    refused(lambda: bulk.bring("leased", *entries), DENIED, "CRAWL_NOT_ALLOWED", "not on 'leased'")


def test_a_caller_has_as_many_calls_open_as_it_may(guarded: GatedFrontier) -> None:
    busy = guarded.of["busy"]
    stream = busy.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl=CRAWL), timeout=TIMEOUT_S)
    next(stream)
    refused(lambda: busy.describe(CRAWL), EXHAUSTED, "CALLER_LIMIT", "may have 1 calls open at once")
    guarded.of["watch"].describe(CRAWL)
    stream.cancel()
    eventually(lambda: outcome(busy, "ListCrawls") is None, "room for a call")


# Callers come and go.


def test_tokens_and_callers_come_and_go_while_the_frontier_runs(guarded: GatedFrontier) -> None:
    made = guarded.installation.caller("late", "watch")
    late = guarded.stubs(made)
    eventually(lambda: outcome(late, "ListCrawls") is None, "the new token's call")
    stream = late.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl=CRAWL), timeout=TIMEOUT_S)
    next(stream)
    other = guarded.stubs(guarded.installation.token("late"))
    guarded.installation.registry.revoke_token(made.split("_")[1])
    with pytest.raises(grpc.RpcError) as ended:
        for _ in stream:
            pass
    refusal = Refusal.of(ended.value)
    assert (refusal.code, refusal.reason) == (UNKNOWN, "TOKEN_REVOKED")
    refused(lambda: late.describe(CRAWL), UNKNOWN, "TOKEN_REVOKED", "of caller 'late' was revoked at ")
    other.describe(CRAWL)
    guarded.installation.registry.revoke_caller("late")
    eventually(lambda: outcome(other, "ListCrawls") is not None, "the end of the caller")
    refused(lambda: other.describe(CRAWL), UNKNOWN, "CALLER_REVOKED", "caller 'late' was revoked at ")


def test_a_long_poll_ends_with_the_right_to_it(guarded: GatedFrontier) -> None:
    installation = guarded.installation
    poller = guarded.stubs(installation.caller("poller", "fetch"))
    failures: list[Refusal] = []

    def poll() -> None:
        try:
            poller.next("polled", wait_s=30, node="poller")
        except grpc.RpcError as error:
            failures.append(Refusal.of(error))

    guarded.of["operate"].launch("polled", "http://polled.example/")
    eventually(lambda: "TOKEN_UNKNOWN" not in str(outcome(poller, "Next")), "the caller")
    eventually(lambda: not poller.next("polled", node="poller").leases, "nothing left to fetch")
    waiting = threading.Thread(target=poll)
    waiting.start()
    installation.registry.set_caller("poller", {"roles": ["watch"]})
    waiting.join(TIMEOUT_S)
    assert [(failure.code, failure.reason) for failure in failures] == [(DENIED, "ROLE_MISSING")]


def test_a_stream_ends_when_its_caller_loses_the_crawl(guarded: GatedFrontier) -> None:
    narrowed = guarded.stubs(guarded.installation.caller("narrowed", "watch"))
    eventually(lambda: outcome(narrowed, "ListCrawls") is None, "the new caller's call")
    stream = narrowed.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl=CRAWL), timeout=TIMEOUT_S)
    next(stream)
    guarded.installation.registry.set_caller("narrowed", {"crawls": ["mine"]})
    with pytest.raises(grpc.RpcError) as ended:
        for _ in stream:
            pass
    assert Refusal.of(ended.value).reason == "CRAWL_NOT_ALLOWED"


def known_to_all(stubs: Stubs) -> bool:
    """Whether each process of the frontier knows the caller."""
    try:
        stubs.queues("long")
    except grpc.RpcError:
        return False
    return True


def test_a_caller_that_takes_in_a_stream_slowly_is_told_why_it_ends(guarded: GatedFrontier) -> None:
    admin = guarded.of["admin"]
    admin.create("long")
    for part in range(5):  # more than gRPC takes in ahead of a reader
        admin.seed("long", *(f"http://long{n}.example/{part}{'x' * 4000}" for n in range(1000)))
    admin.launch_seeded("long")
    taker = guarded.stubs(guarded.installation.caller("taker", "watch", max_calls=1))
    eventually(lambda: known_to_all(taker), "the new caller's call")
    stream = taker.admin.ExportUris(admin_pb2.ExportUrisRequest(crawl="long"), timeout=TIMEOUT_S)
    next(stream)
    guarded.installation.registry.set_caller("taker", {"roles": ["feed"]})
    eventually(lambda: outcome(taker, "ListCrawls") is not None, "the end of its role")
    eventually(lambda: "has feed" in str(outcome(taker, "ListCrawls")), "the end of its call")
    with pytest.raises(grpc.RpcError) as ended:
        for _ in stream:
            pass
    assert Refusal.of(ended.value).reason == "ROLE_MISSING"
    assert "call_failed" not in guarded.server.errors.read_text()


def test_a_broken_file_leaves_the_callers_as_they_were_and_is_logged(guarded: GatedFrontier) -> None:
    callers = guarded.installation.callers
    good = callers.read_text()
    callers.write_text("[callers")
    eventually(lambda: "callers_unusable" in guarded.server.errors.read_text(), "the error in the log")
    guarded.of["watch"].describe(CRAWL)
    before = guarded.server.errors.read_text().count("callers_reloaded")
    callers.write_text(good)
    eventually(lambda: guarded.server.errors.read_text().count("callers_reloaded") > before, "a reading")


def test_denials_are_logged_without_secrets(guarded: GatedFrontier) -> None:
    token = "toehold_0000000000_" + "s" * 43
    refused(lambda: guarded.stubs(token).describe(CRAWL), UNKNOWN, "TOKEN_UNKNOWN", "")
    log = guarded.server.errors.read_text()
    assert '"reason": "TOKEN_UNKNOWN"' in log
    assert token not in log
    assert SECRET not in log
