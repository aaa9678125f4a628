"""Plays transcripts: what is asked of a frontier, and below `----` what it must answer.

A transcript is for somebody who knows crawling, not Python. `at` is seconds since the start.

    crawl    min-delay 3s, delay-factor 5        a crawl with these settings; further ones: `crawl NAME: …`
    launch   URI …                               adds seeds, launches, announces
    schedule URI[ via PATH] …                    offers candidates; PATH is the discovery path (`LR`)
    next     [N] [as NODE]                       asks for at most N leases
    finished URI STATUS [in 300ms] [retry-after 60s] [says LINE | LINE] [as NODE]
    released URI                                 hands a lease back unstarted
    alive    [as NODE]                           a heartbeat that names all leases of the node
    reborn   [as NODE]                           the node's next process shows itself
    wait                                         time has passed: what is due happens
    pause, resume, stop, restart, crash          `crash` loses the write of the command that follows
    events, counts, queues                       what is told
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import START_MS, Operation, Shell

from frontier_server.core.disposition import Disposition
from frontier_server.core.errors import FrontierError
from frontier_server.core.lifecycle import Input
from frontier_server.core.model import Report
from frontier_server.core.queue import QueueState
from frontier_server.core.settings import CrawlSettings

A = TypeVar("A")

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
STEP = re.compile(r"at +(?P<second>[\d.]+) +(?P<command>[a-z]+)(?: +(?P<rest>.*\S))? *$")
ANSWER = re.compile(r"---- +(.*\S) *$")
# The word in a transcript → the part of the settings, the field, and what its text means.
SETTINGS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "min-delay": ("politeness", "min_delay_ms", lambda text: milliseconds(text)),
    "max-delay": ("politeness", "max_delay_ms", lambda text: milliseconds(text)),
    "delay-factor": ("politeness", "delay_factor", float),
    "max-crawl-delay": ("politeness", "max_crawl_delay_ms", lambda text: milliseconds(text)),
    "overload-delay": ("politeness", "overload_delay_ms", lambda text: milliseconds(text)),
    "retry-delay": ("retry", "delay_ms", lambda text: milliseconds(text)),
    "retry-growth": ("retry", "growth", float),
    "attempts": ("retry", "max_attempts", int),
    "robots-delay": ("robots", "retry_delay_ms", lambda text: milliseconds(text)),
    "robots-attempts": ("robots", "max_attempts", int),
    "max-documents": ("limits", "max_documents", int),
}


def milliseconds(text: str) -> int:
    """`3s` or `250ms`."""
    number, unit = re.fullmatch(r"([\d.]+)(ms|s)", text).groups()  # type: ignore[union-attr]  # a typo fails
    return round(float(number) * (1000 if unit == "s" else 1))


def full(uri: str) -> str:
    """`a/page` → `http://a/page`."""
    return uri if "://" in uri else f"http://{uri}"


def short(uri: str) -> str:
    """And back."""
    return uri.removeprefix("http://")


class Player:
    """Runs commands on a frontier; each answers in words."""

    def __init__(self) -> None:
        self.shell = Shell()
        self.crawl = ""
        self.tokens: dict[tuple[str, str], bytes] = {}  # node and URI → their last lease
        self.held: dict[str, list[str]] = {}  # URIs leased to a node
        self.sessions: dict[str, int] = {}
        self.doomed = False

    def play(self, second: str, command: str, rest: str) -> str:
        """Run one command; its answer."""
        moment_ms = START_MS + milliseconds(f"{second}s")
        assert moment_ms >= self.shell.now_ms, "time does not go back"
        self.shell.now_ms = moment_ms
        node = "node"
        if match := re.search(r" *\bas (\w+)$", rest):
            node, rest = match[1], rest[: match.start()]
        try:
            answer: str = getattr(self, f"do_{command}")(rest, node)
        except FrontierError as refused:
            return f"refused: {refused.reason}"
        return answer

    def run(self, operation: Operation[A]) -> A:
        """Run an operation, or lose what it wrote."""
        if self.doomed:
            self.doomed = False
            return self.shell.lose(operation)
        return self.shell.do(operation)

    def at(self, moment_ms: int) -> str:
        """A moment in the words of a transcript."""
        return f"{(moment_ms - START_MS) / 1000:g}"

    def session(self, node: str) -> str:
        """The present session of a node."""
        return str(self.sessions.get(node, 1))

    def rests(self, host: str) -> str:
        """How long a host's queues rest, if they do."""
        snoozed = [
            queue
            for crawl in self.shell.frontier.crawls_after("", 10)
            for queue in self.shell.frontier.administration.queues(crawl.name, QueueState.SNOOZED, 100, b"")[0]
            if queue.host == host
        ]
        if not snoozed:
            return ""
        last = max(snoozed, key=lambda queue: queue.wake_ms)
        return f"; {host} rests until {self.at(last.wake_ms)} ({last.reason})"

    # Commands.

    def do_crawl(self, rest: str, node: str) -> str:
        """Create a crawl; further ones are given a name in front of a colon."""
        name, _, words = rest.rpartition(": ")
        settings = CrawlSettings(allowed_addresses=("loopback",))
        for setting in filter(None, re.split(r", *", words)):
            key, text = setting.split()
            part, field, meaning = SETTINGS[key]
            if part:
                changed = replace(getattr(settings, part), **{field: meaning(text)})
                settings = replace(settings, **{part: changed})
            else:
                settings = replace(settings, **{field: meaning(text)})
        self.crawl = name or "crawl"
        self.shell.create(self.crawl, settings)
        return self.shell.state(self.crawl).value

    def do_launch(self, rest: str, node: str) -> str:
        """Add seeds and launch."""
        self.shell.launch(self.crawl, *(full(uri) for uri in rest.split()))
        return self.shell.state(self.crawl).value

    def do_schedule(self, rest: str, node: str) -> str:
        """Offer candidates."""
        offers = []
        for match in re.finditer(r"(\S+)(?: via ([A-Z]+))?", rest):
            offers.append(candidate(full(match[1]), path=match[2] or "L"))
        verdicts = self.run(lambda frontier, now: frontier.schedule(self.crawl, offers, now))
        return " ".join(verdict.value for verdict in verdicts)

    def do_next(self, rest: str, node: str) -> str:
        """Ask for leases."""
        most, session = int(rest or 10), self.session(node)
        answer = self.run(lambda frontier, now: frontier.next(node, session, most, None, now))
        told = []
        for grant in answer.grants:
            self.tokens[node, short(grant.uri)] = grant.token
            self.held.setdefault(node, []).append(short(grant.uri))
            told.append(short(grant.uri) + (f" (try {grant.attempt})" if grant.attempt > 1 else ""))
        if answer.empty_reason is None:
            return ", ".join(told)
        due_ms = self.shell.frontier.statistics(self.crawl, self.shell.now_ms).next_due_ms
        until = "" if due_ms is None else f" until {self.at(due_ms)}"
        return answer.empty_reason.value + until

    def do_finished(self, rest: str, node: str) -> str:
        """Report a fetch."""
        rest, _, says = rest.partition(" says ")
        uri, status, *words = rest.split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        body = "User-agent: *\n" + says.replace(" | ", "\n") if says else ""
        report = Report(
            self.tokens[node, uri],
            fetch_status=int(status),
            duration_ms=milliseconds(options.pop("in", "100ms")),
            retry_after_ms=milliseconds(options.pop("retry-after", "0s")),
            robots_body=body.encode(),
        )
        assert not options, f"unknown: {options}"
        return self.report(report, uri, node)

    def do_released(self, rest: str, node: str) -> str:
        """Hand a lease back."""
        return self.report(Report(self.tokens[node, rest], released=True), rest, node)

    def report(self, report: Report, uri: str, node: str) -> str:
        """Report, and tell what it meant."""
        session = self.session(node)
        (result,) = self.run(lambda frontier, now: frontier.finished([report], node, session, now))
        if result.disposition in (Disposition.SUCCEEDED, Disposition.FAILED, Disposition.RELEASED):
            self.held[node] = [held for held in self.held[node] if held != uri]
        again = " again" if result.repeated else ""
        return result.disposition.value + again + self.rests(full(uri).split("/")[2].split(":")[0])

    def do_alive(self, rest: str, node: str) -> str:
        """A heartbeat."""
        names = {self.tokens[node, uri]: uri for uri in self.held.get(node, [])}
        session = self.session(node)
        answer = self.run(lambda frontier, now: frontier.heartbeat(node, session, list(names), [], now))
        told = [f"{names[token]} has ended" for token in answer.ended]
        told += [f"release {names[token]}" for token in answer.release]
        return ", ".join(told) or "go on"

    def do_reborn(self, rest: str, node: str) -> str:
        """A new process of a node."""
        lapsed = self.shell.count(self.crawl, "lapsed_count")
        self.sessions[node] = self.sessions.get(node, 1) + 1
        self.held[node] = []
        session = self.session(node)
        self.run(lambda frontier, now: frontier.heartbeat(node, session, [], [], now))
        return f"{self.shell.count(self.crawl, 'lapsed_count') - lapsed} lapsed"

    def do_wait(self, rest: str, node: str) -> str:
        """Let what is due happen."""
        lapsed = self.shell.count(self.crawl, "lapsed_count")
        self.run(lambda frontier, now: frontier.tick(now))
        return f"{self.shell.count(self.crawl, 'lapsed_count') - lapsed} lapsed"

    def steer(self, target: Input) -> str:
        """Ask a crawl to run, pause or stop."""
        self.run(lambda frontier, now: frontier.request_state(self.crawl, target, now))
        return self.shell.state(self.crawl).value

    def do_pause(self, rest: str, node: str) -> str:
        """Ask for a pause."""
        return self.steer(Input.PAUSE)

    def do_resume(self, rest: str, node: str) -> str:
        """Ask to go on."""
        return self.steer(Input.RESUME)

    def do_stop(self, rest: str, node: str) -> str:
        """Ask for the end."""
        return self.steer(Input.STOP)

    def do_restart(self, rest: str, node: str) -> str:
        """The server dies and comes back."""
        self.shell.restart()
        return self.shell.state(self.crawl).value

    def do_crash(self, rest: str, node: str) -> str:
        """The server will die in the next command, before its write."""
        self.doomed = True
        return "in the next command"

    def do_events(self, rest: str, node: str) -> str:
        """All events in order."""
        words = {"status_changed": "{state} {exit_status}", "seeds_concluded": "{queued_count} seeds queued"}
        words["limit_reached"] = "{limit} {value} reached"
        return ", ".join(words[row.kind].format(**row.fields) for row in self.shell.events(self.crawl))

    def do_counts(self, rest: str, node: str) -> str:
        """The figures that are not 0."""
        counts = self.shell.frontier.statistics(self.crawl, self.shell.now_ms).counts
        return ", ".join(f"{count} {name.removesuffix('_count')}" for name, count in counts.items() if count)

    def do_queues(self, rest: str, node: str) -> str:
        """The work queues by key."""
        queues, _ = self.shell.frontier.administration.queues(self.crawl, None, 100, b"")
        return ", ".join(
            f"{queue.key} {queue.state.value} {queue.queued}" for queue in sorted(queues, key=lambda q: q.key)
        )


def played(script: str) -> str:
    """A transcript with the answers that the frontier gives now."""
    player, lines = Player(), []
    for number, line in enumerate(script.splitlines(), 1):
        if match := STEP.match(line):
            answer = player.play(match["second"], match["command"], match["rest"] or "")
            lines += [line, f"----     {answer}"]
        elif not ANSWER.match(line):
            assert not line or line.startswith("#"), (
                f"line {number} is neither command, answer nor remark: {line}"
            )
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_frontier_answers_as_its_transcripts_say(transcript: Path) -> None:
    script = transcript.read_text()
    assert played(script) == script


def test_there_are_transcripts_and_each_step_has_an_answer() -> None:
    assert len(TRANSCRIPTS) >= 12
    for transcript in TRANSCRIPTS:
        steps = [line for line in transcript.read_text().splitlines() if line and not line.startswith("#")]
        assert all(STEP.match(line) for line in steps[::2]), transcript.name
        assert all(ANSWER.match(line) for line in steps[1::2]), transcript.name
