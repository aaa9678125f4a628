"""The hosts of the practice web, and what each of them answers to a path.

It serves nothing itself: `serve` puts it on sockets, and `truth` walks it to learn what a crawler should
find. Links are authored without ports (`http://docs.beta.example/json/`); the ports, known only when
sockets are bound, are added on the way out.
"""

import hashlib
import mimetypes
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from practice_web import robots, traps
from practice_web.reply import Reply

_AUTHORED_ORIGIN = re.compile(
    "(https?)://([a-z0-9.\u00fc-]+\\.example)(?=[/?#\"'<\\s]|$)".encode(), re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Origin:
    """One listening socket: a scheme, a host name and (once bound) a port. Two origins may share a name.

    `address` is where it would like to listen, `think_s` what it takes to answer, `gzips` whether it
    compresses for those who accept it.
    """

    key: str
    name: str
    scheme: str = "http"
    address: str = "127.0.0.1"
    think_s: float = 0.0
    gzips: bool = False


LIBRARY = (
    Origin("alpha", "www.alpha.example", address="127.0.0.2", think_s=0.002),
    Origin("beta", "docs.beta.example", address="127.0.0.3", think_s=0.004),
    Origin("gamma", "lib.gamma.example", address="127.0.0.4", think_s=0.006, gzips=True),
    Origin("delta", "ref.delta.example", address="127.0.0.5", think_s=0.008),
    Origin("epsilon", "pages.epsilon.example", think_s=0.010, gzips=True),
    Origin("zeta", "wiki.zeta.example", think_s=0.005),
    Origin("eta", "text.eta.example", think_s=0.003),
    Origin("theta", "secure.theta.example", scheme="https", address="127.0.0.6", think_s=0.004),
)
"""The hosts that share out the library's pages."""

TRAPS = (
    Origin("theta-plain", "secure.theta.example", address="127.0.0.6"),
    Origin("iota", "traps.iota.example", address="127.0.0.7"),
    Origin("kappa", "busy.kappa.example"),
    Origin("lambda", "limit.lambda.example"),
    Origin("mu", "broken.mu.example"),
    Origin("nu", "patient.nu.example"),
    Origin("xi", "closed.xi.example"),
    Origin("omicron", "xn--bcher-kva.example"),
    Origin("pi", "moved.pi.example"),
    Origin("rho", "rules.rho.example"),
)
"""Hosts with few pages, each hard in its own way (`traps`, `robots`)."""

ORIGINS = LIBRARY + TRAPS


def by_address() -> tuple[Origin, ...]:
    """The same origins without names of their own: each host is called by its address, but the first is
    `localhost`. A fetcher that has no table of names can crawl them.
    """
    hosts = dict.fromkeys(origin.name for origin in ORIGINS)
    addresses = {name: f"127.0.0.{number}" for number, name in enumerate(hosts, start=1)}
    return tuple(
        replace(
            origin,
            address=addresses[origin.name],
            name=addresses[origin.name] if origin.name != ORIGINS[0].name else "localhost",
        )
        for origin in ORIGINS
    )


class Web:
    """All hosts at their ports, over a folder of rendered pages. `reply` is the whole site as a function.

    `origins` may have other names than ORIGINS, which links are authored with (`by_address`).
    """

    def __init__(self, pages: Path, ports: Mapping[str, int], origins: Iterable[Origin] = ORIGINS) -> None:
        self.pages = pages
        self.ports = dict(ports)
        self.origins = {origin.key: origin for origin in origins}
        self._by_authority = {self.authority(origin): origin for origin in self.origins.values()}
        self._places = {
            (authored.scheme.encode(), name): (self.origins[authored.key], authored)
            for authored in ORIGINS
            for name in (authored.name.encode(), authored.name.encode().decode("idna").encode())
        }
        self._loaded: dict[tuple[str, str], Reply] = {}

    def authority(self, origin: Origin) -> str:
        """`http://www.alpha.example:41234`: what a URL of this origin begins with."""
        return f"{origin.scheme}://{origin.name}:{self.ports[origin.key]}"

    def url(self, key: str, path: str) -> str:
        """The URL of a path on the origin of that key."""
        return self.authority(self.origins[key]) + path

    @cached_property
    def seeds(self) -> list[str]:
        """The first page of every origin."""
        return [self.url(key, "/") for key in self.origins]

    def find(self, url: str) -> tuple[Origin, str] | None:
        """The origin of a URL and its request target, or None where it leads off the practice web."""
        try:
            parts = urlsplit(url)
            origin = self._by_authority.get(f"{parts.scheme}://{parts.netloc.lower()}")
        except ValueError:
            return None
        if origin is None:
            return None
        return origin, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def reply(self, origin: Origin, target: str, nth: int) -> Reply:
        """What the origin answers to the `nth` request (from 0) of this target; links carry their ports."""
        authored = (
            robots.reply(origin.key, target)
            or traps.reply(origin.key, target, nth)
            or self._file(origin, target)
            or Reply(404, body=b"<!DOCTYPE html><title>Not found</title><p>There is no such page here.")
        )
        if authored.location is not None:
            authored = replace(authored, location=self.with_ports(authored.location.encode()).decode())
        return authored if authored.verbatim else replace(authored, body=self.with_ports(authored.body))

    def with_ports(self, text: bytes) -> bytes:
        """The same text with the port, and the name if it is another, of every authored origin that is
        ours."""
        return _AUTHORED_ORIGIN.sub(self._place, text)

    @cached_property
    def robots_hops(self) -> frozenset[str]:
        """The URLs that are asked for only inside the retrieval of a robots.txt."""
        return frozenset(self.with_ports(hop.encode()).decode() for hop in robots.HOPS)

    def _place(self, found: re.Match[bytes]) -> bytes:
        place = self._places.get((found[1].lower(), found[2].lower()))
        if place is None:
            return found[0]
        origin, authored = place
        written = (
            found[0] if origin.name == authored.name else self.authority(origin).rpartition(":")[0].encode()
        )
        return written + b":%d" % self.ports[origin.key]

    @cached_property
    def _files(self) -> dict[tuple[str, str], Path]:
        """Every rendered file by origin and path; `index.html` is its folder."""
        found = {}
        for origin in LIBRARY:
            folder = self.pages / origin.key
            for file in folder.rglob("*"):
                if file.is_file():
                    path = "/" + file.relative_to(folder).as_posix()
                    found[origin.key, path.removesuffix("index.html")] = file
        return found

    def _file(self, origin: Origin, target: str) -> Reply | None:
        place = (origin.key, target.partition("?")[0])
        file = self._files.get(place)
        if file is None:
            return None
        if place not in self._loaded:
            media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            if media_type.startswith("text/"):
                media_type += "; charset=utf-8"
            body = self.with_ports(file.read_bytes())
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            self._loaded[place] = Reply(
                200, media_type, body, verbatim=True, gzip_if_accepted=origin.gzips, etag=etag
            )
        return self._loaded[place]
