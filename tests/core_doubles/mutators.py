"""Each operation that may change a crawl, but those that ask for another state of it."""

import inspect
from collections.abc import Callable
from typing import get_args

from core_doubles.codec import candidate, override_of
from core_doubles.lives import NAME, SEEDS

from frontier_server.core.core import Core
from frontier_server.core.frontier import Frontier
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.operators.administration import Administration
from frontier_server.core.operators.control import Control
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.job import JobKind

BY = "somebody@somewhere"
MUTATORS: dict[str, Callable[[Core, int], tuple[object, Changes]]] = {
    "Frontier.schedule": lambda f, now: f.frontier.schedule(NAME, [candidate(SEEDS[0])], now),
    "Control.add_seeds": lambda f, now: f.control.add_seeds(NAME, SEEDS, now, BY),
    "Control.update_crawl": lambda f, now: f.control.update_crawl(NAME, lambda spec: (spec, ()), now, BY),
    "Control.reopen": lambda f, now: f.control.reopen(NAME, lambda spec: (spec, ()), False, now, BY),
    "Administration.change_queue": lambda f, now: f.administration.change_queue(
        NAME, "example,alpha,", QueueChange(paused=True), now, BY
    ),
    "Administration.record_seen": lambda f, now: f.administration.record_seen(NAME, SEEDS, now, BY),
    "Administration.forget_seen": lambda f, now: f.administration.forget_seen(NAME, SEEDS, now, BY),
    "Administration.start_job": lambda f, now: f.administration.start_job(
        NAME, JobKind.WAKE_QUEUES, {}, now, BY
    ),
    "Administration.cancel_job": lambda f, now: f.administration.cancel_job(NAME, 2, now, BY),
    "Administration.begin_import": lambda f, now: f.administration.begin_import(NAME, False, now, BY),
    "Administration.add_imports": lambda f, now: f.administration.add_imports(NAME, 2, [], now),
    "Administration.end_import": lambda f, now: f.administration.end_import(NAME, 2, now),
    "Administration.put_override": lambda f, now: f.administration.put_override(
        NAME, SEEDS[0], override_of(), now, BY
    ),
    "Administration.delete_override": lambda f, now: f.administration.delete_override(
        NAME, SEEDS[0], now, BY
    ),
}
# What names a crawl and may change something, and has an answer of its own in each state.
OTHERS = frozenset(
    (
        "Frontier.next",
        "Control.create_crawl",
        "Control.launch",
        "Control.request_state",
        "Control.tear_down",
        "Control.delete_crawl",
    )
)


def all_there_are() -> set[str]:
    """The operations that name a crawl and may change something."""
    found = {
        f"{owner.__name__}.{name}"
        for owner in (Frontier, Control, Administration)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        and "name" in inspect.signature(method).parameters
        and get_args(inspect.signature(method).return_annotation)[1:] == (Changes,)
    }
    return found - {"Control.record_checkpoint"}  # whose name is the checkpoint's
