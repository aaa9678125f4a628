"""Reads a crawl's settings once, because thousands of hosts and patterns take tenths of a second.

A server first reads them in a thread (`read_ahead`), so that the operation finds them read.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from ..spec.settings import CrawlSettings, ScopeSettings
from ..uri import assign
from ..uri.scope import ScopeRules, parse_authority
from . import spec_problems

READ_LATELY = 4  # remembered results; a large one has some MB


@lru_cache(maxsize=READ_LATELY)
def problems(settings: CrawlSettings) -> Mapping[str, str]:
    """The problems of a crawl's settings: path in the spec → problem."""
    return MappingProxyType(spec_problems.problems(settings))


@lru_cache(maxsize=READ_LATELY)
def scope_rules(scope: ScopeSettings) -> ScopeRules:
    """The rules of a scope that has no problems."""
    return ScopeRules(scope)


@lru_cache(maxsize=READ_LATELY)
def authorities(hosts: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    """The hosts of a scope that has no problems → host and authority."""
    return MappingProxyType({host: parse_authority(host) for host in hosts})


@lru_cache(maxsize=READ_LATELY)
def groups_of(settings: CrawlSettings) -> Mapping[str, str]:
    """Host → the named group that it is in."""
    return MappingProxyType(assign.groups_of(settings))


def read_ahead(settings: CrawlSettings) -> None:
    """Read all of the settings ahead of the operation that needs them, in any thread."""
    if not problems(settings):
        scope_rules(settings.scope)
        authorities(settings.scope.hosts)
        groups_of(settings)
