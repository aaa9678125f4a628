"""Every RPC of both services with a request that makes sense, and what it does to its crawl.

Decides nothing and checks nothing; `test_service_bad_requests` sees that no RPC is missing.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import message_factory

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from .calls import TIMEOUT_S, Stubs

RPCS: dict[str, Any] = {
    method.name: method
    for file in (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}

_URI = "http://a.example/"
_NODE = {"node": "node", "session": "session"}

# What changes a crawl that has begun and not ended; with what it is asked beside the crawl's name.
CHANGING: Mapping[str, Mapping[str, Any]] = {
    "Schedule": {"candidates": [{"uri": "http://a.example/changed", "path": "L"}]},
    "AddSeeds": {"uris": ["http://a.example/seed"]},
    "AddSeedBatch": {"uris": ["http://a.example/seed"]},
    "UpdateCrawl": {"spec": {"weight": 2}},
    "UpdateQueue": {"queue_key": "example,a,", "change": {"precedence": 7}},
    "NoteUris": {"uris": ["http://a.example/noted"]},
    "ForgetUris": {"uris": [_URI]},
    "ImportUris": {"entries": [{"candidate": {"uri": "http://a.example/imported"}}], "complete": True},
    "StartJob": {"verify": {}},
    "CancelJob": {"job": 1},
    "PutOverride": {"override": {"surt_prefix": "a.example", "settings": {"retry": {"max_attempts": 3}}}},
    "DeleteOverride": {"surt_prefix": "http://(example,a,"},
}
# What steers its life.
STEERING: Mapping[str, Mapping[str, Any]] = {
    "LaunchCrawl": {},
    "RequestState": {"target_state": crawl_pb2.TARGET_STATE_PAUSE},
    "ReopenCrawl": {},
    "TearDownCrawl": {},
    "DeleteCrawl": {},
}
# What looks at it.
READING: Mapping[str, Mapping[str, Any]] = {
    "StateEvents": {},
    "GetCrawl": {},
    "GetStatistics": {},
    "ListQueues": {},
    "GetQueue": {"queue_key": "example,a,"},
    "ListLargestQueues": {},
    "ListSlowestQueues": {},
    "ListUris": {},
    "GetUri": {"uri": _URI},
    "ListSeenUris": {},
    "CountSeenUris": {},
    "ExportUris": {},
    "ListJobs": {},
    "GetJob": {"job": 1},
    "ListOverrides": {},
    "ListHosts": {},
    "ListSources": {},
    "ListSeeds": {},
    "ListRefusals": {},
    "Explain": {},
    "StreamOutcomes": {},
}
# What a node asks of it.
FETCHING: Mapping[str, Mapping[str, Any]] = {"Next": {**_NODE, "max_leases": 1}}
OF_A_CRAWL: Mapping[str, Mapping[str, Any]] = {**CHANGING, **STEERING, **READING, **FETCHING}
# What is asked of no crawl.
OF_NO_CRAWL: Mapping[str, Mapping[str, Any]] = {
    "CreateCrawl": {"crawl": "made", "spec": {"allowed_addresses": ["loopback"]}},
    "Finished": {**_NODE, "reports": [{"token": b"x", "outcome": frontier_pb2.OUTCOME_RELEASED}]},
    "Heartbeat": _NODE,
    "ListCrawls": {},
    "GetFrontier": {},
    "GetCaller": {},
    "SetPoolSize": {"node": "node", "size": 1},
    "DrainNode": {"node": "node"},
    "ForgetNode": {"node": "node"},
    "CreateCheckpoint": {},
    "ListCheckpoints": {},
    "DeleteCheckpoint": {"checkpoint": "cp00001-20260101000000"},
}


def request(rpc: str, crawl: str = "") -> Any:
    """The request of an RPC; of a crawl, if it is asked of one."""
    asked = {"crawl": crawl, **OF_A_CRAWL[rpc]} if rpc in OF_A_CRAWL else OF_NO_CRAWL[rpc]
    return message_factory.GetMessageClass(RPCS[rpc].input_type)(**asked)


def ask(stubs: Stubs, rpc: str, crawl: str = "") -> Any:
    """What an RPC answers; all messages of a stream."""
    method = RPCS[rpc]
    made = request(rpc, crawl)
    service = stubs.frontier if method.containing_service.name == "FrontierService" else stubs.admin
    answer = getattr(service, rpc)(iter((made,)) if method.client_streaming else made, timeout=TIMEOUT_S)
    return list(answer) if method.server_streaming else answer
