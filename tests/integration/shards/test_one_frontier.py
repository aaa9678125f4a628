"""What operators see of a frontier of three shards: one frontier, with one cursor of each list."""

from functools import partial

import grpc
import pytest
from frontier_harness.calls import (
    INVALID,
    PAUSE,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    named,
    refused,
    report,
    spec,
)
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture
def wide(stubs: Stubs, sites: list[str]) -> str:
    """A crawl with three pages of each of twelve sites, which waits."""
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    stubs.schedule(crawl, *(f"{site}{page}" for site in sites for page in ("a", "b")))
    stubs.request(crawl, PAUSE)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    return crawl


def fetch(stubs: Stubs, crawl: str, pages: int) -> None:
    """Fetch so many pages, and the robots.txt of their hosts."""
    while pages:
        leases = stubs.pages(crawl)  # none at the moment at which a part is told to run
        if leases:
            stubs.finish(*(report(lease) for lease in leases))
        pages -= len(leases)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_each_listing_has_everything_once_whatever_its_pages(
    stubs: Stubs, wide: str, sites: list[str], size: int
) -> None:
    every = sorted(f"{site}{page}" for site in sites for page in ("", "a", "b"))
    uris = [each for page in stubs.pages_of("ListUris", wide, "uris", page_size=size) for each in page]
    assert sorted(each.candidate.uri for each in uris) == every
    seen = [each for page in stubs.pages_of("ListSeenUris", wide, "uris", page_size=size) for each in page]
    assert sorted(each.uri for each in seen) == every
    queues = [each for page in stubs.pages_of("ListQueues", wide, "queues", page_size=size) for each in page]
    assert sorted(each.host for each in queues) == sorted(site[7:-1] for site in sites)
    seeds = [each for page in stubs.pages_of("ListSeeds", wide, "seeds", page_size=size) for each in page]
    assert [each.uri for each in seeds] == sites
    assert all(each.outcome.startswith("not fetched yet") for each in seeds)


def test_a_token_of_another_listing_is_refused(stubs: Stubs, wide: str) -> None:
    token = stubs.ask("ListQueues", wide, page_size=5).next_page_token
    others = [("ListUris", {}), ("ListHosts", {}), ("ListSources", {}), ("ListQueues", {"state": 1})]
    for rpc, more in others:
        asked = {"page_token": token, **more}
        refused(partial(stubs.ask, rpc, wide, **asked), INVALID, "INVALID_ARGUMENT_VALUE")
    cursor = stubs.ask("ExportUris", wide)[0].cursor
    export = {"cursor": token}
    refused(lambda: stubs.ask("ExportUris", wide, **export), INVALID, "INVALID_ARGUMENT_VALUE", "ExportUris")
    assert cursor != token


def test_an_export_goes_on_at_each_cursor(stubs: Stubs, wide: str) -> None:
    messages = stubs.ask("ExportUris", wide)
    whole = [uri.candidate.uri for message in messages for uri in message.uris]
    assert len(whole) == 36
    read = 0
    for message in messages:
        read += len(message.uris)
        rest = stubs.ask("ExportUris", wide, cursor=message.cursor)
        assert [uri.candidate.uri for each in rest for uri in each.uris] == whole[read:]


def test_hosts_and_sources_have_one_line_each(stubs: Stubs, sites: list[str]) -> None:
    """One seed's pages are in all shards: its statistics are their sum."""
    crawl = fresh_name()
    stubs.launch(crawl, sites[0], of=spec(scope=crawl_pb2.ScopeSpec(surt_prefixes=["http://(example,"])))
    candidates = [
        admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=site, source=sites[0], path="L"))
        for site in sites[1:]
    ]
    assert stubs.bring(crawl, *candidates).changed_count == 11
    fetch(stubs, crawl, 12)
    for size in (1, 2, 1000):
        pages = stubs.pages_of("ListSources", crawl, "sources", page_size=size)
        assert [(each.name, each.succeeded_count) for page in pages for each in page] == [(sites[0], 12)]
    hosts = [each for page in stubs.pages_of("ListHosts", crawl, "hosts", page_size=5) for each in page]
    assert sorted(each.name for each in hosts) == sorted(site[7:-1] for site in sites)


def test_the_largest_queue_of_all_shards_comes_first(stubs: Stubs, wide: str, sites: list[str]) -> None:
    for count, site in enumerate(sites, 1):
        stubs.schedule(wide, *(f"{site}more{number}" for number in range(count)))
    queues = stubs.ask("ListLargestQueues", wide).queues
    assert [(queue.host, queue.queued_count) for queue in queues] == [
        (site[7:-1], 3 + count) for count, site in reversed(list(enumerate(sites, 1)))
    ]


