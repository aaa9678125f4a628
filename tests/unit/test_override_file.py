"""Files of overrides: only what they say is overridden, and all of it."""

from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.crawl_pb2 import (
    ExtractSpec,
    FetchSpec,
    OverrideSettings,
    PolitenessSpec,
    QueueSpec,
    QuotaSpec,
    RetryRule,
    RetrySpec,
    RevisitSpec,
)
from toehold_client.errors import InvalidSpec
from toehold_client.spec.fields import Override
from toehold_client.spec.file import load_override, override_plain
from toehold_client.spec.plain import key_of


def settings_of(tmp_path: Path, text: str) -> OverrideSettings:
    (tmp_path / "override.toml").write_text(text)
    return load_override(tmp_path / "override.toml")


def test_a_file_can_say_every_field_of_an_override() -> None:
    parts = [field for field in OverrideSettings.DESCRIPTOR.fields if field.message_type is not None]
    for field in parts:
        assert field.message_type is not None
        table = getattr(Override(), field.name)
        assert {key_of(inner) for inner in field.message_type.fields} == set(table.__struct_fields__)
    assert {field.name for field in parts} == set(Override.__struct_fields__)
    (beside,) = {field.name for field in OverrideSettings.DESCRIPTOR.fields} - {part.name for part in parts}
    assert beside == "empty_lists", "which a list without elements says"


def test_everything_said_arrives_even_if_it_is_a_default(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        """
        [politeness]
        min_delay_seconds = 3.0
        delay_factor = 0
        across_crawls = true
        [retry]
        max_attempts = 30
        [[retry.statuses]]
        fetch_status = 404
        max_attempts = 2
        [fetch]
        product_token = "toehold"
        [queues]
        queue_key = ""
        retire = false
        success_thresholds = [100, 1000]
        session_budget = -1
        [host_quota]
        max_successes = 0
        [revisit]
        policy = "none"
        interval_seconds = 0.5
        """,
    )
    assert settings == OverrideSettings(
        politeness=PolitenessSpec(min_delay=Duration(seconds=3), delay_factor=0, across_crawls=True),
        retry=RetrySpec(max_attempts=30, statuses=[RetryRule(fetch_status=404, max_attempts=2)]),
        fetch=FetchSpec(product_token="toehold"),
        queues=QueueSpec(queue_key="", retire=False, success_thresholds=[100, 1000], session_budget=-1),
        host_quota=QuotaSpec(max_successes=0),
        revisit=RevisitSpec(policy="none", interval=Duration(nanos=500_000_000)),
    )
    assert settings.queues.HasField("queue_key") and settings.queues.HasField("retire")
    assert not settings.queues.HasField("total_budget") and not settings.retry.HasField("growth")


def test_false_zero_and_empty_arrive_and_are_told_again(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        """
        [politeness]
        max_bytes_per_second = 0
        [retry]
        statuses = []
        [fetch]
        cookies = false
        proxy = ""
        max_content_length = 0
        accept_media_types = []
        reject_media_types = ["image/*"]
        credentials = []
        [extract]
        javascript = false
        """,
    )
    assert settings == OverrideSettings(
        politeness=PolitenessSpec(max_bytes_per_second=0),
        fetch=FetchSpec(cookies=False, proxy="", max_content_length=0, reject_media_types=["image/*"]),
        extract=ExtractSpec(javascript=False),
        empty_lists=["retry.statuses", "fetch.accept_media_types", "fetch.credentials"],
    )
    assert settings.fetch.HasField("cookies") and not settings.extract.HasField("obey_nofollow")
    assert override_plain(settings) == {
        "politeness": {"max_bytes_per_second": 0},
        "retry": {"statuses": []},
        "fetch": {
            "max_content_length": 0,
            "cookies": False,
            "proxy": "",
            "reject_media_types": ["image/*"],
            "accept_media_types": [],
            "credentials": [],
        },
        "extract": {"javascript": False},
    }


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("[politness]\n", "politness", "did you mean politeness?"),
        (
            "[limits.host_quota]\n",
            "limits",
            "must be one of politeness, retry, fetch, queues, host_quota",
        ),
        ("name = 'x'\n", "name", "no such field"),
        ("politeness = 5\n", "politeness", "must be a table, got 5"),
        (
            "[queues]\nsession_budget = 'much'\n",
            "queues.session_budget",
            'must be a whole number, got "much"',
        ),
        ("[retry]\ndelay_seconds = -1\n", "retry.delay_seconds", "must be at least 0, got -1"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, place: str, problem: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        settings_of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'override.toml'}: {place}: ")
    assert problem in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="cannot be read"):
        load_override(tmp_path / "missing.toml")
    with pytest.raises(InvalidSpec, match="must be TOML"):
        settings_of(tmp_path, "[")
