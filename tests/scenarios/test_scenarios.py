"""The transcripts beside this file, played. `player` tells how to read one."""

from pathlib import Path

import pytest
from scenarios.player import ANSWER, STEP, played

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


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
