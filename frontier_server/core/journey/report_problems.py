"""Checks reports. An invalid report is refused, and its lease continues."""

from ..robotstxt.robots import MAX_BODY_BYTES
from ..rules.disposition import known_status
from ..spec.settings import DAY_MS
from ..state.model import Report

MAX_ANNOTATIONS = 16
MAX_ANNOTATION_CHARACTERS = 128
MAX_CONNECTIONS = 100  # of one fetch
MAX_FETCHED_BYTES = 1 << 50  # of a body: a thousand times what FetchSpec.max_bytes may be


def problem_of(report: Report, robots: bool) -> str:
    """The first problem of a report; empty if it is valid."""
    if not known_status(report.fetch_status):
        return f"fetch_status must be an HTTP status (100 to 999) or a FetchStatus, got {report.fetch_status}"
    if not 0 <= report.duration_ms <= DAY_MS:
        return f"fetch_duration must be between 0 and 1 day, got {report.duration_ms} ms"
    if not 0 <= report.body_bytes <= MAX_FETCHED_BYTES:
        return f"body_bytes must be between 0 and {MAX_FETCHED_BYTES} (1 PiB), got {report.body_bytes}"
    if report.retry_after_ms < 0:
        return f"retry_after_duration must be at least 0, got {report.retry_after_ms} ms"
    if (report.robots_body or report.robots_empty) and not robots:
        field = "robots_body" if report.robots_body else "robots_empty"
        return f"{field} must not be set in the report of a page"
    if report.robots_empty and report.robots_body:
        return f"robots_body must be empty with robots_empty, got {len(report.robots_body)} bytes"
    if report.robots_empty and not 200 <= report.fetch_status < 300:
        return f"fetch_status must be between 200 and 299 with robots_empty, got {report.fetch_status}"
    if robots and 300 <= report.fetch_status < 400:
        nowhere = "report redirects that lead nowhere as -404"
        return f"fetch_status of a robots.txt must not be a redirect, got {report.fetch_status}; {nowhere}"
    if robots and 200 <= report.fetch_status < 300 and not (report.robots_body or report.robots_empty):
        empty = "set robots_empty if the file is empty"
        return f"robots_body must not be empty with fetch_status {report.fetch_status}; {empty}"
    if len(report.robots_body) > MAX_BODY_BYTES:
        return f"robots_body must have at most {MAX_BODY_BYTES} bytes, got {len(report.robots_body)}"
    if len(report.annotations) > MAX_ANNOTATIONS:
        return f"a report must have at most {MAX_ANNOTATIONS} annotations, got {len(report.annotations)}"
    for annotation in report.annotations:
        if (
            len(annotation) > MAX_ANNOTATION_CHARACTERS
            or annotation.split() != [annotation]
            or "," in annotation
        ):
            right = f"1 to {MAX_ANNOTATION_CHARACTERS} characters, without blanks or commas"
            return f"an annotation must have {right}, got {annotation[:40]!r}"
    for name, count in (
        ("connection_count", report.connections),
        ("tls_handshake_count", report.tls_handshakes),
        ("kept_connection_count", report.kept_connections),
    ):
        if not 0 <= count <= MAX_CONNECTIONS:
            return f"{name} must be between 0 and {MAX_CONNECTIONS}, got {count}"
    if max(len(report.media_type), len(report.digest)) > 256:
        return "media_type and digest must have at most 256 characters each"
    return ""
