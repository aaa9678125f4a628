"""What a node writes, all of it at once, through a `kill -9`: archives, data, a user's function, and logs."""

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

from acceptance.hooks import fails_at
from acceptance.judging import in_flight
from acceptance.outcomes import closed_files, open_files
from acceptance.parts import Parts
from frontier_harness.waiting import eventually

from practice_web.truth import LATE


def lines_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The pages that are told of in JSON Lines, by URL; of those fetched twice the last."""
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        text = file.read_bytes()
        assert text.endswith(b"\n"), file
        for line in text.splitlines():
            page = json.loads(line)
            found[page["url"]] = page
    return found


def test_whatever_was_reported_is_in_every_kind_of_file_after_kill_9(parts: Parts, tmp_path: Path) -> None:
    pages, logs = tmp_path / "pages", tmp_path / "logs"
    options = [
        *("--pages", str(pages), "--pages-text", "html", "--logs", str(logs)),
        *("--hook", "acceptance.hooks:digests", "--file-prefix", "practice"),
    ]
    node = parts.node("writer", *options)
    parts.launch()
    eventually(lambda: len(parts.pages) >= 40, "pages of the node")
    moment = node.kill()
    assert list(pages.glob("*.open")) and open_files(parts.warcs("writer"))
    node = parts.node("writer", *options)
    parts.until_finished()
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints

    # Nothing is left open or torn; every WARC file is good, and has the bytes of every page.
    assert {file.suffix for file in pages.iterdir()} == {".jsonl"}
    assert {file.suffix for file in parts.warcs("writer").iterdir()} == {".gz"}
    assert len(closed_files(parts.warcs("writer"))) == 2
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []

    lines = lines_of(pages)
    failed = 0
    for page in parts.pages:
        if page.status <= 0:
            assert page.url not in lines
            continue
        line = lines[page.url]
        assert (line["status"], line["path"]) == (page.status, page.path.replace("-", ""))
        hook_failed = fails_at(page.url)
        assert ("hookFailed" in page.annotations) == hook_failed
        failed += hook_failed
        place = parts.web.web.find(page.url)
        assert place is not None
        served = parts.web.web.reply(*place, LATE)
        if line["truncated"] is None and served.encoded_as is None:
            body = served.body * served.repeat
            expected = None if hook_failed else {"sha1": hashlib.sha1(body).hexdigest()}
            assert line.get("extra") == expected, page.url
    assert failed
    assert "LookupError: no page of that name" in (logs / "runtime-errors.log").read_text()
    assert any(line["html"] and line["title"] for line in lines.values())
    assert any(line["links"] for line in lines.values())
