"""The queues that a command names: by a key, by a host, or by a URL.

A key means its queue alone. A host means the queues of its home pages, for http and https, and those of its
other ports and parallel queues. A host with a port leaves out other ports. A URL means the queue of that URL.
The frontier makes the keys, as the crawl's settings say; only the marks at their ends are known here.
"""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator

from toehold.frontier.v1.admin_pb2 import WorkQueue
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument, UnknownQueue

MOST_READ = 5_000
"""So many queues are searched for other ports of a host, and for names like a wrong one."""

_BRANCH = r"(?:\+[0-9]+)?"  # one of the parallel queues of a host
_PORT = r"(?:#[0-9]+(?:/https?)?)?"
_HAS_PORT = re.compile(r"[^:]*:[0-9]+|\[.*\]:[0-9]+")


def find_queues(crawl: CrawlController, subject: str) -> list[WorkQueue]:
    """The queues that a subject names. UnknownQueue, with a name like it, if there is none."""
    if is_url(subject):
        keys = _keys(crawl, [subject])
    else:
        try:
            return crawl.frontier.get_queue(crawl.crawl, subject)
        except UnknownQueue:
            keys = _keys(crawl, [f"http://{subject}/", f"https://{subject}/"])
    known = list(itertools.islice(crawl.frontier.list_queues(crawl.crawl), MOST_READ))
    pattern = _related(subject, keys)
    found = [queue for queue in known if pattern is not None and pattern.fullmatch(queue.queue_key)]
    for key in keys:
        if all(queue.queue_key != key for queue in found):
            found += _queues_of(crawl, key)
    if not found:
        raise UnknownQueue(_not_found(crawl, subject, known))
    return found


def keys_of(queues: Iterable[WorkQueue]) -> list[str]:
    """The keys of queues, each once."""
    return list(dict.fromkeys(queue.queue_key for queue in queues))


def is_url(subject: str) -> bool:
    """Whether a subject is a URL, not a host or a key."""
    return "://" in subject


def names_of(queues: Iterable[WorkQueue]) -> Iterator[str]:
    """The keys and hosts by which a user may name queues, each once."""
    seen: set[str] = set()
    for queue in queues:
        for name in (queue.queue_key, queue.host):
            if name and name not in seen:
                seen.add(name)
                yield name


def _keys(crawl: CrawlController, urls: Iterable[str]) -> list[str]:
    """The keys of the queues where these URLs wait, or would wait."""
    try:
        stories = [crawl.frontier.get_uri(crawl.crawl, url) for url in urls]
    except InvalidArgument:  # neither a URL nor a host
        return []
    return list(dict.fromkeys(story.queue_key for story in stories))


def _related(subject: str, keys: list[str]) -> re.Pattern[str] | None:
    """Matches the keys of a host, given those of its home pages."""
    if is_url(subject) or not keys:
        return None
    stems = {re.sub(rf"{_BRANCH}\Z", "", key) for key in keys}
    if _HAS_PORT.fullmatch(subject):
        return re.compile(f"(?:{'|'.join(map(re.escape, stems))}){_BRANCH}")
    stems = {re.sub(rf"{_PORT}\Z", "", stem) for stem in stems}
    return re.compile(f"(?:{'|'.join(map(re.escape, stems))}){_PORT}{_BRANCH}")


def _queues_of(crawl: CrawlController, key: str) -> list[WorkQueue]:
    try:
        return crawl.frontier.get_queue(crawl.crawl, key)
    except UnknownQueue:
        return []


def _not_found(crawl: CrawlController, subject: str, known: list[WorkQueue]) -> str:
    wrong = f"crawl {crawl.crawl!r} has no queue for {subject[:200]!r}"
    if not known:
        return f"{wrong}; it has no queues yet"
    near = difflib.get_close_matches(subject[:200], list(names_of(known)), n=1)
    return f"{wrong}; did you mean {near[0]}?" if near else f"{wrong}; `toehold queues` lists its queues"