def test_a_uri_is_found_counted_noted_and_forgotten_wherever_it_is(
    stubs: Stubs, wide: str, sites: list[str]
) -> None:
    for site in sites:
        assert stubs.ask("GetUri", wide, uri=site).story.state == admin_pb2.URI_STATE_QUEUED
        assert stubs.ask("GetQueue", wide, queue_key=stubs.ask("GetUri", wide, uri=site).story.queue_key)
    assert stubs.ask("CountSeenUris", wide).queued_count == 36
    others = [f"{site}other" for site in sites]
    assert stubs.ask("NoteUris", wide, uris=others).noted_count == 12
    assert stubs.ask("NoteUris", wide, uris=others).noted_count == 0
    assert stubs.ask("CountSeenUris", wide).done_count == 12
    assert stubs.ask("ForgetUris", wide, uris=[*others, *sites]).forgotten_count == 12
    wrong = [*others, "gopher://example"]
    refused(lambda: stubs.ask("NoteUris", wide, uris=wrong), INVALID, "INVALID_ARGUMENT_VALUE", "gopher")
    assert stubs.ask("CountSeenUris", wide).done_count == 0
    acts = [event.operator_acted.action for event in stubs.events_so_far(wide)]
    assert [act for act in acts if act.endswith("-uris")] == ["note-uris", "note-uris", "forget-uris"]


def test_a_queue_that_no_shard_has_is_unknown(stubs: Stubs, wide: str, sites: list[str]) -> None:
    asked = {"queue_key": "no,such,queue"}
    for rpc in ("GetQueue", "ListUris", "Explain"):
        refused(partial(stubs.ask, rpc, wide, **asked), NOT_FOUND, "UNKNOWN_QUEUE", "no,such,queue")
    change = {**asked, "change": {"paused": True}}
    refused(lambda: stubs.ask("UpdateQueue", wide, **change), NOT_FOUND, "UNKNOWN_QUEUE", "no,such,queue")
    key = stubs.ask("GetUri", wide, uri=sites[3]).story.queue_key
    (queue,) = stubs.ask("UpdateQueue", wide, queue_key=key, change={"paused": True}).queues
    assert (queue.queue_key, queue.paused) == (key, True)
    acts = [event.operator_acted for event in stubs.events_so_far(wide)]
    assert [act.detail for act in acts if act.action == "change-queue"] == [key]


def test_refusals_are_counted_by_rule(stubs: Stubs, wide: str, sites: list[str]) -> None:
    stubs.schedule(wide, *(f"http://outside-{number}.example/" for number in range(9)), "no URI at all")
    rules = stubs.ask("ListRefusals", wide).rules
    assert [(rule.rule, rule.refused_count, len(rule.examples)) for rule in rules] == [
        ("scope.hosts", 9, 3),
        ("malformed", 1, 1),
    ]
    (only,) = stubs.ask("ListRefusals", wide, rule="scope.hosts").rules
    assert len({each.uri for each in only.examples}) == 9


def test_reasons_of_a_crawl_are_given_once(stubs: Stubs, wide: str, sites: list[str]) -> None:
    reasons = stubs.ask("Explain", wide).reasons
    assert [admin_pb2.Why.Name(reason.why) for reason in reasons] == ["WHY_PAUSED"]
    (reason, *_) = stubs.ask("Explain", wide, uri=sites[5]).reasons
    assert reason.why == admin_pb2.WHY_PAUSED
    stubs.request(wide, crawl_pb2.TARGET_STATE_RUN)
    kinds = [reason.why for reason in stubs.ask("Explain", wide).reasons]
    assert len(set(kinds)) == len(kinds) >= 1


