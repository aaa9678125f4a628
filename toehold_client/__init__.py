"""A typed client of a Toehold frontier, and the controller of a crawl.

    from toehold_client import CrawlController, FrontierClient

    with FrontierClient("127.0.0.1:7707", patience_s=60) as frontier:
        crawl = CrawlController(frontier, "my-crawl")
        crawl.create({"contact": "me@example.org"}, ["https://www.example.com/"])
        crawl.launch()
        for event in crawl.follow():
            print(event)

AsyncFrontierClient and AsyncCrawlController have the same methods for asyncio. NodeClient and AsyncNodeClient
are for a single crawler node. Messages and enums are the contract's own (`toehold.frontier.v1`). Every error
is a ToeholdError; its class tells its kind (`toehold_client.errors`).
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .aio.client import AsyncFrontierClient
    from .aio.controller import AsyncCrawlController
    from .aio.node_client import AsyncNodeClient
    from .client import FrontierClient
    from .controller import CrawlController
    from .credentials import Credentials
    from .errors import ToeholdError
    from .events import Event
    from .node_client import NodeClient
    from .rpc.request_ids import request_id
    from .spec.given import crawl_spec
    from .states import StateName
    from .verdicts import Verdicts

__all__ = [
    "AsyncCrawlController",
    "AsyncFrontierClient",
    "AsyncNodeClient",
    "CrawlController",
    "Credentials",
    "Event",
    "FrontierClient",
    "NodeClient",
    "StateName",
    "ToeholdError",
    "Verdicts",
    "crawl_spec",
    "request_id",
]

_MODULES = {
    "AsyncCrawlController": ".aio.controller",
    "AsyncFrontierClient": ".aio.client",
    "AsyncNodeClient": ".aio.node_client",
    "CrawlController": ".controller",
    "Credentials": ".credentials",
    "Event": ".events",
    "FrontierClient": ".client",
    "NodeClient": ".node_client",
    "StateName": ".states",
    "ToeholdError": ".errors",
    "Verdicts": ".verdicts",
    "crawl_spec": ".spec.given",
    "request_id": ".rpc.request_ids",
}


def __getattr__(name: str) -> object:
    # Imported at first use: gRPC takes a third of a second, in which `toehold` must answer Ctrl-C.
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module, __name__), name)
