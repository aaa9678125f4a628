"""Finds whatever a user types: a URL with its story and why it is not fetched, or a host's queues.

It works in every state of a crawl, also after its end, and for URLs that the crawl has refused.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from toehold.frontier.v1.admin_pb2 import Reason, UriOutcome, UriState, UriStory, Why
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument, UnknownQueue
from toehold_client.spec.listed import normalise_seed
from toehold_client.spec.plain import enum_word, seconds_of
from toehold_client.text import counted, fetch_status_text
from toehold_client.watching.which_queues import find_queues, is_url, keys_of

from . import shown

MOST_QUEUES = 20
MOST_OUTCOMES = 50
MOST_CHARACTERS = 8_192
HISTORY_S = 8.0
"""The kept outcomes are searched for so long."""


def find(crawl: CrawlController, text: str) -> dict[str, Any]:
    """The answer to a search. InvalidArgument for what can be neither a URL nor a host."""
    subject = text.strip()
    if not 0 < len(subject) <= MOST_CHARACTERS:
        raise InvalidArgument(
            f"a search must be a URL, a host or a queue's key of at most {MOST_CHARACTERS} characters, got "
            f"{len(subject)}"
        )
    if is_url(subject):
        return _uri(crawl, subject)
    try:
        queues = find_queues(crawl, subject)
    except UnknownQueue as problem:
        found = _uri(crawl, normalise_seed(subject))
        return found if "/" in subject else {**found, "note": str(problem)}
    keys = keys_of(queues)
    return {
        "kind": "queues",
        "subject": subject,
        "queues": [shown.queue(queue) for queue in queues[:MOST_QUEUES]],
        "queue_count": len(queues),
        "reasons": {
            key: reasons(crawl.frontier.explain(crawl.crawl, queue_key=key)) for key in keys[:MOST_QUEUES]
        },
    }


def history(crawl: CrawlController, uri: str) -> dict[str, Any]:
    """The kept outcomes of a URI, the latest first, and whether all that are kept were searched."""
    end_s = time.monotonic() + HISTORY_S
    found: list[UriOutcome] = []
    complete = True
    for outcome in crawl.outcomes():
        if outcome.uri == uri:
            found.append(outcome)
        if time.monotonic() > end_s:
            complete = False
            break
    return {"outcomes": [_outcome(each) for each in reversed(found[-MOST_OUTCOMES:])], "complete": complete}


def reasons(given: Sequence[Reason]) -> list[dict[str, str]]:
    """Why something is not fetched now."""
    return [
        {
            "why": enum_word(Why.DESCRIPTOR, reason.why),
            "message": reason.message,
            "until": shown.moment(reason.until_time) if reason.HasField("until_time") else "",
        }
        for reason in given
    ]


def _uri(crawl: CrawlController, uri: str) -> dict[str, Any]:
    story = crawl.frontier.get_uri(crawl.crawl, uri)
    return {
        "kind": "uri",
        "subject": uri,
        "uri": story.uri,
        "state": enum_word(UriState.DESCRIPTOR, story.state),
        "queue_key": story.queue_key,
        "refused_by": story.refused_by,
        "story": list(_story(story)),
        "reasons": reasons(crawl.frontier.explain(crawl.crawl, uri=uri)),
    }


def _story(story: UriStory) -> Iterator[dict[str, str]]:
    """The facts that the crawl knows of a URI; each with its moment, if that is known."""
    if story.HasField("discover_time"):
        yield {"at": shown.moment(story.discover_time), "text": "taken in"}
    if story.HasField("waiting"):
        candidate, waiting = story.waiting.candidate, story.waiting
        how = f"found on {candidate.via}" if candidate.via else "it is a seed, or was offered without a page"
        yield {"at": "", "text": f"{how}; path {candidate.path or '-'}"}
        tries = f"tried {counted(waiting.attempt_count, 'time')}, " if waiting.attempt_count else ""
        yield {"at": "", "text": f"{tries}waits in queue {story.queue_key}"}
    if story.HasField("lease"):
        lease = story.lease
        yield {"at": shown.moment(lease.lease_time), "text": f"given to node {lease.node} for its fetch"}
    if story.HasField("finish_time"):
        word = enum_word(Disposition.DESCRIPTOR, story.disposition).lower()
        because = f": {story.reason}" if story.reason else ""
        times = f", fetched {counted(story.visit_count, 'time')} in all" if story.visit_count > 1 else ""
        text = f"{word} with {fetch_status_text(story.fetch_status)}{because}{times}"
        yield {"at": shown.moment(story.finish_time), "text": text}
    if story.HasField("due_time"):
        yield {"at": shown.moment(story.due_time), "text": "is fetched again"}


def _outcome(outcome: UriOutcome) -> dict[str, Any]:
    return {
        "at": shown.moment(outcome.outcome_time),
        "status": fetch_status_text(outcome.fetch_status),
        "disposition": enum_word(Disposition.DESCRIPTOR, outcome.disposition).lower(),
        "reason": outcome.reason,
        "body_bytes": outcome.body_bytes,
        "duration_seconds": seconds_of(outcome.fetch_duration),
        "node": outcome.node,
        "via": outcome.via,
        "path": outcome.path,
        "annotations": list(outcome.annotations),
    }
