"""What the router asks of a coordinator whose writes are not durable yet."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import spec
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import config, running
from frontier_harness.waiting import soon, turns

from frontier_server import wire
from frontier_server.coordinator.requests import Requests
from frontier_server.coordinator.whole import whole_crawls
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.errors import CrawlFinished

CRAWL = "stopped"


async def test_candidates_are_refused_only_when_the_end_of_their_crawl_is_durable(tmp_path: Path) -> None:
    """Else a power cut could take the end back, and whoever offered them would not do so again."""
    store, said = HeldStore(), spec()
    async with running(store, config(tmp_path), make=whole_crawls(2)) as runner:
        unused: Any = None
        requests = Requests(unused, unused, unused, unused, runner)
        settings = wire.settings_of(said)
        await runner.run(
            lambda core, now: core.control.create_crawl(CRAWL, settings, said.SerializeToString(), now)
        )
        await requests.check_unfinished(CRAWL)
        store.hold()
        stop = asyncio.create_task(
            runner.run(lambda core, now: core.control.request_state(CRAWL, Input.STOP, now))
        )
        views = runner.core.views
        await soon(lambda: views.crawl(CRAWL).state is CrawlState.FINISHED, "the end, in memory")
        asked = asyncio.create_task(requests.check_unfinished(CRAWL))
        await turns()
        assert not asked.done()
        store.release()
        with pytest.raises(CrawlFinished):
            await asked
        await stop
