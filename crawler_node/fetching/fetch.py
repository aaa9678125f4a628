"""A fetch: how it is asked for, what came of it, and the Fetcher interface.

A fetch never raises for what the network or the server does; it ends with a status. Redirects are not
followed, but for robots.txt. What comes back is bytes as sent: decoding is decode's business.
"""

import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO, Protocol

from .addresses import AddressRule
from .cancellation import Cancellation
from .outcome import Status, Truncation
from .proxy import Proxy

MAX_ROBOTS_REDIRECTS = 5
"""Redirects of a robots.txt that are followed (RFC 9309 2.3.1.2)."""

MAX_ROBOTS_BYTES = 500 * 1024
"""The part of a robots.txt that is read, as sent, and that is reported, decoded (RFC 9309 2.5 wants at least
so much to be read)."""

NOT_MODIFIED = 304

UNKNOWN_MEDIA_TYPE = "application/octet-stream"
"""What an answer is taken for that does not say what it is (RFC 9110 8.3)."""


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """Where links are looked for. See the contract's ExtractSpec."""

    max_links: int = 6000
    javascript: bool = False
    obey_nofollow: bool = False
    obey_robots_meta: bool = True
    sitemap_lastmod: bool = False


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """How a crawl's pages are fetched. See the contract's FetchPolicy.

    `timeout_ms` is for the whole of a fetch, from the look-up of the name to the last byte. `max_bytes` are
    body bytes as sent; the rest is cut off. Raises ValueError for what makes no sense.
    """

    policy_id: str
    user_agent: str
    timeout_ms: int
    max_bytes: int
    addresses: AddressRule
    product_token: str = "toehold"
    connect_timeout_ms: int = 20_000
    read_timeout_ms: int = 20_000
    accept_media_types: tuple[str, ...] = ()
    reject_media_types: tuple[str, ...] = ()
    max_content_length: int = 0
    max_bytes_per_second: int = 0
    cookies: bool = False
    proxy: str = field(default="", repr=False)  # may have a password
    user: str = ""
    password: str = field(default="", repr=False)
    extract: ExtractSettings = ExtractSettings()

    def __post_init__(self) -> None:
        for name in ("timeout_ms", "max_bytes", "connect_timeout_ms", "read_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(
                    f"fetch policy {self.policy_id!r}: {name} is {getattr(self, name)}, not above zero"
                )
        for name in ("max_content_length", "max_bytes_per_second"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"fetch policy {self.policy_id!r}: {name} is {getattr(self, name)}, below zero"
                )
        if self.proxy:
            Proxy.parse(self.proxy)

    @property
    def is_selective(self) -> bool:
        """Whether there are bodies that are not read."""
        return bool(self.accept_media_types or self.reject_media_types or self.max_content_length)

    def wants(self, media_type: str, content_length: int | None) -> bool:
        """Whether a body of this type (empty if unknown) and announced length is read."""
        if self.max_content_length and (content_length or 0) > self.max_content_length:
            return False
        kind = (media_type or UNKNOWN_MEDIA_TYPE).lower()
        if any(_is_of(kind, each) for each in self.reject_media_types):
            return False
        return not self.accept_media_types or any(_is_of(kind, each) for each in self.accept_media_types)


@dataclass(frozen=True, slots=True)
class Validators:
    """What the last visit left behind to ask with whether there is anything new (RFC 9110 section 13), as the
    server sent it; empty where there is nothing.
    """

    etag: str = ""
    last_modified: str = ""


NO_VALIDATORS = Validators()


