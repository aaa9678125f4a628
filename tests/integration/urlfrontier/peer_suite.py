"""`make urlfrontier-suite`: URLFrontier's own test suite and its Java client's commands, on a gateway.

    peer_suite.py URLFRONTIER_HOME

URLFRONTIER_HOME is a source tree of URLFrontier 2.6. A copy is built with Maven, offline if Maven has all
that it needs. Exit codes: 0 all passed; 1 something failed; 2 bad arguments.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from frontier_harness.gateway import GatewayProcess
from frontier_harness.process import ServerProcess

CASES = {"URLFrontierServiceTest": 5, "DumpURLsTest": 2}
MOST_S = 900
OFFLINE = "in offline mode"
URLS = ("http://a.example/1", "http://a.example/2", "http://b.example/")


def main() -> int:
    """The command line; the exit code."""
    home = Path(sys.argv[1]) if len(sys.argv) == 2 else None
    if home is None or not (home / "API/src/main/protobuf/urlfrontier.proto").is_file():
        print("URLFRONTIER_HOME must be a source tree of URLFrontier", file=sys.stderr)
        return 2
    missing = [program for program in ("mvn", "java", "git") if shutil.which(program) is None]
    if missing:
        print(f"{', '.join(missing)}: not on the PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="urlfrontier-suite-") as scratch:
        folder = Path(scratch)
        source = folder / "source"
        shutil.copytree(home, source, ignore=shutil.ignore_patterns(".git"))
        # The build puts hooks into the repository around it: this one, rather than the project's.
        subprocess.run(("git", "init", "--quiet", str(source)), check=True)
        with (
            ServerProcess(folder / "data") as server,
            GatewayProcess(server.address, folder / "gateway.stderr") as gateway,
        ):
            host, _, port = gateway.address.rpartition(":")
            failures = suite(source, host, port) + commands(source, host, port, folder)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def suite(source: Path, host: str, port: str) -> list[str]:
    """Run the JUnit suite; what failed."""
    where = (f"-Durlfrontier.host={host}", f"-Durlfrontier.port={port}")
    only = (f"-Dtest={','.join(CASES)}", "-Dsurefire.failIfNoSpecifiedTests=false")
    ended = maven(source, "-pl", "tests", "-am", "-Dmaven.test.skip=false", *where, *only, "test")
    failures = []
    for name, count in CASES.items():
        reports = list((source / "tests/target/surefire-reports").glob(f"TEST-*.{name}.xml"))
        if not reports:
            return [f"mvn test: {ended.stdout[-2000:]}"]
        (report,) = reports
        counts = dict(re.findall(r'(tests|errors|failures|skipped)="(\d+)"', report.read_text()))
        print(f"{name}: {counts.get('tests')} tests, {counts}")
        if counts != {"tests": str(count), "errors": "0", "failures": "0", "skipped": "0"}:
            failures.append(f"{name}: {counts}")
    if ended.returncode and not failures:
        failures.append(f"mvn test: {ended.stdout[-2000:]}")
    return failures


def commands(source: Path, host: str, port: str, folder: Path) -> list[str]:
    """Run the client's commands; those whose output is not as expected."""
    built = maven(source, "-pl", "client", "-am", "-Dmaven.test.skip=true", "package")
    jars = list((source / "client/target").glob("urlfrontier-client-*.jar"))
    if built.returncode or not jars:
        return [f"mvn package: {built.stdout[-2000:]}"]
    listing = folder / "urls.txt"
    listing.write_text("\n".join(URLS))
    failures = []
    for command, expected in (
        (f"PutURLs -f {listing}", r"Sent: 3\s+Acked: 3\s+OK: 3\s"),
        ("ListCrawls", r"^DEFAULT$"),
        ("ListQueues", r"a\.example\s+b\.example|b\.example\s+a\.example"),
        ("ListURLs", r"(?s)http://a\.example/1.*"),
        ("CountURLs", r"\b3 URLs"),
        ("GetStats", r"Active URLs: 3"),
        ("GetURLStatus -u http://b.example/ -k b.example", r"http://b\.example/"),
        ("ListNodes", re.escape(f"{host}:{port}")),
        ("GetActive", r"Active: true"),
        ("SetLogLevel -p crawlercommons -l INFO", r""),
        ("SetCrawlLimit -k a.example -l 100 -c DEFAULT", r""),
        ("GetURLs -k a.example -c DEFAULT -m 10 -d 60", r"(?s)a\.example/1.*a\.example/2"),
        ("DeleteQueue -k b.example -c DEFAULT", r"\b1\b"),
        ("PurgeURLs -c DEFAULT -d 1", r"\b0\b"),
        ("DeleteCrawl -c DEFAULT", r"\b2\b"),
    ):
        ended = subprocess.run(
            ("java", "-jar", str(jars[0]), "-t", host, "-p", port, *command.split()),
            capture_output=True,
            text=True,
            timeout=MOST_S,
            check=False,
        )
        holds = ended.returncode == 0 and re.search(expected, ended.stdout, re.MULTILINE) is not None
        print(f"{command.split()[0]}: {'as expected' if holds else 'not as expected'}")
        if not holds:
            failures.append(f"{command}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr[-500:]}")
    return failures


def maven(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Maven offline, or with the network if it lacks something."""
    for network in (("-o",), ()):
        ended = subprocess.run(
            ("mvn", "-B", "-q", *network, *arguments),
            cwd=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MOST_S,
            check=False,
        )
        if not (ended.returncode and OFFLINE in ended.stdout):
            break
    return ended


if __name__ == "__main__":
    sys.exit(main())
