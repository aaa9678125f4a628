"""A node under the journal: what it has told the frontier of is in its archive after any power cut."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import grpc
from fastwarc.warc import ArchiveIterator, WarcRecordType
from faults.finite_site import FiniteSite
from faults.power.campaign import WAYS, Cut, Run, Tally, cuts, recover
from faults.power.judge import judge
from faults.power.ledger import Ledger, Notary
from faults.power.node_program import NONE, PROGRAM
from faults.power.records import Kind, Marks, Record, read
from faults.power.replay import Disk, Names
from frontier_harness.calls import Stubs, disposition_name, spec
from frontier_harness.process import ServerProcess, line_of
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually

from crawler_node.output import pages, warc
from crawler_node.output.repair import parts_of_lines, parts_of_records, repair
from toehold.frontier.v1 import admin_pb2, crawl_pb2

CRAWL = "t"
EMBEDDED = "crawl"
Missing = Callable[[Cut, Path, Tally], list[str]]
HOSTS, PAGES = 4, 15
REST_S = 0.02
FINISHED = crawl_pb2.CRAWL_STATE_FINISHED


@dataclass(slots=True)
class Node:
    """A node at work, with all that it stores below a directory."""

    child: subprocess.Popen[str]
    errors: Path
    service: str

    @property
    def said(self) -> str:
        """Its standard error."""
        return self.errors.read_text()

    def stop(self) -> int:
        """Have it drain; its exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(PATIENCE_S)


