"""An import whose sender is gone: a restart of the server cancels it, and nothing of it stays."""

from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.job import JobState

SETTINGS = CrawlSettings(allowed_addresses=("loopback",), scope=ScopeSettings(hosts=("alpha.example",)))


def test_an_import_that_a_restart_has_cut_off_is_cancelled_and_takes_nothing_in() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    number = shell.do(lambda core, now: core.administration.begin_import("crawl", False, now))
    rows = [ImportRow(candidate(f"http://alpha.example/{place}").record) for place in range(250)]
    shell.do(lambda core, now: core.administration.add_imports("crawl", number, rows, now))
    assert not shell.core.upkeep.has_work  # it waits for the rest
    shell.restart()
    shell.work()
    job = shell.core.administration.job("crawl", number)
    assert (job.state, job.total) == (JobState.CANCELLED.value, 250)
    assert shell.count("crawl", "queued_count") == 0
    assert not list(shell.store.scan(Family.IMPORTS, b"", b""))
