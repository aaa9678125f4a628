"""`toehold-frontier --check-operations`: a server that recounts what each operation changed."""

from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import schedule_request
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S

from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore

FAILED = 5
PAGES = [f"http://alpha.example/{number}" for number in range(5)]


@pytest.mark.undivided("looks into the store")
def test_a_contradiction_stops_the_server_before_it_is_stored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, "--check-operations") as server:
        server.stubs.launch("t", *PAGES)
        assert server.stubs.statistics("t").discovered_count == len(PAGES)
        server.stop()
    store = RocksStore(data / "store")
    (lost, *_) = [key for key, _ in store.scan(Family.PENDING, b"", b"")]
    store.write({(Family.PENDING, lost): None})
    store.flush()
    store.close()
    with ServerProcess(data, "--check-operations") as server:
        with pytest.raises(grpc.RpcError) as refused:
            server.stubs.frontier.Schedule(schedule_request("t", "http://alpha.example/more"))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert server.child.wait(PATIENCE_S) == FAILED
        assert "6 URIs are counted" in server.errors.read_text()
    with ServerProcess(data) as server:
        assert server.stubs.statistics("t").discovered_count == len(PAGES), "nothing of it was stored"
