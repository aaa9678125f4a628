"""Programs as children: how they get ready, how they are stopped, and that none outlives its parent."""

import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from frontier_harness import divided
from frontier_harness.waiting import PATIENCE_S

from toehold_cli.embedded import children
from toehold_cli.embedded.children import Child, Program
from toehold_cli.exits import ChildFailed, Interrupted
from toehold_client.watching.interruptions import Interruptions

READY = 'print("program ready at 1", flush=True)\n'
UNTIL_STDIN_ENDS = READY + "sys.stdin.read()\n"

Start = Callable[[str], Child]


@pytest.fixture
def interruptions() -> Iterator[Interruptions]:
    with Interruptions() as counted:
        yield counted


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a child that runs this Python."""
    started: list[Child] = []

    def start_it(code: str) -> Child:
        command = (sys.executable, "-c", "import os, signal, sys, time\n" + textwrap.dedent(code))
        ready = re.compile(r"program ready at (\d+)")
        started.append(
            Child(Program("program", command, tmp_path / "program.log", ready, {4: "it is in use"}))
        )
        return started[-1]

    yield start_it
    for child in started:
        child.close()


def test_its_ready_line_is_awaited_and_read(start: Start, interruptions: Interruptions) -> None:
    child = start('time.sleep(0.3); sys.stdout.write("program "); sys.stdout.flush(); time.sleep(0.3)\n'
                  'print("ready at 12", flush=True)\nsys.stdin.read()')  # fmt: skip
    assert child.wait_ready(interruptions) == "12"
    assert child.exit_code is None


def test_it_does_not_get_the_credentials_for_frontiers_elsewhere(
    start: Start, interruptions: Interruptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOEHOLD_TLS_CA", "ca.crt")
    monkeypatch.setenv("TOEHOLD_TOKEN_FILE", "token")
    monkeypatch.setenv("TOEHOLD_OTHER", "kept")
    monkeypatch.delenv(divided.VARIABLE, raising=False)
    child = start('print("program ready at", sum(name.startswith("TOEHOLD_") for name in os.environ))')
    assert child.wait_ready(interruptions) == "1"


def test_one_that_ends_instead_is_told_with_its_exit_code_and_the_end_of_its_log(
    start: Start, interruptions: Interruptions, tmp_path: Path
) -> None:
    (tmp_path / "program.log").write_text("said by an earlier run\n")
    child = start("""
        for n in range(20):
            print("line", n, file=sys.stderr)
        print('{"event": "gave up", "level": "error", "cause": "\\\\u001b[2Jlock"}', file=sys.stderr)
        sys.exit(4)
    """)
    with pytest.raises(ChildFailed) as failure:
        child.wait_ready(interruptions)
    told = str(failure.value).split("\n")
    assert told[0] == "the program ended with exit code 4 (it is in use)"
    assert told[-2:] == ["  line 19", r"  error gave up cause=\x1b[2Jlock"]
    assert len(told) < 10


def test_the_last_sentence_of_a_program_is_told_although_it_has_logged_more(
    start: Start, interruptions: Interruptions
) -> None:
    child = start("""
        print("the store is damaged", file=sys.stderr)
        for n in range(20):
            print('{"event": "stopped", "level": "info"}', file=sys.stderr)
        sys.exit(4)
    """)
    with pytest.raises(ChildFailed) as failure:
        child.wait_ready(interruptions)
    assert str(failure.value).split("\n")[2:] == ["  the store is damaged", *["  info stopped"] * 5]


def test_an_earlier_runs_log_is_not_taken_for_its_own(
    start: Start, interruptions: Interruptions, tmp_path: Path
) -> None:
    (tmp_path / "program.log").write_text("said by an earlier run\n")
    child = start("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ChildFailed) as failure:
        child.wait_ready(interruptions)
    assert str(failure.value) == "the program was killed by signal 9"


def test_one_that_says_something_else_is_not_ready(start: Start, interruptions: Interruptions) -> None:
    child = start('print("hello", flush=True); sys.stdin.read()')
    with pytest.raises(ChildFailed, match="must be its ready line, got 'hello'"):
        child.wait_ready(interruptions)


def test_one_that_says_nothing_is_given_up(
    start: Start, interruptions: Interruptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "READY_S", 0.3)
    child = start("sys.stdin.read()")
    with pytest.raises(ChildFailed, match="was not ready within"):
        child.wait_ready(interruptions)


def test_a_program_that_does_not_exist_is_told(tmp_path: Path) -> None:
    program = Program("program", (str(tmp_path / "none"),), tmp_path / "log", re.compile("(.)"), {})
    with pytest.raises(ChildFailed, match="the program cannot be started"):
        Child(program)


def test_a_signal_ends_the_wait_for_it_unless_it_is_allowed(
    start: Start, interruptions: Interruptions
) -> None:
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted):
        start("sys.stdin.read()").wait_ready(interruptions)
    assert start(UNTIL_STDIN_ENDS).wait_ready(interruptions, most_signals=1) == "1"


def test_it_is_asked_once_to_end_and_given_time(
    start: Start, interruptions: Interruptions, tmp_path: Path
) -> None:
    child = start(f"""
        asked = []
        signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
        {READY.strip()}
        while not asked:
            time.sleep(0.05)
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            time.sleep(0.05)
        print(len(asked), file=sys.stderr)
    """)
    child.wait_ready(interruptions)
    assert child.stop(interruptions, PATIENCE_S)
    assert child.exit_code == 0
    assert (tmp_path / "program.log").read_text() == "1\n"


TWICE = f"""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    {READY.strip()}
    while len(asked) < 2:
        time.sleep(0.05)
