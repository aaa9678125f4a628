"""What a watcher makes of a crawl's events, one after the other: its present status."""

from collections import Counter
from dataclasses import dataclass, field

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.rows.records import EventRow
from frontier_server.core.state.life import LOG_AHEAD
from frontier_server.core.state.model import CrawlView

PAUSED = (CrawlState.PAUSING, CrawlState.PAUSED)
NOT_COUNTED = ("interval_ms", "queued_count")  # of statistics


@dataclass
class Watcher:
    """A crawl, as its events tell of it."""

    state: CrawlState = CrawlState.NASCENT
    exit_status: ExitStatus = ExitStatus.CREATED
    reason: str = ""
    held: bool = False
    tearing_down: bool = False
    torn_down: bool = False
    nodes: dict[str, str] = field(default_factory=dict)
    statistics: Counter[str] = field(default_factory=Counter)

    def hear(self, row: EventRow) -> None:
        """The next event. Raises AssertionError if it cannot follow those before."""
        assert not self.torn_down, f"{row.kind} after the last event of all"
        assert not self.held or row.kind in ("operator_acted", "released"), f"{row.kind} while it is held"
        told = row.fields
        match row.kind:
            case "status_changed":
                self._changed(CrawlState(told["state"]), ExitStatus(told["exit_status"]))
                self.reason = str(told.get("reason", ""))
                self.tearing_down |= bool(told.get("tearing_down"))
            case "operator_acted":
                self.tearing_down |= told["action"] == "teardown"
            case "problem" if told["kind"] == LOG_AHEAD and self.state in PAUSED:
                self.reason = str(told["detail"])  # it stays paused, and for this from now on
            case "held":
                assert self.state is CrawlState.PAUSED
                self.held = True
            case "released":
                assert self.held, "released without being held"
                self.held = False
            case "node_joined":
                assert told["node"] not in self.nodes, f"{told['node']} joined twice"
                self.nodes[str(told["node"])] = str(told["session"])
            case "node_left":
                assert self.nodes.pop(str(told["node"])) == told["session"], f"{told['node']} left"
            case "statistics":
                self.statistics.update(
                    {name: count for name, count in told.items() if name not in NOT_COUNTED}
                )
            case "torn_down":
                assert self.tearing_down and self.state is CrawlState.FINISHED
                self.torn_down = True

    def _changed(self, state: CrawlState, exit_status: ExitStatus) -> None:
        if self.state is CrawlState.FINISHED:  # only a crawl that is reopened goes on
            assert state is CrawlState.PAUSED, f"{state.value} after the end"
        if self.state is CrawlState.STOPPING:
            told = state, exit_status
            assert told == (CrawlState.FINISHED, self.exit_status), f"{told} after {self.exit_status}"
        self.state, self.exit_status = state, exit_status
        if state is CrawlState.FINISHED:
            self.nodes.clear()

    def check(self, view: CrawlView, nodes: dict[str, str]) -> None:
        """Whether the crawl is what its events say, and can be."""
        told = (self.state, self.exit_status, self.reason, self.held, self.tearing_down, self.torn_down)
        its = (view.state, view.exit_status, view.reason, view.held, view.tearing_down, view.torn_down)
        assert told == its, f"events say {told}, not {its}"
        assert list(self.nodes.items()) == list(nodes.items()), "nodes that fetch"
