"""The command lines of the members of a frontier with several shards."""

import pytest

from frontier_server.config import DOOR, FRONT, ServerFile
from frontier_server.program import program
from frontier_server.program.machine import member_options
from frontier_server.program.supervisor import options_of, share_of

SETTINGS = ServerFile(
    data="d",
    listen="192.0.2.1:7707",
    insecure=True,
    tls_cert="c",
    tls_key="k",
    tls_ca="a",
    callers="who",
    lease_seconds=77,
    cache_mib=90,
    metrics="127.0.0.1:1",
    console="127.0.0.1:2",
    console_hosts="h",
    disk_reserve_mib=0,
    trace_ratio=0,
    shards=2,
    read_only=True,
)


def understood(options: list[str]) -> dict[str, object]:
    """What the program takes options for, but for those that were not given."""
    context = program.main.make_context("toehold-frontier", options)
    return {name: value for name, value in context.params.items() if is_given(value)}


def is_given(value: object) -> bool:
    return not (value is None or value is False or value == "")


def test_the_front_has_all_settings_and_a_share_of_the_cache() -> None:
    found = understood(options_of(FRONT, SETTINGS, 2))
    given = {field: getattr(SETTINGS, field) for field in SETTINGS.__struct_fields__}
    expected = {name: value for name, value in given.items() if is_given(value)}
    del expected["shards"]
    assert found == {**expected, "cache_mib": 30}


def test_a_shard_has_the_callers_but_no_settings_of_addresses_or_encryption() -> None:
    found = understood(options_of("shard-1", SETTINGS, 2))
    assert (found["callers"], found["lease_seconds"], found["read_only"]) == ("who", 77, True)
    assert found["listen"] == ServerFile().listen
    assert not found.keys() & {"insecure", "tls_cert", "tls_key", "tls_ca", "metrics", "console", "shards"}


def test_the_door_of_a_machine_has_the_addresses_and_the_front_the_metrics() -> None:
    of_door = {"tls_cert", "tls_key", "tls_ca", "console", "console_hosts"}
    door, front, shard = (understood(member_options(name, SETTINGS, 2)) for name in (DOOR, FRONT, "shard-1"))
    assert of_door <= door.keys() and not of_door & (front.keys() | shard.keys())
    assert [found["listen"] != ServerFile().listen for found in (door, front, shard)] == [True, False, False]
    assert ["metrics" in found for found in (door, front, shard)] == [False, True, False]
    assert front["insecure"], "metrics may be read on a network"
    assert door["lease_seconds"] == front["lease_seconds"] == shard["lease_seconds"] == 77


@pytest.mark.parametrize(("cache_mib", "shards", "each"), [(256, 3, 64), (1, 64, 1)])
def test_members_share_the_cache(cache_mib: int, shards: int, each: int) -> None:
    assert share_of(cache_mib, shards) == each
