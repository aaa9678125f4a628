"""How nodes are told to fetch: each field of the contract's FetchPolicy arrives where fetches look for it."""

import threading
from dataclasses import fields
from typing import Any, cast

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from node_doubles.leases import lease

from crawler_node.fetching.fetch import ExtractSettings, FetchPolicy, Provenance
from crawler_node.leases import poller
from crawler_node.leases.book import LeaseBook
from crawler_node.leases.poller import usable_policy
from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.frontier_pb2 import NextResponse
from toehold_client.worker.addresses import AddressRule

TOLD = crawl_pb2.FetchPolicy(
    fetch_policy_id="id",
    user_agent="archive/1 (+https://archive.example/)",
    timeout=Duration(seconds=7),
    max_bytes=11,
    allowed_addresses=["10.1.0.0/16"],
    connect_timeout=Duration(seconds=2),
    read_timeout=Duration(seconds=3),
    accept_media_types=["text/*"],
    reject_media_types=["text/css"],
    max_content_length=13,
    cookies=True,
    keep_alive=True,
    min_delay=Duration(seconds=3),
    headers=["Accept-Language: de", "From:me@a.example"],
    referer=True,
    proxy="http://127.0.0.1:3128",
    user="reader",
    password="secret",
    max_bytes_per_second=17,
    product_token="archive",
    extract=crawl_pb2.ExtractSpec(
        max_links=19, javascript=True, obey_nofollow=True, obey_robots_meta=False, sitemap_lastmod=True
    ),
    provenance=crawl_pb2.Provenance(
        launch_time=Timestamp(seconds=23),
        operator="Archive",
        contact="https://archive.example/",
        description="All of it",
        user_agent="archive/2",
        robots_policy="ignore",
    ),
)


def test_everything_that_is_told_arrives() -> None:
    assert usable_policy(TOLD) == FetchPolicy(
        policy_id="id",
        user_agent="archive/1 (+https://archive.example/)",
        timeout_ms=7_000,
        max_bytes=11,
        addresses=AddressRule.parse(["10.1.0.0/16"]),
        connect_timeout_ms=2_000,
        read_timeout_ms=3_000,
        accept_media_types=("text/*",),
        reject_media_types=("text/css",),
        max_content_length=13,
        cookies=True,
        keep_alive=True,
        min_delay_ms=3_000,
        headers=((b"Accept-Language", b"de"), (b"From", b"me@a.example")),
        referer=True,
        proxy="http://127.0.0.1:3128",
        user="reader",
        password="secret",
        max_bytes_per_second=17,
        product_token="archive",
        extract=ExtractSettings(
            max_links=19, javascript=True, obey_nofollow=True, obey_robots_meta=False, sitemap_lastmod=True
        ),
        provenance=Provenance(
            launch_ms=23_000,
            operator="Archive",
            contact="https://archive.example/",
            description="All of it",
            user_agent="archive/2",
            robots_policy="ignore",
        ),
    )


def test_no_field_is_left_out_of_this_test() -> None:
    assert {field.name for field, _ in TOLD.ListFields()} == set(
        crawl_pb2.FetchPolicy.DESCRIPTOR.fields_by_name
    )
    assert len(fields(FetchPolicy)) == len(crawl_pb2.FetchPolicy.DESCRIPTOR.fields)
    assert {field.name for field in fields(ExtractSettings)} == set(
        crawl_pb2.ExtractSpec.DESCRIPTOR.fields_by_name
    )
    assert {field.name for field, _ in TOLD.provenance.ListFields()} == set(
        crawl_pb2.Provenance.DESCRIPTOR.fields_by_name
    )


def test_a_frontier_that_tells_only_what_it_must_gets_the_defaults() -> None:
    told = crawl_pb2.FetchPolicy(
        fetch_policy_id="id",
        user_agent="old/1",
        timeout=Duration(seconds=7),
        max_bytes=11,
        allowed_addresses=["loopback"],
    )
    policy = usable_policy(told)
    assert policy is not None
    assert (policy.connect_timeout_ms, policy.read_timeout_ms) == (20_000, 20_000)
    assert policy.extract == ExtractSettings()
    assert policy.provenance == Provenance(user_agent="old/1")


def test_a_policy_that_the_node_has_serves_leases_whose_answer_pushes_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each crawl has policies of its own, and a node may serve more crawls than it keeps policies."""
    monkeypatch.setattr(poller, "MAX_POLICIES", 3)

    class Frontier:
        batches = iter([["a", "b", "c"], ["a", "d", "e", "f", "g", "b"], ["a"]])

        def next(self, crawl: str, room: int, wait_s: float, known: list[str]) -> NextResponse:
            batch = next(self.batches)
            policies = [policy_of(name) for name in batch if name not in known]
            leases = [lease(f"http://{name}.example/{len(known)}") for name in batch]
            for each, name in zip(leases, batch, strict=True):
                each.fetch_policy_id = name
            return NextResponse(leases=leases, fetch_policies=policies)

    book = LeaseBook()
    book.resize(100)
    polled = poller.Poller(cast(Any, Frontier()), book, cast(Any, None), "", lambda held: None)
    for _ in range(3):
        polled._poll(100)
    taken = [book.take(threading.Event()) for _ in range(10)]
    named = [(each.lease.fetch_policy_id, each.policy and each.policy.policy_id) for each in taken if each]
    assert len(named) == 10
    assert all(wanted == got for wanted, got in named)


def policy_of(name: str) -> crawl_pb2.FetchPolicy:
    policy = crawl_pb2.FetchPolicy()
    policy.CopyFrom(TOLD)
    policy.fetch_policy_id = name
    return policy


@pytest.mark.parametrize(
    "change",
    [{"allowed_addresses": ["nowhere"]}, {"max_bytes": 0}, {"timeout": Duration()}],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_none(change: dict[str, object]) -> None:
    told = crawl_pb2.FetchPolicy()
    told.CopyFrom(TOLD)
    for name in change:
        told.ClearField(name)  # type: ignore[arg-type]  # a field of FetchPolicy
    told.MergeFrom(crawl_pb2.FetchPolicy(**change))  # type: ignore[arg-type]  # as above
    assert usable_policy(told) is None
