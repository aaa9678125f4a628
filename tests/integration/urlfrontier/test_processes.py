"""Several gateways, and gateways and frontiers that die: nothing acknowledged is lost."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from frontier_harness.access import Installation
from frontier_harness.gateway import FAIL, OK, Client, GatewayProcess, discovered, known
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from urlfrontier import urlfrontier_pb2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A frontier of the test's own, whose leases lapse soon."""
    with ServerProcess(tmp_path / "data", "--lease-seconds", "2", "--heartbeat-seconds", "0.5") as made:
        yield made


def gateway(server: ServerProcess, tmp_path: Path, *flags: str) -> GatewayProcess:
    return GatewayProcess(server.address, tmp_path / "gateway.stderr", *flags)


def test_two_gateways_are_one_frontier(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one, gateway(server, tmp_path) as two:
        urls = [f"http://h{number}.two.example/" for number in range(60)]
        works = [
            threading.Thread(target=one.client.put, args=[discovered(url) for url in urls[:40]]),
            threading.Thread(target=two.client.put, args=[discovered(url) for url in urls[20:]]),
        ]
        for work in works:
            work.start()
        for work in works:
            work.join(PATIENCE_S)
        assert one.client.crawl_ids() == two.client.crawl_ids() == ["DEFAULT"]
        assert two.client.stats().size == 60
        got = one.client.get(max_queues=25) + two.client.get(max_queues=25) + one.client.get()
        assert sorted(got) == sorted(urls)
        # Whoever holds a URL, either gateway may hear of its end.
        assert two.client.put(*(known(url) for url in got)) == [OK] * 60
        stats = one.client.stats()
        assert (stats.size, stats.inProcess, stats.counts["completed"]) == (0, 0, 60)


def test_all_gateways_are_active_or_none_is_and_new_crawls_too(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one, gateway(server, tmp_path) as two:
        assert one.client.put(discovered("http://active.example/")) == [OK]
        one.client.stub.SetActive(urlfrontier_pb2.Active(state=False))
        assert two.client.stub.GetActive(urlfrontier_pb2.Local()).state is False
        assert two.client.put(discovered("http://active.example/", crawl_id="new")) == [OK]
        assert two.client.get() == two.client.get("new") == one.client.get(None) == []
        two.client.stub.SetActive(urlfrontier_pb2.Active(state=True))
        assert one.client.stub.GetActive(urlfrontier_pb2.Local()).state is True
        assert one.client.get("new") == two.client.get() == ["http://active.example/"]


def test_a_pause_leaves_clients_their_urls(server: ServerProcess, tmp_path: Path) -> None:
    url = "http://pause.example/"
    with gateway(server, tmp_path) as one:
        one.client.put(discovered(url))
        assert one.client.get(delay_requestable=60) == [url]
        one.client.stub.SetActive(urlfrontier_pb2.Active(state=False))
        time.sleep(3)  # longer than a lease lives without a heartbeat
        assert one.client.stats().inProcess == 1
        assert one.client.put(known(url)) == [OK]
        one.client.stub.SetActive(urlfrontier_pb2.Active(state=True))
        stats = one.client.stats()
        assert (stats.size, stats.counts["completed"]) == (0, 1)


def test_the_default_delay_is_kept_for_later_crawls(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one:
        one.client.stub.SetDelay(urlfrontier_pb2.QueueDelayParams(delay_requestable=3600))
    with gateway(server, tmp_path) as two:
        two.client.put(discovered("http://delay.example/1", "k"), discovered("http://delay.example/2", "k"))
        assert len(two.client.get(max_urls_per_queue=1)) == 1
        time.sleep(1.5)
        assert two.client.get(max_urls_per_queue=2) == []


def test_urls_of_a_killed_gateway_come_again(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one, gateway(server, tmp_path) as two:
        one.client.put(discovered("http://killed.example/"))
        assert one.client.get(delay_requestable=3600) == ["http://killed.example/"]
        one.kill()
        assert two.client.get() == []
        assert eventually(two.client.get, "the URL again") == ["http://killed.example/"]


def test_a_gateway_that_stops_gives_its_urls_back(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one, gateway(server, tmp_path) as two:
        one.client.put(discovered("http://stopped.example/"))
        assert one.client.get(delay_requestable=3600) == ["http://stopped.example/"]
        assert one.stop() == 0
        assert two.client.stats().inProcess == 0
        assert eventually(two.client.get, "the URL again") == ["http://stopped.example/"]


def test_an_operator_can_drain_a_gateway(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path, "--name", "drained") as one, gateway(server, tmp_path) as two:
        one.client.put(discovered("http://drained.example/"))
        assert one.client.get(delay_requestable=3600) == ["http://drained.example/"]
        server.stubs.admin.DrainNode(admin_pb2.DrainNodeRequest(node="drained"), timeout=PATIENCE_S)
        assert one.child.wait(PATIENCE_S) == 0
        assert eventually(two.client.get, "the URL again") == ["http://drained.example/"]


def test_nodes_that_work_for_any_crawl_get_no_urls(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one:
        one.client.put(discovered("http://nodes.example/"))
        request = frontier_pb2.NextRequest(node="n", session="s", max_leases=10)
        assert not server.stubs.frontier.Next(request, timeout=PATIENCE_S).leases
        assert one.client.get() == ["http://nodes.example/"]


def test_a_gateway_stops_though_a_stream_is_open(server: ServerProcess, tmp_path: Path) -> None:
    ended = threading.Event()

    def items() -> Iterator[urlfrontier_pb2.URLItem]:
        yield discovered("http://open.example/")
        ended.wait(PATIENCE_S)

    with gateway(server, tmp_path) as one:
        acks = one.client.stub.PutURLs(items())
        assert next(acks).status == OK
        assert one.stop() == 0
        with pytest.raises(grpc.RpcError):
            next(acks)
        ended.set()
    assert "Traceback" not in one.errors.read_text()


def test_a_url_is_held_longer_than_a_lease_lives(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path) as one:
        one.client.put(discovered("http://held.example/"))
        assert one.client.get(delay_requestable=6) == ["http://held.example/"]
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s:
            assert one.client.get() == []
            time.sleep(0.2)
        assert eventually(one.client.get, "the URL again") == ["http://held.example/"]


def test_a_name_belongs_to_the_last_gateway_that_took_it(server: ServerProcess, tmp_path: Path) -> None:
    with gateway(server, tmp_path, "--name", "g") as one:
        one.client.put(discovered("http://name.example/"))
        assert one.client.get(delay_requestable=3600) == ["http://name.example/"]
        with gateway(server, tmp_path, "--name", "g") as two:
            assert eventually(two.client.get, "the URL again") == ["http://name.example/"]
            assert one.child.wait(PATIENCE_S) == 3
            assert "another process now has the node name 'g'" in one.errors.read_text()


def test_a_crawl_deleted_by_one_gateway_is_made_anew_by_another(
    server: ServerProcess, tmp_path: Path
) -> None:
    url = "http://again.example/"
    with gateway(server, tmp_path) as one, gateway(server, tmp_path) as two:
        assert one.client.put(discovered(url)) == [OK]
        assert two.client.stub.DeleteCrawl(urlfrontier_pb2.DeleteCrawlMessage()).value == 1
        assert one.client.put(discovered(url)) == [OK]
        assert two.client.get() == [url]


def test_a_crawl_that_nobody_launched_is_launched_when_it_is_asked_for(
    server: ServerProcess, tmp_path: Path
) -> None:
    with gateway(server, tmp_path) as one:
        # A done URL alone does not launch a crawl.
        assert one.client.put(known("http://launch.example/1")) == [OK]
        assert one.client.get() == []
        assert one.client.put(known("http://launch.example/2", int(time.time()))) == [OK]
        assert one.client.get() == ["http://launch.example/2"]


def test_everything_acknowledged_is_there_after_kills_of_the_frontier(tmp_path: Path) -> None:
    """A stream of URLs goes on while the frontier is killed and started again, three times."""
    acked: list[str] = []
    failed: list[str] = []
    ended = threading.Event()

    def items() -> Iterator[urlfrontier_pb2.URLItem]:
        number = 0
        while not ended.is_set():
            yield discovered(f"http://h{number % 40}.kills.example/{number}")
            number += 1
            if number % 50 == 0:
                time.sleep(0.01)

    def put(client: Client) -> None:
        for ack in client.stub.PutURLs(items()):
            (failed if ack.status == FAIL else acked).append(ack.ID)

    def wait_for_more() -> None:
        count = len(acked)
        eventually(lambda: len(acked) > count + 500, "acknowledgements")

    with KeptPort() as port:
        address = port.address
        frontier = ServerProcess(tmp_path / "data", listen=address)
        with frontier, GatewayProcess(address, tmp_path / "gateway.stderr") as one:
            putting = threading.Thread(target=put, args=[one.client])
            putting.start()
            for _ in range(3):
                wait_for_more()
                frontier.kill()
                frontier.let_go()
                frontier = ServerProcess(tmp_path / "data", listen=address)
                frontier.__enter__()
            wait_for_more()
            ended.set()
            putting.join(PATIENCE_S)
            assert not putting.is_alive()
            stored = {item.known.info.url for item in one.client.urls(size=2**31 - 1)}
            assert set(acked) <= stored
            assert one.client.stub.CountURLs(urlfrontier_pb2.CountUrlParams()).value == len(stored)
            assert set(failed).isdisjoint(acked)
            one.stop()
        frontier.stop()
        frontier.let_go()


def test_a_frontier_that_is_away_is_told(tmp_path: Path) -> None:
    with KeptPort() as port, GatewayProcess(port.address, tmp_path / "gateway.stderr") as one:
        assert one.client.put(discovered("http://away.example/")) == [FAIL]
        with pytest.raises(grpc.RpcError) as raised:
            one.client.stub.GetURLStatus(
                urlfrontier_pb2.URLStatusRequest(url="http://away.example/"), timeout=PATIENCE_S
            )
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
        with ServerProcess(tmp_path / "data", listen=port.address):
            assert eventually(
                lambda: one.client.put(discovered("http://away.example/")) == [OK], "the frontier"
            )
            assert one.stop() == 0


def test_a_gateway_serves_a_frontier_that_knows_its_callers(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "installation")
    installation.cert("frontier", "127.0.0.1")
    installation.cert("gate")
    token = tmp_path / "token"
    token.write_text(installation.caller("gate", "fetch", "operate"))
    credentials = (
        *("--tls-ca", str(installation.authority.cert), "--tls-cert", str(installation.certs / "gate.crt")),
        *("--tls-key", str(installation.certs / "gate.key"), "--token-file", str(token), "--name", "gate"),
    )
    with (
        ServerProcess(tmp_path / "data", *installation.flags()) as server,
        GatewayProcess(server.address, tmp_path / "errors", *credentials) as one,
    ):
        assert one.client.put(discovered("http://secured.example/")) == [OK]
        assert one.client.get() == ["http://secured.example/"]
        assert one.client.put(known("http://secured.example/")) == [OK]