@dataclass(slots=True)
class Fetch:
    """What became of one fetch. Close it: its body may be a temporary file.

    `status` is the HTTP status, or a Status below zero. One that HTTP does not define (600 and up) counts
    as 500 (RFC 9110 section 15) and is named in the annotations.

    The heads are the exchange's own bytes, but for Transfer-Encoding in the answer's, since the body is
    without its chunks; what was said to prove who we are, of which `Authorization: Basic *` is left; and
    what was said to a proxy. `digest` is that of the body bytes, `sha1:` and base 32, empty without an
    answer. `body` is at its end after a fetch. `annotations` are words for the crawl log. An answer keeps its
    status and its redirect when its body breaks off (Truncation.DISCONNECT).
    """

    uri: str
    start_time_ms: int = 0  # since the epoch, by the wall clock
    duration_ms: int = 0
    status: int = Status.RUNTIME_EXCEPTION
    request_head: bytes = b""
    response_head: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)  # the answer's, as sent
    body: BinaryIO = field(default_factory=BytesIO)
    body_bytes: int = 0
    truncation: Truncation = Truncation.NONE
    digest: str = ""
    peer_address: str | None = None
    redirect_target: str | None = None  # absolute; None also when the Location makes no sense
    annotations: tuple[str, ...] = ()
    hops: tuple["Fetch", ...] = ()  # the redirects that led here, first one first; robots.txt only
    redirects_exhausted: bool = False  # there was one more redirect than is followed
    error: Exception | None = None  # with RUNTIME_EXCEPTION, for the log
    conditional: bool = False  # it was asked for only if it is not what it was

    @property
    def unchanged(self) -> bool:
        """Whether the server says that there is nothing new since the last visit."""
        return self.conditional and self.status == NOT_MODIFIED

    def header(self, name: str) -> str | None:
        """A header of the answer, several of the same name joined by commas; None when there is none."""
        wanted = name.lower().encode("ascii")
        values = [value for key, value in self.headers if key.lower() == wanted]
        return b", ".join(values).decode("latin-1") if values else None

    @property
    def media_type(self) -> str:
        """The media type without parameters, in lower case; empty when there is none that makes sense."""
        found = _MEDIA_TYPE.match(self.header("content-type") or "")
        return found[1].lower() if found else ""

    @property
    def charset(self) -> str | None:
        """The charset that the Content-Type names, as it is written there."""
        found = _CHARSET.search((self.header("content-type") or "")[:1000])
        return found[1] if found else None

    @property
    def content_encoding(self) -> str:
        return (self.header("content-encoding") or "")[:100]

    @property
    def retry_after(self) -> str | None:
        """The Retry-After header; outcome.retry_after_ms reads it."""
        return self.header("retry-after")

    def close(self) -> None:
        self.body.close()
        for hop in self.hops:
            hop.close()


class Fetcher(Protocol):
    """Fetches. Used by many threads at once.

    `crawl` names whose cookies are sent and kept, where the policy has cookies. Where it has credentials, a
    401 that asks for them is followed by one more request, within the same deadline; what comes of that is
    the answer, with the annotation `credentialsSent`. The 401 is not kept: two answers to the same URI at the
    same time are one too many for an archive.
    """

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
        crawl: str = "",
    ) -> Fetch:
        """Fetches a page, if it has changed where validators are given. A redirect is an answer like any
        other, and so is a 304. A body that the policy does not want is left unread (Truncation.FILTER)."""
        ...

    def fetch_robots(
        self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None, crawl: str = ""
    ) -> Fetch:
        """Fetches a robots.txt, following at most MAX_ROBOTS_REDIRECTS redirects within the one deadline.

        The answer is the last one's, with the earlier ones as `hops`. After too many redirects that is a
        redirect too, and `redirects_exhausted` is set: RFC 9309 then lets a crawler take the file for
        unavailable (as a 404). A redirect to nowhere sensible is returned as it is. It is read whatever its
        media type and length; credentials are shown to its own origin only.
        """
        ...


def _is_of(media_type: str, pattern: str) -> bool:
    """Whether a media type in lower case is one of `text/html`, or of `text/*`."""
    pattern = pattern.lower()
    if pattern.endswith("/*"):
        return media_type.startswith(pattern[:-1])
    return media_type == pattern


_MEDIA_TYPE = re.compile(r"\s*+([\w!#$&^.+-]{1,60}+/[\w!#$&^.+-]{1,100}+)\s*+(?:[;,]|$)", re.ASCII)
_CHARSET = re.compile(r";\s*+charset\s*+=\s*+[\"']?+([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
