"""Commands with --dir, of a crawl that is not running: they ask about everything, and change nothing."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontier_harness.divided import first_of, of_toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.core.opening import opening
from frontier_server.core.rows.records import FORMAT, OLDEST_FORMAT
from frontier_server.stores.rocks import RocksStore
from toehold_cli.embedded.directory_frontier import frontier_in, how_to_continue
from toehold_cli.main import run

PAGES = 6
TOEHOLD = (sys.executable, "-m", "toehold_cli")
SPEC = """
name = "crawl"
allowed_addresses = ["loopback"]
[identity]
keep_uris = true
"""
BRISK = (
    "--toes",
    "1",
    "--spec",
    "spec.toml",
    "--min-delay",
    "0",
    "--delay-factor",
    "0",
    "--fetch-timeout",
    "20",
)
HOLDER = """
import sys, time
from pathlib import Path
from toehold_cli.embedded.directory_frontier import frontier_in
with frontier_in(Path(sys.argv[1])) as found:
    print(found.pid, flush=True)
    time.sleep(600)
"""
QUESTIONS = (
    *("status", "stats", "queues", "queues show KEY", "uris", "explain", "outcomes", "outcomes --follow"),
    *("events", "events --follow", "report crawl", "report seeds", "report failures", "report changes"),
    *("refusals", "report hosts", "report sources", "report mimetypes", "report responses"),
    *("report queues", "report nonempty", "seen list", "seen count", "jobs", "nodes", "crawls"),
    *("overrides", "checkpoints"),
)
CHANGES = (
    *("pause", "resume", "stop", "hold", "set weight=2", "seeds add http://127.0.0.1:1/", "delete --yes"),
    *("checkpoints create", "nodes drain embedded"),
)


@pytest.fixture(scope="module")
def site() -> Iterator[SmallSite]:
    with small_site(PAGES) as served:
        yield served


@pytest.fixture(scope="module")
def asked_while_it_ran() -> list[tuple[int, str, str]]:
    """Answers of `stats` from a crawl that ran."""
    return []


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, site: SmallSite, asked_while_it_ran: list[tuple[int, str, str]]
) -> Path:
    """A folder with two crawls: `ended`, and `paused`, of which a page was left."""
    folder = tmp_path_factory.mktemp("asking")
    let_go = site.hold(f"/page/{PAGES - 1}")
    (folder / "spec.toml").write_text(SPEC)
    paused = subprocess.Popen(
        [*TOEHOLD, *of_toehold(("crawl", site.url(), "--dir", "paused", *BRISK))],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually(lambda: site.asked[f"/page/{PAGES - 1}"], "the page that is held")
    asked_while_it_ran.append(toehold(folder, "stats", "--json", "--dir", "paused"))
    paused.send_signal(signal.SIGINT)
    eventually(lambda: "PAUSING" in toehold(folder, "status", "--dir", "paused")[1], "the pause")
    let_go.set()
    assert paused.wait(PATIENCE_S) == 130
    assert toehold(folder, "crawl", site.url(), "--dir", "ended", *BRISK)[0] == 0
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files of all programs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def toehold(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*TOEHOLD, *of_toehold(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def state_of(path: Path) -> dict[str, tuple[int, int, str]]:
    """The content and times of all files and directories."""
    found = {}
    for each in (path, *sorted(path.rglob("*"))):
        status = each.stat()
        digest = hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else ""
        found[str(each.relative_to(path))] = (status.st_mtime_ns, status.st_ctime_ns, digest)
    return found


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"  # an orphan stays a zombie until it is reaped


@pytest.fixture(scope="module")
def read_only(folder: Path) -> Iterator[str]:
    """The address of a frontier that answers questions about the crawl that has ended."""
    with frontier_in(folder / "ended") as found:
        yield found.address


def test_everything_can_be_asked_and_nothing_changes(
    folder: Path, site: SmallSite, read_only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state_of(folder)
    for question in QUESTIONS:
        words = question.replace("KEY", f"127.0.0.1#{site.server_port}").split()
        code = run([*words, "--frontier", read_only])
        told = capsys.readouterr()
        assert (code, told.err) == (0, ""), question
        assert told.out, question
    assert state_of(folder) == before


@pytest.mark.parametrize(
    ("question", "directory"),
    [
        *(("status", "ended"), ("explain", "ended"), ("events --follow", "ended"), ("status", "paused")),
        *(
            pytest.param(question, "paused", marks=pytest.mark.soak("resuming"))
            for question in ("queues", "uris", "explain", "events --follow")
        ),
    ],
)
def test_a_command_opens_the_frontier_by_itself_and_leaves_nothing_behind(
    folder: Path, temporary: Path, question: str, directory: str
) -> None:
    before = state_of(folder)
    code, stdout, stderr = toehold(folder, *question.split(), "--dir", directory)
    assert (code, stderr) == (0, "")
    assert stdout
    assert state_of(folder) == before
    assert not list(temporary.iterdir())


def test_the_answers_are_about_the_crawl_as_it_ended(folder: Path, site: SmallSite) -> None:
    told = json.loads(toehold(folder, "stats", "--json", "--dir", "ended")[1])
    assert (told["status"]["state"], told["statistics"]["succeeded_count"]) == ("FINISHED", PAGES + 1)
    told = json.loads(toehold(folder, "stats", "--json", "--dir", "paused")[1])
    assert told["status"]["state"] == "PAUSED"
    assert "PAUSED" in toehold(folder, "explain", "--dir", "paused")[1].upper()
    assert site.url() in toehold(folder, "report", "seeds", "--dir", "ended")[1]


def test_while_it_ran_the_running_frontier_answered(
    folder: Path, asked_while_it_ran: list[tuple[int, str, str]]
) -> None:
    ((code, stdout, _),) = asked_while_it_ran
    assert (code, json.loads(stdout)["status"]["state"]) == (0, "RUNNING")


def command_of(folder: Path, directory: str) -> str:
    """The last command of a crawl, which is the only one that changes nothing if it is repeated."""
    command = json.loads((folder / directory / "crawl.json").read_text())["command"]
    assert isinstance(command, str)
    return command


def test_no_change_is_accepted(read_only: str, capsys: pytest.CaptureFixture[str]) -> None:
    for change in CHANGES:
        assert run([*change.split(), "--frontier", read_only]) == 5, change
        assert "the frontier was opened read-only" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["pause", "nodes drain embedded"])
def test_a_change_is_told_how_to_continue_the_crawl(folder: Path, site: SmallSite, change: str) -> None:
    before = state_of(folder)
    code, stdout, stderr = toehold(folder, *change.split(), "--dir", "paused")
    assert (code, stdout) == (5, "")
    command = command_of(folder, "paused")
    assert command.endswith(" ".join(of_toehold(("crawl", site.url(), "--dir", "paused", *BRISK))))
    assert stderr == f"Error: the crawl in paused is not running; continue it with: {command}\n"
    assert state_of(folder) == before


def test_a_change_from_elsewhere_is_told_where_to_continue_the_crawl(folder: Path, tmp_path: Path) -> None:
    paused = folder / "paused"
    _, _, stderr = toehold(tmp_path, "resume", "--dir", str(paused))
    assert stderr.endswith(f"continue it with: cd {folder} && {command_of(folder, 'paused')}\n")


@pytest.mark.parametrize(
    ("report", "command", "told"),
    [
        ({}, "crawl URL", "is not running; continue it with: crawl URL"),
        ({}, "", "is not running; continue it with: the `toehold crawl` command that began it"),
        (
            {"state": "FINISHED", "exit_status": "FINISHED"},
            "crawl URL",
            "has finished: nothing was left to fetch\nTo fetch its pages again, add --recrawl to: crawl URL",
        ),
        (
            {"state": "FINISHED", "exit_status": "ABORTED"},
            "crawl URL --recrawl",
            "was stopped\nTo fetch its pages again: crawl URL --recrawl",
        ),
        (
            {
                "state": "FINISHED",
                "exit_status": "FINISHED_DOCUMENT_LIMIT",
                "limit": {"setting": "limits.max_documents", "value": 7},
            },
            "crawl URL",
            "ended at its limit, limits.max_documents = 7\nTo fetch more, run the same command with a higher "
            "--max-pages. It was: crawl URL",
        ),
    ],
)
def test_the_advice_suits_how_the_crawl_ended(
    tmp_path: Path, report: dict[str, object], command: str, told: str
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert how_to_continue(tmp_path, command, "") == f"the crawl in {tmp_path} {told}"


def test_several_may_ask_at_once(folder: Path) -> None:
    processes = [
        subprocess.Popen([*TOEHOLD, "status", "--dir", "ended"], cwd=folder, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert all(b"Finished" in answer for answer in answers)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_command_that_a_signal_ends_leaves_neither_process_nor_file(
    folder: Path, temporary: Path, number: signal.Signals
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, "ended"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdout is not None
    with holder.stdout:
        frontier = int(holder.stdout.readline())
        assert runs(frontier)
        holder.send_signal(number)
        holder.wait(PATIENCE_S)
    eventually(lambda: not runs(frontier), "the end of the frontier")
    assert not list(temporary.iterdir())


def test_a_file_of_a_frontier_that_was_killed_does_not_mislead(folder: Path, tmp_path: Path) -> None:
    """Another program has its process id by now."""
    copy = tmp_path / "copy"
    shutil.copytree(folder / "ended", copy)
    found = {"address": "127.0.0.1:1", "pid": os.getpid(), "crawl": "crawl"}
    (copy / "frontier.json").write_text(json.dumps(found))
    code, stdout, _ = toehold(tmp_path, "status", "--dir", "copy")
    assert (code, "Finished" in stdout) == (0, True)


def test_a_frontier_that_is_starting_or_ending_is_waited_for(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder / "ended", copy)
    holder = "import sys\nfrom pathlib import Path\nfrom frontier_server.stores.rocks import RocksStore\n"
    holder += "store = RocksStore(Path(sys.argv[1]))\nprint(flush=True)\ninput()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(first_of(copy / "frontier") / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        process.stdout.readline()
        code, _, stderr = toehold(tmp_path, "status", "--dir", "copy")
        assert code == 3
        assert stderr == "Error: the frontier of copy is starting or ending; try again soon\n"
        process.kill()
        process.wait(PATIENCE_S)
    assert toehold(tmp_path, "status", "--dir", "copy")[0] == 0


def test_a_directory_without_a_crawl_is_told(tmp_path: Path) -> None:
    code, _, stderr = toehold(tmp_path, "status", "--dir", ".")
    assert (code, stderr) == (2, "Error: . holds no crawl of `toehold crawl`\n")


def test_a_crawl_that_was_killed_before_it_began_is_told(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "ended" / "crawl.json", tmp_path)
    code, _, stderr = toehold(tmp_path, "status", "--dir", ".")
    assert (code, stderr) == (2, "Error: frontier: there is no store in it\n")


def test_a_crawl_of_another_version_is_told(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder / "ended", copy)
    data = first_of(copy / "frontier")
    store = RocksStore(data / "store")
    row = opening.server_row(store)
    row.format = FORMAT + 1
    store.write(opening.server_changes(row))
    store.close()
    code, _, stderr = toehold(tmp_path, "status", "--dir", "copy")
    known = f"format {OLDEST_FORMAT} to {FORMAT} for this version of Toehold"
    told = f"the store must have {known}, got {FORMAT + 1}, "
    assert code == 2 and stderr.startswith(f"Error: {data.relative_to(tmp_path)}: {told}"), stderr
