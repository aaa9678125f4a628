"""A fetch: its policy, its outcome, and the Fetcher interface.

A fetch does not raise for anything that the network or the server does, but ends with a status. Only fetches
of robots.txt follow redirects. Bodies are as sent; decode undoes their codings.
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO, Protocol

from toehold_client.worker.addresses import AddressRule

from ..meter import ConnectionUse, PageStage
from .cancellation import Cancellation
from .outcome import Status, Truncation
from .proxy import Proxy

MAX_ROBOTS_REDIRECTS = 5
"""The most redirects of a robots.txt to follow (RFC 9309 2.3.1.2)."""

MAX_ROBOTS_BYTES = 500 * 1024
"""How much of a robots.txt is read, as sent, and how much is reported, decoded. RFC 9309 2.5 asks for at
least so much."""

NOT_MODIFIED = 304

UNKNOWN_MEDIA_TYPE = "application/octet-stream"
"""The media type of an answer that does not name one (RFC 9110 8.3)."""


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """Where to look for links. See the contract's ExtractSpec."""

    max_links: int = 6000
    javascript: bool = False
    obey_nofollow: bool = False
    obey_robots_meta: bool = True
    sitemap_lastmod: bool = False


@dataclass(frozen=True, slots=True)
class Provenance:
    """What archives say of a crawl. See the contract's Provenance. 0 and empty texts are unknown."""

    launch_ms: int = 0
    operator: str = ""
    contact: str = ""
    description: str = ""
    user_agent: str = ""
    robots_policy: str = ""


NO_PROVENANCE = Provenance()


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """How to fetch a crawl's pages. See the contract's FetchPolicy.

    `timeout_ms` limits the whole fetch, from the look-up of the name to the last byte. `max_bytes` counts
    body bytes as sent; the rest is cut off. Raises ValueError for values that make no sense.
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
    keep_alive: bool = False
    min_delay_ms: int = 0
    proxy: str = field(default="", repr=False)  # may have a password
    user: str = ""
    password: str = field(default="", repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    referer: bool = False
    extract: ExtractSettings = ExtractSettings()
    provenance: Provenance = NO_PROVENANCE

    def __post_init__(self) -> None:
        for name in ("timeout_ms", "max_bytes", "connect_timeout_ms", "read_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(
                    f"fetch policy {self.policy_id!r}: {name} must be above 0, got {getattr(self, name)}"
                )
        for name in ("max_content_length", "max_bytes_per_second", "min_delay_ms"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"fetch policy {self.policy_id!r}: {name} must be at least 0, got {getattr(self, name)}"
                )
        if self.proxy:
            Proxy.parse(self.proxy)

    @property
    def is_selective(self) -> bool:
        """Whether some bodies are left unread."""
        return bool(self.accept_media_types or self.reject_media_types or self.max_content_length)

    def wants(self, media_type: str, content_length: int | None) -> bool:
        """Whether to read a body of this type (empty if unknown) and announced length."""
        if self.max_content_length and (content_length or 0) > self.max_content_length:
            return False
        kind = (media_type or UNKNOWN_MEDIA_TYPE).lower()
        if any(_is_of(kind, each) for each in self.reject_media_types):
            return False
        return not self.accept_media_types or any(_is_of(kind, each) for each in self.accept_media_types)


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of the last visit, as the server sent them; an empty one is missing. They ask whether
    the page has changed (RFC 9110 section 13).
    """

    etag: str = ""
    last_modified: str = ""


NO_VALIDATORS = Validators()


