"""One answer of the practice web as a value: what is said, and the manner in which its bytes leave."""

from dataclasses import dataclass

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer. `status` 0 closes the connection without one.

    The body is encoded on the way out by `encoding` ("gzip", "deflate", "raw-deflate" or None), or by gzip
    for who accepts it (`gzip_if_accepted`), or is so already (`encoded_as`). It is sent `repeat` times
    over; in chunks if `chunked`; byte by byte with `pause_s` between if that is positive; and the length
    that the header promises is `short_by` bytes too many. `retry_after_s` is sent as seconds, or as a date
    if `retry_after_as_date`. `verbatim`: links in the body are not given ports (they have them, or the
    bytes are not text). `etag`: who brings it is answered with 304 (`unchanged`).
    """

    status: int = 200
    media_type: str | None = HTML
    body: bytes = b""
    location: str | None = None
    retry_after_s: int | None = None
    retry_after_as_date: bool = False
    encoding: str | None = None
    gzip_if_accepted: bool = False
    encoded_as: str | None = None
    chunked: bool = False
    repeat: int = 1
    pause_s: float = 0.0
    short_by: int = 0
    verbatim: bool = False
    etag: str | None = None


def unchanged(reply: Reply) -> Reply:
    """The answer to somebody who has the page."""
    return Reply(304, media_type=None, etag=reply.etag)


def page(
    body: str, *, title: str = "A practice page", charset: str = "utf-8", media_type: str | None = HTML
) -> Reply:
    """A small HTML page."""
    html = f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return Reply(200, media_type, html.encode(charset))


def redirect(location: str, status: int = 302) -> Reply:
    """A redirect; its body links nowhere."""
    return Reply(status, body=b"<!DOCTYPE html><title>Moved</title><p>Moved.", location=location)
