"""Crawls that are torn down, or were."""

from core_doubles.codec import candidate, override_of
from core_doubles.lives import NAME, SEEDS, advance, fetching, report
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.state.model import CrawlView

S = CrawlState
MOST_STEPS = 100


def tear_down(shell: Shell, by: str = "") -> tuple[CrawlView, bool]:
    """Ask for it; where the crawl is then, and whether this began it."""
    return shell.do(lambda core, now: core.control.tear_down(NAME, now, by))


def told(shell: Shell) -> list[str]:
    """All events: states by name, others by kind."""
    return [str(row.fields.get("state", row.kind)) for row in shell.events(NAME)]


def is_gone(shell: Shell) -> bool:
    """Whether the crawl has left memory, and said so last."""
    if not shell.core.views.crawl(NAME).torn_down:
        return False
    assert told(shell).count("torn_down") == 1 and told(shell)[-1] == "torn_down"
    assert NAME not in shell.core.shard.registry.names and not shell.core.upkeep.has_work
    return True


def let_end(shell: Shell) -> None:
    """Let everything happen that nobody has to ask for."""
    for _ in range(MOST_STEPS):
        shell.work()
        shell.log()
        if is_gone(shell):
            return
        if shell.core.upkeep.next_due_ms() is not None:
            advance(shell)
    raise AssertionError(f"{shell.core.views.crawl(NAME)} after {told(shell)}")


def lived() -> Shell:
    """A crawl with all that may be stored of one."""
    shell, grants = fetching(most=2)
    shell.finish(report(grants[0]), report(grants[1], -4))
    override = override_of(queues={"error_penalty": 7})
    shell.do(lambda core, now: core.administration.put_override(NAME, SEEDS[0], override, now))
    shell.schedule(NAME, candidate(f"{SEEDS[0]}later", not_before_ms=shell.now_ms + 1_000_000))
    shell.work()
    return shell


def gone() -> Shell:
    """One that was torn down."""
    shell = lived()
    tear_down(shell)
    let_end(shell)
    return shell
