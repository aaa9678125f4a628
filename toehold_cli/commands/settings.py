"""`toehold set` and `toehold update`: change the settings of a crawl."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import click

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_cli import output
from toehold_cli.setting_changes import change_text, changed_paths
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.file import SpecFile
from toehold_client.watching.setting_names import NAMES, PATHS, read_settings

from .options import json_option, with_crawl, with_spec

Changes: TypeAlias = Sequence[tuple[str, Any, Any]]
"""Each setting that has changed, its old value and its new one."""


def settings_argument(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command NAME=VALUE arguments; `read_settings` reads them."""
    metavar = "NAME=VALUE..." if required else "[NAME=VALUE]..."
    return click.argument("texts", metavar=metavar, nargs=-1, required=required, shell_complete=_names)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: the settings whose names begin like this."""
    leaves = (name for name in NAMES.values() if not any(other.startswith(f"{name}.") for other in PATHS))
    return [f"{name}=" for name in leaves if name.startswith(incomplete)]


@click.command("set")
@settings_argument(required=True)
@json_option
@with_crawl
def set_settings(crawl: CrawlController, texts: tuple[str, ...], as_json: bool) -> None:
    """Change settings of a crawl.

    That works in any state but FINISHED; see `toehold reopen`. NAME and VALUE are those of a spec file:
    limits.max_documents=1000, politeness.min_delay_seconds=5, 'scope.reject_patterns=[".*[?]sort=.*"]'. A
    text needs no quotes. NAME= restores the default. The command changes all settings or none; they count
    from the next decision on.
    """
    wanted, paths = read_settings(texts)
    _update(crawl, crawl.describe().spec, wanted, paths, as_json)


@click.command()
@json_option
@with_spec(required=True)
def update(crawl: CrawlController, asked: SpecFile, as_json: bool) -> None:
    """Change a crawl's settings to those of the file SPEC.

    That works in any state but FINISHED. The command changes all settings that differ, or none, and lists
    them. It does not change seeds; see `toehold seeds add`.
    """
    stored = crawl.describe().spec
    paths = changed_paths(stored, asked.spec)
    try:
        _update(crawl, stored, asked.spec, paths, as_json)
    except InvalidSpec as refusal:
        raise spec_file.located(refusal, asked.places) from None


def _update(
    crawl: CrawlController, stored: CrawlSpec, wanted: CrawlSpec, paths: Sequence[str], as_json: bool
) -> None:
    changes = (
        spec_file.changes(stored, crawl.frontier.update_crawl(crawl.crawl, wanted, paths).spec)
        if paths
        else []
    )
    if as_json:
        output.record({"crawl": crawl.crawl, "changes": changes_record(changes)})
        return
    tell_changes(crawl, changes)
    if not changes:
        output.line(f"{crawl.crawl}: nothing to change")


def changes_record(changes: Changes) -> list[dict[str, Any]]:
    """Changes of settings for programs."""
    return [{"name": name, "was": was, "is": now} for name, was, now in changes]


def tell_changes(crawl: CrawlController, changes: Changes) -> None:
    """Prints changes of settings, a line each."""
    for name, was, now in changes:
        output.line(f"{crawl.crawl}: {change_text(name, was, now)}")