def test_outcomes_of_all_shards_come_in_one_stream_that_goes_on_at_each_cursor(
    stubs: Stubs, wide: str, sites: list[str]
) -> None:
    stubs.request(wide, crawl_pb2.TARGET_STATE_RUN)
    fetch(stubs, wide, 36)
    stubs.until(wide, crawl_pb2.CRAWL_STATE_FINISHED)
    first, *others = stubs.ask("StreamOutcomes", wide, cursor="start", follow=True)
    outcomes = [outcome for message in others for outcome in message.outcomes]
    assert first.kept.outcome_count == len(outcomes) == 48  # with the robots.txt of each site
    assert len({outcome.uri for outcome in outcomes}) == 48
    for read in (1, 17, 48):
        _, *rest = stubs.ask("StreamOutcomes", wide, cursor=outcomes[read - 1].cursor)
        uris = {outcome.uri for message in rest for outcome in message.outcomes}
        assert uris == {outcome.uri for outcome in outcomes[read:]}
    _, *all_again = stubs.ask("StreamOutcomes", wide, cursor=first.kept.oldest_cursor)
    assert sum(len(message.outcomes) for message in all_again) == 48
    assert stubs.ask("StreamOutcomes", wide, cursor=first.kept.last_cursor)[1:] == []
    wrong = {"cursor": "o17-4"}
    refused(lambda: stubs.ask("StreamOutcomes", wide, **wrong), INVALID, "INVALID_ARGUMENT_VALUE", "o17-4")


def test_a_job_is_one_job_with_the_sums_of_its_parts(stubs: Stubs, wide: str, sites: list[str]) -> None:
    asked = {"queue_pattern": ".*", "uri_pattern": ".*[ab]"}
    dry = stubs.job(wide, delete_uris={**asked, "dry_run": True})
    assert (dry.state, dry.changed_count) == (admin_pb2.JOB_STATE_DONE, 24)
    assert sorted(dry.findings) == sorted(f"{site}{page}" for site in sites for page in ("a", "b"))
    assert dict(dry.parameters) == {**asked, "dry_run": "true"}
    done = stubs.job(wide, delete_uris=asked)
    assert (done.job, done.changed_count) == (dry.job + 1, 24)
    assert len(stubs.waiting(wide)) == 12
    assert stubs.job(wide, verify={}).changed_count == 0
    assert [job.kind for job in stubs.ask("ListJobs", wide).jobs] == ["seed", *["delete-uris"] * 2, "verify"]
    told = [named(event) for event in stubs.events_so_far(wide)]
    assert (told.count("job_ended"), told.count("by start-job")) == (3, 3)


def test_an_import_is_split_and_counted_as_one(stubs: Stubs, wide: str, sites: list[str]) -> None:
    entries = [
        admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=f"{site}new", path="L")) for site in sites
    ]
    seen = [admin_pb2.ImportEntry(seen=admin_pb2.SeenUri(uri=f"{site}old")) for site in sites]
    job = stubs.bring(wide, *entries, *seen)
    assert (job.kind, job.state, job.done_count, job.total_count) == (
        "import",
        admin_pb2.JOB_STATE_DONE,
        24,
        24,
    )
    assert dict(job.counts) == {"QUEUED": 12}
    assert stubs.ask("CountSeenUris", wide).done_count == 12
    told = [named(event) for event in stubs.events_so_far(wide)]
    assert (told.count("job_ended"), told.count("by import")) == (1, 1)


def test_a_node_is_listed_once_with_its_leases_in_all_shards(stubs: Stubs, wide: str) -> None:
    stubs.request(wide, crawl_pb2.TARGET_STATE_RUN)
    node = fresh_name()
    leases: list[frontier_pb2.Lease] = []
    while len(leases) < 12:
        leases += stubs.next(wide, node=node, wait_s=TIMEOUT_S).leases
    stubs.heartbeat([lease.token for lease in leases], node=node)
    frontier = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest())
    (listed,) = [each for each in frontier.nodes if each.node == node]
    assert (listed.leased_count, listed.draining) == (12, False)
    stubs.admin.SetPoolSize(admin_pb2.SetPoolSizeRequest(node=node, size=7))
    assert stubs.heartbeat(node=node).pool_size == 7
    eventually(lambda: any(event.node_joined.node == node for event in stubs.events_so_far(wide)), node)
    for _ in range(2):
        stubs.admin.DrainNode(admin_pb2.DrainNodeRequest(node=node))
    assert stubs.heartbeat(node=node).drain
    acts = [event.operator_acted.action for event in stubs.events_so_far(wide)]
    assert (acts.count("drain-node"), acts.count("resize-pool")) == (1, 1)
    stubs.finish(*(report(lease) for lease in leases), node=node)
    forget = admin_pb2.ForgetNodeRequest(node=node)
    refused(lambda: stubs.admin.ForgetNode(forget), grpc.StatusCode.FAILED_PRECONDITION, "NODE_PRESENT")


def test_statistics_add_up(stubs: Stubs, wide: str) -> None:
    told = eventually(lambda: stubs.statistics(wide), "statistics")
    assert (told.discovered_count, told.queued_count, dict(told.verdict_counts)) == (36, 36, {"QUEUED": 36})
