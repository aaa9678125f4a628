"""The node that `make bench` measures is the one that users have, with clocks."""

import json
from pathlib import Path

from benchmarks.load import Load, host_names
from benchmarks.node import crawl_pages, listed_pages
from benchmarks.processes import Child, FrontierServer
from benchmarks.timed_node import STAGES

from practice_web.practice import PAGES

HOSTS = host_names(2)


def test_a_timed_node_fetches_pages_and_tells_what_each_stage_used(tmp_path: Path) -> None:
    with (
        Child("benchmarks.page_server", str(PAGES), errors=tmp_path / "site.err") as site,
        FrontierServer(tmp_path / "store") as server,
        Load(server.address) as load,
    ):
        port = site.hear()
        options = [f"--frontier={server.address}", f"--warc={tmp_path / 'warcs'}"]
        options += [f"--resolve={host}:{port}:127.0.0.1" for host in HOSTS]
        with Child("benchmarks.timed_node", *options, errors=tmp_path / "node.err") as node:
            node.hear()
            turn = crawl_pages("c", listed_pages(HOSTS, port)[:4], node, server, load)
            used_s = json.loads(node.end())
    assert turn.pages == 4
    assert set(used_s) == set(STAGES)
    assert all(seconds > 0 for seconds in used_s.values())
