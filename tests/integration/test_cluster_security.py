"""Machines of a cluster trust each other by certificates and a token, and nobody else."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from frontier_harness.calls import fresh_name, report, seed_of
from frontier_harness.descendants import children
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.cluster.identity import identified
from frontier_server.config import ConfigError, ServerFile, usable
from frontier_server.program.exits import EXIT_DATA, EXIT_USAGE
from frontier_server.program.shard_map import cluster_map
from frontier_server.replicated.buckets import open_bucket
from frontier_server.shards.links import Link
from frontier_server.shards.locations import Location
from frontier_server.shards.pipe import PING, Broken, Pipe
from frontier_server.shards.trust import Trust, token_of
from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2
from toehold_base.access.pem import TlsUnusable
from toehold_cli.main import run

SHARDS = 2
GUIDE = "toehold.shard.v1.FrontService/Guide"
LIST_CRAWLS = "/toehold.frontier.v1.FrontierAdminService/ListCrawls"
TOKEN_KEY = "toehold-cluster"
NAME = "machines.toehold.internal"
"""A name that leads nowhere: machines have it in their certificates alone."""


def certificates(folder: Path, *names: str, host: str = "127.0.0.1") -> Path:
    """What `toehold certs` makes."""
    for name in names:
        assert run(["certs", "create", name, "--host", host, "--dir", str(folder)]) == 0
    return folder


def secured(certs: Path, name: str, authority: Path | None = None) -> list[str]:
    """The options of a machine with a certificate."""
    ca = (authority or certs) / "ca.crt"
    files = {"cert": certs / f"{name}.crt", "key": certs / f"{name}.key", "ca": ca}
    return [part for option, file in files.items() for part in (f"--cluster-{option}", str(file))]


class Cluster(NamedTuple):
    """Two machines, and what they have in common."""

    folder: Path
    certs: Path
    machines: list[ServerProcess]

    @property
    def bucket(self) -> Path:
        return self.folder / "bucket"

    def machine(self, name: str, *flags: str) -> ServerProcess:
        """Another machine, which has not begun."""
        log = f"file://{self.bucket}"
        return ServerProcess(
            self.folder / name, "--shards", str(SHARDS), "--log", log, "--machine", name, *flags
        )

    def cards(self) -> dict[str, Any]:
        """What each machine tells of itself."""
        notices = self.bucket.glob("machines/*/notice")
        return {notice.parent.name: json.loads(notice.read_bytes()) for notice in notices}

    def owner(self, member: str) -> str:
        """The machine that serves a member."""
        (name,) = [name for name, card in self.cards().items() if member in card["ports"]]
        return name

    def place(self, member: str) -> Location:
        """Where other machines reach a member."""
        card = self.cards()[self.owner(member)]
        port, pipe_port = card["ports"][member]
        return Location(host=card["host"], port=port, pipe_port=pipe_port)

    def is_settled(self) -> bool:
        """Whether all members are served, and both machines have some."""
        ports = [card["ports"] for card in self.cards().values()]
        return len(ports) == 2 and all(ports) and sum(map(len, ports)) == SHARDS + 1

    @property
    def secret(self) -> str:
        secret: str = json.loads((self.bucket / "cluster").read_bytes())["secret"]
        return secret

    @property
    def token(self) -> str:
        return token_of(bytes.fromhex(self.secret))

    def trust(self, name: str = "one", verified: str = "") -> Trust:
        """What a machine has; with `verified`, a name that it verifies the others by."""
        certs = self.certs
        return Trust(self.token, certs / f"{name}.crt", certs / f"{name}.key", certs / "ca.crt", verified)


@contextmanager
def started(folder: Path, certs: Path, options: Mapping[str, Sequence[str]]) -> Iterator[Cluster]:
    """A cluster of machines, by their names."""
    found = Cluster(folder, certs, [])
    with ExitStack() as stack:
        for name, own in options.items():
            machine = found.machine(name, *own)
            found.machines.append(machine)
            machine.begin()
            stack.push(machine.__exit__)
        for machine in found.machines:
            machine.until_ready()
        eventually(found.is_settled, "both machines to have members")
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    certs = certificates(folder / "certs", "one", "other")
    with started(folder, certs, {name: secured(certs, name) for name in ("one", "other")}) as found:
        yield found


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two machines with one certificate, which names neither's host."""
    folder = tmp_path_factory.mktemp("named")
    certs = certificates(folder / "certs", "all", host=NAME)
    certificates(certs, "of-the-host")
    own = [*secured(certs, "all"), "--cluster-tls-name", NAME]
    with started(folder, certs, {"one": own, "other": own}) as found:
        yield found


