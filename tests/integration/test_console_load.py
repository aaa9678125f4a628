"""The console under load, at its end, and with data that changes under it."""

from __future__ import annotations

from pathlib import Path

from frontier_harness.access import Installation
from frontier_harness.console import ConsoleProcess
from frontier_harness.process import ServerProcess


def thread_count(console: ConsoleProcess) -> int:
    return len(list(Path(f"/proc/{console.child.pid}/task").iterdir()))


def test_questions_about_crawls_that_nobody_may_see_take_no_threads(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    token = installation.caller("watch", "watch")
    with (
        ServerProcess(tmp_path / "data", "--callers", str(installation.callers)) as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):

        def answers(token: str, count: int) -> set[int]:
            headers = {"authorization": f"Bearer {token}"}
            paths = [f"/console/crawls/{number}/settings" for number in range(count)]
            return {console.http.get(path, headers=headers).status_code for path in paths}

        assert answers("nobody", 3) == {401}
        before = thread_count(console)
        assert answers("nobody", 60) == {401}
        assert answers(token, 60) == {404}
        assert thread_count(console) < before + 30  # pools may grow a little
