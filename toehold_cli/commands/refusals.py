"""`toehold refusals`: the rules that refused URIs."""

import click

from toehold.frontier.v1.admin_pb2 import RefusalRule
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import to_plain
from toehold_client.text import counted, rule_text

from .options import json_option, with_crawl
from .suggestions import refusal_rules


@click.command()
@click.argument("rule", required=False, shell_complete=refusal_rules)
@json_option
@with_crawl
def refusals(crawl: CrawlController, rule: str | None, as_json: bool) -> None:
    """Show which rules refused URIs, how many, and examples.

    The command shows the latest three examples of each rule. With RULE, such as scope.max_link_hops, it shows
    up to 100 of that rule. A URI counts each time that a page links to it.
    """
    tell_refusals(crawl, rule or "", as_json)


def tell_refusals(crawl: CrawlController, rule: str, as_json: bool) -> None:
    """Prints the rules with their examples."""
    rules = crawl.frontier.list_refusals(crawl.crawl, rule)
    if as_json:
        for each in rules:
            output.record(to_plain(each))
    elif not rules:
        output.line(f"{rule} has refused no URI." if rule else "No rule has refused a URI.")
    for place, each in enumerate([] if as_json else rules):
        if place:
            output.line("")
        _tell(each)


def _tell(rule: RefusalRule) -> None:
    output.line(f"{counted(rule.refused_count, 'URI')} refused by {rule_text(rule.rule, rule.message)}")
    for example in rule.examples:
        found = f"  from {example.via}" if example.via else ""
        output.line(f"  {example.uri}{found}")
