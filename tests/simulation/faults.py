"""What goes wrong, as a plan says."""

import copy
from random import Random

from core_doubles.shell import SECRET
from simulation.calls import Call
from simulation.entry import Entry
from simulation.loop import Loop
from simulation.network import Network
from simulation.node import Node
from simulation.plan import Event, NodePlan, Plan
from simulation.server import Server
from simulation.store import copied
from simulation.world import World

from frontier_server.core.rows import keys

DAY_MS = 86_400_000
SAID_SINCE = 4


class Faults:
    """Deaths, silences, absences, and messages out of their time."""

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        network: Network,
        server: Server,
        world: World,
        nodes: list[Node],
        plan: Plan,
        heartbeat_ms: int,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.network = network
        self.server = server
        self.world = world
        self.nodes = nodes
        self.heartbeat_ms = heartbeat_ms
        self.happened = 0
        self.said_before: dict[tuple[int, int], Call] = {}  # the store was put back, by leases
        for fault in plan.faults:
            loop.after(fault.at_ms, self._happens, fault)

    def _happens(self, fault: Event) -> None:
        self.happened += 1
        server, picks = self.server, fault.picks
        node = self.nodes[picks[0] % len(self.nodes)]
        length_ms = (200, 2_000, 25_000, 90_000, 200_000)[picks[1] % 5]
        match fault.kind:
            case "crash":
                server.crash((100, 3_000, 70_000)[picks[1] % 3], picks[2] % 3 == 0)
            case "restart":
                server.restart((100, 3_000, 70_000)[picks[1] % 3])
            case "away":
                server.crash((3_600_000, DAY_MS, 3 * DAY_MS)[picks[1] % 3])
            case "stop-server":
                server.stop(length_ms)
            case "node-dies":
                node.die(length_ms)
            case "node-hangs":
                node.hang(length_ms)
            case "twin":  # a process that hangs, and another that has its name meanwhile
                self._twin(node, length_ms)
            case "replay":
                self.network.replay(picks[0])
            case "backup":
                self._backup(length_ms)
            case "node-trouble":
                node.trouble = "its disk is nearly full"
                self.loop.after(length_ms, self._well, node)
            case _:
                server.receive(Call("trouble", "", (("disk-reserve", "the disk is nearly full"),)), _ignored)
                self.loop.after(length_ms, server.receive, Call("trouble", "", (None,)), _ignored)

    def _twin(self, node: Node, length_ms: int) -> None:
        twin = Node(self.loop, self.network, self.world, NodePlan(node.name, 1, 1_000), self.heartbeat_ms)
        twin.sessions = 100 * len(self.nodes)
        self.nodes.append(twin)
        node.hang(length_ms)

    def _well(self, node: Node) -> None:
        node.trouble = ""

    def _backup(self, length_ms: int) -> None:
        """A copy of the store is made, and later put in its place: what was acknowledged since is gone."""
        name = f"backup{self.happened}"
        if self.server.checkpoint(name):
            self.network.recorded.clear()
            self.loop.after(200, self._put_back, name, self.loop.now_ms + min(length_ms, 30_000))

    def _put_back(self, name: str, latest_ms: int) -> None:
        """Once enough has been said since, or late."""
        server = self.server
        if not server.up:
            return
        said = [call for call in self.network.recorded if call.kind == "finished"]
        if len(said) < SAID_SINCE and self.loop.now_ms < latest_ms:
            self.loop.after(200, self._put_back, name, latest_ms)
            return
        server.crash(2_000)
        ledger = copy.deepcopy(server.ledger.copies[name])
        ledger.copies = server.ledger.copies
        ledger.set_back = True
        for book in ledger.books.values():
            book.set_back = True
        server.put_back(copied(server.checkpoints[name]), ledger)
        self.said_before.update(
            {_serial(report.token): call for call in said for report in call.said[1] if not report.released}
        )

    def told(self, entry: Entry) -> None:
        """When the number of a lease is given a second time, what was said of the first one comes again."""
        if self.said_before and entry.call.kind == "next" and not entry.refused:
            for grant in entry.answer.grants:
                call = self.said_before.get(_serial(grant.token))
                if call is not None:
                    self.loop.after(30, self.server.receive, call, _ignored)

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self.revive()
        self.network.calm()

    def revive(self) -> None:
        """Let each name have a process: one may have ended for a request of a dead one that came late."""
        present = {node.name for node in self.nodes if node.up}
        for node in self.nodes:
            node.trouble = ""
            if node.name not in present:
                present.add(node.name)
                node.start()


def _serial(token: bytes) -> tuple[int, int]:
    said = keys.decode_token(token, SECRET)
    assert said is not None
    return said.crawl, said.serial


def _ignored(answer: object) -> None:
    """Nobody waits for it."""
