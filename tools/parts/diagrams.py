"""The state diagrams of docs/architecture.md, from the tables of the core.

They are Mermaid's, which GitHub and most readers of Markdown show.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from frontier_server.core.machines import lifecycle, target
from frontier_server.core.state import queue
from tools.parts.pages import DOCS, page

PAGE = DOCS / "architecture.md"

Edge = tuple[str, str, str, str]  # from, to, what leads there, and what is done then
Cases = frozenset[tuple[bool, bool]]  # in flight, left


def files() -> dict[Path, str]:
    pictures = {
        "crawl machine": lambda: diagram(crawl_edges(), "NASCENT", "FINISHED"),
        "frontier machine": lambda: diagram(frontier_edges()),
        "work queue": lambda: diagram(queue_edges(), "EXHAUSTED"),
        "events of a work queue": events_of_queues,
    }
    return page(PAGE, pictures)


def diagram(edges: Iterable[Edge], first: str = "", last: str = "") -> str:
    """A Mermaid state diagram; edges with the same ends are one."""
    merged: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for start, end, label, action in edges:
        merged[start, end][action].append(label)
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {first}"] * bool(first)
    for (start, end), labels in merged.items():
        told = (",<br/>".join(those) + (f" / {action}" if action else "") for action, those in labels.items())
        lines.append(f"    {start} --> {end} : {'<br/>'.join(told)}")
    lines += [f"    {last} --> [*]"] * bool(last)
    return "\n".join([*lines, "```", ""])


def crawl_edges() -> Iterator[Edge]:
    """The crawl machine; what is done is what the frontier machine is asked for."""
    for (state, heard), step in lifecycle.TABLE.items():
        if step == lifecycle.Move():
            continue  # it changes nothing
        asks = "nodes break off" if step.interrupts else step.target.value if step.target else ""
        yield state.value, (step.state or state).value, heard.value, asks


def frontier_edges() -> Iterator[Edge]:
    """The frontier machine: from what is asked for to what is reached."""
    cases: dict[tuple[str, str], set[tuple[bool, bool]]] = defaultdict(set)
    for (asked, in_flight, left), reached in target.TABLE.items():
        if reached is not None:
            cases[f"asked_to_{asked.value}", reached.value].add((in_flight, left))
    for (start, end), those in cases.items():
        yield start, end, when(frozenset(those)), ""


def when(cases: Cases) -> str:
    """In words, when one of some cases holds."""
    nothing_out = frozenset(((False, False), (False, True)))
    nothing_at_all = frozenset(((False, False),))
    every = frozenset((out, left) for out in (False, True) for left in (False, True))
    words = {
        nothing_out: "nothing is in flight",
        nothing_at_all: "nothing is in flight, and nothing is left",
        every - nothing_at_all: "something is in flight, or left",
        every: "at once",
    }
    return words[cases]  # a table that needs others needs words for them here


def queue_edges() -> Iterator[Edge]:
    """A work queue's life; what leaves a queue where it is changes nothing."""
    for (state, event), after in queue.TABLE.items():
        if after is not state:
            yield state.value, after.value, event.name.lower(), ""


def events_of_queues() -> str:
    """The events of work queues, in words."""
    rows = [f"| {event.name.lower()} | {event.value} |" for event in queue.QueueEvent]
    return "\n".join(["| event | what happens to the queue |", "|---|---|", *rows, ""])
