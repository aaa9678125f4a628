"""The settings of a spider that name its frontier and its crawl."""

import itertools
import json
import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, ScopeSpec
from toehold_client.credentials import VARIABLES, Credentials
from toehold_client.errors import InvalidArgument, InvalidSpec
from toehold_client.spec.file import SpecFile, load, parse

MAX_LINK_HOPS = 10_000
MAX_REDIRECT_HOPS = 100
"""The contract's greatest values: a spider has limits of its own."""

FETCHER = "scrapy"
"""The kind of fetchers that spiders are: only they can call a spider's callbacks."""

MISCONFIGURED = "toehold_misconfigured"
"""The reason of a spider's end for which its user must change a setting."""

_CONTACT = re.compile(r"\+\s*((?:https?://|mailto:)?[^\s;,()]+)")


class Misconfigured(Exception):
    """A setting is wrong; the message says what is right."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The frontier and the crawl that the settings name."""

    frontier: str
    crawl: str
    node: str
    contact: str
    spec: str | Mapping[str, Any] | None
    max_redirects: int
    max_leases: int
    credentials: Credentials
    session: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, settings: BaseSettings) -> "Configuration":
        """Reads a spider's settings. Raises Misconfigured."""
        spec = settings.get("TOEHOLD_SPEC") or None
        if isinstance(spec, BaseSettings):  # what Scrapy makes of a dict
            spec = spec.copy_to_dict()
        if isinstance(spec, Path):
            spec = str(spec)
        if not (spec is None or isinstance(spec, str | Mapping)):
            raise Misconfigured(f"TOEHOLD_SPEC must be the path of a spec file or a dict, got {spec!r:.200}")
        return cls(
            frontier=_required(settings, "TOEHOLD_FRONTIER", "HOST:PORT, such as 127.0.0.1:7707"),
            crawl=_required(settings, "TOEHOLD_CRAWL", "the name of a crawl, such as docs"),
            node=settings.get("TOEHOLD_NODE") or _node_name(),
            contact=settings.get("TOEHOLD_CONTACT") or _contact_in_user_agent(settings),
            spec=spec,
            max_redirects=min(settings.getint("REDIRECT_MAX_TIMES"), MAX_REDIRECT_HOPS),
            max_leases=max(1, settings.getint("CONCURRENT_REQUESTS")),
            credentials=_credentials(settings),
        )

    def crawl_spec(self) -> SpecFile:
        """The spec of a new crawl, with the contact. Raises InvalidSpec or Misconfigured."""
        match self.spec:
            case None:
                spec_file = SpecFile(self.crawl, CrawlSpec(), (), None, None, {})
            case str():
                spec_file = load(Path(self.spec))
            case _:
                spec_file = _spec_of(self.spec)
        if not spec_file.spec.HasField("scope"):
            spec_file.spec.scope.CopyFrom(self._spiders_scope())
        if spec_file.spec.fetcher not in ("", FETCHER):
            raise Misconfigured(
                f"fetcher in TOEHOLD_SPEC must be {FETCHER!r}, or left out, got {spec_file.spec.fetcher!r}"
            )
        spec_file.spec.fetcher = FETCHER
        if self.contact and not spec_file.spec.contact:
            spec_file.spec.contact = self.contact
        if not spec_file.spec.contact and list(spec_file.spec.allowed_addresses) != ["loopback"]:
            raise Misconfigured(
                "TOEHOLD_CONTACT must be an http(s) URL or an e-mail address that site owners can turn to, "
                f"got nothing (crawl {self.crawl!r} does not exist yet, and needs it)"
            )
        return spec_file

    def _spiders_scope(self) -> ScopeSpec:
        """A scope that leaves all decisions to the spider."""
        return ScopeSpec(
            accept_patterns=[".*"],
            max_link_hops=MAX_LINK_HOPS,
            max_redirect_hops=self.max_redirects,
            max_path_repetitions=0,
            max_path_segments=0,
        )


def _required(settings: BaseSettings, name: str, right: str) -> str:
    value = settings.get(name)
    if not isinstance(value, str) or not value:
        raise Misconfigured(f"{name} must be {right}, got {'nothing' if value is None else repr(value)}")
    return value


def _credentials(settings: BaseSettings) -> Credentials:
    """The credentials that settings of the environment's names have, or else the environment."""
    try:
        return Credentials(
            **{name: settings.get(key) or os.environ.get(key) or None for name, key in VARIABLES.items()}
        )
    except InvalidArgument as problem:
        raise Misconfigured(str(problem)) from None


_spiders = itertools.count(1)


def _node_name() -> str:
    """A name that no other spider has, in this process or another."""
    return f"scrapy-{socket.gethostname()[:100]}-{os.getpid()}-{next(_spiders)}"


def _contact_in_user_agent(settings: BaseSettings) -> str:
    """The address that a user agent of the user's own names, as in `docs (+https://www.example.com)`."""
    if (settings.getpriority("USER_AGENT") or 0) <= SETTINGS_PRIORITIES["default"]:
        return ""
    match = _CONTACT.search(settings.get("USER_AGENT") or "")
    return match[1].removeprefix("mailto:") if match else ""


def _spec_of(table: Mapping[str, Any]) -> SpecFile:
    """A spec given as a dict, with the keys of a spec file."""
    if "surt_prefixes_file" in table:
        raise Misconfigured("TOEHOLD_SPEC must be the path of a spec file if it names a surt_prefixes_file")
    try:
        text = "\n".join(f"{json.dumps(key)} = {_toml(value)}" for key, value in table.items())
    except TypeError as error:
        raise Misconfigured(
            f"TOEHOLD_SPEC must consist of keys and values that a spec file can have: {error}"
        ) from None
    try:
        return parse(text, Path("TOEHOLD_SPEC"))
    except UnicodeEncodeError:
        raise InvalidSpec("TOEHOLD_SPEC must be valid Unicode text") from None


def _toml(value: Any) -> str:
    """A value as TOML has it: JSON, but for tables."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
