"""The small web that the core's tests crawl: sites, URIs and how they may be written, robots.txt files.

What each robots.txt forbids is written beside it by hand, so that a test can judge without the core's parser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Site(NamedTuple):
    """A scheme and authority: what has a robots.txt and a work queue of its own."""

    scheme: str
    host: str
    port: int | None = None

    @property
    def authority(self) -> str:
        """Host, and port unless it is the scheme's own."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    def uri(self, target: str) -> str:
        """A canonical URI."""
        return f"{self.scheme}://{self.authority}{target}"

    @property
    def domain(self) -> str:
        """The registered domain: no host here has more than one label before it."""
        return ".".join(self.host.split(".")[-2:])

    @property
    def port_mark(self) -> str:
        """How queue keys tell a port that is not 80."""
        port = self.port or (443 if self.scheme == "https" else None)
        return "" if port is None else f"#{port}"

    @property
    def surt(self) -> str:
        """What the SURTs of its URIs begin with, up to the path."""
        turned = ",".join(reversed(self.host.split("."))) + ","
        port = "" if self.port is None else f":{self.port}"
        return f"http://({turned}{port})"

    def spellings(self, target: str) -> list["Spelled"]:
        """Ways to write one URI; the first is canonical."""
        default_port = {"http": 80, "https": 443}[self.scheme]
        port = self.port or default_port
        texts = (
            self.uri(target),
            f"{self.uri(target)}#part",
            f"{self.scheme.upper()}://{self.host.upper()}:{port}{target}",
            f"{self.scheme}://user:secret@{self.host}.:{port}{target}",
            self.uri("/x/.." + target) + ("" if "?" in target else "?"),
        )
        return [Spelled(text, self.uri(target), self) for text in texts]


class Spelled(NamedTuple):
    """A URI as somebody wrote it."""

    text: str
    uri: str  # canonical
    site: Site

    @property
    def target(self) -> str:
        """Path and query."""
        return self.uri.removeprefix(self.site.uri(""))


SITES = (
    Site("http", "alpha.example"),
    Site("https", "alpha.example"),
    Site("http", "www.alpha.example"),
    Site("http", "beta.example"),
    Site("http", "gamma.example"),
    Site("http", "gamma.example", 8080),
    Site("http", "delta.example"),
)
ELSEWHERE = Site("http", "elsewhere.example")
TARGETS = ("/", "/a", "/b?q=1", "/b", "/private/", "/private/x", "/2024/x")
ADDRESSES = {  # which address answers for a host; the others never tell
    "alpha.example": "192.0.2.1",
    "beta.example": "192.0.2.1",
    "gamma.example": "192.0.2.2",
}


def every_spelling() -> list[Spelled]:
    """All URIs of this web, in all ways of writing them."""
    return [spelled for site in SITES for target in TARGETS for spelled in site.spellings(target)]


@dataclass(frozen=True)
class RobotsFile:
    """A robots.txt, with what it means."""

    name: str
    body: bytes
    forbids: Callable[[str, str], bool]  # product token, target
    crawl_delay_ms: int = 0


OPEN = RobotsFile("open", b"", lambda agent, target: False)
PRIVATE = RobotsFile(
    "private", b"User-agent: *\nDisallow: /private/\n", lambda agent, target: target.startswith("/private/")
)
SLOW = RobotsFile(
    "slow",
    b"User-agent: *\r\nCrawl-delay: 7\r\nDisallow: /b$\r\n",
    lambda agent, target: target == "/b",
    crawl_delay_ms=7_000,
)
NOT_US = RobotsFile(
    "not us",
    b"User-agent: *\nDisallow:\n\nUser-agent: Toehold/1.0\nDisallow: /\nAllow: /$\nAllow: /private/\n",
    lambda agent, target: agent == "toehold" and target != "/" and not target.startswith("/private/"),
)
ROBOTS_FILES = (OPEN, PRIVATE, SLOW, NOT_US)


class Area(NamedTuple):
    """A part of this web, as somebody names it, and the SURT prefix that this stands for."""

    text: str
    surt: str

    def holds(self, site: Site, target: str) -> bool:
        """Whether a URI is in it."""
        return (site.surt + target).startswith(self.surt)


AREAS = (
    Area("http://(example,", "http://(example,"),
    Area("alpha.example", "http://(example,alpha,"),
    Area("http://alpha.example/", "http://(example,alpha,)/"),
    Area("https://beta.example/private/x", "http://(example,beta,)/private/"),
    Area("gamma.example:8080", "http://(example,gamma,:8080)"),
)