"""


def test_in_a_hurry_it_is_asked_again(start: Start, interruptions: Interruptions) -> None:
    child = start(TWICE)
    child.wait_ready(interruptions)
    assert child.stop(interruptions, PATIENCE_S, hurry=True)
    assert child.exit_code == 0


def test_a_second_signal_makes_it_a_hurry(start: Start, interruptions: Interruptions) -> None:
    child = start(TWICE)
    child.wait_ready(interruptions)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert child.stop(interruptions, PATIENCE_S)


def test_one_that_does_not_end_is_killed(start: Start, interruptions: Interruptions) -> None:
    child = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "time.sleep(600)")
    child.wait_ready(interruptions)
    assert not child.stop(interruptions, 0.5)
    assert child.exit_code == -signal.SIGKILL


def test_it_has_a_session_of_its_own_so_that_ctrl_c_is_not_for_it(
    start: Start, interruptions: Interruptions
) -> None:
    child = start(UNTIL_STDIN_ENDS)
    child.wait_ready(interruptions)
    assert os.getsid(child.pid) == child.pid != os.getsid(0)


PARENT = """
import re, sys, time
from pathlib import Path
from toehold_cli.embedded.children import Child, Program
from toehold_client.watching.interruptions import Interruptions
code = 'print("ready: 1", flush=True); import sys; sys.stdin.read()'
with Interruptions() as interruptions:
    for _ in range(2):
        command = (sys.executable, "-c", code)
        child = Child(Program("program", command, Path(sys.argv[1]), re.compile("ready: (.)"), {}))
        child.wait_ready(interruptions)
        print(child.pid, flush=True)
    time.sleep(600)
"""


def test_killing_the_parent_leaves_no_child_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        watched = [os.pidfd_open(int(parent.stdout.readline())) for _ in range(2)]
        parent.kill()
    try:
        for child in watched:
            assert select.select([child], [], [], PATIENCE_S)[0], "it still runs"
    finally:
        for child in watched:
            os.close(child)


# Interruptions


def test_signals_are_counted_and_cut_a_wait_short(interruptions: Interruptions) -> None:
    before = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
    interruptions.wait(PATIENCE_S)
    os.kill(os.getpid(), signal.SIGHUP)
    interruptions.wait(PATIENCE_S)
    assert interruptions.count == 2
    assert time.monotonic() - before < PATIENCE_S / 2
    interruptions.wait(0.01)
    assert interruptions.count == 2


def test_a_wait_tells_whether_what_it_waited_for_can_be_read(interruptions: Interruptions) -> None:
    read_end, write_end = os.pipe()
    try:
        assert not interruptions.wait(0.01, read_end)
        os.write(write_end, b"x")
        assert interruptions.wait(PATIENCE_S, read_end)
    finally:
        os.close(read_end)
        os.close(write_end)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Interruptions():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


def test_under_nohup_a_hang_up_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruptions() as counted:
            os.kill(os.getpid(), signal.SIGHUP)
            counted.wait(0.05)
            assert counted.count == 0
    finally:
        signal.signal(signal.SIGHUP, before)