@contextmanager
def node(
    environment: dict[str, str], root: Path, frontier: str, site: FiniteSite, mutant: str = NONE
) -> Iterator[Node]:
    """One that writes WARC files and JSON Lines. Killed at the end, if it still runs."""
    flags = ("--name", "n", "--frontier", frontier, "--toes", "4", "--disk-reserve-mib", "0")
    where = ("--warc", str(root / "warcs"), "--pages", str(root / "pages"), *site.resolve)
    errors = root.with_name("node.stderr")
    with errors.open("a") as file:
        child = subprocess.Popen(
            [sys.executable, PROGRAM, mutant, *flags, *where],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    try:
        yield Node(child, errors, line_of(child).strip().rpartition(" ")[2])
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def embedded_command(directory: Path, urls: set[str]) -> list[str]:
    """`toehold crawl` of these pages, with all that it stores in a directory."""
    brisk = ("--min-delay", "0", "--delay-factor", "0", "--toes", "4", "--pages")
    return [sys.executable, "-m", "toehold_cli", "crawl", *sorted(urls), "--dir", str(directory), *brisk]


@contextmanager
def crawled(
    server: ServerProcess, site: FiniteSite, marks: Marks, crawls: Sequence[str] = (CRAWL,)
) -> Iterator[None]:
    """Crawls that share the pages of the site; what the frontier tells of them is noted."""
    urls = sorted(site.urls)
    with ExitStack() as following:
        for number, crawl in enumerate(crawls):
            retry = crawl_pb2.RetrySpec(max_attempts=20)
            asked = spec(REST_S, outcomes_kept=1_000_000, retry=retry)
            server.stubs.launch(crawl, *urls[number :: len(crawls)], of=asked)
            following.enter_context(followed(server.stubs, crawl, marks))
        yield


@contextmanager
def followed(stubs: Stubs, crawl: str, marks: Marks) -> Iterator[None]:
    """What a frontier tells of a crawl's pages is noted."""
    notary = Notary(marks)
    request = admin_pb2.StreamOutcomesRequest(crawl=crawl, cursor="start", follow=True)
    stream = stubs.admin.StreamOutcomes(request)

    def follow() -> None:
        try:
            for answer in stream:
                told = [
                    (each.uri, each.outcome_time.ToMilliseconds(), disposition_name(each.disposition))
                    for each in answer.outcomes
                ]
                notary.hears("outcomes", crawl=crawl, by="r", outcomes=told)
        except grpc.RpcError:
            return  # nobody listens any more

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        stream.cancel()
        follower.join(PATIENCE_S)


def _journaled(library: Path, root: Path, journal: Path, trouble: str = "") -> dict[str, str]:
    root.mkdir(parents=True)
    control = journal.with_name("trouble")
    control.write_text(trouble)
    return {
        "LD_PRELOAD": str(library),
        "POWER_ROOT": str(root),
        "POWER_JOURNAL": str(journal),
        "POWER_TROUBLE": str(control),
        "POWER_SYNC_MS": "4",
    }


def run_embedded(library: Path, directory: Path) -> Run:
    """A whole crawl by `toehold crawl`, with the directory that it makes."""
    root, journal = directory / "root", directory / "journal"
    environment = _journaled(library, root, journal)
    before, marks = Disk.of(root), Marks(journal)
    with FiniteSite(0, [f"/{number}" for number in range(PAGES)]) as site:
        site.gate.clear()
        urls = {site.url("127.0.0.1", path) for path in site.pages}
        child = subprocess.Popen(
            embedded_command(root / EMBEDDED, urls),
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        eventually(lambda: site.asked().total() > 1 or child.poll() is not None, "a request for a page")
        told = json.loads((root / EMBEDDED / "frontier.json").read_text())
        with (
            grpc.insecure_channel(told["address"]) as channel,
            followed(Stubs(channel), told["crawl"], marks),
        ):
            Notary(marks, first=1).asks(
                "seeds", lambda _: None, crawl=told["crawl"], uris=sorted(urls), again=False
            )
            site.gate.set()
            said, _ = child.communicate(timeout=WHOLE_CRAWL_S)
        assert child.returncode == 0, said
    marks.close()
    return Run(journal, before, Ledger())


def run(
    library: Path, directory: Path, mutant: str = NONE, trouble: str = "", crawls: int = 1, pages: int = PAGES
) -> Run:
    """Whole crawls by one node."""
    names = [CRAWL, *(f"{CRAWL}{number}" for number in range(1, crawls))]
    root, journal = directory / "root", directory / "journal"
    environment = _journaled(library, root, journal, trouble)
    before, marks = Disk.of(root), Marks(journal)
    with (
        FiniteSite(HOSTS, [f"/{number}" for number in range(pages)]) as site,
        ServerProcess(directory / "data") as server,
        crawled(server, site, marks, names),
        node(environment, root, server.address, site, mutant) as started,
    ):
        eventually(
            lambda: all(server.stubs.describe(name).status.state == FINISHED for name in names),
            "the end of the crawls",
            WHOLE_CRAWL_S,
        )
        assert started.stop() == 0, started.said
    marks.close()
    return Run(journal, before, Ledger())


def judged(
    of: Run, scratch: Path, count: int, seed: int, enough: int = 0, missing: Missing | None = None
) -> Tally:
    """Cut so often in each kind of names, repair as a node does that starts, and look for what was told."""
    missing = missing or _missing
    chance, tally = Random(seed), Tally()
    records = list(read(of.journal))
    for cut in cuts(of, _points(records, count, chance), records):
        for names in Names:
            left, each = chance.choice(WAYS), chance.randrange(1 << 32)
            recover(cut, names, left, each, scratch)
            where = (
                f"cut at {cut.position} of {len(records)}, {names.value}, {left and left.value}, seed {each}"
            )
            found = missing(cut, scratch, tally)
            tally.findings += [f"{where}: {text}" for text in found]
            shutil.rmtree(scratch)
        if enough and len(tally.findings) >= enough:
            break
    return tally


def _points(records: list[Record], count: int, chance: Random) -> list[int]:
    """Half of them right after something was told, the others anywhere."""
    told = [number + 1 for number, record in enumerate(records) if record.kind is Kind.MARK]
    found = [chance.choice(told) for _ in range(count // 2)]
    return sorted(found + [chance.randint(0, len(records)) for _ in range(count - len(found))])


def _missing(cut: Cut, root: Path, tally: Tally) -> list[str]:
    told = {uri for crawl in cut.ledger.crawls.values() for uri, _ in crawl.outcomes}
    told = {uri for uri in told if not uri.endswith("/robots.txt")}
    repair(root / "warcs", warc.SUFFIX, parts_of_records)
    repair(root / "pages", pages.SUFFIX, parts_of_lines)
    archived, listed = stored(root)
    lost = [f"{uri} is in no WARC file" for uri in sorted(told - archived)]
    lost += [f"{uri} is in no file of lines" for uri in sorted(told - listed)]
    wrong = [f"{path.name} is still open" for path in root.glob("*/*.open")]
    tally.cuts += 1
    tally.items += 2 * len(told)
    tally.lost += len(lost)
    tally.violated += len(wrong)
    return lost + wrong


def missing_embedded(cut: Cut, root: Path, tally: Tally) -> list[str]:
    """What is missing or wrong in the directory of `toehold crawl`."""
    directory = root / EMBEDDED
    if not cut.ledger.crawls:
        return []  # nobody was told anything
    found = judge(directory / "frontier", cut.ledger, checkpoint=False)
    tally.items += cut.ledger.items
    tally.lost += len(found.lost)
    tally.doubled += len(found.doubled)
    tally.violated += len(found.violated)
    wrong = []
    for name in ("crawl.json", "report.json"):
        try:
            json.loads((directory / name).read_bytes())
        except FileNotFoundError:
            wrong += [f"{name} is gone"] if name == "crawl.json" else []
        except ValueError as problem:
            wrong.append(f"{name}: {problem}")
    tally.violated += len(wrong)
    return [*_missing(cut, directory, tally), *found.all(), *wrong]


def stored(root: Path) -> tuple[set[str], set[str]]:
    """The pages of closed files, of both kinds; each file is read to its end, and each body is its page's."""
    archived: set[str] = set()
    for path in sorted((root / "warcs").glob(f"*{warc.SUFFIX}")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response, verify_digests=True):
                uri, body = record.headers["WARC-Target-URI"], record.reader.read()
                if uri.encode().rpartition(b"/")[2] in body:
                    archived.add(uri)
    lines = [
        line for path in (root / "pages").glob(f"*{pages.SUFFIX}") for line in path.read_text().splitlines()
    ]
    return archived, {json.loads(line)["url"] for line in lines}