@dataclass(slots=True)
class FetchResult:
    """The outcome of one fetch. Close it, as its body may be a temporary file.

    `status` is the HTTP status as sent (100 to 999), or a Status below zero.

    The heads are the exchange's own bytes, with these exceptions: the answer's has no chunked
    Transfer-Encoding, since the body has no chunks, no blank lines before its status line, and always one at
    its end; credentials become `*`, as in `Authorization: Basic *`; headers for a proxy are left out.
    `digest` is that of the body bytes, `sha1:` and base 32; it is empty without an answer. `body` is at its
    end after a fetch. `annotations` go into the crawl log. Once the head has come, the answer keeps its
    status, its redirect and what came of its body, be it nothing, whether the connection is lost then
    (Truncation.DISCONNECT), the server falls silent or the deadline passes (Truncation.TIME).
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
    redirect_target: str | None = None  # absolute; None also for a Location that makes no sense
    annotations: tuple[str, ...] = ()
    reason: str = ""  # why there is no answer, or no more of it (see FetchFailure)
    hops: tuple["FetchResult", ...] = ()  # the redirects that led here, in their order; robots.txt only
    error: Exception | None = None  # with RUNTIME_EXCEPTION, for the log
    conditional: bool = False  # the request asked for the page only if it has changed
    connecting_ns: tuple[int, int] | None = None  # when its connection was begun, and made
    received_bytes: int = 0  # all that came, inside TLS
    connections: tuple[ConnectionUse, ...] = ()  # of its requests, in their order
    handshakes: int = 0  # how often TLS began on them
    cookie_mark: bytes = b""  # of the Cookie header that was sent (see CookieHeader)
    took_s: dict[PageStage, float] = field(default_factory=dict)  # the time of its stages

    @property
    def unchanged(self) -> bool:
        """Whether the server says that the page has not changed since the last visit."""
        return self.conditional and self.status == NOT_MODIFIED

    def header(self, name: str) -> str | None:
        """A header of the answer, with commas between several of the same name; None when there is none."""
        wanted = name.lower().encode("ascii")
        values = [value for key, value in self.headers if key.lower() == wanted]
        return b", ".join(values).decode("latin-1") if values else None

    @property
    def media_type(self) -> str:
        """The media type without parameters, in lower case; empty if there is none, or it makes no sense."""
        match = _MEDIA_TYPE.match(self.header("content-type") or "")
        return match[1].lower() if match else ""

    @property
    def charset(self) -> str | None:
        """The charset that the Content-Type names, as written there."""
        match = _CHARSET.search((self.header("content-type") or "")[:1000])
        return match[1] if match else None

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
    """Fetches. Many threads use it at once.

    `crawl` names the crawl whose cookies are sent and kept, if the policy has cookies. If it has credentials,
    one more request within the same deadline follows a 401 that asks for them. The outcome of that request is
    the answer, with the annotation `credentialsSent`. The 401 is dropped, as an archive has no use for two
    answers of one URI at the same time.
    """

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
        crawl: str = "",
        via: str = "",
    ) -> FetchResult:
        """Fetches a page; with validators only if it has changed. A redirect is an answer like any other, and
        so is a 304. A body that the policy does not want is left unread (Truncation.FILTER). `via` is the
        page that it was found on."""

    def close(self) -> None:
        """Closes the connections that wait for further fetches. Those that are under way go on, and close
        theirs."""

    def cookie_mark(self, uri: str, policy: FetchPolicy, crawl: str) -> bytes:
        """The mark of the Cookie header that a fetch would send now; empty without one. Raises
        CookiesUnavailable."""

    def fetch_robots(
        self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None, crawl: str = ""
    ) -> FetchResult:
        """Fetches a robots.txt, following at most MAX_ROBOTS_REDIRECTS redirects within the one deadline.

        Returns the last answer, with the earlier ones as `hops`. After too many redirects the last answer is
        a redirect as well: RFC 9309 then lets a crawler treat the file as unavailable (like a 404). A
        redirect whose target makes no sense is returned as it is. The file is read whatever its media type
        and length. Only its own origin gets credentials.
        """


def header_of(text: str) -> tuple[bytes, bytes]:
    """The name and the value of `Name: value`. Raises ValueError."""
    name, colon, value = text.partition(":")
    if not (name and colon and text.isascii() and text.isprintable()):
        raise ValueError(f"a header must be `Name: value` of printable ASCII characters, got {text[:80]!r}")
    return name.encode(), value.strip().encode()


def digest_text(digest: "hashlib._Hash") -> str:
    """A digest by SHA-1 as archives write it: `sha1:` and base 32."""
    return f"sha1:{base64.b32encode(digest.digest()).decode()}"


def _is_of(media_type: str, pattern: str) -> bool:
    """Whether a media type in lower case is one of `text/html`, or of `text/*`."""
    pattern = pattern.lower()
    if pattern.endswith("/*"):
        return media_type.startswith(pattern[:-1])
    return media_type == pattern


_MEDIA_TYPE = re.compile(r"\s*+([\w!#$&^.+-]{1,60}+/[\w!#$&^.+-]{1,100}+)\s*+(?:[;,]|$)", re.ASCII)
_CHARSET = re.compile(r";\s*+charset\s*+=\s*+[\"']?+([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
