"""What extractors are tried with: fetches made of headers and a body."""

from io import BytesIO

from crawler_node.extraction.extract import outlinks
from crawler_node.extraction.links import FoundLinks
from crawler_node.fetching.fetch import ExtractSettings, FetchResult

FOLDER = "http://a.example/dir/"
PAGE = FOLDER + "page"
NOW_MS = 1_700_000_000_000
"""When pages are fetched: 2023-11-14T22:13:20Z."""


def fetch(
    body: bytes | str, media_type: str = "text/html; charset=utf-8", uri: str = PAGE, **headers: str
) -> FetchResult:
    """An answer; `content_encoding="gzip"` is a header. Text is sent as UTF-8."""
    data = body.encode() if isinstance(body, str) else body
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    lines.append((b"Content-Type", media_type.encode()))
    return FetchResult(
        uri, start_time_ms=NOW_MS, status=200, headers=lines, body=BytesIO(data), body_bytes=len(data)
    )


def find(fetch: FetchResult, **settings: bool | int) -> FoundLinks:
    """What is found in it, under these ExtractSettings."""
    return outlinks(fetch, ExtractSettings(**settings), "toehold")  # type: ignore[arg-type]


def pairs(found: FoundLinks) -> list[tuple[str, str]]:
    """Links as pairs of hop letter and URI, that of the page's own folder shortened."""
    return [(link.hop.value, link.uri.removeprefix(FOLDER)) for link in found.links]


def html(body: str, uri: str = PAGE, **settings: bool | int) -> list[tuple[str, str]]:
    """The links of a page, as `pairs`."""
    return pairs(find(fetch(body, uri=uri), **settings))