def test_certificates_that_expire_soon_are_told_of_by_machine_and_door(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    for name, days in (("machine", "13"), ("door", "12")):
        words = ["certs", "create", name, "--host", "127.0.0.1", "--days", days, "--dir", str(certs)]
        assert run(words) == 0
    found = Cluster(tmp_path, certs, [])
    tls = "--tls-cert", str(certs / "door.crt"), "--tls-key", str(certs / "door.key")
    with found.machine("one", *secured(certs, "machine"), *tls) as machine:

        def warned() -> set[tuple[int, str]] | None:
            lines = [json.loads(line) for line in machine.errors.read_text().splitlines() if "{" in line]
            told = [line for line in lines if line["event"] == "certificate_expires"]
            return {(line["days_left"], line["advice"].split(":")[0]) for line in told} if told else None

        eventually(lambda: len(warned() or ()) == 2, "two warnings")
        assert warned() == {
            (12, "replace the files of --cluster-cert and --cluster-key, and restart this machine"),
            (11, "replace the files of --tls-cert and --tls-key"),
        }


def away_from_front(cluster: Cluster) -> ServerProcess:
    """The machine that does not have the front."""
    front = cluster.owner("front")
    (found,) = [machine for machine in cluster.machines if machine.data.name != front]
    return found


# Who is of the cluster.


def test_a_crawl_works_through_the_machine_that_has_no_front(cluster: Cluster) -> None:
    check_crawl(cluster)


def check_crawl(cluster: Cluster) -> None:
    """Crawl some pages of both machines' shards, through the one that must call the other for each."""
    stubs = away_from_front(cluster).stubs
    crawl = fresh_name()
    seeds = [seed_of(crawl, f"{letter}.") for letter in "abcdef"]
    stubs.launch(crawl, *seeds)
    stubs.schedule(crawl, *(f"{seed}page" for seed in seeds))
    leases = stubs.pages(crawl, least=6)
    assert sorted(lease.uri for lease in leases) == sorted(seeds)
    stubs.finish(*(report(lease) for lease in leases))
    for machine in cluster.machines:
        counts = machine.stubs.statistics(crawl)
        assert (counts.succeeded_count, counts.queued_count) == (6, 6)


def call_by_grpc(place: Location, credentials: grpc.ChannelCredentials | None, token: str = "") -> str:
    """What a call at an inner port of gRPC comes to: "answered", or its code."""
    target = f"{place.host}:{place.port}"
    channel = (
        grpc.insecure_channel(target) if credentials is None else grpc.secure_channel(target, credentials)
    )
    with channel:
        ask = channel.unary_unary(
            LIST_CRAWLS,
            admin_pb2.ListCrawlsRequest.SerializeToString,
            admin_pb2.ListCrawlsResponse.FromString,
        )
        metadata = ((TOKEN_KEY, token),) if token else ()
        try:
            ask(admin_pb2.ListCrawlsRequest(), timeout=5.0, metadata=metadata)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code.name
        return "answered"


def call_by_pipe(place: Location, trust: Trust) -> str:
    """What a call at an inner pipe comes to."""

    async def ping() -> str:
        pipe = Pipe(place, trust)
        try:
            await pipe.call(PING, b"", 5.0)
        except Broken:
            return "broken off"
        finally:
            pipe.close()
        return "answered"

    return asyncio.run(ping())


def test_whoever_has_certificate_and_token_is_let_in(cluster: Cluster) -> None:
    trust, place = cluster.trust(), cluster.place("front")
    assert call_by_grpc(place, trust.channel_credentials(), trust.token) == "answered"
    for member in ("front", "shard-0", "shard-1"):
        assert call_by_pipe(cluster.place(member), trust) == "answered"


@pytest.mark.parametrize("kind", ["none", "wrong", "secret"])
def test_a_caller_without_the_token_is_refused(cluster: Cluster, kind: str) -> None:
    token = {"none": "", "wrong": "0" * 64, "secret": cluster.secret}[kind]
    trust = cluster.trust()
    assert call_by_grpc(cluster.place("front"), trust.channel_credentials(), token) == "UNAUTHENTICATED"
    without = Trust(token, trust.cert, trust.key, trust.ca)
    for member in ("front", "shard-0"):
        assert call_by_pipe(cluster.place(member), without) == "broken off"


def test_without_certificates_the_token_alone_decides(tmp_path: Path) -> None:
    plain = Cluster(tmp_path, tmp_path, [])
    with plain.machine("one"):
        eventually(lambda: len(plain.cards()["one"]["ports"]) == SHARDS + 1, "all members to be told of")
        trust = Trust(plain.token)
        for member in ("front", "shard-0"):
            place = plain.place(member)
            assert call_by_pipe(place, trust) == "answered"
            for token in ("", "0" * 64, plain.secret):
                assert call_by_pipe(place, Trust(token)) == "broken off"
                assert call_by_grpc(place, None, token) == "UNAUTHENTICATED"
        assert call_by_grpc(plain.place("front"), None, trust.token) == "answered"


def test_a_plain_caller_gets_no_connection(cluster: Cluster) -> None:
    token = cluster.trust().token
    for member in ("front", "shard-0"):
        assert call_by_grpc(cluster.place(member), None, token) == "UNAVAILABLE"
        assert call_by_pipe(cluster.place(member), Trust(token)) == "broken off"


def test_a_caller_without_a_certificate_gets_no_connection(cluster: Cluster) -> None:
    token, authority = cluster.trust().token, (cluster.certs / "ca.crt").read_bytes()
    place = cluster.place("front")
    assert call_by_grpc(place, grpc.ssl_channel_credentials(authority), token) == "UNAVAILABLE"

    async def greet() -> bytes:
        context = ssl.create_default_context(cafile=cluster.certs / "ca.crt")
        try:
            reader, writer = await asyncio.open_connection(place.host, place.pipe_port, ssl=context)
            writer.write(len(token).to_bytes(4) + token.encode())
            return await asyncio.wait_for(reader.read(1), PATIENCE_S)
        except OSError:
            return b""

    assert asyncio.run(greet()) == b""


def test_a_caller_with_a_certificate_of_another_authority_gets_no_connection(
    cluster: Cluster, tmp_path: Path
) -> None:
    others = certificates(tmp_path / "certs", "stranger")
    mine = cluster.trust()
    trust = Trust(mine.token, others / "stranger.crt", others / "stranger.key", mine.ca)
    for member in ("front", "shard-0"):
        place = cluster.place(member)
        assert call_by_grpc(place, trust.channel_credentials(), trust.token) == "UNAVAILABLE"
        assert call_by_pipe(place, trust) == "broken off"


def test_a_machine_of_another_authority_takes_nothing_away_from_the_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    others = certificates(tmp_path / "certs", "stranger")
    told = check_left_alone(cluster, *secured(others, "stranger"))
    assert "127.0.0.1" in told and "certificate" in told.lower()


def check_left_alone(cluster: Cluster, *options: str) -> str:
    """Start a machine that cannot call the others; what it says of that. It can read and write the bucket, so
    nothing else keeps it from taking members that nobody reaches."""
    before = {name: card["ports"] for name, card in cluster.cards().items()}
    stranger = cluster.machine("stranger", *options)
    stranger.begin()
    try:
        eventually(lambda: "machines_unreachable" in stranger.errors.read_text(), "it to tell its problem")
        eventually(lambda: cluster.cards().get("stranger", {}).get("refuses"), "it to tell the others")
    finally:
        stranger.kill()
        stranger.let_go()
    (told,) = [line for line in stranger.errors.read_text().splitlines() if "machines_unreachable" in line]
    card = cluster.cards()["stranger"]
    assert len(card["refuses"]) == SHARDS + 1 and not card["holds"] and not card["ports"]
    assert {name: card["ports"] for name, card in cluster.cards().items() if name != "stranger"} == before
    return told


def test_the_secret_is_in_no_log_and_no_command_line(cluster: Cluster) -> None:
    secret, token = cluster.secret, cluster.trust().token
    told = {machine.errors: machine.errors.read_bytes() for machine in cluster.machines}
    for machine in cluster.machines:
        logs = [
            path for path in machine.data.rglob("*.log") if "store" not in path.parts
        ]  # RocksDB's are data
        told |= {path: path.read_bytes() for path in logs}
        for pid in (machine.child.pid, *children(machine.child.pid)):
            commands = Path(f"/proc/{pid}/cmdline"), Path(f"/proc/{pid}/environ")
            told |= {path: path.read_bytes() for path in commands}
    assert sum(b"machine_joins" in data for data in told.values()) == 2
    for path, data in told.items():
        assert secret.encode() not in data and token.encode() not in data, path
        assert bytes.fromhex(secret) not in data, path


# One certificate for all machines.


def stream_by_link(place: Location, trust: Trust) -> str:
    """What a stream to the front comes to: "answered", or its code."""

    async def read() -> str:
        link = Link(0, place, trust)
        stream = link.stream(GUIDE, shard_pb2.GuideRequest(), shard_pb2.GuideResponse)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await stream.read()
        except grpc.aio.AioRpcError as error:
            return error.code().name
        finally:
            await link.close()
        return "answered"

    return asyncio.run(read())


def test_machines_with_one_certificate_reach_each_other_by_its_name(named: Cluster) -> None:
    check_crawl(named)
    trust = named.trust("all", NAME)
    for member in ("front", "shard-0", "shard-1"):
        assert call_by_pipe(named.place(member), trust) == "answered"
    assert stream_by_link(named.place("front"), trust) == "answered"


@pytest.mark.parametrize("verified", ["", "another.internal", "machines.toehold"])
def test_a_caller_that_expects_another_name_gets_no_connection(named: Cluster, verified: str) -> None:
    trust = named.trust("all", verified)
    for member in ("front", "shard-0"):
        place = named.place(member)
        assert call_by_pipe(place, trust) == "broken off"
        assert stream_by_link(place, trust) == "UNAVAILABLE"


def test_a_machine_whose_certificate_has_another_name_is_not_called(cluster: Cluster) -> None:
    """It is of the right authority, and for the address that the caller asks."""
    trust = cluster.trust("one", NAME)
    for member in ("front", "shard-0"):
        place = cluster.place(member)
        assert call_by_pipe(place, trust) == "broken off"
        assert stream_by_link(place, trust) == "UNAVAILABLE"


def test_a_machine_without_the_setting_takes_nothing_away_from_the_others(named: Cluster) -> None:
    told = check_left_alone(named, *secured(named.certs, "of-the-host"))
    assert "127.0.0.1" in told and "certificate" in told.lower()


# What is refused before it begins.


def refusal(*arguments: object) -> tuple[int, str]:
    """How a machine ends that cannot begin, and what it says."""
    ended = run_to_end(*map(str, arguments))
    return ended.returncode, ended.stderr.strip().splitlines()[-1]


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    first, second = (
        identified(open_bucket(f"file://{tmp_path}/{name}"), SHARDS, "1.0") for name in ("first", "second")
    )
    cluster_map(tmp_path / "data", first, f"file://{tmp_path}/first")
    code, words = refusal("--data", tmp_path / "data", "--log", f"file://{tmp_path}/second")
    assert code == EXIT_DATA
    assert words.endswith(
        f"data directory {tmp_path}/data is of cluster {first.id}, but the bucket is of cluster {second.id}"
    )


def test_a_certificate_of_another_authority_than_the_clusters_is_refused(tmp_path: Path) -> None:
    ours, others = certificates(tmp_path / "ours", "one"), certificates(tmp_path / "others", "one")
    log = f"file://{tmp_path}/bucket"
    code, words = refusal("--data", tmp_path / "data", "--log", log, *secured(others, "one", ours))
    assert code == EXIT_USAGE
    assert (
        f"certificate {others}/one.crt must be of an authority in {ours}/ca.crt, for clients and servers, "
        "and for the host 127.0.0.1: " in words
    )
    assert not (tmp_path / "data").exists()


def test_a_certificate_must_be_for_the_address_of_the_machine(tmp_path: Path) -> None:
    certs = certificates(tmp_path / "certs", "one")
    trust = Trust("", certs / "one.crt", certs / "one.key", certs / "ca.crt")
    trust.check("127.0.0.1")
    for host in ("127.0.0.2", "localhost", "::1"):
        with pytest.raises(TlsUnusable, match=f"for the host {host}: .*mismatch"):
            trust.check(host)


@pytest.mark.parametrize(("file", "name"), [("all", ""), ("of-the-host", NAME), ("all", "other.internal")])
def test_a_machine_whose_certificate_lacks_the_name_does_not_start(
    tmp_path: Path, file: str, name: str
) -> None:
    certs = certificates(tmp_path / "certs", "all", host=NAME)
    certificates(certs, "of-the-host")
    options = [*secured(certs, file), *(("--cluster-tls-name", name) if name else ())]
    code, words = refusal("--data", tmp_path / "data", "--log", f"file://{tmp_path}/bucket", *options)
    assert code == EXIT_USAGE
    assert f"for the host {name or '127.0.0.1'}: " in words
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("file", ["one.key", "ca.crt", "nowhere"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, file: str) -> None:
    certs = certificates(tmp_path / "certs", "one")
    with pytest.raises(TlsUnusable, match=file):
        Trust("", certs / file, certs / "one.key", certs / "ca.crt").check("127.0.0.1")


def test_a_certificate_that_only_calls_is_refused(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    assert run(["certs", "create", "alice", "--dir", str(certs)]) == 0
    with pytest.raises(TlsUnusable, match="for clients and servers"):
        Trust("", certs / "alice.crt", certs / "alice.key", certs / "ca.crt").check("127.0.0.1")


@pytest.mark.parametrize("host", ["192.0.2.1", "frontier.example", "2001:db8::1", "[2001:db8::1]"])
def test_beyond_loopback_machines_need_certificates(tmp_path: Path, host: str) -> None:
    log = "file:///bucket"
    with pytest.raises(ConfigError) as refused:
        usable(tmp_path, ServerFile(log=log, cluster_listen=host))
    assert str(refused.value) == (
        f"cluster_listen: {host.strip('[]')} is not a loopback address, so machines need mutual TLS: give "
        "cluster_cert, cluster_key and cluster_ca, or --insecure on a network that you trust"
    )
    files: dict[str, Any] = {"cluster_cert": "c", "cluster_key": "k", "cluster_ca": "a"}
    assert usable(tmp_path, ServerFile(log=log, cluster_listen=host, **files)).cluster_listen == host.strip(
        "[]"
    )
    usable(tmp_path, ServerFile(log=log, cluster_listen=host, insecure=True))


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "[::]", "192.0.2.1:7707", "", "a b", "http://a.example", f"{'a' * 64}.example", "a..b"],
)
def test_machines_need_an_address_by_which_others_reach_them(tmp_path: Path, host: str) -> None:
    with pytest.raises(
        ConfigError, match="cluster_listen must be the name or address by which other machines"
    ):
        usable(tmp_path, ServerFile(log="file:///bucket", cluster_listen=host, insecure=True))


@pytest.mark.parametrize("missing", ["cluster_cert", "cluster_key", "cluster_ca"])
def test_certificate_key_and_authority_come_together(tmp_path: Path, missing: str) -> None:
    files: dict[str, Any] = {"cluster_cert": "c", "cluster_key": "k", "cluster_ca": "a"}
    del files[missing]
    with pytest.raises(ConfigError, match="cluster_cert, cluster_key and cluster_ca must be given together"):
        usable(tmp_path, ServerFile(log="file:///bucket", **files))


def test_a_name_of_certificates_is_refused_without_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give cluster_cert, cluster_key and cluster_ca, too"):
        usable(tmp_path, ServerFile(log="file:///bucket", cluster_tls_name=NAME))


@pytest.mark.parametrize(
    "name", ["not a name", "*.internal", "::1", "a..b", ".a", "-a", "a-", "a" * 64, "a." * 127]
)
def test_a_name_of_certificates_that_tls_cannot_ask_for_is_refused(tmp_path: Path, name: str) -> None:
    files: dict[str, Any] = {"cluster_cert": "c", "cluster_key": "k", "cluster_ca": "a"}
    with pytest.raises(ConfigError, match="cluster_tls_name must be a name as in DNS") as refused:
        usable(tmp_path, ServerFile(log="file:///bucket", cluster_tls_name=name, **files))
    assert str(refused.value).endswith(f", got {name!r}")
    longest = "a" * 63 + ".internal"
    assert usable(tmp_path, ServerFile(cluster_tls_name=longest, **files)).cluster_tls_name == longest
