"""Plays transcripts: what is asked of a frontier, and below `----` what it must answer.

A transcript is for somebody who knows crawling, not Python. `at` is seconds since the start. What runs by
itself (jobs: the announcement of seeds, deletions, …) has run when the next command comes; the timer is
only looked at where `wait` says so.

    crawl    min-delay 3s, delay-factor 5  a crawl with these settings; further ones: `crawl NAME: …`
    launch   URI …                         adds seeds, launches, announces
    seeds    URI …                         adds seeds to a crawl that was launched
    schedule URI[ via PATH][ cost 5] …     offers candidates; PATH is the discovery path (`LR`). More words:
                                           on PAGE, precedence N, urgent high, from SEED, after SECOND (not
                                           earlier), again SECOND (if it was last fetched before)
    robots                                 each robots.txt that can be fetched is, and forbids nothing (404)
    next     [N] [as NODE]                 asks for at most N leases
    finished URI STATUS [in 300ms] [as NODE] [says LINE | LINE]
                                           more words: bytes, retry-after, etag, modified, digest, address,
                                           revisit SECOND, retire queue
    released URI [retire queue]            hands a lease back unstarted
    alive    [as NODE]                     a heartbeat that names all leases of the node
    reborn   [as NODE]                     the node's next process shows itself
    wait                                   time has passed: what is due happens
    pause, resume, stop, restart, crash    `crash` loses the write of the command that follows
    override PREFIX: min-delay 9s, …       settings for a part of the web; `override PREFIX: none` ends it
    queue    KEY[ CHANGE]                  one queue; CHANGE: pause, resume, retire, unretire, wake,
                                           precedence N, session-budget N, total-budget N
    job      KIND [QUEUE-PATTERN [URI-PATTERN]] [dry-run]
                                           retire-queues, unretire-queues, wake-queues, delete-uris, verify
    note, forget URI …                     the seen-set by hand
    explain  [URI | queue KEY]             why something is not fetched now
    uri      URI                           all that is known of it
    events [N], log [N], counts, queues    what is told; N: only the last ones

`of NAME` behind a command means another crawl than the one created last.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from core_doubles.codec import candidate, override_of
from core_doubles.shell import START_MS, Operation, Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, GroupSettings, RetryRule
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, Directive, QueueView, Report
from frontier_server.core.state.queue import ACTIVE, QueueState

A = TypeVar("A")

STEP = re.compile(r"at +(?P<second>[\d.]+) +(?P<command>[a-z]+)(?: +(?P<rest>.*\S))? *$")
ANSWER = re.compile(r"---- +(.*\S) *$")
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    """`250ms`, `3s`, `15m`, `6h` or `7d`."""
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|m|h|d)", text).groups()  # type: ignore[union-attr]  # a typo fails
    return round(float(number) * UNITS[unit])


def names(text: str) -> tuple[str, ...]:
    """Several, with blanks between."""
    return tuple(text.split())


def numbers(text: str) -> tuple[int, ...]:
    """Several numbers."""
    return tuple(map(int, text.split()))


def host_group(text: str) -> tuple[GroupSettings, ...]:
    """`NAME HOST … [parallel N] [gap 5s]`."""
    name, *words = text.split()
    gap = milliseconds(words.pop(words.index("gap") + 1)) if "gap" in words else 0
    parallel = int(words.pop(words.index("parallel") + 1)) if "parallel" in words else 1
    hosts = tuple(word for word in words if word not in ("gap", "parallel"))
    return (GroupSettings(name, hosts, parallel, gap),)


def retry_rule(text: str) -> tuple[RetryRule, ...]:
    """`STATUS attempts N delay 5s`."""
    status, *words = text.split()
    said = dict(zip(words[::2], words[1::2], strict=True))
    return (RetryRule(int(status), int(said["attempts"]), milliseconds(said["delay"])),)


# The word in a transcript → the field of the settings, and what its text means.
SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "hosts": ("scope.hosts", names),
    "max-link-hops": ("scope.max_link_hops", int),
    "surt-prefixes": ("scope.surt_prefixes", names),
    "reject": ("scope.reject_patterns", names),
    "schemes": ("scope.schemes", names),
    "same-if": ("identity.rules", names),
    "min-delay": ("politeness.min_delay_ms", milliseconds),
    "max-delay": ("politeness.max_delay_ms", milliseconds),
    "delay-factor": ("politeness.delay_factor", float),
    "max-crawl-delay": ("politeness.max_crawl_delay_ms", milliseconds),
    "overload-delay": ("politeness.overload_delay_ms", milliseconds),
    "max-parallel": ("politeness.max_parallel", int),
    "across-crawls": ("politeness.across_crawls", lambda text: text == "yes"),
    "retry-delay": ("retry.delay_ms", milliseconds),
    "retry-growth": ("retry.growth", float),
    "attempts": ("retry.max_attempts", int),
    "retry-of": ("retry.statuses", retry_rule),
    "robots-delay": ("robots.retry_delay_ms", milliseconds),
    "robots-attempts": ("robots.max_attempts", int),
    "partition": ("queues.partition", str),
    "assignment": ("queues.assignment", str),
    "parallel-queues": ("queues.parallel_queues", int),
    "queue-key": ("queues.queue_key", str),
    "retire-queues": ("queues.retire", lambda text: text == "yes"),
    "cost": ("queues.cost", str),
    "uri-precedence": ("queues.uri_precedence", str),
    "queue-precedence": ("queues.queue_precedence", str),
    "base-precedence": ("queues.base_precedence", int),
    "success-thresholds": ("queues.success_thresholds", numbers),
    "precedence-floor": ("queues.precedence_floor", int),
    "session-budget": ("queues.session_budget", int),
    "total-budget": ("queues.total_budget", int),
    "error-penalty": ("queues.error_penalty", int),
    "max-documents": ("limits.max_documents", int),
    "max-bytes": ("limits.max_bytes", int),
    "max-elapsed": ("limits.max_elapsed_ms", milliseconds),
    "host-successes": ("limits.host_quota.max_successes", int),
    "host-bytes": ("limits.host_quota.max_response_bytes", int),
    "source-successes": ("limits.source_quota.max_successes", int),
    "over-quota": ("limits.fail_over_quota", lambda text: text == "fails"),
    "revisit": ("revisit.policy", str),
    "revisit-interval": ("revisit.interval_ms", milliseconds),
    "revisit-min": ("revisit.min_interval_ms", milliseconds),
    "revisit-max": ("revisit.max_interval_ms", milliseconds),
    "revisit-growth": ("revisit.growth", float),
    "revisit-shrink": ("revisit.shrink", float),
    "rounds": ("reseed.max_rounds", int),
    "round-interval": ("reseed.min_interval_ms", milliseconds),
    "group": ("groups", host_group),
    "address-parallel": ("address_group.max_parallel", int),
    "address-gap": ("address_group.min_gap_ms", milliseconds),
    "run-while-empty": ("run_while_empty", lambda text: text == "yes"),
    "pause-with-uris-left": ("pause_with_uris_left", lambda text: text == "yes"),
    "weight": ("weight", int),
}
CHANGES: dict[str, QueueChange] = {
    "pause": QueueChange(paused=True),
    "resume": QueueChange(paused=False),
    "retire": QueueChange(retired=True),
    "unretire": QueueChange(retired=False),
    "wake": QueueChange(wake=True),
}
AMOUNTS: dict[str, Callable[[int], QueueChange]] = {
    "precedence": lambda amount: QueueChange(precedence=amount),
    "session-budget": lambda amount: QueueChange(session_budget=amount),
    "total-budget": lambda amount: QueueChange(total_budget=amount),
}
EVENTS = {
    "status_changed": "{state} {exit_status}",
    "seeds_concluded": "{queued_count} seeds queued",
    "limit_reached": "{limit} {value} reached with {reached}, {leased_count} leased",
    "round_begun": "round {round} begins",
    "uris_left": "{retired_count} URIs left in retired queues and {ineligible_count} in ineligible ones",
    "job_ended": "job {job} ({kind}) {outcome}",
    "problem": "problem {kind}: {detail}",
    "held": "held",
    "released": "released",
    "flights_cancelled": "{leased_count} leases cancelled by {bound}",
    "torn_down": "torn down",
}
# What every crawl has, and `events` leaves out.
COMMON_EVENTS = ("statistics", "node_joined", "node_left")


def full(uri: str) -> str:
    """`a/page` → `http://a/page`."""
    return uri if "://" in uri else f"http://{uri}"


def short(uri: str) -> str:
    """And back."""
    return uri.removeprefix("http://")


def settings_in(words: str) -> list[tuple[str, Any]]:
    """The fields and values of `min-delay 3s, attempts 4`."""
    found = []
    for setting in filter(None, re.split(r", +", words)):
        key, text = setting.split(" ", 1)
        path, meaning = SETTINGS[key]
        found.append((path, meaning(text)))
    return found


def changed(settings: Any, path: str, value: Any) -> Any:
    """Settings with one field changed; each `group` and `retry-of` is one more."""
    name, _, rest = path.partition(".")
    before = getattr(settings, name)
    if rest:
        value = changed(before, rest, value)
    elif name in ("groups", "statuses"):
        value = before + value
    assert is_dataclass(settings) and name in {field.name for field in fields(settings)}
    return replace(settings, **{name: value})  # type: ignore[type-var]  # it is one of the settings


class Player:
    """Runs commands on a frontier; each answers in words."""

    def __init__(self) -> None:
        self.shell = Shell()
        self.crawl = ""
        self.crawls: list[str] = []
        self.tokens: dict[tuple[str, str], bytes] = {}  # node and URI → their last lease
        self.held: dict[str, list[str]] = {}  # URIs leased to a node
        self.sessions: dict[str, int] = {}
        self.doomed = False

    def play(self, second: str, command: str, rest: str) -> str:
        """Run one command; its answer."""
        moment_ms = START_MS + milliseconds(f"{second}s")
        assert moment_ms >= self.shell.now_ms, "time does not go back"
        self.shell.now_ms = moment_ms
        if not self.doomed:
            self.shell.work()
        node, crawl = "node", ""
        if match := re.search(r"(?:^| +)as (\w+)$", rest):
            node, rest = match[1], rest[: match.start()]
        if match := re.search(r"(?:^| +)of (\w+)$", rest):
            crawl, rest = match[1], rest[: match.start()]
        before = self.crawl
        self.crawl = crawl or before
        try:
            answer: str = getattr(self, f"do_{command}")(rest, node)
        except FrontierError as refused:
            answer = f"refused: {refused.reason}"
        if crawl:
            self.crawl = before
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

    def moment(self, second: str) -> int:
        """And back."""
        return START_MS + milliseconds(f"{second}s")

    def session(self, node: str) -> str:
        """The present session of a node."""
        return str(self.sessions.get(node, 1))

    def rests(self, host: str) -> str:
        """How long a host's queues rest, if they do."""
        snoozed = [
            queue
            for crawl in self.shell.core.views.crawls_after("", 10)
            for queue in self.shell.core.administration.queues(crawl.name, QueueState.SNOOZED, 100, b"")[0]
            if queue.host == host
        ]
        if not snoozed:
            return ""
        last = max(snoozed, key=lambda queue: queue.wake_ms)
        return f"; {host} rests until {self.at(last.wake_ms)} ({last.reason})"

    # Crawls.

    def do_crawl(self, rest: str, node: str) -> str:
        """Create a crawl; further ones are given a name in front of a colon."""
        name, _, words = rest.rpartition(": ")
        settings = CrawlSettings(allowed_addresses=("loopback",))
        for path, value in settings_in(words):
            settings = changed(settings, path, value)
        self.crawl = name or "crawl"
        self.crawls.append(self.crawl)
        self.shell.create(self.crawl, settings)
        return self.shell.state(self.crawl).value

    def do_launch(self, rest: str, node: str) -> str:
        """Add seeds and launch."""
        self.shell.launch(self.crawl, *(full(uri) for uri in rest.split()))
        return self.shell.state(self.crawl).value

    def do_seeds(self, rest: str, node: str) -> str:
        """Add seeds while it runs."""
        seeds = [full(uri) for uri in rest.split()]
        self.run(lambda core, now: core.control.add_seeds(self.crawl, seeds, now))
        return self.shell.state(self.crawl).value

    def steer(self, target: Input) -> str:
        """Ask a crawl to run, pause or stop."""
        self.run(lambda core, now: core.control.request_state(self.crawl, target, now))
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

    def do_override(self, rest: str, node: str) -> str:
        """Put or delete an override."""
        prefix, _, words = rest.partition(": ")
        if words == "none":
            self.run(lambda core, now: core.administration.delete_override(self.crawl, prefix, now))
            return "none"
        parts: dict[str, dict[str, Any]] = {}
        for path, value in settings_in(words):
            part, field = path.split(".")
            parts.setdefault(part, {})[field] = value
        override = override_of(**parts)
        return self.run(lambda core, now: core.administration.put_override(self.crawl, prefix, override, now))

    # What nodes and feeders do.

    def do_schedule(self, rest: str, node: str) -> str:
        """Offer candidates."""
        offers: list[Candidate] = []
        uri, said = "", dict[str, str]()
        words = rest.split()
        while words:
            word = words.pop(0)
            if word in ("via", "cost", "on", "precedence", "urgent", "from", "after", "again"):
                said[word] = words.pop(0)
                continue
            if uri:
                offers.append(self.offer(uri, said))
            uri, said = word, {}
        offers.append(self.offer(uri, said))
        verdicts = self.run(lambda core, now: core.frontier.schedule(self.crawl, offers, now))
        return " ".join(verdict.value for verdict in verdicts)

    def offer(self, uri: str, said: dict[str, str]) -> Candidate:
        """A candidate with what is said of it."""
        return candidate(
            full(uri),
            path=said.get("via", "L"),
            via=full(said["on"]) if "on" in said else "",
            cost=int(said["cost"]) if "cost" in said else None,
            precedence=int(said["precedence"]) if "precedence" in said else None,
            directive=Directive[said.get("urgent", "normal").upper()],
            source=full(said["from"]) if "from" in said else "",
            not_before_ms=self.moment(said["after"]) if "after" in said else 0,
            refetch_before_ms=self.moment(said["again"]) if "again" in said else None,
        )

    def do_robots(self, rest: str, node: str) -> str:
        """Fetch all robots.txt that are in the way."""
        grants = self.shell.grants(self.crawl, node=node)
        assert all(grant.robots for grant in grants), "something else can be fetched already"
        self.shell.finish(*(Report(grant.token, fetch_status=404) for grant in grants), node=node)
        return ", ".join(short(grant.uri) for grant in grants)

    def do_next(self, rest: str, node: str) -> str:
        """Ask for leases."""
        most, session = int(rest or 10), self.session(node)
        answer = self.run(lambda core, now: core.frontier.next(node, session, Want(most), None, now))
        told = []
        for grant in answer.grants:
            uri = short(grant.uri)
            self.tokens[node, uri] = grant.token
            self.held.setdefault(node, []).append(uri)
            words = [f"try {grant.attempt}"] if grant.attempt > 1 else []
            words += [f"etag {grant.etag}"] if grant.etag else []
            words += [f"modified {grant.last_modified}"] if grant.last_modified else []
            crawl = f"{grant.crawl}: " if len(self.crawls) > 1 else ""
            told.append(crawl + uri + (f" ({', '.join(words)})" if words else ""))
        if answer.empty_reason is None:
            return ", ".join(told)
        due_ms = self.shell.core.views.statistics(self.crawl, self.shell.now_ms).next_due_ms
        until = "" if due_ms is None else f" until {self.at(due_ms)}"
        return answer.empty_reason.value + until

    def do_finished(self, rest: str, node: str) -> str:
        """Report a fetch."""
        rest, _, says = rest.partition(" says ")
        uri, status, *words = rest.split()
        said = dict(zip(words[::2], words[1::2], strict=True))
        body = "User-agent: *\n" + says.replace(" | ", "\n") if says else ""
        report = Report(
            self.tokens[node, uri],
            fetch_status=int(status),
            duration_ms=milliseconds(said.pop("in", "100ms")),
            retry_after_ms=milliseconds(said.pop("retry-after", "0s")),
            robots_body=body.encode(),
            body_bytes=int(said.pop("bytes", "0")),
            etag=said.pop("etag", ""),
            last_modified=said.pop("modified", ""),
            digest=said.pop("digest", ""),
            peer_address=said.pop("address", ""),
            revisit_ms=self.moment(said.pop("revisit")) if "revisit" in said else 0,
            retire_queue=said.pop("retire", "") == "queue",
        )
        assert not said, f"unknown: {said}"
        return self.report(report, uri, node)

    def do_released(self, rest: str, node: str) -> str:
        """Hand a lease back."""
        uri, _, words = rest.partition(" ")
        assert words in ("", "retire queue"), words
        return self.report(Report(self.tokens[node, uri], released=True, retire_queue=bool(words)), uri, node)

    def report(self, report: Report, uri: str, node: str) -> str:
        """Report, and tell what it meant."""
        session = self.session(node)
        (result,) = self.run(lambda core, now: core.frontier.finished([report], node, session, now))
        if result.disposition in (
            Disposition.SUCCEEDED,
            Disposition.FAILED,
            Disposition.DISREGARDED,
            Disposition.RELEASED,
        ):
            self.held[node] = [held for held in self.held[node] if held != uri]
        again = " again" if result.repeated else ""
        return result.disposition.value + again + self.rests(full(uri).split("/")[2].split(":")[0])

    def do_alive(self, rest: str, node: str) -> str:
        """A heartbeat."""
        named = {self.tokens[node, uri]: uri for uri in self.held.get(node, [])}
        session = self.session(node)
        answer = self.run(lambda core, now: core.frontier.heartbeat(node, session, list(named), [], now))
        told = [f"{named[token]} has ended" for token in answer.ended]
        told += [f"release {named[token]}" for token in answer.release]
        return ", ".join(told) or "go on"

    def lapsed(self) -> int:
        """How many leases have lapsed, of all crawls."""
        return sum(self.shell.count(crawl, "lapsed_count") for crawl in self.crawls)

    def do_reborn(self, rest: str, node: str) -> str:
        """A new process of a node."""
        lapsed = self.lapsed()
        self.sessions[node] = self.sessions.get(node, 1) + 1
        self.held[node] = []
        session = self.session(node)
        self.run(lambda core, now: core.frontier.heartbeat(node, session, [], [], now))
        return f"{self.lapsed() - lapsed} lapsed"

    def do_wait(self, rest: str, node: str) -> str:
        """Let what is due happen."""
        lapsed = self.lapsed()
        self.run(lambda core, now: core.upkeep.tick(now))
        return f"{self.lapsed() - lapsed} lapsed"

    def do_restart(self, rest: str, node: str) -> str:
        """The server dies and comes back."""
        self.shell.restart()
        return self.shell.state(self.crawl).value

    def do_crash(self, rest: str, node: str) -> str:
        """The server will die in the next command, before its write."""
        self.doomed = True
        return "in the next command"

    # What operators do.

    def do_queue(self, rest: str, node: str) -> str:
        """Look at a queue, or change it."""
        key, *words = rest.split()
        administration = self.shell.core.administration
        if words:
            asked = AMOUNTS[words[0]](int(words[1])) if len(words) > 1 else CHANGES[words[0]]
            views = self.run(lambda core, now: core.administration.change_queue(self.crawl, key, asked, now))
        else:
            views = administration.queue(self.crawl, key)
        return ", ".join(map(self.described, views))

    def described(self, queue: QueueView) -> str:
        """A queue in words."""
        told = f"{queue.state.value} {queue.queued}, precedence {queue.precedence}, {queue.expenditure} spent"
        if queue.state in ACTIVE and queue.session_budget > 0:
            told += f", {queue.session_spent} of {queue.session_budget} in this session"
        if queue.total_budget >= 0:
            told += f", of {queue.total_budget} in all"
        if queue.wake_ms:
            told += f", until {self.at(queue.wake_ms)}"
        return told + (f" ({queue.reason})" if queue.reason else "")

    def do_job(self, rest: str, node: str) -> str:
        """Run a job to its end."""
        kind, *words = rest.split()
        flags = {word: "true" for word in ("dry_run", "repair") if word.replace("_", "-") in words}
        patterns = [word for word in words if word.replace("-", "_") not in flags]
        parameters = dict(zip(("queue_pattern", "uri_pattern"), patterns, strict=False)) | flags
        view = self.run(
            lambda core, now: core.administration.start_job(self.crawl, JobKind(kind), parameters, now)
        )
        self.shell.work()
        view = self.shell.core.administration.job(self.crawl, view.number)
        findings = f": {', '.join(map(short, view.findings))}" if view.findings else ""
        return f"{view.state}, {view.changed} of {view.done}{findings}"

    def do_note(self, rest: str, node: str) -> str:
        """Note URIs as seen."""
        uris = [full(uri) for uri in rest.split()]
        new = self.run(lambda core, now: core.administration.record_seen(self.crawl, uris, now))
        return f"{new} new"

    def do_forget(self, rest: str, node: str) -> str:
        """Forget that URIs were seen."""
        uris = [full(uri) for uri in rest.split()]
        gone = self.run(lambda core, now: core.administration.forget_seen(self.crawl, uris, now))
        return f"{gone} forgotten"

    def do_explain(self, rest: str, node: str) -> str:
        """Why something is not fetched now."""
        queue, uri = "", ""
        if rest.startswith("queue "):
            queue = rest.removeprefix("queue ")
        elif rest:
            uri = full(rest)
        reasons = self.shell.core.administration.explain(self.crawl, queue, uri, self.shell.now_ms)
        told = []
        for reason in reasons:
            until = f" until {self.at(reason.until_ms)}" if reason.until_ms else ""
            told.append(f"{reason.why.value}{until}: {reason.message}")
        return "; ".join(told)

    def do_uri(self, rest: str, node: str) -> str:
        """All that is known of a URI."""
        story = self.shell.core.administration.story(self.crawl, full(rest), self.shell.now_ms)
        told = [f"{story.state.value} in {story.queue_key}"]
        if story.finish_ms:
            told.append(f"{story.disposition} {story.fetch_status} at {self.at(story.finish_ms)}")
        if story.visits:
            told.append(f"{story.visits} visits")
        if story.etag:
            told.append(f"etag {story.etag}")
        if story.due_ms:
            told.append(f"due at {self.at(story.due_ms)}")
        if story.waiting is not None:
            told.append(f"{story.waiting.attempts} tries, cost {story.waiting.cost}")
        return ", ".join(told)

    # What is told.

    def do_events(self, rest: str, node: str) -> str:
        """All events in order, or the last ones."""
        rows = [row for row in self.shell.events(self.crawl) if row.kind not in COMMON_EVENTS]
        told = [EVENTS[row.kind].format(**row.fields) for row in rows]
        return ", ".join(told[-int(rest) :] if rest else told)

    def do_log(self, rest: str, node: str) -> str:
        """What the crawl log says: all final dispositions, or the last ones."""
        told = [
            " ".join((short(row.uri), str(row.fetch_status), row.disposition, *row.annotations))
            for row in self.shell.outcomes(self.crawl)
            if not row.path.endswith("P")
        ]
        return ", ".join(told[-int(rest) :] if rest else told) or "nothing"

    def do_counts(self, rest: str, node: str) -> str:
        """The statistics that are not 0."""
        counts = self.shell.core.views.statistics(self.crawl, self.shell.now_ms).counts
        return ", ".join(f"{count} {name.removesuffix('_count')}" for name, count in counts.items() if count)

    def do_queues(self, rest: str, node: str) -> str:
        """The work queues by key."""
        queues, _ = self.shell.core.administration.queues(self.crawl, None, 100, b"")
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
