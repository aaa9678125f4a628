"""A store keeps the list of public suffixes that it was made with: another one moves no URI."""

import shutil
from pathlib import Path

import publicsuffixlist
import pytest
from frontier_harness.process import NotServing, ServerProcess
from frontier_harness.waiting import PATIENCE_S
from integration.test_checkpoints import fetch_all, spec

from frontier_server.core.opening import opening
from frontier_server.core.rows.records import PlacesRow
from frontier_server.core.rows.store import Family
from frontier_server.program.suffix_list import installed
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_client import CrawlController, FrontierClient
from toehold_client.errors import IllegalState

URIS = [f"http://{host}.city.uk/{page}" for host in ("a", "b") for page in range(4)]


def with_one_suffix_more(folder: Path) -> dict[str, str]:
    """The environment of a server whose list also has `city.uk`."""
    package = folder / "other" / "publicsuffixlist"
    shutil.copytree(Path(publicsuffixlist.__file__).parent, package)
    file = package / Path(publicsuffixlist.PSLFILE).name
    file.write_text(file.read_text().replace("\nco.uk\n", "\nco.uk\ncity.uk\n"))
    return {"PYTHONPATH": str(package.parent)}


def by_domain() -> CrawlSpec:
    """A crawl whose URIs are placed by their registered domains."""
    said = spec()
    said.queues.partition = said.queues.assignment = "registered-domain"
    said.scope.surt_prefixes.append("http://(")
    return said


def forget_the_list(data: Path) -> None:
    """Turn a store into one of the format before, which kept no list and placed hosts by themselves."""
    store = RocksStore(data / "store")
    row = opening.server_row(store)
    row.format = 2
    ((key, _),) = opening.places_changes(PlacesRow(b"", by_site=False)).items()
    store.write({key: None, **opening.server_changes(row)})
    store.close()


@pytest.mark.parametrize("other_first", [False, True])
def test_a_server_with_another_suffix_list_starts_and_fetches_no_page_again(
    tmp_path: Path, other_first: bool
) -> None:
    other = with_one_suffix_more(tmp_path)
    environments = ({}, other, {}) if not other_first else (other, {}, other)
    fetched: list[str] = []
    for start, environment in enumerate(environments):
        with (
            ServerProcess(tmp_path / "data", environment=environment) as server,
            FrontierClient(server.address) as client,
        ):
            if not start:
                crawl = CrawlController(client, "crawl")
                crawl.create(by_domain(), URIS[:1])
                crawl.launch()
                crawl.wait_for({CrawlState.CRAWL_STATE_RUNNING}, PATIENCE_S)
            client.schedule("crawl", [Candidate(uri=uri, via=URIS[0], path="L") for uri in URIS])
            fetched += fetch_all(client, "crawl", most=3 if start < 2 else 1000)
            assert server.stop()[0] == 0
    assert sorted(fetched) == URIS


def test_a_store_of_format_2_keeps_the_suffix_list_of_its_first_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stop()
    forget_the_list(data)
    for environment in ({}, with_one_suffix_more(tmp_path)):
        with ServerProcess(data, environment=environment) as server:
            server.stop()
        store = RocksStore(data / "store")
        try:
            row = opening.places_row(store, opening.server_row(store))
            assert row == PlacesRow(installed(), by_site=False)
        finally:
            store.close()


def test_launch_from_a_checkpoint_with_another_suffix_list_is_refused(tmp_path: Path) -> None:
    kept = ""
    for folder, environment in (("one", with_one_suffix_more(tmp_path)), ("two", {})):
        with (
            ServerProcess(tmp_path / folder, environment=environment) as server,
            FrontierClient(server.address) as client,
        ):
            CrawlController(client, "first").create(by_domain(), URIS[:1])
            if not kept:
                kept = client.create_checkpoint().path
                continue
            own = Path(client.create_checkpoint().path)
            shutil.rmtree(own)
            shutil.copytree(kept, own)
            CrawlController(client, "second").create(by_domain())
            with pytest.raises(IllegalState, match="by another list of public suffixes than this store"):
                client.launch_crawl("second", checkpoint=own.name, checkpoint_crawl="first")


def test_a_store_without_its_suffix_list_is_refused_with_the_remedy(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stop()
    store = RocksStore(data / "store")
    ((key, _),) = opening.places_changes(PlacesRow(b"", by_site=True)).items()
    assert key[0] is Family.CRAWLS
    store.write({key: None})
    store.close()
    with pytest.raises(NotServing, match="exit code 6"), ServerProcess(data):
        pass
    assert "lacks the row that decides the places of all others" in (tmp_path / "data.stderr").read_text()
