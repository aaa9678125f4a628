"""Files of processes that were killed: a repair keeps every page that was durable."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from node_doubles.warcs import bodies, check, digest_of, files, left_behind, mend, visit

from crawler_node.output.rotation import Rotation
from crawler_node.output.warc import WarcWriter

_WRITE = """
import os, random, sys
sys.path[:0] = {path!r}
from pathlib import Path
from node_doubles.warcs import visit
from crawler_node.output.rotation import Rotation
from crawler_node.output.warc import WarcWriter

writer = WarcWriter(Path(sys.argv[1]), "node", rotation=Rotation(max_bytes=500_000))
n = 0
while True:
    body = random.Random(n).randbytes(n * 7919 % 150_000)
    writer.append(visit(f"http://a.example/{{n}}", body))
    if n % 5 == 0:
        writer.sync()
        os.write(1, b"%d\\n" % n)
    n += 1
"""


def writing(directory: Path) -> "subprocess.Popen[bytes]":
    script = _WRITE.format(path=[path for path in sys.path if path])
    return subprocess.Popen([sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE)


def test_after_kill_9_every_page_that_was_durable_replays_byte_for_byte(tmp_path: Path) -> None:
    durable = -1
    for kill in range(3):
        directory = tmp_path / str(kill)
        process = writing(directory)
        assert process.stdout is not None
        for _ in range(5 + kill):
            durable = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            durable = int(line)
        process.wait()
        process.stdout.close()
        assert len(list(directory.glob("*.open"))) <= 1
        mend(directory)
        assert all(path.name.endswith(".warc.gz") for path in files(directory))
        assert len(files(directory)) > 1
        found = bodies(directory)
        for n in range(durable + 1):
            expected = random.Random(n).randbytes(n * 7919 % 150_000)
            assert found[f"http://a.example/{n}"] == expected


def test_a_process_that_lives_keeps_its_file_while_others_are_repaired(tmp_path: Path) -> None:
    """Whoever repairs first, no file of a living process is touched; that of a dead one is, once."""
    living, dead = writing(tmp_path), writing(tmp_path)
    try:
        for process in (living, dead):
            assert process.stdout is not None
            process.stdout.readline()
        dead.kill()
        dead.wait()
        mend(tmp_path)
        open_now = [path.name for path in tmp_path.glob("*.open")]
        assert all(f"~{living.pid}." in name for name in open_now)
        assert any(f"~{dead.pid}." in path.name for path in tmp_path.glob("*.gz"))
    finally:
        for process in (living, dead):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    mend(tmp_path)
    assert not list(tmp_path.glob("*.open"))
    assert bodies(tmp_path)


def test_revisits_and_rolled_files_are_read_by_others_after_a_kill(tmp_path: Path) -> None:
    path = left_behind(tmp_path / "a", 1)
    writer = WarcWriter(tmp_path / "a", "other", rotation=Rotation(max_bytes=1000))
    writer.append(visit("http://a.example/0", b"page 0", last_digest=digest_of(b"page 0"), capture_ms=1))
    writer.append(visit("http://a.example/1", os.urandom(2000)))
    writer.close()
    mend(tmp_path / "a")
    assert path.with_suffix("").exists() and len(files(tmp_path / "a")) == 3
    for each in files(tmp_path / "a"):
        check(each)
    assert bodies(tmp_path / "a")["http://a.example/0"] == b"page 0"
