"""What can be asked of a frontier, as values: recorded, sent again, played again, printed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from core_doubles.codec import PlainCodec, candidate, override_of, settings_of, spec_of

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, Directive


@dataclass(frozen=True, slots=True)
class Offer:
    """A candidate, as somebody offers it."""

    uri: str
    path: str = "L"
    via: str = ""
    source: str = ""
    directive: int = Directive.NORMAL
    again: bool = False  # past the seen-set
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A request: its kind, whom it concerns (a crawl, or a node), and what it says."""

    kind: str
    name: str = ""
    said: tuple[Any, ...] = ()
    by: str = ""

    def run(self, core: Core, now_ms: int) -> tuple[Any, Changes]:
        """Make it. Raises FrontierError if it is refused."""
        return OPERATIONS[self.kind](core, now_ms, self)


def _next(core: Core, now_ms: int, call: Call) -> Any:
    return core.frontier.next(call.name, call.said[0], Want(call.said[1]), call.said[2], now_ms)


def _schedule(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    offered = [offered_as(offer, now_ms) for offer in call.said[0]]
    return core.frontier.schedule(call.name, offered, now_ms)


def offered_as(offer: Offer, now_ms: int) -> Candidate:
    """The candidate of an offer."""
    return candidate(
        offer.uri,
        path=offer.path,
        via=offer.via,
        source=offer.source,
        directive=offer.directive,
        refetch_before_ms=now_ms if offer.again else None,
        not_before_ms=now_ms + offer.delay_ms if offer.delay_ms else 0,
    )


def _heartbeat(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    session, tokens, leaving, trouble = call.said
    return core.frontier.heartbeat(call.name, session, tokens, [], now_ms, leaving, trouble=trouble)


def _create(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    (settings,) = call.said
    return core.control.create_crawl(call.name, settings, spec_of(settings), now_ms, call.by)


def _update(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    def amended(spec: bytes) -> tuple[bytes, list[str]]:
        return spec_of(replace(settings_of(spec), **dict(call.said))), [part for part, _ in call.said]

    return core.control.update_crawl(call.name, amended, now_ms, call.by)


def _override(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    prefix, parts = call.said
    return core.administration.put_override(call.name, prefix, override_of(**parts), now_ms, call.by)


def _job(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    kind, parameters = call.said
    return core.administration.start_job(call.name, JobKind(kind), dict(parameters), now_ms, call.by)


def _queue(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    key, change = call.said
    return core.administration.change_queue(call.name, key, QueueChange(**dict(change)), now_ms, call.by)


def _import(core: Core, now_ms: int, call: Call) -> tuple[Any, Changes]:
    number, uris = call.said
    rows = [ImportRow(candidate(uri).record) for uri in uris]
    return core.administration.add_imports(call.name, number, rows, now_ms)


OPERATIONS: dict[str, Callable[[Core, int, Call], tuple[Any, Changes]]] = {
    # nodes and feeders
    "schedule": _schedule,
    "next": lambda f, now, call: f.frontier.next(
        call.name, call.said[0], Want(call.said[1]), call.said[2], now
    ),
    "finished": lambda f, now, call: f.frontier.finished(call.said[1], call.name, call.said[0], now),
    "heartbeat": _heartbeat,
    "take-back": lambda f, now, call: f.frontier.take_back(call.said[0], now),
    # operators
    "create": _create,
    "seeds": lambda f, now, call: f.control.add_seeds(call.name, call.said[0], now, call.by),
    "launch": lambda f, now, call: f.control.launch(call.name, now, call.by, *call.said),
    "steer": lambda f, now, call: f.control.request_state(call.name, Input(call.said[0]), now, call.by),
    "teardown": lambda f, now, call: f.control.tear_down(call.name, now, call.by),
    "delete": lambda f, now, call: f.control.delete_crawl(call.name, now),
    "update": _update,
    "override": _override,
    "no-override": lambda f, now, call: f.administration.delete_override(
        call.name, call.said[0], now, call.by
    ),
    "queue": _queue,
    "note": lambda f, now, call: f.administration.record_seen(call.name, call.said[0], now, call.by),
    "forget": lambda f, now, call: f.administration.forget_seen(call.name, call.said[0], now, call.by),
    "job": _job,
    "cancel-job": lambda f, now, call: f.administration.cancel_job(call.name, call.said[0], now, call.by),
    "begin-import": lambda f, now, call: f.administration.begin_import(call.name, False, now, call.by),
    "import": _import,
    "end-import": lambda f, now, call: f.administration.end_import(call.name, call.said[0], now),
    "pool-size": lambda f, now, call: f.nodes.set_pool_size(call.name, call.said[0], now, call.by),
    "drain": lambda f, now, call: f.nodes.drain(call.name, now, call.by),
    # the server itself
    "tick": lambda f, now, call: f.upkeep.tick(now),
    "work": lambda f, now, call: f.upkeep.work(now),
    "logged": lambda f, now, call: f.upkeep.record_logged(call.said[0], call.said[1], call.said[2], now),
    "trouble": lambda f, now, call: f.upkeep.record_trouble(call.said[0], now),
    "lost": lambda f, now, call: f.upkeep.record_lost(dict(call.said[0]), now),
    "checkpoint": lambda f, now, call: f.control.record_checkpoint(call.name, now),
}
CODEC = PlainCodec()
