"""Where a URI lives, and by which settings: overrides, identity, partition, queue (Heritrix 2.7, 2.23)."""

from functools import lru_cache
from hashlib import blake2b

from core_doubles.codec import settings_of, spec_of
from core_doubles.model.things import Crawl, Queue, Uri
from core_doubles.web import Site

from frontier_server.core.spec.settings import CrawlSettings


def hashed(text: str) -> bytes:
    """The 64 bits that stand for a text in keys."""
    return blake2b(text.encode(), digest_size=8).digest()


def settings_for(crawl: Crawl, site: Site, target: str) -> CrawlSettings:
    """The crawl's settings, with all overrides whose prefix the URI has, the longest on top."""
    surt = site.surt + target
    matching = sorted((prefix for prefix in crawl.overrides if surt.startswith(prefix)), key=len)
    return _laid_over(crawl.settings, tuple(crawl.overrides[prefix] for prefix in matching))


@lru_cache(maxsize=10_000)
def _laid_over(settings: CrawlSettings, overrides: tuple[bytes, ...]) -> CrawlSettings:
    return settings_of(spec_of(settings), overrides) if overrides else settings


def settings_of_uri(crawl: Crawl, uri: Uri) -> CrawlSettings:
    """The settings of a URI that was taken in."""
    return settings_for(crawl, uri.site, uri.target)


def shared(crawl: Crawl, uri: Uri) -> bool:
    """Whether the queue of a URI may have URIs of other hosts, schemes or ports."""
    queues = settings_of_uri(crawl, uri).queues
    return queues.assignment in ("registered-domain", "buckets") or bool(queues.queue_key)


def same_as(crawl: Crawl, site: Site, target: str) -> tuple[Site, str]:
    """The URI that stands for all that are the same (2.4): `www.` goes, but for the home page."""
    if "strip-www" in crawl.settings.identity.rules and target != "/":
        return site._replace(host=site.host.removeprefix("www.")), target
    return site, target


def identity(crawl: Crawl, site: Site, target: str) -> str:
    """What makes a URI the same as others."""
    site, target = same_as(crawl, site, target)
    return site.uri(target)


def partition(crawl: Crawl, site: Site, target: str) -> bytes:
    """Where a URI lives: 16 bits of its site, and 48 of its host. Groups and domains have their own."""
    host = same_as(crawl, site, target)[0].host
    domain = ".".join(host.split(".")[-2:])
    for group in crawl.settings.groups:
        if host in group.hosts or same_as(crawl, site, "/page")[0].host in group.hosts:
            return hashed(f"group:{group.name}")
    if crawl.settings.queues.partition == "registered-domain":
        return hashed(domain)
    return hashed(domain)[:2] + hashed(host)[2:]


def queue_key(settings: CrawlSettings, site: Site, target: str) -> str:
    """The key of the queue that a URI belongs to."""
    queues = settings.queues
    made = {
        "surt-authority": lambda: ",".join(reversed(site.host.split("."))) + "," + site.port_mark,
        "host": lambda: site.host + site.port_mark,
        "registered-domain": lambda: site.domain,
        "buckets": lambda: f"bucket-{int.from_bytes(hashed(site.host), 'big') % queues.buckets}",
    }
    key = queues.queue_key or made[queues.assignment]()
    if queues.parallel_queues == 1:
        return key
    folders = target.split("?")[0].split("/")[1:-1]
    branch = int.from_bytes(hashed(folders[0]), "big") % queues.parallel_queues if folders else 0
    return f"{key}+{branch}"


def queue_id(crawl: Crawl, site: Site, target: str) -> tuple[bytes, str]:
    """The id of the queue that a URI belongs to by now, and its key."""
    key = queue_key(settings_for(crawl, site, target), site, target)
    return partition(crawl, site, target) + hashed(key), key


def queue_of(crawl: Crawl, site: Site, target: str) -> Queue:
    """The queue that a URI belongs to by now, made when it is new (S2.15)."""
    found, key = queue_id(crawl, site, target)
    queue = crawl.queues.get(found)
    if queue is None:
        queue = crawl.queues[found] = Queue(found, key)
    assert queue.key == key
    return queue


def misplaced(crawl: Crawl) -> list[Uri]:
    """URIs whose queue is not the one that they belong to by now (S3.12)."""
    if not crawl.overridden:
        return []
    return [uri for uri in crawl.queued() if queue_id(crawl, uri.site, uri.target)[0] != uri.queue]
