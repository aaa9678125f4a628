"""`toehold report failures`: which URIs failed and why, by host."""

from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.text import count_text, counted
from toehold_client.watching.failures import Failures

from .kept_outcomes import KeptOutcomes

_COLUMNS = ("host", "URIs", "why", "example")


def tell_failures(crawl: CrawlController, as_json: bool) -> None:
    """Prints each reason why URIs of a host failed, with their number and an example."""
    kept = KeptOutcomes(crawl)
    failures = Failures()
    for outcome in kept:
        failures.note(outcome)
    groups = failures.groups()
    if as_json:
        for each, number, (example, *_) in groups:
            output.record({**each._asdict(), "uri_count": number, "example_uri": example})
        return
    if not groups:
        output.line("No URI failed or was answered with an error.")
    else:
        rows = ((each.host, count_text(number), str(each), example) for each, number, (example, *_) in groups)
        output.table(_COLUMNS, rows)
        were = "was" if len(failures) == 1 else "were"
        hosts = counted(failures.host_count, "host")
        output.line(f"{counted(len(failures), 'URI')} of {hosts} failed or {were} answered with an error.")
    kept.tell_gap()
