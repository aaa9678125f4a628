"""How nodes are told to fetch: each field of the contract's FetchPolicy arrives where fetches look for it."""

from dataclasses import fields

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from crawler_node.fetching.addresses import AddressRule
from crawler_node.fetching.fetch import ExtractSettings, FetchPolicy, Provenance
from crawler_node.leases.feeder import usable_policy
from toehold.frontier.v1 import crawl_pb2

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
