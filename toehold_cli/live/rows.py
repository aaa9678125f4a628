"""The rows of a picture that tell of single things: problems, seeds, nodes, jobs, queues, pages.

There may be thousands: rows are made as they are read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from toehold.frontier.v1.admin_pb2 import Job, JobState, Node, WorkQueue
from toehold.frontier.v1.crawl_pb2 import QueueState
from toehold_cli import output
from toehold_client.events import Event
from toehold_client.spec.plain import enum_word
from toehold_client.text import bytes_text, count_text, counted, duration_text, rough_text
from toehold_client.watching.look import Look, seconds_until
from toehold_client.watching.presence import LEFT, PRESENT, absence, presence
from toehold_client.watching.seeds import seed_text, seeds_text
from toehold_client.watching.trouble import lasting, troubles

from .cells import LABEL_CELLS, Item, beside, shortened, text_of, wrapped

_IDLE = "ABOUT_TO_GET_URI"


def problems(look: Look, width: int) -> Iterator[Item]:
    """Whatever is wrong now, then problems that events told of and that last, the latest first."""
    room = width - LABEL_CELLS
    for trouble in troubles(look):
        yield wrapped(text_of((trouble.text, "red")), room)
    for event in reversed(lasting(look)):
        yield wrapped(_problem(look, event), room)


def _problem(look: Look, event: Event) -> Text:
    ago = rough_text(max(-seconds_until(look.statistics, event.event_time), 0.0))
    return text_of((f"{ago} ago: ", "red"), str(event).removeprefix("problem: "))


def seeds(look: Look, width: int) -> Iterator[Item]:
    """The seeds with trouble, after a row for all; nothing if none has any."""
    room = width - LABEL_CELLS
    if look.seeds.troubled:
        yield wrapped(text_of((seeds_text(look.seeds), "bold")), room)
    for seed in look.seeds.troubled:
        yield wrapped(text_of((seed_text(seed), "red")), room)


def nodes(look: Look, width: int) -> Iterator[Item]:
    """All nodes together, if there are several; then each, those that are missed first, those that left
    last.
    """
    order = {PRESENT: 1, LEFT: 2}
    listed = sorted(look.nodes, key=lambda node: (order.get(presence(look, node), 0), node.node))
    if len(listed) > 1:
        there = [node for node in listed if presence(look, node) == PRESENT]
        of_all = "" if len(there) == len(listed) else f" of {count_text(len(listed))}"
        told = f"{count_text(len(there))}{of_all} present, {_at_work(there)}"
        yield wrapped(text_of((told, "bold")), width - LABEL_CELLS)
    yield from beside([(node.node, _node(look, node)) for node in listed], width)


def _node(look: Look, node: Node) -> Text:
    absent = absence(look, node)
    if absent:
        return text_of((absent, "dim" if presence(look, node) == LEFT else "red"))
    wanted = f"; {node.pool_size} asked for" if node.HasField("pool_size") else ""
    return text_of(("drains: ", "yellow") if node.draining else "", _at_work([node]), wanted)


def _at_work(nodes: Sequence[Node]) -> str:
    """`8 toes: 6 fetching, 2 idle; 9 leases`, or `8 toes: all idle; 0 leases`, of nodes together."""
    steps: Counter[str] = Counter()
    for node in nodes:
        for told in node.toe_steps:
            steps[told.step] += told.count
    idle = steps.pop(_IDLE, 0)
    at = [f"{count_text(count)} {step.lower()}" for step, count in steps.most_common() if count]
    at += [f"{count_text(idle)} idle"] if idle else []
    if len(at) == 1 and steps.total() + idle > 1:
        at = [f"all {at[0].rpartition(' ')[2]}"]
    toes = f"{counted(steps.total() + idle, 'toe')}{': ' if at else ''}{', '.join(at)}"
    return f"{toes}; {counted(sum(node.leased_count for node in nodes), 'lease')}"


def jobs(look: Look, width: int) -> Iterator[Item]:
    """Jobs that are under way."""
    for job in look.jobs:
        yield wrapped(text_of(_job(job)), width - LABEL_CELLS)


def _job(job: Job) -> str:
    rows = f"{count_text(job.done_count)} of {count_text(job.total_count) if job.total_count else '?'} rows"
    state = enum_word(JobState.DESCRIPTOR, job.state).lower()
    return f"{job.job} {job.kind}, {state}: {rows}, {count_text(job.changed_count)} changed"


def slowest(look: Look, width: int) -> Iterator[Item]:
    """Queues that rest: how long, and why."""
    return beside([(queue.queue_key, text_of(_rest(look, queue))) for queue in look.slowest], width)


def _rest(look: Look, queue: WorkQueue) -> str:
    wake_s = max(seconds_until(look.statistics, queue.wake_time), 0.0)
    return f"for {duration_text(wake_s)}: {_reason(queue)}; {count_text(queue.queued_count)} queued"


def largest(look: Look, width: int) -> Iterator[Item]:
    """Queues with URIs: how many, and their state."""
    queues = [queue for queue in look.largest if queue.queued_count]
    named = [(queue, f"{count_text(queue.queued_count)} queued, {_state(queue)}") for queue in queues]
    return beside([(queue.queue_key, text_of(text)) for queue, text in named], width)


def _state(queue: WorkQueue) -> str:
    state = enum_word(QueueState.DESCRIPTOR, queue.state).lower()
    return f"{state}: {_reason(queue)}" if queue.reason else state


def _reason(queue: WorkQueue) -> str:
    """`politeness`, without the setting that follows: why the crawl is not going faster names that."""
    return re.split("[:,] ", queue.reason, maxsplit=1)[0]


def pages(look: Look, width: int) -> Iterator[Item]:
    """Pages fetched last, the latest first."""
    for page in reversed(look.pages):
        good = 200 <= page.fetch_status < 400
        size = "" if page.size is None else bytes_text(page.size)
        head = f"{page.fetch_status:>5}  {size:>8}  "
        uri = shortened(output.harmless(page.uri), width - LABEL_CELLS - len(head))
        yield [text_of((head[:5], "green" if good else "red"), head[5:], uri)]
