"""The table of roles: each RPC of each service is for somebody, and each role for what its name says."""

from collections.abc import Iterator

import pytest
from frontier_harness.every_rpc import RPCS
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from frontier_server.service import gate
from toehold.node.v1 import node_pb2
from toehold_base.access.callers import Caller
from toehold_base.access.denials import PermissionDenied
from toehold_base.access.roles import ROLES, Role, all_of, is_question

NODE = node_pb2.DESCRIPTOR.services_by_name["NodeService"]
METHODS = {f"{method.containing_service.full_name}/{name}" for name, method in RPCS.items()} | {
    f"{NODE.full_name}/{method.name}" for method in NODE.methods
}
ANSWERED_APART = {("Heartbeat", "idle_crawls")}
"""Fields whose crawls are answered one by one: see integration/test_gate, which asks about each kind."""
FRONTIER, ADMIN = "toehold.frontier.v1.FrontierService", "toehold.frontier.v1.FrontierAdminService"


def test_every_rpc_has_its_roles_and_no_role_is_for_an_rpc_that_there_is_not() -> None:
    assert set(ROLES) == METHODS


def test_the_gate_sees_every_crawl_that_a_request_names() -> None:
    """A field with a name of its own would let callers of some crawls reach others."""
    hidden = [
        (rpc, *path)
        for rpc, method in RPCS.items()
        for path in names_of(method.input_type)
        if "crawl" in path[-1]
        and (rpc.rpartition("/")[2], *path) not in ANSWERED_APART
        and not (len(path) == 1 and path[0] in gate.CRAWL_FIELDS)
    ]
    assert hidden == []


def names_of(kind: Descriptor, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The text fields of a message and of those within it, by their paths."""
    for field in kind.fields:
        path = (*above, field.name)
        if field.type == FieldDescriptor.TYPE_STRING:
            yield path
        elif field.message_type is not None and len(path) < 6:
            yield from names_of(field.message_type, path)


def test_every_rpc_is_for_admins() -> None:
    assert [method for method in sorted(METHODS) if Role.ADMIN not in ROLES[method]] == []


def test_whoever_operates_may_also_watch_and_feed() -> None:
    for roles in ROLES.values():
        if roles & {Role.WATCH, Role.FEED}:
            assert Role.OPERATE in roles


def test_a_fetcher_may_do_what_a_node_does_and_nothing_else() -> None:
    its = {method for method, roles in ROLES.items() if Role.FETCH in roles}
    asks = {f"{ADMIN}/GetCaller"}
    assert its == asks | {f"{FRONTIER}/{name}" for name in ("Schedule", "Next", "Finished", "Heartbeat")}


def test_a_feeder_may_offer_candidates_and_seeds_and_nothing_else() -> None:
    its = {method for method, roles in ROLES.items() if Role.FEED in roles}
    offers = {f"{FRONTIER}/Schedule", f"{ADMIN}/AddSeeds", f"{ADMIN}/AddSeedBatch"}
    assert its == offers | {f"{ADMIN}/GetCaller"}


def test_whoever_watches_changes_nothing() -> None:
    for method, roles in ROLES.items():
        assert is_question(method) == (Role.WATCH in roles)
        name = method.rpartition("/")[2]
        if Role.WATCH in roles:
            assert name.startswith(("Get", "List", "Count", "Export", "Explain", "Stream", "StateEvents"))


def test_only_admins_destroy_crawls_and_checkpoints() -> None:
    its = {method.rpartition("/")[2] for method, roles in ROLES.items() if roles == {Role.ADMIN}}
    assert its == {"DeleteCrawl", "CreateCheckpoint", "DeleteCheckpoint"}


def test_a_caller_is_told_which_role_a_call_is_for() -> None:
    caller = Caller("somebody", frozenset({Role.WATCH}))
    with pytest.raises(PermissionDenied, match="'somebody' has watch") as denied:
        caller.check_role(f"{FRONTIER}/Next")
    assert denied.value.reason == "ROLE_MISSING"
    assert str(denied.value).startswith("Next is for callers with the role ")


def test_several_roles_add_up() -> None:
    caller = Caller("both", frozenset({Role.WATCH, Role.FETCH}))
    caller.check_role(f"{FRONTIER}/Next")
    caller.check_role(f"{ADMIN}/GetCrawl")
    with pytest.raises(PermissionDenied, match="has fetch, watch"):
        caller.check_role(f"{ADMIN}/UpdateCrawl")


def test_roles_are_named_for_people() -> None:
    assert all_of(frozenset({Role.ADMIN})) == "admin"
    assert all_of(frozenset({Role.ADMIN, Role.WATCH})) == "watch or admin"
    assert all_of(frozenset({Role.ADMIN, Role.WATCH, Role.OPERATE})) == "watch, operate or admin"
