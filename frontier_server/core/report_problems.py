"""What makes no sense in a report: such a report is refused, and its lease stays out."""

from .model import Report
from .robotstxt.robots import MAX_BODY_BYTES
from .rules.disposition import known_status
from .spec.settings import DAY_MS

MAX_ANNOTATIONS = 16
MAX_ANNOTATION_CHARACTERS = 128
MAX_FETCHED_BYTES = 1 << 50  # of a body: a thousand times what FetchSpec.max_bytes may be


def problem_of(report: Report, robots: bool) -> str:
    """What makes no sense in a report; empty if it does."""
    if not known_status(report.fetch_status):
        return f"fetch_status {report.fetch_status} is neither an HTTP status (100 to 599) nor a FetchStatus"
    if not 0 <= report.duration_ms <= DAY_MS:
        return f"fetch_duration of {report.duration_ms} ms is not within 0 and one day"
    if not 0 <= report.body_bytes <= MAX_FETCHED_BYTES:
        return f"body_bytes {report.body_bytes} is not within 0 and {MAX_FETCHED_BYTES} (1 PiB)"
    if report.retry_after_ms < 0:
        return f"retry_after_duration of {report.retry_after_ms} ms is negative"
    if (report.robots_body or report.robots_empty) and not robots:
        return f"{'robots_body' if report.robots_body else 'robots_empty'} in the report of a page"
    if report.robots_empty and report.robots_body:
        return f"robots_empty, with a robots_body of {len(report.robots_body)} bytes"
    if report.robots_empty and not 200 <= report.fetch_status < 300:
        return f"robots_empty with fetch_status {report.fetch_status}; it goes with 200 to 299"
    if robots and 300 <= report.fetch_status < 400:
        return f"fetch_status {report.fetch_status} of a robots.txt; one whose redirects lead nowhere is -404"
    if robots and 200 <= report.fetch_status < 300 and not (report.robots_body or report.robots_empty):
        told = "one that is empty is told by robots_empty"
        return f"fetch_status {report.fetch_status} of a robots.txt without robots_body; {told}"
    if len(report.robots_body) > MAX_BODY_BYTES:
        return f"robots_body of {len(report.robots_body)} bytes; cut it at {MAX_BODY_BYTES}"
    if len(report.annotations) > MAX_ANNOTATIONS:
        return f"{len(report.annotations)} annotations; at most {MAX_ANNOTATIONS} are taken"
    for annotation in report.annotations:
        if (
            len(annotation) > MAX_ANNOTATION_CHARACTERS
            or annotation.split() != [annotation]
            or "," in annotation
        ):
            return f"annotation {annotation[:40]!r} is empty, too long, or has blanks or commas"
    if max(len(report.media_type), len(report.digest)) > 256:
        return "media_type or digest is longer than 256 characters"
    return ""
