"""Which URIs belong to a crawl: hosts in scope, and hops from the seed.

Hosts in scope are rows of the store, as there may be millions of seeds.
"""

from .assign import hash64, partition_of
from .canonical import Malformed, TooLong, UnsupportedScheme, canonical
from .keys import scope_key
from .settings import ScopeSettings
from .store import Family, Transaction

NAVIGATIONAL = "LM"
EMBEDDED = "EXI"
MAX_SHOWN = 80
MAX_SEED_REDIRECTS = 5  # Heritrix 2.2, seedsRedirectNewSeeds


def hops_exceeded(path: str, scope: ScopeSettings) -> bool:
    """Whether a discovery path is longer than the scope allows."""
    if not path:
        return False
    if path.count("L") + path.count("M") > scope.max_link_hops:
        return True
    redirects = len(path) - len(path.rstrip("R"))
    if redirects > scope.max_redirect_hops:
        return True
    since_link = path[max(path.rfind("L"), path.rfind("M")) + 1 :]
    return sum(since_link.count(hop) for hop in EMBEDDED) > scope.max_embed_hops


def seed_redirect(path: str) -> bool:
    """Whether a URI was reached from a seed by at most five redirects and nothing else."""
    return 0 < len(path) <= MAX_SEED_REDIRECTS and path.strip("R") == ""


def authority_in_scope(tx: Transaction, crawl: int, host: str, authority: str) -> bool:
    """Whether a host (and port, if not the scheme's own) has been added to the scope."""
    return tx.get(Family.INDEX, scope_key(crawl, partition_of(host), hash64(authority))) is not None


def add_authority(tx: Transaction, crawl: int, host: str, authority: str) -> None:
    """Add a host to the scope."""
    tx.put(Family.INDEX, scope_key(crawl, partition_of(host), hash64(authority)), b"\x01")


def parse_authority(text: str) -> tuple[str, str]:
    """`host` or `host:port` of a spec → host and authority. Raises Malformed."""
    wrong = f"{text[:MAX_SHOWN]!r} is not HOST or HOST:PORT"
    if not text or any(mark in text for mark in "/?#@\\ \t\r\n"):
        raise Malformed(wrong)
    try:
        uri = canonical(f"http://{text}/")
    except (Malformed, UnsupportedScheme, TooLong) as problem:
        raise Malformed(wrong) from problem
    # `:443` is https's own port: the host itself is meant.
    return uri.host, uri.authority.removesuffix(":443")
