"""Clients get URLs and complete them, while gateways and the frontier are killed: every URL is completed, and
a URL comes twice only if its client did not get to complete it."""

import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import grpc
from frontier_harness.gateway import OK, Client, GatewayProcess, discovered, known
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from urlfrontier.urlfrontier_pb2 import CountUrlParams, QueueDelayParams

URLS, QUEUES, CLIENTS = 600, 60, 3


class Crawler:
    """A client in a thread, which fetches nothing: it gets URLs, and says that they are done."""

    def __init__(self, address: str) -> None:
        self.got: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._address = address
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        client = Client(self._address)
        while not self._ended.is_set():
            try:
                urls = client.get(max_queues=10, max_urls_per_queue=2, delay_requestable=20)
                self.got.update(urls)
                statuses = client.put(*map(known, urls)) if urls else []
                self.done.update(url for url, status in zip(urls, statuses, strict=False) if status == OK)
            except grpc.RpcError:  # a kill
                time.sleep(0.1)
        client.close()


def test_every_url_is_completed(tmp_path: Path) -> None:
    flags = ("--lease-seconds", "2", "--heartbeat-seconds", "0.5")
    with KeptPort() as frontier_port, KeptPort() as one, KeptPort() as two:
        frontier = ServerProcess(tmp_path / "data", *flags, listen=frontier_port.address)
        frontier.__enter__()
        gateways = {
            port: GatewayProcess(frontier_port.address, tmp_path / "gateway.stderr", listen=port.address)
            for port in (one, two)
        }
        for gateway in gateways.values():
            gateway.__enter__()
        client = gateways[one].client
        client.stub.SetDelay(QueueDelayParams(delay_requestable=0))
        urls = [f"http://h{number % QUEUES}.whole.example/{number}" for number in range(URLS)]
        assert client.put(*map(discovered, urls)) == [OK] * URLS
        crawlers = [Crawler(port.address) for port in (one, two, one)]

        def done() -> Counter[str]:
            return sum((crawler.done for crawler in crawlers), Counter())

        def has_done(count: int) -> bool:
            return len(done()) >= count

        try:
            for kill, port in enumerate((one, two, one)):
                count = (kill + 1) * URLS // 5
                eventually(partial(has_done, count), "completed URLs", WHOLE_CRAWL_S)
                gateways[port].kill()
                gateways[port].__exit__(None, None, None)
                if kill == 1:
                    frontier.kill()
                    frontier.let_go()
                    frontier = ServerProcess(tmp_path / "data", *flags, listen=frontier_port.address)
                    frontier.__enter__()
                gateways[port] = GatewayProcess(
                    frontier_port.address, tmp_path / "gateway.stderr", listen=port.address
                )
                gateways[port].__enter__()

            def completed() -> bool:
                stats = gateways[two].client.stats()
                return stats.size == 0 and stats.inProcess == 0

            eventually(completed, "the end of the crawl", WHOLE_CRAWL_S)
        finally:
            for crawler in crawlers:
                crawler.end()
        got = sum((crawler.got for crawler in crawlers), Counter())
        assert set(got) == set(urls)
        again = {url for url, count in got.items() if count > 1}
        assert len(again) <= 3 * CLIENTS * 20 * 2, "more than the kills can have caused"
        # A URL that was completed once has not come again: an acknowledgement is final.
        assert all(count == 1 for count in done().values())
        assert gateways[two].client.stub.CountURLs(CountUrlParams()).value == URLS
        log = (tmp_path / "gateway.stderr").read_text()
        assert "Traceback" not in log
        for gateway in gateways.values():
            assert gateway.stop() == 0
            gateway.__exit__(None, None, None)
        frontier.stop()
        frontier.let_go()
