"""What the frontier has forgotten of hosts and robots.txt files, which the model then forgets, too."""

from core_doubles.model.things import Host, Model, Robots
from core_doubles.placing import PLACES
from core_doubles.shell import Shell

from frontier_server.core.jobs.housekeeping import KEPT_MS
from frontier_server.core.rows.keys import host_key, robots_key
from frontier_server.core.rows.store import Family


def follow(shell: Shell, model: Model) -> None:
    """Forget what has no row any more. Raises AssertionError for what was needed not long ago."""
    for name, host in list(model.hosts.items()):
        stored = shell.store.get(Family.HOSTS, host_key(PLACES.of_host(name), name))
        if "\0" in name or stored is not None or host == Host():
            continue
        assert host.rest_ms + KEPT_MS <= model.now_ms, f"{name} was forgotten too early"
        del model.hosts[name]
    for (site, agent), robots in list(model.robots.items()):
        key = robots_key(PLACES.of_host(site.host), site.scheme, site.authority, agent.lower())
        if shell.store.get(Family.ROBOTS, key) is not None or robots == Robots():
            continue
        last_ms = max(robots.good_ms, *robots.failures_ms, 0)
        assert last_ms + KEPT_MS <= model.now_ms, f"robots.txt of {site} was forgotten too early"
        del model.robots[site, agent]
