"""URLs as URLFrontier's messages and as Toehold's."""

import re
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import UriState, UriStory
from toehold.frontier.v1.frontier_pb2 import Candidate
from urlfrontier.urlfrontier_pb2 import KnownURLItem, URLInfo, URLItem

from . import queue_keys
from .crawl_ids import MAX_ID_CHARS, normalised

# The longest time that a Timestamp may have: the end of the year 9999.
MAX_DATE_S = 253_402_300_799

# A URL that Toehold surely leaves as it is. Others are stored as they came, beside their canonical form.
_CANONICAL = re.compile(
    r"https?://(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*/(?!\.)(?:[A-Za-z0-9_~,;:@!$&()*+=-]|\.|/(?!\.))*"
    r"(?:\?[A-Za-z0-9_~,;:@!$&()*+=/.-]+)?"
)


class UrlOffer(NamedTuple):
    """A URL that a client puts."""

    crawl_id: str
    url: str
    queue_key: str
    candidate: Candidate
    is_known: bool
    """The client knows the URL: what it says replaces what is stored."""
    is_done: bool
    """The URL is not to be fetched again."""


def discovered(info: URLInfo) -> UrlOffer | None:
    """The offer of a URL that was found; None if nothing can be done with it."""
    return _offer(info, is_known=False, date_s=None)


def known(info: URLInfo, date_s: int) -> UrlOffer | None:
    """The offer of a URL that is due again at a time; 0 for never. None if nothing can be done with it."""
    return _offer(info, is_known=True, date_s=date_s)


def _offer(info: URLInfo, *, is_known: bool, date_s: int | None) -> UrlOffer | None:
    url = info.url
    queue_key = queue_keys.encoded(info.key or queue_keys.default_key(url))
    crawl_id = normalised(info.crawlID)
    if not queue_key or len(crawl_id) > MAX_ID_CHARS:
        return None
    candidate = Candidate(uri=url, queue_key=queue_key)
    if date_s:
        candidate.not_before_time.CopyFrom(Timestamp(seconds=min(date_s, MAX_DATE_S)))
    if _CANONICAL.fullmatch(url) is None or info.metadata:
        candidate.annotations = _annotations(info)
    return UrlOffer(crawl_id, url, queue_key, candidate, is_known, is_known and not date_s)


def _annotations(info: URLInfo) -> bytes:
    """The annotations of a URL: its metadata, and its spelling if that is not canonical.

    The message is taken to pieces: nobody reads it again.
    """
    info.ClearField("key")
    info.ClearField("crawlID")
    if _CANONICAL.fullmatch(info.url):
        info.ClearField("url")
    return info.SerializeToString(deterministic=True)


def url_info(uri: str, queue_key: str, annotations: bytes, crawl_id: str) -> URLInfo:
    """A stored URL as its client put it."""
    info = URLInfo.FromString(annotations) if annotations else URLInfo()
    if not info.url:
        info.url = uri
    info.key = queue_keys.decoded(queue_key)
    info.crawlID = crawl_id
    return info


def url_item(story: UriStory, crawl_id: str) -> URLItem:
    """All that URLFrontier tells about a URL. One that is done has no date."""
    candidate = story.waiting.candidate
    info = url_info(story.uri, story.queue_key, candidate.annotations, crawl_id)
    return URLItem(
        known=KnownURLItem(info=info, refetchable_from_date=_date_s(story)),
        creation_date=story.discover_time.seconds,
    )


def _date_s(story: UriStory) -> int:
    if story.state == UriState.URI_STATE_DONE:
        return 0
    for time in (story.due_time, story.waiting.due_time, story.waiting.candidate.not_before_time):
        if time.seconds:
            return time.seconds
    return story.discover_time.seconds
