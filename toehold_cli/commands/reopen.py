"""`toehold reopen`: lets a finished crawl run again."""

import click

from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import to_plain
from toehold_client.watching.setting_names import read_settings

from .options import json_option, with_crawl
from .settings import changes_record, settings_argument, tell_changes


@click.command()
@settings_argument(required=False)
@click.option(
    "--pause", "paused", is_flag=True, help="Leave the crawl PAUSED, so that you can add URIs first."
)
@json_option
@with_crawl
def reopen(crawl: CrawlController, texts: tuple[str, ...], paused: bool, as_json: bool) -> None:
    """Let a finished crawl run again, with the URIs that it left.

    First the command changes settings, as `toehold set` does. If the crawl ended at a limit, raise the limit:
    `toehold reopen limits.max_documents=1000`. If the crawl has no URIs left, use --pause, add some, and then
    `toehold resume`.
    """
    wanted, paths = read_settings(texts)
    stored = crawl.describe().spec
    reopened = crawl.reopen(wanted, paths, pause=paused)
    changes = spec_file.changes(stored, reopened.spec) if paths else []
    if as_json:
        status = to_plain(reopened.status)
        output.record({"crawl": crawl.crawl, "status": status, "changes": changes_record(changes)})
        return
    tell_changes(crawl, changes)
    output.line(f"{crawl.crawl}: {output.status_and_reason(reopened.status)}")
