"""`toehold crawl` with several shards: its directory remembers them, and is read like any other."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from frontier_harness import embedded
from frontier_harness.embedded import Run, once_each, report_in, toehold, until_pausing
from frontier_harness.small_site import SmallSite

from toehold_client.watching.crawl_directory import crawl_logs_of, shard_count_of

site, crawl = embedded.site, embedded.crawl  # fixtures


def test_a_crawl_with_shards_goes_on_with_them_and_is_read_when_it_has_ended(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    directory = tmp_path / "it"
    let_go = site.hold("/page/5")
    run = crawl("--shards", "2")
    run.until(lambda: site.asked["/page/5"])
    frontier = json.loads((directory / "frontier.json").read_text())["address"]
    assert json.loads(toehold(tmp_path, "status", "--dir", "it", "--json")[1])["status"]["state"] == "RUNNING"
    assert "present" in toehold(tmp_path, "nodes", "--frontier", frontier)[1].split("shard", 1)[1]
    run.process.send_signal(signal.SIGTERM)
    until_pausing(tmp_path)
    let_go.set()
    assert run.end()[0] == 130
    assert shard_count_of(directory) == 2
    code, _, stderr = crawl("--shards", "3").end()
    assert (code, "has 2 shards, got --shards 3" in " ".join(stderr.split())) == (5, True)
    code, _, stderr = crawl().end()
    assert (code, stderr) == (0, "")
    once_each(site)
    assert report_in(tmp_path)["state"] == "FINISHED"
    read = json.loads(toehold(tmp_path, "status", "--dir", "it", "--json")[1])
    assert read["statistics"]["succeeded_count"] == report_in(tmp_path)["pages"]
    code, _, stderr = toehold(tmp_path, "pause", "--dir", "it")
    assert code != 0 and "--recrawl" in stderr
    assert [path.parts[-4] for path in crawl_logs_of(directory, "crawl")] == ["shard-0000", "shard-0001"]
    code, stdout, _ = crawl("--recrawl").end()
    assert (code, report_in(tmp_path)["state"]) == (0, "FINISHED")
    assert "Will fetch 25 pages again." in stdout
