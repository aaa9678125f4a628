"""Specs as programs give them: the contract's messages, or dicts with the names of a spec file.

{"contact": "me@example.org", "politeness": {"min_delay_seconds": 3}}
"""

from collections.abc import Collection, Mapping
from typing import TypeAlias, Unpack

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, OverrideSettings
from toehold_client.errors import InvalidSpec

from .dicts import OverrideDict, SpecDict
from .fields import Spec
from .tables import override_of, put, read

GivenSpec: TypeAlias = CrawlSpec | SpecDict
"""A spec as methods take it: the contract's message, or a dict with the names of a spec file."""

GivenOverride: TypeAlias = OverrideSettings | OverrideDict
"""The settings of an override, likewise."""


def crawl_spec(**settings: Unpack[SpecDict]) -> CrawlSpec:
    """A spec from settings as a spec file names them; those left out have the frontier's defaults.

        crawl_spec(contact="me@example.org", politeness={"min_delay_seconds": 3})

    Raises InvalidSpec for an unknown name, with the likely one, and for a value of the wrong type.
    """
    return spec_of(settings)


def spec_of(given: GivenSpec) -> CrawlSpec:
    """The contract's form of a spec."""
    return change_of(given)[0]


def change_of(given: GivenSpec, paths: Collection[str] = ()) -> tuple[CrawlSpec, Collection[str]]:
    """The contract's form of a change of settings: a spec, and the paths of what changes.

    Without `paths`, all settings change that a dict names, also to a default or to an empty list.
    """
    if isinstance(given, CrawlSpec):
        return given, paths
    _check_mapping(given, "spec", "CrawlSpec")
    spec = CrawlSpec()
    named = [path for path, _ in put(spec, given, read(given, Spec))]
    return spec, paths or named


def override_settings_of(given: GivenOverride) -> OverrideSettings:
    """The contract's form of an override's settings."""
    if isinstance(given, OverrideSettings):
        return given
    _check_mapping(given, "settings", "OverrideSettings")
    return override_of(given)


def _check_mapping(given: object, name: str, message: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidSpec(f"{name} must be a {message} or a dict, got {type(given).__name__}")
