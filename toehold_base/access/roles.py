"""The roles of callers, and the roles that each RPC is for."""

from collections.abc import Mapping
from enum import Enum


class Role(Enum):
    """What a caller is for. A caller may have several."""

    WATCH = "watch"  # look at crawls, queues, nodes
    FETCH = "fetch"  # take leases, report, and offer links, as a node does
    FEED = "feed"  # offer candidates and seeds
    OPERATE = "operate"  # begin, steer and end crawls; change settings, queues and nodes
    ADMIN = "admin"  # everything, and see secrets in specs


_EVERYBODY = frozenset(Role)
_LOOKS = frozenset({Role.WATCH, Role.OPERATE, Role.ADMIN})
_FETCHES = frozenset({Role.FETCH, Role.ADMIN})
_OFFERS = frozenset({Role.FETCH, Role.FEED, Role.OPERATE, Role.ADMIN})
_FEEDS = frozenset({Role.FEED, Role.OPERATE, Role.ADMIN})
_OPERATES = frozenset({Role.OPERATE, Role.ADMIN})
_ADMINISTERS = frozenset({Role.ADMIN})

_FRONTIER: Mapping[frozenset[Role], str] = {
    _OFFERS: "Schedule",
    _FETCHES: "Next Finished Heartbeat",
    _LOOKS: "StateEvents",
    _OPERATES: "RequestState",
}
_FRONTIER_ADMIN: Mapping[frozenset[Role], str] = {
    _EVERYBODY: "GetCaller",
    _FEEDS: "AddSeeds AddSeedBatch",
    _LOOKS: """
        GetFrontier ListCrawls GetCrawl GetStatistics Explain StreamOutcomes ListSeeds ListRefusals ListHosts
        ListSources ListQueues GetQueue ListLargestQueues ListSlowestQueues ListUris GetUri ListSeenUris
        CountSeenUris ExportUris ListJobs GetJob ListOverrides ListCheckpoints
        """,
    _OPERATES: """
        CreateCrawl LaunchCrawl ReopenCrawl UpdateCrawl TearDownCrawl UpdateQueue NoteUris ForgetUris
        ImportUris StartJob CancelJob PutOverride DeleteOverride SetPoolSize DrainNode ForgetNode
        """,
    _ADMINISTERS: "DeleteCrawl CreateCheckpoint DeleteCheckpoint",
}
_NODE: Mapping[frozenset[Role], str] = {
    _LOOKS: "GetPool ListToes",
    _OPERATES: "SetPoolSize KillToe Drain",
}

ROLES: Mapping[str, frozenset[Role]] = {
    f"{service}/{method}": roles
    for service, table in (
        ("toehold.frontier.v1.FrontierService", _FRONTIER),
        ("toehold.frontier.v1.FrontierAdminService", _FRONTIER_ADMIN),
        ("toehold.node.v1.NodeService", _NODE),
    )
    for roles, methods in table.items()
    for method in methods.split()
}
"""The roles that each RPC is for, by its full name. Whoever has one of them may call it."""


def is_question(method: str) -> bool:
    """Whether an RPC, by its full name, changes nothing."""
    return Role.WATCH in ROLES[method]


def all_of(roles: frozenset[Role]) -> str:
    """`operate or admin`, for people."""
    names = [role.value for role in Role if role in roles]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
