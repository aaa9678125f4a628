"""Each RPC is a question, or changes something: a frontier that was opened read-only refuses the latter."""

import pytest
from frontier_harness.every_rpc import RPCS

from frontier_server.service.questions import QUESTIONS

CHANGES = {
    "Schedule",
    "Next",
    "Finished",
    "Heartbeat",
    "RequestState",
    "CreateCrawl",
    "AddSeeds",
    "AddSeedBatch",
    "LaunchCrawl",
    "ReopenCrawl",
    "UpdateCrawl",
    "TearDownCrawl",
    "DeleteCrawl",
    "UpdateQueue",
    "NoteUris",
    "ForgetUris",
    "ImportUris",
    "StartJob",
    "CancelJob",
    "PutOverride",
    "DeleteOverride",
    "CreateCheckpoint",
    "DeleteCheckpoint",
    "SetPoolSize",
    "DrainNode",
    "ForgetNode",
}
"""A new RPC belongs here or in QUESTIONS."""


@pytest.mark.parametrize("rpc", RPCS)
def test_each_rpc_is_a_question_or_a_change(rpc: str) -> None:
    assert (rpc in QUESTIONS) is not (rpc in CHANGES)


def test_no_other_rpc_is_listed() -> None:
    assert set(RPCS) == CHANGES | QUESTIONS


def test_no_change_has_a_stream_of_answers() -> None:
    """One refusal then fits them all."""
    assert not [rpc for rpc in CHANGES if RPCS[rpc].server_streaming]
